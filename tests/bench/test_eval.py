"""``make eval``: every row is printed, what it counts is right, and without data it says so."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.eval import main
from bench.material import Material
from bench.row import Row, at_most, percent, table
from bench.sentences import COUNTS, sentences
from bench.vocabulary import rare_words
from bench.weights import model_bytes
from engines.store import BUNDLED
from tests.bench.conftest import index, pick, write_shard
from tests.clips import DATA

ROOT = Path(__file__).parent.parent.parent


def rows_of(data: Path, *arguments: object) -> dict[str, dict[str, Any]]:
    """The rows that an evaluation wrote as JSON."""
    out = data / "rows.json"
    assert main(["--data", str(data), "--json", str(out), *map(str, arguments)]) == 0
    return {row["row"]: row for row in json.loads(out.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("arguments", [[], ["--data", "/nowhere"]])
def test_without_data_it_says_so_and_exits_with_2(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.eval", *arguments], cwd=ROOT, capture_output=True, text=True, env={"PATH": ""}
    )
    assert done.returncode == 2 and not done.stdout
    assert "make eval DATA=DIR" in done.stderr and len(done.stderr.splitlines()) == 1


def test_unknown_rows_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(data), "--rows", "size,colour"]) == 2
    assert "no rows named colour" in capsys.readouterr().err


def test_damaged_clips_are_counted_as_they_are_and_mended(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The damaged clip of two adds errors; mended it adds none that the whole clip does not have."""
    found = rows_of(data, "--rows", "words")
    cut, whole = (found[f"WER speechocean762, speakers held out{end}"] for end in ("", ", mended"))
    assert cut["wer"] > whole["wer"] and whole["status"] in ("met", "open")
    assert "1 of 6 clips change their Ogg serial number" in capsys.readouterr().out
    assert "WER LJSpeech, mended" not in found and found["WER LJSpeech"]["clips"] == 2
    write_shard(data / "speech" / "en-test-00.tar", pick("speechocean", 2, 3.0))
    again = rows_of(data, "--rows", "words")
    assert again["WER speechocean762, speakers held out"]["wer"] == whole["wer"]


def test_clips_can_be_chosen_by_name_and_by_shard(data: Path) -> None:
    rows = pick("ljspeech", 2, 0, 7)
    other = data / "another.tar"
    write_shard(other, rows)
    name = Path(rows[1]["file"]).name
    (data / "names.txt").write_text(name + "\n", encoding="utf-8")
    (data / "run.json").write_text(json.dumps({"dev": [name], "steps": 3}), encoding="utf-8")
    for names in ("names.txt", "run.json"):
        found = rows_of(data, "--rows", "words", "--shards", other, "--only", data / names)
        assert {row: entry["clips"] for row, entry in found.items()} == {"WER LJSpeech": 1}


def test_a_model_against_itself_loses_nothing(data: Path) -> None:
    found = rows_of(data, "--rows", "quantised,size", "--limit", 1, "--reference", BUNDLED / "pocket-asr-en")
    row = next(row for name, row in found.items() if "against" in name)
    assert row["shipped"] == row["reference"] and row["reached"].startswith("+0.00") and row["status"] == "met"
    assert found["size on disk, hearing"]["status"] == "met"


def test_rows_that_cannot_be_measured_say_why(data: Path) -> None:
    found = rows_of(data, "--rows", "quantised,keyterms,committed")
    assert "--reference" in found["quantised"]["notes"][0]
    assert "rare words" in found["keyterms"]["notes"][0]
    assert "tests/data" in found["committed"]["notes"][0]
    assert all(row["reached"] == "not measured" and row["status"] == "open" for row in found.values())


def test_rare_words_are_rare(data: Path) -> None:
    """None is in the text or in training clips, names come first, every clip gives one."""
    material = Material(data, [data / "speech" / "en-test-00.tar"])
    found = rare_words(material.clips, data, 50)
    assert found and len({rare.clip.file for rare in found}) == len(found) == len({rare.word for rare in found})
    assert all(rare.written == 0 and rare.trained == 0 for rare in found)
    assert not {"house", "river", "stood"} & {rare.word for rare in found}
    assert [rare.name for rare in found] == sorted((rare.name for rare in found), reverse=True)
    write_shard(data / "speech" / "en-train-00.tar", pick("speechocean", 2, 3.0))
    trained = rare_words([c for c in material.clips if "speechocean" not in c.corpus], data, 50)
    spoken = " ".join(row["text"] for row in pick("speechocean", 2, 3.0)).lower().split()
    assert not set(spoken) & {rare.word for rare in trained}


def test_keyterms_lead_to_their_words_and_unspoken_ones_seldom_come(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word that the short clips hold is rare for the small text: with keyterms more of them come out."""
    monkeypatch.setattr("bench.keyterms.UTTERANCES", 12)
    monkeypatch.setattr("bench.keyterms.OTHERS", (5, 10))  # so that half as many clips hold enough of them
    short = sorted((row for row in index() if row["seconds"] < 4), key=lambda row: row["seconds"])[:24]
    write_shard(data / "speech" / "en-test-00.tar", short)
    recall, unspoken = rows_of(data, "--rows", "keyterms").values()
    words = recall["words"]
    assert 20 <= len(words) <= 24
    assert sum(word["with"] for word in words) >= sum(word["without"] for word in words) > 0
    assert all(word["word"] in word["said"].lower() for word in words)
    for entry in unspoken["inserted"]:
        assert entry["term"] in entry["heard"].lower() and entry["term"] not in entry["said"].lower()
    assert len(unspoken["inserted"]) <= 2 and "utterances" in unspoken["row"]


def test_committed_words_are_counted_on_clips_that_nothing_was_chosen_on(data: Path) -> None:
    """Three sentences of a synthesiser; what is committed is what the listeners counted."""
    root = DATA.parent / "synthetic"
    rows = [json.loads(line) for line in (root / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    unknown = [{"corpus": "synthetic", **row} for row in rows if row["seconds"] > 4.5][:3]
    write_shard(data / "speech" / "en-test-00.tar", pick("ljspeech", 1))
    write_shard(data / "speech" / "en-test-01.tar", unknown, root=root)
    found = rows_of(data, "--rows", "committed")["committed words that the final lacks"]
    assert "on 3 clips" in found["notes"][0]


def test_sentences_are_500_different_ones_and_always_the_same() -> None:
    first = sentences()
    assert first == sentences() and len({one.text for one in first}) == len(first) == 500
    assert Counter(one.kind for one in first) == {"everyday": 200, **COUNTS}
    assert all(one.text[-1] in ".?!" for one in first)
    assert not any(c.isdigit() for one in first if one.kind != "numbers" for c in one.text)


def test_a_model_weighs_what_its_files_weigh() -> None:
    directory = BUNDLED / "pocket-asr-en"
    files = [path for path in directory.iterdir() if path.name != "README.md"]
    assert model_bytes(directory) == sum(path.stat().st_size for path in files)


def test_the_table_has_columns_of_one_width_and_notes_below() -> None:
    rows = [at_most("errors", 0.184, 0.2, notes=("counted",)), Row("size", "3 MB"), at_most("lost", 0.004, 0.002)]
    lines = table(rows).splitlines()
    assert len({len(line) for line in lines[:5]}) == 1 and lines[5:] == ["", "errors: counted"]
    assert [line.split("|")[-2].strip() for line in lines[2:5]] == ["met", "–", "open"]
    assert percent(0.004) == "0.40 %" and percent(0.184) == "18.4 %" and percent(0) == "0.0 %"


def test_rows_that_hear_no_recordings_need_no_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEARSAY_DATA", raising=False)
    assert main(["--rows", "size"]) == 0
    assert "size on disk, speaking" in capsys.readouterr().out
    assert main(["--rows", "size,words"]) == 2
