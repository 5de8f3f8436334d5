"""The runtime's front end and prompts against the official ones; the golden files are what this code writes."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from engines import manifest as manifests
from engines.files import load_tokenizer
from engines.parts import FixedFloor
from export.sound import sound
from streaming.families.fun_asr_nano import Fbank, FunAsrPrompt
from tests.reference.funasr import golden
from tests.reference.funasr.official import NAMES
from tests.reference.funasr.test_encoder import SECONDS
from tests.reference.test_golden import hold_decoders, hold_graphs

pytestmark = pytest.mark.reference

COMMITTED = Path(__file__).parents[2] / "golden" / "funasr"


@pytest.mark.parametrize("extra", range(0, 960, 97))
def test_rows(case: Any, extra: int) -> None:
    """Every way in which frames can fill the last row; the official transform is in float32."""
    manifest = case.manifest
    front = Fbank(case.model, manifest.mel, manifest.fun_asr, manifest.encoder.chunk_frames)
    for seconds in SECONDS:
        samples = sound(seconds, 1)
        samples = np.concatenate([samples, sound(0.1, 2)[:extra]])
        theirs = case.official.features(samples)[0].numpy()
        ours = front.rows(front.frames(samples, front.count(len(samples))))
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 2e-3


@pytest.mark.parametrize("terms", [(), ("hearsay", "fox")])
@pytest.mark.parametrize("language", [None, "zh", "en"])
def test_prompts(case: Any, language: str | None, terms: tuple[str, ...]) -> None:
    """The official ids, 0 where the audio lies."""
    manifest = case.manifest
    tokenizer = load_tokenizer(case.model / manifest.tokenizer.file)
    prompt = FunAsrPrompt(tokenizer, manifest.fun_asr, leading_space=False)
    _, ids = case.official.prepared(sound(1.0, 0), NAMES[language] if language else None, list(terms))
    assert [*prompt.head(terms, language), *ids.count(0) * [0], *prompt.suffix(language)] == ids


def test_the_golden_files_are_reproduced(tmp_path: Path) -> None:
    """Ids and tokens exactly; floats as closely as another processor sums them."""
    golden.write(tmp_path / "funasr")
    committed, new = np.load(COMMITTED / "official.npz"), np.load(tmp_path / "funasr" / "official.npz")
    assert committed.files == new.files
    for name in committed.files:
        if np.issubdtype(new[name].dtype, np.integer):
            assert np.array_equal(committed[name], new[name]), name
        else:
            wanted = committed[name]
            np.testing.assert_allclose(new[name], wanted, rtol=0, atol=2e-4 * np.abs(wanted).max(), err_msg=name)
    ours, theirs = manifests.read_asr(tmp_path / "funasr" / "nano"), manifests.read_asr(COMMITTED / "nano")
    assert isinstance(ours.mel.floor, FixedFloor) and isinstance(theirs.mel.floor, FixedFloor)
    assert ours.mel.floor.log10 == pytest.approx(theirs.mel.floor.log10, rel=1e-6)  # a logarithm in float32
    mel = msgspec.structs.replace(ours.mel, floor=theirs.mel.floor)
    assert (ours.encoder, ours.decoder, mel, ours.fun_asr) == (
        theirs.encoder, theirs.decoder, theirs.mel, theirs.fun_asr,
    )  # fmt: skip
    hold_decoders(tmp_path / "funasr" / "nano" / "decoder.gguf", COMMITTED / "nano" / "decoder.gguf")
    hold_graphs(tmp_path / "funasr" / "nano" / "body.onnx", COMMITTED / "nano" / "body.onnx")
