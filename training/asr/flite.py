"""flite with its compiled-in English voices, in-process through its shared libraries."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from training.shards import RATE

VOICES = {
    "slt": (135.0, 215.0),
    "rms": (75.0, 130.0),
    "awb": (90.0, 150.0),
    "kal16": (75.0, 130.0),
}  # range of mean F0, Hz


class _Wave(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("count", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    ]


class _Voice(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("features", ctypes.c_void_p)]


class Flite:
    """libflite under `root` (an unpacked Debian package tree, or / where it is installed)."""

    def __init__(self, root: Path, voices: Sequence[str]) -> None:
        folder = root / "usr/lib/x86_64-linux-gnu"
        stub = root / "libasound.so.2"
        if stub.exists():
            ctypes.CDLL(str(stub), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(folder / "libflite.so.1"), ctypes.RTLD_GLOBAL)
        self._library.flite_init()
        for name in ("usenglish", "cmulex"):
            ctypes.CDLL(str(folder / f"libflite_{name}.so.1"), ctypes.RTLD_GLOBAL)
        self._library.flite_text_to_wave.restype = ctypes.POINTER(_Wave)
        self._library.flite_text_to_wave.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        self._library.feat_set_float.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]
        self._library.delete_wave.argtypes = [ctypes.POINTER(_Wave)]
        self._voices: dict[str, Any] = {}
        for name in voices:
            library = ctypes.CDLL(str(folder / f"libflite_cmu_us_{name}.so.1"), ctypes.RTLD_GLOBAL)
            register = getattr(library, f"register_cmu_us_{name}")
            register.restype, register.argtypes = ctypes.POINTER(_Voice), [ctypes.c_char_p]
            self._voices[name] = register(None)

    def say(self, text: str, voice: str, *, stretch: float, pitch: float) -> NDArray[np.float32]:
        """Samples at 16 kHz in int16 units. stretch: duration factor; pitch: mean F0 in Hz."""
        handle = self._voices[voice]
        self._library.feat_set_float(handle.contents.features, b"duration_stretch", stretch)
        self._library.feat_set_float(handle.contents.features, b"int_f0_target_mean", pitch)
        wave = self._library.flite_text_to_wave(text.encode(), ctypes.cast(handle, ctypes.c_void_p))
        samples = np.ctypeslib.as_array(wave.contents.samples, (wave.contents.count,)).astype(np.float32)
        rate = int(wave.contents.rate)
        self._library.delete_wave(wave)
        return samples if rate == RATE else soxr.resample(samples, rate, RATE)
