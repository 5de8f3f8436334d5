"""Where models are computed: on the processor or on a graphics card.

``auto`` takes for each engine what is installed: ONNX Runtime's best provider, and a card where llama.cpp is built for
one; what does not start there falls back to the processor. A card that is named must serve: DirectML runs the graphs
and leaves the decoders to the processor, CUDA runs both.
"""

import ctypes
import sys
from dataclasses import dataclass
from typing import Final

from engines import DEVICES
from engines.llama import offloads
from engines.onnx import ProviderError, providers

CARD_THREADS: Final = 4
"""Threads of a call that a card computes: they only prepare it."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the engines are told: ONNX Runtime's provider (``engines.onnx.providers``), and whether llama.cpp computes
    on a card."""

    provider: str
    card: bool


def choose(asked: str = "auto") -> Device:
    """The device of that name.

    Raises:
        ProviderError: there is none of that name, or what it needs is not installed.
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
    """What CUDA lacks here, and how to get it; None where all is there."""
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
