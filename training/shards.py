"""Speech shards are tars of Ogg/Opus clips with one index.jsonl (file, text, speaker, seconds, corpus, licence, lang).

Contract: `read_shards` gives 16 kHz mono int16 samples and the text as it stands in the index. `pack` makes a shard of
files that have no texts. `licence_table` says what a model that was trained on shards owes to whom.
"""

import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from audio.ogg import mend
from training.stages import Share

RATE = 16000
# The beginning of a corpus's name in the index, in lower case, and the short name of the source. The first that fits
# wins.
SOURCES = (
    ("common_voice_v1", "common_voice_v1"),
    ("common voice v1", "common_voice_v1"),
    ("common voice unlabelled", "unlabelled"),
    ("common voice", "common_voice"),
    ("speechocean", "speechocean762"),
    ("librispeech", "librispeech"),
    ("vctk", "vctk"),
    ("ljspeech", "ljspeech"),
    ("cmu an4", "an4"),
    ("kathleen", "kathleen"),
    ("african storybook", "storybook"),
    ("asterisk", "asterisk"),
    ("free spoken digit", "digits"),
    ("picovoice wake-word", "wake_words"),
    ("mycroft precise", "wake_words"),
    ("picovoice speech-to-intent", "intents"),
)


@dataclass(frozen=True)
class Clip:
    """One utterance. samples: int16 mono at 16 kHz; speaker: "" where nobody knows who it is."""

    samples: NDArray[np.int16]
    text: str
    speaker: str  # "" where nobody knows
    corpus: str
    source: str
    file: str = ""


def source_of(corpus: str) -> str:
    """Give the short name of a corpus: "LibriSpeech train-clean-100 (part)" becomes "librispeech"."""
    return next((short for start, short in SOURCES if corpus.lower().startswith(start)), "other")


def speaker_of(name: str) -> str:
    """Give an index's speaker; "" where the index says "None", as that of Common Voice v1 does, which does not tell
    speakers."""
    return "" if name == "None" else name


def decode(data: bytes, rate: int = RATE, kind: Literal["int16", "float32"] = "int16") -> NDArray[Any]:
    """Decode any file that libsndfile reads to mono samples of that kind at `rate`. Ogg files are mended first
    (audio/ogg.py)."""
    if data.startswith(b"OggS"):
        data = mend(data)
    samples, own = soundfile.read(io.BytesIO(data), dtype=kind, always_2d=True)
    mono = samples[:, 0]
    return mono if own == rate else soxr.resample(mono, own, rate)


def entries(path: Path) -> Iterator[tuple[dict[str, str], bytes]]:
    """Give every row of a tar's index, and the file that it names."""
    with tarfile.open(path) as tar:
        members = {m.name.removeprefix("./"): m for m in tar.getmembers()}
        index = tar.extractfile(members["index.jsonl"])
        assert index is not None
        for line in index.read().splitlines():
            row = json.loads(line)
            data = tar.extractfile(members[row["file"]])
            assert data is not None
            yield row, data.read()


def index(path: Path) -> list[dict[str, str]]:
    """Give the rows of a tar's index."""
    with tarfile.open(path) as tar:
        [member] = [m for m in tar.getmembers() if m.name.removeprefix("./") == "index.jsonl"]
        file = tar.extractfile(member)
        assert file is not None
        return [json.loads(line) for line in file.read().splitlines()]


def read_shards(paths: Iterable[Path], processes: int = 2, share: Share = (0, 1), lang: str = "en") -> list[Clip]:
    """Decode the English clips of `paths` in shard order. share: (K, N) takes every Nth clip, from the Kth on."""
    number, count = share
    rows = [entry for path in paths for entry in entries(path) if entry[0]["lang"] == lang][number::count]
    with ProcessPoolExecutor(processes) as pool:
        decoded = list(pool.map(decode, [data for _, data in rows], chunksize=64))
    return [
        Clip(samples, row["text"], speaker_of(row["speaker"]), row["corpus"], source_of(row["corpus"]), row["file"])
        for (row, _), samples in zip(rows, decoded, strict=True)
    ]


def opus(samples: NDArray[np.int16]) -> bytes:
    """Encode mono samples at RATE as Ogg/Opus of 16 kbit/s. PyAV is used because it may be told to take less care than
    libsndfile, and is six times as fast."""
    import av  # PyAV is imported here, because a machine that only reads speech may lack it.

    packed = io.BytesIO()
    options = {"b": "16000", "compression_level": "2"}
    file: Any
    with av.open(packed, "w", "ogg") as file:
        stream = file.add_stream("libopus", rate=RATE, layout="mono", options=options)
        frame = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
        frame.sample_rate = RATE
        for packet in (*stream.encode(frame), *stream.encode(None)):
            file.mux(packet)
    return packed.getvalue()


def pack(
    folder: Path, /, *, corpus: str, licence: str, out: Path, kind: str = "mp3", without: Path | None = None
) -> None:
    """Make a shard, as Ogg/Opus, of a folder's audio files that have no texts. out: en-train-0N.tar, as
    docs/training.md names shards; kind: the files' suffix; without: a file that names those to leave out, one anywhere
    in a line."""
    known = set(without.read_text().split() if without else ())
    found = sorted(file for file in folder.glob(f"*.{kind}") if file.name not in known)
    about = {"text": "", "speaker": "None", "corpus": corpus, "licence": licence, "lang": "en"}
    rows: list[str] = []
    with tarfile.open(out, "w") as tar:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

        for file in found:
            samples = decode(file.read_bytes())
            rows.append(json.dumps(about | {"file": f"{file.stem}.ogg", "seconds": len(samples) / RATE}))
            add(f"{file.stem}.ogg", opus(samples))
        add("index.jsonl", "\n".join(rows).encode())
    print(f"{len(rows)} clips")


def licence_table(paths: Iterable[Path]) -> str:
    """Give a Markdown table of the corpora of shards, with licence, clips and hours."""
    clips: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for path in paths:
        for row, _ in entries(path):
            clips[row["corpus"], row["licence"]] += 1
            seconds[row["corpus"], row["licence"]] += float(row["seconds"])
    lines = ["| corpus | licence | clips | hours |", "|---|---|---|---|"]
    for key in sorted(clips):
        lines.append(f"| {key[0]} | {key[1]} | {clips[key]} | {seconds[key] / 3600:.2f} |")
    return "\n".join(lines)
