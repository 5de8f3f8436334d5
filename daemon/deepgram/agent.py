"""``/v1/agent/converse``: Deepgram's voice agent, which is the conversation of ``/v1/realtime`` in other words.

The daemon hears and speaks, and the chat endpoint of the operator (``llm_url``) thinks, whatever providers are named.
"""

import base64
import time
from typing import Any, Final

import msgspec
from starlette.types import Message, Receive, Scope, Send

from daemon.deepgram import agent_messages as said
from daemon.duplex import Ending, echoed
from daemon.hub import Hub
from daemon.messages import decoded
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.capability import check_answers
from daemon.openai.realtime.config import Config
from daemon.openai.realtime.conversation import created
from daemon.openai.realtime.items import Content, Item
from daemon.openai.realtime.response import Response
from daemon.openai.realtime.session import RealtimeStream
from daemon.openai.realtime.spec import Invalid
from daemon.paths import AGENT
from daemon.refusal import Refused

_FORMATS: Final = {"linear16": "audio/pcm", "mulaw": "audio/pcmu", "alaw": "audio/pcma"}
_RATE: Final = 24_000
"""The sample rate in Hz of linear16 if the client does not tell it."""


async def agent(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, and run the conversation."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{AGENT.path} is a WebSocket")
    hub.hearing_model()
    check_answers(hub)
    config = Config.initial("realtime", seconds=hub.settings.max_session_seconds)
    await AgentStream(hub, config, receive, send).run(echoed(scope))


class AgentStream(RealtimeStream):
    """One conversation."""

    _commands = said.commands
    _opens_late = True

    def __init__(self, hub: Hub, config: Config, receive: Receive, send: Send) -> None:
        super().__init__(hub, config, receive, send)
        self._applied = ""
        """The type of the message that answers the update under way."""
        self._calls: set[str] = set()
        """The ids of function calls without a result."""
        self._due = False
        """Whether all results have come, so that the agent answers them when the response that made the calls ends."""
        self._asked_at = self._text_at = 0.0
        """The ``time.monotonic()`` at which the present response began, and that of its first text."""
        self._sounded = True
        """Whether the client was told that the agent speaks."""

    async def _open(self, message: Message) -> bool:
        text = message.get("text")
        return text is not None and isinstance(decoded(text, self._commands), said.Settings)

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        if self._ending is None:
            self._append(data)

    def _misunderstood(self, reason: str, text: str) -> None:
        del text
        self._complain(Invalid(None, reason, "UNPARSABLE_CLIENT_MESSAGE"))

    async def _act(self, command: Any) -> None:
        match command:
            case said.Settings() if self._applied:
                raise Invalid(None, "Settings come once, as the first message", "SETTINGS_ALREADY_APPLIED")
            case said.Settings():
                await self._settle(command)
            case said.UpdatePrompt():
                await self._change("PromptUpdated", {"instructions": command.prompt})
            case said.UpdateSpeak():
                await self._change("SpeakUpdated", {"audio": {"output": _voice(command.speak)}})
            case said.UpdateThink():
                await self._change("ThinkUpdated", _thought(command.think))
            case said.InjectUserMessage():
                self._tell("ConversationText", role="user", content=command.content)
                self.join(created(Item("message", role="user", content=[Content("input_text", text=command.content)])))
                self._create({}, self._answer_spec({}))
            case said.InjectAgentMessage():
                self._inject(command.message)
            case said.FunctionCallResponse():
                self._take_result(command)
            case _:
                pass

    async def _settle(self, command: said.Settings) -> None:
        agent, audio = command.agent, command.audio
        listen = (agent.listen or said.Listen()).provider
        heard = {"language": listen.language or agent.language, "keywords": listen.keyterms}
        try:
            sides = {
                "input": {"format": _format("input", audio.input), "transcription": heard},
                "output": {"format": _format("output", audio.output), **_voice(agent.speak)},
            }
            await self._change("SettingsApplied", {**_thought(agent.think), "audio": sides})
        except (Invalid, Refused) as error:
            self._end(Ending(1008, "INVALID_SETTINGS", str(error)))
            return
        if agent.greeting:
            self._create({}, self._answer_spec({}), agent.greeting)

    async def _change(self, answer: str, patch: dict[str, Any]) -> None:
        self._applied = answer
        await self._update({"type": "realtime", **patch}, is_beta=None)

    def _inject(self, message: str) -> None:
        try:
            self._create({}, self._answer_spec({}), message)
        except Invalid as error:
            if error.code != "conversation_already_has_active_response":
                raise
            self._tell("InjectionRefused", message="the agent is answering; this message was not taken")

    def _take_result(self, command: said.FunctionCallResponse) -> None:
        if command.id not in self._calls:
            raise Invalid("id", f"id: no function call {command.id[:80]!r} is awaited", "INVALID_FUNCTION_CALL_ID")
        self._calls.remove(command.id)
        self.join(created(Item("function_call_output", call_id=command.id, output=command.content)))
        self._due = not self._calls
        self._answer_results()

    def _answer_results(self) -> None:
        if self._due and self._response is None and self._ending is None:
            self._due = False
            self._create({}, self._answer_spec({}))

    def finished(self, response: Response) -> None:
        """Note that a response is over. If the results of its function calls have come already, answer them."""
        super().finished(response)
        self._answer_results()

    # ------------------------------------------------------------------------------------------------ out

    def _tell(self, kind: str, *, owed: bool = False, **fields: Any) -> None:
        self._outbox.put(msgspec.json.encode({"type": kind, **fields}), owed=owed)

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Send the client Deepgram's message for an event, if there is one."""
        match event:
            case wire.SessionCreated():
                self._tell("Welcome", request_id=self._id)
            case wire.SessionUpdated():
                self._tell(self._applied)
                for warning in event.session.get("warnings", ()):
                    self._tell("Warning", code="NOT_HONOURED", description=warning)
            case wire.SpeechStarted():
                self._tell("UserStartedSpeaking")
            case wire.TranscriptionCompleted() if event.transcript:
                self._tell("ConversationText", role="user", content=event.transcript, owed=owed)
            case wire.ResponseCreated():
                self._asked_at, self._text_at, self._sounded = time.monotonic(), 0.0, False
                self._tell("AgentThinking", content="")
            case wire.AudioTranscriptDelta():
                self._text_at = self._text_at or time.monotonic()
            case wire.AudioTranscriptDone() if event.transcript:
                self._tell("ConversationText", role="assistant", content=event.transcript, owed=owed)
            case wire.AudioDone():
                self._tell("AgentAudioDone")
            case wire.ArgumentsDone():
                self._calls.add(event.call_id)
                call = {"id": event.call_id, "name": event.name, "arguments": event.arguments, "client_side": True}
                self._tell("FunctionCallRequest", functions=[call], owed=owed)
            case wire.ResponseDone():
                details = event.response.status_details
                if details is not None and details.error is not None:
                    self._tell("Error", code=details.error.code, description=details.error.message)
            case wire.Error():
                self._tell("Error", code=event.error.code or "", description=event.error.message)
            case wire.TranscriptionFailed():
                self._tell("Warning", code=event.error.code, description=event.error.message)
            case _:
                pass

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Send sound, as long as nobody interrupts."""
        if not self._sounded:
            self._sounded = True
            total, thought = time.monotonic() - self._asked_at, self._text_at - self._asked_at
            total, thought = round(total, 4), round(thought, 4)
            self._tell(
                "AgentStartedSpeaking", total_latency=total, ttt_latency=thought, tts_latency=round(total - thought, 4)
            )
        self._outbox.put_sound(base64.b64decode(event.delta))


def _format(side: str, given: said.AudioFormat | None) -> dict[str, Any]:
    """
    Raises:
        Invalid: the format is none that is sent raw.
    """
    given = given or said.AudioFormat()
    kind = _FORMATS.get(given.encoding)
    if kind is None:
        told = f"{given.encoding[:80]!r} is none of {', '.join(_FORMATS)}"
        raise Invalid(f"audio.{side}.encoding", f"audio.{side}.encoding: {told}")
    if given.container not in (None, "", "none"):
        raise Invalid(f"audio.{side}.container", f"audio.{side}.container: sound comes raw here: none")
    return {"type": kind, "rate": given.sample_rate or (_RATE if kind == "audio/pcm" else None)}


def _voice(given: said.Speak | list[said.Speak] | None) -> dict[str, Any]:
    first = (given[0] if given else None) if isinstance(given, list) else given
    if first is None:
        return {}
    asked = first.provider.voice or first.provider.model
    if isinstance(asked, dict):
        asked = next((value for value in asked.values() if isinstance(value, str)), None)  # pyright: ignore
    return {"voice": asked} if isinstance(asked, str) else {}


def _thought(given: said.Think | list[said.Think] | None) -> dict[str, Any]:
    """The part of a session's object that says how answers are made."""
    first = (given[0] if given else None) if isinstance(given, list) else given
    if first is None:
        return {}
    tools = [
        {"type": "function", "name": one.name, "description": one.description, "parameters": one.parameters}
        for one in first.functions or []
    ]
    return {"instructions": first.prompt or "", "temperature": first.provider.temperature, "tools": tools}
