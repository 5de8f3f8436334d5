"""Several takes of a text by the talker itself, of which a hearing model's phone head chooses: what it can say well now
and then, it can learn to say well always. No encoder is needed, the codes are the talker's own.

Contract: of every line the take with the least nats a phone; lines whose best take is still among the worst are left
out.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engines.manifest import read_tts
from engines.onnx import Graph
from training.readers.judge import PhoneJudge
from training.readers.reading import Spoken
from training.readers.script import Line
from training.shards import RATE
from training.tts.codes import Codes
from training.tts.config import Config
from training.tts.spoken import speak
from training.tts.talker import Talker

_BLOCK, _ROUND = 640, 80  # lines: sorted by length, and said together by one voice


@dataclass(frozen=True)
class Take:
    """A line as codes int16 [frames, K], and the nats a phone of its sound."""

    line: Line
    codes: NDArray[np.int16]
    loss: float


class Sound:
    """Codes -> samples, by the decoder of a shipped model: on a processor much faster than the one it was made of."""

    def __init__(self, model: Path, threads: int = 1) -> None:
        """model: directory of a speaking model. Raises ManifestError: there is none."""
        self._spec = read_tts(model).codec
        self._graph = Graph(model / self._spec.file, threads=threads, provider="cpu")
        self._wave = self._graph.outputs.index(self._spec.wave)

    def __call__(self, codes: NDArray[np.int16]) -> NDArray[np.int16]:
        """Samples int16 at 16 kHz of codes int16 [frames, K]. One utterance a call is as fast as several."""
        spec = self._spec
        feeds = {state.input: np.zeros((1, *state.shape), np.float32) for state in spec.states}
        ending = {spec.last: np.ones(1, np.float32)} if spec.last else {}
        wave = self._graph.run({spec.codes: codes[None].astype(np.int64)} | feeds | ending)[self._wave].reshape(-1)
        heard = soxr.resample(wave[: len(codes) * spec.frame_samples], spec.sample_rate, RATE)
        return (heard.clip(-1, 1) * 32767).astype(np.int16)


@dataclass(frozen=True)
class Studio:
    """Who speaks, what makes sound of it, and who judges."""

    config: Config
    talker: Talker
    sound: Sound
    tokenizer: Tokenizer
    judge: PhoneJudge

    def takes(
        self, lines: Sequence[Line], speaker: str, count: int, temperature: float, rest: float = 0.0
    ) -> list[list[Take]]:
        """`count` takes of each line, less those that did not end or into which its phones do not fit; temperatures as
        in `speak`."""
        texts = [line.text for line in lines for _ in range(count)]
        made = speak(self.config, self.talker, self.tokenizer, texts, speaker, temperature, rest)
        most = max(map(len, made))
        ended = [i for i, codes in enumerate(made) if 0 < len(codes) < most]
        read = [Spoken(lines[i // count], self.sound(made[i]), []) for i in ended]
        out: list[list[Take]] = [[] for _ in lines]
        for i, one, loss in zip(ended, read, self.judge.losses(read).tolist(), strict=True):
            if np.isfinite(loss):
                out[i // count].append(Take(one.line, made[i], loss))
        return out


def best(takes: Sequence[Sequence[Take]], keep: float) -> list[Take]:
    """The best take of every line; of them the share `keep` that is heard best."""
    chosen = [min(some, key=lambda take: take.loss) for some in takes if some]
    return sorted(chosen, key=lambda take: take.loss)[: round(keep * len(chosen))]


def record(
    studio: Studio, script: Sequence[Line], speakers: Sequence[str], temperature: float, count: int, keep: float,
    seconds: float, out: Path,
) -> Codes:  # fmt: skip
    """The best takes of as many lines as can be said in `seconds`, by turns in every voice; saved after every round.
    count: takes of a line; keep: share of a round's lines.

    Raises:
        ValueError: none was kept.
    """
    began = time.monotonic()
    rows: list[tuple[str, Take]] = []
    # Lines of about one length are said together.
    blocks = (sorted(script[at : at + _BLOCK], key=lambda line: len(line.text)) for at in range(0, len(script), _BLOCK))
    rounds = (block[at : at + _ROUND] for block in blocks for at in range(0, len(block), _ROUND))
    for lines, speaker in zip(rounds, cycle(speakers), strict=False):
        if time.monotonic() - began > seconds:
            break
        made = studio.takes(lines, speaker, count, temperature)
        kept = best(made, keep)
        if not kept:
            continue
        rows += [(speaker, take) for take in kept]
        as_codes(rows).save(out)
        usual = np.mean([take.loss for some in made for take in some])
        chosen = np.mean([take.loss for take in best(made, 1.0)])
        told = f"{usual:.3f} nats a phone, the best {chosen:.3f}"
        print(f"{speaker}: {told}; {len(rows)} lines after {time.monotonic() - began:.0f} s", flush=True)
    if not rows:
        raise ValueError("takes: no line was kept")
    return as_codes(rows)


def as_codes(takes: Sequence[tuple[str, Take]]) -> Codes:
    """What a talker is trained on, of (speaker, take)."""
    return Codes(
        np.concatenate([take.codes for _, take in takes]),
        np.array([len(take.codes) for _, take in takes], np.int64),
        [take.line.text for _, take in takes],
        [speaker for speaker, _ in takes],
        np.zeros(len(takes), np.bool_),
    )
