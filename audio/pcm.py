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
MAX_RATE: Final = 48_000
MAX_CHANNELS: Final = 8


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
    """``samples`` with 0 where they are no number, and clipped to −1…1."""
    return np.clip(np.where(np.isfinite(samples), samples, np.float32(0)), np.float32(-1), np.float32(1))


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
"""Names of the encodings that go over the web; multi-byte ones are little endian."""
WIDTHS: Final = {1: "unsigned8", 2: "linear16", 3: "linear24", 4: "linear32"}
"""Bytes of an integer sample → its encoding, as in WAV files."""


class PcmDecoder:
    """Bytes of one stream in, float32 mono samples at ``target_rate`` out.

    Channels are interleaved on the wire and mixed down to their mean, or one of them is taken alone. Float samples that
    are NaN or infinite become 0, those beyond ±1 are clipped. The resampler is soxr's (HQ); it holds audio back (6 to
    40 ms at 16 kHz and above, up to 115 ms at 8 kHz), and ``flush`` brings that out. Where the rates are equal there is
    none.

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
        self._channels, self._channel = channels, channel
        self.frame_bytes: Final = width * channels
        """Of one sample of every channel."""
        self._held = b""
        # libsoxr's float stream gives the same bits for every cut (tests/audio/test_pcm.py holds it to that).
        self._resampler = (
            None
            if sample_rate == target_rate
            else soxr.ResampleStream(sample_rate, target_rate, 1, dtype="float32", quality="HQ")
        )
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
        mono = self._mix(self._expand(data[:whole]))
        return mono if self._resampler is None else self._resample(mono, last=False)

    def flush(self) -> Samples:
        """End the stream: what the resampler held back, float32 [n]. An incomplete frame is dropped; idempotent."""
        done, self._finished, self._held = self._finished, True, b""
        if done or self._resampler is None:
            return np.zeros(0, np.float32)
        return self._resample(np.zeros(0, np.float32), last=True)

    def _mix(self, interleaved: Samples) -> Samples:
        if self._channels == 1:
            return interleaved
        frames = interleaved.reshape(-1, self._channels)
        if self._channel is not None:
            return frames[:, self._channel].copy()
        # Channel after channel: a reduction's order, hence its rounding, may depend on the number of frames.
        total = frames[:, 0].copy()
        for channel in range(1, self._channels):
            total += frames[:, channel]
        return total / np.float32(self._channels)

    def _resample(self, mono: Samples, last: bool) -> Samples:
        assert self._resampler is not None
        # Band limiting overshoots at steep edges.
        return np.clip(self._resampler.resample_chunk(mono, last=last), np.float32(-1), np.float32(1))
