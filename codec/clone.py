"""A voice from a recording: the speaker encoder's vector, and the recording's own codes where the model takes them.

Mel spectrogram as the official code makes it (QwenLM/Qwen3-TTS, modeling_qwen3_tts.py:399-464, 1941-1952); sizes from
the manifest.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from audio import recording
from engines.files import load_floats
from engines.lane import Lane, alone
from engines.manifest import TtsManifest
from engines.onnx import Graph
from engines.sessions import OptionError

Floats = npt.NDArray[np.float32]

SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
"""Shorter references carry too little of a voice; longer ones add nothing and cost memory."""
SILENT_RMS: Final = 1e-3
"""The RMS, −60 dBFS, below which a recording counts as silent: microphones' own noise lies there."""
LONGEST_SILENCE, KEPT_SILENCE = 1.0, 0.1
"""Seconds: of a longer silence in a reference so much stays at either side. Encoders hear silence as a way to speak:
a clone of 8 s of speech amid 16 s of silence spoke 36 % slower."""
HUSH: Final = 10 ** (-35 / 20)
"""A frame of a reference is silent below this share of the level that its ten loudest frames of 20 ms reach. A knock on
the microphone is shorter than those, and so changes nothing."""
PAUSE_SECONDS: Final = 0.5
"""How much silence is put after a reference that goes before the text: it may end in the middle of a sound."""

_soxr: Any = soxr  # soxr's types are incomplete.


def check_reference(samples: Floats, rate: int, longest: float) -> Floats:
    """``samples`` (float32 mono at ``rate``) without their long silences, if a voice can be made of them.

    Raises:
        OptionError: too short, too long or silent; the message has the number and the limit.
    """
    check_length(len(samples) / rate, longest)
    if not np.isfinite(samples).all():
        raise OptionError("reference", "holds samples that are no numbers")
    sound = _without_silences(samples, rate)
    level = float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))) if sound.size else 0.0
    if level < SILENT_RMS:
        raise OptionError("reference", f"is silent: RMS {level:.1e}, at least {SILENT_RMS:g} is needed")
    if round(len(sound) / rate, 1) < SHORTEST_SECONDS:
        told = f"{len(sound) / rate:.1f} s of sound, the rest is silence; at least {SHORTEST_SECONDS:g} s is needed"
        raise OptionError("reference", told)
    return sound


def check_length(seconds: float, longest: float = LONGEST_SECONDS) -> None:
    """
    Raises:
        OptionError: not a length for a reference, to a tenth of a second: files of AAC are some frames too long.
    """
    if not SHORTEST_SECONDS <= round(seconds, 1) <= longest:
        told = f"{seconds:.1f} s of audio, it must be {SHORTEST_SECONDS:g} to {longest:g} s"
        cut = ": cut a stretch out of it in which one person speaks" if seconds > longest else ""
        raise OptionError("reference", told + cut)


def _without_silences(samples: Floats, rate: int) -> Floats:
    """``samples`` themselves where there are none; in frames of 20 ms."""
    size = rate // 50
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    levels = np.sqrt(np.mean(np.square(frames, dtype=np.float64), axis=1))
    kept = np.ones(len(frames), np.bool_)
    loud = np.flatnonzero(levels > HUSH * np.sort(levels)[-10])
    most, side = round(LONGEST_SILENCE * 50), round(KEPT_SILENCE * 50)
    for before, after in pairwise([-1, *loud.tolist(), len(frames)]):
        if after - before - 1 > most:
            first = before + 1 + side if before >= 0 else 0
            kept[first : after - side if after < len(frames) else after] = False
    return samples if kept.all() else frames[kept].reshape(-1)


def beginning(source: recording.Source, rate: int) -> Floats:
    """A recording at ``rate``, float32 mono; of one that is a little too long only so much that this can be told.

    Raises:
        RecordingError: it is no audio, or damaged.
        OptionError: it says that it is too long.
    """
    told = recording.open_recording(source).seconds
    if told > LONGEST_SECONDS:
        check_length(told)
    return recording.beginning(source, rate, LONGEST_SECONDS + 1)


def _resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    return samples if rate == wanted else np.asarray(_soxr.resample(samples, rate, wanted, quality="HQ"), np.float32)


class VoiceEncoder:
    """The encoders of a model that can clone. Thread-safe: their graphs run in the model's lane, and nothing else."""

    def __init__(self, manifest: TtsManifest, directory: Path, lane: Lane, *, threads: int, provider: str) -> None:
        """The manifest must name a speaker encoder.

        Raises:
            ManifestError: a file of theirs cannot be read.
        """
        assert manifest.speaker_encoder is not None
        self.spec, self._codec_spec = manifest.speaker_encoder, manifest.codec_encoder
        self._lane = lane
        self._filters = load_floats(directory / self.spec.filters)
        self._graph = Graph(directory / self.spec.file, threads=threads, provider=provider)
        self._codec: Graph | None = None
        if self._codec_spec is not None:
            self._codec = Graph(directory / self._codec_spec.file, threads=threads, provider=provider)
        size = self.spec.n_fft
        self._window: npt.NDArray[np.float64] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)

    def mels(self, samples: Floats) -> Floats:
        """Log-mel of ``samples`` at the encoder's rate: float32 [frames, bins]."""
        spec = self.spec
        padded = np.pad(samples.astype(np.float64), (spec.n_fft - spec.hop_length) // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, spec.n_fft)[:: spec.hop_length]
        spectrum = np.fft.rfft(frames * self._window, axis=1)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        return np.log(np.maximum(magnitude @ self._filters.T, 1e-5)).astype(np.float32)

    def embedding(self, samples: Floats, rate: int) -> Floats:
        """The speaker's vector: float32 [talker width]."""
        sound = _resampled(samples, rate, self.spec.sample_rate)
        mels = self.mels(sound)[None]
        outputs = self._lane.run(alone(lambda: self._graph.run({"mels": mels})))
        return np.asarray(outputs[self._graph.outputs.index("embedding")][0], dtype=np.float32)

    def codes(self, samples: Floats, rate: int) -> npt.NDArray[np.int64]:
        """The recording and half a second of silence as codes: int64 [frames, codebooks]."""
        codec, spec = self._codec, self._codec_spec
        assert codec is not None and spec is not None
        sound = _resampled(samples, rate, spec.sample_rate)
        size = len(sound) + int(PAUSE_SECONDS * spec.sample_rate)
        audio = np.zeros((1, -(-size // spec.frame_samples) * spec.frame_samples), np.float32)
        audio[0, : len(sound)] = sound
        outputs = self._lane.run(alone(lambda: codec.run({"audio": audio})))
        return np.asarray(outputs[codec.outputs.index("codes")][0], dtype=np.int64)
