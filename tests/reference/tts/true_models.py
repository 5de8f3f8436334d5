"""Speaking models of Qwen3-TTS-12Hz's true dimensions with random weights, for `hearsay bench tts`.

Weights are drawn by the official classes and go through the exporter; a speed does not depend on what they are. The
text vocabulary is a small one: rows of it are looked up, not computed. Of 0.6B two minutes, 8 GB of memory, 2.8 GB
of disk and 0.9 GB a model; of 1.7B twice that.

usage: bash tests/reference/tts/run.sh --true-models DIR [--size 0.6b] [--decoder q4_k_m …] [--codec fp32]
then:  hearsay bench tts --model DIR/q4_k_m --frames 100 --threads 2
"""

import argparse
from pathlib import Path

from export.tts import api
from tests.reference.tts import official
from tests.reference.tts.true_dims import PREDICTOR_06B, TALKER_06B

SIZES = {
    "0.6b": ("0b6", TALKER_06B),
    "1.7b": ("1b7", TALKER_06B | {"hidden_size": 2048, "intermediate_size": 6144}),
}
"""The official name of a size, and the talker's dimensions; predictor and codec are the same."""


def main() -> None:
    """Write the model directories."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="gets `checkpoint` and a model directory for each format")
    parser.add_argument("--size", choices=SIZES, default="0.6b", help="of the released model")
    parser.add_argument("--decoder", nargs="+", default=["q4_k_m"], help="formats of talker and predictor")
    parser.add_argument("--codec", default="fp32", help="precision of the codec: fp32, fp16, int8")
    arguments = parser.parse_args()
    checkpoint = arguments.directory / "checkpoint"
    if not (checkpoint / "config.json").exists():
        size, talker = SIZES[arguments.size]
        config = official.tts_config(talker, PREDICTOR_06B, official.TRUE_CODEC, "custom_voice", size)
        codec = official.codec_model(official.TRUE_CODEC)
        official.save_tts(official.tts_model(config), codec, checkpoint)
    for decoder in arguments.decoder:
        print(api.run(checkpoint, arguments.directory / decoder, codec=arguments.codec, decoder=decoder))


if __name__ == "__main__":
    main()
