"""Where models are computed: on the processor or on a graphics card.

``auto`` takes for each engine what is installed: the best provider of ONNX Runtime, and a card if llama.cpp is built
for one. Whatever does not start there falls back to the processor. A device that is named must work: with DirectML the
graphs run on the card and the decoders on the processor, with CUDA both run on the card.
"""

import ctypes
import sys
from dataclasses import dataclass
from typing import Final

from engines import DEVICES
from engines.llama import offloads
from engines.onnx import ProviderError, providers

CARD_THREADS: Final = 4
"""How many threads a call has that a card computes. They only prepare it, so more do not help."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the engines run on: ONNX Runtime's provider (``engines.onnx.providers``), and whether llama.cpp computes on
    a card."""

    provider: str
    card: bool


def choose(asked: str = "auto") -> Device:
    """The device of that name.

    Raises:
        ProviderError: there is no device of that name, or what it needs is not installed.
    """
    if asked not in DEVICES:
        raise ProviderError(f"device: {asked!r} is none of {', '.join(DEVICES)}")
    if asked in ("cpu", "dml"):
        providers(asked)
        return Device(asked, False)
    if asked == "cuda" and (lack := cuda_lacks()):
        raise ProviderError(f"device: cuda needs {lack}")
    return Device(asked, offloads())


def cuda_lacks() -> str | None:
    """What is missing for CUDA on this machine, and how to get it; None if nothing is."""
    try:
        providers("cuda")
    except ProviderError:
        return "ONNX Runtime with CUDA: pip install onnxruntime-gpu in place of onnxruntime"
    if not _driver():
        return "NVIDIA's driver, and none answers with a card"
    if not offloads():
        return "llama.cpp with CUDA: CMAKE_ARGS=-DGGML_CUDA=on make environment"
    return None


def _driver() -> bool:
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        return driver.cuInit(0) == 0
    except (OSError, AttributeError):
        return False
