"""The test audio is what its index and its licence table say, and small enough to live in the repository."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from audio.pcm import PcmDecoder

DATA = Path(__file__).parent / "data"
SAMPLES = Path(__file__).parents[1] / "models" / "samples"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "index.jsonl").read_text("utf-8").splitlines()]


def test_every_file_has_its_row() -> None:
    """120 clips and three recordings over two minutes, no file without a row, no row without a file, 8 MB at most."""
    files = sorted(DATA.rglob("*.opus"))
    assert sorted(DATA / row["file"] for row in ROWS) == files
    recordings = [row for row in ROWS if "parts" in row]
    assert len(ROWS) - len(recordings) == 120
    assert len(recordings) == 3
    assert all(row["seconds"] > 120 for row in recordings)
    assert sum(file.stat().st_size for file in files) <= 8_000_000


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_files_are_as_indexed(row: dict[str, Any]) -> None:
    """Each file decodes to 16 kHz mono speech of the stated length (to an MP3 frame), with a text and a licence."""
    samples, rate = soundfile.read(DATA / row["file"], dtype="float32")
    assert (rate, samples.ndim) == (16_000, 1)
    assert len(samples) / rate == pytest.approx(row["seconds"], abs=0.03)
    assert np.sqrt(np.mean(np.square(samples))) > 1e-3
    assert row["text"].strip()
    assert row["licence"].strip()


def test_recordings_are_made_of_their_parts() -> None:
    """Parts follow each other with gaps of 0.3 to 1.5 s that are far quieter than the speech, and spell the text."""
    for row in (row for row in ROWS if "parts" in row):
        samples, rate = soundfile.read(DATA / row["file"], dtype="float32")
        parts = row["parts"]
        assert " ".join(part["text"] for part in parts) == row["text"]
        speech = np.concatenate([samples[int(part["start"] * rate) : int(part["end"] * rate)] for part in parts])
        edges = [0.0, *(time for part in parts for time in (part["start"], part["end"])), len(samples) / rate]
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            assert 0.29 <= stop - start <= 1.51
            gap = samples[int((start + 0.03) * rate) : int((stop - 0.03) * rate)]
            assert 0 < np.mean(np.square(gap)) < 1e-2 * np.mean(np.square(speech))
        assert not {Path(part["file"]).name for part in parts} & {Path(clip["file"]).name for clip in ROWS}


def test_the_licence_table_is_complete() -> None:
    """Each corpus and licence stands in the table, word for word, with the right numbers of files."""
    count = Counter((row["corpus"], "parts" in row, row["licence"]) for row in ROWS)
    table = [
        line.strip("| \n").split(" | ") for line in (DATA / "README.md").read_text("utf-8").splitlines() if "|" in line
    ]
    stated: Counter[tuple[str, bool, str]] = Counter()
    for corpus, clips, recordings, licence, _ in table[2:]:
        stated[corpus, False, licence] += int(clips)
        stated[corpus, True, licence] += int(recordings)
    assert +stated == count


def test_the_bundled_recordings() -> None:
    """The demo's and the one that speeds are measured on: about 15 s of speech, text, licence; none is a test clip."""
    entries = json.loads((SAMPLES / "samples.json").read_text("utf-8"))
    assert [entry["file"] for entry in entries] == ["demo.opus", "reading.opus"]
    for entry in entries:
        samples, rate = soundfile.read(SAMPLES / entry["file"], dtype="float32")
        assert (rate, samples.ndim) == (16_000, 1)
        assert len(samples) / rate == pytest.approx(entry["seconds"], abs=0.03) and 13 < entry["seconds"] < 18
        assert entry["text"].count(".") >= 2
        assert entry["licence"] in (DATA / "README.md").read_text("utf-8")
        used = {Path(clip["file"]).name for row in ROWS for clip in [row, *row.get("parts", [])]}
        assert not used & set(entry["source"])


def test_what_a_hearing_model_hears_first_is_the_reading() -> None:
    """Its first four seconds, but for what mu-law leaves out."""
    warm = PcmDecoder("mulaw", 16_000).decode((SAMPLES / "reading.mulaw").read_bytes())
    reading, _ = soundfile.read(SAMPLES / "reading.opus", dtype="float32")
    assert len(warm) == 64_000
    assert np.abs(warm - reading[: len(warm)]).max() < 0.02
