"""Devices: one that is missing is refused in one sentence."""

import pytest

from engines import device
from engines.device import choose, cuda_lacks
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
def test_what_cuda_lacks_beside_onnx_runtime(monkeypatch: pytest.MonkeyPatch, driver: bool, says: str) -> None:
    monkeypatch.setattr(device, "providers", list[str])
    monkeypatch.setattr(device, "_driver", lambda: driver)
    monkeypatch.setattr(device, "offloads", lambda: False)
    assert (cuda_lacks() or "").startswith(says)
