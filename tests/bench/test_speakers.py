"""Diarization errors as they are counted, and conversations whose speakers are known."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.clips import Clip
from bench.conversations import LEAST_CLIPS, OVERLAP, RATE, Said, by_speaker, conversation
from bench.speakers import alike, assigned, judged, score, stretched
from streaming.events import Transcript, Word
from streaming.utterance import HANG_SECONDS
from tests.clips import DATA


def word(start: float, end: float, speaker: int) -> Word:
    """A word of ``speaker``."""
    return Word("word", start, end, 1.0, speaker=speaker)


def final_of(*words: Word) -> Transcript:
    """An utterance of these words."""
    start, end = words[0].start - 0.3, words[-1].end + HANG_SECONDS - 0.01
    return Transcript(start, end, "", words, len(words), None, is_final=True)


def test_what_is_right_costs_nothing_whatever_it_is_called() -> None:
    said = [Said(0, 4, "ann"), Said(5, 9, "bob"), Said(8, 12, "ann")]
    errors, names = score(said, [Said(0, 4, "1"), Said(5, 9, "0"), Said(8, 12, "1")])
    assert errors.rate == 0 and names == {"1": "ann", "0": "bob"}


def test_missed_false_and_wrong_speech_are_counted_apart() -> None:
    """Outside of the collars, and who speaks with another counts too."""
    said = [Said(0, 10, "ann"), Said(10, 20, "bob"), Said(15, 20, "ann")]
    errors, _ = score(said, [Said(0, 10, "1"), Said(10, 20, "2")])
    assert (errors.missed, errors.false, errors.wrong) == (450, 0, 0)  # five seconds of ann, less two collars
    errors, _ = score([Said(0, 10, "ann")], [Said(0, 6, "1"), Said(6, 14, "2")])
    assert (errors.missed, errors.false, errors.wrong) == (0, 375, 375)
    assert errors.speech == 950 and errors.rate == pytest.approx(750 / 950)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 1000))
def test_speakers_are_assigned_so_that_most_is_right(rows: int, columns: int, seed: int) -> None:
    """As trying all ways finds it."""
    gains = np.random.default_rng(seed).integers(0, 50, (rows, columns))
    chosen = assigned(gains)
    assert len(set(chosen.values())) == len(chosen)
    wide = gains if rows <= columns else gains.T
    best = max(sum(wide[i, j] for i, j in enumerate(way)) for way in permutations(range(wide.shape[1]), len(wide)))
    assert sum(gains[a, b] for a, b in chosen.items()) == best


def test_words_become_stretches_of_a_speaker() -> None:
    """Within an utterance across any gap, from one to the next across a short one; it is speech from onset to end."""
    first = final_of(word(0, 0.4, 0), word(1.2, 1.4, 0), word(1.5, 1.7, 1))
    second = final_of(word(2.0, 2.2, 1), word(2.3, 2.6, 0))
    third = final_of(word(4, 4.5, 0))
    long = replace(third, start=3.0, end=5.1)
    assert stretched([long]) == [Said(3.3, 5.1 - HANG_SECONDS, "0")]
    assert stretched([first, second, third]) == [
        Said(0, 1.4, "0"),
        Said(1.5, 2.2, "1"),
        Said(2.3, 2.6, "0"),
        Said(4, 4.5, "0"),
    ]


def test_a_conversation_knows_who_speaks() -> None:
    """The same for the same seed; its overlap stays within its bounds, and a perfect answer has no error."""
    people = by_speaker(clips())
    talk = conversation(people, "a seed", 3, 30.0)
    again = conversation(people, "a seed", 3, 30.0)
    assert np.array_equal(talk.wave, again.wave) and talk.said == again.said
    assert talk.speakers == 3 and len(talk.wave) > 25 * RATE and talk.overlap <= OVERLAP[1] + 0.1
    assert not np.array_equal(talk.wave, conversation(people, "another", 3, 30.0).wave)
    names = [one.speaker for one in talk.said]
    words = tuple(
        word(float(a), float(a) + 0.25, names.index(one.speaker))
        for one in talk.said
        for a in np.arange(one.start, one.end - 0.2, 0.25)
    )
    final = Transcript(0, 30, "", words, len(words), None, is_final=True)
    found = judged(talk, [final], {})
    assert found.errors.rate < 0.02 and found.found == 3 and found.right == found.words
    merged = judged(talk, [final], {names.index(name): 0 for name in set(names) if names.index(name)})
    assert merged.found == 1 and merged.errors.rate > 0.2


def test_who_is_recorded_alike_talks_together() -> None:
    """Readers of one corpus that has enough of them; volunteers each have a microphone of their own."""

    def some(corpus: str) -> list[Clip]:
        return [Clip(b"", "", corpus, 3.0, "", "")] * LEAST_CLIPS

    corpora = {"LibriSpeech test-clean": 4, "librispeech_dev_clean_half": 1, "CMU AN4 (census)": 3, "Common Voice 6": 5}
    people = {f"{name} {i}": some(name) for name, count in corpora.items() for i in range(count)}
    assert {name: len(found) for name, found in alike(people).items()} == {"librispeech": 5}


def clips() -> list[Clip]:
    """The recordings of the tests, with their speakers."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        Clip((DATA / r["file"]).read_bytes(), r["text"], r["corpus"], float(r["seconds"]), r["file"], str(r["speaker"]))
        for r in rows
    ]
