"""A voice from a recording: the speaker encoder's vector, and the recording's own codes where the model takes them.

Mel spectrogram as the official code makes it (QwenLM/Qwen3-TTS, modeling_qwen3_tts.py:399-464, 1941-1952); sizes from
the manifest.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from codec.options import OptionError
from engines.manifest import SpeakerEncoder
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]

SECONDS: Final = (1.0, 30.0)
"""Shorter references carry too little of a voice; longer ones add nothing and cost memory."""
SILENT_RMS: Final = 1e-3
"""−60 dBFS."""

_soxr: Any = soxr  # incompletely typed


def reference(samples: Floats, rate: int, wanted: int) -> Floats:
    """``samples`` (float32 mono at ``rate``) checked, at the encoders' rate.

    Raises:
        OptionError: too short, too long or silent; the message has the number and the limit.
    """
    low, high = SECONDS
    seconds = len(samples) / rate
    if not low <= seconds <= high:
        raise OptionError("reference", f"{seconds:.1f} s of audio, it must be {low:g} to {high:g} s")
    if not np.isfinite(samples).all():
        raise OptionError("reference", "holds samples that are no numbers")
    level = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    if level < SILENT_RMS:
        raise OptionError("reference", f"is silent: RMS {level:.1e}, at least {SILENT_RMS:g} is needed")
    return samples if rate == wanted else np.asarray(_soxr.resample(samples, rate, wanted, quality="HQ"), np.float32)


class VoiceEncoder:
    """The speaker encoder behind its mel front end. Not thread-safe: the codec's lane calls in."""

    def __init__(self, spec: SpeakerEncoder, directory: Path, *, threads: int, provider: str) -> None:
        self.spec = spec
        self._filters: Floats = np.load(directory / spec.filters).astype(np.float32)
        self._graph = Graph(directory / spec.file, threads=threads, provider=provider)
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spec.n_fft) / spec.n_fft)).astype(np.float32)

    def mels(self, samples: Floats) -> Floats:
        """Log-mel of ``samples`` at the encoder's rate: float32 [frames, bins]."""
        spec = self.spec
        padded = np.pad(samples, (spec.n_fft - spec.hop_length) // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, spec.n_fft)[:: spec.hop_length]
        spectrum = np.fft.rfft(frames * self._window, axis=1)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        return np.log(np.maximum(magnitude @ self._filters.T, 1e-5)).astype(np.float32)

    def embedding(self, samples: Floats) -> Floats:
        """The speaker's vector: float32 [talker width]."""
        outputs = self._graph.run({"mels": self.mels(samples)[None]})
        return np.asarray(outputs[self._graph.outputs.index("embedding")][0], dtype=np.float32)
