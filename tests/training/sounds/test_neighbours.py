"""Weights of the words before are learnt from labelled sentences, and they are right on others like them."""

from pathlib import Path

from codec.sounds.neighbours import Neighbours
from training.sounds.neighbours import Example, examples, learn, write

ROWS = [
    ("record", "record_vrb", "We want to record it. "), ("record", "record_nou", "That was a record for all. "),
    ("object", "object_vrb", "We want to object now. "), ("object", "object_nou", "Here is a object, a nice one. "),
]  # fmt: skip


def table(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    """Write a folder as the data set has it."""
    folder.mkdir()
    for word in {word for word, *_ in rows}:
        lines = ['"homograph"\t"wordid"\t"sentence"\t"start"\t"end"']
        for _, label, sentence in (row for row in rows if row[0] == word):
            start = len(sentence[: sentence.index(word)].encode())
            lines.append(f'"{word}"\t"{label}"\t"{sentence}"\t{start}\t{start + len(word)}')
        (folder / f"{word}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_examples_have_the_words_before_and_whether_they_are_verbs(tmp_path: Path) -> None:
    """Words before a mark are forgotten, places are bytes, and a label without a kind is what the other one is not."""
    rows = [
        ("live", "live_vrb", "Señor, they live"), ("live", "live_adj", "a live"), ("dove", "dove", "the dove"),
        ("dove", "dove_vrb", "he dove"), ("isolate", "isolate", "to isolate"), ("isolate", "isolate_nou", "an isolate"),
        ("bass", "bass", "the bass"), ("bass", "bass_corp", "a bass"),
    ]  # fmt: skip
    table(tmp_path / "train", rows)
    found = {one.label: one for one in examples(tmp_path / "train")}
    assert found["live_vrb"] == Example("live", "live_vrb", True, ("they",))
    assert {label: one.verb for label, one in found.items()} == {
        "live_vrb": True, "live_adj": False, "dove": False, "dove_vrb": True, "isolate": True, "isolate_nou": False,
        "bass": None, "bass_corp": None,
    }  # fmt: skip


def test_what_is_learnt_of_some_words_serves_others(tmp_path: Path) -> None:
    """The words "to" and "a" tell something of any word, and the file holds what was learnt."""
    table(tmp_path / "train", ROWS * 8)
    weights, own = learn(list(examples(tmp_path / "train")), seed=1)
    write(weights, own, tmp_path / "neighbours.json")
    found = Neighbours.load(tmp_path / "neighbours.json")
    for word in ("record", "object", "present"):
        assert found.verb(word, ["want", "to"]) and not found.verb(word, ["was", "a"])
