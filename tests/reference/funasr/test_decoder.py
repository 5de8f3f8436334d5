"""The exported decoder against the official one, after the official prompt with the exported audio rows."""

from typing import Any

import numpy as np
import pytest

from engines.gguf import Decoder
from export.sound import sound
from export.verify.parity import DISTINCT, LOGIT_ERROR, TOKENS, decode
from tests.reference.funasr.test_encoder import encoded
from tests.reference.stages import changed

pytestmark = pytest.mark.reference

STAGES = (
    "llm.model.embed_tokens.weight", "llm.model.norm.weight", "llm.lm_head.weight",
    "llm.model.layers.0.input_layernorm.weight", "llm.model.layers.0.self_attn.q_proj.weight",
    "llm.model.layers.1.self_attn.o_proj.weight", "llm.model.layers.1.self_attn.k_norm.weight",
    "llm.model.layers.1.mlp.down_proj.weight",
)  # fmt: skip


def opened(case: Any) -> Decoder:
    """The float32 GGUF, float32 cache."""
    return Decoder(case.model / case.manifest.decoder.file, sequences=1, rows=1024, threads=2, kv="f32")


def audio_rows(case: Any, samples: Any) -> Any:
    """What of a clip goes into the decoder, by the exported graph."""
    rows = case.official.features(samples)[0].numpy()
    return encoded(case.graph, rows)[0][: -(-len(rows) // 2**case.manifest.fun_asr.halvings)]


@pytest.mark.parametrize("seconds", [0.3, 2.0, 8.01, 12.5])
def test_greedy_decoding(case: Any, seconds: float) -> None:
    """64 tokens identical in float32, at least 20 of them distinct; as many audio rows as the official prompt has."""
    samples = sound(seconds, 10)
    rows, ids = case.official.prepared(samples, None, [])
    audio = audio_rows(case, samples)
    assert len(audio) == ids.count(0)
    generated = case.official.generate(rows, TOKENS)
    decoder = opened(case)
    try:
        decoded = decode(decoder, ids, 0, audio, generated, TOKENS)
    finally:
        decoder.close()
    assert decoded.tokens.tolist() == generated.tokens.tolist()
    assert len(set(decoded.tokens.tolist())) >= DISTINCT
    assert (np.abs(decoded.forced - generated.logits).max(1) / generated.logits.std(1)).max() <= LOGIT_ERROR


def test_other_audio_gives_another_text(case: Any) -> None:
    """The decoder hears its audio rows."""
    texts = [case.official.generate(case.official.prepared(sound(2.0, seed), None, [])[0], 32) for seed in (1, 2)]
    assert texts[0].tokens.tolist() != texts[1].tokens.tolist()


@pytest.mark.parametrize("name", STAGES)
def test_a_changed_tensor_is_noticed(tiny: Any, name: str) -> None:
    """One per cent on one tensor breaks the limit of the logits."""
    samples = sound(2.0, 10)
    _, ids = tiny.official.prepared(samples, None, [])
    with changed(dict(tiny.official.model.named_parameters(remove_duplicate=False))[name]):
        generated = tiny.official.generate(tiny.official.prepared(samples, None, [])[0], 16)
    decoder = opened(tiny)
    try:
        decoded = decode(decoder, ids, 0, audio_rows(tiny, samples), generated, 1)
    finally:
        decoder.close()
    assert (np.abs(decoded.forced - generated.logits).max(1) / generated.logits.std(1)).max() > LOGIT_ERROR
