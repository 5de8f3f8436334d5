"""Comparing an exported Qwen3-ForcedAligner with the official code.

One call evaluates the whole text. At each ``<timestamp>`` the head, applied to the decoder's last hidden state, tells
in which step of the clip a word begins or ends.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from engines.embeddings import EmbeddingTable
from engines.files import load_floats, load_tokenizer
from engines.manifest import read_asr
from export.blocks import keep_log
from export.sound import sound
from export.table import Row
from export.verify.reference import Reference

Floats = NDArray[np.float32]

WORDS = ("the", "quick", "brown", "fox", "jumps")


def aligner_rows(directory: Path, reference: Reference, limit: float) -> Iterator[Row]:
    """Compare logits and classes at every ``<timestamp>`` of two clips. ``limit`` is the largest error that the logits
    of a model in float32 may have."""
    manifest = read_asr(directory)
    assert manifest.aligner is not None
    head = load_floats(directory / manifest.aligner.head)
    tokenizer = load_tokenizer(directory / manifest.tokenizer.file)
    decoder = directory / manifest.decoder.file
    placeholder, timestamp = tokenizer.token_to_id("<|audio_pad|>"), tokenizer.token_to_id("<timestamp>")
    table = EmbeddingTable(decoder)
    exact = manifest.decoder.quantization == "f32" and manifest.encoder.precision == "fp32"
    for index, seconds in enumerate((2.0, 9.5)):
        features, mask = reference.features(sound(seconds, index))
        audio = reference.encode(features, mask)
        # The published template has the audio, then the words with two timestamps after each.
        text = "<timestamp><timestamp>".join((*WORDS, ""))
        prompt = f"<|audio_start|>{'<|audio_pad|>' * len(audio)}<|audio_end|>{text}"
        ids = np.array(tokenizer.encode(prompt, add_special_tokens=False).ids)
        rows = table.rows(ids.tolist())
        rows[ids == placeholder] = audio
        ours = (hidden(decoder, rows) @ head.T)[ids == timestamp]
        theirs = reference.classify(ids.tolist(), features, mask)[ids == timestamp]
        stage = f"aligner {seconds:g} s"
        worst = float((np.abs(ours - theirs).max(1) / theirs.std(1)).max())
        yield Row(stage, "largest logit error / deviation", worst, limit if exact else None)
        same = float((ours.argmax(1) == theirs.argmax(1)).mean())
        yield Row(stage, "same time classes", same, 1.0 if exact else None, at_least=True)


def hidden(path: Path, rows: Floats) -> Floats:
    """The decoder's hidden states after its last norm, [n, width], for ``rows`` [n, width], with a KV cache in
    float32."""
    llama.llama_log_set(keep_log(), ctypes.c_void_p(0))
    llama.llama_backend_init()
    loaded = llama.llama_model_default_params()
    model = llama.llama_model_load_from_file(str(path).encode(), loaded)
    parameters = llama.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = max(256, -(-len(rows) // 256) * 256)
    parameters.embeddings = True
    parameters.pooling_type = llama.LLAMA_POOLING_TYPE_NONE
    parameters.type_k = parameters.type_v = 0
    parameters.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.n_threads = parameters.n_threads_batch = 2
    if model is None or (context := llama.llama_init_from_model(model, parameters)) is None:
        raise RuntimeError(f"llama.cpp could not load {path}")
    batch = llama.llama_batch_init(len(rows), rows.shape[1], 1)
    try:
        batch.n_tokens = len(rows)
        np.ctypeslib.as_array(batch.embd, rows.shape)[:] = rows
        for index in range(len(rows)):
            batch.pos[index], batch.n_seq_id[index], batch.logits[index] = index, 1, 1
            batch.seq_id[index][0] = 0
        if code := llama.llama_decode(context, batch):
            raise RuntimeError(f"llama_decode returned {code}")
        out = [llama.llama_get_embeddings_ith(context, index) for index in range(len(rows))]
        return np.stack([np.ctypeslib.as_array(each, (rows.shape[1],)).copy() for each in out])
    finally:
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        llama.llama_model_free(model)
