"""``hearsay mcp``: hearing and saying as tools of an agent, by the Model Context Protocol on stdin and stdout."""

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from commands.console import (
    MISUSED,
    Device,
    Failure,
    Key,
    Model,
    Threads,
    TtsModel,
    Url,
    culprit,
    is_expected,
    prose,
    reason,
)

HELP = prose("""
Let an agent transcribe files, say texts, list voices.

It speaks the Model Context Protocol on stdin and stdout. Without --url models are loaded in this process when they
are first needed. Needs: pip install 'hearsay[mcp]'.
""")
EPILOG = "Example: claude mcp add hearsay -- hearsay mcp --url http://127.0.0.1:8750"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("mcp", help=HELP, epilog=EPILOG)(mcp)


def mcp(
    model: Model = None,
    tts_model: TtsModel = None,
    threads: Threads = None,
    device: Device = "auto",
    url: Url = None,
    key: Key = None,
) -> None:
    """See HELP."""
    try:
        server: Any = importlib.import_module("mcp.server.mcpserver").MCPServer("hearsay")
    except ImportError as error:
        raise Failure(f"the package mcp is not installed ({error.name}): pip install 'hearsay[mcp]'", MISUSED) from None
    tools = Tools(model, tts_model, threads, device, url, key)
    for tool in (tools.transcribe, tools.say, tools.list_voices):
        server.tool()(_told(tool, importlib.import_module("mcp.server.mcpserver.exceptions").ToolError))
    server.run("stdio")


def _told(tool: Callable[..., Awaitable[Any]], error_of_a_tool: type[Exception]) -> Callable[..., Awaitable[Any]]:
    """``tool`` whose expected errors reach the agent as text, and are no defect in the log."""

    @wraps(tool)
    async def told(*arguments: Any, **named: Any) -> Any:
        try:
            return await tool(*arguments, **named)
        except Exception as raised:
            error = culprit(raised)
            if is_expected(error) is None:
                raise
            raise error_of_a_tool(reason(error)) from None

    return told


@dataclass(slots=True)
class Tools:
    """What an agent may call. Errors reach it as text."""

    model: str | None
    tts_model: str | None
    threads: int | None
    device: str
    url: str | None
    key: str | None
    _hearing: dict[str | None, Callable[[Path, Callable[[float], None]], dict[str, Any]]] = field(
        default_factory=dict[str | None, Any]
    )
    """What hears each language that was asked for."""
    _alone: threading.Lock = field(default_factory=threading.Lock)
    """Held while one file is heard: there is one model, and no hurry."""

    async def transcribe(self, path: str, language: str | None = None) -> dict[str, Any]:
        """Write down what is said in a recording or film of this machine: text, language, seconds, and segments with
        their times. language is its ISO 639-1 code, where that is known."""
        answer = await asyncio.to_thread(self._hear, path, language)
        segments = [{name: one[name] for name in ("start", "end", "text")} for one in answer["segments"]]
        return {name: answer[name] for name in ("text", "language", "duration")} | {"segments": segments}

    async def say(self, text: str, file: str | None = None, voice: str | None = None, speed: float = 1.0) -> str:
        """Say a text: aloud on this machine, or into a new sound file (.wav, .mp3, .flac, .opus). voice is an id of
        list_voices."""
        from commands import text as texts
        from commands.local import Local
        from commands.remote import RATE, Remote
        from commands.say import speak
        from commands.sink import Aloud, File
        from commands.speech import Manner, speaking_model

        output = None if file is None else _new(file)
        aloud = Aloud(RATE, None) if output is None else None
        manner = Manner(voice=voice, speed=speed, sample_rate=aloud.sample_rate if aloud else None)
        if self.url is not None:
            speech = Remote(self.url, self.key, self.tts_model, manner)
        else:
            speech = Local(speaking_model(self.tts_model, self.threads), manner, self.threads)
        said = await speak(speech, texts.whole(text), aloud or File(output or Path(), speech.sample_rate))
        return f"{said.seconds} s of speech" + (f" in {output}" if output else ", spoken aloud")

    async def list_voices(self) -> list[dict[str, str]]:
        """The voices that say can speak with: id, name, and whether it is the model's own or cloned."""
        from commands.voices import found

        return [asdict(voice) for voice in await asyncio.to_thread(found, self.tts_model, self.url, self.key)]

    def _hear(self, path: str, language: str | None) -> dict[str, Any]:
        from commands.transcribe import hears

        with self._alone:
            if language not in self._hearing:
                self._hearing.clear()  # A model of this process is let go of.
                self._hearing[language] = hears(
                    self.url, self.key, self.model, language, threads=self.threads, device=self.device
                )
            return self._hearing[language](Path(path).expanduser(), lambda seconds: None)


def _new(file: str) -> Path:
    """The path of a sound file that can be written and is not there yet: an agent must not write over what it does not
    know."""
    from commands.sink import check_output

    path = Path(file).expanduser()
    check_output(path)
    if path.exists():
        raise Failure(f"{path} exists; name a new file")
    return path
