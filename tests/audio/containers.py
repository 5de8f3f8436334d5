"""Sound in every container that a browser or an SDK sends, made by FFmpeg as the bytes go out: it never goes back."""

import struct
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
import numpy.typing as npt

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "200000"}
KINDS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "webm": ("WebM", "webm", "libopus", {"live": "1"}),
    "ogg opus": ("Ogg", "ogg", "libopus", {"page_duration": "20000"}),
    "ogg flac": ("Ogg", "ogg", "flac", {}),
    "mp3": ("MP3", "mp3", "libmp3lame", {}),
    "flac": ("FLAC", "flac", "flac", {}),
    "wav": ("WAV", "wav", "pcm_s16le", {}),
    "wav of 24 bits": ("WAV", "wav", "pcm_s24le", {}),
    "mp4": ("MP4", "mp4", "aac", FRAGMENTS),
    "mp4 opus": ("MP4", "mp4", "libopus", FRAGMENTS),
    "aac": ("AAC", "adts", "aac", {}),
}
"""Name → what it is recognised as; FFmpeg's format, codec and options."""

_FRAME = 1 << 20
"""Samples; FFmpeg's allocations are bounded."""


class _Sink:
    """A file that cannot be sought in, as a socket."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def write(self, data: bytes) -> int:
        self.bytes += bytes(data)
        return len(data)


def contained(kind: str, pcm: npt.NDArray[np.int16], rate: int, channels: int = 1) -> bytes:
    """``pcm``, int16 [n, channels], in a container."""
    _, container, codec, options = KINDS[kind]
    out: Any = _Sink()
    layout = "mono" if channels == 1 else "stereo"
    with av.open(out, "w", format=container, options=options) as file:
        stream: Any = file.add_stream(codec, rate=rate, layout=layout)
        for at in range(0, len(pcm), _FRAME):
            plane = np.ascontiguousarray(pcm[at : at + _FRAME]).reshape(1, -1)
            frame: Any = av.AudioFrame.from_ndarray(plane, format="s16", layout=layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return bytes(out.bytes)


@cache
def tone(kind: str, rate: int = 48_000, channels: int = 1, seconds: float = 1.0) -> bytes:
    """A tone of 220 Hz that swells."""
    time = np.arange(int(seconds * rate)) / rate
    wave = 12_000 * np.sin(2 * np.pi * 220 * time) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))
    return contained(kind, np.repeat(wave.astype(np.int16)[:, None], channels, axis=1), rate, channels)


def boastful(count: int, fragments: int = 1) -> bytes:
    """An MP4 of a kilobyte whose fragments tell of ``count`` samples each, none of which it holds."""
    made = tone("mp4")
    at = made.index(b"moof") - 4
    number = made[at + 8 : at + 24]
    header = struct.pack(">I4s4I", 24, b"tfhd", 0x020018, 1, 1024, 1)  # of track 1: 1024 long and a byte each
    runs = struct.pack(">I4s2I", 16, b"trun", 0, count) * fragments
    track = struct.pack(">I4s", 8 + len(header) + len(runs), b"traf") + header + runs
    fragment = struct.pack(">I4s", 8 + len(number) + len(track), b"moof") + number + track
    return made[:at] + fragment + struct.pack(">I4s", 108, b"mdat") + bytes(100)
