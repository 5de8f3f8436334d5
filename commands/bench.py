"""``hearsay bench``: every published number, measured here. The work is done in ``bench/``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from commands.console import MISUSED, Device, Failure, Model, Threads, Url, complain

app = typer.Typer(
    help="Measure: every published number is one command here.",
    epilog="Example: hearsay bench asr --audio speech.wav --threads 2 --json",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
SpeakingModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="Speaking model: a name (hearsay models list) or a directory.",
        show_default=False,
    ),
]


@app.command(epilog="Example: hearsay bench asr --stream --json")
def asr(
    audio: Annotated[
        Path | None, typer.Option("--audio", metavar="FILE", help="A recording [default: a bundled one].")
    ] = None,
    model: Model = None,
    threads: Threads = None,
    device: Device = "auto",
    stream: Annotated[bool, typer.Option("--stream", help="In ticks, as live audio; else at once.")] = False,
    tick: Annotated[float, typer.Option("--tick", min=0.1, help="Seconds of audio a tick.")] = 0.3,
    force_tokens: Annotated[
        int | None,
        typer.Option(
            "--force-tokens",
            min=0,
            help="Decode so many tokens a segment (a tick, with --stream), whatever the model says.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Seconds and counts of each phase of hearing. Also resident memory, and a probe of the machine."""
    from bench.asr import measure
    from commands.samples import sample

    _tell_measuring()
    _print(
        measure(
            audio or sample("reading").path,
            model,
            threads=threads,
            device=device,
            tick=tick if stream else None,
            force_tokens=force_tokens or 0,
        ),
        as_json,
    )


@app.command(epilog="Example: hearsay bench tts --model pocket-tts-en --frames 125 --threads 2 --json")
def tts(
    model: SpeakingModel = None,
    frames: Annotated[int, typer.Option("--frames", min=1, help="Frames of 80 ms to speak.")] = 125,
    threads: Threads = None,
    device: Device = "auto",
    voice: Annotated[str | None, typer.Option("--voice", help="Whose voice.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Seconds of each part of speaking. Also first audio, real-time factor, resident memory, a probe of the machine."""
    from bench.tts import measure
    from commands.speech import speaking_model

    _tell_measuring()
    _print(measure(speaking_model(model), frames=frames, threads=threads, device=device, voice=voice), as_json)


@app.command(epilog="Example: hearsay bench voices --model pocket-tts-en --count 6 --seconds 30 --json")
def voices(
    model: SpeakingModel = None,
    count: Annotated[int, typer.Option("--count", min=1, max=256, help="Voices at the same time.")] = 6,
    seconds: Annotated[float, typer.Option("--seconds", min=5, max=600, help="Length of each.")] = 30.0,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Many live voices on one daemon, each with a listener. First audio, under-runs, CPU and memory of the daemon."""
    from bench.voices import measure
    from commands.speech import speaking_model

    _print(measure(speaking_model(model), count=count, seconds=seconds, threads=threads), as_json)


@app.command(epilog="Example: hearsay bench sessions --count 24 --seconds 60 --json")
def sessions(
    count: Annotated[int, typer.Option("--count", min=1, max=255, help="Live sessions at the same time.")] = 24,
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="Length of each.")] = 60.0,
    audio: Annotated[
        list[Path] | None,
        typer.Option("--audio", metavar="FILE", help="Recordings to speak; repeatable [default: a bundled one]."),
    ] = None,
    timed: Annotated[
        Path | None,
        typer.Option("--timed", metavar="DIR", help="Speak these clips and count from their known word ends."),
    ] = None,
    model: Model = None,
    threads: Threads = None,
    url: Url = None,
    force_tokens: Annotated[
        float | None,
        typer.Option(
            "--force-tokens", min=0.1, max=100, help="Tokens a second, whatever is heard: for random weights."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Many live sessions at real-time pace on one daemon. Lags, lost sessions, CPU of daemon and generator apart."""
    from bench.sessions import measure
    from commands.samples import sample

    if url and force_tokens:
        raise Failure("--force-tokens: a daemon that runs already says what it hears; leave out --url", MISUSED)
    found = measure(
        audio or [sample("reading").path],
        count=count,
        seconds=seconds,
        model=model,
        threads=threads,
        url=url,
        timed=timed,
        tokens=force_tokens,
    )
    _print(found, as_json)


@app.command(name="eval", epilog="Example: hearsay bench eval ../data --corpus librispeech_dev_clean_half")
def evaluate(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", envvar="HEARSAY_DATA", help="Directory with speech/*-test-*.tar.", show_default=False
        ),
    ] = None,
    model: Model = None,
    threads: Threads = None,
    corpus: Annotated[list[str] | None, typer.Option("--corpus", help="Only this corpus; repeatable.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many clips of each corpus.")] = None,
    as_json: Json = False,
) -> None:
    """Word error rate of each corpus of the test split. Heard by the listener that the daemon uses."""
    from bench.clips import shards
    from bench.corpora import measure

    if data is None or not shards(data):
        place = f"{data} holds no speech/*-test-*.tar" if data else "no data directory given"
        raise Failure(f"{place}: name the directory that holds the speech shards, or set HEARSAY_DATA", MISUSED)
    _print(measure(data, model, threads=threads, corpora=corpus, limit=limit), as_json)


@app.command(epilog="Example: hearsay bench words tests/synthetic --json")
def words(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Sound files and an index.jsonl with word starts.")],
    model: Model = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """How far word starts are from those that a synthesiser reported."""
    from bench.words import measure

    if not (directory / "index.jsonl").is_file():
        raise Failure(f"{directory} holds no index.jsonl with word starts", MISUSED)
    _print(measure(directory, model, threads=threads), as_json)


@app.command(epilog="Example: hearsay bench stability tests/data --limit 40")
def stability(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Sound files and an index.jsonl.")],
    model: Model = None,
    threads: Threads = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only so many recordings.")] = None,
    as_json: Json = False,
) -> None:
    """How many words a final takes back. And how many of its own are committed half a second before it."""
    from bench.stability import measure

    if not (directory / "index.jsonl").is_file():
        raise Failure(f"{directory} holds no index.jsonl", MISUSED)
    _print(measure(directory, model, threads=threads, limit=limit), as_json)


@app.command(epilog="Example: hearsay bench size --download --json")
def size(
    download: Annotated[bool, typer.Option("--download", help="Also fetch the wheels anew and add them up.")] = False,
    as_json: Json = False,
) -> None:
    """What a run-time install weighs. Each package unpacked, the bundled models, and the downloads."""
    from bench.size import measure

    _print(measure(download=download), as_json)


def _tell_measuring() -> None:
    """Tell whoever sits at a terminal that there is nothing to see until the end."""
    if sys.stderr.isatty():
        complain("measuring, which takes ten seconds or more")


def _print(result: dict[str, object], as_json: bool) -> None:
    import json

    from bench.figures import lines

    if as_json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        lines(result)
