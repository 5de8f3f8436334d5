"""A run of the codec's decoder on fixed codes, against discriminators."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.ranks import Ranks
from training.tts.codec import load_codec
from training.tts.codes import load_codes
from training.tts.config import Config, DecoderTraining
from training.tts.crops import CodedStore
from training.tts.decoder import Decoder
from training.tts.discriminators import Discriminators, verdict
from training.tts.ear import Ear
from training.tts.graph import Learner, autocast
from training.tts.run import BETAS, DECAY, TEST_CROPS, Run, Step, Trainer
from training.tts.speech import load_shard, shards

MEASURES = ("spectral distance", "telling", "fooling", "likeness", "ear distance", "gradient norm")


class DecoderStep(Step[DecoderTraining]):
    """Weights, optimisers and buffers of a run."""

    def __init__(
        self, decoder: Decoder, training: DecoderTraining, speech: CodedStore, ear: Ear | None, ranks: Ranks,
        *, graphs: bool,
    ) -> None:  # fmt: skip
        super().__init__(training, decoder, MEASURES, ear, ranks, graphs=graphs)
        self.speech = speech
        self.discriminators = Discriminators(training.period_widths, training.spectrum_width).to(self.device).train()
        # Neither the books nor what leads to them get a gradient, so the encoder's codes stay.
        for part in (decoder.quantizer.rvq_first, decoder.quantizer.rvq_rest):
            part.input_proj.requires_grad_(False)
        self.modules = {"decoder": decoder, "discriminators": self.discriminators}
        names = {"decoder": "optimizer", "discriminators": "discriminators' optimizer"}
        self.learners = {
            names[name]: Learner(
                [{"params": list(module.parameters()), "weight_decay": DECAY}], self.device, BETAS, training.clip
            )
            for name, module in self.modules.items()
        }

    def draw(self) -> tuple[Tensor, ...]:
        return self.speech.crop(self.training.batch, self.training.frames)

    def begin(self) -> Callable[[], None]:
        """What does one step and fills its own buffers."""
        return self.captured(self._gradients)

    def _gradients(self) -> None:
        t, (codes, wave) = self.training, self.crop
        with autocast(self.device):
            decoded, real = self.slices(self.decoder.quantizer.decode(codes), wave)
            judged = decoded.detach().contiguous().requires_grad_()
            distance, heard = self.distance(judged, real), self.heard(judged, real)
            found = verdict(self.discriminators(real), self.discriminators(judged))
        loss = t.mel_weight * distance + found.fooling + t.likeness_weight * found.likeness + t.ear_weight * heard
        (pull,) = torch.autograd.grad(loss, judged, retain_graph=True)
        torch.autograd.backward(found.telling, inputs=list(self.discriminators.parameters()))
        decoded.backward(pull)
        self.measure(distance, found.telling, found.fooling, found.likeness, heard)


@dataclass(frozen=True, kw_only=True)
class DecoderRun(Run):
    """start: the codec.safetensors that made the codes; codes: files of `encode` of the speech, and of `own-codes` of
    such a file.
    """

    start: Path
    codes: tuple[Path, ...]


def read_coded(
    speech: tuple[Path, ...], codes: tuple[Path, ...], device: torch.device
) -> tuple[CodedStore, CodedStore]:
    """(what is trained on, what is held out) of the shards and of the files of codes that stand for them. What is held
    out has the first file's codes alone: its scores stay comparable when a talker's own are added.

    Raises:
        ValueError: a file holds other utterances than the shards, or none is held out.
    """
    sets = [load_codes(path) for path in codes]
    waves: dict[bool, list[NDArray[np.int16]]] = {False: [], True: []}
    rows: dict[bool, list[list[NDArray[np.int16]]]] = {False: [[] for _ in sets], True: [[] for _ in sets]}
    count = 0
    for shard in map(load_shard, shards(speech)):
        for utterance, wave, _ in shard.pieces():
            for path, one, parts in zip(codes, sets, rows[utterance.held_out], strict=True):
                wanted = utterance.text, utterance.frames
                if count >= len(one.text) or (one.text[count], one.lengths[count]) != wanted:
                    raise ValueError(f"{path}: utterance {count} is another one than in the shards")
                parts.append(one.of(count))
            waves[utterance.held_out].append(wave)
            count += 1
    for path, one in zip(codes, sets, strict=True):
        if count != len(one.text):
            raise ValueError(f"{path}: {len(one.text)} utterances, in the shards {count}")
    for kept, name in ((False, "trained on"), (True, "held out")):
        if not waves[kept]:
            raise ValueError(f"speech: no utterance in it is {name}")
    trained, held = (
        CodedStore(np.concatenate(waves[kept]), np.stack([np.concatenate(p) for p in chosen]), device)
        for kept, chosen in ((False, rows[False]), (True, rows[True][:1]))
    )
    return trained, held


class DecoderTrainer(Trainer[DecoderStep]):
    """Owns the codec, the step and the progress of one run."""

    def __init__(self, config: Config, run: DecoderRun) -> None:
        t = config.decoder_training
        super().__init__("decoder", MEASURES, config, t, run)
        self.codec = load_codec(run.start).to(self.device).train()
        self.speech, self.held_out = read_coded(run.speech, run.codes, self.device)
        self.say(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")
        self.step = DecoderStep(self.codec.decoder, t, self.speech, self.ear, self.ranks, graphs=run.graphs)
        self.take()

    def train(self) -> None:
        """Until the seconds or steps are over; always leaves codec.safetensors and a state to go on from."""
        step = self.step.begin()
        self.progress.begin()
        self.go(step, self.run.steps)
        self.save()
        self.ranks.end()

    def tests(self) -> tuple[Tensor, Tensor]:
        return self.held_out.crop(TEST_CROPS, self.training.frames)
