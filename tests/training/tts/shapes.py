"""A speaking model small enough to train inside a test, and speech for it."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tokenizers import Tokenizer

from training.speech.slots import vocabulary
from training.tts.config import (
    CodecShape,
    CodecTraining,
    Config,
    SpeakerShape,
    TalkerShape,
    TalkerTraining,
)  # fmt: skip
from training.tts.speech import Speech, Utterance, join, levelled, shards
from training.tts.tokenizer import train_tokenizer

if TYPE_CHECKING:
    from training.run import Trainer
    from training.tts.prompt import Row
    from training.tts.rows import Layout

Run = TypeVar("Run", bound="Trainer")

CONFIG = Config(
    codec=CodecShape(
        codebook_size=32, num_quantizers=3, codebook_dim=16, latent_dim=16, hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, sliding_window=6, decoder_dim=16, encoder_width=16,
        encoder_blocks=(1, 1, 1, 1),
    ),
    talker=TalkerShape(
        text_vocab_size=420, text_hidden_size=16, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, predictor_hidden_size=16,
        predictor_intermediate_size=32, predictor_num_hidden_layers=1, predictor_num_attention_heads=1,
    ),
    speaker=SpeakerShape(
        mel_dim=40, enc_channels=(16, 16, 16, 16, 24), enc_attention_channels=8, enc_res2net_scale=4, enc_se_channels=8
    ),
    codec_training=CodecTraining(
        batch=2, frames=12, slice_frames=3, history_frames=1, unquantised_steps=2, warmup_steps=2,
    ),
    speakers=("ada", "ben"),
    talker_training=TalkerTraining(positions=160, predictor_frames=24, lengths=(40, 60), warmup_steps=5, guide_layer=1),
)  # fmt: skip
FICTION = [
    "The lamp stood on the table, and nobody had lit it.", "Who is there, cried the old man at the gate.",
    "She went down to the sea with her brother.", "It rained for seven days; the road was gone.",
]  # fmt: skip


_SOUNDS = str.maketrans("aceogqrxy", "ɑkɛOɡkɹzi")


def sounds(text: str) -> str:
    """Give a text as if each letter was a sound."""
    return "".join(f" {word}" for word in text.lower().translate(_SOUNDS).split())


def tokenizer(folder: Path) -> Tokenizer:
    """Learn a tokenizer from sentences that need more pieces than the vocabulary holds."""
    chance = random.Random(1)
    words = [" ".join(chance.sample(vocabulary()[:500], 6)) for _ in range(500)]
    return train_tokenizer(map(sounds, [*FICTION * 20, *words]), CONFIG.talker.text_vocab_size, folder)


def tone_shard(speaker: str, count: int = 4, frames: int = 20, held_out: bool = False) -> Speech:
    """Make utterances of gliding tones, whose labels say which of four stretches a label lies in."""
    noise = np.random.default_rng(len(speaker))
    rows = []
    for i in range(count):
        pitch = np.linspace(120, 400, frames * 1920) * (1 + 0.2 * noise.random())
        wave = np.sin(2 * np.pi * np.cumsum(pitch) / 24000).astype(np.float32)
        labels = np.repeat(np.arange(4, dtype=np.uint8), frames)
        rows.append((Utterance(f" text {i}.", speaker, frames, held_out), levelled(wave), labels))
    return join(rows)


def random_codes(count: int = 12, frames: int = 24) -> Speech:
    """Make codes that follow the text: the same text has the same codes."""
    size, books = CONFIG.codec.codebook_size, CONFIG.codec.num_quantizers
    chance, words = random.Random(3), " ".join(FICTION).replace(".", "").replace(",", "").split()
    text = [sounds(" ".join(chance.sample(words, 3))) for _ in range(count)]
    made = [np.random.default_rng(len(t)).integers(0, size, (frames, books)).astype(np.int16) for t in text]
    said = [Utterance(t, ("ada", "ben")[i % 2], frames, i % 4 == 0) for i, t in enumerate(text)]
    return Speech(said, {"codes": np.concatenate(made)})


def layout(folder: Path, *speech: Path) -> "Layout":
    """Make the layout of a tokenizer that is written to `folder`, and of speakers who are heard in the shards of
    `speech`."""
    from training.tts.references import References  # These modules need torch, which only training has.
    from training.tts.rows import Layout, torch

    return Layout(CONFIG, tokenizer(folder), References(shards(speech), CONFIG.speakers, torch.device("cpu")))


def rows(layout: "Layout", codes: Speech, *, held_out: bool) -> "list[Row]":
    """Give the rows of the utterances that are (not) held out."""
    return list(layout.rows(codes, [i for i, u in enumerate(codes.utterances) if u.held_out == held_out]).values())


def by_steps(trainer: Run) -> Run:
    """Let a run's seconds be its steps, and let it report every second one."""
    trainer.now, trainer.report_every = lambda: float(trainer.count), 2
    return trainer
