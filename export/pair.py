"""A hearing model in llama.cpp's two files, ``NAME.gguf`` and ``mmproj-NAME.gguf``, opened as a checkpoint.

The decoder's tensors keep their formats, the encoder's are widened. llama.cpp calls the decoder's architecture
``qwen3vl``; export/decoder.py tells why it is written as ``qwen3``. The names of tensors are those of llama.cpp's own
table (gguf.TensorNameMap).
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from export.blocks import Block
from export.checkpoint import Checkpoint
from export.decoder import tensors as decoder_tensors
from export.dims import DecoderDims, EncoderDims, encoder_shapes, halved_thrice
from export.names import Quantization
from export.stored import CheckpointError, Stored, refuse_pointer
from export.tokenizer import added_token, contents

PROJECTOR = "qwen3a"
"""llama.cpp's name of the audio encoder."""

FORMATS: Mapping[int, Quantization] = {0: "f32", 1: "f16", 7: "q8_0", 15: "q4_k_m", 18: "q6_k"}
"""llama.cpp's numbers (``llama_ftype``) of the formats that the runtime knows."""
BF16 = 32
"""llama.cpp's number of bfloat16, the format of official checkpoints."""

N_WINDOW, N_WINDOW_INFER = 50, 800
"""How many mel frames half a chunk and a window have in every released encoder; the file does not tell."""

STRING, ARRAY = 8, 9
VALUE_BYTES: Mapping[int, int] = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""How many bytes a value of each type of metadata has (ggml, gguf_type)."""
MOST_TENSORS = 100_000
"""A model of any released size has at most a thousand."""

CONTROL, USER = 3, 4
"""The types of tokens that are not made of byte pairs (llama.cpp, llama_token_type)."""


def find_pair(source: Path) -> tuple[Path, Path] | None:
    """The decoder and the encoder in the directory ``source``, or the decoder ``source`` and the encoder beside it;
    None if there is no GGUF.

    Raises:
        CheckpointError: one of the two is missing, or there are several decoders.
    """
    if source.is_file() and source.suffix != ".gguf" or source.is_dir() and (source / "config.json").exists():
        return None
    folder = source if source.is_dir() else source.parent
    encoders = sorted(path for path in folder.glob("*.gguf") if "mmproj" in path.name.lower())
    decoders = sorted(set(folder.glob("*.gguf")) - set(encoders)) if source.is_dir() else [source]
    if not source.exists() or not encoders and not decoders:
        return None
    if not decoders or decoders[0] in encoders:
        raise CheckpointError(f"{folder} holds {encoders[0].name} without its decoder: put the other GGUF beside it")
    if not encoders:
        raise CheckpointError(
            f"{decoders[0]} has no audio encoder beside it: put its mmproj GGUF there, or pull the official checkpoint"
        )
    if len(decoders) > 1:
        named = ", ".join(path.name for path in decoders)
        raise CheckpointError(f"{folder} holds {len(decoders)} decoders: give one of {named}")
    return decoders[0], encoders[0]


class Fields:
    """The metadata of a GGUF, and where its tensors lie."""

    def __init__(self, path: Path) -> None:
        """Read the header of ``path``.

        Raises:
            CheckpointError: the file is no GGUF, or is cut off.
        """
        self.path = path
        with path.open("rb") as file:
            refuse_pointer(path, file.read(64))
        try:
            _hold_counts(path)
            self._reader = gguf.GGUFReader(path)
        except Exception as error:  # The library documents none: its own and NumPy's come through.
            raise CheckpointError(f"{path} is damaged, or no GGUF ({error}): download it again") from None
        size = path.stat().st_size
        self.tensors: dict[str, Block] = {}
        for each in self._reader.tensors:
            shape = tuple(int(axis) for axis in reversed(each.shape.tolist()))
            if int(each.data_offset) + int(each.n_bytes) > size:
                raise CheckpointError(f"{path} is cut off: tensor {each.name} ends beyond it; download it again")
            self.tensors[each.name] = Block(path, int(each.data_offset), "F32", shape, kind=each.tensor_type)

    def get(self, key: str) -> Any:
        """The value of the metadata key ``key``.

        Raises:
            CheckpointError: there is no such key.
        """
        field = self._reader.get_field(key)
        if field is None:
            raise CheckpointError(f"{self.path} does not say {key}: it was not made by llama.cpp's converter")
        return field.contents()

    def maybe(self, key: str, other: Any) -> Any:
        """The value of the metadata key ``key``, or ``other`` if there is no such key."""
        field = self._reader.get_field(key)
        return other if field is None else field.contents()


def _hold_counts(path: Path) -> None:
    """Walk through the metadata of ``path``: the library believes every count, and reads on beyond the end.

    Raises:
        ValueError: a count or a length is more than the file has room for, or an array is in another.
        struct.error: the file ends before.
    """
    size = path.stat().st_size

    def number(form: str) -> int:
        return struct.unpack(form, file.read(struct.calcsize(form)))[0]

    def skip(count: int, width: int = 1) -> None:
        if count * width > size - file.tell():
            raise ValueError("a length in it leads beyond its end")
        file.seek(count * width, 1)

    def skip_value(kind: int, count: int) -> None:
        if kind != STRING:
            skip(count, VALUE_BYTES[kind])
            return
        for _ in range(count):
            skip(number("<Q"))

    with path.open("rb") as file:
        file.seek(8)
        tensors, keys = number("<Q"), number("<Q")
        if tensors > MOST_TENSORS or keys > MOST_TENSORS:
            raise ValueError(f"it says that it has {tensors} tensors and {keys} keys")
        for _ in range(keys):
            skip(number("<Q"))
            kind = number("<I")
            inner, count = (number("<I"), number("<Q")) if kind == ARRAY else (kind, 1)
            if inner not in VALUE_BYTES and inner != STRING:
                raise ValueError(f"it has a value of type {inner}")
            skip_value(inner, count)


def open_pair(decoder: Path, encoder: Path) -> Checkpoint:
    """Open a pair as a checkpoint, with tensors under the official names.

    Raises:
        CheckpointError: it is another model, or a tensor is missing.
    """
    words, sound = Fields(decoder), Fields(encoder)
    arch = str(words.get("general.architecture"))
    kind = str(sound.maybe("clip.audio.projector_type", sound.maybe("clip.projector_type", "")))
    if arch not in ("qwen3vl", "qwen3") or kind != PROJECTOR:
        raise CheckpointError(
            f"{decoder.name} and {encoder.name} are {arch!r} and {kind!r} of llama.cpp, not Qwen3-ASR's 'qwen3vl' and "
            f"{PROJECTOR!r}: pull a Qwen3-ASR pair"
        )
    audio = {
        "num_mel_bins": int(sound.get("clip.audio.num_mel_bins")),
        "d_model": int(sound.get("clip.audio.embedding_length")),
        "encoder_layers": int(sound.get("clip.audio.block_count")),
        "encoder_attention_heads": int(sound.get("clip.audio.attention.head_count")),
        "encoder_ffn_dim": int(sound.get("clip.audio.feed_forward_length")),
        "output_dim": int(sound.get("clip.audio.projection_dim")),
        "downsample_hidden_size": sound.tensors["a.conv2d.1.weight"].shape[0],
        "n_window": N_WINDOW,
        "n_window_infer": N_WINDOW_INFER,
    }
    text = {
        "hidden_size": int(words.get(f"{arch}.embedding_length")),
        "num_hidden_layers": int(words.get(f"{arch}.block_count")),
        "num_attention_heads": int(words.get(f"{arch}.attention.head_count")),
        "num_key_value_heads": int(words.get(f"{arch}.attention.head_count_kv")),
        "head_dim": int(words.get(f"{arch}.attention.key_length")),
        "intermediate_size": int(words.get(f"{arch}.feed_forward_length")),
        "max_position_embeddings": int(words.get(f"{arch}.context_length")),
        "rope_theta": float(words.get(f"{arch}.rope.freq_base")),
        "rms_norm_eps": float(words.get(f"{arch}.attention.layer_norm_rms_epsilon")),
        "vocab_size": words.tensors["token_embd.weight"].shape[0],
    }
    tensors = {**encoder_tensors(sound, audio), **decoder_of(words, text)}
    thinker = {"audio_config": audio, "text_config": text}
    config = {"model_type": "qwen3_asr", "thinker_config": thinker, "_name_or_path": decoder.stem}
    return Checkpoint(decoder.parent, "gguf", config, tensors, tokenizer(words))


def encoder_tensors(sound: Fields, audio: Mapping[str, int]) -> dict[str, Stored]:
    """The encoder's tensors under the official names."""
    if audio["encoder_layers"] > len(sound.tensors):  # The table below has names for each of them.
        raise CheckpointError(f"{sound.path} holds fewer tensors than it says layers: it is damaged")
    chunk = 2 * audio["n_window"]
    rows, width, heads = halved_thrice(chunk), audio["d_model"], audio["encoder_attention_heads"]
    dims = EncoderDims(
        bins=audio["num_mel_bins"], channels=audio["downsample_hidden_size"],
        bands=halved_thrice(audio["num_mel_bins"]), width=width, layers=audio["encoder_layers"], heads=heads,
        head_dim=width // heads, ffn=audio["encoder_ffn_dim"], output=audio["output_dim"], chunk_frames=chunk,
        chunk_rows=rows, window_rows=rows * (audio["n_window_infer"] // chunk), ctc=None,
    )  # fmt: skip
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(dims.layers, 4))
    found: dict[str, Stored] = {}
    for name, shape in encoder_shapes(dims):
        theirs = known.get_name(name, try_suffixes=(".weight", ".bias"))
        if theirs is None or theirs not in sound.tensors:
            raise CheckpointError(f"{sound.path} lacks {theirs or name}: it is another model's, or damaged")
        block = sound.tensors[theirs]
        # In the GGUF a convolution's bias has the shape [channels, 1, 1]; the values are the same.
        flat = shape if block.size == int(np.prod(shape)) else block.shape
        found[name] = Block(block.file, block.offset, "F32", flat, kind=block.kind)
    return found


def decoder_of(words: Fields, text: Mapping[str, Any]) -> dict[str, Stored]:
    """The decoder's tensors under the official names."""
    head = "output.weight" in words.tensors
    dims = DecoderDims(
        width=text["hidden_size"], layers=text["num_hidden_layers"], heads=text["num_attention_heads"],
        kv_heads=text["num_key_value_heads"], head_dim=text["head_dim"], ffn=text["intermediate_size"],
        vocabulary=text["vocab_size"], context=text["max_position_embeddings"], rope_theta=text["rope_theta"],
        epsilon=text["rms_norm_eps"], tied=not head,
    )  # fmt: skip
    found: dict[str, Stored] = {}
    for theirs, name in decoder_tensors(dims, head):
        if theirs not in words.tensors:
            raise CheckpointError(f"{words.path} lacks {theirs}: it is another model's, or damaged")
        found[name] = words.tensors[theirs]
    return found


def native_quantization(decoder: Path) -> Quantization | None:
    """The format that the decoder has and keeps, or None if it is bfloat16, from which any can be made.

    Raises:
        CheckpointError: the runtime has no such format.
    """
    number = int(Fields(decoder).get("general.file_type"))
    if number == BF16:
        return None
    if number not in FORMATS:
        name = gguf.LlamaFileType(number).name.removeprefix("MOSTLY_")
        raise CheckpointError(
            f"{decoder} is {name}, which hearsay does not run: take the pair in {', '.join(FORMATS.values())} or bf16"
        )
    return FORMATS[number]


def tokenizer(words: Fields) -> dict[str, Any]:
    """The contents of a tokenizer.json, from the tokenizer in a GGUF."""
    tokens, types = words.get("tokenizer.ggml.tokens"), words.get("tokenizer.ggml.token_type")
    vocabulary: dict[str, int] = {}
    added: dict[int, dict[str, Any]] = {}
    for place, (content, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind in (CONTROL, USER):
            added[place] = added_token(place, content, special=kind == CONTROL)
        elif kind == 1:
            vocabulary[content] = place
    return contents(vocabulary, [str(merge).split(" ") for merge in words.get("tokenizer.ggml.merges")], added)
