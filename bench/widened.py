"""A hearing model whose decoder is widened with zeros: the same function, in rows that the K formats take.

llama.cpp's ``q4_k`` wants rows of a multiple of 256 values, and the embedded model has 320. Zeros beside its values
change nothing that it computes: norms are rescaled to the new width, added heads attend to nothing that goes on. So the
rounding of that format can be measured on trained weights.
"""

import ctypes
import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gguf
import llama_cpp.llama_cpp
import msgspec
import numpy as np
import numpy.typing as npt

from engines import integrity
from engines import manifest as manifests
from engines.lane import Steps
from engines.llama import start_backend
from streaming.encoder import AudioEncoder, Encoded
from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]

llama: Any = llama_cpp.llama_cpp  # The ctypes bindings have no types.

BLOCK: Final = 256
"""Values that share a scale in llama.cpp's K formats (QK_K in ggml)."""
ALL_F32: Final = 0
Q4_K_M: Final = 15
"""llama.h's LLAMA_FTYPE_ALL_F32 and LLAMA_FTYPE_MOSTLY_Q4_K_M."""


def write(source: Path, target: Path) -> Path:
    """Write a model directory into ``target``: that of ``source`` with a widened ``q4_k_m`` decoder."""
    manifest = manifests.read_asr(source)
    for name in manifest.files:
        if name != manifest.decoder.file:
            (target / name).symlink_to((source / name).resolve())
    width = write_decoder(source / manifest.decoder.file, target / manifest.decoder.file)
    decoder = msgspec.structs.replace(manifest.decoder, quantization="q4_k_m", width=width)
    encoder = msgspec.structs.replace(manifest.encoder, width=width)
    file = target / decoder.file
    files = {**manifest.files, decoder.file: manifests.File(file.stat().st_size, integrity.sha256(file))}
    manifests.write(msgspec.structs.replace(manifest, decoder=decoder, encoder=encoder, files=files), target)
    return target


def write_decoder(source: Path, target: Path, kind: int = Q4_K_M) -> int:
    """Widen the GGUF ``source`` and bring it into the format ``kind``; returns its new width."""
    reader = gguf.GGUFReader(source)

    def value(key: str) -> Any:
        field: Any = reader.get_field(f"qwen3.{key}")
        return field.contents()

    width: int = value("embedding_length")
    ffn: int = value("feed_forward_length")
    heads: int = value("attention.head_count")
    kv_heads: int = value("attention.head_count_kv")
    head: int = value("attention.key_length")
    group = heads // kv_heads
    wide, wide_ffn = _whole(width), _whole(ffn)
    wide_group = next(g for g in range(group, group + BLOCK + 1) if g * kv_heads * head % BLOCK == 0)
    # Head h reads the keys of h // group, so zeros go behind each group.
    places = [k * wide_group * head + place for k in range(kv_heads) for place in range(group * head)]
    inner = wide_group * kv_heads * head
    spread = {
        "token_embd": (None, wide), "attn_q": (inner, wide), "attn_k": (None, wide), "attn_v": (None, wide),
        "attn_output": (wide, inner), "ffn_gate": (wide_ffn, wide), "ffn_up": (wide_ffn, wide),
        "ffn_down": (wide, wide_ffn), "output": (None, wide),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        plain = Path(folder) / "plain.gguf"
        writer = gguf.GGUFWriter(plain, "qwen3")
        writer.add_block_count(value("block_count"))
        writer.add_context_length(value("context_length"))
        writer.add_embedding_length(wide)
        writer.add_feed_forward_length(wide_ffn)
        writer.add_head_count(wide_group * kv_heads)
        writer.add_head_count_kv(kv_heads)
        writer.add_key_length(head)
        writer.add_value_length(head)
        writer.add_layer_norm_rms_eps(value("attention.layer_norm_rms_epsilon") * width / wide)
        writer.add_rope_freq_base(value("rope.freq_base"))
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        writer.add_tokenizer_model("no_vocab")
        writer.add_vocab_size(value("vocab_size"))
        for tensor in reader.tensors:
            values = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
            name = tensor.name.removesuffix(".weight").rpartition(".")[2]
            if values.ndim == 2:
                rows, columns = spread[name]
                if name == "attn_q":
                    values = _placed(values, places, inner)
                if name == "attn_output":
                    values = _placed(values.T, places, inner).T
                rows = values.shape[0] if rows is None else rows
                values = np.pad(values, ((0, rows - values.shape[0]), (0, columns - values.shape[1])))
            elif len(values) == width:
                values = np.pad(values * np.float32(math.sqrt(width / wide)), (0, wide - width))
            writer.add_tensor(tensor.name, np.ascontiguousarray(values))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        parameters = llama.llama_model_quantize_default_params()
        parameters.ftype = kind
        start_backend()
        if llama.llama_model_quantize(os.fsencode(plain), os.fsencode(target), ctypes.byref(parameters)):
            raise RuntimeError(f"llama.cpp could not quantise {source}")
    return wide


class WidenedEncoder(AudioEncoder):
    """An encoder whose embeddings go on in zeros, up to the width of the decoder."""

    def __init__(self, encoder: AudioEncoder, width: int) -> None:
        self.__dict__.update(encoder.__dict__)
        self._decoder_width = width

    def body(self, rows: Any) -> Steps[Encoded]:
        """As ``AudioEncoder.body``."""
        found = yield from super().body(rows)
        missing = self._decoder_width - found.embeddings.shape[1]
        return replace(found, embeddings=np.pad(found.embeddings, ((0, 0), (0, missing))))


class WidenedModel(AsrModel):
    """A model directory that ``write`` has made, loaded."""

    def warm(self) -> None:
        self.engine.encoder = WidenedEncoder(self.engine.encoder, self.engine.decoder.width)
        super().warm()


def _whole(length: int) -> int:
    return -(-length // BLOCK) * BLOCK


def _placed(values: Floats, places: list[int], length: int) -> Floats:
    """Rows of ``values`` at ``places`` of ``length`` rows, zeros elsewhere."""
    spread = np.zeros((length, values.shape[1]), np.float32)
    spread[places] = values
    return spread
