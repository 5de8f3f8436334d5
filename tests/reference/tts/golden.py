"""The golden speaking model and what the official code makes of it: rewritten here, compared by `make test`.

A checkpoint so small that its export fits the repository; the arrays beside it come from qwen-tts alone, so that
`make test` can hold the runtime to the official code without torch.

usage: python -m tests.reference.tts.golden DIRECTORY
"""

import lzma
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from tokenizers import Tokenizer

from engines import manifest as manifests
from export.trace.frame_graph import frame_graph
from export.trace.slots import keep_states
from export.tts import api
from export.tts.checkpoint import open_tts
from export.tts.dims import read_tts_dims
from tests.reference.tts import official

CODEC = official.TINY_CODEC | {
    "codebook_size": 48, "codebook_dim": 24, "latent_dim": 24, "hidden_size": 24, "intermediate_size": 40,
    "num_attention_heads": 2, "num_key_value_heads": 2, "decoder_dim": 48,
}  # fmt: skip
TALKER = official.TINY_TALKER | {
    "hidden_size": 40,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "text_hidden_size": 32,
}
PREDICTOR = official.TINY_PREDICTOR | {"hidden_size": 32, "intermediate_size": 48}
TEXT = "The king is singing: 27 songs, one by one, until the morning."
FRAMES, CODEC_FRAMES, STRIDE = 50, 300, 29
"""Greedy frames; frames through the codec; every so many of its samples are kept."""
SEED = 11


def write(directory: Path) -> None:
    """Write ``model`` (a float32 model directory), its predictor as ``frame.onnx``, and ``official.npz``."""
    torch.set_num_threads(2)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    codec = official.codec_model(CODEC, SEED)
    model = official.tts_model(official.tts_config(TALKER, PREDICTOR, CODEC, "custom_voice", "1b7"), SEED)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = official.save_tts(model, codec, Path(folder) / "golden")
        made = api.run(checkpoint, directory / "model", codec="fp32", decoder="f32", name="golden-tts")
        opened = open_tts(checkpoint)
        graph = frame_graph(opened.model, read_tts_dims(opened), "fp32", half=False)
        (directory / "frame.onnx").write_bytes(graph.model.SerializeToString())
    write_slots(directory)
    np.savez_compressed(directory / "official.npz", **outputs(model, codec, made))


def write_slots(directory: Path) -> None:
    """Write the model's codec with states in slots, as of an export in fp16, as ``slots.onnx.xz`` beside the model. Its
    weights are the model's."""
    graph = onnx.load(directory / "model" / "codec_decoder.onnx", load_external_data=False)
    spec = manifests.read_tts(directory / "model").codec
    keep_states(graph.graph, {state.input: state.output for state in spec.states})
    (directory / "slots.onnx.xz").write_bytes(lzma.compress(graph.SerializeToString()))


def outputs(model: Any, codec: Any, made: Path) -> dict[str, Any]:
    """What the official code says: the codec's samples, the prompt's rows, greedy frames."""
    codes = np.random.default_rng(SEED).integers(0, CODEC["codebook_size"], (CODEC_FRAMES, CODEC["num_quantizers"]))
    with torch.no_grad():
        wave = codec.decoder(torch.from_numpy(codes.T[None]))[0, 0].numpy()
    tokenizer = Tokenizer.from_file(str(made / "tokenizer.json"))
    ids = tokenizer.encode(
        f"<|im_start|>assistant\n{TEXT}<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False
    )
    caught: dict[str, Any] = {}
    generate = model.talker.generate

    def keep(**arguments: Any) -> Any:
        caught.update(arguments)
        return generate(**arguments)

    model.talker.generate = keep
    with torch.no_grad():
        frames, _ = model.generate(
            input_ids=[torch.tensor([ids.ids])], languages=["english"], speakers=["ryan"], non_streaming_mode=False,
            do_sample=False, subtalker_dosample=False, max_new_tokens=FRAMES + 1,
        )  # fmt: skip
    model.talker.generate = generate
    return {
        "codes": codes.astype(np.uint8),
        "wave": wave[::STRIDE],
        "rms": np.sqrt((wave**2).mean()),
        "rows": caught["inputs_embeds"][0].numpy(),
        "trailing": caught["trailing_text_hidden"][0].numpy(),
        "frames": frames[0].numpy()[:FRAMES].astype(np.uint8),
    }


if __name__ == "__main__":
    write(Path(sys.argv[1]))
