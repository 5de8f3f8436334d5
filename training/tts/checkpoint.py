"""Checkpoints in the official Qwen3-TTS-12Hz layout.

A folder has config.json, generation_config.json, model.safetensors (`talker.*`, `speaker_encoder.*`) and
tokenizer.json, and speech_tokenizer/ has config.json and model.safetensors (`decoder.*`; the encoder does not ship).
The extra key "hearsay" in config.json says what the runtime must know and the official config does not hold: how text
is written before it is tokenised.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer

from training.checkpoint import TOKENIZER, WEIGHTS, halved, load_weights, save_folder, save_weights, write_json
from training.parts import save_parts
from training.speech.sounds import FILES
from training.tts.codec import Codec, stored
from training.tts.config import FRAME, RATE, CodecShape, Config
from training.tts.prompt import LANGUAGE, codec_ids
from training.tts.talker import Talker, official
from training.tts.text import RULES
from training.tts.tokenizer import text_ids

TEMPERATURE, TOP_K = 0.2, 50
"""How codebook 0 is drawn: at 0.4 a tenth more words were misheard, and below 0.2 no fewer. The other codebooks take
the likeliest entry: at 0.7 half as many words again were misheard (notes/2026-11-speaking-runs.md)."""
# A piece has at most so many frames, 32 s: it is twice as long as the longest utterance in training.
MAX_FRAMES = 400


def talker_config(config: Config, pieces: int, voices: tuple[str, ...]) -> dict[str, Any]:
    """Give the `talker_config` of config.json. `pieces`: how many the tokenizer has."""
    t, c, ids = config.talker, config.codec, codec_ids(config)
    common = dict(
        attention_bias=False, attention_dropout=0, head_dim=t.head_dim, hidden_act="silu", max_position_embeddings=4096,
        rms_norm_eps=t.rms_norm_eps, rope_theta=t.rope_theta, num_code_groups=c.num_quantizers, use_cache=True,
        use_sliding_window=False, sliding_window=None, tie_word_embeddings=False, initializer_range=0.02,
    )  # fmt: skip
    predictor = dict(
        common, model_type="qwen3_tts_talker_code_predictor", vocab_size=c.codebook_size, rope_scaling=None,
        hidden_size=t.predictor_hidden_size, intermediate_size=t.predictor_intermediate_size,
        num_hidden_layers=t.predictor_num_hidden_layers, num_attention_heads=t.predictor_num_attention_heads,
        num_key_value_heads=t.predictor_num_attention_heads,
        layer_types=["full_attention"] * t.predictor_num_hidden_layers,
    )  # fmt: skip
    half_head = t.head_dim // 2
    # Half a head is shared out as in the released models, which have 24, 20 and 20 of 64.
    side = half_head * 5 // 16
    return dict(
        common, model_type="qwen3_tts_talker", code_predictor_config=predictor,
        vocab_size=c.codebook_size + t.control_ids, hidden_size=t.hidden_size,
        intermediate_size=t.intermediate_size, num_hidden_layers=t.num_hidden_layers,
        num_attention_heads=t.num_attention_heads, num_key_value_heads=t.num_key_value_heads,
        text_hidden_size=t.text_hidden_size, text_vocab_size=pieces, position_id_per_seconds=13,
        rope_scaling=dict(
            interleaved=True, mrope_section=[half_head - 2 * side, side, side], rope_type="default", type="default"
        ),
        codec_pad_id=ids.pad, codec_bos_id=ids.bos, codec_eos_token_id=ids.eos, codec_think_id=ids.think,
        codec_nothink_id=ids.nothink, codec_think_bos_id=ids.think_bos, codec_think_eos_id=ids.think_eos,
        codec_language_id={LANGUAGE: ids.language}, pad_token_id=ids.pad,
        spk_id={name: ids.speakers[name] for name in voices}, spk_is_dialect={name: False for name in voices},
    )  # fmt: skip


def model_config(
    config: Config, tokenizer: Tokenizer, voices: tuple[str, ...], sounds: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Give config.json. `voices`: speakers that may be asked for; `sounds`: names of the files that tell how words
    sound."""
    ids = text_ids(tokenizer)
    return dict(
        architectures=["Qwen3TTSForConditionalGeneration"], model_type="qwen3_tts", tts_model_type="custom_voice",
        tts_model_size="pocket", tokenizer_type="qwen3_tts_tokenizer_12hz", assistant_token_id=ids.assistant,
        im_start_token_id=ids.im_start, im_end_token_id=ids.im_end, tts_pad_token_id=ids.pad, tts_bos_token_id=ids.bos,
        tts_eos_token_id=ids.eos, talker_config=talker_config(config, tokenizer.get_vocab_size(), voices),
        speaker_encoder_config=asdict(config.speaker) | dict(enc_dim=config.talker.hidden_size, sample_rate=RATE),
        hearsay=dict(
            name=config.name, licence="Apache-2.0", codebook_size=config.codec.codebook_size, layouts=["stream"],
            text=dict(
                leading_space=True, lower_case=False, digits=False,
                alphabet=RULES.alphabet, marks=RULES.marks, ends=RULES.ends, **({"sounds": sounds} if sounds else {}),
            ),
        ),
    )  # fmt: skip


def codec_config(shape: CodecShape) -> dict[str, Any]:
    """Give speech_tokenizer/config.json."""
    decoder = {k: v for k, v in asdict(shape).items() if not k.startswith("encoder_")}
    decoder |= dict(
        attention_bias=False, attention_dropout=0.0, hidden_act="silu",
        head_dim=shape.hidden_size // shape.num_attention_heads,
        max_position_embeddings=8000, num_key_value_heads=shape.num_attention_heads, num_semantic_quantizers=1,
    )  # fmt: skip
    return dict(
        architectures=["Qwen3TTSTokenizerV2Model"], model_type="qwen3_tts_tokenizer_12hz", decoder_config=decoder,
        encoder_valid_num_quantizers=shape.num_quantizers, input_sample_rate=RATE, output_sample_rate=RATE,
        encode_downsample_rate=FRAME, decode_upsample_rate=FRAME,
    )  # fmt: skip


def save_talker(talker: Talker, folder: Path, **told: Any) -> None:
    """Write a talker in parts: `talker.*` and `speaker_encoder.*`. told: what is noted beside them."""
    save_parts(folder, halved(official(talker)), told)


def load_talker(path: Path, config: Config, dropout: float = 0.0) -> Talker:
    """Load a talker of `config`'s shape with the weights of `path`, which is a folder of `save_talker` or a
    checkpoint's file."""
    weights = {k.removeprefix("talker."): v for k, v in load_weights(path).items()}
    # The shape's text is that of the tokenizer with which the weights were trained.
    pieces = len(weights["model.text_embedding.weight"])
    talker = Talker(replace(config.talker, text_vocab_size=pieces), config.codec, config.speaker, dropout)
    talker.load_state_dict(weights)
    return talker.eval()


@torch.no_grad()
def mix(talker: Talker, other: Talker, share: float) -> None:
    """Give a talker such a share of the weights of another of its shape."""
    for mine, theirs in zip(talker.parameters(), other.parameters(), strict=True):
        mine.lerp_(theirs, share)


def save_checkpoint(
    config: Config, codec: Codec, talker: Talker, tokenizer_folder: Path, voices: tuple[str, ...], folder: Path,
    sounds: Path | None = None,
) -> None:  # fmt: skip
    """Write the whole checkpoint folder. sounds: a folder with the files of training/sounds."""
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / TOKENIZER))
    named = {} if sounds is None else msgspec.structs.asdict(FILES)
    save_folder(folder, model_config(config, tokenizer, voices, named), official(talker), tokenizer_folder)
    if sounds is not None:
        for name in named.values():
            shutil.copy(sounds / name, folder / name)
    sampling = dict(do_sample=True, temperature=TEMPERATURE, top_k=TOP_K, top_p=1.0, repetition_penalty=1.0)
    predictor = dict(subtalker_dosample=True, subtalker_temperature=1.0, subtalker_top_k=1, subtalker_top_p=1.0)
    write_json(folder / "generation_config.json", sampling | predictor | dict(max_new_tokens=MAX_FRAMES))
    speech = folder / "speech_tokenizer"
    save_weights({f"decoder.{k}": v for k, v in stored(codec.decoder.state_dict()).items()}, speech / WEIGHTS)
    write_json(speech / "config.json", codec_config(codec.shape))
