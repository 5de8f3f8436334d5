"""Speaking models of Qwen3-TTS-12Hz-0.6B's true dimensions with random weights, for `hearsay bench tts`.

Weights are drawn by the official classes and go through the exporter; a speed does not depend on what they are. The
text vocabulary is a small one: rows of it are looked up, not computed. Two minutes, 8 GB of memory, 2.8 GB of disk and
0.9 GB a model.

usage: bash tests/reference/tts/run.sh --true-models DIR [--decoder q4_k_m …] [--codec fp32]
then:  hearsay bench tts --model DIR/q4_k_m --frames 100 --threads 2
"""

import argparse
from pathlib import Path

from export.tts import api
from tests.reference.tts import official
from tests.reference.tts.true_dims import PREDICTOR_06B, TALKER_06B


def main() -> None:
    """Write the model directories."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="gets `checkpoint` and a model directory for each format")
    parser.add_argument("--decoder", nargs="+", default=["q4_k_m"], help="formats of talker and predictor")
    parser.add_argument("--codec", default="fp32", help="precision of the codec: fp32, fp16, int8")
    arguments = parser.parse_args()
    checkpoint = arguments.directory / "checkpoint"
    if not (checkpoint / "config.json").exists():
        config = official.tts_config(TALKER_06B, PREDICTOR_06B, official.TRUE_CODEC, "custom_voice", "0b6")
        codec = official.codec_model(official.TRUE_CODEC)
        official.save_tts(official.tts_model(config), codec, checkpoint)
    for decoder in arguments.decoder:
        print(api.run(checkpoint, arguments.directory / decoder, codec=arguments.codec, decoder=decoder))


if __name__ == "__main__":
    main()
