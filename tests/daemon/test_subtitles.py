"""Subtitles that people can read, whatever was said and however fast."""

import re
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from daemon.subtitles import Cue, Layout, cues, srt, vtt
from streaming.events import Transcript, Word

SENTENCE = (
    "Produced the block books, which were the immediate predecessors of the true printed book, and things got worse "
    "and worse through the whole of the seventeenth century, so that in the eighteenth printing was done miserably."
)


def said(text: str, start: float, seconds: float, words: Sequence[str] | None = None) -> Transcript:
    """``text``, each letter as long as any; ``words`` where no spaces part them."""
    found, place = list[Word](), 0
    for word in text.split() if words is None else words:
        place = text.index(word, place)
        begin, place = place, place + len(word)
        times = [round(start + at / len(text) * seconds, 3) for at in (begin, place)]
        found.append(Word(word, *times, 1.0))
    return Transcript(start, start + seconds, text, tuple(found), len(found), "en", is_final=True)


def check(found: Sequence[Cue], layout: Layout) -> None:
    """What holds of all subtitles: order, room, no flicker."""
    for cue in found:
        assert len(cue.lines) <= layout.lines and all(len(line) <= layout.width for line in cue.lines)
        assert all(cue.lines) and cue.start < cue.end
    for before, after in zip(found, found[1:], strict=False):
        gap = round(after.start, 3) - round(before.end, 3)
        assert gap == 0 or gap >= 0.099
    times = re.findall(r"(\d\d):(\d\d):(\d\d),(\d{3})", srt(found))
    assert times == sorted(times)


WORDS = st.text("abcdefghij.,é", min_size=1, max_size=60)
BURST = [*("a" * n for n in (1, 1, 2, 5, 5, 6, 8, 8, 8, 10, 12, 15)), ".", "aa", "a", "aa", "a" * 9]
"""Words that share their few milliseconds."""
FINALS = st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=30), st.floats(0.05, 24), st.floats(0, 3)), max_size=6)


@example([(BURST, 0.05, 0.0)], Layout(8, 1))
@given(FINALS, st.builds(Layout, st.integers(8, 60), st.integers(1, 3)))
def test_every_word_stands_in_a_cue_that_fits_and_does_not_flicker(
    spoken: list[tuple[list[str], float, float]], layout: Layout
) -> None:
    """Also words that are longer than a line, and bursts that nobody could read."""
    finals, at = list[Transcript](), 0.0
    for words, seconds, pause in spoken:
        finals.append(said(" ".join(words), at, seconds))
        at += seconds + pause
    found = cues(finals, layout, at)
    check(found, layout)
    whole = "".join(final.text for final in finals).replace(" ", "")
    assert "".join("".join(cue.lines) for cue in found).replace(" ", "") == whole


def test_a_cue_is_cut_near_its_middle_where_the_sentence_pauses() -> None:
    """No word stands alone because the line before was full; lines are even."""
    text = SENTENCE[: SENTENCE.index(", and")] + "."
    found = cues([said(text, 0, 5.5)], Layout(), 6)
    assert [cue.lines for cue in found] == [
        ("Produced the block books,",),
        ("which were the immediate predecessors", "of the true printed book."),
    ]
    assert found[0].end == found[1].start


def test_a_cue_lingers_but_never_into_the_next() -> None:
    """Half a second after its last word, and long enough to be read."""
    first, second = said("Yes.", 1.0, 0.2), said("This was said quickly, in half a second.", 6.0, 0.5)
    found = cues([first, second, said("The end.", 8.0, 1.0)], Layout(), 9.2)
    assert [(cue.start, round(cue.end, 2)) for cue in found] == [(1.0, 2.0), (6.0, 8.0), (8.0, 9.2)]


def test_a_word_that_nobody_could_read_joins_its_neighbour() -> None:
    """Where it fits there, and no pause parts them."""
    quick = [said("Oh,", 0.0, 0.2), said("I see what you mean.", 0.25, 2.0)]
    assert [cue.lines for cue in cues(quick, Layout(), 3)] == [("Oh, I see what you mean.",)]
    apart = [said("Oh,", 0.0, 0.2), said("I see what you mean.", 4.0, 2.0)]
    assert len(cues(apart, Layout(), 7)) == 2


def test_a_pause_within_a_final_parts_two_cues() -> None:
    """What comes after it is not told before."""
    one, other = said("Wait for it.", 0, 1), said("Now.", 5, 0.4)
    joined = Transcript(0, 5.4, "Wait for it. Now.", (*one.words, *other.words), 4, "en", is_final=True)
    assert [cue.start for cue in cues([joined], Layout(), 7)] == [0, 5]


def test_languages_without_spaces_get_none_and_fewer_characters_a_line() -> None:
    """A Chinese character is as wide as two Latin letters."""
    words = ["今天", "天气", "很好", "我们", "去", "公园", "散步", "吧"] * 4
    found = cues([said("".join(words), 0, 12, words)], Layout(), 12)
    assert all(" " not in line and len(line) <= 21 for cue in found for line in cue.lines)
    assert "".join(line for cue in found for line in cue.lines) == "".join(words)


def test_marks_of_webvtt_are_written_out() -> None:
    """A text may hold what WebVTT would take for a tag."""
    found = cues([said("a <b> & c", 0, 1)], Layout(), 2)
    assert "a &lt;b&gt; &amp; c" in vtt(found) and "a <b> & c" in srt(found)
    assert vtt([]) == "WEBVTT\n" and srt([]) == ""
