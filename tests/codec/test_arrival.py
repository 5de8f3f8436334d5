"""When a piece may begin: text that comes faster than it is spoken is not held, slower text is."""

import re
from collections import deque

import pytest

from codec.arrival import IDLE_SECONDS, Arrival
from codec.events import AudioChunk, PieceMark, PieceStarted
from codec.model import TtsModel
from codec.options import Hold, SpeakOptions
from engines.sessions import OptionError
from tests.codec.talking import heard


class Clock:
    """Time as the test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("words_a_second", "slow"), [(3, True), (5, True), (12, False), (40, False)])
def test_the_rate_decides(words_a_second: int, slow: bool) -> None:
    """From the third word on, whether words come one by one or letter by letter."""
    for letters in (6, 2):
        clock = Clock()
        arrival = Arrival(clock)
        for _ in range(24 // letters):
            arrival.came(letters)
            clock.now += letters / 6 / words_a_second
        clock.now -= letters / 6 / words_a_second
        assert arrival.slow == slow


def test_text_that_stops_is_spoken_all_the_same() -> None:
    """Nothing is slow before anything came, nor after the text has been idle, nor in a new text."""
    clock = Clock()
    arrival = Arrival(clock)
    assert not arrival.slow and arrival.idle_in <= 0
    arrival.came(5)
    assert arrival.slow and arrival.idle_in == pytest.approx(IDLE_SECONDS)
    clock.now += IDLE_SECONDS
    assert not arrival.slow
    arrival.came(5)
    assert arrival.slow
    arrival.begins_anew()
    assert not arrival.slow


def test_a_held_piece_begins_with_its_phrase(tts_model: TtsModel) -> None:
    """No frame before the text is all there; then as much sound as without holding, with the same samples."""
    speaker, free = (tts_model.speaker(SpeakOptions(seed=5)) for _ in range(2))
    for text in ("Good morning ", "to all "):
        speaker.say(text)
        assert speaker.step(hold=True) == [] and speaker.work.frames == 0
    speaker.say("of you here today. And ")
    events = speaker.step(hold=True)
    assert any(isinstance(event, PieceStarted) for event in events)
    free.say("Good morning to all of you here today. And ")
    assert heard(events).tolist() == heard(free.step()).tolist()
    speaker.close()
    free.close()
    with pytest.raises(OptionError, match="hold"):
        SpeakOptions(hold="never")  # type: ignore[arg-type]


SLOW = (
    "When the rain had stopped, the children ran out into the garden, because they had waited for it all morning. "
    "Nobody had told them that the gate was open, and so the dog was gone before anyone noticed."
)


def gaps_inside_phrases(model: TtsModel, hold: Hold, words_a_second: float) -> int:
    """How often a player that starts with the first sound runs dry before a piece's sound has ended.

    Time is the test's: words come at their pace, and a second of sound takes .07 s to make, as measured.
    """
    clock = Clock()
    began, arrival = clock.now, Arrival(clock)
    speaker = model.speaker(SpeakOptions(seed=1))
    words = deque(enumerate(re.findall(r"\S+\s*", SLOW)))
    played_until, gaps, begun = 0.0, 0, False
    while not speaker.finished:
        while words and began + words[0][0] / words_a_second <= clock.now + 1e-9:
            word = words.popleft()[1]
            arrival.came(len(word))
            speaker.say(word)
            if not words:
                arrival.begins_anew()
                speaker.finish()
        held = arrival.slow if hold == "auto" else hold == "phrase"
        events = speaker.step(max(0.0, played_until - clock.now), hold=held)
        for event in events:
            if isinstance(event, AudioChunk):
                seconds = len(event.samples) / speaker.sample_rate
                clock.now += 0.07 * seconds
                gaps += begun and played_until < clock.now - 1e-6
                played_until = max(played_until, clock.now) + seconds
                begun = True
            elif isinstance(event, PieceStarted | PieceMark):
                begun = False  # the next sound may come late: a reader pauses there too
        if not events and not speaker.wait(0):
            coming = began + words[0][0] / words_a_second if words else clock.now + 0.01
            idle = clock.now + arrival.idle_in if held and arrival.idle_in > 0 else coming
            clock.now = max(clock.now + 1e-3, min(coming, idle))
    speaker.close()
    return gaps


def test_no_phrase_runs_dry_at_five_words_a_second(tts_model: TtsModel) -> None:
    """Nor at three; begun with its first word each phrase would."""
    assert gaps_inside_phrases(tts_model, "word", 5) > 2
    assert gaps_inside_phrases(tts_model, "auto", 5) == 0
    assert gaps_inside_phrases(tts_model, "auto", 3) == 0
