"""Voices: the model's presets, and cloned ones stored in the user's data directory.

A stored voice is a .npz of one speaker embedding, float32 (half precision changes the timbre; HaujetZhao/Qwen3-TTS-GGUF
c677189), and perhaps the recording's codes and text. It lies under the name of the model it was made with, because to
another it means nothing.
"""

import os
import re
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from engines.manifest import TtsManifest
from engines.sessions import OptionError
from engines.store import user_directory

Floats = npt.NDArray[np.float32]

LEGAL_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MAX_STORED: Final = 256


class CannotClone(ValueError):
    """The model has no encoders for a reference."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What was said in a recording, and its codes: int64 [frames, codebooks]."""

    text: str
    codes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredVoice:
    """A cloned voice. ``embedding``: float32 [talker width]; ``reference``: what goes before the text, if any."""

    id: str
    embedding: Floats
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """What a list of voices shows."""

    id: str
    name: str
    kind: Literal["preset", "cloned"]


class Voices:
    """The voices of one model. Thread-safe: files appear and disappear whole."""

    def __init__(self, manifest: TtsManifest, directory: Path | None = None) -> None:
        """``directory``: where stored voices of all models lie; None for ``voices`` beside the user's models."""
        self._manifest = manifest
        root = directory if directory is not None else user_directory().parent / "voices"
        self._directory = root / manifest.name

    @property
    def presets(self) -> tuple[str, ...]:
        """Names of the model's own voices, the default first."""
        return tuple(self._manifest.voices)

    def listed(self) -> list[VoiceInfo]:
        """Presets in the manifest's order, then stored voices by id."""
        presets = [VoiceInfo(name, name.replace("_", " ").title(), "preset") for name in self._manifest.voices]
        stored = sorted(path.stem for path in self._files() if LEGAL_ID.fullmatch(path.stem))
        return presets + [VoiceInfo(name, name, "cloned") for name in stored]

    def find(self, asked: str | None) -> str | StoredVoice | None:
        """The voice to speak with: a preset's name, a stored voice, or None where the model has no speakers.

        Raises:
            OptionError: no such voice; the message lists those there are.
        """
        presets = self._manifest.voices
        if asked is None:
            return next(iter(presets), None)
        name = asked.lower()
        if name in presets:
            return name
        if LEGAL_ID.fullmatch(name) and (path := self._directory / f"{name}.npz").is_file():
            return self._read(path)
        known = ", ".join(voice.id for voice in self.listed()) or "none"
        raise OptionError("voice", f"{self._manifest.name} has no {asked[:80]!r}; voices: {known}")

    def require_cloning(self, *, with_text: bool = False) -> None:
        """
        Raises:
            CannotClone: the model lacks the speaker encoder or, ``with_text``, the codec encoder.
        """
        lacking = "speaker" if self._manifest.speaker_encoder is None else None
        if lacking is None and with_text and self._manifest.codec_encoder is None:
            lacking = "codec"
        if lacking is not None:
            raise CannotClone(
                f"voice: {self._manifest.name} cannot clone voices{' with a text' if lacking == 'codec' else ''}: "
                f"it has no {lacking} encoder (models of the Base kind have one)"
            )

    def store(self, name: str, embedding: Floats, reference: Reference | None = None) -> StoredVoice:
        """Keep a cloned voice under ``name``; one of that name is replaced.

        Raises:
            OptionError: an illegal or taken name, or too many voices.
            OSError: the disk takes none.
            ValueError: not a vector of the talker's width.
        """
        name = name.lower()
        if not LEGAL_ID.fullmatch(name):
            raise OptionError("name", f"{name[:80]!r}: 1 to 64 of a–z, 0–9, '_' and '-', a letter or digit first")
        if name in self._manifest.voices:
            raise OptionError("name", f"{name!r} is a preset of {self._manifest.name}")
        if embedding.shape != (self._manifest.talker.width,) or embedding.dtype != np.float32:
            raise ValueError(f"embedding: {embedding.dtype} {embedding.shape}, expected float32 [{self.width}]")
        path = self._directory / f"{name}.npz"
        if not path.exists() and len(self._files()) >= MAX_STORED:
            raise OptionError("name", f"{MAX_STORED} voices are stored, which is the limit; delete one first")
        self._write(path, embedding, reference)
        return StoredVoice(name, embedding, reference)

    def delete(self, name: str) -> None:
        """Forget a stored voice.

        Raises:
            OptionError: there is none of that name, or it is a preset.
        """
        if name.lower() in self._manifest.voices:
            raise OptionError("voice", f"{name!r} is a preset of {self._manifest.name} and cannot be deleted")
        path = self._directory / f"{name.lower()}.npz"
        if not LEGAL_ID.fullmatch(name.lower()) or not path.is_file():
            stored = ", ".join(sorted(path.stem for path in self._files())) or "none"
            raise OptionError("voice", f"no stored voice {name[:80]!r}; stored: {stored}")
        try:
            path.unlink(missing_ok=True)
        except OSError as error:  # On Windows this also happens if another daemon reads it.
            raise OptionError("voice", f"{name.lower()} cannot be deleted: {error.strerror or error}") from None

    @property
    def width(self) -> int:
        """Values of an embedding."""
        return self._manifest.talker.width

    def _files(self) -> list[Path]:
        """What :meth:`find` may find: no directory, pipe or device."""
        return [path for path in self._directory.glob("*.npz") if path.is_file()]

    def _write(self, path: Path, embedding: Floats, reference: Reference | None) -> None:
        """Whole, or not at all: daemons may share the directory."""
        self._directory.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".voice-", dir=self._directory)
        try:
            with os.fdopen(handle, "wb") as file:
                if reference is None:
                    np.savez(file, embedding=embedding)
                else:
                    np.savez(file, embedding=embedding, codes=reference.codes, text=np.array(reference.text))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _read(self, path: Path) -> StoredVoice:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                embedding = np.asarray(stored["embedding"], dtype=np.float32)
                reference = None
                if "codes" in stored:
                    reference = Reference(str(stored["text"]), np.asarray(stored["codes"], dtype=np.int64))
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
            raise OptionError("voice", f"{path.stem} cannot be read ({type(error).__name__}); store it again") from None
        if embedding.shape != (self.width,):
            raise OptionError("voice", f"{path.stem} has {embedding.shape} values, the model takes {self.width}")
        if not np.isfinite(embedding).all():
            raise OptionError("voice", f"{path.stem} holds what is no number; store it again")
        if reference is not None and not self._are_codes(reference.codes):
            raise OptionError("voice", f"{path.stem} holds what are no codes of the model; store it again")
        return StoredVoice(path.stem, embedding, reference)

    def _are_codes(self, codes: npt.NDArray[np.int64]) -> bool:
        codec = self._manifest.codec
        shaped = codes.ndim == 2 and codes.shape[1] == codec.codebooks
        return shaped and bool(((codes >= 0) & (codes < codec.entries)).all())
