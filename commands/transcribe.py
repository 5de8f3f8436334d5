"""``hearsay transcribe``: recordings become text, in this process or through a daemon."""

import json
import math
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from enum import Enum
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import normalize

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
    chosen,
    complain,
    is_expected,
    prose,
    reason,
    tell_loading,
)
from commands.interrupts import Hear, Interrupts, Progress
from commands.progress import Seconds, late

if TYPE_CHECKING:
    from audio.sound import Wanted
    from streaming.model import AsrModel
    from streaming.options import ListenOptions

HELP = prose("""
Transcribe recordings and films of most formats.

The text goes to stdout, a file a line; with --format json one JSON object a line: file, text, language, duration, words
(word, start, end, confidence), segments (start, end, text); with --speakers a line and the words tell who speaks. srt
and vtt are subtitles of one file, or with --output of any number. A full daemon is waited for, ten minutes at most.
Stderr names files without speech. One that cannot be heard is named too; the exit code is then 1.
""")
EPILOG = "Example: hearsay transcribe --format srt interview.mp4 > interview.srt"

MOST_WAITED = 600.0
"""Seconds for which a daemon without room is waited for until it hears a file again; files are in no hurry, but whoever
waits for them is to learn of a daemon that stays full."""


class Format(Enum):
    """The formats in which a transcript can be written. Each value is a file's suffix too."""

    TXT, SRT, VTT, JSON = "txt", "srt", "vtt", "json"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("transcribe", help=HELP, epilog=EPILOG)(transcribe)


def transcribe(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Recordings; - is standard input.", show_default=False, readable=False),
    ],
    format: Annotated[
        Format | None, typer.Option("--format", help="What is written of each file [default: txt].", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write each into a file of its own there.", file_okay=False),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=8, max=200, help="Characters in a line of subtitles [default: 42].")
    ] = None,
    lines: Annotated[int | None, typer.Option(min=1, max=10, help="Lines of a subtitle [default: 2].")] = None,
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
    speakers: Annotated[bool, typer.Option("--speakers", help="Tell who says what, in every format.")] = False,
    track: Annotated[
        int | None,
        typer.Option(
            "--track", metavar="N", min=1, help="Of several tracks of sound hear this one.", show_default=False
        ),
    ] = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """See HELP."""
    from engines import store
    from engines.device import choose

    if as_json and format not in (None, Format.JSON):
        raise Failure(f"--json and --format {format.value}: one format is written; leave one of them out", MISUSED)
    format = Format.JSON if as_json else format or Format.TXT
    subtitled = format in (Format.SRT, Format.VTT)
    room = {name: most for name, most in (("width", width), ("lines", lines)) if most is not None}
    if not subtitled and (given := _given({"--width": width, "--lines": lines})):
        raise Failure(f"{given}: only for subtitles; add --format srt or --format vtt", MISUSED)
    if subtitled and len(files) > 1 and output is None:
        raise Failure(f"--format {format.value}: subtitles of several files need --output DIR", MISUSED)
    here = {"--exact-floor": exact_floor, "--threads": threads, "--device": device != "auto"}
    if url is not None and (given := _given({**here, "--aligner": aligner is not None, "--track": track})):
        raise Failure(f"{given}: only for transcribing here, without --url", MISUSED)
    if output is not None:
        check_apart(files, output, format)
        output.mkdir(parents=True, exist_ok=True)
    if url is None and not any(file == Path("-") or file.exists() for file in files):
        # A large model takes a minute to load, in vain. A wrong name of a model or a device is said before.
        if model is not None:
            store.find(model)
        choose(device)
        for file in files:
            complain(f"{file}: there is no such file")
        raise typer.Exit(FAILED)
    hear = hears(
        url,
        key,
        model,
        language,
        keyterm,
        speakers=speakers,
        threads=threads,
        device=device,
        exact_floor=exact_floor,
        aligner=aligner,
        track=track,
    )
    failed = False
    with Interrupts() as interrupts:
        hear = interrupts.heeded(hear)
        for file in files:
            try:
                with _by_name(file) as source, _bar(source) as seconds:
                    answer = hear(source, seconds.reach)
            except Exception as error:
                if is_expected(error) != FAILED:  # The error is a defect, or an option that is wrong for every file.
                    raise
                todo = f"; name its files: {file}/*" if file.is_dir() else ""
                complain(f"{file}: {error.strerror if isinstance(error, OSError) else reason(error)}{todo}")
                failed = True
                continue
            if not answer["text"]:
                complain(f"{file}: no speech was heard")
            text = _written(format, str(file), answer, room)
            if output is not None:
                _place(file, output, format).write_text(text, encoding="utf-8")
            else:
                named = format is Format.TXT and len(files) > 1 and text
                print(f"{file}: {text}" if named else text, end="", flush=True)
    if failed:
        raise typer.Exit(FAILED)


def _given(options: dict[str, object]) -> str:
    """The names of those options that were given; empty if none was."""
    return ", ".join(name for name, value in options.items() if value)


def _place(file: Path, output: Path, format: Format) -> Path:
    """Where what is heard of ``file`` is written."""
    return output / f"{file.stem}.{format.value}"


def check_apart(files: list[Path], output: Path, format: Format) -> None:
    """
    Raises:
        Failure: two files would be written to the same place, and the second would replace the first.
    """
    places = [_place(file, output, format) for file in files]
    # Some disks keep a name as it is given, and find it in capitals or with its accents written apart too.
    plain = {place: Path(normalize("NFC", str(place)).casefold()) for place in places}
    same = plain if len(set(plain.values())) < len(plain) and one_for_both(output) else {}
    taken = dict[Path, Path]()
    for file, place in zip(files, places, strict=True):
        key = same.get(place, place)
        if key in taken:
            told = f"{taken[key]} and {file} would both be written to {place}"
            raise Failure(f"{told}; name each file once, rename one, or give each an --output DIR of its own", MISUSED)
        taken[key] = file


def one_for_both(output: Path) -> bool:
    """Whether the disk of ``output``, which need not exist yet, takes names that differ in their case for one."""
    folder = next(path for path in (output, *output.absolute().parents) if path.is_dir())
    with NamedTemporaryFile(prefix="hearsay-", dir=folder) as probe:
        return Path(probe.name).with_name(Path(probe.name).name.upper()).exists()


def _written(format: Format, file: str, answer: dict[str, Any], room: dict[str, int]) -> str:
    from commands.transcript import file_transcript, finals
    from daemon import subtitles
    from daemon.file_transcript import spoken_by

    if format is Format.TXT:
        parts = [part for final in finals(answer) for part in spoken_by(final)]
        if all(words[0].speaker is None for words, _ in parts):
            return answer["text"] and answer["text"] + "\n"
        return "".join(f"{words[0].called}: {text}\n" for words, text in parts)
    if format is Format.JSON:
        return json.dumps(file_transcript(file, answer), ensure_ascii=False) + "\n"
    cues = subtitles.cues(finals(answer), subtitles.Layout(**room), answer.get("duration", 0.0))
    return subtitles.srt(cues) if format is Format.SRT else subtitles.vtt(cues)


@contextmanager
def _by_name(file: Path) -> Generator[Path]:
    """``file``, or a copy of what comes through a pipe: some sound files must be read with steps back."""
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


def hears(
    url: str | None,
    key: str | None,
    model: str | None,
    language: str | None,
    keyterms: list[str] | None = None,
    *,
    speakers: bool = False,
    threads: int | None = None,
    device: str = "auto",
    exact_floor: bool = False,
    aligner: str | None = None,
    track: int | None = None,
) -> Hear:
    """What hears files: the daemon at ``url``, else a model of this process, which is loaded now."""
    if url:
        return _through_daemon(url, key, model, language, keyterms, speakers)
    return _here(model, language, keyterms, speakers, threads, device, exact_floor, aligner, track)


def _through_daemon(
    url: str, key: str | None, model: str | None, language: str | None, keyterms: list[str] | None, speakers: bool
) -> Hear:
    from clients.handshake import Refused
    from clients.transcription import transcribe as ask

    waited = 0.0

    def hear(file: Path, progress: Progress) -> dict[str, Any]:
        nonlocal waited
        seen = progress if sys.stderr.isatty() else None
        terms, begun = keyterms or (), waited
        while True:
            try:
                with _late(file):
                    answer = ask(
                        url,
                        file,
                        key=key,
                        model=model,
                        language=language,
                        keyterms=terms,
                        speakers=speakers,
                        progress=seen,
                    )
                break
            except Refused as refused:
                if refused.status not in (429, 503):
                    raise
                pause = math.inf if refused.retry_after is None else max(1.0, refused.retry_after)
                if waited + pause > MOST_WAITED:
                    todo = "try again later, or transcribe it here, without --url"
                    raise Failure(f"{refused}; {todo}") from None
                if waited == begun:
                    complain(f"{file}: {refused}; waiting for room, {MOST_WAITED - waited:.0f} s at most")
                time.sleep(pause)
                waited += pause
        waited = 0.0
        for warning in answer.warnings:
            complain(f"{file}: {warning}")
        return answer

    return hear


def _here(
    name: str | None,
    language: str | None,
    keyterms: list[str] | None,
    speakers: bool,
    threads: int | None,
    device: str,
    exact_floor: bool,
    aligner: str | None,
    track: int | None,
) -> Hear:
    from audio.recording import samples
    from audio.sound import Wanted
    from engines import store
    from streaming.model import AsrModel
    from streaming.options import ListenOptions
    from streaming.people import People

    # Interims change no final, and without them nothing is decoded twice.
    known = tuple(People().all()) if speakers else ()
    terms = tuple(keyterms or ())
    options = ListenOptions(language=language, keyterms=terms, interim=False, speakers=speakers, known=known)
    beside = None if aligner is None else store.find(aligner)
    directory = chosen("asr", name, "--model", threads)
    tell_loading(directory)
    model = AsrModel(directory, sessions=1, threads=threads, device=device, aligner=beside)
    model.engine.language(language)  # The language is checked before the first file, rather than once a file.

    wanted = Wanted(model.sample_rate, track=track, speaks=model.speaks)

    def hear(file: Path, progress: Progress) -> dict[str, Any]:
        with _late(file):
            heard = hear_file(model, file, options, progress, wanted)
        if not exact_floor:
            return heard
        exact = replace(options, mel_maximum=model.mel_maximum(samples(file, wanted)))
        official = hear_file(model, file, exact, progress, wanted)
        _say_difference(file, heard["text"].split(), official["text"].split())
        return official

    return hear


def hear_file(
    model: "AsrModel", file: Path, options: "ListenOptions", progress: Progress, wanted: "Wanted | None" = None
) -> dict[str, Any]:
    """Hear one file through one listener, and return the answer that a daemon would give. What is not as it should be
    in the file is told on stderr.

    Raises:
        RecordingError: the file is no audio or damaged.
    """
    from audio.recording import samples
    from audio.sound import Notes
    from daemon.file_transcript import FileTranscript

    transcript, notes = FileTranscript(), Notes()
    listener = model.listener(options, live=False)
    try:
        for block in samples(file, wanted or model.sample_rate, notes=notes):
            listener.feed(block)
            transcript.take(listener.drain())
            progress(listener.seconds)
        transcript.duration = listener.seconds
        listener.finish()
        transcript.take(listener.drain())
        transcript.finals = listener.settled(transcript.finals)
    finally:
        listener.close()
    for warning in notes.warnings():
        complain(f"{file}: {warning}")
    return transcript.verbose(words=True)


def _say_difference(file: Path, live: list[str], exact: list[str]) -> None:
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, live, exact, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    differing = max(len(live), len(exact)) - same
    print(f"{file}: {differing} of {len(exact)} words differ from those with the running floor", file=sys.stderr)


def _late(file: Path) -> AbstractContextManager[None]:
    """Tells that hearing ``file`` takes a while where no bar does."""
    return nullcontext() if sys.stderr.isatty() else late(f"{file}: being heard, which takes a while")


def _bar(file: Path) -> Seconds:
    """Shows how much of a file is heard; nothing where stderr is no terminal, or the file is none that can be heard."""
    from audio.recording import RecordingError, open_recording

    if not sys.stderr.isatty():  # To look at a long file takes a second.
        return Seconds(file.name, shown=False)
    try:
        return Seconds(file.name, open_recording(file).seconds or None)
    except RecordingError:
        return Seconds(file.name, shown=False)
