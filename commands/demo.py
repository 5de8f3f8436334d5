"""``hearsay demo``: a bundled recording, heard at its own pace by a real daemon over a real WebSocket, said again."""

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import Failure, Key, Model, Threads, TtsModel, Url, own_daemon, prose

if TYPE_CHECKING:
    from rich.console import Console

    from clients.lag import LagMeter
    from clients.options import StreamOptions
    from clients.playback import Loudspeaker
    from clients.stream import AsyncStream
    from streaming.recording import Recording

PIECE_SECONDS = 0.05

HELP = prose("""
Show what hearsay does: a recording becomes captions while it plays, then what was heard is said again, and heard.

It goes at real-time pace through a daemon (one of its own on a free loopback port, without --url) and over real
WebSockets. Live captions, the final text, the reference text, the word error rate and the latencies are printed; then,
with a speaking model, how much of what was said is heard again. Needs neither a microphone nor a sound library nor a
terminal.
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

    from clients.options import StreamOptions
    from commands.samples import sample
    from streaming.recording import open_recording

    chosen = sample("demo") if file is None else None
    recording = open_recording(chosen.path if chosen else file or Path())
    options = StreamOptions(
        sample_rate=recording.sample_rate, channels=recording.channels, model=model if url else None
    )
    console = Console(highlight=False)
    console.print(f"{recording.name}, {recording.seconds:.1f} s" + (f", {chosen.credit}" if chosen else ""))
    loudspeaker = _loudspeaker(recording.sample_rate, recording.channels, sound, console)
    began = time.perf_counter()
    with nullcontext(url) if url else own_daemon(model, threads, tts_model=tts_model) as address:
        console.print(f"daemon at {address}, ready after {time.perf_counter() - began:.2f} s")
        if not console.is_terminal:
            console.print("(seconds ~ unfinished text: committed | unstable, = final text)")
        texts, meter = asyncio.run(_play(address, key, recording, options, console, loudspeaker))
        _report(" ".join(texts), chosen.text if chosen else None, meter)
        _say_again(address, key, texts, console, sound, tts_model if url else None)


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
    """One that plays so, None where it is not wanted or, unless asked for, not there."""
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
    """The recording at real-time pace: a piece leaves when its last sample would have been recorded."""
    rate = stream.options.bytes_per_second
    size = round(recording.sample_rate * PIECE_SECONDS) * recording.channels * 2
    audio = b"".join(recording.blocks())
    start = time.monotonic()
    for offset in range(0, len(audio), size):
        piece = audio[offset : offset + size]
        until = (offset + len(piece)) / rate
        await asyncio.sleep(start + until - time.monotonic())
        await stream.send(piece)
        meter.sent(until, time.monotonic())
        if loudspeaker is not None:
            await loudspeaker.write(piece)
    await stream.close_stream()


def _report(text: str, reference: str | None, meter: "LagMeter") -> None:
    from bench.wer import rate
    from clients.lag import percentile

    print()
    print(f"final text:  {text or '(nothing)'}")
    if reference is not None:
        print(f"reference:   {reference}")
        print(f"word errors: {100 * rate([(reference, text)]):.1f} %")
    for name, lags, counted, meaning in (
        ("partial lag", meter.partial, "words", "a word's last sample sent -> first caption that has it"),
        (
            "final lag",
            meter.final,
            "utterances",
            "last word's last sample sent -> final text, endpointing silence included",
        ),
    ):
        if lags:
            p50, p95 = (f"{1000 * percentile(lags, share):.0f} ms" for share in (0.5, 0.95))
            print(f"{name + ':':<12} p50 {p50}, p95 {p95} over {len(lags)} {counted} ({meaning})")
    if not text:
        raise Failure("the daemon heard no words")


def _say_again(
    url: str, key: str | None, texts: list[str], console: "Console", sound: bool | None, model: str | None
) -> None:
    """The second half, where the daemon speaks; a remark where it does not."""
    from clients.handshake import Refused
    from clients.voices import voices
    from commands.echo import LEAD_SECONDS, RATE, WORDS_PER_SECOND, echo

    print()
    try:
        voice = next((found.id for found in voices(url, key=key)), "its own voice")
    except Refused as refused:
        if refused.status != 404:
            raise
        print("no speaking model is installed, so this is not said again (docs/speaking.md)")
        return
    print(f"said again by {voice}, {WORDS_PER_SECOND:g} words a second as they are written, and heard:")
    # A final ends where someone paused: a sentence, as far as the voice needs one.
    text = " ".join(text if text[-1] in ".!?" else f"{text}." for text in texts)
    loudspeaker = _loudspeaker(RATE, 1, sound, console, LEAD_SECONDS)
    found = asyncio.run(echo(url, key, text, console, model=model, loudspeaker=loudspeaker))
    print()
    print(f"said:           {text}")
    print(f"heard again:    {' '.join(found.heard) or '(nothing)'}")
    print(f"word agreement: {100 * found.agreement:.1f} %")
    print(
        f"first audio:    {1000 * found.first_audio:.0f} ms after the first of {found.words} words was written, "
        f"{found.words_before_audio} were by then"
    )
    print(
        f"under-runs:     {found.under_runs} in {found.seconds:.1f} s, played {LEAD_SECONDS:g} s behind the first audio"
    )
    for warning in found.warnings:
        print(f"the daemon warns: {warning}")
