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
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.readers.judge import PhoneJudge
from training.readers.reading import Spoken
from training.readers.script import Line
from training.tts.codes import Codes
from training.tts.config import Config
from training.tts.sound import Sound
from training.tts.spoken import speak
from training.tts.talker import Talker

_ROUNDS = 8  # of lines that are sorted by length before they are said together
_SAVED = 60.0  # seconds from one saving to the next
_HELD_OUT = 20  # every so many lines one is kept from training


@dataclass(frozen=True)
class Take:
    """A line as codes int16 [frames, K], and the nats a phone of its sound."""

    line: Line
    codes: NDArray[np.int16]
    loss: float


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
        heard = self.sound([made[i] for i in ended])
        read = [Spoken(lines[i // count], one, []) for i, one in zip(ended, heard, strict=True)]
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
    seconds: float, out: Path, together: int,
) -> Codes:  # fmt: skip
    """The best takes of as many lines as can be said in `seconds`, by turns in every voice; saved now and then.
    count: takes of a line; keep: share of a round's lines; together: lines of a round, which one voice says.

    Raises:
        ValueError: none was kept.
    """
    began = saved = time.monotonic()
    rows: list[tuple[str, Take]] = []
    # Lines of about one length are said together.
    size = _ROUNDS * together
    blocks = (sorted(script[at : at + size], key=lambda line: len(line.text)) for at in range(0, len(script), size))
    rounds = (block[at : at + together] for block in blocks for at in range(0, len(block), together))
    for lines, speaker in zip(rounds, cycle(speakers), strict=False):
        if time.monotonic() - began > seconds:
            break
        made = studio.takes(lines, speaker, count, temperature)
        kept = best(made, keep)
        if not kept:
            continue
        rows += [(speaker, take) for take in kept]
        if time.monotonic() - saved > _SAVED:
            as_codes(rows).save(out)
            saved = time.monotonic()
        usual = np.mean([take.loss for some in made for take in some])
        chosen = np.mean([take.loss for take in best(made, 1.0)])
        told = f"{usual:.3f} nats a phone, the best {chosen:.3f}"
        print(f"{speaker}: {told}; {len(rows)} lines after {time.monotonic() - began:.0f} s", flush=True)
    if not rows:
        raise ValueError("takes: no line was kept")
    codes = as_codes(rows)
    codes.save(out)
    return codes


def as_codes(takes: Sequence[tuple[str, Take]]) -> Codes:
    """What a talker is trained on, of (speaker, take); every twentieth is held out."""
    return Codes(
        np.concatenate([take.codes for _, take in takes]),
        np.array([len(take.codes) for _, take in takes], np.int64),
        [take.line.text for _, take in takes],
        [speaker for speaker, _ in takes],
        np.arange(len(takes)) % _HELD_OUT == _HELD_OUT - 1,
    )
