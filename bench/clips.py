"""Recordings for measurements: 16-bit PCM as a client would send it, and the shards of a data directory."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from audio.ogg import mend
from audio.pcm import MAX_RATE, MIN_RATE, PcmDecoder, linear16
from audio.recording import RecordingError, open_recording, samples

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip of a shard: encoded audio, what is said in it, the corpus it comes from, its name there and who speaks."""

    audio: bytes
    text: str
    corpus: str
    seconds: float
    file: str
    speaker: str

    def mended(self) -> "Clip":
        """The clip with every page of its Ogg stream under one serial number; itself where that is so already.

        95 clips of the test split change it in the middle, and libsndfile silently drops what follows.
        """
        audio = mend(self.audio) if self.audio.startswith(b"OggS") else self.audio
        return self if audio is self.audio else replace(self, audio=audio)


def pcm16(source: Path | BinaryIO) -> tuple[bytes, int, int]:
    """A recording as 16-bit little-endian PCM, its sample rate and its channels.

    Raises:
        RecordingError: nothing that can be heard, with the file's name.
    """
    try:
        rate = min(max(open_recording(source).sample_rate, MIN_RATE), MAX_RATE)
        return b"".join(linear16(block) for block in samples(source, rate)), rate, 1
    except RecordingError as error:
        raise RecordingError(f"{source}: {error}") from None


def samples_of(pcm: bytes, sample_rate: int, channels: int, rate: int) -> Iterator[Floats]:
    """What a listener is fed for it: float32 mono at ``rate``, in two pieces."""
    decoder = PcmDecoder("linear16", sample_rate, channels, rate)
    yield decoder.decode(pcm)
    yield decoder.flush()


def shards(data: Path) -> list[Path]:
    """The tar files of the test splits below ``data/speech``."""
    return sorted((data / "speech").glob("*-test-*.tar"))


def read_shard(path: Path) -> Iterator[Clip]:
    """The clips of a tar, by its ``index.jsonl`` (``file text corpus seconds``, and ``speaker`` if known, a line).

    Raises:
        ValueError: the tar lacks its index, or a file that the index names.
    """
    with tarfile.open(path) as tar:
        members = {member.name.removeprefix("./"): member for member in tar.getmembers()}
        for row in _rows(path, tar, members):
            file = str(row["file"])
            yield Clip(
                _content(path, tar, members, file),
                str(row["text"]),
                str(row["corpus"]),
                float(row["seconds"]),
                file,
                str(row.get("speaker", "")),
            )


def read_index(path: Path) -> list[dict[str, Any]]:
    """The rows of a tar's ``index.jsonl``.

    Raises:
        ValueError: the tar has none.
    """
    with tarfile.open(path) as tar:
        return _rows(path, tar, {member.name.removeprefix("./"): member for member in tar.getmembers()})


def _rows(path: Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _content(path, tar, members, "index.jsonl").decode().splitlines()]


def _content(path: Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], name: str) -> bytes:
    stream = tar.extractfile(members[name]) if name in members else None
    if stream is None:
        raise ValueError(f"{path}: {name} is no file")
    return stream.read()


class BadIndex(ValueError):
    """A row of an ``index.jsonl`` is no row that the measurement can use; the message names file, row and field."""


def index(directory: Path, *fields: str) -> list[dict[str, Any]]:
    """The rows of the ``index.jsonl`` of a ``directory``, each of which has all ``fields``.

    Raises:
        BadIndex: one has not.
        OSError: there is no such file.
    """
    path, rows = directory / "index.jsonl", list[dict[str, Any]]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise BadIndex(f"{path}: row {number} is no JSON object")
        for field in fields:
            if field not in row:
                raise BadIndex(f"{path}: row {number} has no field {field!r}, which each row needs")
        rows.append(row)  # pyright: ignore[reportUnknownArgumentType]
    return rows


def names(path: Path) -> frozenset[str]:
    """The names of clips in a file: one a line, or the ``dev`` list of a training run's run.json."""
    content = path.read_text(encoding="utf-8")
    return frozenset(json.loads(content)["dev"] if path.suffix == ".json" else content.split())
