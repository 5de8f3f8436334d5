"""``hearsay demo``: a bundled recording is heard at its own pace by a real daemon over a real WebSocket, and said
again."""

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import Failure, Key, Model, Threads, TtsModel, Url, own_daemon, prose

if TYPE_CHECKING:
    from rich.console import Console

    from audio.recording import Recording
    from clients.lag import LagMeter
    from clients.options import StreamOptions
    from clients.playback import Loudspeaker
    from clients.stream import AsyncStream

PIECE_SECONDS = 0.05
"""Seconds of audio in a message, as a microphone sends it."""
LEGEND = "seconds ~ words so far: those that stay | those that may still change, = final text"
"""Says what the lines of captions mean, where nothing can be redrawn."""

HELP = prose("""
Show what hearsay does. A recording becomes captions while it plays, then what was heard is said again, and heard.

It goes at real-time pace through a daemon (one of its own, without --url). Captions are printed as they come, then what
was spoken beside what was heard, and how late it was. It needs neither a microphone nor a sound library nor a terminal.
""")
EPILOG = "Example: hearsay demo --model pocket-asr-en"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("demo", help=HELP, epilog=EPILOG)(demo)


def demo(
    file: Annotated[
        Path | None, typer.Option("--file", help="Another recording [default: the bundled one].", show_default=False)
    ] = None,
    model: Model = None,
    tts_model: TtsModel = None,
    threads: Threads = None,
    url: Url = None,
    key: Key = None,
    sound: Annotated[
        bool | None,
        typer.Option("--sound/--no-sound", help="Play it aloud too [default: on a terminal with a loudspeaker]."),
    ] = None,
) -> None:
    """See HELP."""
    from rich.console import Console

    from audio.pcm import MAX_RATE, MIN_RATE
    from audio.recording import RecordingError, open_recording
    from clients.captions import redraws
    from clients.options import StreamOptions
    from commands.samples import sample

    chosen = sample("demo") if file is None else None
    try:
        recording = open_recording(chosen.path if chosen else file or Path())
    except RecordingError as error:
        raise Failure(f"{file}: {error}") from None
    rate = min(max(recording.sample_rate, MIN_RATE), MAX_RATE)
    options = StreamOptions(sample_rate=rate, channels=1, model=model if url else None)
    console = Console(highlight=False)
    loudspeaker = _loudspeaker(rate, 1, sound, console)
    began = time.perf_counter()
    with nullcontext(url) if url else own_daemon(model, threads, tts_model=tts_model) as address:
        ready = "" if url else f", ready after {time.perf_counter() - began:.1f} s: nothing leaves this machine"
        console.print(f"The daemon is at {address}{ready}.", soft_wrap=True)
        source = f" from {chosen.credit}" if chosen else ""
        how = "plain words stay, dim ones may still change" if redraws(console) else LEGEND
        _headline(console, f"It hears {recording.name}, {recording.seconds:.0f} s{source}, as it is played ({how}):")
        texts, meter = asyncio.run(_play(address, key, recording, options, console, loudspeaker))
        _report(console, " ".join(texts), chosen.text if chosen else None, meter)
        _say_again(address, key, texts, console, sound, tts_model if url else None)


def _headline(console: "Console", text: str) -> None:
    console.print(text, style="bold", soft_wrap=not console.is_terminal)


async def _play(
    url: str,
    key: str | None,
    recording: "Recording",
    options: "StreamOptions",
    console: "Console",
    loudspeaker: "Loudspeaker | None",
) -> "tuple[list[str], LagMeter]":
    from clients.captions import Captions
    from clients.events import Results
    from clients.lag import LagMeter
    from clients.stream import AsyncStream

    meter, texts = LagMeter(), list[str]()
    async with (
        loudspeaker or nullcontext(),
        AsyncStream(url, options, key=key) as stream,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(_send(stream, recording, meter, loudspeaker))
        with Captions(console) as screen:
            async for event in stream:
                if isinstance(event, Results):
                    meter.received(event, time.monotonic())
                    if event.is_final and event.text:
                        texts.append(event.text)
                screen.show(event)
    return texts, meter


def _loudspeaker(
    rate: int, channels: int, wanted: bool | None, console: "Console", lead: float | None = None
) -> "Loudspeaker | None":
    """A loudspeaker for this format; None where none is wanted, or where none is there and none was asked for."""
    from clients.microphone import SoundError
    from clients.playback import Loudspeaker

    if wanted is False or (wanted is None and not console.is_terminal):
        return None
    try:
        return Loudspeaker(rate, channels, lead=lead)
    except SoundError:
        if wanted:
            raise
        return None


async def _send(
    stream: "AsyncStream", recording: "Recording", meter: "LagMeter", loudspeaker: "Loudspeaker | None"
) -> None:
    """Send the recording at the pace of real time: a piece leaves when its last sample would have been recorded."""
    from audio.pcm import linear16
    from audio.recording import samples

    rate = stream.options.bytes_per_second
    size = round(stream.options.sample_rate * PIECE_SECONDS) * 2
    blocks, sent = map(linear16, samples(recording.source, stream.options.sample_rate)), 0
    start = time.monotonic()
    while (block := await asyncio.to_thread(next, blocks, None)) is not None:  # Decoding a minute takes a moment.
        for offset in range(0, len(block), size):
            piece = block[offset : offset + size]
            sent += len(piece)
            await asyncio.sleep(start + sent / rate - time.monotonic())
            await stream.send(piece)
            meter.sent(sent / rate, time.monotonic())
            if loudspeaker is not None:
                await loudspeaker.write(piece)
    await stream.close_stream()


def _report(console: "Console", heard: str, spoken: str | None, meter: "LagMeter") -> None:
    """Print what was heard beside what was spoken, where that is known, and how late it was."""
    from rich.text import Text

    from clients.captions import harmless
    from clients.lag import percentile
    from commands.comparison import errors, marked, show

    if not heard:
        raise Failure("the daemon heard no words")
    lines: list[tuple[str, str | Text]] = [("heard", Text(harmless(heard)))]
    if spoken is not None:
        lines = [("spoken", spoken), ("heard", marked(spoken, heard)), ("errors", errors(spoken, heard))]
    for name, lags, meaning in (
        ("captions", meter.partial, "after a word was spoken it is there"),
        ("finals", meter.final, "after the last word, the pause that shows it was the last included"),
    ):
        if lags:
            half, most = (f"{1000 * percentile(lags, share):.0f} ms" for share in (0.5, 0.95))
            lines.append((name, f"{half} {meaning} (median; 95 % within {most})"))
    show(console, lines)


def _say_again(
    url: str, key: str | None, texts: list[str], console: "Console", sound: bool | None, model: str | None
) -> None:
    """Run the second half where the daemon speaks; where it does not, say so."""
    from clients.handshake import Refused
    from clients.voices import voices
    from commands.comparison import errors, marked, show
    from commands.echo import LEAD_SECONDS, RATE, WORDS_PER_SECOND, echo

    console.print()
    try:
        voice = next((found.id for found in voices(url, key=key)), "its own voice")
    except Refused as refused:
        if refused.status != 404:
            raise
        console.print("This daemon does not speak, so that was all: no speaking model is installed.", soft_wrap=True)
        return
    _headline(
        console,
        f"Now {voice} says it again, while it is being written ({WORDS_PER_SECOND:g} words a second), and hearsay "
        "listens to itself:",
    )
    # A final ends where someone paused, which is a sentence as far as the voice needs one.
    text = " ".join(text if text[-1] in ".!?" else f"{text}." for text in texts)
    loudspeaker = _loudspeaker(RATE, 1, sound, console, LEAD_SECONDS)
    found = asyncio.run(echo(url, key, text, console, model=model, loudspeaker=loudspeaker))
    heard = " ".join(found.heard)
    gaps = f"with {found.under_runs} gap{'s' * (found.under_runs > 1)}" if found.under_runs else "without a gap"
    lines = [
        ("said", text),
        ("heard", marked(text, heard) if heard else "(nothing)"),
        ("errors", f"{errors(text, heard)}, of voice and ear together"),
        ("first sound", f"{1000 * found.first_audio:.0f} ms after the first word was written"),
        ("played", f"{found.seconds:.1f} s {gaps}, {LEAD_SECONDS:g} s behind the first sound"),
    ]
    show(console, [*lines, *(("warning", warning) for warning in found.warnings)])
