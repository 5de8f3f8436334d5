"""The exported codec decoder against the official one, for every way of cutting frames into calls."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from export.trace.codec import build_codec
from export.trace.speaking_graphs import zeros
from export.tts.checkpoint import CODEC_TYPE, open_part
from export.tts.codec_dims import read_codec_dims
from export.tts.state import states
from tests.reference.tts import official
from tests.reference.tts.conftest import Case
from tests.reference.tts.stepper import Stepper

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]

FRAMES = 300
"""The window of 72 turns four times."""
OFFICIAL_ERROR = 4.2e-4
CHUNK_ERROR = 1e-4
"""Of the output's RMS."""
CODES = np.random.default_rng(0).integers(0, official.TINY_CODEC["codebook_size"], (FRAMES, 4))


def rms(wave: Floats) -> float:
    return float(np.sqrt((wave.astype(np.float64) ** 2).mean()))


@pytest.fixture(scope="module")
def theirs(tiny: Case) -> Floats:
    """The official decoder on all frames at once."""
    with torch.no_grad():
        wave = tiny.codec.decoder(torch.from_numpy(CODES.T[None]))[0, 0].numpy()
    assert rms(wave) >= 0.05
    return wave


@pytest.fixture(scope="module")
def whole(stepper: Stepper) -> tuple[Floats, list[Floats]]:
    """Our decoder on all frames in one call."""
    return stepper.decode(CODES, [(FRAMES, 0)])


def test_one_call_is_the_official_decoder(theirs: Floats, whole: tuple[Floats, list[Floats]]) -> None:
    """300 frames at once: 1920 samples a frame exactly, the official samples."""
    wave, _ = whole
    assert wave.shape == theirs.shape == (FRAMES * 1920,)
    error = float(np.abs(wave - theirs).max())
    print(f"codec, one call of {FRAMES} frames: RMS {rms(theirs):.3f}, largest error {error:.1e}")
    assert error <= OFFICIAL_ERROR


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 8, 12, 25, 64, 72, 73, 160])
def test_even_chunks_are_the_official_decoder(stepper: Stepper, theirs: Floats, frames: int) -> None:
    """Chunks of one size, over and over."""
    wave, _ = stepper.decode(CODES, [(frames, 0)])
    error = float(np.abs(wave - theirs).max())
    print(f"codec, calls of {frames} frames: largest error {error:.1e}")
    assert error <= OFFICIAL_ERROR


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=st.lists(st.tuples(st.integers(1, 64), st.integers(0, 16)), min_size=1, max_size=12))
def test_any_cutting_and_padding_is_one_call(
    stepper: Stepper, theirs: Floats, whole: tuple[Floats, list[Floats]], cuts: list[tuple[int, int]]
) -> None:
    """Chunks of 1 to 64 frames, padded by any number of frames: the samples and the state of one call."""
    wave, state = stepper.decode(CODES, cuts)
    at_once, last_state = whole
    assert np.abs(wave - at_once).max() <= CHUNK_ERROR * rms(at_once)
    assert np.abs(wave - theirs).max() <= OFFICIAL_ERROR
    for kept, expected in zip(state, last_state, strict=True):
        assert kept.shape == expected.shape
        assert np.abs(kept - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max()))


@pytest.mark.parametrize("padding", range(1, 65))
def test_every_width_of_padding(stepper: Stepper, theirs: Floats, padding: int) -> None:
    """The same frames whatever is padded behind them, and the state of the last valid frame."""
    wave, state = stepper.decode(CODES[:10], [(5, padding)])
    plain, expected = stepper.decode(CODES[:10], [(5, 0)])
    assert np.abs(wave - theirs[: len(wave)]).max() <= OFFICIAL_ERROR
    assert np.abs(wave - plain).max() <= CHUNK_ERROR * rms(plain)
    for kept, wanted in zip(state, expected, strict=True):
        assert np.abs(kept - wanted).max() <= 1e-5 * max(1.0, float(np.abs(wanted).max()))


def test_a_batch_of_unequal_streams(stepper: Stepper) -> None:
    """Four streams of different lengths, one of them all padding: each as alone, the idle one's state kept."""
    lengths = [7, 3, 0, 12]
    codes = np.full((4, 12, 4), -1)
    state = stepper.start(4)
    for row, length in enumerate(lengths):
        codes[row, :length] = CODES[:length]
    _, _, state = stepper.call(np.repeat(CODES[None, :20], 4, 0), state)
    wave, valid, following = stepper.call(codes, state)
    assert valid.tolist() == [length * 1920 for length in lengths]
    alone_state = stepper.start()
    _, _, alone_state = stepper.call(CODES[None, :20], alone_state)
    for row, length in enumerate(lengths):
        kept = [each[row : row + 1] for each in following]
        if length == 0:
            expected = alone_state
        else:
            alone, _, expected = stepper.call(CODES[None, :length], alone_state)
            assert np.abs(wave[row, : valid[row]] - alone[0]).max() <= OFFICIAL_ERROR
        for ours, theirs_ in zip(kept, expected, strict=True):
            assert np.abs(ours - theirs_).max() <= 1e-5 * max(1.0, float(np.abs(theirs_).max()))


def test_kept_rows_are_the_official_keys_and_values(
    tiny: Case, whole: tuple[Floats, list[Floats]], stepper: Stepper
) -> None:
    """The KV state after 300 frames: the official projections of the last 71, un-rotated, to 1e-6 of the peak."""
    caught = official.kept_rows(tiny.codec, torch.from_numpy(CODES.T[None]))
    kept = {each.input: value[0] for each, value in zip(stepper.codec.states, whole[1], strict=True)}
    assert len(caught) == 4
    for name, tensor in caught.items():
        rows = tensor.numpy()
        error = float(np.abs(kept[name] - rows[:, -71:]).max() / np.abs(rows).max())
        print(f"{name}: largest error over the peak {error:.1e}")
        assert error <= 1e-6
    assert kept["past_valid"].min() == 1.0


def test_the_state_has_one_size(stepper: Stepper) -> None:
    """Full size before, after one frame and after many: nothing grows, no axis is 0."""
    state = stepper.start()
    shapes = [each.shape for each in state]
    assert all(min(shape) > 0 for shape in shapes)
    for frames in (1, 2, 80):
        _, _, state = stepper.call(CODES[None, :frames], state)
        assert [each.shape for each in state] == shapes
    assert [state.shape for state in stepper.codec.states] == [shape[1:] for shape in shapes]


def test_is_last_has_no_effect(stepper: Stepper) -> None:
    """The flag is there for hosts that send it."""
    calm, _, first = stepper.call(CODES[None, :5], stepper.start(), 0.0)
    ended, _, second = stepper.call(CODES[None, :5], stepper.start(), 1.0)
    assert np.array_equal(calm, ended)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_no_click_at_chunk_borders(stepper: Stepper) -> None:
    """Spectral flux at the borders of 4-frame chunks lies within its distribution elsewhere."""
    wave, _ = stepper.decode(CODES[:120], [(4, 0)])
    frames = np.lib.stride_tricks.sliding_window_view(wave, 480)[::240] * np.hanning(480)
    spectrum = np.log10(np.abs(np.fft.rfft(frames)) + 1e-6)
    flux = np.maximum(0, np.diff(spectrum, axis=0)).mean(1)
    places = np.arange(len(flux)) * 240 + 240 + 120
    border = np.abs((places + 4 * 960) % (4 * 1920) - 4 * 960) < 360
    assert border.sum() > 20
    assert flux[border].max() <= flux[~border].max()
    assert abs(flux[border].mean() - flux[~border].mean()) <= 0.5 * flux[~border].std()


STAGES = {
    "codebook": "decoder.quantizer.rvq_rest.vq.layers.1._codebook.embedding_sum",
    "codebook counts": "decoder.quantizer.rvq_first.vq.layers.0._codebook.cluster_usage",
    "group projection": "decoder.quantizer.rvq_first.output_proj.weight",
    "first convolution": "decoder.pre_conv.conv.weight",
    "transformer entry": "decoder.pre_transformer.input_proj.weight",
    "attention": "decoder.pre_transformer.layers.1.self_attn.v_proj.weight",
    "layer scale": "decoder.pre_transformer.layers.0.mlp_layer_scale.scale",
    "feed-forward": "decoder.pre_transformer.layers.1.mlp.down_proj.weight",
    "final norm": "decoder.pre_transformer.norm.weight",
    "upsampling": "decoder.upsample.0.0.conv.weight",
    "depthwise": "decoder.upsample.1.1.dwconv.conv.weight",
    "pointwise": "decoder.upsample.1.1.pwconv2.weight",
    "gamma": "decoder.upsample.0.1.gamma",
    "wave head": "decoder.decoder.0.conv.weight",
    "snake": "decoder.decoder.2.block.0.alpha",
    "transposed convolution": "decoder.decoder.3.block.1.conv.weight",
    "dilated convolution": "decoder.decoder.1.block.4.conv1.conv.weight",
    "snake of a unit": "decoder.decoder.4.block.3.act1.beta",
    "last snake": "decoder.decoder.5.beta",
    "last convolution": "decoder.decoder.6.conv.weight",
}
"""One tensor of each stage."""


@pytest.mark.parametrize("stage", STAGES)
def test_one_per_cent_on_a_tensor_is_seen(tiny: Case, theirs: Floats, tmp_path: Path, stage: str) -> None:
    """Changing one tensor of any stage by 1 % breaks what the identity tests hold to."""
    source = tiny.checkpoint / "speech_tokenizer"
    shutil.copytree(source, tmp_path / "codec")
    tensors = load_file(source / "model.safetensors")
    tensors[STAGES[stage]] = tensors[STAGES[stage]] * 1.01
    save_file(tensors, tmp_path / "codec" / "model.safetensors")
    codec = open_part(tmp_path / "codec", CODEC_TYPE)
    dims = read_codec_dims(codec)
    with torch.no_grad():
        state = zeros(states(dims), 1, torch.float32)
        wave = build_codec(codec, dims)(torch.from_numpy(CODES[None, :100]), torch.zeros(1), state)[0][0].numpy()
    changed = float(np.abs(wave - theirs[: len(wave)]).max())
    print(f"{stage}: 1 % changes the samples by up to {changed:.1e}")
    assert changed > OFFICIAL_ERROR


def test_dims_name_what_contradicts(tiny: Case) -> None:
    """A dimension that the tensors contradict is an error that names the tensor."""
    codec = open_part(tiny.checkpoint / "speech_tokenizer", CODEC_TYPE)
    config = dict(codec.config)
    config["decoder_config"] = config["decoder_config"] | {"latent_dim": 64}
    with pytest.raises(ValueError, match="pre_conv.conv.weight has shape"):
        read_codec_dims(replace(codec, config=config))
