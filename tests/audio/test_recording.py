"""Recordings of every usual kind become the samples that a live stream of their bytes gives."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from audio.pcm import MAX_CHANNELS, PcmDecoder
from audio.recording import RecordingError, beginning, open_recording, samples
from audio.sound import Notes, Wanted
from tests.audio.containers import KINDS, contained, several

RATE = 16_000
Wave = npt.NDArray[np.float32]


def tone(rate: int, channels: int = 1, seconds: float = 1.5) -> npt.NDArray[np.float64]:
    """A different tone in each channel, float64 [n, channels], half of full scale."""
    time = np.arange(int(rate * seconds)) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 220 * (c + 1) * time) for c in range(channels)], axis=1)


def heard(source: Any, rate: int = RATE, notes: Notes | None = None, **wanted: Any) -> Wave:
    """All its samples."""
    return np.concatenate(list(samples(source, Wanted(rate, **wanted), notes=notes)))


def pitch(wave: Wave, rate: int = RATE) -> float:
    """Hertz of the loudest tone."""
    return float(np.argmax(np.abs(np.fft.rfft(wave))) * rate / wave.size)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_of_any_kind(tmp_path: Path, subtype: str, channels: int) -> None:
    """As its samples are, without a step in between."""
    path = tmp_path / "a.wav"
    expected = tone(RATE, channels)
    soundfile.write(path, expected, RATE, subtype=subtype)
    recording = open_recording(path)
    assert (recording.sample_rate, recording.channels, recording.seconds) == (RATE, channels, 1.5)
    tolerance = {"ULAW": 0.02, "PCM_U8": 0.01, "PCM_16": 1 / 32767}.get(subtype, 1e-6)
    np.testing.assert_allclose(heard(path), expected.mean(axis=1), atol=tolerance)


@pytest.mark.parametrize(("encoding", "subtype"), [("linear16", "PCM_16"), ("float32", "FLOAT"), ("mulaw", "ULAW")])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_file_is_what_a_client_would_send_of_it(tmp_path: Path, encoding: str, subtype: str, channels: int) -> None:
    """Bit for bit, at another rate too."""
    noise = np.random.default_rng(1).uniform(-1.2, 1.2, (20_000, channels)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", noise, 44_100, subtype=subtype)
    soundfile.write(tmp_path / "a.raw", noise, 44_100, subtype=subtype, format="RAW")
    wire = PcmDecoder(encoding, 44_100, channels, RATE)
    sent = np.concatenate([wire.decode((tmp_path / "a.raw").read_bytes()), wire.flush()])
    np.testing.assert_array_equal(heard(tmp_path / "a.wav"), sent)


def test_float_files_beyond_full_scale_and_without_sense(tmp_path: Path) -> None:
    """Loud floats are clipped; NaN and infinity are silence."""
    path = tmp_path / "a.wav"
    soundfile.write(path, np.array([0.0, 2.0, -2.0, np.nan, np.inf, 0.5], np.float32), RATE, subtype="FLOAT")
    assert heard(path).tolist() == [0, 1, -1, 0, 0, 0.5]


@pytest.mark.parametrize("rate", [192_000, 96_000, 44_100, 6_000])
def test_any_rate_is_brought_to_the_one_that_is_asked_for(tmp_path: Path, rate: int) -> None:
    """The tone keeps its pitch."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(rate), rate)
    assert open_recording(path).sample_rate == rate
    wave = heard(path)
    assert wave.size == pytest.approx(1.5 * RATE, rel=0.01)
    assert pitch(wave) == pytest.approx(220, abs=2)


def test_a_title_in_another_encoding_is_no_damage(tmp_path: Path) -> None:
    """Old recorders write Latin-1, which is no UTF-8."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(RATE), RATE, subtype="PCM_16")
    sound, title = path.read_bytes()[12:], b"INFOINAM\x05\x00\x00\x00Caf\xe9\x00\x00"
    chunks = b"LIST" + len(title).to_bytes(4, "little") + title + sound
    path.write_bytes(b"RIFF" + (len(chunks) + 4).to_bytes(4, "little") + b"WAVE" + chunks)
    np.testing.assert_allclose(heard(path), tone(RATE)[:, 0], atol=1 / 32767)


def test_what_is_no_audio(tmp_path: Path) -> None:
    """Missing, a directory, text, empty, too many channels: each in words."""
    (tmp_path / "text.wav").write_text("not audio at all")
    (tmp_path / "empty.wav").write_bytes(b"")
    soundfile.write(tmp_path / "many.wav", np.zeros((100, 12)), RATE)
    for name, reason in [
        ("none.wav", "no such file"),
        ("", "directory"),
        ("text.wav", "no audio"),
        ("empty.wav", "no audio"),
        ("many.wav", "12 channels, the limit is 8"),
    ]:
        with pytest.raises(RecordingError, match=reason):
            open_recording(tmp_path / name)


@pytest.mark.parametrize("kind", ["PAF", "SVX", "NIST", "IRCAM", "VOC", "MAT5", "SDS"])
def test_what_nobody_sends_is_not_tried(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever FFmpeg could make of it; nothing of its own reaches the terminal."""
    path = tmp_path / "a.wav"
    soundfile.write(path, (tone(RATE, 1) * 32767).astype(np.int16), RATE, format=kind, subtype="PCM_16")
    capfd.readouterr()
    with pytest.raises(RecordingError, match="no audio that is known here: WebM, Ogg, MP3, FLAC, WAV, MP4, AAC, CAF"):
        open_recording(path)
    assert capfd.readouterr() == ("", "")


def test_of_a_long_recording_the_beginning_can_be_had(tmp_path: Path) -> None:
    """A second too much at most; of a short one all."""
    sound = np.random.default_rng(3).normal(0, 0.1, 20 * 8000)
    soundfile.write(tmp_path / "long.flac", sound, 8000)
    whole = np.concatenate(list(samples(tmp_path / "long.flac", 16_000)))
    begun = beginning(tmp_path / "long.flac", 16_000, 3.0)
    assert 3 * 16_000 <= len(begun) <= 4 * 16_000 + 1 and (begun == whole[: len(begun)]).all()
    assert (beginning(tmp_path / "long.flac", 16_000, 30.0) == whole).all()


@pytest.mark.parametrize("text", ["#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "ffconcat version 1.0\nfile /a.wav\n"])
def test_playlists_are_no_audio(tmp_path: Path, text: str) -> None:
    """FFmpeg would open what they name."""
    (tmp_path / "a.wav").write_text(text)
    with pytest.raises(RecordingError, match="no audio that is known here"):
        open_recording(tmp_path / "a.wav")


def test_a_wav_whose_writer_was_cut_off_is_heard_to_its_end(tmp_path: Path) -> None:
    """It still says that it holds nothing; one that holds nothing is told so."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(RATE), RATE)
    whole = heard(path)
    content = bytearray(path.read_bytes())
    assert content[36:40] == b"data"
    content[40:44] = bytes(4)
    path.write_bytes(content)
    assert np.array_equal(heard(path), whole)


@pytest.mark.parametrize("damage", ["hole", "cut", "joined"])
def test_what_is_left_of_a_flac_is_heard(tmp_path: Path, damage: str) -> None:
    """With a hole in its middle, without its end, or another one behind it."""
    path = tmp_path / "a.flac"
    sound = np.random.default_rng(2).integers(-9999, 9999, 64_000, np.int16)
    soundfile.write(path, sound, RATE)
    content = path.read_bytes()
    half = len(content) // 2
    damaged, least, most = {
        "hole": (content[:half] + bytes(4000) + content[half + 4000 :], 50_000, 65_000),
        "cut": (content[:half], 25_000, 36_500),
        "joined": (2 * content, 128_000, 128_000),
    }[damage]
    path.write_bytes(damaged)
    wave = heard(path)
    assert least <= len(wave) <= most
    assert np.array_equal(wave[:20_000] * 32768, sound[:20_000])


def test_every_channel_can_be_heard_alone(tmp_path: Path) -> None:
    """Of six too, in the order in which they stand in the file."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(RATE, 6), RATE)
    assert open_recording(path).channels == 6 <= MAX_CHANNELS
    assert [round(pitch(heard(path, channel=one)), -1) for one in range(6)] == [220, 440, 660, 880, 1100, 1320]
    with pytest.raises(RecordingError, match="it has 6 channels, no number 6"):
        heard(path, channel=6)


@pytest.mark.parametrize("channels", [3, 4, 5, 7, 8])
def test_any_number_of_channels_is_mixed(tmp_path: Path, channels: int) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(RATE, channels), RATE)
    assert heard(path).size == 1.5 * RATE and np.abs(heard(path)).max() > 0.05


@pytest.mark.parametrize("kind", [kind for kind, how in KINDS.items() if how.tracks])
def test_the_track_that_is_flagged_is_heard_or_the_first_with_speech(kind: str) -> None:
    """And it is told that there are others, and how to choose one."""
    rate = KINDS[kind].rate or 48_000
    one, other = ((tone(rate, 2)[:, place : place + 1] * 32767).astype(np.int16) for place in (0, 1))
    silent = np.zeros_like(one)

    def speaks(second: Wave) -> bool:
        return abs(pitch(second) - 440) < 20

    def hear(*tracks: npt.NDArray[np.int16], default: int | None = None, **wanted: Any) -> tuple[float, list[str]]:
        notes = Notes()
        wave = heard(io.BytesIO(several(kind, tracks, rate, default=default)), notes=notes, speaks=speaks, **wanted)
        return round(pitch(wave), -1), notes.warnings()

    found, warnings = hear(silent, one, default=1)
    assert found == 220 and "it has 2 tracks of sound: number 2 was heard (track chooses another)" in warnings
    assert hear(silent, other)[0] == 440
    assert hear(silent, silent, other, default=0)[0] == 440
    assert hear(one, other, track=1)[0] == 220
    assert hear(one, other, track=2)[0] == 440
    assert hear(one)[1] == []
    with pytest.raises(RecordingError, match="it has 2 tracks of sound, no number 3"):
        hear(one, other, track=3)


def test_of_days_of_audio_no_more_is_counted_than_may_be_heard() -> None:
    """An MP3 does not tell its length: its packets are counted, which takes seconds for each day."""
    minute = contained("mp3", np.zeros((60 * RATE, 1), np.int16), RATE)
    recording = io.BytesIO(minute * 60)
    assert open_recording(recording).seconds == pytest.approx(3600, rel=0.01)
    with pytest.raises(RecordingError, match=r"60\.0 s or more, is longer than 60 s \(max_session_seconds\)"):
        next(samples(recording, RATE, most_seconds=60))
    assert recording.tell() < len(minute) * 20
