"""Recordings for measurements: 16-bit PCM as a client would send it, and the shards of a data directory."""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from streaming.pcm import PcmDecoder

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip of a shard: encoded audio, what is said in it, the corpus it comes from."""

    audio: bytes
    text: str
    corpus: str
    seconds: float


def pcm16(source: Path | BinaryIO) -> tuple[bytes, int, int]:
    """A recording as 16-bit little-endian PCM, its sample rate and its channels.

    Raises:
        OSError, soundfile.LibsndfileError: nothing readable there.
    """
    import soundfile

    with soundfile.SoundFile(str(source) if isinstance(source, Path) else source) as file:
        data: Any = file.read(dtype="int16", always_2d=True)
        return data.astype("<i2", copy=False).tobytes(), int(file.samplerate), int(file.channels)


def samples_of(pcm: bytes, sample_rate: int, channels: int, rate: int) -> Iterator[Floats]:
    """What a listener is fed for it: float32 mono at ``rate``, in two pieces."""
    decoder = PcmDecoder("linear16", sample_rate, channels, rate)
    yield decoder.decode(pcm)
    yield decoder.flush()


def shards(data: Path) -> list[Path]:
    """The tar files of the test splits below ``data/speech``."""
    return sorted((data / "speech").glob("*-test-*.tar"))


def read_shard(path: Path) -> Iterator[Clip]:
    """The clips of a tar, by its ``index.jsonl`` (``file text corpus seconds`` a line)."""
    with tarfile.open(path) as tar:
        index = tar.extractfile("index.jsonl")
        if index is None:
            raise ValueError(f"{path}: index.jsonl is no file")
        for line in io.TextIOWrapper(index, encoding="utf-8").readlines():
            row: dict[str, Any] = json.loads(line)
            member = tar.extractfile(row["file"])
            if member is None:
                raise ValueError(f"{path}: {row['file']} is no file")
            yield Clip(member.read(), str(row["text"]), str(row["corpus"]), float(row["seconds"]))
