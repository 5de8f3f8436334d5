"""``hearsay captions``: what the microphone hears, as live captions on the terminal."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import MISUSED, Failure, Key, Keyterms, Language, Model, Threads, Url, own_daemon, prose

if TYPE_CHECKING:
    from clients.microphone import Microphone
    from clients.options import StreamOptions

HELP = prose("""
Show live captions of the microphone. Ctrl-C ends, after the last words; pressed twice, at once.

Committed words are plain, words that may still change are dim. Without --url a daemon of its own starts on a free
loopback port and ends with the command. When the connection breaks, what was said meanwhile is sent again.
""")
EPILOG = "Example: hearsay captions --url http://127.0.0.1:8750 --keyterm Kubernetes"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("captions", help=HELP, epilog=EPILOG)(captions)


def captions(
    files: Annotated[list[str] | None, typer.Argument(metavar="", hidden=True)] = None,
    url: Url = None,
    key: Key = None,
    model: Model = None,
    language: Language = None,
    keyterm: Keyterms = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Microphone: number or part of its name (hearsay doctor lists them)."),
    ] = None,
    threads: Threads = None,
    speakers: Annotated[bool, typer.Option("--speakers", help="Tell who says what: A, B and so on.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="End after so much audio [default: at Ctrl-C].")
    ] = None,
) -> None:
    """See HELP."""
    from clients.microphone import Microphone
    from clients.options import StreamOptions

    if files:
        raise Failure(
            f"{files[0]}: captions are of the microphone; hearsay transcribe FILE writes down a recording", MISUSED
        )
    if url is not None and threads is not None:
        raise Failure("--threads is for the daemon that starts without --url", MISUSED)
    # The microphone is opened before the daemon is asked: that PortAudio is missing is to be said at once.
    microphone = Microphone(int(device) if device is not None and device.isdigit() else device)
    options = StreamOptions(
        model=model if url else None,
        language=language,
        sample_rate=microphone.sample_rate,
        keyterms=tuple(keyterm or ()),
        speakers=speakers,
    )
    with nullcontext(url) if url else own_daemon(model, threads) as address:
        asyncio.run(_show(address, key, microphone, options, seconds))


async def _show(
    url: str, key: str | None, microphone: "Microphone", options: "StreamOptions", seconds: float | None
) -> None:
    from rich.console import Console

    from clients.captions import Captions
    from clients.stream import listen

    console = Console()
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # On Windows there is no such handler, and Ctrl-C ends at once.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _pressed, stop)
    async with microphone:
        console.print("listening (Ctrl-C ends)", style="dim")
        with Captions(console) as screen:
            async for event in listen(url, _pieces(microphone, seconds, stop), options, key=key):
                screen.show(event)
            if microphone.dropped:
                screen.note(f"{microphone.dropped} pieces of audio were lost before they could be sent")


def _pressed(stop: asyncio.Event) -> None:
    """At Ctrl-C hear no more and wait for the final text; at the next one end at once."""
    if stop.is_set():
        raise KeyboardInterrupt
    stop.set()


async def _pieces(microphone: "Microphone", seconds: float | None, stop: asyncio.Event) -> AsyncIterator[bytes]:
    left = None if seconds is None else round(seconds * microphone.sample_rate) * 2
    async for piece in microphone:
        if stop.is_set():
            return
        if left is None:
            yield piece
            continue
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
