"""``hearsay say``: text becomes speech, aloud while it is made or into a file, in this process or through a daemon."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import MISUSED, Failure, Key, Threads, TtsModel, Url, complain, prose

if TYPE_CHECKING:
    from commands.sink import Sink
    from commands.speech import Speech, Spoken

HELP = prose("""
Say a text aloud while it is made, or write it to a file.

Standard input is spoken as it arrives, word by word: the output of a language model can be piped in. Ctrl-C stops at
once; a file then holds what was said so far. Without --url a model is loaded in this process.
""")
EPILOG = "Example: hearsay say 'Good evening.' -o evening.wav"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("say", help=HELP, epilog=EPILOG)(say)


@dataclass(frozen=True, slots=True)
class Said:
    """What ``--json`` prints. Times are in seconds."""

    file: str | None
    seconds: float
    """Seconds of audio."""
    first_audio: float
    """Seconds from the first text to the first audio."""
    wall: float
    """Seconds from the first text to the last audio, to its end where it is played."""
    before_text_ended: float
    """Seconds of audio that were there when the last of the text came."""
    under_runs: int
    """How often a listener had to wait for audio; 0 for a file."""
    sample_rate: int
    seed: int | None
    """The seed that was drawn or given."""
    words: list["Spoken"]
    """When each word was spoken."""


def say(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to say; - is standard input.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="Say a text file (UTF-8).", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write it: .wav, .flac, .ogg, .opus or .mp3.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    model: TtsModel = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Whose voice (hearsay voices list).")] = None,
    language: Annotated[str | None, typer.Option("--language", metavar="CODE", help="Language of the text.")] = None,
    instructions: Annotated[
        str | None, typer.Option("--instructions", help="How to say it, for models that follow instructions.")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="2 is twice as fast, 0.5 half as fast.")] = 1.0,
    pauses: Annotated[
        float | None,
        typer.Option("--pauses", help="2 doubles the pauses, 0 leaves them as the model speaks.", show_default=False),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The same seed, the same speech [default: a new one].")
    ] = None,
    url: Url = None,
    key: Key = None,
    threads: Threads = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Loudspeaker: number or part of its name.", show_default=False)
    ] = None,
    lexicon: Annotated[
        Path | None,
        typer.Option(
            "--lexicon",
            metavar="FILE",
            help="Your own pronunciations, a word and its IPA or respelling a line.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the words as they would be read, a piece a line, and say nothing.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="In the end one JSON object: times, of words too, and seed; of a dry run words, sounds and pauses.",
        ),
    ] = False,
) -> None:
    """See HELP."""
    from commands import text as texts
    from commands.local import Local
    from commands.progress import Seconds
    from commands.reading import tell
    from commands.remote import RATE, Remote
    from commands.sink import Aloud, File, check_output
    from commands.speech import Manner, speaking_model

    if (text is None) == (file is None):
        raise Failure("say what? One of TEXT, - (standard input) or -f FILE", MISUSED)
    if url is not None and threads is not None:
        raise Failure("--threads is for speaking in this process, without --url", MISUSED)
    if url is not None and (dry_run or lexicon is not None):
        raise Failure(
            "--dry-run and --lexicon are for a model of this process, without --url: a daemon has a lexicon of its own "
            "(hearsay serve --lexicon)",
            MISUSED,
        )
    manner = Manner(
        voice=voice,
        language=language,
        instructions=instructions,
        speed=speed,
        pauses=pauses,
        word_times=as_json,
        seed=seed,
        lexicon=lexicon,
    )
    if dry_run:
        told = text if text not in (None, "-") else asyncio.run(texts.read(file if file is not None else 0))
        return tell(told or "", speaking_model(model, threads), manner.options(), as_json=as_json)
    if url is not None:
        manner.options()  # What is out of range is refused here: a model of this process does it by itself.
    player = int(device) if device is not None and device.isdigit() else device
    # The sink is checked before the model is loaded: that a loudspeaker is missing, or a name is no sound file's, is to
    # be said at once.
    aloud = Aloud(RATE, player) if output is None else None
    if output is not None:
        check_output(output)
    manner = replace(manner, sample_rate=aloud.sample_rate if aloud else None)
    speech = (
        Remote(url, key, model, manner) if url is not None else Local(speaking_model(model, threads), manner, threads)
    )
    sink = aloud or File(output or Path(), speech.sample_rate)
    stream = texts.whole(text) if text not in (None, "-") else texts.arriving(file if file is not None else 0)
    with Seconds(output.name if output else "", shown=output is not None and not as_json) as seconds:
        said = asyncio.run(speak(speech, stream, sink, seconds.reach))
    if as_json:
        print(json.dumps(asdict(said), ensure_ascii=False))
    elif sys.stderr.isatty():
        late = f", {said.under_runs} under-runs" if said.under_runs else ""
        print(f"{said.seconds:.1f} s, first audio after {1000 * said.first_audio:.0f} ms{late}", file=sys.stderr)


async def speak(
    speech: "Speech", text: AsyncGenerator[str], sink: "Sink", reached: Callable[[float], None] = lambda seconds: None
) -> Said:
    """Say ``text`` into ``sink``; the two go at the same time. ``reached`` is told how many seconds of sound there are.

    Raises:
        Failure: there was nothing in it to say.
    """
    from commands.speech import Awaiting, Remark, Sound, Spoken

    words, remarks = list[Spoken](), list[str]()
    began = first = None
    size = size_then = 0

    async def tell() -> None:
        nonlocal began, size_then
        async for delta in text:
            began = began or time.perf_counter()
            size_then = size
            await speech.say(delta)
        await speech.finish()

    async with speech, sink, asyncio.TaskGroup() as tasks:
        tasks.create_task(tell())
        async for event in speech.events(lambda: sink.buffered):
            match event:
                case Sound():
                    first = first or time.perf_counter()
                    while remarks:
                        complain(remarks.pop(0))
                    size += len(event.pcm)
                    await sink.write(event.pcm)
                    reached(size / (2 * speech.sample_rate))
                case Remark():  # Where no sound follows it is told once, as the reason of the failure.
                    remarks.append(event.text)
                case Spoken():
                    words.append(replace(event, start=round(event.start, 3), end=round(event.end, 3)))
                case Awaiting():
                    sink.pause()
    if first is None or began is None:
        raise Failure(f"nothing was said: {'; '.join(remarks) or 'the text holds nothing that can be spoken'}")
    for remark in remarks:
        complain(remark)
    per_second = 2 * speech.sample_rate
    return Said(
        file=sink.name,
        seconds=round(size / per_second, 3),
        first_audio=round(first - began, 4),
        wall=round(time.perf_counter() - began, 4),
        before_text_ended=round(size_then / per_second, 3),
        under_runs=sink.under_runs,
        sample_rate=speech.sample_rate,
        seed=speech.seed,
        words=words,
    )
