"""Whole pipelines of other people's frameworks, interrupted in mid-answer, with a chat endpoint that streams slowly."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from chat_endpoint import REPLY, chat_endpoint
from recipes import made
from support import RATE, Daemon, Speech, heard_as, took, words

Requests = list[dict[str, Any]]


@pytest.fixture(scope="module")
def chat() -> Iterator[tuple[str, Requests]]:
    """The chat endpoint, with a story first, and what it is asked."""
    with chat_endpoint(story=True) as running:
        yield running


@pytest.fixture(scope="module")
def partner(serve: Callable[..., AbstractContextManager[Daemon]], chat: tuple[str, Requests]) -> Iterator[Daemon]:
    """A daemon that also answers by way of the chat endpoint."""
    with serve("--llm-url", chat[0]) as one:
        yield one


@pytest.mark.parametrize("how", ["Realtime", "ears and voice", "Flux"])
def test_livekit_agent_session(
    partner: Daemon, chat: tuple[str, Requests], speech: Speech, pcm: bytes, how: str
) -> None:
    """An AgentSession by Realtime; and of Deepgram's ears, a chat model and Deepgram's voice."""
    from livekit.agents import Agent
    from livekit.agents.utils import http_context
    from livekit_ends import Loudspeaker, Microphone, until

    url, requests = chat
    requests.clear()

    async def run() -> list[str]:
        async with http_context.open():
            session = made(f"LiveKit, {how}", partner, url)["session"]
            errors: list[Any] = []
            session.on("error", errors.append)
            microphone, loudspeaker = Microphone(24_000), Loudspeaker(24_000)
            session.input.audio, session.output.audio = microphone, loudspeaker
            await session.start(agent=Agent(instructions="Be brief."))
            microphone.say(pcm)
            await until("an answer", lambda: loudspeaker.began, told=errors)
            took(f"LiveKit, {how}", "answer after the end of speech", loudspeaker.began[0] - microphone.quiet_since + 1)
            await asyncio.sleep(1.5)  # the story goes on and on
            over = time.monotonic()
            microphone.say(pcm)
            await until("silence", lambda: loudspeaker.silenced, told=errors)
            took(f"LiveKit, {how}", "silence after speech over it began", loudspeaker.silenced[0] - over)
            await until("a second answer", lambda: len(loudspeaker.began) > 1, told=errors)
            await until("its end", lambda: REPLY in _said(session, "assistant"), told=errors)
            assert not errors, errors
            said = _said(session, "user")
            await session.aclose()
            return said

    heard = asyncio.run(run())
    assert len(heard) >= 2 and heard_as(" ".join(heard), f"{speech.text} {speech.text}") > 0.75, heard
    story = [message for message in requests[-1]["messages"] if message["role"] == "assistant"]
    assert story and 0 < len(words(str(story[0]["content"]))) < 200, "what was not heard is not in the context"


def _said(session: Any, role: str) -> list[str]:
    return [item.text_content for item in session.history.items if getattr(item, "role", None) == role]


@pytest.mark.parametrize("how", ["Realtime", "Flux"])
def test_pipecat_pipeline(partner: Daemon, chat: tuple[str, Requests], speech: Speech, pcm: bytes, how: str) -> None:
    """Realtime; and Flux's ears, a chat model and Deepgram's voice, whose turns Flux tells."""
    from pipecat.frames.frames import ErrorFrame, Frame, InputAudioRawFrame, InterruptionFrame, TTSAudioRawFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.runner import PipelineRunner
    from pipecat.pipeline.task import PipelineParams, PipelineTask
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import (
        LLMContextAggregatorPair,
        LLMUserAggregatorParams,
    )
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies

    url, requests = chat
    requests.clear()
    seen: list[tuple[float, Any]] = []

    class Sink(FrameProcessor):
        async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TTSAudioRawFrame | InterruptionFrame | ErrorFrame):
                seen.append((time.monotonic(), frame))
            await self.push_frame(frame, direction)

    def when(kind: type, after: float = 0.0) -> float | None:
        return next((at for at, frame in seen if isinstance(frame, kind) and at > after), None)

    async def until(what: str, holds: Callable[[], Any]) -> Any:
        for _ in range(2000):
            if found := holds():
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what} never came; {[frame for _, frame in seen if isinstance(frame, ErrorFrame)]}")

    async def run() -> None:
        turns = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
        pair = LLMContextAggregatorPair(LLMContext([]), user_params=turns)
        names = made(f"Pipecat, {how}", partner, url)
        if how == "Realtime":
            parts: list[Any] = [pair.user(), names["llm"]]
            rate, said = 24_000, pcm
        else:
            parts = [names["stt"], pair.user(), names["llm"], names["tts"]]
            rate, said = RATE, speech.pcm + bytes(2 * RATE)
        pipeline = Pipeline([*parts, Sink(), pair.assistant()])
        task = PipelineTask(pipeline, params=PipelineParams(audio_in_sample_rate=rate), cancel_on_idle_timeout=False)
        running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
        waiting = bytearray()

        async def microphone() -> None:
            size, due = rate // 50 * 2, time.monotonic()
            while True:
                piece = bytes(waiting[:size]).ljust(size, b"\0")
                del waiting[:size]
                await task.queue_frame(InputAudioRawFrame(piece, rate, 1))
                due = max(due + 0.02, time.monotonic() - 0.1)
                await asyncio.sleep(max(0.0, due - time.monotonic()))

        talking = asyncio.create_task(microphone())
        try:
            await asyncio.sleep(1.5)
            waiting.extend(said)
            await until("what was said", lambda: not waiting)
            ended = time.monotonic()
            began = await until("an answer", lambda: when(TTSAudioRawFrame))
            took(f"Pipecat, {how}", "answer after the end of speech", began - ended + 1)
            await asyncio.sleep(1.0)
            over = time.monotonic()
            waiting.extend(said)
            cut = await until("an interruption", lambda: when(InterruptionFrame, over))
            took(f"Pipecat, {how}", "cut after speech over it began", cut - over)
            await until("a second question", lambda: len(requests) > 1 and _asked(requests[-1]) > 1)
            await until("a second answer", lambda: when(TTSAudioRawFrame, cut + 0.5))
            assert when(ErrorFrame) is None, seen
        finally:
            talking.cancel()
            await task.cancel()
            await running

    asyncio.run(run())
    questions = [message["content"] for message in requests[-1]["messages"] if message["role"] == "user"]
    heard = " ".join(str(question) for question in questions)
    assert heard_as(heard, f"{speech.text} {speech.text}") > 0.75, questions


def _asked(request: dict[str, Any]) -> int:
    return sum(message["role"] == "user" for message in request["messages"])
