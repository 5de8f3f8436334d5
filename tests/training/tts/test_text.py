"""The text that the next talker reads: where the runtime ends its pieces, and with which mark."""

import msgspec

from codec.sounds.speller import Speller
from codec.text.pieces import Close, Fragment, PieceEnd
from codec.text.stream import TextStream
from tests.codec.sounds.voices import reader
from training.speech.sounds import FILES
from training.tts.text import RULES

RUNTIME = msgspec.structs.replace(RULES, sounds=FILES, longest=120, clause=40)
"""The rules as the exporter writes them into the manifest."""


def pieces(text: str) -> list[tuple[str, Close]]:
    """What the talker reads of a text, piece by piece, and what each piece ends with."""
    stream, speller = TextStream(RUNTIME), Speller(reader(), RUNTIME.marks)
    said, found = "", list[tuple[str, Close]]()
    for item in stream.feed(text) + stream.flush():
        if isinstance(item, Fragment):
            said += speller.spell(item.text, marked=item.marked)
        elif isinstance(item, PieceEnd) and said:
            found.append((said, item.close))
            said = ""
            speller.end()
    return found


def test_a_sentence_that_is_cut_at_a_clause_goes_on_with_a_comma() -> None:
    """The comma stands where the author wrote one and where nothing stands. The sentence itself ends as it is
    written."""
    long = "The kettle was cold when she came in from the garden"
    for joint in (", because the maid had forgotten it?", " because the maid had forgotten it?"):
        (first, close), (last, end) = pieces(long + joint)
        assert close is Close.CLAUSE and first.endswith("ɡˈɑɹdən,"), first
        assert end is Close.SENTENCE and last.endswith("ɪt?")


def test_a_word_too_many_is_cut_off_with_a_comma() -> None:
    """No clause ends in so many words, so that the piece is as long as a piece may be."""
    first, *_ = pieces("tree " * 40)
    assert first[1] is Close.CUT and first[0].endswith("tɹˈi,")


def test_a_text_without_a_mark_ends_with_a_full_stop() -> None:
    """A comma would promise more."""
    assert pieces("Thank you") == [(" θˈæŋk ju.", Close.SENTENCE)]
