"""Utterances whose word starts are known, because the synthesiser reports them: what word times are measured on.

Contract: `python -m tools.timed_words DATA ESPEAK` reads the texts of DATA/speech/en-test-00.tar (sentences that no
model was trained on), has espeak-ng (its library under ESPEAK) say 200 of them, and writes tests/synthetic: Ogg/Opus
clips and index.jsonl: `file text seconds end words`. `end` is where the speech ends; `words` has [index in
text.split(), start in seconds] for every word that begins a word event: espeak joins some ("of the"), and the second of
two joined ones has no start of its own.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from tools.espeak import Espeak
from tools.held_out import BITRATE_LEVEL, RATE, SHARD, Shard
from training.transcript import transcript

COUNT: Final = 200
SEED: Final = 20_261_121
VOICES: Final = ("en-us", "gmw/en", "en-gb-x-rp")
VARIANTS: Final = ("m1", "m3", "m6", "f2", "f5", "Alicia", "Andy", "Michael", "linda", "steph")
TEXTS: Final = ("librispeech", "ljspeech", "common", "kathleen")
"""Corpora whose texts are in the public domain or CC0."""
SILENCE: Final = 0.4
"""Seconds of near-silence around the speech: a stream does not begin with a word."""


def speak(
    espeak: Espeak, text: str, rng: random.Random
) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[Any]] | None:
    """Samples at 16 kHz and the word starts, or None where the events do not fit the text."""
    voice = f"{rng.choice(VOICES)}+{rng.choice(VARIANTS)}"
    speed, pitch = rng.uniform(130, 185), rng.uniform(30, 70)
    made = espeak.say(text, voice, speed=speed, pitch=pitch, pitch_range=50, gap=0)
    if made is None:
        return None
    samples, events = made
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max())
    low, high = int(loud[0]), int(loud[-1]) + 1
    pad = int(SILENCE * RATE)
    noise = np.random.default_rng(rng.getrandbits(32)).normal(0, 3, high - low + 2 * pad)
    noise[pad:-pad] += samples[low:high] * (12000 / np.abs(samples).max())
    count = len(text.split())
    starts: dict[int, float] = {}
    for at, index in events:
        if index < count:
            starts.setdefault(index, round((max(at, low) - low + pad) / RATE, 3))
    words = sorted(starts.items())
    if len(words) < count / 2 or [start for _, start in words] != sorted(start for _, start in words):
        return None
    return np.clip(noise, -32768, 32767).astype(np.int16), words


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Write tests/synthetic.")
    parser.add_argument("data", type=Path)
    parser.add_argument("espeak", type=Path, help="an unpacked Debian package tree with libespeak-ng, or /")
    given = parser.parse_args()
    rng = random.Random(SEED)
    rows_read = Shard.read(given.data / SHARD).rows
    texts = sorted({transcript(row["text"]) for row in rows_read if row["corpus"].lower().startswith(TEXTS)})
    texts = [text for text in texts if 4 <= len(text.split()) <= 12]
    rng.shuffle(texts)
    out = Path(__file__).parent.parent / "tests" / "synthetic"
    out.mkdir(parents=True, exist_ok=True)
    espeak, rows = Espeak(given.espeak), list[dict[str, Any]]()
    for text in texts:
        made = speak(espeak, text, rng)
        if made is None:
            continue
        samples, words = made
        name = f"{len(rows):03d}.opus"
        soundfile.write(out / name, samples, RATE, format="OGG", subtype="OPUS", compression_level=BITRATE_LEVEL)
        seconds = round(len(samples) / RATE, 3)
        rows.append(
            {"file": name, "text": text, "seconds": seconds, "end": round(seconds - SILENCE, 3), "words": words}
        )
        if len(rows) == COUNT:
            break
    (out / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
