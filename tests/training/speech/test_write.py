"""Takes become shards that the trainers read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from training.speech import takes, write
from training.speech.batches import Order
from training.speech.sounds import VOCABULARY
from training.speech.voices import Voice
from training.speech.write import HearingWriter, SpeakingWriter, frame_labels, phone_labels
from training.tts.config import FRAME, NUMBER, SILENCE, UNKNOWN
from training.tts.speech import load


def order(phonemes: str) -> Order:
    tokens = np.array([VOCABULARY[c] for c in phonemes], np.uint8)
    voice = Voice((0,), (1.0,), False, "clara")
    return Order("I go, yes.", tokens, voice, 1.0, aligned=True, sounds=phonemes)


def tone(seconds: float, before: float, after: float) -> torch.Tensor:
    """Make [1, N] at 24 kHz: silence, 440 Hz, silence."""
    t = torch.arange(int(seconds * 24_000)) / 24_000
    parts = [
        torch.zeros(int(before * 24_000)),
        0.4 * torch.sin(2 * torch.pi * 440 * t),
        torch.zeros(int(after * 24_000)),
    ]
    return torch.cat(parts)[None]


def test_sixteen_kilohertz_keep_what_they_can_hold_and_nothing_else() -> None:
    t = torch.arange(24_000, dtype=torch.float64) / 24_000
    low, high = (torch.sin(2 * torch.pi * f * t).float()[None] for f in (3000.0, 9500.0))
    made = takes.to_hearing_rate(torch.cat([low, high]))
    assert made.shape == (2, 16_000)
    wanted = torch.sin(2 * torch.pi * 3000 * torch.arange(16_000, dtype=torch.float64) / 16_000).float()
    assert (made[0] - wanted)[200:-200].abs().max() < 0.002
    assert made[1, 200:-200].abs().max() < 0.002


def test_takes_are_trimmed_levelled_and_judged() -> None:
    wave = torch.cat([tone(1.0, 0.5, 0.5), torch.zeros(1, 48_000), 9 * tone(1.0, 0.5, 0.5)])
    checked = takes.hearing(wave)
    assert checked.silent.tolist() == [False, True, False]
    assert checked.clipped.tolist() == [False, False, True]
    assert abs(int(checked.starts[0]) - 7200) <= 320 and abs(int(checked.ends[0]) - 24_800) <= 320
    assert int(checked.samples[0].abs().max()) == 12_000
    spoken = takes.speaking(wave)
    assert abs(int(spoken.starts[0]) - (12_000 - 1920)) <= 480 and abs(int(spoken.ends[0]) - (36_000 + 3840)) <= 480
    assert not takes.plausible(100, 1.0) and not takes.plausible(2, 4.0) and takes.plausible(14, 1.0)


def test_hearing_shards_hold_the_written_text_and_where_its_words_begin(tmp_path: Path) -> None:
    said = order("ˈI ɡˈO, jˈɛs.")
    durations = np.array([[20, 1, 9, 1, 5, 1, 10, 3, 1, 5, 1, 10, 5, 4, 25]])
    writer = HearingWriter(tmp_path, 1)
    writer.add(takes.hearing(tone(1.0, 0.5, 1.0)), [said], durations)
    writer.add(takes.hearing(torch.zeros(1, 48_000)), [said], durations)
    writer.finish()
    (start, length, text, engine, words) = json.loads((tmp_path / "w01_0000.json").read_text())[0]
    assert (start, text, engine) == (0, "I go, yes.", "kokoro")
    assert np.fromfile(tmp_path / "w01_0000.pcm", np.int16).shape == (length,)
    # Words sound 40 ms before their durations say.
    trimmed = 0.5 * 16_000 - 800 + 640
    assert [n for _, n in words] == [1, 2]
    assert abs(words[0][0] - (31 * 400 - trimmed)) <= 320 and abs(words[1][0] - (51 * 400 - trimmed)) <= 320
    assert writer.counts == {"kept": 1, "silent": 1}
    again = HearingWriter(tmp_path, 1)
    again.add(takes.hearing(tone(1.0, 0.5, 1.0)), [said], durations)
    again.finish()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"w01_000{i}.{kind}" for i in (0, 1) for kind in ("json", "pcm")
    ]


def test_speaking_shards_are_those_of_the_speaking_model(tmp_path: Path) -> None:
    said = order("ˈI ɡˈO, jˈɛs.")
    durations = np.array([[20, 1, 9, 1, 5, 1, 10, 3, 1, 5, 1, 10, 5, 4, 25]])
    writer = SpeakingWriter(tmp_path, 0)
    writer.add(takes.speaking(tone(1.0, 0.5, 1.0)), [said], durations)
    writer.finish()
    again = SpeakingWriter(tmp_path, 0)
    again.add(takes.speaking(tone(1.0, 0.5, 1.0)), [said], durations)
    again.finish()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["speech-00-0000.npz", "speech-00-0001.npz"]
    shard = load(tmp_path / "speech-00-0000.npz")
    [(made, wave, labels)] = shard.pieces()
    assert (made.text, made.speaker) == (" ˈI ɡˈO, jˈɛs.", "clara")
    assert len(wave) == made.frames * FRAME and len(labels) == made.frames * 4
    assert (labels[:4] == SILENCE).all() and (labels[-8:] == SILENCE).all() and labels[5] == NUMBER["I"]


@pytest.mark.parametrize("pause", [0.3, 0.0])
def test_a_line_is_parted_at_a_mark_where_it_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """What stands before the comma keeps it, and where nothing pauses the line stays whole."""
    monkeypatch.setattr(write, "_PARTED", 1.0)
    monkeypatch.setattr(write, "_PARTED_SHORT", 1.0)
    said = order("ˈI ɡˈO, jˈɛs.")
    space = int(pause * 40)
    durations = np.array([[20, 1, 9, 1, 5, 1, 10, 3, space, 5, 1, 10, 5, 4, 25]])
    wave = torch.cat([tone(0.775, 0.5, pause), tone(0.5, 0.0, 0.7)], 1)
    writer = SpeakingWriter(tmp_path, 0)
    writer.add(takes.speaking(wave), [said], durations)
    writer.finish()
    pieces = list(load(tmp_path / "speech-00-0000.npz").pieces())
    texts = [u.text for u, _, _ in pieces]
    assert texts == ([" ˈI ɡˈO,", " jˈɛs."] if pause else [" ˈI ɡˈO, jˈɛs."])
    if pause:
        lengths = [int(np.flatnonzero(np.abs(wave.astype(int)) > 50)[-1]) / 24_000 for _, wave, _ in pieces]
        assert lengths == [pytest.approx(0.08 + 0.775, abs=0.03), pytest.approx(0.08 + 0.5, abs=0.03)]


def test_a_take_that_goes_on_after_its_last_phone_is_left_out(tmp_path: Path) -> None:
    said = order("ˈI ɡˈO, jˈɛs.")
    durations = np.array([[20, 1, 9, 1, 5, 1, 10, 3, 1, 5, 1, 10, 5, 4, 25]])
    writer = SpeakingWriter(tmp_path, 0)
    writer.add(takes.speaking(tone(1.8, 0.5, 0.5)), [said], durations)
    assert writer.counts == {"implausible length": 1}


def test_a_speaker_sounds_higher_and_is_held_out_whole(tmp_path: Path) -> None:
    """The speaker is played faster, and the labels follow. What a speaker says lies side by side."""
    durations = np.array([[20, 1, 9, 1, 5, 1, 10, 3, 1, 5, 1, 10, 5, 4, 25]])
    writer, shards = SpeakingWriter(tmp_path, 0), []
    for name, pitch, held_out in (("s0001", 1.0, False), ("s0040", 1.2, True), ("s0001", 1.0, False)):
        said = order("ˈI ɡˈO, jˈɛs.")
        voice = Voice((0,), (1.0,), False, name, pitch, held_out)
        writer.add(takes.speaking(tone(1.0, 0.5, 1.0)), [replace(said, voice=voice)], durations)
    writer.finish()
    shards = list(load(tmp_path / "speech-00-0000.npz").pieces())
    assert [(u.speaker, u.held_out) for u, _, _ in shards] == [("s0001", False)] * 2 + [("s0040", True)]
    (_, plain, _), _, (_, high, labels) = shards
    heard = [np.abs(np.fft.rfft(w[4800:14400])).argmax() * 24_000 / 9600 for w in (plain, high)]
    assert heard == [pytest.approx(440, abs=3), pytest.approx(528, abs=3)]
    sounding = np.flatnonzero(labels != SILENCE)
    loud = np.flatnonzero(np.abs(high.reshape(-1, 480)).max(1) > 300)
    assert loud[0] - 1 <= sounding[0] and sounding[-1] <= loud[-1] + 1 and len(high) < 0.9 * len(plain)


def test_labels_follow_the_durations_and_marks_their_sounds() -> None:
    assert phone_labels(order("ˈI ɡː").tokens).tolist() == [*[NUMBER["I"]] * 2, UNKNOWN, *[NUMBER["ɡ"]] * 2]
    said = order("I ɡ")
    for space, wanted in ((2, UNKNOWN), (8, SILENCE)):
        made = frame_labels(said, np.array([4, 4, space, 4, 4]), 0, 30).tolist()
        assert made[:5] == [SILENCE] * 5 and made[5:10] == [NUMBER["I"]] * 5
        assert made[10] == wanted and made[-1] == SILENCE
