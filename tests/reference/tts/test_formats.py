"""The codec graph in every precision: rules, nearness to float32, exactness of cutting, the older runtime."""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines import manifest as manifests
from engines.integrity import verify
from export.directory import Precision
from export.names import FROM_SLOTS, TO_SLOTS
from export.trace import rules
from export.tts.checkpoint import CODEC_TYPE, open_part
from export.tts.codec_dims import read_codec_dims
from export.tts.description import CODEC
from export.tts.directory import write_codec
from tests.reference.tts.conftest import Case
from tests.reference.tts.stepper import Stepper

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]
CODES = np.random.default_rng(1).integers(0, 64, (120, 4))

SIGNAL_TO_ERROR = {"fp16": 40.0, "int8": 35.0}
"""dB below which a precision would not hold. Random weights are harder than trained ones."""
CUTTING = {"fp16": 5e-2, "int8": 1e-4}
"""Largest difference between two ways of cutting over the RMS. int8 computes in float32 and holds what float32 holds;
float16 samples have steps of 3e-3 of the RMS themselves."""

CUTS = ([(1, 0)], [(2, 0)], [(3, 5)], [(4, 0)], [(12, 0)], [(64, 1)], [(4, 0), (1, 3), (12, 0)])
"""Frames and padding of the calls, over and over."""


@pytest.fixture(scope="module", params=["fp16", "int8"])
def rounded(tiny: Case, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The model directory of ``tiny`` with its codec in another precision."""
    return write(tiny, tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def int8(tiny: Case, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stepper, Floats, list[Floats]]:
    """The 8-bit codec, and the samples and state of all frames in one call."""
    stepper = Stepper(write(tiny, tmp_path_factory.mktemp("identity"), "int8"))
    return stepper, *stepper.decode(CODES, [(len(CODES), 0)])


def write(tiny: Case, out: Path, precision: Precision) -> Path:
    codec = open_part(tiny.checkpoint / "speech_tokenizer", CODEC_TYPE)
    dims = read_codec_dims(codec)
    write_codec(codec, dims, out, precision)
    made = manifests.read_tts(tiny.exported)
    shutil.copyfile(tiny.exported / made.tokenizer.file, out / made.tokenizer.file)
    slots = (FROM_SLOTS, TO_SLOTS) if precision == "fp16" else None
    described = msgspec.structs.replace(made.codec, precision=precision, slots=slots)
    manifests.write(msgspec.structs.replace(made, codec=described), out)
    return out


def test_a_card_meets_no_convolution_that_mixes_channels(tiny: Case, tmp_path: Path) -> None:
    """cuDNN has no algorithm for a dilated one of 96 channels in float16."""
    write(tiny, tmp_path, "fp16")
    graph = onnx.load(tmp_path / CODEC, load_external_data=False).graph
    shapes = {tensor.name: tensor.dims for tensor in graph.initializer}
    mixing = [n.name for n in graph.node if n.op_type.startswith("Conv") and shapes[n.input[1]][1] > 1]
    assert not mixing


def signal_to_error(wave: Floats, theirs: Floats) -> float:
    return float(
        10 * np.log10((theirs.astype(np.float64) ** 2).sum() / ((wave - theirs).astype(np.float64) ** 2).sum())
    )


def test_a_precision_stays_near(tiny: Case, rounded: Path) -> None:
    """Signal to error against the official decoder, and one call against chunks."""
    with torch.no_grad():
        theirs = tiny.codec.decoder(torch.from_numpy(CODES.T[None]))[0, 0].numpy()
    stepper = Stepper(rounded)
    kind = stepper.codec.precision
    whole, _ = stepper.decode(CODES, [(len(CODES), 0)])
    waves = [stepper.decode(CODES, cuts)[0] for cuts in CUTS]
    level = float(np.sqrt((theirs**2).mean()))
    ratio = min(signal_to_error(wave, theirs) for wave in (whole, *waves))
    cutting = max(float(np.abs(whole - wave).max()) for wave in waves) / level
    print(f"{kind}: {ratio:.1f} dB to the official decoder; cutting changes samples by up to {cutting:.1e} of the RMS")
    assert ratio >= SIGNAL_TO_ERROR[kind]
    assert cutting <= CUTTING[kind]


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(1, 64), st.integers(0, 16)), min_size=1, max_size=12))
def test_any_cutting_of_8_bits_is_one_call(
    int8: tuple[Stepper, Floats, list[Floats]], cuts: list[tuple[int, int]]
) -> None:
    """Chunks of 1 to 64 frames, padded by any number of frames: float32's identity."""
    stepper, whole, last_state = int8
    wave, state = stepper.decode(CODES, cuts)
    assert np.abs(wave - whole).max() <= CUTTING["int8"] * np.sqrt((whole.astype(np.float64) ** 2).mean())
    for kept, expected in zip(state, last_state, strict=True):
        assert np.abs(kept - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max()))


def test_a_row_does_not_depend_on_the_batch(rounded: Path) -> None:
    """A stream beside a five times longer one has the samples it has alone, but for the order of sums."""
    stepper = Stepper(rounded)
    alone, _, _ = stepper.call(CODES[None, :4], stepper.start())
    both = np.full((2, 20, 4), -1)
    both[0, :4], both[1] = CODES[:4], CODES[40:60]
    beside, _, _ = stepper.call(both, stepper.start(2))
    level = float(np.sqrt((alone.astype(np.float32) ** 2).mean()))
    difference = np.abs(alone[0].astype(np.float32) - beside[0, : alone.shape[1]].astype(np.float32)).max() / level
    assert difference <= CUTTING[stepper.codec.precision]


def test_every_graph_keeps_the_rules(tiny: Case, rounded: Path) -> None:
    """Also after the rewriting; inputs and outputs as the manifest says, each file as described."""
    verify(tiny.exported)
    for directory in (tiny.exported, rounded):
        model = onnx.load(directory / CODEC)
        rules.check(model, CODEC)
        codec = manifests.read_tts(directory).codec
        names = [codec.codes, codec.last, *(state.input for state in codec.states), *(codec.slots or ())]
        assert [each.name for each in model.graph.input] == names
        assert [each.name for each in model.graph.output] == [
            codec.wave,
            codec.samples,
            *(state.output for state in codec.states),
        ]
        assert b"/home" not in model.SerializeToString() and b"site-packages" not in model.SerializeToString()


def older_runtime(directory: Path, tmp_path: Path) -> None:
    """Run ``directory`` with onnxruntime 1.24.4, chunk by chunk, in a batch of two, and compare."""
    python = os.environ.get("HEARSAY_ORT124")
    if not python:
        pytest.skip("HEARSAY_ORT124 names no interpreter with onnxruntime 1.24.4")
    wave, _ = Stepper(directory).decode(CODES, [(1, 0), (4, 2), (12, 0)])
    np.savez(tmp_path / "outputs.npz", codes=CODES, wave=wave)
    script = Path(__file__).with_name("ort124.py")
    done = subprocess.run(
        [python, script, directory, tmp_path / "outputs.npz"], capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr


def test_the_older_runtime_agrees(tiny: Case, tmp_path: Path) -> None:
    """float32."""
    older_runtime(tiny.exported, tmp_path)


def test_the_older_runtime_agrees_rounded(rounded: Path, tmp_path: Path) -> None:
    """float16 and 8 bits."""
    older_runtime(rounded, tmp_path)
