"""The teacher: weights out of the published 8-bit graphs, what it hears, what it writes."""

import json
from argparse import ArgumentTypeError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

import torch
from onnx import TensorProto, helper, numpy_helper, save

from training.asr.labels import write_labels
from training.asr.plan import ROW
from training.asr.teacher import label, load_teacher, states, weights
from training.shards import Clip
from training.stages import share

from .shapes import shard

WHOLE = np.array([[1, 2, 130], [128, 255, 0]], np.uint8)
ZERO, SCALE = np.uint8(128), np.float32(0.5)


def quantised(name: str) -> list[TensorProto]:
    """An 8-bit tensor, its zero point and its scale."""
    parts = {f"{name}_quantized": WHOLE, f"{name}_zero_point": ZERO, f"{name}_scale": SCALE}
    return [numpy_helper.from_array(np.asarray(v), k) for k, v in parts.items()]


def product(node: str, weight: str) -> Any:
    return helper.make_node("MatMulInteger", ["x", f"{weight}_quantized"], ["y"], name=node)


def test_products_are_multiplied_out_under_the_official_names(tmp_path: Path) -> None:
    """A convolution, a projection and a bias of the encoder; of the decoder those inside a condition."""
    bias = np.array([1, 2], np.float32)
    tensors = [*quantised("conv1.weight"), *quantised("onnx::MatMul_7")]
    tensors += [numpy_helper.from_array(bias, "layers.0.fc1.bias")]
    nodes = [product("/layers.0/fc1/MatMul_quant", "onnx::MatMul_7")]
    save(helper.make_model(helper.make_graph(nodes, "g", [], [], tensors)), tmp_path / "encoder.onnx")
    found = weights(tmp_path / "encoder.onnx", "encoder")
    value = torch.tensor([[-63.5, -63.0, 1.0], [0.0, 63.5, -64.0]])
    assert found.keys() == {
        f"model.encoder.{name}" for name in ("conv1.weight", "layers.0.fc1.weight", "layers.0.fc1.bias")
    }
    torch.testing.assert_close(found["model.encoder.conv1.weight"], value)
    torch.testing.assert_close(found["model.encoder.layers.0.fc1.weight"], value.T)
    torch.testing.assert_close(found["model.encoder.layers.0.fc1.bias"], torch.tensor([1.0, 2.0]))

    inner = [product("/model/decoder/layers.1/self_attn/q_proj/MatMul_quant", "onnx::MatMul_9_merged_0")]
    branch = helper.make_graph(inner, "then", [], [], quantised("onnx::MatMul_9_merged_0"))
    condition = helper.make_node("If", ["use_cache"], ["logits"], then_branch=branch, else_branch=branch)
    outer = quantised("model.decoder.embed_tokens.weight_merged_0")
    save(helper.make_model(helper.make_graph([condition], "g", [], [], outer)), tmp_path / "decoder.onnx")
    found = weights(tmp_path / "decoder.onnx", "decoder")
    assert found.keys() == {"model.decoder.embed_tokens.weight", "model.decoder.layers.1.self_attn.q_proj.weight"}
    torch.testing.assert_close(found["model.decoder.layers.1.self_attn.q_proj.weight"], value.T)


def noise(seconds: float, seed: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return (np.random.default_rng(seed).normal(0, 3000, int(seconds * 16000))).astype(np.int16)


SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]


@pytest.fixture
def teacher() -> tuple[Any, Any]:
    """A Whisper of two layers and its tokenizer of six words."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models

    words = ["sea", "calm", "boy", "rain", "house", "old"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*words, *SPECIAL])}, unk_token="sea"))
    config = transformers.WhisperConfig(
        vocab_size=len(words) + len(SPECIAL), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        max_target_positions=300, pad_token_id=6, bos_token_id=6, eos_token_id=6, decoder_start_token_id=7,
        suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    torch.manual_seed(2)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():  # sharper choices
        model.model.decoder.embed_tokens.weight.mul_(30)
    return model, tokenizer


def test_shares_label_every_clip_once(teacher: tuple[Any, Any], tmp_path: Path) -> None:
    """Three processes of a tar each write the clips that the others leave out, as one alone would."""
    shard(tmp_path / "a.tar", 7)

    def labels(share: tuple[int, int]) -> dict[str, str]:
        out = tmp_path / "labels.jsonl"
        teach = partial(label, *teacher, device=torch.device("cpu"))
        write_labels(teach, [tmp_path / "a.tar"], [], out, share, 1)
        return {row["file"]: row["text"] for row in map(json.loads, out.read_text().splitlines())}

    parts = [labels((i, 3)) for i in range(3)]
    assert sorted(map(len, parts)) == [2, 2, 3]
    assert parts[0] | parts[1] | parts[2] == labels((0, 1))


def test_another_file_than_the_pinned_one_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "encoder_model_quantized.onnx").write_bytes(b"another")
    with pytest.raises(ValueError, match=r"encoder_model_quantized\.onnx: SHA-256 .*, pinned is 969f5a"):
        load_teacher(tmp_path, torch.device("cpu"))


@pytest.mark.parametrize("text", ["1/1", "2", "-1/2", "0/101", "a/b"])
def test_a_share_is_one_of_so_many(text: str) -> None:
    assert share("1/3") == (1, 3)
    with pytest.raises(ArgumentTypeError, match="must be K/N"):
        share(text)


def test_it_writes_what_one_pass_over_the_whole_text_would(teacher: tuple[Any, Any]) -> None:
    """Shortest clips first, those beyond 30 s left out; a text that does not end is none."""
    transformers = pytest.importorskip("transformers")
    model, tokenizer = teacher
    clips = [Clip(noise(s, i), "", "s", "c", "c", str(i)) for i, s in enumerate((2.0, 0.5, 31.0, 1.0))]
    found = list(label(model, tokenizer, clips, torch.device("cpu"), batch=2))
    assert [clip.file for clip, _, _ in found] == ["1", "3", "0"]
    start = [tokenizer.token_to_id(t) for t in SPECIAL[1:]]
    extractor, forbidden = transformers.WhisperFeatureExtractor(), start
    limits = {"1": 21, "3": 21, "0": 30}  # by the longest of a batch
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


def test_states_are_those_of_whole_windows(teacher: tuple[Any, Any]) -> None:
    """Every row is the mean of four states of a window of 30 s that holds it, brought to mean 0 and deviation 1."""
    transformers = pytest.importorskip("transformers")
    model, _ = teacher
    audio = torch.from_numpy(noise(65.0, 5))
    audio[40 * 16000 :: 3] = 0
    found = states(model, audio, 61 * 16000, batch=2)
    assert found.shape == (-(-61 * 16000 // ROW), 16) and found.dtype == torch.float16
    extractor, whole = transformers.WhisperFeatureExtractor(), list[torch.Tensor]()
    for first in range(-12, len(found), 351):  # rows at which windows begin
        sound = torch.zeros(30 * 16000)
        begin, end = max(first * ROW, 0), min((first + 375) * ROW, 61 * 16000)
        sound[begin - first * ROW :][: end - begin] = audio[begin:end] / 32768
        heard = extractor(sound.numpy(), sampling_rate=16000, return_tensors="pt").input_features
        with torch.no_grad():
            whole.append(model.model.encoder(heard).last_hidden_state[0].view(375, 4, 16).mean(1)[12:-12])
    expected = torch.cat(whole)[: len(found)]
    expected = ((expected - expected.mean(0)) / expected.std(0)).clamp(-4, 4)
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0.02)
