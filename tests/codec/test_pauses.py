"""Pauses of the page: how much silence stands between two pieces, and that it is the author's."""

import itertools

import numpy as np
import pytest

from codec.events import AudioChunk, Event, PieceMark
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.output import LEAD_SECONDS
from codec.pauses import QUIET, SECONDS, Tail, silence
from codec.text.pieces import Close, PieceEnd
from engines.sessions import OptionError
from tests.codec.talking import heard, run, say

FIRST, SECOND = "The quick brown fox jumps over a dog.", "Good morning to all of you today."
RATE = 24_000


def gap(model: TtsModel, between: str, options: SpeakOptions | None = None, cuts: list[int] | None = None) -> float:
    """Seconds of silence that were added where ``between`` stands between two sentences."""
    events = say(model, f"{FIRST}{between}{SECOND}", options or SpeakOptions(seed=3), cuts)
    marks = [event for event in events if isinstance(event, PieceMark)]
    assert len(marks) == 2
    return marks[1].start - marks[0].end


def spoken_tail(model: TtsModel) -> float:
    """Seconds of quiet that the first sentence ends with by itself."""
    tail = Tail()
    tail.feed(heard(say(model, FIRST, SpeakOptions(seed=3, pauses=0))))
    return tail.quiet / model.sample_rate


@pytest.mark.parametrize(
    ("between", "close"),
    [(" ", Close.SENTENCE), ("\n\n", Close.PARAGRAPH), ("\n- ", Close.LINE), ("</p><p>", Close.PARAGRAPH)],
)
def test_a_pause_is_as_long_as_what_the_author_wrote_asks_for(tts_model: TtsModel, between: str, close: Close) -> None:
    """The model's own quiet counts; what is missing is added, the same for any cutting of the text."""
    wanted = max(0.0, SECONDS[close] - spoken_tail(tts_model) - LEAD_SECONDS)
    assert gap(tts_model, between) == pytest.approx(wanted, abs=1e-3)
    assert gap(tts_model, between, cuts=[3, 1, 7]) == pytest.approx(wanted, abs=1e-3)


def test_a_break_is_as_long_as_it_says_and_read_by_nobody(tts_model: TtsModel) -> None:
    """Between sentences and inside one; ``pauses`` is for what was not asked for in seconds."""
    wanted = 1.5 - spoken_tail(tts_model) - LEAD_SECONDS
    for pauses in (0.0, 1.0):
        found = gap(tts_model, ' <break time="1500ms"/>', SpeakOptions(seed=3, pauses=pauses))
        assert found == pytest.approx(wanted, abs=1e-3)
    assert gap(tts_model, " ", SpeakOptions(seed=3, pauses=0)) == 0
    assert gap(tts_model, "\n\n", SpeakOptions(seed=3, speed=2)) < gap(tts_model, "\n\n")


def test_after_a_flush_the_next_text_is_heard_at_once(tts_model: TtsModel) -> None:
    """When it comes is the caller's; a break before the flush is the author's."""
    speaker = tts_model.speaker(SpeakOptions(seed=3))
    events: list[Event] = []
    for text in (FIRST, f'{SECOND}<break time="1s"/>', FIRST):
        speaker.say(text)
        speaker.flush()
        events += run(speaker)
    speaker.close()
    marks = [event for event in events if isinstance(event, PieceMark)]
    gaps = [later.start - earlier.end for earlier, later in itertools.pairwise(marks)]
    assert gaps[0] == 0 and 0.2 < gaps[1] < 1
    chunks = [event for event in events if isinstance(event, AudioChunk)]
    assert all(a.at + len(a.samples) / RATE == pytest.approx(b.at) for a, b in itertools.pairwise(chunks))


def test_quiet_is_counted_over_chunks() -> None:
    """A tail may be longer than a chunk; the longest of several ends counts."""
    tail = Tail()
    for samples in ([1.0, 0.0], [QUIET / 2, 0.0], []):
        tail.feed(np.array(samples, np.float32))
    assert tail.quiet == 3
    ends = [PieceEnd(Close.SENTENCE), PieceEnd(Close.PARAGRAPH)]
    assert silence(ends, 1, 0.1) == pytest.approx(SECONDS[Close.PARAGRAPH] - 0.1 - LEAD_SECONDS)
    assert silence(ends, 1, 5.0) == silence([], 1, 0.0) == silence([PieceEnd(Close.CUT)], 1, 0.0) == 0
    with pytest.raises(OptionError, match="pauses"):
        SpeakOptions(pauses=4.5)
