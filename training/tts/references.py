"""References are recordings in which the talker hears how a speaker sounds: for every utterance, others by the same
speaker."""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.tts.config import FRAME
from training.tts.prompt import Place
from training.tts.speech import Utterance, load

# Frames of a span, 3 to 10 s: the runtime hears 10 s of a recording.
SHORTEST, LONGEST = 38, 125
# Files that are read at a time.
_READERS = 8


class References:
    """Speech on the device as int16 [frames, 1920], with a speaker's utterances side by side. What is held out has its
    own place beside what is trained on."""

    def __init__(self, shards: Iterable[Path], ours: Iterable[str], device: torch.device) -> None:
        """ours: speakers who need no reference, because their voices are learnt by name."""
        skipped, self.device = set(ours), device

        def others(path: Path) -> list[tuple[Utterance, NDArray[np.int16]]]:
            return [(u, wave.copy()) for u, wave, _ in load(path).pieces() if u.speaker not in skipped]

        # Takes of one text lie together, so that none of them is heard when another one is said.
        found = defaultdict[tuple[str, bool], dict[str, list[NDArray[np.int16]]]](dict)
        with ThreadPoolExecutor(_READERS) as pool:
            for utterance, wave in chain.from_iterable(pool.map(others, shards)):
                found[utterance.speaker, utterance.held_out].setdefault(utterance.text, []).append(wave)
        total = sum(len(wave) for texts in found.values() for takes in texts.values() for wave in takes)
        self._wave = torch.empty(total // FRAME, FRAME, dtype=torch.int16, device=device)
        self._places: dict[tuple[str, bool, str], Place] = {}
        begin = 0
        for (speaker, held_out), texts in found.items():
            size, end = sum(len(wave) for takes in texts.values() for wave in takes) // FRAME, 0
            for text, takes in texts.items():
                said = np.concatenate(takes)
                frames = len(said) // FRAME
                self._wave[begin + end : begin + end + frames].copy_(torch.from_numpy(said).view(-1, FRAME))
                end += frames
                self._places[speaker, held_out, text] = begin, size, end, frames
            begin += size

    def place(self, utterance: Utterance) -> Place | None:
        """Give an utterance's place; None where too little else of its speaker is there."""
        found = self._places.get((utterance.speaker, utterance.held_out, utterance.text))
        return found if found and found[1] - found[3] >= SHORTEST else None

    def everyone(self) -> list[Place]:
        """Give a place of every speaker who is trained on and of whom enough is there."""
        trained = (place for (_, held_out, _), place in self._places.items() if not held_out)
        return list({place[0]: place for place in trained if place[1] - place[3] >= SHORTEST}.values())

    def draw(self, places: Tensor) -> Tensor:
        """Draw waveforms float32 [B, 240000] of spans of 3 to 10 s, each repeated until it fills 10 s, that hold
        nothing of the utterances themselves. places: int64 [B, 4] of `place`."""
        begin, size, end, frames = places[:, :, None].unbind(1)
        other = size - frames

        def chance() -> Tensor:
            return torch.rand(len(places), 1, device=places.device)

        length = torch.minimum((SHORTEST + chance() * (LONGEST + 1 - SHORTEST)).long(), other)
        at = torch.arange(LONGEST, device=places.device) % length + (chance() * other).long()
        return self._wave[begin + (end + at % other) % size].flatten(1).float() / 32768
