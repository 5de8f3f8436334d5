"""A round of practice: lines are said several times, judges hear the takes, and the best one of each line is kept."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.lengths import by_length
from training.tts.choice import Line, choose, weights
from training.tts.config import PracticeTraining
from training.tts.judges import Judge, Judgements
from training.tts.rows import Layout
from training.tts.sampler import Saying, speak
from training.tts.talker import Talker

MEASURED = "lines kept", "naturalness", "log-probability", "chosen more natural", "chosen likelier"
"""What is told of a round: of all its takes, and how much better the chosen ones are than all of their lines."""
_LOWEST = -25.0  # In means, a take that is not understood at all has this log-probability.
Take = tuple[Saying, NDArray[np.int16]]
"""What was said, and its codes int16 [frames, K]."""


class Rounds:
    """Who says lines, what is said by whom, and who judges. lines: of which each round draws some; speakers: our own,
    by name; voices: of readers [N, hidden]."""

    def __init__(
        self, talker: Talker, layout: Layout, judge: Judge, lines: Sequence[Line], speakers: Sequence[str],
        voices: Tensor, training: PracticeTraining,
    ) -> None:  # fmt: skip
        self.talker, self.layout, self.judge, self.lines = talker, layout, judge, lines
        self.speakers, self.voices, self.training = speakers, voices, training
        self._weights = weights(lines, training)

    def next(self, chance: np.random.Generator) -> tuple[list[Take], list[float]]:
        """Say lines, and give the chosen takes with those by readers' voices, and what is `MEASURED`.

        Raises:
            ValueError: no take of any line is good enough.
        """
        t, speakers = self.training, self.speakers
        count = min(t.lines, len(self.lines))
        drawn: list[int] = chance.choice(len(self.lines), count, replace=False, p=self._weights).tolist()
        temperatures = list(zip(t.first_temperatures, t.rest_temperatures, strict=True))
        lines, wanted = list[Line](), list[Saying]()
        for n, line in enumerate(self.lines[i] for i in drawn):
            speaker = t.asker if line.asks and chance.random() < t.asker_share else speakers[n % len(speakers)]
            lines += [line] * len(temperatures)
            wanted += [Saying(line.tokens, speaker, *pair) for pair in temperatures]
        for _ in range(round(t.clones * count)):
            line, voice = (int(chance.integers(len(of))) for of in (self.lines, self.voices))
            wanted.append(Saying(self.lines[line].tokens, self.voices[voice]))
        said = self._say(wanted, named=False)
        places, found = self._judged(lines, said)
        takes = defaultdict[int, list[int]](list)
        for number, place in enumerate(places):
            takes[place // len(temperatures)].append(number)
        kept, better = list[Take](), list[tuple[float, float]]()
        for own in takes.values():
            frames, of = np.array([len(said[places[number]]) for number in own]), found.at(own)
            if (best := choose(frames, of, lines[places[own[0]]].asks, t)) is not None:
                place = places[own[best]]
                kept.append((wanted[place], said[place]))
                better.append((of.natural[best] - of.natural.mean(), _mean(of.heard[best]) - _mean(of.heard)))
        if not kept:
            raise ValueError("practise: no take is good enough; the talker must speak before it practises")
        others = [(wanted[i], codes) for i, codes in said.items() if i >= len(lines)]
        natural, heard = np.mean(better, 0).tolist()
        return kept + others, [len(kept), float(found.natural.mean()), _mean(found.heard), natural, heard]

    def _say(self, wanted: Sequence[Saying], *, named: bool) -> dict[int, NDArray[np.int16]]:
        """Give the codes int16 [frames, K] of what ended and may hold its text, by its place. named: whether all rows
        name their language, as at run time, or those of every second batch."""
        said = dict[int, NDArray[np.int16]]()
        for n, group in enumerate(by_length([len(one.tokens) for one in wanted], self.training.batch)):
            found = speak(self.talker, self.layout, [wanted[i] for i in group], language=named or n % 2 == 0)
            least = self.training.frames + 1
            said |= {
                i: codes
                for i, codes in zip(group, found, strict=True)
                if codes is not None and len(codes) >= max(least, len(wanted[i].tokens))
            }
        return dict(sorted(said.items()))

    def _judged(self, lines: Sequence[Line], said: Mapping[int, NDArray[np.int16]]) -> tuple[list[int], Judgements]:
        """Judge what was said of lines: give the places that have takes, and what is thought of each."""
        places = [i for i in said if i < len(lines)]
        of = [lines[i] for i in places]
        found = self.judge([said[i] for i in places], [line.text for line in of], [line.asks for line in of])
        return places, found

    def score(self, lines: Sequence[Line]) -> dict[str, dict[str, float]]:
        """Give what the judges say of lines that each of our speakers says as at run time: means of naturalness and of
        the text's log-probability, the share of questions that rise, frames a token, and how many lines did not come
        out."""
        scores = dict[str, dict[str, float]]()
        for speaker in self.speakers:
            said = self._say([Saying(line.tokens, speaker) for line in lines], named=True)
            scores[speaker] = {"lost": len(lines) - len(said)}
            if said:
                places, found = self._judged(lines, said)
                of = [lines[i] for i in places]
                rises = found.rise[[line.asks for line in of]] > self.training.least_rise
                pace = sum(map(len, said.values())) / sum(len(line.tokens) for line in of)
                told = {"natural": float(found.natural.mean()), "heard": _mean(found.heard), "pace": pace}
                told |= {"rises": float(rises.mean())} if len(rises) else {}
                scores[speaker] |= {name: round(value, 3) for name, value in told.items()}
        return scores


def _mean(heard: NDArray[np.float64]) -> float:
    return float(np.maximum(heard, _LOWEST).mean())
