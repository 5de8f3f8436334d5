"""A rehearsal is a step of every shape on noise. It fills the compilers' cache while a run still waits for its data.

What compilers make depends on shapes and settings, and on the order in which shapes come, because a second length makes
variable what the first one held constant. It depends neither on weights nor on what is heard. So a rehearsal takes the
plans of the run itself, whose shapes do not depend on utterances.
"""

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from training.asr.config import Config
from training.asr.model import PocketASR
from training.asr.optimizer import Optimizer
from training.asr.pool import Pool
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.asr.teacher import load_encoder
from training.asr.train import sized
from training.checkpoint import TOKENIZER
from training.learner import settle
from training.parts import told
from training.ranks import Ranks
from training.shards import RATE, Clip

# The noise lasts so many seconds and counts as this text; the pool that holds it has so many hours.
_SECONDS, _TEXT, _HOURS = 3, "it was so", 0.01
# Batches of rows of one length come with and without room for a context.
_KINDS = 2


def rehearse(
    config: Config,
    start: Path,
    teacher: Path,
    device: str,
    state: Path | None = None,
    scale: float = 1.0,
    seconds: float = math.inf,
) -> list[tuple[int, int]]:
    """Make a step of each shape, in the order in which the run comes by them that begins at `start`, or goes on from
    `state`. No step begins after so many seconds. The shapes are given: seconds of a row, and ids before it."""
    began = time.monotonic()
    ranks = Ranks(device)
    settle()
    config = sized(config, start, scale)
    config = replace(config, batches=replace(config.batches, pool_hours=_HOURS))
    encoder = load_encoder(teacher, ranks.device)
    model = PocketASR(config.shape, config.regularisation)
    model.add_taught(encoder.layer_norm.weight.shape[0], len(encoder.layers))
    model.to(ranks.device).train()
    mel = LogMel(config.shape.mel_bins).to(ranks.device)
    optimizer = Optimizer(model, config.optimisation, config.regularisation.weight_decay)
    pool = Pool(config, start / TOKENIZER, {_TEXT.split()[0]: 1}, ranks.device, ranks.share)
    noise = np.random.default_rng(config.optimisation.seed).normal(0, 3000, _SECONDS * RATE).astype(np.int16)
    pool.add_clips([Clip(noise, _TEXT, "", "", next(iter(config.sources)))])
    step = Step(config, model, mel, optimizer, pool.audio, encoder, graphs=False)
    if ranks.device.type == "cuda":
        compile_layers(model)
    made: list[tuple[int, int]] = []
    for plan in pool.begin(told(state)["steps"] if state else 0):
        shape = plan.seconds, plan.prefix.shape[1]
        if shape not in made:
            step.gradients(plan)
            made.append(shape)
            if ranks.first:
                print(f"{time.monotonic() - began:.0f} s: {shape}", flush=True)
        if len(made) == _KINDS * len(config.batches.row_seconds) or time.monotonic() - began > seconds:
            break
    ranks.end()
    return made
