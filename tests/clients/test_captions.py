"""What stands on the terminal: committed plain, unstable dim, no width too small, no terminal needed."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clients.captions import Captions, split
from clients.events import Fault, Metadata, Results, SpeakerMerged, SpeakerNamed, SpeechStarted, Word
from clients.resume import Disconnected, Reconnected


def results(text: str, stable: int = 0, *, final: bool = False, start: float = 0.0) -> Results:
    """A message whose words are the text's, half a second each."""
    words = tuple(Word(word, start + i / 2, start + (i + 1) / 2, 0.9) for i, word in enumerate(text.split()))
    return Results(start, len(words) / 2, text, words, stable, final, final, False, 0.9, "en")


def console(width: int = 60, height: int = 10, *, terminal: bool, kind: str = "") -> tuple[Console, io.StringIO]:
    """A console that writes into a string; ``kind`` is its ``TERM``."""
    out = io.StringIO()
    made = Console(
        file=out, width=width, height=height, force_terminal=terminal, color_system="standard" if terminal else None,
        legacy_windows=False, _environ={"TERM": kind},
    )  # fmt: skip
    return made, out


@given(st.lists(st.text("abc'", min_size=1, max_size=4), max_size=8), st.integers(0, 8))
def test_split_loses_nothing(words: list[str], stable: int):
    """The two parts joined are the text, and the first holds as many words as are committed."""
    text = " ".join(words)
    committed, unstable = split(results(text, min(stable, len(words))))
    assert committed + unstable == text
    assert committed.split() == words[:stable]


def test_a_final_tells_who_speaks() -> None:
    """Before the first word of each turn, by name where there is one. A merge is told, and who somebody was; without
    speakers the text is as it was."""
    words = tuple(
        Word(text, i / 2, i / 2 + 0.4, 0.9, who) for i, (text, who) in enumerate([("So", 0), ("it", 0), ("is.", 27)])
    )
    final = Results(0.0, 1.5, "So it is.", words, 3, True, True, False, 0.9, "en")
    screen, out = console(terminal=False)
    captions = Captions(screen)
    captions.show(final)
    captions.show(SpeakerMerged(27, 0))
    assert "= A: So it AB: is." in out.getvalue() and "[AB is A]" in out.getvalue()
    captions.show(SpeakerNamed(0, "Zoë"))
    captions.show(replace(final, words=tuple(replace(word, speaker_name="Zoë") for word in words[:2])))
    assert "[A is Zoë]" in out.getvalue() and "= Zoë: So it is." in out.getvalue()
    assert split(results("so it is", 3, final=True)) == ("so it is", "")


def test_split_of_a_script_without_spaces():
    """Words are found in the text, not cut at spaces."""
    words = (Word("你好", 0, 0.5, 0.9), Word("世界", 0.5, 1, 0.9))
    event = Results(0, 1, "你好世界", words, 1, False, False, False, 0.9, "zh")
    assert split(event) == ("你好", "世界")


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "dumb"])
def test_plain_lines_where_nothing_can_be_redrawn(terminal: bool):
    """A pipe, and a terminal that moves no cursor, get one line a change: interims marked and split, finals marked,
    nothing twice, no control characters."""
    made, out = console(terminal=terminal, kind="dumb")
    with Captions(made) as captions:
        captions.show(SpeechStarted(0.0))
        captions.show(results("the harbor"))
        captions.show(results("the harbour lights", 1))
        captions.show(results("the harbour lights", 1))
        captions.show(results("the harbour lights were out", final=True))
        captions.show(results("", final=True, start=3.0))
    assert out.getvalue().splitlines() == [
        "    1.0 ~ | the harbor",
        "    1.5 ~ the | harbour lights",
        "    2.5 = the harbour lights were out",
    ]


def test_long_lines_are_not_broken_in_a_pipe():
    """Whoever reads the pipe gets a final as one line, whatever its length."""
    made, out = console(width=20, terminal=False)
    with Captions(made) as captions:
        captions.show(results("word " * 40, final=True))
    assert len(out.getvalue().splitlines()) == 1


def test_unstable_words_are_dim_on_a_terminal():
    """Committed words carry no style, unstable ones do; the final stays and the open line goes."""
    made, out = console(terminal=True)
    with Captions(made) as captions:
        captions.show(results("the harbour lights", 2))
        assert "the harbour\x1b[2m lights\x1b[0m" in out.getvalue()
        captions.show(results("the harbour lights were out", final=True))
    assert out.getvalue().count("the harbour lights were out") == 1
    assert "\x1b[?25h" in out.getvalue()  # the cursor is shown again


@pytest.mark.parametrize("width", [1, 2, 7, 20])
@pytest.mark.parametrize("height", [1, 2, 5])
def test_a_tiny_window_is_survived(width: int, height: int):
    """However small the window: no error, and no more lines than it has."""
    made, out = console(width, height, terminal=True)
    with Captions(made) as captions:
        for count in range(1, 30, 4):
            captions.show(results("extraordinarily long words " * count, count))
        before = len(out.getvalue())
        captions.show(results("extraordinarily long words " * 30, 30))
        drawn = out.getvalue()[before:]
        captions.show(results("done", final=True))
    assert drawn.count("\n") <= height


@pytest.mark.parametrize("terminal", [False, True])
def test_control_characters_of_a_daemon_do_nothing(terminal: bool):
    """A daemon cannot move the cursor, retitle the window or ring the bell."""
    made, out = console(terminal=terminal)
    with Captions(made) as captions:
        captions.show(results("a\x1b]0;title\x07b\x9b2Jc\r", final=True))
    assert "a\ufffd]0;title\ufffdb\ufffd2Jc\ufffd" in out.getvalue()


def test_remarks_have_their_own_lines():
    """Reconnection, faults and warnings are said, in words."""
    made, out = console(width=200, terminal=False)
    with Captions(made) as captions:
        captions.show(Disconnected("connection closed with code 1012", 1, 0.5))
        captions.show(Reconnected(2.5, 0.0))
        captions.show(Reconnected(60.0, 1.25))
        captions.show(Fault("300 s of audio unheard"))
        captions.show(Metadata("r", 1.0, ("redact is not honoured",)))
    assert out.getvalue().splitlines() == [
        "[connection lost (connection closed with code 1012); attempt 1 in 0.5 s]",
        "[connected again, 2.5 s of audio sent again]",
        "[connected again, 60.0 s of audio sent again, 1.2 s of audio lost]",
        "[the daemon says: 300 s of audio unheard]",
        "[the daemon warns: redact is not honoured]",
    ]
