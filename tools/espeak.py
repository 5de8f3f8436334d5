"""espeak-ng driven in-process through its shared library: samples and the start of every word.

A process a sentence would cost more than the synthesis. The library keeps global state: one instance a process.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from training.shards import RATE
from training.transcript import transcript

_SYNCHRONOUS, _WORD_EVENT, _UTF8, _NO_EXIT = 2, 1, 1, 0x8000
_SPEED, _PITCH, _PITCH_RANGE, _WORD_GAP = 1, 3, 4, 7


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("uid", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


class Espeak:
    """libespeak-ng under `root` (an unpacked Debian package tree, or / where it is installed)."""

    def __init__(self, root: Path) -> None:
        folder = root / "usr/lib/x86_64-linux-gnu"
        ctypes.CDLL(str(folder / "libsonic.so.0"), ctypes.RTLD_GLOBAL)
        stub = root / "libpcaudio.so.0"  # the real one pulls in sound servers
        ctypes.CDLL(str(stub if stub.exists() else folder / "libpcaudio.so.0"), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(folder / "libespeak-ng.so.1"))
        data = folder if (folder / "espeak-ng-data").exists() else root / "usr/share"
        self._rate = int(self._library.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), _NO_EXIT))
        if self._rate <= 0:
            raise RuntimeError(f"espeak-ng: no voice data under {data}")
        self._parts: list[NDArray[np.int16]] = []
        self._words: list[tuple[int, int]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
        self._callback: Callable[..., Any] = kind(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self._parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        i = 0
        while events[i].type:
            if events[i].type == _WORD_EVENT:
                self._words.append((events[i].audio_position, events[i].text_position))
            i += 1
        return 0

    def say(
        self, text: str, voice: str, *, speed: float, pitch: float, pitch_range: float, gap: int
    ) -> tuple[NDArray[np.float32], list[tuple[int, int]]] | None:
        """Samples at 16 kHz in int16 units and (sample, transcript words before it) per word; None if the voice is
        unknown."""
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            return None
        for key, value in ((_SPEED, speed), (_PITCH, pitch), (_PITCH_RANGE, pitch_range), (_WORD_GAP, gap)):
            self._library.espeak_SetParameter(key, int(value), 0)
        self._parts, self._words = [], []
        data = text.encode()
        self._library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 1, 0, _UTF8, None, None)
        self._library.espeak_Synchronize()
        if not self._parts:
            return None
        samples = soxr.resample(np.concatenate(self._parts).astype(np.float32), self._rate, RATE)
        # audio_position is in milliseconds, text_position counts characters from 1.
        words = [(ms * RATE // 1000, len(transcript(text[: max(at - 1, 0)]).split())) for ms, at in self._words]
        return samples, words
