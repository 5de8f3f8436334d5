"""The models of a daemon: which ones, found and loaded, and whether this machine keeps them live."""

import uuid
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from codec.model import TtsModel
from codec.sounds.lexicon import Lexicon
from daemon.config import Settings
from engines import integrity, speed, store
from engines.choice import Choice, Kind, choose
from engines.lane import Cancelled
from engines.manifest import NAME
from engines.store import ModelNotFound
from engines.threads import SMALL_BYTES
from streaming.model import AsrModel

M = TypeVar("M", AsrModel, TtsModel)
N = TypeVar("N", AsrModel, TtsModel)

AUTO: Final = "auto"
"""``asr_model``, ``tts_model``: the best that was pulled and is live here (``engines.choice``); no speaking model where
none is installed."""
NONE: Final = "none"
"""The value of ``tts_model`` with which nothing is spoken."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[M]):
    """A model ready for work, and what protocols tell about it."""

    model: M
    uuid: str
    """Derived from the checksums of the model's files: the same files, the same uuid."""
    created: int
    """Unix time of its model.json."""

    @staticmethod
    def of(model: N) -> "Loaded[N]":
        """``model`` with its identity."""
        sums = ",".join(sorted(file.sha256 for file in model.manifest.files.values()))
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{model.name}:{sums}")
        return Loaded(model, str(identity), int((model.directory / NAME).stat().st_mtime))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name


@dataclass(frozen=True, slots=True)
class Models:
    """The models that one daemon runs on. ``speaking`` is None where there is no speaking model."""

    hearing: Loaded[AsrModel]
    speaking: Loaded[TtsModel] | None = None
    reasons: tuple[str, ...] = ()
    """Why these models were chosen, a sentence each; empty where the settings name them."""
    threads: int | None = None
    """The thread budget that they were loaded with; None for the CPUs that this process may use."""

    @property
    def names(self) -> str:
        """The names of the models, in words for people."""
        return self.hearing.name + (f" and {self.speaking.name}" if self.speaking else "; it does not speak")

    def warm(self) -> None:
        """Warm the models that are not warm yet, the hearing model first, and keep what they cost, so that the next
        start need not estimate it. Blocking; it ends silently when the models are closed."""
        with suppress(Cancelled):
            for loaded in self._all:
                if not loaded.model.warmed:
                    with _named(loaded.name):
                        loaded.model.warm()
                    speed.note_first(loaded.model.directory, loaded.model.cost, self.threads)

    @property
    def warming(self) -> tuple[str, ...]:
        """Names of the models that are not warm yet."""
        return tuple(loaded.name for loaded in self._all if not loaded.model.warmed)

    @property
    def why_not_live(self) -> str:
        """The model that this machine does not keep live, and what that means for a person; empty where all are live,
        or it is not known yet."""
        slow = [
            f"{loaded.name} takes {loaded.model.cost:.1f} s of this machine for a second of {sound}, so {consequence}"
            for loaded, sound, consequence in (
                (self.hearing, "speech", "live captions fall behind, while files are heard in time"),
                (self.speaking, "its voice", "it pauses where it is heard while it speaks"),
            )
            if loaded is not None and loaded.model.cost > speed.LIVE
        ]
        return f"{'; '.join(slow)}. A smaller model keeps up (hearsay models list --available)" if slow else ""

    @property
    def _all(self) -> tuple[Loaded[AsrModel] | Loaded[TtsModel], ...]:
        return (self.hearing,) if self.speaking is None else (self.hearing, self.speaking)

    def close(self) -> None:
        """Release both models."""
        self.hearing.model.close()
        if self.speaking is not None:
            self.speaking.model.close()


def load_models(settings: Settings) -> Models:
    """Find and load what the settings name, both models at the same time; for large ones :meth:`Models.warm` is left
    to do. Blocking.

    Raises:
        engines.store.ModelNotFound, engines.manifest.ManifestError …: a model is unusable; a note of the exception
            names it.
        engines.sessions.OptionError: the lexicon cannot be read, or the speaking model takes none.
    """
    threads = settings.threads or None
    with _named(settings.aligner):
        aligner = None if settings.aligner == NONE else store.find(settings.aligner)
    with _named(settings.asr_model):
        hearing = _hearing(settings)
    with _named(settings.tts_model):
        speaking = _speaking(settings)

    lexicon = Lexicon.load(Path(settings.lexicon)) if settings.lexicon else None

    def hear() -> AsrModel:
        with _named(settings.asr_model):
            return _warm_if_small(
                AsrModel(
                    hearing.path,
                    sessions=settings.sessions,
                    threads=threads,
                    device=settings.device,
                    aligner=aligner,
                    warm=False,
                )
            )

    def speak() -> TtsModel | None:
        if speaking is None:
            return None
        with _named(settings.tts_model):
            return _warm_if_small(
                TtsModel(
                    speaking.path,
                    sessions=settings.speakers,
                    threads=threads,
                    device=settings.device,
                    lexicon=lexicon,
                    warm=False,
                )
            )

    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(speak)
        try:
            ear = hear()
        except BaseException:
            if coming.exception() is None and (voice := coming.result()) is not None:
                voice.close()
            raise
        try:
            voice = coming.result()
        except BaseException:
            ear.close()
            raise
    told = (hearing.told("asr", "--asr-model"), "" if speaking is None else speaking.told("tts", "--tts-model"))
    return Models(Loaded.of(ear), None if voice is None else Loaded.of(voice), tuple(filter(None, told)), threads)


def _warm_if_small(model: N) -> N:
    """``model``, which is warmed where that takes a moment only. A large model takes seconds, in which it can work
    already."""
    if sum(file.bytes for file in model.manifest.files.values()) < SMALL_BYTES:
        try:
            model.warm()
        except BaseException:
            model.close()
            raise
    return model


def check_models(settings: Settings) -> None:
    """Check the models that the settings name.

    Raises:
        engines.store.ModelNotFound, engines.manifest.ManifestError: a model is not there, or not whole.
    """
    speaking = _speaking(settings)
    for directory in (
        _hearing(settings).path,
        None if settings.aligner == NONE else store.find(settings.aligner),
        None if speaking is None else speaking.path,
    ):
        if directory is not None:
            integrity.load_manifest(directory)


def _hearing(settings: Settings) -> Choice:
    return _chosen("asr", settings.asr_model, settings)


def _speaking(settings: Settings) -> Choice | None:
    if settings.tts_model == NONE:
        return None
    try:
        return _chosen("tts", settings.tts_model, settings)
    except ModelNotFound:
        if settings.tts_model != AUTO:
            raise
        return None


def _chosen(kind: Kind, asked: str, settings: Settings) -> Choice:
    if asked == AUTO:
        return choose(kind, settings.threads or None)
    return Choice(store.find(asked), asked)


@contextmanager
def _named(model: str) -> Generator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"model {model}")
        raise
