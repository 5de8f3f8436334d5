"""Sound in every container that a browser or an SDK sends, made by FFmpeg as the bytes go out: it never goes back."""

import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
import numpy.typing as npt

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "200000"}


@dataclass(frozen=True, slots=True)
class Kind:
    """How FFmpeg makes a container.

    Attributes:
        name: what it is recognised as.
        format, codec, options: FFmpeg's.
        streamed: written without going back, as a browser does.
        stamped: its packets have time stamps: it can begin late, and have holes.
        layouts: most channels of its codec.
        rate: the only one that its codec has, else 0.
        tracks: it can hold several.
    """

    name: str
    format: str
    codec: str
    options: dict[str, str] = field(default_factory=dict[str, str])
    streamed: bool = True
    stamped: bool = False
    channels: int = 6
    rate: int = 0
    tracks: bool = False
    live: bool = True
    """It can be heard as it comes."""

    def takes(self, channels: int) -> bool:
        """Whether its codec has so many channels."""
        return channels <= self.channels


_KNOWN: dict[str, Kind] = {
    "webm": Kind("WebM", "webm", "libopus", {"live": "1"}, stamped=True, tracks=True),
    "ogg opus": Kind("Ogg", "ogg", "libopus", {"page_duration": "20000"}, stamped=True),
    "ogg flac": Kind("Ogg", "ogg", "flac", {"page_duration": "20000"}, stamped=True),
    "mp3": Kind("MP3", "mp3", "libmp3lame", channels=2),
    "flac": Kind("FLAC", "flac", "flac"),
    "wav": Kind("WAV", "wav", "pcm_s16le"),
    "wav of 24 bits": Kind("WAV", "wav", "pcm_s24le"),
    "mp4": Kind("MP4", "mp4", "aac", FRAGMENTS, stamped=True, tracks=True),
    "mp4 opus": Kind("MP4", "mp4", "libopus", FRAGMENTS, stamped=True, tracks=True),
    "aac": Kind("AAC", "adts", "aac"),
    "mka": Kind("WebM", "matroska", "flac", streamed=False, stamped=True, tracks=True),
    "m4a": Kind("MP4", "ipod", "aac", {"movflags": "faststart"}, streamed=False, stamped=True, tracks=True),
    "mov": Kind("MP4", "mov", "alac", {"movflags": "faststart"}, streamed=False, stamped=True, channels=2, tracks=True),
    "3gp": Kind("MP4", "3gp", "libopencore_amrnb", FRAGMENTS, stamped=True, channels=1, rate=8_000),
    "amr": Kind("AMR", "amr", "libopencore_amrnb", channels=1, rate=8_000),
    "caf": Kind("CAF", "caf", "pcm_s16le", streamed=False),
    "caf alac": Kind("CAF", "caf", "alac", streamed=False, channels=2, live=False),
    "aiff": Kind("AIFF", "aiff", "pcm_s16be", streamed=False),
    "au": Kind("AU", "au", "pcm_s16be"),
    "mpeg-ts": Kind("MPEG-TS", "mpegts", "aac", stamped=True, tracks=True),
    "mpeg-ts mp2": Kind("MPEG-TS", "mpegts", "mp2", stamped=True, channels=2, tracks=True),
    "avi": Kind("AVI", "avi", "libmp3lame", streamed=False, channels=2, tracks=True),
    "wma": Kind("WMA", "asf", "wmav2", streamed=False, stamped=True, channels=2, rate=44_100, tracks=True),
    "w64": Kind("W64", "w64", "pcm_s16le", streamed=False),
    "rf64": Kind("WAV", "wav", "pcm_s16le", {"rf64": "always"}, streamed=False),
    "wav of floats": Kind("WAV", "wav", "pcm_f32le"),
    "wav mu-law": Kind("WAV", "wav", "pcm_mulaw"),
    "wav a-law": Kind("WAV", "wav", "pcm_alaw"),
    "mp4, index last": Kind("MP4", "mp4", "aac", streamed=False, stamped=True, tracks=True, live=False),
}
KINDS = {name: kind for name, kind in _KNOWN.items() if kind.codec in av.codecs_available}
"""What a phone, a recorder, a browser or an SDK sends. PyAV 19 reads AMR and cannot write it."""

_FRAME = 1 << 20
"""Samples; FFmpeg's allocations are bounded."""
Pcm = npt.NDArray[np.int16]


class _Sink:
    """A file that cannot be sought in, as a socket."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def write(self, data: bytes) -> int:
        self.bytes += bytes(data)
        return len(data)

    def getvalue(self) -> bytes:
        return bytes(self.bytes)


def contained(kind: str, pcm: Pcm, rate: int, channels: int = 1) -> bytes:
    """``pcm``, int16 [n, channels], in a container."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    return several(kind, [pcm.reshape(-1, channels)], rate, layout)


def several(
    kind: str,
    tracks: Sequence[Pcm],
    rate: int,
    layout: str = "mono",
    *,
    late: Callable[[float], float] = lambda at: 0.0,
    default: int | None = None,
) -> bytes:
    """A container of several tracks, int16 [n, channels] at ``rate``.

    Args:
        late: seconds by which a packet's time stamp is later than its place in the sound.
        default: place of the track that is flagged, None: as FFmpeg does.
    """
    how = KINDS[kind]
    out: Any = _Sink() if how.streamed else TemporaryDirectory()
    with ExitStack() as stack:
        path = None if how.streamed else Path(stack.enter_context(out)) / "made"
        _write(path or out, how, tracks, rate, layout, late, default)
        return out.getvalue() if path is None else path.read_bytes()


def _write(
    out: Any,
    how: Kind,
    tracks: Sequence[Pcm],
    rate: int,
    layout: str,
    late: Callable[[float], float],
    default: int | None,
) -> None:
    with av.open(out, "w", format=how.format, options=how.options) as file:
        streams: list[Any] = [file.add_stream(how.codec, rate=rate, layout=layout) for _ in tracks]
        for stream in streams if how.codec == "wmav2" else ():
            stream.bit_rate = 64_000
        if default is not None:
            for place, stream in enumerate(streams):
                flags = type(stream.disposition)
                stream.disposition = flags.default if place == default else flags(0)
        packets: list[Any] = []
        for stream, pcm in zip(streams, tracks, strict=True):
            for at in range(0, len(pcm), _FRAME):
                plane = np.ascontiguousarray(pcm[at : at + _FRAME]).reshape(1, -1)
                frame: Any = av.AudioFrame.from_ndarray(plane, format="s16", layout=layout)
                frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
                packets += stream.encode(frame)
            packets += stream.encode(None)
        for packet in packets:
            if packet.dts is None:
                continue
            shift = round(late(float(packet.pts * packet.time_base)) / packet.time_base)
            packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
        file.mux(sorted(packets, key=lambda packet: float((packet.dts or 0) * packet.time_base)))


@cache
def tone(kind: str, rate: int = 48_000, channels: int = 1, seconds: float = 1.0) -> bytes:
    """A tone of 220 Hz that swells."""
    rate = KINDS[kind].rate or rate
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
