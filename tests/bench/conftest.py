"""A data directory in small: shards of the test clips, a voice's shard, a little text."""

import io
import json
import lzma
import struct
import tarfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from audio.ogg import checksum
from tests.clips import DATA

Rows = Sequence[dict[str, Any]]

EXTRA = ("matplotlib", "pesq", "pystoi", "pocketsphinx")
collect_ignore = [] if all(map(find_spec, EXTRA)) else ["test_judges.py"]


def index() -> list[dict[str, Any]]:
    """The rows of tests/data."""
    return [json.loads(line) for line in (DATA / "index.jsonl").read_text(encoding="utf-8").splitlines()]


def broken(audio: bytes) -> bytes:
    """An Ogg file whose stream has another serial number from its third page on, checksums right."""
    starts = [i for i in range(len(audio)) if audio[i : i + 5] == b"OggS\x00"]
    pages = [audio[a:b] for a, b in zip(starts, [*starts[1:], len(audio)], strict=True)]
    for i in range(3, len(pages)):
        blank = pages[i][:14] + struct.pack("<I", 77) + pages[i][18:22] + bytes(4) + pages[i][26:]
        pages[i] = blank[:22] + struct.pack("<I", checksum(blank)) + blank[26:]
    return b"".join(pages)


def write_shard(path: Path, rows: Rows, *, damaged: Sequence[str] = (), root: Path = DATA) -> None:
    """A tar of clips below ``root`` under their plain names; ``damaged``: names whose stream is to break."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [{**row, "file": Path(row["file"]).name} for row in rows]
    content = {new["file"]: (root / old["file"]).read_bytes() for old, new in zip(rows, named, strict=True)}
    content = {name: broken(audio) if name in damaged else audio for name, audio in content.items()}
    content["index.jsonl"] = "".join(json.dumps(row) + "\n" for row in named).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def pick(start: str, count: int, shortest: float = 0.0, longest: float = 60.0) -> list[dict[str, Any]]:
    """The first clips of a corpus of a length."""
    rows = [r for r in index() if r["corpus"].startswith(start) and shortest <= r["seconds"] <= longest]
    return [row for row in rows if row["file"].startswith("clips/")][:count]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two clips of speechocean762 (one damaged), two of LJSpeech, two of LibriSpeech; text that holds common words."""
    rows = [*pick("speechocean", 2, 3.0), *pick("ljspeech", 2, 0, 7), *pick("librispeech", 2, 0, 5)]
    write_shard(tmp_path / "speech" / "en-test-00.tar", rows, damaged=[Path(rows[0]["file"]).name])
    (tmp_path / "text").mkdir()
    with lzma.open(tmp_path / "text" / "en.txt.xz", "wt", encoding="utf-8") as text:
        text.write("The old house stood by the river.\nOnly Mary knew it.\n")
    return tmp_path


def codes_file(path: Path, codes: list[npt.NDArray[np.int16]]) -> None:
    frames = np.array([len(one) for one in codes])
    names = np.array([f"{i}.opus" for i in range(len(codes))])
    np.savez(path, files=names, starts=np.arange(len(codes)), frames=frames, codes=np.concatenate(codes))


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    """A data directory with recordings of the voice in the test split, and 40 prompts of its own."""
    write_shard(tmp_path / "speech" / "en-test-00.tar", [*pick("kathleen", 3), *pick("ljspeech", 1)])
    takes = [{**row, "text": f"prompt {i:02d}", "speaker": "kathleen"} for i, row in enumerate(pick("", 40))]
    write_shard(tmp_path / "speech" / "en-voice-00.tar", takes)
    return tmp_path
