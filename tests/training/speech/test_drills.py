"""Every kind of drill occurs, what is said has no digits, and no test's sentence is among them."""

import re

from bench.reading import lines
from training.speech.drills import drills


def test_drills_are_lines_to_be_spoken() -> None:
    lines = list(drills(3000, set(), 1))
    assert len(lines) == 3000 and lines == list(drills(3000, set(), 1)) != list(drills(3000, set(), 2))
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z '.,?!-]*[.?!]", line) for line in lines)
    assert sum(len(line.split()) <= 3 for line in lines) > 500
    assert sum(line.endswith("?") for line in lines) > 200
    assert any("thousand" in line for line in lines) and any(re.search(r"\b[A-Z]{3}s\b", line) for line in lines)


def test_a_tests_sentence_is_never_among_them() -> None:
    never = {"Yes.", "No."}
    assert never.isdisjoint(drills(3000, never, 1)) and not never.isdisjoint(drills(3000, set(), 1))


def test_what_the_evaluation_reads_is_no_drill() -> None:
    read = {one.text.replace("*", "") for one in lines()}
    assert read.isdisjoint(drills(20_000, set(), 1))
