"""What stands beside the model: other recognisers, other conditions, marks in texts."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import peers
from bench.conditions import CONDITIONS, RATE, babble, room, telephone
from bench.ear import Ear, path_sound
from bench.marks import KINDS, f1, is_cased, marked
from bench.row import NotMeasured, Row, table
from bench.wer import read
from engines.store import BUNDLED
from tests.bench.conftest import pick, write_shard
from tests.bench.test_eval import rows_of

Floats = npt.NDArray[np.float32]


def noise(count: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0, 0.1, count).astype(np.float32)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 20_000), st.integers(0, 3))
def test_a_condition_keeps_the_length_and_stays_finite(count: int, strangers: int) -> None:
    others = [noise(1 + 700 * i, i) for i in range(strangers)]
    for change in CONDITIONS.values():
        once, again = (change(noise(count), np.random.default_rng(5), others) for _ in range(2))
        assert once.dtype == np.float32 and len(once) <= count and count - len(once) < RATE // 50
        assert np.isfinite(once).all() and np.array_equal(once, again)


def test_conditions_are_what_they_are_called() -> None:
    """Babble is 10 dB below the speaker, a telephone has nothing above 4 kHz, a room goes on after a sound."""
    speech = noise(2 * RATE)
    mixed = babble(speech, np.random.default_rng(1), [noise(RATE, i) for i in range(2, 9)])
    scale = float(mixed @ speech / (speech @ speech))
    left = mixed / scale - speech
    assert 10 * np.log10((speech**2).sum() / (left**2).sum()) == pytest.approx(10, abs=0.5)
    spectrum = np.abs(np.fft.rfft(telephone(speech, np.random.default_rng(1), []))) ** 2
    assert spectrum[len(spectrum) // 2 :].sum() < 1e-3 * spectrum.sum()
    click = np.zeros(RATE, np.float32)
    click[100] = 0.5
    heard = room(click, np.random.default_rng(1), []) ** 2
    assert 0.3 < heard[:150].sum() / heard.sum() < 0.7 and heard[RATE // 4 : RATE // 2].sum() > 0


def test_marks_are_counted_on_aligned_words() -> None:
    text = 'He said, "Go home, Anna." Did she? Yes.'
    assert is_cased(text) and not is_cased(text.lower()) and not is_cased("CALL ANNA.") and not is_cased("Call Anna")
    words, places = marked(text)
    assert words == ["he", "said", "go", "home", "anna", "did", "she", "yes"]
    assert places == {"sentence ends": {4, 6, 7}, "commas": {1, 3}, "capitals": {0, 2, 4, 5, 7}}
    assert f1([(text, text)]) == dict.fromkeys(KINDS, 1.0)
    assert f1([(text, "he said go home anna did she yes")]) == dict.fromkeys(KINDS, 0.0)
    # A misheard word keeps its capital, a missing one takes its stop along, a comma too many counts.
    found = f1([("Call Anna now. Thanks.", "Call, Hannah now.")])
    assert found == {"sentence ends": pytest.approx(2 / 3), "commas": 0.0, "capitals": pytest.approx(4 / 5)}


def test_numbers_and_signs_are_read_before_words_are_compared() -> None:
    assert read("23 cups, $5 & Mr. Hill") == "twenty three cups five dollars and mister hill".split()
    assert read("MISTER HILL HAS FIVE") == read("Mister Hill has 5.") and read("") == []


def test_the_table_has_a_column_for_each_other_recogniser() -> None:
    lines = table([Row("errors", "3 %", others={"Vosk": "5 %"}), Row("size", "3 MB")]).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == ["row", "reached", "Vosk", "goal", ""]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["size", "3 MB", "", "", "–"]
    assert len({len(line) for line in lines}) == 1


def test_who_is_not_there_says_how_to_come_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    absent = peers.Peer("Nobody", "no_such_module", "peers", peers.PEERS["vosk"].load)
    with pytest.raises(NotMeasured, match=r"Nobody needs no_such_module: pip install -e '\.\[peers\]'"):
        peers.hear(absent, [noise(RATE)])
    weightless = peers.Peer("Nobody", "json", "peers", peers.PEERS["vosk"].load, "not-there")
    assert weightless.missing() == f"needs {tmp_path / 'hearsay' / 'peers' / 'not-there'}: make peers"
    rows = rows_of(data, "--rows", "words", "--peers", "vosk")
    assert any("Vosk small needs" in note for row in rows.values() for note in row["notes"])


def test_as_a_peer_our_model_hears_the_same(data: Path) -> None:
    directory = BUNDLED / "pocket-asr-en"
    wave = np.concatenate(list(path_sound(BUNDLED / "samples" / "reading.opus")(peers.RATE)))[: 6 * peers.RATE]
    (heard,) = peers.hear(peers.ours(directory), [wave])
    with Ear(directory, threads=1) as ear:
        assert heard.text == ear.text(lambda rate: [wave]) != ""
    assert 0 < heard.processor < 60


def test_each_condition_has_a_row_beside_the_clips_as_they_are(data: Path) -> None:
    write_shard(data / "speech" / "en-test-00.tar", [*pick("kathleen", 2, 0, 4), *pick("librispeech", 1, 0, 5)])
    rows = rows_of(data, "--rows", "conditions,marks,cost", "--peers", "")
    assert [name for name in rows if name.startswith("WER")] == [f"WER {name}" for name in CONDITIONS]
    clean = {row["clean"]["ours"] for name, row in rows.items() if name.startswith("WER")}
    assert len(clean) == 1 and all(set(row["rates"]) == {"ours"} for n, row in rows.items() if n.startswith("WER"))
    assert 0 < rows["F1 of capitals"]["f1"] <= 1 and 0 < rows["F1 of sentence ends"]["f1"] <= 1
    assert 0 < rows["CPU seconds a second of audio"]["processor"] < 20
