"""The official code on a checkpoint, with which exports are compared.

It is transformers' ``Qwen3ASRForConditionalGeneration`` (5.13 and later), which attends within windows, as the released
models were trained. The original package attends over the whole clip unless FlashAttention is installed, so it cannot
serve as reference. Weights are widened to float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3ASRConfig,
    Qwen3ASRFeatureExtractor,
    Qwen3ASRForConditionalGeneration,
    Qwen3ASRForTokenClassification,
    Qwen3ASRProcessor,
)
from transformers.models.qwen3_asr import modeling_qwen3_asr as official_code

from audio.mel_filters import SAMPLE_RATE
from export.checkpoint import HEADS, Checkpoint
from export.dims import Dims

Floats = NDArray[np.float32]

PUBLISHED_ROWS = 13
"""How many rows a chunk has in the published checkpoints; transformers counts rows with this number as a literal."""

CHAT_TEMPLATE = """\
{%- set turn = namespace(context='', audio='') -%}
{%- for message in messages if message.role != 'assistant' -%}
  {%- for part in message.content -%}
    {%- if part.type == 'text' -%}{%- set turn.context = turn.context + part.text -%}{%- endif -%}
    {%- if part.type == 'audio' -%}
      {%- set turn.audio = turn.audio + '<|audio_start|><|audio_pad|><|audio_end|>' -%}
    {%- endif -%}
  {%- endfor -%}
{%- endfor -%}
{{- '<|im_start|>system\\n' + turn.context + '<|im_end|>\\n' -}}
{{- '<|im_start|>user\\n' + turn.audio + '<|im_end|>\\n' -}}
{%- for message in messages if message.role == 'assistant' -%}
  {{- '<|im_start|>assistant\\n' + message.content[0].text + '<|im_end|>\\n' -}}
{%- endfor -%}
"""
"""The published chat template (QwenLM/Qwen3-ASR, inference/qwen3_asr.py:446-465). A checkpoint with a template of its
own is compared with that one."""


@dataclass(frozen=True, slots=True)
class Generated:
    """Greedy tokens [n] and the logits [n, vocabulary] they were chosen from."""

    tokens: NDArray[np.int64]
    logits: Floats


class Reference:
    """The official model, extractor and processor of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint, dims: Dims) -> None:
        self.checkpoint, self.dims = checkpoint, dims
        if checkpoint.layout == "transformers":
            self.config = Qwen3ASRConfig.from_pretrained(checkpoint.directory)
        else:
            self.config = config_of(checkpoint, dims)
        kind = Qwen3ASRForTokenClassification if dims.aligner else Qwen3ASRForConditionalGeneration
        if checkpoint.layout == "transformers":
            # The official loader renames the tensors, so that our own renaming is not compared with itself.
            self.model: Any = kind.from_pretrained(checkpoint.directory, dtype=torch.float32)
        else:
            self.model = kind(self.config).float()
            self.model.load_state_dict(state_of(checkpoint, dims), strict=True)
        self.model.eval()
        self.extractor = Qwen3ASRFeatureExtractor(feature_size=dims.encoder.bins)
        if dims.encoder.chunk_rows != PUBLISHED_ROWS:
            count_rows_of_any_chunk()

    def features(self, samples: Floats) -> tuple[torch.Tensor, torch.Tensor]:
        """The official features [1, bins, frames padded to chunks] and their mask [1, frames]."""
        batch = self.extractor(
            samples, sampling_rate=SAMPLE_RATE, padding=True, truncation=False, return_attention_mask=True,
            n_window=self.dims.encoder.chunk_frames // 2,
        )  # fmt: skip
        return batch["input_features"], batch["attention_mask"]

    def encode(self, features: torch.Tensor, mask: torch.Tensor) -> Floats:
        """The encoder's rows [n, width] for features."""
        with torch.no_grad():
            return self.model.model.get_audio_features(features, mask).pooler_output.numpy()

    def ctc(self, features: torch.Tensor, mask: torch.Tensor) -> Floats:
        """The log-probabilities [n, classes] of one of our own models' CTC head, applied to the official encoder's last
        hidden state."""
        assert self.dims.encoder.ctc is not None
        classes, width = self.dims.encoder.ctc, self.dims.encoder.width
        weight = torch.from_numpy(self.checkpoint.tensor("ctc.weight", classes, width).copy())
        bias = torch.from_numpy(self.checkpoint.tensor("ctc.bias", classes).copy())
        with torch.no_grad():
            hidden = self.model.model.get_audio_features(features, mask).last_hidden_state
            return torch.log_softmax(hidden @ weight.T + bias, -1).numpy()

    def generate(self, ids: list[int], features: torch.Tensor, mask: torch.Tensor, count: int) -> Generated:
        """Decode ``count`` tokens greedily after ``ids``, with the features in place of audio placeholders. Tokens that
        end a text do not end this."""
        tokens: list[int] = []
        logits: list[Floats] = []
        cache = None
        feed: dict[str, Any] = {
            "input_ids": torch.tensor([ids]), "input_features": features, "input_features_mask": mask,
        }  # fmt: skip
        with torch.no_grad():
            for _ in range(count):
                out = self.model(**feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = out.past_key_values
                logits.append(out.logits[0, -1].numpy())
                tokens.append(int(logits[-1].argmax()))
                feed = {"input_ids": torch.tensor([[tokens[-1]]])}
        return Generated(np.array(tokens), np.stack(logits))

    def classify(self, ids: list[int], features: torch.Tensor, mask: torch.Tensor) -> Floats:
        """The logits [len(ids), classes] of a ForcedAligner's head."""
        with torch.no_grad():
            hidden = self.model.model(
                input_ids=torch.tensor([ids]), input_features=features, input_features_mask=mask
            ).last_hidden_state
            return self.model.score(hidden)[0].numpy()

    def processor(self, tokenizer: Path) -> Qwen3ASRProcessor:
        """The official processor with the checkpoint's template and ``tokenizer`` (a tokenizer.json)."""
        names = {
            "audio_bos_token": "<|audio_start|>",
            "audio_token": "<|audio_pad|>",
            "audio_eos_token": "<|audio_end|>",
        }
        fast = PreTrainedTokenizerFast(
            tokenizer_file=str(tokenizer), eos_token="<|im_end|>", pad_token="<|im_end|>", extra_special_tokens=names
        )
        return AnyChunkProcessor(self.extractor, fast, chat_template=template_of(self.checkpoint.directory))

    def prompt(self, tokenizer: Path, samples: Floats, language: str | None, context: str | None) -> list[int]:
        """The official prompt's ids, audio placeholders expanded."""
        batch = self.processor(tokenizer).apply_transcription_request(
            samples,
            language=language,
            prompt=context,
            processor_kwargs={"audio_kwargs": {"n_window": self.dims.encoder.chunk_frames // 2}},
        )
        return batch["input_ids"][0].tolist()


def rows_after_convolutions(lengths: torch.Tensor, n_window: int = 50) -> torch.Tensor:
    """How many encoder rows clips of ``lengths`` frames give, with a chunk's rows as the official encoder's
    convolutions make them."""
    chunk, count = 2 * n_window, official_code.Qwen3ASREncoder._post_cnn_length
    return lengths // chunk * count(torch.tensor(chunk)) + count(lengths % chunk)


def count_rows_of_any_chunk() -> None:
    """Make the official encoder count the rows that its convolutions give, instead of 13 a chunk.

    With another ``n_window`` the literal 13 would make windows that end inside a chunk, and fewer placeholders than
    rows. For chunks of 100 frames the new function gives the same as the old one.
    """
    replaced: dict[str, Callable[..., torch.Tensor]] = {"_get_feat_extract_output_lengths": rows_after_convolutions}
    for name, function in replaced.items():
        if not hasattr(official_code, name):
            raise RuntimeError(f"transformers has no {name} any more: look how it counts rows now")
        setattr(official_code, name, function)


class AnyChunkProcessor(Qwen3ASRProcessor):
    """The official processor, with placeholders counted right for chunks of any length."""

    def _get_audio_token_length(self, audio_lengths: torch.Tensor, n_window: int = 50) -> NDArray[np.int64]:
        own = super()._get_audio_token_length(audio_lengths, n_window)
        rows = rows_after_convolutions(audio_lengths, n_window).numpy()
        if 2 * n_window == 100 and not np.array_equal(own, rows):
            raise RuntimeError(f"the official count {own} of placeholders is not {rows}")
        return rows


def template_of(directory: Path) -> str:
    """The checkpoint's own chat template if it has one, else the published one."""
    path = directory / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    return CHAT_TEMPLATE


def config_of(checkpoint: Checkpoint, dims: Dims) -> Qwen3ASRConfig:
    """transformers' configuration of a checkpoint in the original layout."""
    encoder, decoder = dims.encoder, dims.decoder
    thinker = checkpoint.config["thinker_config"]
    audio = {
        "num_mel_bins": encoder.bins, "encoder_layers": encoder.layers, "encoder_attention_heads": encoder.heads,
        "encoder_ffn_dim": encoder.ffn, "d_model": encoder.width, "n_window": encoder.chunk_frames // 2,
        "output_dim": encoder.output, "n_window_infer": thinker["audio_config"]["n_window_infer"],
        "downsample_hidden_size": encoder.channels, "max_position_embeddings": encoder.chunk_rows,
    }  # fmt: skip
    text = {
        "model_type": "qwen3", "vocab_size": decoder.vocabulary, "hidden_size": decoder.width,
        "intermediate_size": decoder.ffn, "num_hidden_layers": decoder.layers, "num_attention_heads": decoder.heads,
        "num_key_value_heads": decoder.kv_heads, "head_dim": decoder.head_dim, "rms_norm_eps": decoder.epsilon,
        "max_position_embeddings": decoder.context, "tie_word_embeddings": decoder.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": decoder.rope_theta}, "pad_token_id": None,
    }  # fmt: skip
    special = {
        "audio_token_id": thinker["audio_token_id"], "pad_token_id": 0, "eos_token_id": [],
        "tie_word_embeddings": decoder.tied,
    }  # fmt: skip
    if dims.aligner is not None:
        special["num_labels"] = dims.aligner.classes
    return Qwen3ASRConfig(audio_config=audio, text_config=text, **special)


def state_of(checkpoint: Checkpoint, dims: Dims) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint in the original layout, under transformers' names, as float32."""
    state: dict[str, torch.Tensor] = {}
    for name, stored in checkpoint.tensors.items():
        if name.startswith(HEADS):
            continue
        state[official(name, dims)] = torch.from_numpy(stored.read().copy())
    if dims.decoder.tied and dims.aligner is None:
        state["lm_head.weight"] = state["model.language_model.embed_tokens.weight"]
    return state


def official(name: str, dims: Dims) -> str:
    """transformers' name of the tensor that is called ``name`` here."""
    if name.startswith("audio_tower.proj"):
        return name.replace("audio_tower.proj", "model.multi_modal_projector.linear_")
    if name.startswith("lm_head."):
        return name.replace("lm_head.", "score.") if dims.aligner else name
    return f"model.{name}" if name.startswith("audio_tower.") else f"model.language_model.{name.removeprefix('model.')}"
