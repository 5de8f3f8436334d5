"""The models of a daemon: which ones, found, loaded and warm."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from codec.model import TtsModel
from daemon.config import Settings
from engines import integrity, store
from engines.manifest import NAME
from engines.store import ModelNotFound
from streaming.model import AsrModel

M = TypeVar("M", AsrModel, TtsModel)
N = TypeVar("N", AsrModel, TtsModel)

AUTO: Final = "auto"
"""``tts_model``: the default speaking model where it is installed."""
NONE: Final = "none"
"""``tts_model``: no speaking."""


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
    """What one daemon runs on. ``speaking`` is None where there is no speaking model."""

    hearing: Loaded[AsrModel]
    speaking: Loaded[TtsModel] | None = None

    @property
    def names(self) -> str:
        """For people."""
        return self.hearing.name + (f" and {self.speaking.name}" if self.speaking else "; it does not speak")

    def close(self) -> None:
        """Release both."""
        self.hearing.model.close()
        if self.speaking is not None:
            self.speaking.model.close()


def load_models(settings: Settings) -> Models:
    """Find, load and warm what the settings name. Blocking.

    Raises:
        engines.store.ModelNotFound, engines.manifest.ManifestError …: a model is unusable; a note of the exception
            names it.
    """
    threads = settings.threads or None
    with _named(settings.aligner):
        aligner = None if settings.aligner == NONE else store.find(settings.aligner)
    with _named(settings.asr_model):
        directory = store.find(settings.asr_model)
        hearing = AsrModel(
            directory, sessions=settings.sessions, threads=threads, device=settings.device, aligner=aligner
        )
    try:
        with _named(settings.tts_model):
            directory = _speaking_directory(settings.tts_model)
            if directory is None:
                return Models(Loaded.of(hearing))
            speaking = TtsModel(directory, sessions=settings.speakers, threads=threads, device=settings.device)
    except BaseException:
        hearing.close()
        raise
    return Models(Loaded.of(hearing), Loaded.of(speaking))


def check_models(settings: Settings) -> None:
    """
    Raises:
        engines.store.ModelNotFound, engines.manifest.ManifestError: what the settings name is not there, or not whole.
    """
    for directory in (
        store.find(settings.asr_model),
        None if settings.aligner == NONE else store.find(settings.aligner),
        _speaking_directory(settings.tts_model),
    ):
        if directory is not None:
            integrity.load_manifest(directory)


def _speaking_directory(asked: str) -> Path | None:
    if asked == NONE:
        return None
    try:
        return store.find(store.default("tts") if asked == AUTO else asked)
    except ModelNotFound:
        if asked != AUTO:
            raise
        return None


@contextmanager
def _named(model: str) -> Generator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"model {model}")
        raise
