"""What the verbs share: how they write to stderr, how they fail, and where their model comes from."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engines import DEVICES

if TYPE_CHECKING:
    from engines.choice import Kind

LARGE = 200_000_000
"""Bytes of a model from which on its loading is told: it is a choice between those in the box, which are loaded in a
moment, and released ones."""
FAILED, MISUSED = 1, 2
"""Exit codes: something failed; something was asked for in a wrong way."""

_EXPECTED = {
    "commands.console.Failure": FAILED,
    "bench.clips.BadIndex": MISUSED,
    "bench.corpora.NoSuchCorpus": MISUSED,
    "clients.events.ListenError": FAILED,
    "clients.microphone.SoundError": FAILED,
    "audio.recording.RecordingError": FAILED,
    "codec.voices.CannotClone": MISUSED,
    "daemon.cluster.NoRay": MISUSED,
    "daemon.cluster.NotStarted": FAILED,
    "daemon.config.ConfigError": MISUSED,
    "engines.llama.GgufError": FAILED,
    "engines.manifest.ManifestError": FAILED,
    "engines.onnx.GraphError": FAILED,
    "engines.onnx.ProviderError": MISUSED,
    "engines.sessions.OptionError": MISUSED,
    "engines.store.IllegalName": MISUSED,
    "engines.store.ModelNotFound": MISUSED,
    "engines.store.StoreError": FAILED,
    "export.stored.CheckpointError": FAILED,
    "export.packages.ExportUnavailable": MISUSED,
}
"""The errors whose message is made for people, by their names: naming a class must not import its room."""

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="Hearing model: a name (hearsay models list) or a directory.",
        show_default=False,
    ),
]
TtsModel = Annotated[
    str | None,
    typer.Option(
        "--tts-model",
        metavar="NAME|DIR",
        help="Speaking model: a name (hearsay models list) or a directory.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, help="Threads of a model call [default: the CPUs this process may use].", show_default=False
    ),
]
Device = Annotated[
    str,
    typer.Option("--device", metavar="|".join(DEVICES), help="Where models are computed; auto: on what is installed."),
]
Language = Annotated[
    str | None, typer.Option("--language", metavar="CODE", help="Language spoken (ISO 639-1); heard, if not given.")
]
Keyterms = Annotated[
    list[str] | None, typer.Option("--keyterm", metavar="TERM", help="A name or word to listen for; repeatable.")
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Use the daemon there, e.g. http://127.0.0.1:8750.")
]
Key = Annotated[str | None, typer.Option("--key", envvar="HEARSAY_KEY", help="Key of that daemon.", show_default=False)]


class Failure(Exception):
    """A verb cannot go on. The message is one line for the person who called it."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def prose(text: str) -> str:
    """Help text: paragraphs without the line breaks of the source, so that the terminal's width decides."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def is_expected(error: BaseException) -> int | None:
    """The exit code for an error that is no defect of the program, None for any other."""
    if isinstance(error, Failure):
        return error.code
    if getattr(error, "asked_wrongly", False):  # This is clients.handshake.Refused.
        return MISUSED
    # The system says what is wrong: no right, no room, a name that is too long.
    if isinstance(error, OSError) and error.strerror:
        return FAILED
    for kind in type(error).__mro__:
        code = _EXPECTED.get(f"{kind.__module__}.{kind.__qualname__}")
        if code is not None:
            return code
    return None


def reason(error: BaseException) -> str:
    """What an expected error says to people."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    told = ": ".join([*getattr(error, "__notes__", ()), str(error)])
    return f"{told} (--key or HEARSAY_KEY)" if getattr(error, "status", None) == 401 else told


def culprit(error: BaseException) -> BaseException:
    """The first error of a task group; any other error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error  # pyright: ignore[reportUnknownVariableType]


def complain(message: str) -> None:
    """Write one line to stderr."""
    line = " ".join(message.split())
    print(f"hearsay: {line}", file=sys.stderr, flush=True)


def version() -> str:
    """The version that is installed."""
    try:
        return installed("hearsay")
    except PackageNotFoundError:
        return "unknown (not installed)"


@contextmanager
def own_daemon(model: str | None, threads: int | None, *, tts_model: str | None = "none") -> Generator[str]:
    """A daemon of this process on a free loopback port, for as long as the block lasts; yields its address.

    ``tts_model``: None for the default speaking model where it is installed, ``none`` for none.

    Settings from the environment do not reach it: nobody else is meant to use it.
    """
    from daemon.config import Settings
    from daemon.serve import Background

    settings = Settings(
        port=0,
        asr_model=model or "auto",
        tts_model=tts_model or "auto",
        threads=threads or 0,
        sessions=4,
        speakers=4,
    )
    with Background(settings) as background:
        models = background.hub.models
        for reason in () if models is None else models.reasons:
            complain(reason)
        yield background.url


def tell_loading(directory: Path) -> None:
    """Say that a large model is being loaded, which takes a while, and what it costs or that it failed its trial."""
    from engines import integrity, speed

    size = sum(file.bytes for file in integrity.load_manifest(directory).files.values())
    if size < LARGE:
        return
    cost = speed.measured(directory)
    takes = "" if cost is None else f"; it takes {cost:.1f} s of this machine for a second of sound"
    failed = f"; it failed its trial (hearsay models try {directory.name})" if speed.failed_here(directory) else ""
    complain(f"loading {directory.name}, {size / 1e9:.1f} GB{takes}{failed}")


def chosen(kind: "Kind", name: str | None, option: str, threads: int | None = None) -> Path:
    """The directory of the model ``name``, else of the best that was pulled and is live here: a line on stderr says
    which, why, and that ``option`` names another.

    Raises:
        ModelNotFound: no model of that name, or none of that kind at all.
    """
    from engines import store
    from engines.choice import choose

    if name is not None:
        return store.find(name)
    choice = choose(kind, threads)
    if told := choice.told(kind, option):
        complain(told)
    return choice.path
