"""Every recipe of docs/recipes.md that is no pipeline; those are in test_pipelines.py and test_gateways.py."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from chat_endpoint import REPLY, chat_endpoint
from recipes import TITLES, inside, made, recipe
from support import NODE, Daemon, Speech, words

ELSEWHERE = {
    "LiveKit, Realtime", "LiveKit, ears and voice", "LiveKit, Flux", "Pipecat, Realtime", "Pipecat, Flux",
    "LiteLLM's proxy",
}  # fmt: skip
"""Run in whole pipelines."""
HERE = {
    "OpenAI, Python", "OpenAI, JavaScript", "OpenAI agents, Python", "OpenAI agents, JavaScript", "Deepgram, Python",
    "Deepgram, JavaScript", "Vercel's ai",
}  # fmt: skip


@pytest.fixture(scope="module")
def partner(serve: Callable[..., AbstractContextManager[Daemon]]) -> Iterator[Daemon]:
    """A daemon that answers by way of a chat endpoint."""
    with chat_endpoint() as (url, _), serve("--llm-url", url) as one:
        yield one


@pytest.fixture
def folder(speech: Speech, tmp_path: Path) -> Path:
    """Where the recipes find speech.flac."""
    (tmp_path / "speech.flac").write_bytes(speech.path.read_bytes())
    return tmp_path


def test_every_recipe_is_run() -> None:
    assert set(TITLES) == ELSEWHERE | HERE


@pytest.mark.parametrize("title", ["OpenAI, JavaScript", "Deepgram, JavaScript", "Vercel's ai"])
def test_files_in_javascript(
    title: str, daemon: Daemon, speech: Speech, folder: Path, node: Callable[..., str]
) -> None:
    """As it stands on the page, it prints what was said."""
    code = recipe(title, daemon).replace("'speech.flac'", f"'{folder / 'speech.flac'}'")
    script = NODE / "recipe.mjs"
    script.write_text(code, encoding="utf-8")
    for line in node("recipe.mjs").splitlines():
        assert words(line) == words(speech.text)


def test_openai_python(daemon: Daemon, speech: Speech, folder: Path) -> None:
    """A recording and a text."""
    with inside(folder):
        assert made("OpenAI, Python", daemon)["heard"].text == speech.text
    assert (folder / "speech.mp3").stat().st_size > 2000


def test_deepgram_python(daemon: Daemon, speech: Speech, folder: Path) -> None:
    """A recording."""
    with inside(folder):
        heard = made("Deepgram, Python", daemon)["heard"]
    assert heard.results.channels[0].alternatives[0].transcript == speech.text


def test_agents_python(partner: Daemon) -> None:
    """A question in writing, an answer aloud."""

    async def run() -> int:
        names, sound = made("OpenAI agents, Python", partner), 0
        async with asyncio.timeout(60), await names["runner"].run(model_config=names["where"]) as session:
            await session.send_message("When did they come home?")
            async for event in session:
                assert event.type != "error", event
                if event.type == "audio":
                    sound += len(event.audio.data)
                elif event.type == "audio_end":
                    return sound
        return sound

    assert asyncio.run(run()) > 24_000


def test_agents_javascript(partner: Daemon, node: Callable[..., str]) -> None:
    """The same; the page's code does not end by itself."""
    code = recipe("OpenAI agents, JavaScript", partner)
    code += "session.on('agent_end', () => setTimeout(() => process.exit(0), 100));\n"
    (NODE / "recipe.mjs").write_text(code, encoding="utf-8")
    assert node("recipe.mjs").strip() == REPLY
