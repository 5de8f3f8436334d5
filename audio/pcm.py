"""Wire formats to float32 mono at the model's rate, as the bytes arrive.

Contract: the samples that come out, taken together, depend on the bytes alone, never on where they were cut. A frame
(one sample of every channel) that a cut splits waits for its other half.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

Samples = npt.NDArray[np.float32]
"""Mono audio, float32 [n], -1…1."""

MIN_RATE: Final = 8_000
"""Hertz: telephones. Below this rate speech is not understood."""
MAX_RATE: Final = 48_000
"""Hertz. Speech has nothing above half of this rate, so a higher one would only cost time."""
MAX_CHANNELS: Final = 8
"""Channels: 7.1, the most that common containers name."""
_FAINT: Final = 1e-8
"""The mean energy of a frame at −80 dBFS. Below it only noise decides how the channels relate."""


class FormatError(ValueError):
    """The audio is declared in a format that is not understood. ``field`` names the wrong one."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Shape(NamedTuple):
    """The format of raw audio: one of ``ENCODINGS``, Hz, interleaved channels."""

    encoding: str
    sample_rate: int
    channels: int


class DecodeError(ValueError):
    """The bytes are not the audio that they were said to be, or damaged; the message says what they are."""


def _mulaw_table() -> Samples:
    """Decoded value of each G.711 mu-law byte, float32 [256] (ITU-T G.711, table 2; 14-bit steps scaled to 16 bit)."""
    code = ~np.arange(256, dtype=np.uint8)
    segment = (code.astype(np.int32) >> 4) & 7
    magnitude = ((((code.astype(np.int32) & 15) << 3) + 0x84) << segment) - 0x84
    return (np.where(code & 0x80, -magnitude, magnitude) / 32768).astype(np.float32)


def _alaw_table() -> Samples:
    """Decoded value of each G.711 A-law byte, float32 [256] (ITU-T G.711, table 1; 13-bit steps scaled to 16 bit)."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = (code >> 4) & 7
    step = ((code & 15) << 4) + 8
    magnitude = np.where(segment == 0, step, (step + 0x100) << np.maximum(segment - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) / 32768).astype(np.float32)


_MULAW: Final = _mulaw_table()
_ALAW: Final = _alaw_table()


def bounded(samples: Samples) -> Samples:
    """``samples`` clipped to −1…1, with 0 in place of what is no number."""
    return np.clip(np.where(np.isfinite(samples), samples, np.float32(0)), np.float32(-1), np.float32(1))


def linear16(samples: Samples) -> bytes:
    """``samples`` as 16-bit little-endian integers, clipped at full scale."""
    return np.clip(np.rint(bounded(samples) * 32768), -32768, 32767).astype("<i2").tobytes()


def _linear16(data: bytes) -> Samples:
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(32768)


def _float32(data: bytes) -> Samples:
    return bounded(np.frombuffer(data, dtype="<f4").astype(np.float32))


def _mulaw(data: bytes) -> Samples:
    return _MULAW[np.frombuffer(data, dtype=np.uint8)]


def _alaw(data: bytes) -> Samples:
    return _ALAW[np.frombuffer(data, dtype=np.uint8)]


def _unsigned8(data: bytes) -> Samples:
    return (np.frombuffer(data, dtype=np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)


def _linear24(data: bytes) -> Samples:
    wide = np.zeros((len(data) // 3, 4), np.uint8)
    wide[:, 1:] = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3)
    return _linear32(wide.tobytes())


def _linear32(data: bytes) -> Samples:
    return np.frombuffer(data, dtype="<i4").astype(np.float32) / np.float32(2**31)


_ENCODINGS: Final[dict[str, tuple[int, Callable[[bytes], Samples]]]] = {
    "linear16": (2, _linear16),
    "float32": (4, _float32),
    "mulaw": (1, _mulaw),
    "alaw": (1, _alaw),
    "unsigned8": (1, _unsigned8),
    "linear24": (3, _linear24),
    "linear32": (4, _linear32),
}
ENCODINGS: Final = ("linear16", "float32", "mulaw", "alaw")
"""The names of the encodings that clients may send. Those of several bytes are little endian."""
WIDTHS: Final = {1: "unsigned8", 2: "linear16", 3: "linear24", 4: "linear32"}
"""The encoding of integer samples of so many bytes, as WAV files have them."""


class Mixer:
    """Makes one channel of several: their mean, or one of them alone.

    The two channels of a stereo sound may be the negative of each other: a cable or a plug was wired wrongly. Their
    mean is silence, so then the first is taken alone, until they agree again. That is found out in blocks of
    ``BLOCK`` frames, each of which decides for the next ones: nothing waits for it.
    """

    BLOCK: Final = 1024

    def __init__(self, channels: int, channel: int | None = None) -> None:
        """Make a mixer of so many channels. ``channel``: the only one that is taken, 0…"""
        self._channels, self._channel = channels, channel
        self._opposed = False
        self._held: list[Samples] = []
        """The part of a block that has come."""
        self._size = 0
        self.cancelled = 0
        """The number of frames of which one channel was taken because the two cancel each other."""

    def mix(self, frames: Samples) -> Samples:
        """Make float32 [n] of float32 [n, channels]."""
        if self._channel is not None:
            return frames[:, self._channel].copy()
        if self._channels == 1:
            return frames[:, 0].copy()
        if self._channels == 2:
            return self._stereo(frames)
        # The channels are added one by one: the order of a reduction, and so its rounding, may depend on the number of
        # frames.
        total = frames[:, 0].copy()
        for channel in range(1, self._channels):
            total += frames[:, channel]
        return total / np.float32(self._channels)

    def _stereo(self, frames: Samples) -> Samples:
        mixed = (frames[:, 0] + frames[:, 1]) / np.float32(2)
        at = 0
        while at < len(frames):
            end = min(at + self.BLOCK - self._size, len(frames))
            if self._opposed:
                mixed[at:end] = frames[at:end, 0]
                self.cancelled += end - at
            self._held.append(frames[at:end])
            self._size += end - at
            if self._size == self.BLOCK:
                self._look(np.concatenate(self._held))
                self._held, self._size = [], 0
            at = end
        if self._held:
            self._held = [np.concatenate(self._held)]
        return mixed

    def _look(self, block: Samples) -> None:
        """Look whether the channels of ``block`` cancel each other. The energy of the mean is then near 0; equal
        channels have a ratio of 2, unrelated ones of 1."""
        energy = float(np.square(block).sum())
        if energy > _FAINT * self.BLOCK:
            ratio = float(np.square(block[:, 0] + block[:, 1]).sum()) / energy
            self._opposed = ratio < (0.5 if self._opposed else 0.1)


class Resampler:
    """Makes samples of one rate those of another, by soxr (HQ); where the rates are equal it does nothing.

    It holds audio back (6 to 40 ms at 16 kHz and above, up to 115 ms at 8 kHz), and ``flush`` brings that out. soxr's
    float stream gives the same bits for every cut (tests/audio/test_pcm.py holds it to that).
    """

    def __init__(self, rate: int, target: int) -> None:
        """Make a resampler from ``rate`` to ``target``, both in Hz."""
        self._stream = None if rate == target else soxr.ResampleStream(rate, target, 1, dtype="float32", quality="HQ")

    def feed(self, mono: Samples) -> Samples:
        """The samples that ``mono`` completes."""
        return mono if self._stream is None else self._resampled(mono, last=False)

    def flush(self) -> Samples:
        """The samples that were held back. Nothing may be fed after it."""
        nothing = np.zeros(0, np.float32)
        return nothing if self._stream is None else self._resampled(nothing, last=True)

    def _resampled(self, mono: Samples, *, last: bool) -> Samples:
        assert self._stream is not None
        # The filter overshoots at steep edges, so what was within ±1 may lie beyond it.
        return np.clip(self._stream.resample_chunk(mono, last=last), np.float32(-1), np.float32(1))


class PcmDecoder:
    """Decodes raw audio: it takes the bytes of one stream and gives float32 mono samples at ``target_rate``.

    Channels are interleaved on the wire and mixed as :class:`Mixer` says. Float samples that are NaN or infinite become
    0, those beyond ±1 are clipped. The resampler is :class:`Resampler`.

    Args:
        encoding: one of ``ENCODINGS`` or ``WIDTHS``.
        sample_rate: of the wire, 8000…48000 Hz.
        channels: 1…8.
        target_rate: of the samples that come out, Hz.
        channel: take this one alone, 0…; None: the mean of all.

    Raises:
        FormatError: one of these lies outside its limits.
    """

    def __init__(
        self,
        encoding: str,
        sample_rate: int,
        channels: int = 1,
        target_rate: int = 16_000,
        channel: int | None = None,
    ) -> None:
        if encoding not in _ENCODINGS:
            raise FormatError("encoding", f"{encoding!r} is not one of {', '.join(ENCODINGS)}")
        if not MIN_RATE <= sample_rate <= MAX_RATE:
            raise FormatError("sample_rate", f"{sample_rate} Hz lies outside {MIN_RATE}…{MAX_RATE} Hz")
        if not 1 <= channels <= MAX_CHANNELS:
            raise FormatError("channels", f"{channels} lies outside 1…{MAX_CHANNELS}")
        width, self._expand = _ENCODINGS[encoding]
        self._channels, self._mixer = channels, Mixer(channels, channel)
        self.frame_bytes: Final = width * channels
        """Bytes of one sample of every channel."""
        self._held = b""
        self._resampler = Resampler(sample_rate, target_rate)
        self._finished = False

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame whose rest has not arrived; more than 0 at the end of a stream means that it was cut."""
        return len(self._held)

    def decode(self, data: bytes) -> Samples:
        """The samples that ``data``, of any length, completes: float32 [n], n may be 0.

        Raises:
            RuntimeError: the stream was flushed before.
        """
        if self._finished:
            raise RuntimeError("decode: the stream is flushed, a new stream needs a new decoder")
        data = self._held + data
        whole = len(data) - len(data) % self.frame_bytes
        self._held = data[whole:]
        frames = self._expand(data[:whole]).reshape(-1, self._channels)
        return self._resampler.feed(self._mixer.mix(frames))

    def flush(self) -> Samples:
        """End the stream: what the resampler held back, float32 [n]. An incomplete frame is dropped; idempotent."""
        done, self._finished, self._held = self._finished, True, b""
        return np.zeros(0, np.float32) if done else self._resampler.flush()
