"""What arrives on a live stream becomes samples: raw audio of a declared format, or a container that its first bytes
tell.

Contract of both: bytes in, float32 mono at one rate out, and the samples, taken together, depend on the bytes alone.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from audio.container import CONTAINERS, MAGIC_BYTES, ContainerDecoder, ContainerError, recognised
from audio.pcm import ENCODINGS, MAX_RATE, MIN_RATE, PcmDecoder, Samples, Shape
from audio.sound import Wanted, beyond
from audio.wav_header import RawAudio, WavHeader, begins_chunk

_BYTES_PER_SECOND: Final = 6_000
"""How many bytes are taken for a second of a container until its own rate shows: 48 kbit/s, a usual rate of speech."""
_LEAST_BYTES_PER_SECOND: Final = 1_000
"""The least that a container's rate is taken for. A lower rate so far means silence, and speech will need more."""


class Decoder(Protocol):
    """A decoder of one stream: it takes bytes and gives samples. :meth:`close` must be called."""

    exact: bool
    """Whether ``bytes_per_second`` is known from the format. Otherwise it is measured."""

    @property
    def bytes_per_second(self) -> float:
        """The number of bytes that make a second."""
        ...

    def pieces(self, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        """The samples that ``data`` brings, float32 [n] a piece, each made when it is asked for.

        Args:
            last: no more follows.

        Raises:
            DecodeError: these bytes are not what was declared, or damaged.
        """
        ...

    def warnings(self) -> list[str]:
        """What of the bytes was not heard, a sentence each; complete after the end."""
        ...

    def close(self) -> None:
        """Release what the decoder holds. May be called again."""
        ...


class RawDecoder:
    """A decoder of raw audio, perhaps behind a WAV header that says the same; it hears one ``channel``, or the mean of
    all.

    Raises:
        FormatError: the shape lies outside its limits.
    """

    exact = True

    def __init__(self, shape: Shape, target_rate: int, channel: int | None = None) -> None:
        self._raw, self._cut = RawAudio(shape), 0
        self._pcm = PcmDecoder(*shape, target_rate, channel)
        self.bytes_per_second: float = self._pcm.frame_bytes * shape.sample_rate

    def pieces(self, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        """See :class:`Decoder`."""
        yield self._pcm.decode(self._raw.strip(data) + (self._raw.rest() if last else b""))
        if last:
            self._cut = self._pcm.held_bytes
            yield self._pcm.flush()

    def warnings(self) -> list[str]:
        """See :class:`Decoder`."""
        found: list[str] = []
        if self._cut:
            found.append(f"the audio ended within a sample: {self._cut} bytes dropped")
        if self._raw.beyond >= 8 and not begins_chunk(self._raw.after):
            found.append(beyond(self._raw.beyond))
        return found

    def close(self) -> None:
        """See :class:`Decoder`."""


class ContainerStream:
    """A decoder of a container, which is recognised by its first bytes. ``most_seconds`` bounds what comes out of
    it."""

    exact = False

    def __init__(self, wanted: Wanted, most_seconds: float = float("inf")) -> None:
        self._wanted, self._target, self._most = wanted, wanted.rate, most_seconds
        self._held = b""
        self._inner: ContainerDecoder | RawDecoder | None = None
        self._bytes, self._samples = 0, 0

    @property
    def bytes_per_second(self) -> float:
        """See :class:`Decoder`."""
        if not self._samples:
            return _BYTES_PER_SECOND
        return max(self._bytes * self._target / self._samples, _LEAST_BYTES_PER_SECOND)

    def pieces(self, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        """See :class:`Decoder`; :class:`ContainerError` too where more than ``most_seconds`` come."""
        self._bytes += len(data)
        if self._inner is None:
            self._held += data
            self._inner = self._opened(last)
            if self._inner is None:
                return
            data, self._held = self._held, b""
        for piece in self._inner.pieces(data, last=last):
            self._samples += piece.size
            if self._samples > self._most * self._target:
                raise ContainerError(f"it holds more than {self._most:g} s of audio (max_session_seconds)")
            yield piece

    def warnings(self) -> list[str]:
        """See :class:`Decoder`."""
        return [] if self._inner is None else self._inner.warnings()

    def close(self) -> None:
        """See :class:`Decoder`."""
        if self._inner is not None:
            self._inner.close()

    def _opened(self, last: bool) -> "ContainerDecoder | RawDecoder | None":
        """The decoder for the bytes so far; None while too few of them are there to tell."""
        if len(self._held) < MAGIC_BYTES and not last:
            return None
        name = recognised(self._held)
        if name is None:
            if last and not self._held:
                return None
            known = ", ".join(CONTAINERS)
            raise ContainerError(f"this is none of {known}; raw audio needs encoding and sample_rate in the query")
        if name != "WAV" or not self._held.startswith(b"RIFF"):
            return ContainerDecoder(name, self._wanted)
        header = WavHeader.read(self._held)
        if header is None:
            if last:
                raise ContainerError("a WAV that ends within its header")
            return None
        # FFmpeg waits for 64 KiB of a WAV before it gives any sample; raw audio in a WAV has the same samples without
        # FFmpeg.
        shape = Shape(*header[2:])
        raw = shape.encoding in ENCODINGS and MIN_RATE <= shape.sample_rate <= MAX_RATE and shape.channels <= 2
        return RawDecoder(shape, self._target) if raw and shape.channels else ContainerDecoder(name, self._wanted)
