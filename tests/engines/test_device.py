"""Devices: what is not here is told in one sentence."""

from pathlib import Path

import numpy as np
import pytest

from codec.sampling import draw, draws, generator
from engines import device
from engines.device import choose, cuda_lacks
from engines.gguf import Decoder, Rows
from engines.manifest import read_asr
from engines.onnx import ProviderError, providers


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(ProviderError, match=r"^device: 'abacus' is none of auto, cpu, cuda, dml$"):
        choose("abacus")


def test_the_processor_is_always_there() -> None:
    assert choose("cpu") == device.Device("cpu", False)
    assert choose().provider == "auto"


@pytest.mark.skipif("CUDAExecutionProvider" in providers(), reason="ONNX Runtime is built for CUDA here")
def test_cuda_says_what_to_install() -> None:
    with pytest.raises(ProviderError, match=r"^device: cuda needs ONNX Runtime with CUDA: pip install onnxruntime-gpu"):
        choose("cuda")


@pytest.mark.parametrize(("driver", "says"), [(False, "NVIDIA's driver"), (True, "llama.cpp with CUDA")])
@pytest.mark.skipif(device.offloads(), reason="llama.cpp is built for a card here")
def test_what_cuda_lacks_beside_onnx_runtime(monkeypatch: pytest.MonkeyPatch, driver: bool, says: str) -> None:
    monkeypatch.setattr(device, "providers", list[str])
    monkeypatch.setattr(device, "_driver", lambda: driver)
    assert (cuda_lacks() or "").startswith(says)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (50, 1.0), (50, 0.8), (5, 0.5)])
def test_draws_of_many_are_those_of_each(top_k: int, top_p: float, greedy: bool) -> None:
    logits = np.random.default_rng(top_k).normal(0, 3, (7, 200)).astype(np.float32)
    logits[:, 3] = logits[:, 9]  # a tie
    many = draws(logits, [generator(1, i) for i in range(7)], temperature=0.9, top_k=top_k, top_p=top_p, greedy=greedy)
    each = [
        draw(row, generator(1, i), temperature=0.9, top_k=top_k, top_p=top_p, greedy=greedy)
        for i, row in enumerate(logits)
    ]
    assert many == each


def test_steps_in_one_pass_leave_the_sequences_between_as_they_were(asr_directory: Path) -> None:
    """The order that a card wants, on the processor: rows of neighbours are computed along and forgotten."""
    manifest = read_asr(asr_directory)

    def loaded() -> Decoder:
        decoder = Decoder(asr_directory / manifest.decoder.file, sequences=4, rows=256, threads=1, kv="f32")
        for sequence in range(4):
            decoder.acquire()
            decoder.evaluate([Rows(sequence, 0, decoder.embed([5 + sequence, 9]), 2)])
        return decoder

    one, other = loaded(), loaded()
    steps = [Rows(sequence, 2, one.embed([7]), 0) for sequence in (3, 0)]
    plain = one.outputs(steps)
    other._card = True  # pyright: ignore[reportPrivateUsage]
    ordered = other.outputs(steps)
    for mine, theirs in zip(plain, ordered, strict=True):
        np.testing.assert_allclose(mine.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    after = [Rows(sequence, 2, one.embed([11]), 0) for sequence in (1, 2)]
    for mine, theirs in zip(one.outputs(after), other.outputs(after), strict=True):
        np.testing.assert_allclose(mine.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    one.close()
    other.close()
