"""A run of the codec's decoder on fixed codes, against discriminators.

What stands in `out` beside what `progress.py` names: codec.safetensors (newest; the encoder as it came).
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.progress import Progress, rate_at
from training.tts.codec import load_codec, save_codec
from training.tts.codec_step import compile_snake
from training.tts.codes import load_codes
from training.tts.config import Config
from training.tts.crops import CodedStore
from training.tts.decoder_step import MEASURES, DecoderStep
from training.tts.ear import load_ear
from training.tts.speech import load_shard, shards

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0
_TEST_CROPS = 32


@dataclass(frozen=True)
class DecoderRun:
    """What a run is given besides the configuration. start: the codec.safetensors that made the codes; speech: folders
    of shards; codes: files of `encode` of that speech, and of `own-codes` of such a file; ear: a
    checkpoint folder of the hearing model.
    """

    start: Path
    speech: tuple[Path, ...]
    codes: tuple[Path, ...]
    out: Path
    seconds: float
    ear: Path | None = None
    steps: int = 10**9
    device: str = "cuda"
    graphs: bool = True
    report: int = _REPORT


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


class DecoderTrainer:
    """Owns the codec, the step and the progress of one run."""

    def __init__(self, config: Config, run: DecoderRun) -> None:
        t = config.decoder_training
        self.config, self.run = config, run
        self.device = torch.device(run.device)
        self.progress = Progress("decoder", run.out, MEASURES, self.device)
        torch.manual_seed(t.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.codec = load_codec(run.start).to(self.device)
        self.codec.decoder.train()
        self.progress.log(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        self.speech, self.held_out = read_coded(run.speech, run.codes, self.device)
        self.progress.log(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")
        self.step = DecoderStep(self.codec.decoder, t, self.speech, load_ear(run.ear), self.device, graphs=run.graphs)
        state = self.progress.take()
        if state is not None:
            self.step.take(state)

    def train(self) -> None:
        """Until the seconds or steps are over; always leaves codec.safetensors and a state to go on from."""
        t, run, progress = self.config.decoder_training, self.run, self.progress
        step = self.step.begin()
        progress.begin()
        first, began = progress.count, progress.seconds
        saved = began
        while progress.count < run.steps and progress.seconds < run.seconds:
            done = min(progress.seconds / run.seconds, 1.0)
            rate = rate_at(done, progress.count, t.rate, t.final_rate, t.warmup_steps)
            self.step.rate(rate)
            step()
            progress.stepped()
            if progress.count % run.report == 0:
                speed = (progress.count - first) / (progress.seconds - began)
                progress.report(f"{speed:.1f}/s rate {rate:.1e}", self.step.measures)
                if progress.seconds - saved > _SAVE_SECONDS:
                    saved = progress.seconds
                    self.save()
        self.save()

    def save(self) -> None:
        """Score, weights, and what going on needs."""
        t, progress = self.config.decoder_training, self.progress
        self.codec.decoder.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(t.seed)
            found = self.step.held_out(*self.held_out.crop(_TEST_CROPS, t.frames))
        self.codec.decoder.train()
        progress.scores.append({"step": progress.count, "seconds": progress.seconds, "distance": found})
        progress.log(f"held-out: spectral distance {found:.4f}")
        save_codec(self.codec, self.run.out / "codec.safetensors")
        progress.save(self.step.state(), {"config": asdict(self.config)})
