"""How well a hearing model understands what the reader model reads: what tells one manner of reading from another, and
good takes from bad ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.asr.checkpoint import begin_with, load_weights
from training.asr.config import Config
from training.asr.evaluate import Score, score
from training.asr.model import PocketASR
from training.asr.phone_head import inner_states
from training.asr.phones import FRAMES_PER_ROW
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.readers.corpus import Corpus
from training.readers.model import Reader
from training.readers.reading import ENGINE, Casting, Manner, Spoken, read_lines
from training.readers.script import Line
from training.readers.timing import fitted
from training.shards import Clip

_TOGETHER = 256  # clips whose phones are fitted at once


class Judge:
    """The hearing model of `weights`."""

    def __init__(self, config: Config, weights: Path, tokenizer: Path, phones: int, device: torch.device) -> None:
        self._model = PocketASR(config.shape, config.regularisation, phones).to(device).eval()
        begin_with(self._model, weights)
        self._mel, self._prompt = LogMel().to(device), Prompt(Tokenizer.from_file(str(tokenizer)))
        self._device = device

    def score(
        self,
        model: Reader,
        corpus: Corpus,
        casting: Casting,
        lines: Sequence[Line],
        widths: Sequence[int],
        manner: Manner,
    ) -> Score:
        """Of the lines as `model` reads them."""
        clips = [
            Clip(s.samples, s.line.text, "", ENGINE, ENGINE)
            for s in read_lines(model, corpus, casting, lines, widths, manner)
        ]
        return score(self._model, self._mel, self._prompt, {ENGINE: clips}, self._device)[0][ENGINE]


class PhoneJudge:
    """The phone head of a hearing model: whether the phones of a line are heard in what was read of it."""

    def __init__(self, config: Config, weights: Path, device: torch.device) -> None:
        """Raises ValueError: weights without a phone head, or of another shape."""
        head = load_weights(weights).get("phones.1.bias")
        if head is None:
            raise ValueError(f"{weights}: no phone head")
        self._model = PocketASR(config.shape, config.regularisation, len(head) // FRAMES_PER_ROW - 1)
        begin_with(self._model, weights)
        self._model.to(device).eval()
        self._device = device

    def losses(self, read: Sequence[Spoken]) -> NDArray[np.float32]:
        """Nats a phone of each, float32 [n]; inf where the phones do not fit into the sound."""
        head = self._model.phones
        assert head is not None
        clips = [Clip(one.samples, one.line.text, "", ENGINE, ENGINE, str(i)) for i, one in enumerate(read)]
        heard = [
            (int(c.file), states) for c, states in inner_states(self._model.thinker.audio_tower, clips, self._device)
        ]
        out = np.full(len(read), np.inf, np.float32)
        for at in range(0, len(heard), _TOGETHER):
            some = heard[at : at + _TOGETHER]
            ids = [read[i].line.phones.tolist() for i, _ in some]
            out[[i for i, _ in some]] = fitted(head, [s for _, s in some], ids, self._device).loss.cpu().numpy()
        return out
