"""Sentences come out of clones with every kind of file; what is strange or said twice is left out."""

import json
from pathlib import Path

from training.speech.modern import modern


def test_clones_give_their_sentences(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki-split"
    wiki.mkdir()
    (wiki / "tune.tsv").write_text("Long .\tHe did n't go ( home ) . <::::> She stayed .\n")
    (wiki / "test.tsv").write_text("Long .\tShe stayed . <::::> See [ 1 ] .\n")
    (wiki / "validation.tsv").write_text("")
    tasks = tmp_path / "Taskmaster" / "TM-2" / "data"
    tasks.mkdir(parents=True)
    said = [{"utterances": [{"speaker": "USER", "text": "A table  for two.", "segments": [{"text": "two"}]}]}]
    (tasks / "a.json").write_text(json.dumps(said))
    trivia = tmp_path / "OpenTriviaQA" / "categories"
    trivia.mkdir(parents=True)
    (trivia / "world").write_text("#Q Which sea is dead?\n^ The Dead Sea\nA Black\n")
    turns = tmp_path / "dstc8-schema-guided-dialogue" / "train"
    turns.mkdir(parents=True)
    texts = [f"I want {i} tickets." for i in range(200)]
    (turns / "dialogues_001.json").write_text(json.dumps([{"turns": [{"utterance": t} for t in texts]}]))
    modern(tmp_path, out=tmp_path / "modern.txt")
    lines = (tmp_path / "modern.txt").read_text().splitlines()
    assert lines[:2] == ["He didn't go (home).", "She stayed."]
    assert lines[-2:] == ["A table for two.", "Which sea is dead?"]
    assert 30 < len(lines[2:-2]) < 90 and set(lines[2:-2]) < set(texts)
