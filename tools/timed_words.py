"""Utterances whose word starts are known, because the synthesiser plans them: what word times and the lateness of
captions are measured on.

Contract: `python -m tools.timed_words SPEECH` reads the shards that `python -m training.speech make --hearing` wrote to
SPEECH from a script of sentences that no model was trained on, and writes tests/synthetic: Ogg/Opus clips and
index.jsonl: `file text seconds end words`. `end` is where the speech ends; `words` has [index in text.split(), start in
seconds] for every word; takes whose words do not correspond to their phonemes are left out.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from tools.held_out import BITRATE_LEVEL, RATE

COUNT: Final = 150
"""Clips that are written."""
MARGIN: Final = 0.05
"""Seconds around the speech of a take (training/speech/takes.py)."""
SILENCE: Final = 0.4
"""Seconds of near-silence around a take: a stream does not begin with a word."""

Take = tuple[int, int, str, str, list[tuple[int, int]]]
"""Place of its first sample, samples, text, source, [sample, words before it] of each word but the first."""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Write tests/synthetic.")
    parser.add_argument("speech", type=Path)
    given = parser.parse_args()
    out = Path(__file__).parent.parent / "tests" / "synthetic"
    out.mkdir(parents=True, exist_ok=True)
    rows, pad = list[dict[str, Any]](), round(SILENCE * RATE)
    for shard in sorted(given.speech.glob("w*.json")):
        sound = np.fromfile(shard.with_suffix(".pcm"), np.int16)
        takes: list[Take] = json.loads(shard.read_text())
        for first, count, text, _, words in takes:
            if len(rows) == COUNT or [n for _, n in words] != list(range(1, len(text.split()))):
                continue
            samples = np.random.default_rng(len(rows)).normal(0, 3, count + 2 * pad)
            samples[pad:-pad] += sound[first : first + count]
            name = f"{len(rows):03d}.opus"
            pcm = np.clip(samples, -32768, 32767).astype(np.int16)
            soundfile.write(out / name, pcm, RATE, format="OGG", subtype="OPUS", compression_level=BITRATE_LEVEL)
            starts = [[0, round(SILENCE + MARGIN, 3)], *([n, round(at / RATE + SILENCE, 3)] for at, n in words)]
            seconds = len(pcm) / RATE
            end = round(seconds - SILENCE - MARGIN, 3)
            rows.append({"file": name, "text": text, "seconds": round(seconds, 3), "end": end, "words": starts})
    (out / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
