"""Containers and compressed audio as they arrive: webm, Ogg, MP3, FLAC, WAV, MP4, AAC to samples, by FFmpeg (PyAV).

Contract: what a stream is shows in its first bytes (:func:`recognised`), and no other reader of FFmpeg is tried. The
samples that come out, taken together, depend on the bytes alone, never on where they were cut: FFmpeg is given them in
blocks of ``BLOCK_BYTES``. What a piece of bytes holds comes out in pieces of about ``PIECE_SECONDS``, each made when it
is asked for: a day of silence in a small file is never in memory at once.

FFmpeg pulls and audio is pushed, so a stream has a thread of its own for FFmpeg, which runs only while
:meth:`ContainerDecoder.pieces` waits for it.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from audio.ffmpeg import (
    TOO_LARGE,
    TOO_SLOW,
    Patience,
    Shapes,
    Unfit,
    decoded,
    id3_bytes,
    layout_of,
    opened,
    reason,
)
from audio.pcm import MAX_CHANNELS, MAX_RATE, MIN_RATE, DecodeError, PcmDecoder, Samples

BLOCK_BYTES: Final = 256
"""What FFmpeg reads at once; at 24 kbit/s a block is 85 ms."""
PIECE_SECONDS: Final = 0.25
MAGIC_BYTES: Final = 12
"""So many of the first bytes tell what a stream is."""
_INDEX_BYTES: Final = 1 << 16
"""An MP4's index stands no further behind its beginning than this, and FFmpeg reads so much of it at once."""

READERS: Final = {
    "WebM": "matroska", "Ogg": "ogg", "MP3": "mp3", "FLAC": "flac", "WAV": "wav", "MP4": "mov", "AAC": "aac",
}  # fmt: skip
"""What streams may be, and FFmpeg's reader of each."""
CONTAINERS: Final = tuple(READERS)
_MAGIC: Final = (
    (0, b"\x1aE\xdf\xa3", "WebM"), (0, b"OggS", "Ogg"), (0, b"fLaC", "FLAC"),
    (0, b"ID3\x02", "MP3"), (0, b"ID3\x03", "MP3"), (0, b"ID3\x04", "MP3"),
    (4, b"ftyp", "MP4"), (4, b"styp", "MP4"), (4, b"moof", "MP4"), (8, b"WAVE", "WAV"),
)  # fmt: skip


class ContainerError(DecodeError):
    """The bytes cannot be decoded; the message says why."""


def recognised(first: bytes, *, sure: bool = False) -> str | None:
    """Which of ``CONTAINERS`` begins with these bytes, ``MAGIC_BYTES`` or more of them; None: none of them.

    Args:
        sure: count only what raw audio hardly ever begins with; frames of MPEG audio have no other mark than 11 bits.
    """
    for at, magic, name in _MAGIC:
        if first.startswith(magic, at) and (name != "WAV" or first.startswith(b"RIFF")):
            return name
    if sure or len(first) < 4 or first[0] != 0xFF:
        return None
    if first[1] & 0xF6 == 0xF0:
        return "AAC"
    version, layer, bit_rate, rate = first[1] & 0x18, first[1] & 0x06, first[2] & 0xF0, first[2] & 0x0C
    sound = first[1] & 0xE0 == 0xE0 and version != 0x08 and layer != 0
    return "MP3" if sound and bit_rate not in (0x00, 0xF0) and rate != 0x0C else None


class ContainerDecoder:
    """Bytes of one stream in, float32 mono samples at ``target_rate`` out. :meth:`close` is a must.

    Args:
        name: of ``CONTAINERS``.
        target_rate: Hz.
    """

    def __init__(self, name: str, target_rate: int) -> None:
        self._name, self._target = name, target_rate
        self._turn = threading.Condition()
        self._running = False
        """Whether it is the thread's turn."""
        self._thread: threading.Thread | None = None
        self._bytes = bytearray()
        """Not read by FFmpeg yet."""
        self._last = False
        self._left = False
        self._made: list[Samples] = []
        self._made_size = 0
        self._done = False
        self._fault: ContainerError | None = None
        self._patience = Patience(READERS[name])
        """With FFmpeg's thread, which begins it anew."""
        self._index = 0
        """Bytes of an MP4 up to the end of its index, as far as FFmpeg has not read them."""
        self.damaged = 0
        """Packets that could not be decoded and were left out."""

    def pieces(self, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        """The samples that ``data`` brings, float32 [n] a piece, each made when it is asked for.

        Args:
            last: no more follows.

        Raises:
            ContainerError: the bytes cannot be decoded. What was decoded before has come out.
        """
        self._bytes += data
        self._last = last
        while not self._done:
            self._run()
            if not self._made:
                break
            yield self._taken()
        if self._made:
            yield self._taken()
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def close(self) -> None:
        """Let everything go. Idempotent."""
        self._left = True
        if self._thread is not None and not self._done:
            self._run()
        if self._thread is not None:
            self._thread.join()

    def _taken(self) -> Samples:
        made, self._made, self._made_size = self._made, [], 0
        return np.concatenate(made)

    # ------------------------------------------------------------------------------------------ the caller's side

    def _run(self) -> None:
        """Let FFmpeg go on until a piece is made, bytes are wanted, or it is done."""
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="hearsay-container", daemon=True)
                self._thread.start()
            self._running = True
            self._turn.notify_all()
            while self._running:
                self._turn.wait()

    # ---------------------------------------------------------------------------------------- FFmpeg's side

    def _pause(self) -> None:
        """Let the caller go on until it wants more."""
        with self._turn:
            self._running = False
            self._turn.notify_all()
            while not self._running:
                self._turn.wait()

    def read(self, size: int) -> bytes:
        """For FFmpeg: the next block, the rest of the last one, or nothing at the end. Waits for bytes."""
        # FFmpeg steps back in an index, which it cannot behind what it read last.
        size = min(size, self._index or BLOCK_BYTES)
        ahead = self._patience.ahead
        self._wait(size + ahead)
        block = self._patience.shown(bytes(self._bytes[:size]), bytes(self._bytes[size : size + ahead]))
        if self._left or self._patience.over:  # an exception would make some readers of FFmpeg try again
            return b""
        del self._bytes[:size]
        self._index = max(self._index - size, 0)
        return block

    def _wait(self, size: int) -> None:
        """Until so many bytes are there, or no more will be."""
        while len(self._bytes) < size and not self._last and not self._left:
            self._pause()

    def _behind_tags(self) -> str:
        """Pass over the ID3 tags that it begins with; which of ``CONTAINERS`` stands behind them."""
        self._wait(MAGIC_BYTES)
        while tag := id3_bytes(bytes(self._bytes[:MAGIC_BYTES])):
            while tag and (passed := min(tag, len(self._bytes))):
                del self._bytes[:passed]
                tag -= passed
                self._wait(min(tag, BLOCK_BYTES))
            self._wait(MAGIC_BYTES)
        return recognised(bytes(self._bytes[:MAGIC_BYTES])) or self._name

    def _index_bytes(self) -> int:
        """Of an MP4 up to the end of its index; 0: its sound stands first."""
        at = 0
        while at < _INDEX_BYTES:
            self._wait(at + 8)
            size, kind = int.from_bytes(self._bytes[at : at + 4]), bytes(self._bytes[at + 4 : at + 8])
            if kind == b"moov":
                return at + size
            if size < 8 or kind in (b"mdat", b"moof"):
                break
            at += size
        return 0

    def _main(self) -> None:
        with self._turn:
            while not self._running:
                self._turn.wait()
        indexed = False
        try:
            self._name = self._behind_tags()
            self._patience = Patience(READERS[self._name])
            if self._name == "MP4":
                self._index = self._index_bytes()
                indexed = self._index > 0
            if not self._left:
                self._decode()
        except Unfit as error:
            self._fault = ContainerError(str(error))
        except ContainerError as error:
            self._fault = error
        except EOFError:
            self._fault = ContainerError("it ends before any audio")
        except MemoryError:
            self._fault = ContainerError(TOO_LARGE)
        except Exception as error:  # PyAV's, FFmpeg's
            hint = "; an MP4 is heard as it comes if its index stands first, or in fragments"
            told = f"it is damaged: {reason(error)}"
            self._fault = ContainerError(told + (hint if self._name == "MP4" and not indexed else ""))
        finally:
            if self._patience.over:
                self._fault = ContainerError(TOO_SLOW)
            with self._turn:
                self._done, self._running = True, False
                self._turn.notify_all()

    def _decode(self) -> None:
        options = {"probesize": "32", "analyzeduration": "0", "max_probe_packets": "1"}
        size = _INDEX_BYTES if self._name == "MP4" else BLOCK_BYTES
        with opened(self, READERS[self._name], buffer_size=size, options=options) as container:
            if not container.streams.audio:
                raise ContainerError("it holds no audio")
            stream = container.streams.audio[0]
            stream.codec_context.thread_count = 1
            sink = _Sink(self._target, self._put)
            heard = False
            for frame in decoded(container, stream, self._leave_out):
                if self._left:
                    return
                heard = True
                sink.feed(frame)
            sink.flush()
            if not heard:
                raise ContainerError("no audio could be decoded")

    def _leave_out(self) -> None:
        self.damaged += 1

    def _put(self, samples: Samples) -> None:
        self._patience.renew()
        if samples.size:
            self._made.append(samples)
            self._made_size += samples.size
            if self._made_size >= PIECE_SECONDS * self._target and not self._left:
                self._pause()


class _Sink:
    """Frames of FFmpeg to samples: 16 bits, as files are heard, then mixed and resampled as raw audio is."""

    def __init__(self, target: int, put: Callable[[Samples], None]) -> None:
        self._target, self._put = target, put
        self._shapes = Shapes()
        self._resampler: Any = None
        self._pcm: PcmDecoder | None = None
        self._channels = 1

    def feed(self, frame: Any) -> None:
        if self._shapes.changed(frame):
            self.flush()
            self._open(frame, len(frame.layout.channels))
        for out in self._resampler.resample(frame):
            self._take(out)

    def flush(self) -> None:
        """Bring out what the resamplers hold."""
        if self._pcm is not None:
            for out in self._resampler.resample(None):
                self._take(out)
            self._put(self._pcm.flush())
            self._pcm = None

    def _open(self, frame: Any, channels: int) -> None:
        import av

        if not 0 < channels <= MAX_CHANNELS:
            raise ContainerError(f"it has {channels} channels, the limit is {MAX_CHANNELS}")
        self._channels = channels
        rate = min(max(frame.sample_rate, MIN_RATE), MAX_RATE)
        self._resampler = av.AudioResampler(format="s16", layout=layout_of(frame, channels), rate=rate)
        self._pcm = PcmDecoder("linear16", rate, channels, self._target)

    def _take(self, frame: Any) -> None:
        assert self._pcm is not None
        # The plane may be padded beyond the samples.
        self._put(self._pcm.decode(bytes(frame.planes[0])[: frame.samples * self._channels * 2]))
