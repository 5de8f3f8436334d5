"""Random-weight Fun-ASR-Nano checkpoints of the official classes, scaled so that every stage matters, and the official
code on one. What holds of tests/reference/official.py holds here."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from funasr.frontends.wav_frontend import WavFrontend
from funasr.models.fun_asr_nano.model import FunASRNano
from funasr.models.llm_asr import adaptor as _adaptors  # registers itself
from funasr.models.sense_voice import model as _encoders  # registers itself
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from export.verify.reference import Generated
from tests.reference.official import EMBEDDING, write_tokenizer

Floats = NDArray[np.float32]

__all__ = ["GOLDEN", "NAMES", "OTHER", "PUBLISHED", "TINY", "Official", "_adaptors", "_encoders", "write_checkpoint"]

PROMPTS = (
    "You are a helpful assistant.",
    "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n**上下文信息：**\n\n\n",
    "热词列表：[hearsay, fox]\n语音转写成中文，不进行文本规整：",
    "<think>\n\n</think>\n\n",
)
"""What the tokenizer learns to write in few tokens, as the published one does."""

NAMES = {"zh": "中文", "en": "英文"}
"""What languages are called in the prompt (Fun-ASR, README)."""

LLM: Mapping[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 640, "hidden_size": 128,
    "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "rope_theta": 1e6, "hidden_act": "silu", "attention_bias": False, "torch_dtype": "float32",
}  # fmt: skip

TINY: Mapping[str, Any] = {
    "frontend_conf": {
        "fs": 16000, "window": "hamming", "n_mels": 80, "frame_length": 25, "frame_shift": 10, "lfr_m": 7, "lfr_n": 6,
        "cmvn_file": "am.mvn",
    },
    "audio_encoder_conf": {
        "output_size": 96, "attention_heads": 3, "linear_units": 160, "num_blocks": 3, "tp_blocks": 2,
        "kernel_size": 11, "sanm_shfit": 0, "normalize_before": True, "selfattention_layer_type": "sanm",
    },
    "audio_adaptor_conf": {
        "downsample_rate": 1, "ffn_dim": 112, "llm_dim": 128, "encoder_dim": 96, "n_layer": 2,
        "use_low_frame_rate": True,
    },
    "ctc_decoder": "Transformer",
    "ctc_decoder_conf": {
        "downsample_rate": 1, "ffn_dim": 80, "llm_dim": 96, "encoder_dim": 96, "n_layer": 1, "attention_heads": 4,
    },
    "ctc_vocab_size": 300,
    "llm": LLM,
}  # fmt: skip
"""As the published one in everything but size: low frame rate; a CTC head; mean and variance from a file."""

OTHER: Mapping[str, Any] = {
    "frontend_conf": {
        "fs": 16000, "window": "hamming", "n_mels": 40, "frame_length": 25, "frame_shift": 10, "lfr_m": 5, "lfr_n": 4,
    },
    "audio_encoder_conf": {
        "output_size": 64, "attention_heads": 4, "linear_units": 96, "num_blocks": 2, "kernel_size": 7, "sanm_shfit": 1,
    },
    "audio_adaptor_conf": {"downsample_rate": 1, "ffn_dim": 64, "llm_dim": 96, "n_layer": 0},
    "dataset_conf": {"do_think": False, "sys_prompt": False},
    "llm": {
        **LLM, "vocab_size": 672, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 48, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False, "rope_theta": 1e4,
    },
}  # fmt: skip
"""Another value for everything: no second encoder, a shifted memory, a bare adaptor, every row into the decoder, no
system turn, no thoughts, a head of its own."""

GOLDEN: Mapping[str, Any] = {
    **TINY,
    "audio_encoder_conf": {
        **TINY["audio_encoder_conf"], "output_size": 24, "attention_heads": 2, "linear_units": 32, "num_blocks": 2,
        "tp_blocks": 1,
    },
    "audio_adaptor_conf": {**TINY["audio_adaptor_conf"], "ffn_dim": 32, "llm_dim": 48, "encoder_dim": 24, "n_layer": 1},
    "ctc_decoder_conf": {**TINY["ctc_decoder_conf"], "ffn_dim": 32, "llm_dim": 24, "encoder_dim": 24},
    "ctc_vocab_size": 60,
    "llm": {
        **LLM, "vocab_size": 512, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 24,
    },
}  # fmt: skip
"""So small that its export fits the repository."""

PUBLISHED: Mapping[str, Any] = {
    **TINY,
    "frontend_conf": {**TINY["frontend_conf"], "cmvn_file": None},
    "audio_encoder_conf": {
        **TINY["audio_encoder_conf"], "output_size": 512, "attention_heads": 4, "linear_units": 2048, "num_blocks": 50,
        "tp_blocks": 20,
    },
    "audio_adaptor_conf": {**TINY["audio_adaptor_conf"], "ffn_dim": 2048, "llm_dim": 1024, "encoder_dim": 512},
    "ctc_decoder": None,
    "llm": {
        **LLM, "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
    },
}  # fmt: skip
"""Fun-ASR-Nano-2512's true dimensions."""


def write_checkpoint(directory: Path, shape: Mapping[str, Any], *, seed: int = 0) -> Path:
    """A checkpoint directory of ``shape``."""
    llm = directory / "Qwen3"
    llm.mkdir(parents=True)
    (llm / "config.json").write_text(json.dumps(shape["llm"]))
    write_tokenizer(llm, slow=False, lines=PROMPTS)
    random = np.random.default_rng(seed)
    if shape["frontend_conf"].get("cmvn_file"):
        count = shape["frontend_conf"]["n_mels"] * shape["frontend_conf"]["lfr_m"]
        shift, scale = -12 + random.standard_normal(count), 0.25 * np.exp(0.2 * random.standard_normal(count))
        values = [" ".join(f"{value:.6f}" for value in row) for row in (shift, scale)]
        (directory / "am.mvn").write_text(
            f"<Nnet>\n<Splice> {count} {count}\n[ 0 ]\n<AddShift> {count} {count}\n<LearnRateCoef> 0 [ {values[0]} ]\n"
            f"<Rescale> {count} {count}\n<LearnRateCoef> 0 [ {values[1]} ]\n</Nnet>\n"
        )
    config = {
        "model": "FunASRNano", "audio_encoder": "SenseVoiceEncoderSmall", "audio_adaptor": "Transformer",
        "frontend": "WavFrontend", "llm_conf": {"init_param_path": "Qwen3", "llm_dtype": "fp32"},
        **{key: value for key, value in shape.items() if key != "llm" and value is not None},
    }  # fmt: skip
    (directory / "config.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(config))))
    torch.manual_seed(seed)
    model = build(directory)
    rescale(model, seed)
    torch.save({"state_dict": model.state_dict()}, directory / "model.pt")
    return directory


def build(directory: Path) -> Any:
    """The official class by a checkpoint's configuration, freshly initialised."""
    config = yaml.safe_load((directory / "config.yaml").read_text())
    front = config["frontend_conf"]
    config["llm_conf"]["init_param_path"] = str(directory / "Qwen3")
    # The CTC head's tokenizer is no part of what is compared.
    own = {"ctc_tokenizer": "none", "ctc_tokenizer_conf": None} if "ctc_decoder" in config else {}
    config.pop("model")
    return FunASRNano(**copy.deepcopy(config), **own, input_size=front["n_mels"] * front["lfr_m"]).float().eval()


def rescale(model: torch.nn.Module, seed: int) -> None:
    """Give every tensor a size at which a change of it is heard at the output."""
    random = torch.Generator().manual_seed(seed)

    def normal(tensor: torch.Tensor, size: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=random) * size)

    with torch.no_grad():
        for name, tensor in model.named_parameters():
            fan = tensor[0].numel()
            if name == "llm.model.norm.weight":
                # Random signs: with all positive ones a tied head predicts the token that it was given.
                normal(tensor, 2.0 / tensor.numel() ** 0.5 / EMBEDDING)
            elif "norm" in name:
                normal(tensor, 0.1)
                if name.endswith("weight"):
                    tensor.add_(1.6 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0)
            elif name.endswith("bias"):
                normal(tensor, 0.1)
            elif "embed_tokens" in name or "lm_head" in name:
                normal(tensor, EMBEDDING)
                tensor.mul_(torch.exp(0.25 * torch.randn(len(tensor), 1, generator=random)))
            elif "fsmn_block" in name:
                normal(tensor, 1 / fan**0.5)
            else:
                normal(tensor, gain(name) / fan**0.5)


GAINS = {
    "audio_encoder": {"linear_q_k_v": 1.5, "linear_out": 2.0, "w_2": 1.7},
    "blocks": {"linear_q": 1.6, "linear_k": 1.6, "linear_out": 1.2, "w_2": 0.8},
    "audio_adaptor": {"linear2": 2 * EMBEDDING},
    "ctc.": {"ctc_lo": 2.0},
    "llm": {"o_proj": 2.0, "down_proj": 2.5, "gate_proj": 1.5},
}


def gain(name: str) -> float:
    """How much a matrix amplifies: attention averages and rectifiers shrink, their projections make up for it."""
    for part, values in GAINS.items():
        if part in name:
            return next((value for key, value in values.items() if f"{key}." in name), 1.0)
    return 1.4


class Official:
    """The official model, front end and tokenizer of a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.model = build(directory)
        state = torch.load(directory / "model.pt", map_location="cpu")["state_dict"]
        self.model.load_state_dict(state, strict=True)
        self.config = yaml.safe_load((directory / "config.yaml").read_text())
        front = dict(self.config["frontend_conf"])
        if front.get("cmvn_file"):
            front["cmvn_file"] = str(directory / front["cmvn_file"])
        # The noise that the official front end adds by default would make every call another.
        self.front = WavFrontend(**front, dither=0.0)
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "Qwen3" / "tokenizer.json"))

    def features(self, samples: Floats) -> torch.Tensor:
        """Stacked rows [1, T, inputs] of a clip."""
        with torch.no_grad():
            return self.front(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))[0]

    def encode(self, features: torch.Tensor) -> tuple[Floats, Floats | None]:
        """All embeddings [T, width] of features, and the CTC head's log-probabilities [T, classes]."""
        model, lengths = self.model, torch.tensor([features.shape[1]])
        with torch.no_grad():
            # The encoder scales its input in place.
            rows, counts = model.encode(features.clone(), lengths)
            embeddings = model.audio_adaptor(rows, counts)[0][0].numpy()
            if model.ctc_decoder is None:
                return embeddings, None
            return embeddings, model.ctc.log_softmax(model.ctc_decoder(rows, counts)[0])[0].numpy()

    def prepared(self, samples: Floats, language: str | None, hotwords: list[str]) -> tuple[torch.Tensor, list[int]]:
        """The rows that the decoder is given [n, width], and their ids (0 where the audio lies)."""
        prompt = self.model.get_prompt(hotwords, language)
        talk = self.model.generate_chatml(prompt, torch.from_numpy(samples))
        settings = {"dataset_conf": self.config["dataset_conf"]} if "dataset_conf" in self.config else {}
        with torch.no_grad():
            rows, _, _, ids, _ = self.model.inference_prepare(
                [talk], tokenizer=self.tokenizer, frontend=self.front, device="cpu", **settings
            )
        return rows[0], ids[0].tolist()

    def generate(self, rows: torch.Tensor, count: int) -> Generated:
        """``count`` greedy tokens after ``rows``. Ignores stop tokens."""
        tokens: list[int] = []
        logits: list[Floats] = []
        cache, feed = None, {"inputs_embeds": rows[None]}
        with torch.no_grad():
            for _ in range(count):
                out = self.model.llm(**feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = out.past_key_values
                logits.append(out.logits[0, -1].numpy())
                tokens.append(int(logits[-1].argmax()))
                feed = {"input_ids": torch.tensor([[tokens[-1]]])}
        return Generated(np.array(tokens), np.stack(logits))
