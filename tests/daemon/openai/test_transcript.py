"""A file's transcript as subtitles."""

import re

from hypothesis import given
from hypothesis import strategies as st

from daemon.openai.transcript import FileTranscript
from streaming.events import Transcript, Word

SENTENCE = (
    "Produced the block books, which were the immediate predecessors of the true printed book, and things got worse "
    "and worse through the whole of the seventeenth century, so that in the eighteenth printing was done miserably."
)


def said(text: str, seconds: float) -> FileTranscript:
    """A file in which ``text`` was heard, each letter as long as any."""
    words, place = list[Word](), 0
    for word in text.split():
        start, place = place / len(text) * seconds, place + len(word) + 1
        words.append(Word(word, start, (place - 1) / len(text) * seconds, 1.0))
    return FileTranscript([Transcript(0.0, seconds, text, tuple(words), len(words), "en", is_final=True)], seconds)


def cues(subtitles: str) -> list[str]:
    """The texts of a SubRip file."""
    return [cue.split("\n", 2)[2].strip() for cue in subtitles.split("\n\n")]


@given(st.integers(1, len(SENTENCE)), st.floats(0.5, 24))
def test_cues_hold_all_words_and_keep_their_limits(characters: int, seconds: float) -> None:
    """Two lines of 42 characters and seven seconds at most, as far as single words allow it."""
    file = said(SENTENCE[:characters].strip(), seconds)
    assert " ".join(cues(file.srt())) == file.text
    times = re.findall(r"(\d\d),(\d{3}) --> 00:00:(\d\d),(\d{3})\n(.*)", file.srt())
    for begin, more, end, rest, text in times:
        lasts = int(end) + int(rest) / 1000 - int(begin) - int(more) / 1000
        assert " " not in text or (len(text) <= 84 and lasts <= 7.001)


def test_a_cue_is_cut_near_its_middle_where_the_sentence_pauses() -> None:
    """No word stands alone because the line before was full."""
    text = SENTENCE[: SENTENCE.index(", and")] + "."
    assert cues(said(text, 5.5).srt()) == [
        "Produced the block books,",
        "which were the immediate predecessors of the true printed book.",
    ]
