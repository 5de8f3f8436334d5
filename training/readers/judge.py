"""How well a hearing model understands what the reader model reads: what tells one manner of reading from another."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.asr.checkpoint import begin_with
from training.asr.config import Config
from training.asr.evaluate import Score, score
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.readers.corpus import Corpus
from training.readers.model import Reader
from training.readers.reading import ENGINE, Casting, Manner, read_lines
from training.readers.script import Line
from training.shards import Clip


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
            Clip(s.samples, s.text, "", ENGINE, ENGINE)
            for s in read_lines(model, corpus, casting, lines, widths, manner)
        ]
        return score(self._model, self._mel, self._prompt, {ENGINE: clips}, self._device)[0][ENGINE]
