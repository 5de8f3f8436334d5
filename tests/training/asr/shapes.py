"""A recogniser small enough to train inside a test, and a tokenizer for it."""

from pathlib import Path

from tokenizers import Tokenizer

from training.asr.config import Batches, Config, Optimisation, Regularisation, Shape
from training.asr.tokenizer import train_tokenizer

SENTENCES = [
    "the boy said that the sea was calm", "a letter came to the old house", "he would not speak of it again",
    "there was no answer to her question", "she looked at him and laughed", "we must go before the rain begins",
] * 20  # fmt: skip
CONFIG = Config(
    name="tiny",
    shape=Shape(
        vocab=320, conv_channels=8, d_model=32, encoder_layers=2, encoder_heads=2, encoder_ffn=48,
        hidden=32, decoder_layers=2, heads=2, kv_heads=1, head_dim=16, decoder_ffn=48,
    ),
    regularisation=Regularisation(consistency_from=1),
    batches=Batches(
        seconds_per_step=32, row_seconds=(4, 8), row_share=(0.5, 0.5), easy_steps=0, augment_ramp=2,
        planners=1, pool_hours=0.1
    ),
    optimisation=Optimisation(warmup_steps=2),
    sources={"librispeech": 1.0},
    voices={"espeak": 1.0},
)  # fmt: skip


def tiny_tokenizer(folder: Path) -> Tokenizer:
    return train_tokenizer(SENTENCES, CONFIG.shape.vocab, folder)
