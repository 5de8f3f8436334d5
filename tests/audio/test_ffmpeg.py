"""What a small file makes FFmpeg, and libsndfile, compute and keep: nothing to speak of."""

import base64
import io
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from audio.container import ContainerError
from audio.ffmpeg import open_container
from audio.ogg import checksum
from audio.recording import RecordingError, samples
from audio.sound import Wanted
from audio.wire import ContainerStream
from tests.audio.containers import tone

RATE = 16_000
MANY = 60_000
"""Tags, for which FFmpeg takes ten seconds and more."""
VORBIS = base64.b64decode(
    "T2dnUwACAAAAAAAAAAABAAAAAAAAAJvZhL4BHgF2b3JiaXMAAAAAAYA+AAAAAAAAAAAAAAAAAACIAU9nZ1MAAAAAAAAAAAAAAQAAAAEAAADE"
    "vHTYARADdm9yYmlzAAAAAAAAAAABT2dnUwAAAAAAAAAAAAABAAAAAgAAADsxN1YBNQV2b3JiaXMAQkNWAQAAABAnAAAEAAAACAAAEAAAAAAA"
    "AAEAAAAAAAAAAAAAAAAAAAAAAACAT2dnUwAAAAAAAAAAAAABAAAAAwAAAGrtRq0BAQBPZ2dTAAQAAQAAAAAAAAEAAAAEAAAAA51+5QEBAA=="
)
"""A codebook of a million entries, told of in a few bits."""


def file(data: bytes) -> npt.NDArray[np.float32]:
    return np.concatenate(list(samples(io.BytesIO(data), RATE)))


def live(data: bytes) -> npt.NDArray[np.float32]:
    stream = ContainerStream(Wanted(RATE), 14_400)
    try:
        return np.concatenate([*stream.pieces(data), *stream.pieces(b"", last=True)])
    finally:
        stream.close()


Way = Callable[[bytes], npt.NDArray[np.float32]]
both = pytest.mark.parametrize("way", [file, live])


def _element(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">Q", 1 << 56 | len(content)) + content


def _webm_tags(count: int) -> bytes:
    """To stand before a cluster."""
    named = (_element(b"\x45\xa3", b"%x" % i) + _element(b"\x44\x87", b"a") for i in range(count))
    return _element(b"\x12\x54\xc3\x67", _element(b"\x73\x73", b"".join(_element(b"\x67\xc8", one) for one in named)))


def _id3(count: int) -> bytes:
    texts = (b"\0%x\0a" % i for i in range(count))
    frames = b"".join(b"TXXX" + struct.pack(">I", len(text)) + b"\0\0" + text for text in texts)
    size = bytes(len(frames) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\0\0" + size + frames


def _ogg_tags(count: int) -> bytes:
    """The head of an Ogg/Opus file: what follows does not matter."""
    first = tone("ogg opus")
    first = first[: 28 + first[27]]
    texts = (b"%x=a" % i for i in range(count))
    packet = b"OpusTags" + struct.pack("<II", 0, count) + b"".join(struct.pack("<I", len(t)) + t for t in texts)
    pages = [first]
    for at in range(0, len(packet), 255 * 255):
        body = packet[at : at + 255 * 255]
        lacing = bytes([255] * (len(body) // 255)) + (b"" if len(body) == 255 * 255 else bytes([len(body) % 255]))
        header = b"OggS\0" + bytes([at > 0]) + bytes(8) + first[14:18] + struct.pack("<I", len(pages)) + bytes(4)
        page = header + bytes([len(lacing)]) + lacing + body
        pages.append(page[:22] + struct.pack("<I", checksum(page)) + page[26:])
    return b"".join(pages)


def _flac(rate: int, size: int) -> tuple[bytes, bytes]:
    """Silence: what stands before its frames, and they."""
    made = io.BytesIO()
    soundfile.write(made, np.zeros(size, np.int16), rate, format="FLAC")
    data, at, last = made.getvalue(), 4, False
    while not last:
        last, at = bool(data[at] & 0x80), at + 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    return data[:at], data[at:]


def _aac_frame(rate: int) -> bytes:
    data = tone("aac", rate)
    return data[: (data[3] & 3) << 11 | data[4] << 3 | data[5] >> 5]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_codebook_that_boasts_does_not_end_the_process(hidden: bool) -> None:
    """libvorbis takes 8 bytes of stack for each entry. A page that readers pass over hides nothing."""
    page = tone("ogg opus")[:47]
    data = page[:22] + bytes(4) + page[26:] + VORBIS if hidden else VORBIS
    code = """
import io, sys
from audio.recording import RecordingError, samples
try:
    list(samples(io.BytesIO(sys.stdin.buffer.read()), 16_000))
except RecordingError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert (done.returncode, done.stdout.strip()) == (0, b"refused")


@both
@pytest.mark.parametrize("kind", ["webm", "mp3"])
def test_tags_that_nobody_needs_are_passed_over(kind: str, way: Way) -> None:
    plain = tone(kind)
    at = plain.index(b"\x1fC\xb6u") if kind == "webm" else 0
    tagged = plain[:at] + (_webm_tags(MANY) if kind == "webm" else _id3(1) + _id3(MANY)) + plain[at:]
    began = time.process_time()
    found = way(tagged)
    assert time.process_time() - began < 3
    np.testing.assert_array_equal(found, way(plain))


@both
@pytest.mark.parametrize("kind", ["flac", "wav", "ogg opus", "aac"])
def test_tags_of_mp3_may_stand_before_anything(kind: str, way: Way) -> None:
    """Some taggers write them there. libsndfile does not see Opus behind them, so FFmpeg decodes it."""
    plain = tone(kind)
    np.testing.assert_allclose(way(_id3(3) + plain), way(plain), atol=1e-4 if kind == "ogg opus" else 0)


@both
@pytest.mark.parametrize("junk", [b"LYRICSBEGIN" + bytes(range(32, 127)) * 5, _id3(200), b"\xff\xfb\xe0" * 1000])
def test_what_is_no_sound_in_an_mp3_is_left_out(junk: bytes, way: Way) -> None:
    """Between joined files, and at the end."""
    plain = tone("mp3")
    once, twice = way(plain).size, way(plain + junk + plain + junk).size
    assert abs(twice - 2 * once) < 0.2 * RATE


def test_an_mp4_with_a_film_is_heard_as_it_comes(tmp_path: Path) -> None:
    """Its index first: FFmpeg steps back in what it tells of the pictures."""
    path = tmp_path / "a.mp4"
    noise = np.random.default_rng(0).integers(0, 255, (96, 128, 3), np.uint8)
    with av.open(path, "w", format="mp4", options={"movflags": "faststart"}) as film:
        video: Any = film.add_stream("libx264", rate=25)
        video.width, video.height, video.pix_fmt = 128, 96, "yuv420p"
        sound: Any = film.add_stream("aac", rate=48_000, layout="mono")
        for i in range(25):
            picture = av.VideoFrame.from_ndarray(noise, format="rgb24")
            picture.pts, picture.time_base = i, Fraction(1, 25)
            film.mux(video.encode(picture))
            piece = av.AudioFrame.from_ndarray(np.full((1, 1920), i * 100, np.int16), format="s16", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 48_000, i * 1920, Fraction(1, 48_000)
            film.mux(sound.encode(piece))
        film.mux([*video.encode(None), *sound.encode(None)])
    data = path.read_bytes()
    np.testing.assert_array_equal(live(data), file(data))


@both
@pytest.mark.parametrize("kind", ["ogg", "aac"])
def test_of_too_many_other_tags_an_error_tells(kind: str, way: Way) -> None:
    frames = tone("aac")
    data = _ogg_tags(MANY) if kind == "ogg" else frames + _id3(MANY) + frames
    began = time.process_time()
    with pytest.raises((ContainerError, RecordingError), match="too many tags|damaged"):
        way(data)
    assert time.process_time() - began < 3


@both
def test_a_rate_below_every_recorder_is_no_audio(way: Way) -> None:
    """A FLAC of 2 KB would be nine hours."""
    with pytest.raises((ContainerError, RecordingError), match="rate of 16 Hz lies outside"):
        way(b"".join(_flac(16, 8 * 65535)))


@both
def test_a_rate_may_change_but_not_always(way: Way) -> None:
    """Each change costs a resampler."""
    pair = _aac_frame(48_000) + _aac_frame(44_100)
    assert way(10 * pair).size == pytest.approx(10 * (1024 / 48_000 + 1024 / 44_100) * RATE, rel=0.05)
    with pytest.raises((ContainerError, RecordingError), match="change more than 100 times"):
        way(500 * pair)


def test_pictures_are_not_decoded() -> None:
    made = io.BytesIO()
    with av.open(made, "w", format="matroska") as film:
        video: Any = film.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        frame = av.VideoFrame(64, 64, "yuv420p")
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        film.mux([*video.encode(frame), *video.encode(None)])
    made.seek(0)
    with open_container(made, "matroska") as container:
        assert container.streams.video[0].codec_context.pix_fmt is None
