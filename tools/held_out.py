"""The audio that tests and the demo use: chosen from the held-out shard, which no model was trained on.

Contract: `python -m tools.held_out DATA` reads DATA/speech/en-test-00.tar and writes tests/data (120 clips, three
long recordings, index.jsonl) and models/samples (the demo recording, the one that speeds are measured on,
samples.json). The choice and the samples of the
recordings follow from the seed alone; libsndfile gives every Ogg file a serial number of its own.
"""

import argparse
import io
import json
import random
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from audio.ogg import mend
from audio.pcm import PcmDecoder
from streaming.model import WARM_SECONDS

RATE: Final = 16_000
"""Hertz: the rate of the hearing model."""
SEED: Final = 20_261_120
"""The seed of every choice."""
SHARD: Final = "speech/en-test-00.tar"

# Clips by the beginning of their corpus name: every corpus is heard, none drowns the others.
QUOTAS: Final = {
    "librispeech": 32,
    "common_voice_v1": 22,
    "Common Voice 18.0": 8,
    "Common Voice 19.0": 5,
    "Common Voice 20.0": 5,
    "Common Voice 6.1": 1,
    "Common Voice v1": 1,
    "speechocean762": 16,
    "kathleen": 12,
    "ljspeech": 10,
    "CMU AN4": 8,
}
# Speakers of the long recordings and their length in seconds: two readers of LibriSpeech, the one of LJSpeech.
RECORDINGS: Final = {"ls777": 150.0, "ls1919": 165.0, "LJ": 130.0}
# Two clips of LJSpeech that tests/data does not have. Joined and heard live, their word errors (10.8 %) are about those
# of the corpus's median clip (10.5 %).
DEMO: Final = ("5c0cb0496114.opus", "d7df2041f53b.opus")
# The index has parts of sentences; cased and punctuated by hand, word for word.
DEMO_TEXT: Final = (
    "Produced the block books, which were the immediate predecessors of the true printed book. And things got worse"
    " and worse through the whole of the seventeenth century, so that in the eighteenth printing was very miserably"
    " performed."
)
# The published speeds are measured on it.
READING: Final = "add8af6b2282.opus"
# The index has it in capitals; cased and punctuated by hand, word for word.
READING_TEXT: Final = (
    "But I did once have the luck to hear and see The Lady played in entirety. The children had been granted leave to"
    " play just one more game before bed time, and of course they chose the longest and played it without missing a"
    " syllable."
)
BITRATE_LEVEL: Final = 0.95
"""The level of libsndfile's compression for Opus: about 20 kbit/s at 16 kHz."""

Samples = NDArray[np.float32]
Row = dict[str, Any]


@dataclass(frozen=True)
class Shard:
    """The held-out shard: index rows in order, and each file's bytes, mended where its stream was broken."""

    rows: list[Row]
    files: dict[str, bytes]

    @classmethod
    def read(cls, path: Path) -> "Shard":
        """Read a tar of Opus clips and one index.jsonl."""
        files: dict[str, bytes] = {}
        with tarfile.open(path) as tar:
            for member in tar:
                if (stream := tar.extractfile(member)) is not None:
                    files[Path(member.name).name] = stream.read()
        index = files.pop("index.jsonl").decode()
        return cls(
            [json.loads(line) for line in index.splitlines()], {name: mend(data) for name, data in files.items()}
        )

    def samples(self, name: str) -> Samples:
        """The samples of one clip, float32 mono at 16 kHz."""
        samples, rate = soundfile.read(io.BytesIO(self.files[name]), dtype="float32")
        assert rate == RATE, f"{name}: {rate} Hz"
        assert samples.ndim == 1, f"{name}: more than one channel"
        return samples.astype(np.float32, copy=False)


def choose(rows: Sequence[Row], chance: random.Random) -> list[Row]:
    """The short clips, by quota, in the order of the index."""
    chosen: set[str] = set()
    for corpus, count in QUOTAS.items():
        names = sorted(row["file"] for row in rows if row["corpus"].startswith(corpus))
        chosen.update(chance.sample(names, count))
    return [row for row in rows if row["file"] in chosen]


def room_tone(clips: Sequence[Samples], length: int, chance: np.random.Generator) -> Samples:
    """Noise of the speaker's room, float32 [length]: grains of the clips' quietest edges, overlapped at equal power."""
    grain = RATE // 10
    quiet: list[Samples] = []
    for clip in clips:
        starts = [*range(0, 3 * grain, grain // 4), *range(len(clip) - 4 * grain, len(clip) - grain, grain // 4)]
        edges = [clip[start : start + grain] for start in starts]
        quiet.append(min(edges, key=lambda samples: float(np.square(samples).sum())))
    # Clips whose reader speaks up to the edge have no tone to give: the quietest quarter is enough.
    quiet.sort(key=lambda samples: float(np.square(samples).sum()))
    quiet = quiet[: max(4, len(quiet) // 4)]
    window = np.sqrt(np.hanning(grain + 1)[:grain])
    tone = np.zeros(length + 2 * grain)
    for start in range(0, length + grain, grain // 2):
        sign = chance.choice([-1.0, 1.0])
        tone[start : start + grain] += sign * window * quiet[chance.integers(len(quiet))]
    return tone[grain // 2 : grain // 2 + length].astype(np.float32)


def join(clips: Sequence[Samples], chance: np.random.Generator) -> tuple[Samples, list[tuple[float, float]]]:
    """One recording of one speaker's clips: samples, and where each clip stands in it, in seconds.

    Gaps of 0.3…1.5 s of room tone; clips fade in and out of it within 10 ms.
    """
    gaps = [round(float(chance.uniform(0.3, 1.5)) * RATE) for _ in range(len(clips) + 1)]
    starts = np.cumsum([gaps[0], *(len(clip) + gap for clip, gap in zip(clips, gaps[1:], strict=True))])
    recording = room_tone(clips, int(starts[-1]), chance)
    ramp = np.linspace(0, 1, RATE // 100, dtype=np.float32)
    for clip, start in zip(clips, starts, strict=False):
        weight = np.ones(len(clip), np.float32)
        weight[: len(ramp)], weight[-len(ramp) :] = ramp, ramp[::-1]
        place = slice(start, start + len(clip))
        recording[place] = weight * clip + (1 - weight) * recording[place]
    spans = [(int(s) / RATE, (int(s) + len(c)) / RATE) for s, c in zip(starts, clips, strict=False)]
    return recording, spans


def record(shard: Shard, rows: Sequence[Row], seconds: float, path: Path, chance: random.Random) -> Row:
    """Join clips of ``rows`` (one speaker) until ``seconds`` are full, write the recording, return its index row."""
    rows = sorted(rows, key=lambda row: row["file"])
    chance.shuffle(rows)
    total, count = 0.0, 0
    while total < seconds:
        total += rows[count]["seconds"] + 0.9
        count += 1
    rows = rows[:count]
    samples, spans = join([shard.samples(row["file"]) for row in rows], np.random.default_rng(chance.getrandbits(64)))
    soundfile.write(path, samples, RATE, format="OGG", subtype="OPUS", compression_level=BITRATE_LEVEL)
    parts = [
        {"file": row["file"], "start": round(a, 4), "end": round(b, 4), "text": row["text"]}
        for row, (a, b) in zip(rows, spans, strict=True)
    ]
    shared = {key: rows[0][key] for key in ("speaker", "corpus", "licence", "lang")}
    text = " ".join(row["text"] for row in rows)
    return {"file": path.name, "text": text, "seconds": round(len(samples) / RATE, 2), **shared, "parts": parts}


def write_demo(shard: Shard, folder: Path) -> Row:
    """The recording of `hearsay demo`; returns its entry of samples.json."""
    first, *_ = rows = [next(row for row in shard.rows if row["file"] == name) for name in DEMO]
    samples, _ = join([shard.samples(name) for name in DEMO], np.random.default_rng(SEED + 2))
    soundfile.write(folder / "demo.opus", samples, RATE, format="OGG", subtype="OPUS", compression_level=BITRATE_LEVEL)
    assert all(row["speaker"] == first["speaker"] for row in rows)
    return {
        **first, "file": "demo.opus", "text": DEMO_TEXT, "seconds": round(len(samples) / RATE, 2), "source": [*DEMO],
        "credit": "LJSpeech (public domain)",
    }  # fmt: skip


def write_reading(shard: Shard, folder: Path) -> Row:
    """The recording that speeds are measured on, as it is in the shard; returns its entry of samples.json."""
    row = next(row for row in shard.rows if row["file"] == READING)
    (folder / "reading.opus").write_bytes(shard.files[READING])
    begun = shard.samples(READING)[: round(WARM_SECONDS * RATE)]  # Hearing models hear it when they are loaded.
    levels = PcmDecoder("mulaw", RATE).decode(bytes(range(256)))
    nearest = np.abs(begun[:, None] - levels).argmin(axis=1)
    (folder / "reading.mulaw").write_bytes(nearest.astype(np.uint8).tobytes())
    return {
        **row,
        "file": "reading.opus",
        "text": READING_TEXT,
        "source": [READING],
        "credit": "LibriSpeech (CC BY 4.0)",
    }


def write_index(path: Path, rows: Sequence[Row]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Choose the held-out audio of tests/data and models/samples.")
    parser.add_argument("data", type=Path, help="the data directory, which holds speech/en-test-00.tar")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    arguments = parser.parse_args()
    shard = Shard.read(arguments.data / SHARD)
    tests, samples = arguments.root / "tests" / "data", arguments.root / "models" / "samples"
    for folder in (tests / "clips", tests / "recordings"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    samples.mkdir(parents=True, exist_ok=True)

    # Some of LJSpeech's texts carry the quotation marks of the table they came from: ""old style"".
    clean = [
        row for row in shard.rows if row["file"] != READING and not (row["speaker"] == "LJ" and '"' in row["text"])
    ]
    chosen = choose(clean, random.Random(SEED))
    index = [{**row, "file": f"clips/{row['file']}"} for row in chosen]
    for row in chosen:
        (tests / "clips" / row["file"]).write_bytes(shard.files[row["file"]])
    used = {row["file"] for row in chosen}
    for number, (speaker, seconds) in enumerate(RECORDINGS.items()):
        rows = [row for row in clean if row["speaker"] == speaker and row["file"] not in used]
        path = tests / "recordings" / f"{speaker.lower()}.opus"
        row = record(shard, rows, seconds, path, random.Random(SEED + 1 + number))
        index.append({**row, "file": f"recordings/{path.name}"})
    write_index(tests / "index.jsonl", index)

    entries = [write_demo(shard, samples), write_reading(shard, samples)]
    (samples / "samples.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    print(f"{len(chosen)} clips, {sum(row['seconds'] for row in chosen):.0f} s;", end=" ")
    print(", ".join(f"{row['file']} {row['seconds']:.0f} s" for row in index[len(chosen) :]))


if __name__ == "__main__":
    main()
