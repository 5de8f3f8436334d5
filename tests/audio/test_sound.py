"""The sound of a container: at its time, from the right track, mixed so that it is heard, the same by every door."""

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.pcm import Mixer, PcmDecoder
from audio.recording import RecordingError, samples
from audio.sound import MOST_HOLE_SECONDS, MOST_SILENT_SHARE, Notes, Wanted
from audio.wire import ContainerStream
from tests.audio.containers import KINDS, contained, several
from tests.clips import DATA, read_clip

RATE = 16_000
BEEPS = Path(__file__).parent / "beeps.amr"
"""AMR of ``several("amr", [beeps(8_000, 0.5, 2.0)], 8_000)`` by PyAV 18; PyAV 19 reads AMR and cannot write it."""
LIVE = [kind for kind, how in KINDS.items() if how.live]
Wave = npt.NDArray[np.float32]
Pcm = npt.NDArray[np.int16]
Door = Callable[[bytes], tuple[Wave, list[str]]]


def file(data: bytes) -> tuple[Wave, list[str]]:
    """As an upload: its samples and warnings."""
    notes = Notes()
    return np.concatenate(list(samples(io.BytesIO(data), Wanted(RATE), notes=notes))), notes.warnings()


def live(data: bytes, cuts: Sequence[int] = ()) -> tuple[Wave, list[str]]:
    """As it comes, cut at ``cuts``."""
    stream = ContainerStream(Wanted(RATE))
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        found = [piece for a, b in zip(edges, edges[1:], strict=False) for piece in stream.pieces(data[a:b])]
        found += stream.pieces(b"", last=True)
    finally:
        stream.close()
    return np.concatenate([*found, np.zeros(0, np.float32)]), stream.warnings()


def doors(kind: str) -> list[Door]:
    """By which a container of the kind can come."""
    return [file, live] if KINDS[kind].live else [file]


def beeps(rate: int, *starts: float, seconds: float = 3.0) -> Pcm:
    """Silence with a tone of 0.2 s at each of ``starts``: int16 [n, 1]."""
    wave = np.zeros(int(seconds * rate), np.float32)
    for start in starts:
        at, size = int(start * rate), int(0.2 * rate)
        wave[at : at + size] = 0.5 * np.sin(2 * np.pi * 440 * np.arange(size) / rate)
    return (wave * 32767).astype(np.int16)[:, None]


def onsets(wave: Wave) -> list[float]:
    """Seconds at which sound begins after silence."""
    loud = np.flatnonzero(np.abs(wave) > 0.1)
    return [float(at) / RATE for at in loud[np.diff(loud, prepend=-RATE) > RATE // 10]]


@pytest.mark.parametrize("kind", ["as it is", *LIVE])
@given(clip=st.sampled_from(sorted(path.name for path in (DATA / "clips").glob("*.opus"))), data=st.data())
@settings(max_examples=4)
def test_every_door_and_every_cut_gives_the_same_samples(kind: str, clip: str, data: st.DataObject) -> None:
    """Of a recording in any container, bit for bit, also byte by byte at the beginning; of its own bytes too."""
    content = (DATA / "clips" / clip).read_bytes()
    if kind != "as it is":
        rate = KINDS[kind].rate or data.draw(st.sampled_from([16_000, 44_100 if "opus" not in kind else 48_000]))
        rate = 48_000 if kind == "webm" else rate
        wave = read_clip(DATA / "clips" / clip).samples[: 4 * RATE]
        wave = np.clip(wave if rate == RATE else soxr.resample(wave, RATE, rate), -1, 1)
        content = contained(kind, (wave * 32767).astype(np.int16), rate)
    whole, warnings = file(content)
    assert whole.size and not warnings
    cuts = data.draw(st.lists(st.integers(0, 1 << 20), max_size=20))
    np.testing.assert_array_equal(live(content, [*cuts, *range(40)])[0], whole)


@pytest.mark.parametrize("form", ["matroska", "mp4", "mpegts"])
def test_the_sound_of_a_film_is_placed_by_the_film(form: str, tmp_path: Path) -> None:
    """Pictures from the first moment on, sound five seconds later; where a broadcast's clock stands does not matter."""
    path = tmp_path / "film"
    with av.open(path, "w", format=form, options={"movflags": "faststart"} if form == "mp4" else {}) as film:
        video: Any = film.add_stream("mpeg4", rate=5)
        video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        sound: Any = film.add_stream("aac", rate=48_000, layout="mono")
        packets: list[Any] = []
        for number in range(5 * 8):
            picture = av.VideoFrame(64, 64, "yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, 5)
            packets += video.encode(picture)
        frame: Any = av.AudioFrame.from_ndarray(beeps(48_000, 0.5).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        for packet in [*sound.encode(frame), *sound.encode(None)]:
            packet.pts, packet.dts = packet.pts + 5 * 48_000, packet.dts + 5 * 48_000
            packets.append(packet)
        packets += video.encode(None)
        film.mux(sorted((p for p in packets if p.dts is not None), key=lambda p: float(p.dts * p.time_base)))
    for door in (file, live):
        assert onsets(door(path.read_bytes())[0]) == pytest.approx([5.5], abs=0.1)


@pytest.mark.parametrize("kind", ["mka", "webm"])
def test_time_stamps_that_cannot_be_meant_are_not_followed(kind: str) -> None:
    """A hole of hours is closed, and told of; where they go back another recording was joined."""
    far = several(kind, [beeps(48_000, 0.5, 2.0)], 48_000, late=lambda at: 40_000.0 if at > 1.2 else 0.0)
    begun = several(kind, [beeps(48_000, 0.5)], 48_000, late=lambda at: 40_000.0)
    twice = 2 * several(kind, [beeps(48_000, 0.5)], 48_000)
    for door in (file, live):
        wave, warnings = door(far)
        assert onsets(wave) == pytest.approx([0.5, 2.0], abs=0.06)
        assert len(warnings) == 1
        assert warnings[0].startswith(f"1 holes between time stamps were closed: longer than {MOST_HOLE_SECONDS:g} s")
        assert onsets(door(begun)[0]) == pytest.approx([0.5], abs=0.06)
        assert onsets(door(twice)[0]) == pytest.approx([0.5, 3.5], abs=0.06)


def test_a_small_file_cannot_claim_days_of_silence() -> None:
    """Three seconds of sound whose time stamps leap by 500 s thirty times: the first hole is kept, and there are no
    more once they cannot be meant."""
    gaps = several("mka", [beeps(RATE, 0.05)], RATE, late=lambda at: 500.0 * int(at / 0.1))
    for door in (file, live):
        wave, warnings = door(gaps)
        assert 500 < wave.size / RATE <= MOST_HOLE_SECONDS + (MOST_SILENT_SHARE + 1) * 3
        assert ["filled" in warnings[0], "closed" in warnings[-1], len(warnings)] == [True, True, 2]


@pytest.mark.parametrize("kind", [kind for kind, how in KINDS.items() if how.channels >= 2])
def test_stereo_whose_channels_cancel_each_other_is_heard(kind: str) -> None:
    rate = KINDS[kind].rate or 48_000
    one = beeps(rate, 0.5, 1.5)
    data = several(kind, [np.concatenate([one, -one], axis=1)], rate, "stereo")
    for door in doors(kind):
        wave, warnings = door(data)
        assert onsets(wave) == pytest.approx([0.5, 1.5], abs=0.1)
        assert np.abs(wave).max() > 0.4
        assert any("cancel each other" in warning for warning in warnings) or KINDS[kind].format == "wav"


@given(st.lists(st.integers(0, 30_000), max_size=12))
@settings(max_examples=20)
def test_what_is_mixed_does_not_depend_on_cuts(cuts: list[int]) -> None:
    """Opposed, then equal, then unlike channels."""
    rng = np.random.default_rng(4)
    one, other = (rng.normal(0, 0.1, 10_000).astype(np.float32) for _ in range(2))
    frames = np.stack([np.concatenate([one, one, one]), np.concatenate([-one, one, other])], axis=1)

    def mixed(edges: list[int]) -> tuple[Wave, int]:
        mixer = Mixer(2)
        return np.concatenate([mixer.mix(part) for part in np.split(frames, sorted(edges))]), mixer.cancelled

    wave, cancelled = mixed([])
    np.testing.assert_array_equal(wave[Mixer.BLOCK : 10_000], one[Mixer.BLOCK :])
    np.testing.assert_array_equal(wave[12_000:20_000], one[2_000:])
    assert 9_000 < cancelled < 12_000
    again, count = mixed(cuts)
    np.testing.assert_array_equal(again, wave)
    assert count == cancelled


def test_raw_stereo_that_cancels_is_heard_as_well() -> None:
    """It is the same wire or plug."""
    one = beeps(RATE, 0.5)
    pcm = np.concatenate([one, -one], axis=1).astype("<i2").tobytes()
    assert onsets(PcmDecoder("linear16", RATE, 2).decode(pcm)) == pytest.approx([0.5], abs=0.1)


def test_comfort_noise_of_a_telephone_is_silence(tmp_path: Path) -> None:
    """Its frames, which FFmpeg does not decode, keep their length: 160 frames of 20 ms between two sounds."""
    made = BEEPS.read_bytes()
    header, speech = made[:6], made[6:]
    size = (13, 14, 16, 18, 20, 21, 27, 32)[speech[0] >> 3 & 15]
    frames = [speech[at : at + size] for at in range(0, len(speech), size)]
    noise = [bytes([8 << 3 | 4]) + bytes(5), *7 * [bytes([15 << 3 | 4])]] * 20
    data = header + b"".join([*frames[:60], *noise, *frames[60:]])
    for door in (file, live):
        wave, warnings = door(data)
        assert onsets(wave) == pytest.approx([0.5, 2.0 + 160 * 0.02], abs=0.06)
        assert warnings == ["3.20 s of comfort noise were heard as silence"]


@pytest.mark.parametrize("kind", ["webm", "mka", "ogg opus", "mp3", "m4a", "mpeg-ts"])
def test_a_damaged_stretch_keeps_its_length(kind: str) -> None:
    """What comes after it stays at its time; that something is missing is told where FFmpeg notices."""
    sound = beeps(48_000, 0.5, 3.0, seconds=4.0) + np.random.default_rng(5).integers(-300, 300, (4 * 48_000, 1))
    data = bytearray(several(kind, [sound.astype(np.int16)], 48_000))
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(300)
    for door in (file, live):
        assert onsets(door(bytes(data))[0])[-1] == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("kind", "junk"), [("m4a", b"\0"), ("mov", b"\x60")])
def test_a_long_damaged_stretch_costs_no_more_than_itself(kind: str, junk: bytes) -> None:
    """A third of the file: of AAC more packets than a stream may begin with in vain; ALAC takes it for a new format."""
    sound = beeps(48_000, 0.5, 9.0, seconds=10.0) + np.random.default_rng(5).integers(-300, 300, (480_000, 1))
    data = bytearray(several(kind, [sound.astype(np.int16)], 48_000))
    third = len(data) // 3
    data[third : 2 * third] = junk * third
    for door in (file, live):
        wave, warnings = door(bytes(data))
        assert onsets(wave)[-1] == pytest.approx(9.0, abs=0.1)
        assert "damaged packets of the audio were left out" in warnings[0], warnings


def test_an_mp4_whose_sound_lies_in_another_file_is_told_so() -> None:
    """It names the file, which is not opened."""
    data = several("m4a", [beeps(48_000, 0.5)], 48_000)
    inside = struct.pack(">I4sI", 12, b"url ", 1)
    assert data.count(inside) == 1
    place = b"file:///etc/hostname\0"
    outside = struct.pack(">I4sI", 12 + len(place), b"url ", 0) + place
    grown = data.replace(inside, outside)
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        at = grown.index(name) - 4
        size = int.from_bytes(grown[at : at + 4], "big") + len(place)
        grown = grown[:at] + size.to_bytes(4, "big") + grown[at + 4 :]
    for door in (file, live):
        with pytest.raises((RecordingError, ValueError), match="another file"):
            door(grown)


@pytest.mark.parametrize("kind", ["webm", "mka", "ogg opus", "mp4"])
def test_a_hole_that_is_filled_is_told(kind: str) -> None:
    """Five seconds between two sounds; where the whole begins late, nothing is missing."""
    rate = 48_000
    holed = several(kind, [beeps(rate, 0.5, 2.0)], rate, late=lambda at: 5.0 if at > 1.2 else 0.0)
    late = several(kind, [beeps(rate, 0.5, 2.0)], rate, late=lambda at: 5.0)
    for door in (file, live):
        wave, warnings = door(holed)
        assert onsets(wave) == pytest.approx([0.5, 7.0], abs=0.1)
        assert len(warnings) == 1 and warnings[0].startswith("1 holes between time stamps were filled: 5.0"), warnings
        assert not door(late)[1]


def test_a_lost_cluster_is_told() -> None:
    """Of a WebM that a disk damaged: its name is gone, so FFmpeg passes over the whole of it."""
    made = bytearray(several("mka", [beeps(RATE, 0.5, 14.0, seconds=15.0)], RATE))
    second = made.index(b"\x1f\x43\xb6\x75", made.index(b"\x1f\x43\xb6\x75") + 1)
    made[second : second + 400] = bytes(400)
    for door in (file, live):
        wave, warnings = door(bytes(made))
        assert onsets(wave)[-1] == pytest.approx(14.0, abs=0.1)
        assert any("holes between time stamps were filled" in one for one in warnings), warnings


_TELLING = ["flac", "mka", "m4a", "mov", "avi", "wma", "mp3 of a file", "webm of a file"]
"""Compressed sound whose header tells its length, which nobody can who writes it live."""
_SIZED = [
    "wav of a file",
    "wav of 24 bits of a file",
    "wav mu-law of a file",
    "rf64",
    "aiff",
    "au of a file",
    "caf",
    "w64",
]


def _of_a_file(kind: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Noise of 6 s in a file whose header was written at last."""
    name = kind.removesuffix(" of a file")
    how = KINDS[name]
    monkeypatch.setitem(KINDS, name, replace(how, streamed=False, options={} if how.streamed else how.options))
    rate = how.rate or 48_000
    return several(name, [np.random.default_rng(1).integers(-3000, 3000, (6 * rate, 1)).astype(np.int16)], rate)


@pytest.mark.parametrize("kind", [*_TELLING, *_SIZED])
def test_a_recording_that_is_cut_off_is_told(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6 s 60 per cent are there. A stream's PCM may end before the length that its header had to tell, and FFmpeg
    reads no length from an MP3 that streams; of the rest the header was written when the end was known."""
    made = _of_a_file(kind, monkeypatch)
    for door in (file, live):
        assert not door(made)[1]
        wave, warnings = door(made[: len(made) * 6 // 10])
        assert wave.size / RATE == pytest.approx(3.6, abs=0.3)
        if door is live and kind in (*_SIZED, "mp3 of a file"):
            assert not warnings
        else:
            assert warnings[-1:] and warnings[-1].startswith("its end is missing: it tells of 2."), (door, warnings)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000])
def test_a_length_that_a_writer_could_not_know_promises_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sox, arecord and FFmpeg write one of these into a pipe."""
    made = bytearray(_of_a_file("wav of a file", monkeypatch))
    at = made.index(b"data") + 4
    made[at : at + 4] = struct.pack("<I", size)
    assert not file(bytes(made))[1]


def test_what_follows_the_audio_of_a_wav_is_told_unless_it_is_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that was restarted appends; editors put their chunks and tags there, and some pad."""
    made = _of_a_file("wav of a file", monkeypatch)
    told = "the WAV header tells where its audio ends: 43040 bytes after it not heard"
    junk = np.random.default_rng(2).integers(-3000, 3000, 21_520).astype("<i2").tobytes()
    junk = b"\x01\xff" + junk[2:]
    assert file(made + junk)[1] == live(made + junk)[1] == [told]
    for door in (file, live):
        assert door(made + made)[1] == [told.replace("43040", str(len(made)))]
    chunk = b"LIST" + struct.pack("<I", 4) + b"INFO"
    other = b"bext" + struct.pack("<I", 602) + bytes(602)
    for good in (chunk, other + chunk, chunk + b"TAG" + bytes(125), chunk + b"ID3\x03" + bytes(60), bytes(3)):
        assert not file(made + good)[1] and not live(made + good)[1]
