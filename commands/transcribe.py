"""``hearsay transcribe``: recordings to text, in this process or through a daemon."""

import json
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands.console import (
    FAILED,
    MISUSED,
    Device,
    Failure,
    Key,
    Keyterms,
    Language,
    Model,
    Threads,
    Url,
    complain,
    is_expected,
    prose,
    reason,
)

if TYPE_CHECKING:
    from streaming.model import AsrModel
    from streaming.options import ListenOptions

Progress = Callable[[float], None]
"""Is told how many seconds of the file are heard."""
Hear = Callable[[Path, Progress], dict[str, Any]]
"""A recording to OpenAI's ``verbose_json``."""

HELP = prose("""
Transcribe recordings: WAV, FLAC, Ogg, MP3, AAC, MP4, WebM.

The text goes to stdout, a file a line, in the order given; with --json one JSON object a line: file, text, language,
duration, words (word, start, end, confidence), segments (start, end, text). A file that cannot be heard is a line on
stderr; the others are done all the same, and the exit code is 1.
""")
EPILOG = "Example: hearsay transcribe --json interview.flac voicemail.mp3"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("transcribe", help=HELP, epilog=EPILOG)(transcribe)


def transcribe(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Recordings; - is standard input.", show_default=False, readable=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a file.")] = False,
    model: Model = None,
    language: Language = None,
    keyterm: Keyterms = None,
    threads: Threads = None,
    device: Device = "auto",
    exact_floor: Annotated[
        bool,
        typer.Option(
            "--exact-floor",
            help="Official models: take the loudness floor from the whole clip, as the official code does, and say how "
            "many words differ from a live session's.",
        ),
    ] = False,
    aligner: Annotated[
        str | None,
        typer.Option(
            "--aligner",
            metavar="NAME|DIR",
            help="A Qwen3-ForcedAligner for the word times: a name or a directory [default: the model's own times].",
        ),
    ] = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """See HELP."""
    from commands.heard import heard

    if url is not None and (exact_floor or threads is not None or device != "auto" or aligner is not None):
        raise Failure(
            "--exact-floor, --threads, --device and --aligner are for transcribing in this process, without --url",
            MISUSED,
        )
    hear = (
        _through_daemon(url, key, model, language, keyterm)
        if url
        else _here(model, language, keyterm, threads, device, exact_floor, aligner)
    )
    failed = False
    for file in files:
        try:
            with _by_name(file) as source, _bar(source) as progress:
                answer = hear(source, progress)
        except Exception as error:
            if is_expected(error) != FAILED:  # a defect, or an option that is wrong for every file
                raise
            complain(f"{file}: {error.strerror if isinstance(error, OSError) else reason(error)}")
            failed = True
            continue
        if as_json:
            print(json.dumps(heard(str(file), answer), ensure_ascii=False), flush=True)
        else:
            print(answer["text"] if len(files) == 1 else f"{file}: {answer['text']}", flush=True)
    if failed:
        raise typer.Exit(FAILED)


@contextmanager
def _by_name(file: Path) -> Generator[Path]:
    """``file``, or a copy of what comes through a pipe: sound files are read forwards and backwards."""
    if file != Path("-") and not file.is_fifo():
        yield file
        return
    with TemporaryDirectory(prefix="hearsay-") as folder:
        copy = Path(folder) / ("standard input" if file == Path("-") else file.name)
        with copy.open("wb") as written:
            if file == Path("-"):
                if sys.stdin is None:  # closed  # pyright: ignore[reportUnnecessaryComparison]
                    raise Failure("standard input is closed")
                shutil.copyfileobj(sys.stdin.buffer, written)
            else:
                with file.open("rb") as pipe:
                    shutil.copyfileobj(pipe, written)
        yield copy


def _through_daemon(
    url: str, key: str | None, model: str | None, language: str | None, keyterms: list[str] | None
) -> Hear:
    from clients.transcription import transcribe as ask

    def hear(file: Path, progress: Progress) -> dict[str, Any]:
        del progress  # the answer comes as a whole
        return ask(url, file, key=key, model=model, language=language, keyterms=keyterms or ())

    return hear


def _here(
    name: str | None,
    language: str | None,
    keyterms: list[str] | None,
    threads: int | None,
    device: str,
    exact_floor: bool,
    aligner: str | None,
) -> Hear:
    from audio.recording import samples
    from engines import store
    from streaming.model import AsrModel
    from streaming.options import ListenOptions

    # Interims change no final; without them nothing is decoded twice.
    options = ListenOptions(language=language, keyterms=tuple(keyterms or ()), interim=False)
    beside = None if aligner is None else store.find(aligner)
    model = AsrModel(store.find(name or store.default()), sessions=1, threads=threads, device=device, aligner=beside)
    model.engine.language(language)  # before the first file rather than once a file

    def hear(file: Path, progress: Progress) -> dict[str, Any]:
        heard = hear_file(model, file, options, progress)
        if not exact_floor:
            return heard
        exact = replace(options, mel_maximum=model.mel_maximum(samples(file, model.sample_rate)))
        official = hear_file(model, file, exact, progress)
        _say_difference(file, heard["text"].split(), official["text"].split())
        return official

    return hear


def hear_file(model: "AsrModel", file: Path, options: "ListenOptions", progress: Progress) -> dict[str, Any]:
    """One file through one listener, to the answer that a daemon would give.

    Raises:
        RecordingError: the file is no audio or damaged.
    """
    from audio.recording import samples
    from daemon.openai.transcript import FileTranscript

    transcript = FileTranscript()
    listener = model.listener(options)
    try:
        for block in samples(file, model.sample_rate):
            listener.feed(block)
            transcript.take(listener.drain())
            progress(listener.seconds)
        transcript.duration = listener.seconds
        listener.finish()
        transcript.take(listener.drain())
    finally:
        listener.close()
    return transcript.verbose(words=True)


def _say_difference(file: Path, live: list[str], exact: list[str]) -> None:
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, live, exact, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    differing = max(len(live), len(exact)) - same
    print(f"{file}: {differing} of {len(exact)} words differ from those with the running floor", file=sys.stderr)


class _bar:
    """A progress bar on stderr while a file is heard; nothing where stderr is no terminal. Yields the ``Progress``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._shown = None

    def __enter__(self) -> Progress:
        if not sys.stderr.isatty():
            return lambda seconds: None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from audio.recording import RecordingError, open_recording

        try:
            total = open_recording(self._file).seconds or None
        except RecordingError:
            return lambda seconds: None
        shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        shown.start()
        task = shown.add_task(self._file.name, total=total)
        self._shown = shown
        return lambda seconds: shown.update(task, completed=seconds)

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()
