"""What is meant for a program is not read; how the text is cut changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.markup import LONGEST, LONGEST_PAUSE, Break, Markup, Passed


def read(text: str, size: int = 1) -> list[Passed]:
    """Everything that is left of ``text``, fed ``size`` characters at a time."""
    markup, found = Markup(), list[Passed]()
    for at in range(0, len(text), size):
        found += markup.feed(text[at : at + size], at)
    return found + list(markup.flush())


def shown(pieces: list[Passed]) -> str:
    """Characters as they are, breaks as their seconds in brackets."""
    return "".join(f"[{piece.seconds:g}]" if isinstance(piece, Break) else piece[0] for piece in pieces)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('<speak>Hello <break time="1.5s"/>world</speak>', "Hello [1.5]world"),
        ("one<break/>two<break strength='x-strong'/><break time='99s'/>", f"one[0.4]two[1.2][{LONGEST_PAUSE:g}]"),
        ("one<break time=1.5s>two<break time=500ms/> <font color=#fff>red</font>", "one[1.5]two[0.5] red"),
        ('<?xml version="1.0"?>\n<!DOCTYPE html><p>Hi <![CDATA[a b]]>', "\n\n\nHi a b]]>"),
        ("<!doctype html><html><head><title>T</title></head><body>One</body></html>", "\n\n\n\nT\n\n\n\nOne\n\n\n\n"),
        ("if i <b and c=3 it's", "if i <b and c=3 it's"),
        ("a <b and c<d, i < j > k, <<b>>", "a <b and c<d, i < j > k, <>"),
        ("Fish &amp; chips, AT&T &x; &#39;", "Fish & chips, AT&T &x; '"),
        ("a &lt;b&gt; b", "a <b> b"),
        ("<think>hm <b>no</b>\n</think>The", "\n\nThe"),
        ("citi-\nzens, well-known, a-\n B -\nc", "citizens, well-known, a-\n B -\nc"),
        ("Run:\n```py\nx = 1\n```\nDone", "Run:\n\n\ncode\n\n\n\n\nDone"),
        ("x ```a``` `b` ~~c~~", "x ```a``` `b` ~~c~~"),
        ('<sub alias="World Wide">WWW</sub> H<sub>2</sub>O', "World Wide H2O"),
        ("<p>One</p><br/>two", "\n\nOne\n\n\ntwo"),
        ('<a href="http://x.y">link</a> <unknown> </b', "link <unknown> </b"),
        (f'<a b="{"c" * LONGEST}">', f'<a b="{"c" * LONGEST}">'),
        ("<think>never ended", ""),
        ("\x1b[31mred\x1b[0m, \x1b[38;2;9;9;9mb\x1b[Kold\x1b[m", "red, bold"),
        ("\x1b]a\x1b\x1b[1mb\x1b[é\x1b[3", "\x1b]a\x1bb\x1b[é\x1b[3"),
    ],
)
def test_markup_is_taken_out(text: str, left: str) -> None:
    """Tags, references, fences, thoughts, hyphens at the ends of lines; what only looks like them stays."""
    assert shown(read(text)) == left


@given(
    st.lists(
        st.sampled_from([*"<>&;/-\n`~ab =\"'", "<b>", "<break time='1s'/>", "&amp;", "```", "think>", "\x1b[", "1m"]),
        max_size=30,
    ),
    st.integers(1, 9),
)
def test_cutting_changes_nothing(parts: list[str], size: int) -> None:
    """The same characters with the same places, and none is lost that is no markup."""
    text = "".join(parts)
    assert read(text, size) == read(text, len(text) or 1)
    places = [piece[1] for piece in read(text) if not isinstance(piece, Break)]
    assert places == sorted(places)
