"""A speaking model of the embedded one's shape with random weights, small enough for the repository.

It lets the speaking tests run on real engines where no trained voice is at hand: the same text rules, layouts and
special tokens, other widths. Needs torch.

usage: python -m tests.codec.tiny TOKENIZER_FOLDER MODEL_DIRECTORY
"""

import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from export.tts import api
from training.tts.checkpoint import save_checkpoint
from training.tts.codec import Codec
from training.tts.config import CodecShape, Config, TalkerShape
from training.tts.talker import ENCODER, Talker

CONFIG = Config(
    speakers=("slt", "kathleen"),
    codec=CodecShape(
        codebook_size=64, num_quantizers=4, codebook_dim=32, latent_dim=32, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=48, decoder_dim=64, upsample_rates=(8, 5, 4, 3), encoder_width=32,
        encoder_blocks=(1, 1, 1, 1),
    ),
    talker=TalkerShape(
        text_vocab_size=768, text_hidden_size=32, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, predictor_hidden_size=32,
        predictor_intermediate_size=64, predictor_num_hidden_layers=2, predictor_num_attention_heads=2,
    ),
)  # fmt: skip


def main() -> None:
    """Write the model directory."""
    tokenizer, directory = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "tiny"
        codec, talker = Codec(CONFIG.codec), Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker)
        save_checkpoint(CONFIG, codec, talker, tokenizer, CONFIG.speakers, checkpoint)
        weights = load_file(checkpoint / "model.safetensors")  # it cannot clone: tests say what becomes of that
        kept = {name: value for name, value in weights.items() if not name.startswith(ENCODER)}
        save_file(kept, checkpoint / "model.safetensors", {"format": "pt"})
        api.run(checkpoint, directory, codec="fp32", decoder="q8_0", name="pocket-tts-en")


if __name__ == "__main__":
    main()
