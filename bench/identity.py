"""Is what is heard live what is heard in the file? With rounding that depends on the crowd, and with skipped ticks.

Finals are the same by construction for f32, f16 and q8_0 (docs/streaming.md). For q4_k llama.cpp computes a single row
by another kernel than several, so a session in a crowd may differ from the same one alone: here the differing words are
counted, with the margin of the two best tokens (over the logits' deviation) where the texts part.

usage: python -m bench.identity [--data DIR] [--model NAME|DIR] [--limit N] [--sessions N] [--as-it-is]
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench import widened
from bench.ear import path_sound
from bench.figures import lines
from bench.wer import distance
from engines import store
from engines.batching import Owner, Urgency
from engines.gguf import Rows
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions

Floats = npt.NDArray[np.float32]

DATA: Final = Path(__file__).parent.parent / "tests" / "data"
PIECES: Final = (0.02, 0.1, 0.25)
"""Seconds of audio a call, live."""
LATE_PIECES: Final = (0.5, 1.7, 3.0)
"""The same for a caller that falls behind: most ticks are skipped."""


class Noting(AsrModel):
    """A model that notes each decoded text's tokens and margins. One session at a time while it does."""

    noted: list[list[tuple[int, float]]] | None = None

    def evaluate(self, rows: Rows, owner: Owner, urgency: Urgency = Urgency.DUE) -> Floats:
        """As ``AsrModel.evaluate``."""
        logits = super().evaluate(rows, owner, urgency)
        if self.noted is not None and len(logits) == 1:
            if len(rows.rows) > 1:
                self.noted.append([])
            first, second = np.partition(logits[0], -2)[-2:][::-1]
            self.noted[-1].append((int(logits[0].argmax()), float((first - second) / logits[0].std())))
        return logits


def measure(
    data: Path = DATA,
    model: str | None = None,
    *,
    limit: int | None = None,
    sessions: int = 8,
    as_it_is: bool = False,
    threads: int | None = None,
) -> dict[str, object]:
    """Hear the clips of ``data`` as files, live, live with skipped ticks, and live among ``sessions``.

    Args:
        as_it_is: use the model's own decoder instead of one in q4_k_m.

    Raises:
        ModelNotFound, ManifestError: no usable model.
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in (data / "index.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["seconds"] < 60][:limit]
    source = store.find(model or store.default())
    with tempfile.TemporaryDirectory() as folder:
        asr = Noting(source if as_it_is else widened.write(source, Path(folder)), sessions=sessions, threads=threads)
        try:
            if not as_it_is:
                asr.encoder = widened.WidenedEncoder(asr.encoder, asr.decoder.width)
            sounds = [np.concatenate(list(path_sound(data / row["file"])(asr.sample_rate))) for row in rows]
            files, notes = list[list[str]](), list[list[list[tuple[int, float]]]]()
            for sound in sounds:
                asr.noted = []
                files.append(heard(asr, sound, None, 0))
                notes.append(asr.noted)
            asr.noted = None
            before = asr.work
            live = [heard(asr, sound, PIECES, seed) for seed, sound in enumerate(sounds)]
            ticks = asr.work.ticks - before.ticks
            before = asr.work
            late = [heard(asr, sound, LATE_PIECES, seed) for seed, sound in enumerate(sounds)]
            skipped = asr.work.ticks_skipped - before.ticks_skipped
            calls = asr.lane.jobs - asr.lane.batches
            with ThreadPoolExecutor(sessions) as pool:
                crowd = list(pool.map(heard, repeat(asr), sounds, repeat(PIECES), range(len(sounds))))
            return {
                "model": asr.name,
                "decoder": asr.manifest.decoder.quantization,
                "clips": len(rows),
                "words": sum(len(text.split()) for texts in files for text in texts),
                "live": {"ticks": ticks, **compared(asr, files, live, notes)},
                "live, ticks skipped": {"skipped": skipped, **compared(asr, files, late, notes)},
                f"live among {sessions}": {
                    "rows_that_shared_a_call": asr.lane.jobs - asr.lane.batches - calls,
                    **compared(asr, files, crowd, notes),
                },
                "margins": spread([margin for noted in notes for text in noted for _, margin in text]),
            }
        finally:
            asr.close()


def heard(asr: AsrModel, sound: Floats, pieces: Sequence[float] | None, seed: int) -> list[str]:
    """The final texts of one recording; ``pieces``: seconds a call, drawn at random, None for the file at once."""
    random_ = random.Random(seed)
    texts: list[str] = []
    with closing(asr.listener(ListenOptions(interim=pieces is not None))) as listener:
        at = 0
        while at < len(sound):
            size = len(sound) if pieces is None else int(random_.choice(pieces) * asr.sample_rate)
            texts += [e.text for e in listener.feed(sound[at : at + size]) if isinstance(e, Transcript) and e.is_final]
            at += size
        texts += [e.text for e in listener.finish() if isinstance(e, Transcript) and e.is_final]
    return texts


def compared(
    asr: AsrModel, files: list[list[str]], others: list[list[str]], notes: list[list[list[tuple[int, float]]]]
) -> dict[str, object]:
    """Differing words and clips, and the margin at each place where a text parts from the file's."""
    margins: list[float] = []
    words = clips = 0
    for texts, other, noted in zip(files, others, notes, strict=True):
        clips += texts != other
        words += distance(" ".join(texts).split(), " ".join(other).split())
        if len(noted) == len(texts) == len(other):
            parts = [parting(asr, *each) for each in zip(texts, other, noted, strict=True)]
            margins += [margin for margin in parts if margin is not None]
    return {
        "clips_that_differ": clips,
        "words_that_differ": words,
        "margins_there": " ".join(f"{margin:.3f}" for margin in sorted(margins)) or "-",
    }


def spread(margins: list[float]) -> dict[str, object]:
    """How near the second best token ever was: the least margins, and how many lie where rounding may decide."""
    return {
        "tokens": len(margins),
        "least": " ".join(f"{margin:.3f}" for margin in sorted(margins)[:5]),
        "below_0.1": sum(margin < 0.1 for margin in margins),
    }


def parting(asr: AsrModel, text: str, other: str, noted: list[tuple[int, float]]) -> float | None:
    """The margin of the token at which ``other`` leaves ``text``; None where they are equal."""
    if text == other:
        return None
    tokens = [token for token, _ in noted if token not in asr.prompt.stop]
    for count, (_, margin) in enumerate(noted[: len(tokens)], 1):
        if not other.startswith(asr.prompt.text(tokens[:count]).strip()):
            return margin
    return noted[-1][1]


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--model")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--as-it-is", action="store_true", help="the model's own decoder, not one in q4_k_m")
    given = parser.parse_args()
    lines(measure(given.data, given.model, limit=given.limit, sessions=given.sessions, as_it_is=given.as_it_is))


if __name__ == "__main__":
    main()
