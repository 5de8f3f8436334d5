"""What is counted of speech: errors against those on recordings, ends, lengths, slips; and the codec on known codes."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench import codec_quality, recordings
from bench import sentences as sentences_module
from bench.material import Material
from bench.recordings import HeldOut
from bench.row import NotMeasured
from bench.sentences import Sentence, read
from bench.speaking import Both, failure_row, intelligible_rows
from bench.spoken import RATE, Spoken, beside, odd_lengths, say_all
from bench.wer import normalize
from tests.bench.conftest import codes_file

GOLDEN = Path(__file__).parent.parent / "golden" / "speaking"
TEXTS = ["the driver stopped to let the ducks cross the road", "my sister keeps three rabbits in the back yard"]


def said(text: str, kind: str = "everyday", seconds: float = 3.0, guards: tuple[str, ...] = ()) -> Spoken:
    return Spoken(Sentence(text, kind), text, np.zeros(round(RATE * seconds), np.float32), guards)


def test_what_no_training_may_say_is_printed_as_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """All sentences and those in other words, one a line, numbers as words."""
    sentences_module.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(sentences_module.sentences()) + 180
    assert all(line and not any(c.isdigit() for c in line) for line in lines)
    assert "Why is the garden so expensive?" in lines


def test_held_out_recordings_are_the_voice_s_own(voice: Path) -> None:
    """Of the test split the voice's clips only; of its own shard every 27th prompt."""
    found = recordings.held_out(Material(voice, []))
    assert [clip.speaker for clip in found.tests] == ["kathleen"] * 3
    assert [clip.text for clip in found.takes] == ["prompt 00", "prompt 27"]
    wave = recordings.wave(found.takes[0], 24_000)
    assert wave.dtype == np.float32 and len(wave) == pytest.approx(found.takes[0].seconds * 24_000, rel=0.1)


def test_intelligibility_is_a_multiple_of_that_on_recordings(voice: Path) -> None:
    """Hard sentences do not count; our ear is compared on the test split alone, the other on all recordings."""
    recorded = recordings.held_out(Material(voice, []))
    clips = [*recorded.tests, *recorded.takes]
    wrong = [f"{clip.text} more" for clip in clips]
    spoken = [said(TEXTS[0]), said(TEXTS[1]), said("forty two", "numbers")]
    both = Both([TEXTS[0], "my sister", "nothing", *wrong], [TEXTS[0], TEXTS[1], "", *wrong])
    ours, theirs = intelligible_rows(spoken, recorded, both, "anna")
    words = sum(len(normalize(clip.text)) for clip in recorded.tests)
    assert ours.details["said"] == pytest.approx(7 / 19) and ours.details["recorded"] == pytest.approx(3 / words)
    assert not ours.met and "3 recordings" in ours.name and "anna" in ours.notes[0]
    assert theirs.met and theirs.details["said"] == 0 and "5 recordings" in theirs.name
    assert ours.details["our_wer_by_kind"] == {"everyday": pytest.approx(7 / 19), "numbers": 1.0}


def test_a_sentence_fails_once_whatever_is_wrong_with_it() -> None:
    """One runs on, one is far too long, one lacks words for both ears, one is fine; a recording is never a failure."""
    spoken = [said(TEXTS[0], guards=("budget",)), said(TEXTS[0], seconds=9.0), said(TEXTS[0]), said(TEXTS[0])]
    spoken += [said(TEXTS[1])] * 3
    lacking = "the driver stopped to let cross the road"
    ours = [TEXTS[0], TEXTS[0], lacking, lacking, *[TEXTS[1]] * 3]
    theirs = [TEXTS[0], lacking, lacking, TEXTS[0], *[TEXTS[1]] * 3]
    row = failure_row(spoken, HeldOut([], []), Both(ours, theirs))
    assert row.reached == "3" and not row.met
    assert row.notes[0].startswith("1 without an end, 1 of odd length, 1 with words")
    assert [line.split(" ")[0] for line in row.details["failed"]] == ["0", "1", "2"]
    assert "skipped: the ducks" in row.details["failed"][2]


def test_lengths_are_odd_for_their_letters() -> None:
    """The same pace is fine at any length; twice it or half of it is not."""
    spoken = [said("abcdefghij" * n, seconds=0.1 * (8 + 10 * n)) for n in range(1, 6)]
    assert odd_lengths(spoken) == set()
    spoken += [said("abcdefghij", seconds=3.6), said("abcdefghij", seconds=0.9)]
    assert odd_lengths(spoken) == {5, 6}


def test_the_model_says_what_is_asked(tmp_path: Path) -> None:
    """Two sentences by the small random model: audio of both, numbers as words, files kept."""
    material = Material(tmp_path, [], speaking=str(GOLDEN), limit=2, spoken=tmp_path / "wav")
    spoken, voice = say_all(material)
    assert voice and [one.sentence.kind for one in spoken] == ["everyday", "everyday"]
    assert all(one.seconds > 0.5 and one.text.startswith(one.sentence.text.split()[0].lower()) for one in spoken)
    assert len(list((tmp_path / "wav").glob("*.wav"))) == 2
    again, _ = say_all(material)
    np.testing.assert_array_equal(spoken[0].wave, again[0].wave)


def test_codes_come_back_as_they_were_written(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    codes = [chance.integers(0, 9, (n, 4)).astype(np.int16) for n in (3, 1, 7)]
    codes_file(tmp_path / "codes.npz", codes)
    found = codec_quality.read_codes(tmp_path / "codes.npz")
    assert [one.file for one in found] == ["0.opus", "1.opus", "2.opus"] and [one.start for one in found] == [0, 1, 2]
    for one, expected in zip(found, codes, strict=True):
        np.testing.assert_array_equal(one.codes, expected)


def test_the_encoder_s_codes_are_read_where_there_are_searched_ones_too(tmp_path: Path) -> None:
    codes, encoded = (np.random.default_rng(seed).integers(0, 9, (5, 4)).astype(np.int16) for seed in (1, 2))
    same = {"files": np.array(["a.opus", "b.opus"]), "starts": np.array([3, 4]), "frames": np.array([2, 3])}
    np.savez(tmp_path / "codes.npz", codes=codes, encoded=encoded, **same)
    found = codec_quality.read_codes(tmp_path / "codes.npz")
    np.testing.assert_array_equal(np.concatenate([one.codes for one in found]), encoded)
    assert [len(one.codes) for one in found] == [2, 3]


def test_a_file_without_codes_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "codes.npz"
    np.savez(path, files=np.array(["a.opus"]), codes=np.zeros((1, 4), np.int16))
    with pytest.raises(NotMeasured, match="codes.npz lacks starts, frames: write it with .* held-out"):
        codec_quality.read_codes(path)
    path.write_bytes(b"PK")
    with pytest.raises(NotMeasured, match="codes.npz: no file of codes"):
        codec_quality.read_codes(path)


def test_other_sentences_come_from_a_file(tmp_path: Path) -> None:
    """One a line, blank ones skipped; what holds none is not measured, and the message says why."""
    path = tmp_path / "sentences.txt"
    path.write_text("One lamp.\n\n  Two lamps. \n", encoding="utf-8")
    assert read(path) == [Sentence("One lamp.", "everyday"), Sentence("Two lamps.", "everyday")]
    material = Material(tmp_path, [], speaking=str(GOLDEN), limit=1, sentences=path)
    assert [one.sentence.text for one in say_all(material)[0]] == ["One lamp."]
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(NotMeasured, match=r"--sentences .*: no line holds a sentence"):
        read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(NotMeasured, match="--sentences"):
        read(path)
    with pytest.raises(NotMeasured, match="--sentences .*none"):
        read(tmp_path / "none.txt")


def test_the_other_numbers_are_not_the_evaluations_own() -> None:
    """180 different ones, none of the 500."""
    numbers = {one.text for one in read(Path(sentences_module.__file__).parent / "numbers.txt")}
    assert len(numbers) == 180 and not numbers & {one.text for one in sentences_module.sentences()}


def test_what_another_says_lies_in_a_folder(tmp_path: Path) -> None:
    """By its place among the sentences, at any rate, whatever else its name says."""
    soundfile.write(tmp_path / "007-everyday.wav", np.full((24_000, 2), 0.25), 24_000)
    soundfile.write(tmp_path / "012.wav", np.zeros(RATE), RATE)
    found = beside(Material(tmp_path, [], beside=tmp_path))
    assert sorted(found) == [7, 12] and all(len(w) == RATE and w.dtype == np.float32 for w in found.values())
    assert found[7][RATE // 2] == pytest.approx(0.25, abs=1e-3)
    assert beside(Material(tmp_path, [])) == {}
    with pytest.raises(NotMeasured, match="--beside"):
        beside(Material(tmp_path, [], beside=tmp_path / "nowhere"))
    (tmp_path / "013.wav").write_bytes(b"no sound")
    with pytest.raises(NotMeasured, match="--beside"):
        beside(Material(tmp_path, [], beside=tmp_path))
