"""llama.cpp's pair of files: names by its own table, the decoder's bytes, the encoder's values and the tokenizer."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

from engines.gguf import Decoder, Rows
from export import fill
from export.blocks import packer
from export.checkpoint import CheckpointError, open_checkpoint
from export.decoder import tensors as decoder_tensors
from export.decoder import write_decoder
from export.dims import encoder_shapes, read_dims
from export.pair import find_pair, native_quantization, open_pair
from tests.export.checkpoints import AUDIO, TEXT, write_checkpoint

WIDE: dict[str, Any] = {**TEXT, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8}
SOUND: dict[str, Any] = {**AUDIO, "output_dim": 256}
KINDS = {
    "f32": (0, gguf.GGMLQuantizationType.F32),
    "f16": (1, gguf.GGMLQuantizationType.F16),
    "q8_0": (7, gguf.GGMLQuantizationType.Q8_0),
    "q5_k_m": (17, gguf.GGMLQuantizationType.Q5_K),
    "bf16": (32, gguf.GGMLQuantizationType.BF16),
}


def write_pair(directory: Path, checkpoint: Path, kind: str, *, arch: str = "qwen3vl") -> tuple[Path, Path]:
    """Write what llama.cpp's converter makes of a checkpoint, with and without ``--mmproj`` (conversion/qwen3vl.py)."""
    directory.mkdir(parents=True, exist_ok=True)
    opened = open_checkpoint(checkpoint)
    dims = read_dims(opened)
    number, block = KINDS[kind]
    paths = directory / f"Tiny-{kind}.gguf", directory / f"mmproj-Tiny-{kind}.gguf"
    words = gguf.GGUFWriter(paths[0], arch)
    decoder = dims.decoder
    words.add_block_count(decoder.layers)
    words.add_context_length(decoder.context)
    words.add_embedding_length(decoder.width)
    words.add_feed_forward_length(decoder.ffn)
    words.add_head_count(decoder.heads)
    words.add_head_count_kv(decoder.kv_heads)
    words.add_key_length(decoder.head_dim)
    words.add_layer_norm_rms_eps(decoder.epsilon)
    words.add_rope_freq_base(decoder.rope_theta)
    eighth = decoder.head_dim // 8
    words.add_rope_dimension_sections([2 * eighth, eighth, eighth, 0])
    words.add_file_type(number)
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    added = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    listed = sorted((tokenizer["model"]["vocab"] | added).items(), key=lambda each: each[1])
    words.add_tokenizer_model("gpt2")
    words.add_token_list([content for content, _ in listed] + [f"[PAD{n}]" for n in range(len(listed), 512)])
    words.add_token_types([3 if content in added else 1 for content, _ in listed] + [5] * (512 - len(listed)))
    words.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    for theirs, ours in decoder_tensors(decoder, head=False):
        add(words, theirs, opened.tensors[ours].read(), block)
    close(words)
    sound = gguf.GGUFWriter(paths[1], "clip")
    encoder = dims.encoder
    sound.add_clip_has_audio_encoder(True)
    sound.add_audio_projection_dim(encoder.output)
    sound.add_audio_embedding_length(encoder.width)
    sound.add_audio_feed_forward_length(encoder.ffn)
    sound.add_audio_block_count(encoder.layers)
    sound.add_audio_head_count(encoder.heads)
    sound.add_audio_num_mel_bins(encoder.bins)
    sound.add_string("clip.audio.projector_type", "qwen3a")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 4)
    for ours, shape in encoder_shapes(encoder):
        values = opened.tensors[ours].read()
        theirs = names.get_name(ours, try_suffixes=(".weight", ".bias"))
        assert theirs is not None
        if "conv2d" in ours and ours.endswith("bias"):
            values = values[:, None, None]
        fits = len(shape) == 2 and shape[1] % gguf.GGML_QUANT_SIZES[block][0] == 0
        add(sound, theirs, values, block if fits and kind == "q8_0" else gguf.GGMLQuantizationType.F32)
    close(sound)
    return paths


def add(writer: gguf.GGUFWriter, name: str, values: Any, kind: gguf.GGMLQuantizationType) -> None:
    """A tensor in a format; vectors stay float32."""
    if kind == gguf.GGMLQuantizationType.F32 or values.ndim < 2:
        writer.add_tensor(name, np.ascontiguousarray(values))
    elif kind == gguf.GGMLQuantizationType.F16:
        writer.add_tensor(name, values.astype(np.float16))
    elif kind == gguf.GGMLQuantizationType.BF16:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    else:
        made = np.frombuffer(packer(kind)(values, name), np.uint8).reshape(len(values), -1)
        writer.add_tensor(name, made, raw_dtype=kind)


def close(writer: gguf.GGUFWriter) -> None:
    """Write it all."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose rows fit every format."""
    return write_checkpoint(tmp_path_factory.mktemp("pair") / "checkpoint", audio=SOUND, text=WIDE)


@pytest.mark.parametrize("kind", ["f32", "f16", "q8_0"])
def test_the_decoder_keeps_its_bytes(checkpoint: Path, tmp_path: Path, kind: str) -> None:
    """Every tensor of the decoder keeps its bytes, whatever its format, under an architecture that can shift its
    cache."""
    decoder, encoder = write_pair(tmp_path / "pair", checkpoint, kind)
    opened = open_pair(decoder, encoder)
    quantization = native_quantization(decoder)
    assert quantization == kind and fill.native(tmp_path / "pair") == kind
    write_decoder(opened, read_dims(opened).decoder, tmp_path / "made.gguf", quantization, name="x", head=False)
    made, theirs = gguf.GGUFReader(tmp_path / "made.gguf"), gguf.GGUFReader(decoder)
    found = {each.name: (each.tensor_type, each.data.tobytes()) for each in made.tensors}
    assert found == {each.name: (each.tensor_type, each.data.tobytes()) for each in theirs.tensors}
    field = made.get_field("general.architecture")
    assert field is not None and field.contents() == "qwen3"


def test_llama_cpp_and_we_write_the_same_of_a_pair(checkpoint: Path, tmp_path: Path) -> None:
    """64 greedy tokens in f32: llama.cpp runs its own file, whose positions have four planes, and we what we make of
    it, whose positions have one."""
    import llama_cpp

    decoder, encoder = write_pair(tmp_path / "pair", checkpoint, "f32")
    opened = open_pair(decoder, encoder)
    made = tmp_path / "made.gguf"
    write_decoder(opened, read_dims(opened).decoder, made, "f32", name="x", head=False)
    prompts = [[5, 300, 17, 42], [1, 2, 3], [200, 11], [330, 64, 128, 256, 9], [77]]
    model: Any = llama_cpp.Llama(str(decoder), n_ctx=256, n_threads=1, verbose=False)
    theirs: list[list[int]] = [
        list(islice(model.generate(prompt, temp=0.0, repeat_penalty=1.0), 64)) for prompt in prompts
    ]
    model.close()
    ours = Decoder(made, sequences=1, rows=256, threads=1)
    try:
        sequence = ours.acquire()
        for prompt, expected in zip(prompts, theirs, strict=True):
            found, start = list(prompt), 0
            while len(found) < len(prompt) + 64:
                rows = ours.embed(found[start:])
                (logits,) = ours.evaluate([Rows(sequence, start, rows, len(rows) - 1)])
                start = len(found)
                found.append(int(logits[-1].argmax()))
            assert found[len(prompt) :] == expected
    finally:
        ours.close()
    assert len({token for written in theirs for token in written}) > 8


@pytest.mark.parametrize(("kind", "step"), [("f16", 0.0), ("bf16", 0.0), ("q8_0", 1 / 254)])
def test_the_encoder_is_the_checkpoints(checkpoint: Path, tmp_path: Path, kind: str, step: float) -> None:
    """The encoder's values are the checkpoint's within the format's rounding, and so is every dimension."""
    official = open_checkpoint(checkpoint)
    opened = open_pair(*write_pair(tmp_path, checkpoint, kind))
    assert read_dims(opened).encoder == read_dims(official).encoder
    for name, _ in encoder_shapes(read_dims(official).encoder):
        theirs = official.tensors[name].read()
        assert np.abs(opened.tensors[name].read() - theirs).max() <= 1.01 * step * np.abs(theirs).max(), name


def test_the_tokenizer_writes_the_same_ids(checkpoint: Path, tmp_path: Path) -> None:
    """Words and the prompt's special tokens have the same ids."""
    opened = open_pair(*write_pair(tmp_path, checkpoint, "q8_0"))
    ours = Tokenizer.from_str(json.dumps(opened.tokenizer))
    theirs = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    for text in ("the quick brown fox", "<|im_start|>system\n<|im_end|>", "language English<asr_text> ünïcode"):
        assert ours.encode(text).ids == theirs.encode(text).ids


def test_bfloat16_can_be_given_any_format(checkpoint: Path, tmp_path: Path) -> None:
    """A pair in bfloat16, as official checkpoints are, can be converted to any format."""
    write_pair(tmp_path, checkpoint, "bf16")
    assert fill.native(tmp_path) is None
    assert fill.estimate(tmp_path, precision="int8", quantization="q4_k_m").torch


def test_what_is_no_pair_of_ours_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Another format, another model, a file that is cut off, and several pairs are refused."""
    write_pair(tmp_path / "a", checkpoint, "q5_k_m")
    with pytest.raises(CheckpointError, match="is Q5_K_M, which hearsay does not run: take the pair in f32, f16, q8_0"):
        fill.native(tmp_path / "a")
    other, encoder = write_pair(tmp_path / "b", checkpoint, "q8_0", arch="llama")
    with pytest.raises(CheckpointError, match="'llama' and 'qwen3a' of llama.cpp, not Qwen3-ASR's"):
        open_pair(other, encoder)
    decoder, encoder = write_pair(tmp_path / "c", checkpoint, "q8_0")
    decoder.write_bytes(decoder.read_bytes()[:-5000])
    with pytest.raises(CheckpointError, match="download it again"):
        open_pair(decoder, encoder)
    write_pair(tmp_path / "d", checkpoint, "q8_0")
    write_pair(tmp_path / "d", checkpoint, "f16")
    with pytest.raises(CheckpointError, match=r"holds 2 decoders: give one of Tiny-f16\.gguf, Tiny-q8_0\.gguf"):
        find_pair(tmp_path / "d")
