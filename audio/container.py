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

from audio.ffmpeg import AHEAD, ID3_BYTES, TOO_LARGE, TOO_SLOW, Patience, Shapes, Unfit, id3_bytes, opened
from audio.pcm import MAX_CHANNELS, MAX_RATE, MIN_RATE, DecodeError, PcmDecoder, Samples

BLOCK_BYTES: Final = 256
"""What FFmpeg reads at once; at 24 kbit/s a block is 85 ms."""
PIECE_SECONDS: Final = 0.25
MAGIC_BYTES: Final = 12
"""So many of the first bytes tell what a stream is."""
DAMAGED_PACKETS: Final = 100
"""So many packets in a row that cannot be decoded end a stream."""

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
        self._reader, self._target = READERS[name], target_rate
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
        self._patience = Patience(self._reader)
        """With FFmpeg's thread."""
        self._ahead = AHEAD if name == "WebM" else 0
        self._passed_over: int | None = None if name == "MP3" else 0
        """Bytes of a tag at the beginning that are left; None: it has not begun."""
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
        size = min(size, BLOCK_BYTES)
        if self._passed_over is None:
            self._wait(ID3_BYTES)
            self._passed_over = id3_bytes(bytes(self._bytes[:ID3_BYTES]))
        while self._passed_over:
            self._wait(min(self._passed_over, size))
            passed = min(self._passed_over, len(self._bytes))
            if not passed:
                break
            del self._bytes[:passed]
            self._passed_over -= passed
        self._wait(size + self._ahead)
        block = self._patience.shown(bytes(self._bytes[:size]), bytes(self._bytes[size : size + self._ahead]))
        if self._left or self._patience.over:  # an exception would make some readers of FFmpeg try again
            return b""
        del self._bytes[:size]
        return block

    def _wait(self, size: int) -> None:
        """Until so many bytes are there, or no more will be."""
        while len(self._bytes) < size and not self._last and not self._left:
            self._pause()

    def _main(self) -> None:
        with self._turn:
            while not self._running:
                self._turn.wait()
        self._patience.renew()
        try:
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
            reason = f"it is damaged: {getattr(error, 'strerror', None) or error}"
            self._fault = ContainerError(reason + (hint if self._reader == READERS["MP4"] else ""))
        finally:
            if self._patience.over:
                self._fault = ContainerError(TOO_SLOW)
            with self._turn:
                self._done, self._running = True, False
                self._turn.notify_all()

    def _decode(self) -> None:
        import av.error

        options = {"probesize": "32", "analyzeduration": "0", "max_probe_packets": "1"}
        with opened(self, self._reader, buffer_size=BLOCK_BYTES, options=options) as container:
            if not container.streams.audio:
                raise ContainerError("it holds no audio")
            stream = container.streams.audio[0]
            stream.codec_context.thread_count = 1
            sink = _Sink(self._target, self._put)
            heard, bad = False, 0
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    self.damaged, bad = self.damaged + 1, bad + 1
                    if bad >= DAMAGED_PACKETS:
                        raise ContainerError(f"it is damaged: {bad} packets in a row cannot be decoded") from None
                    continue
                if self._left:
                    return
                for frame in frames:
                    heard, bad = True, 0
                    sink.feed(frame)
            sink.flush()
            if not heard:
                raise ContainerError("no audio could be decoded")

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
            self._open(frame.sample_rate, len(frame.layout.channels))
        for out in self._resampler.resample(frame):
            self._take(out)

    def flush(self) -> None:
        """Bring out what the resamplers hold."""
        if self._pcm is not None:
            for out in self._resampler.resample(None):
                self._take(out)
            self._put(self._pcm.flush())
            self._pcm = None

    def _open(self, sample_rate: int, channels: int) -> None:
        import av

        if not 0 < channels <= MAX_CHANNELS:
            raise ContainerError(f"it has {channels} channels, the limit is {MAX_CHANNELS}")
        self._channels = channels if channels <= 2 else 1
        rate = min(max(sample_rate, MIN_RATE), MAX_RATE)
        layout = "mono" if self._channels == 1 else "stereo"
        self._resampler = av.AudioResampler(format="s16", layout=layout, rate=rate)
        self._pcm = PcmDecoder("linear16", rate, self._channels, self._target)

    def _take(self, frame: Any) -> None:
        assert self._pcm is not None
        # The plane may be padded beyond the samples.
        self._put(self._pcm.decode(bytes(frame.planes[0])[: frame.samples * self._channels * 2]))
