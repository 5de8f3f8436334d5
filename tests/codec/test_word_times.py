"""Times of words: in order, inside their piece, at the gaps of the sound, and with the session's clock.

How near they are to what is heard is asked in tests/daemon/test_round_trip.py, where an ear is.
"""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.events import AudioChunk, PieceMark
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.text.pieces import Fragment
from codec.word_times import QUIET, STEP_SECONDS, Loudness, place_words
from tests.codec.talking import say

RATE = 24_000


def written(*words: str) -> list[Fragment]:
    """Fragments of words that stand one after another."""
    found: list[Fragment] = []
    for word in words:
        start = found[-1].end + 1 if found else 0
        found.append(Fragment(f" {word}", start, start + len(word)))
    return found


def sound(*spans: tuple[float, float]) -> np.ndarray:
    """Levels of (seconds, RMS) one after another."""
    return np.concatenate([np.full(round(seconds / STEP_SECONDS), level) for seconds, level in spans])


def test_words_are_parted_where_the_sound_is() -> None:
    """Two long words and a pause that is nowhere near the middle; quiet before and after belongs to none."""
    levels = sound((0.1, 0), (0.3, 0.1), (0.2, 0), (0.6, 0.1), (0.3, 0))
    first, second = place_words(written("tables,", "chairs"), levels, 5.0, 1.0)
    assert (first.start, first.end) == (pytest.approx(5.1), pytest.approx(5.4))
    assert (second.start, second.end) == (pytest.approx(5.6), pytest.approx(6.2))
    assert (first.text, second.text, second.start_char) == ("tables,", "chairs", 8)
    faster = place_words(written("tables,", "chairs"), levels, 5.0, 2.0)
    assert faster[1].start == pytest.approx(5.3)


def test_longer_words_last_longer() -> None:
    """Without any gap lengths alone decide."""
    words = place_words(written("a", "extraordinary"), sound((1.0, 0.1)), 0.0, 1.0)
    assert words[0].end - words[0].start < 0.3 * (words[1].end - words[1].start)


def test_what_is_written_as_one_word_is_one() -> None:
    """Three fragments of "25%," stand for the same characters; a mark of its own belongs to the word before."""
    fragments = [Fragment(" twenty", 0, 4), Fragment(" five", 0, 4), Fragment(" percent", 0, 4), Fragment(".", 4, 4)]
    (word,) = place_words(fragments, sound((1.0, 0.1)), 0.0, 1.0)
    assert (word.text, word.start_char, word.end_char) == ("twenty five percent.", 0, 4)


@given(
    st.lists(st.sampled_from(["a", "the", "boats,", "came.", "你好", "—"]), min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0.02, 0.6), st.sampled_from([0.0, 0.01, 0.1])), min_size=1, max_size=12),
)
def test_times_are_in_order_and_inside(words: list[str], spans: list[tuple[float, float]]) -> None:
    """Whatever the text and the sound, even where there is less sound than words."""
    levels = sound(*spans)
    found = place_words(written(*words), levels, 1.0, 1.0)
    edges = [time for word in found for time in (word.start, word.end)]
    assert edges == sorted(edges)
    assert all(1.0 <= edge <= 1.0 + len(levels) * STEP_SECONDS + 1e-9 for edge in edges)
    if any(any(c.isalnum() for c in word) for word in words) and (levels > QUIET).any():
        assert found


def test_a_long_piece_is_placed_in_no_time() -> None:
    """The longest piece there is, 41 s and 150 words; the stepping thread waits for it."""
    levels = np.abs(np.sin(np.arange(round(41 / STEP_SECONDS)) / 5)) * 0.1
    began = time.thread_time()
    assert len(place_words(written(*["somewhere"] * 150), levels, 0.0, 1.0)) == 150
    assert time.thread_time() - began < 0.5


def test_loudness_is_the_same_for_any_cutting() -> None:
    """Levels are of whole steps, however the samples come."""
    samples = np.random.default_rng(1).normal(0, 0.1, RATE).astype(np.float32)
    whole, parts = Loudness(RATE), Loudness(RATE)
    whole.feed(samples)
    for at in range(0, RATE, 777):
        parts.feed(samples[at : at + 777])
    assert np.array_equal(whole.levels, parts.levels) and len(whole.levels) == 50


@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_a_session_tells_its_words(tts_model: TtsModel, speed: float) -> None:
    """Each word with its place in the text, inside its piece; none where they were not asked for."""
    text = "The quick brown fox jumps over 25 dogs. Good morning to all of you."
    events = say(tts_model, text, SpeakOptions(seed=3, speed=speed, word_times=True))
    marks = [event for event in events if isinstance(event, PieceMark)]
    words = [word for mark in marks for word in mark.words]
    assert [text[word.start_char : word.end_char] for word in words] == text.split()
    for mark in marks:
        assert all(mark.start <= word.start <= word.end <= mark.end for word in mark.words)
    length = sum(len(event.samples) for event in events if isinstance(event, AudioChunk)) / tts_model.sample_rate
    assert words[-1].end <= length
    silent = say(tts_model, text, SpeakOptions(seed=3))
    assert not any(mark.words for mark in silent if isinstance(mark, PieceMark))
