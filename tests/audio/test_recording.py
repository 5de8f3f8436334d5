"""Recordings of every usual kind become the 16-bit PCM that a client would send."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from audio.recording import Recording, RecordingError, open_recording

av = pytest.importorskip("av")


def tone(rate: int, channels: int = 1, seconds: float = 1.5) -> np.ndarray[Any, Any]:
    """A different tone in each channel, float64 [n, channels], half of full scale."""
    time = np.arange(int(rate * seconds)) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 220 * (c + 1) * time) for c in range(channels)], axis=1)


def heard(recording: Recording) -> np.ndarray[Any, Any]:
    """All its samples, int16 [n, channels]."""
    return np.frombuffer(b"".join(recording.blocks()), "<i2").reshape(-1, recording.channels)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_of_any_kind(tmp_path: Path, subtype: str, channels: int):
    """Integers are taken as they are, floats scaled to them."""
    path = tmp_path / "a.wav"
    expected = tone(16000, channels)
    soundfile.write(path, expected, 16000, subtype=subtype)
    recording = open_recording(path)
    assert (recording.sample_rate, recording.channels, recording.seconds) == (16000, channels, 1.5)
    tolerance = 600 if subtype == "ULAW" else 1
    assert np.abs(heard(recording) - expected * 32768).max() <= tolerance


def test_a_16_bit_file_is_heard_bit_for_bit(tmp_path: Path):
    """What a client would send for it, without rounding."""
    noise = np.random.default_rng(1).integers(-32768, 32767, (20000, 2), np.int16)
    for name in ("a.wav", "a.flac"):
        soundfile.write(tmp_path / name, noise, 44100)
        assert np.array_equal(heard(open_recording(tmp_path / name)), noise)


def test_float_files_beyond_full_scale_and_without_sense(tmp_path: Path):
    """Loud floats are clipped; NaN and infinity are silence."""
    path = tmp_path / "a.wav"
    soundfile.write(path, np.array([0.0, 2.0, -2.0, np.nan, np.inf, 0.5], np.float32), 16000, subtype="FLOAT")
    assert heard(open_recording(path))[:, 0].tolist() == [0, 32767, -32768, 0, 0, 16384]


@pytest.mark.parametrize(("rate", "taken"), [(96000, 48000), (192000, 48000), (6000, 8000), (44100, 44100)])
def test_rates_that_the_wire_does_not_take_are_resampled(tmp_path: Path, rate: int, taken: int):
    """To the nearest one it does; the tone keeps its pitch."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(rate), rate)
    recording = open_recording(path)
    assert recording.sample_rate == taken
    samples = heard(recording)[:, 0]
    assert len(samples) == pytest.approx(1.5 * taken, rel=0.01)
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * taken / len(samples) == pytest.approx(220, abs=2)


@pytest.mark.parametrize(
    ("suffix", "codec"), [("m4a", "aac"), ("webm", "libopus"), ("mkv", "pcm_s16le"), ("mov", "aac")]
)
@pytest.mark.parametrize("channels", [1, 2])
def test_other_containers_go_through_av(tmp_path: Path, suffix: str, codec: str, channels: int):
    """Rate, length and pitch survive."""
    path = tmp_path / f"a.{suffix}"
    samples = (tone(48000, channels) * 32767).astype(np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=48000, layout="mono" if channels == 1 else "stereo")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout=stream.layout.name)
        frame.sample_rate = 48000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    recording = open_recording(path)
    assert (recording.sample_rate, recording.channels, recording.by_av) == (48000, channels, True)
    assert recording.seconds == pytest.approx(1.5, abs=0.1)
    first = heard(recording)[:, 0]
    assert len(first) / 48000 == pytest.approx(1.5, abs=0.1)
    assert np.argmax(np.abs(np.fft.rfft(first))) * 48000 / len(first) == pytest.approx(220, abs=2)


def test_what_is_no_audio(tmp_path: Path):
    """Missing, a directory, text, empty, too many channels: each in words."""
    (tmp_path / "text.wav").write_text("not audio at all")
    (tmp_path / "empty.wav").write_bytes(b"")
    soundfile.write(tmp_path / "many.wav", np.zeros((100, 12)), 16000)
    for name, reason in [
        ("none.wav", "no such file"),
        ("", "directory"),
        ("text.wav", "no audio"),
        ("empty.wav", "no audio"),
        ("many.wav", "12 channels, the limit is 8"),
    ]:
        with pytest.raises(RecordingError, match=reason):
            open_recording(tmp_path / name)


@pytest.mark.parametrize("kind", ["AIFF", "AU", "CAF", "PAF", "SVX", "NIST", "IRCAM", "VOC", "W64", "MAT5", "SDS"])
def test_what_nobody_sends_is_not_tried(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]):
    """Whatever libsndfile and FFmpeg could make of it; nothing of theirs reaches the terminal."""
    path = tmp_path / "a.wav"
    soundfile.write(path, (tone(16_000, 1) * 32767).astype(np.int16), 16_000, format=kind, subtype="PCM_16")
    assert soundfile.info(str(path)).format == kind
    capfd.readouterr()
    with pytest.raises(RecordingError, match="no audio that is known here: WebM, Ogg, MP3, FLAC, WAV, MP4, AAC"):
        open_recording(path)
    assert capfd.readouterr() == ("", "")


def test_a_long_wav_is_one_too(tmp_path: Path):
    """RF64, which recorders write beyond 4 GiB."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16_000, 1), 16_000, format="RF64", subtype="PCM_16")
    assert path.read_bytes()[:4] == b"RF64"
    assert open_recording(path).seconds == pytest.approx(1.5)


def test_a_wav_whose_writer_was_cut_off_is_heard_to_its_end(tmp_path: Path):
    """It still says that it holds nothing; one that holds nothing is empty."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16_000), 16_000)
    whole = heard(open_recording(path))
    content = bytearray(path.read_bytes())
    assert content[36:40] == b"data"
    content[40:44] = bytes(4)
    path.write_bytes(content)
    assert np.array_equal(heard(open_recording(path)), whole)
    path.write_bytes(content[:44])
    assert len(heard(open_recording(path))) == 0


def test_joined_ogg_files_are_heard_to_the_end(tmp_path: Path):
    """libsndfile would give the first."""
    path = tmp_path / "a.ogg"
    soundfile.write(path, tone(16_000), 16_000, format="OGG", subtype="OPUS")
    path.write_bytes(2 * path.read_bytes())
    joined = open_recording(path)
    assert len(heard(joined)) / joined.sample_rate == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize("damage", ["hole", "cut", "joined"])
def test_what_is_left_of_a_flac_is_heard(tmp_path: Path, damage: str):
    """With a hole in its middle, without its end, or another one behind it."""
    path = tmp_path / "a.flac"
    sound = np.random.default_rng(2).integers(-9999, 9999, 64_000, np.int16)
    soundfile.write(path, sound, 16_000)
    content = path.read_bytes()
    half = len(content) // 2
    damaged, least, most = {
        "hole": (content[:half] + bytes(4000) + content[half + 4000 :], 50_000, 64_000),
        "cut": (content[:half], 25_000, 33_000),
        "joined": (2 * content, 128_000, 128_000),
    }[damage]
    path.write_bytes(damaged)
    samples = heard(open_recording(path))
    assert least <= len(samples) <= most
    assert np.array_equal(samples[:20_000, 0], sound[:20_000])


def test_every_channel_of_an_ogg_is_there(tmp_path: Path):
    """More than two, which FFmpeg would mix."""
    path = tmp_path / "a.ogg"
    soundfile.write(path, tone(16000, 6), 16000, format="OGG", subtype="VORBIS")
    recording = open_recording(path)
    assert recording.channels == 6
    loudest = np.abs(np.fft.rfft(heard(recording), axis=0)).argmax(0) * 16000 / len(heard(recording))
    assert sorted(loudest[loudest > 100].round(-1)) == [220, 440, 660, 880, 1100, 1320]
