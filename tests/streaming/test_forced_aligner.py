"""Word times from an aligner beside the hearing model. tests/reference compares its numbers with the official code."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.manifest import ManifestError
from streaming.forced_aligner import mend, units_of
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import Clip
from tests.golden_models import aligner
from tests.streaming.listening import LIVE, OFFLINE, finals, listen


@pytest.fixture(scope="module")
def aligned(asr_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsrModel]:
    """The bundled model with an aligner of random weights."""
    model = AsrModel(asr_directory, sessions=3, aligner=aligner(tmp_path_factory.mktemp("aligner")))
    yield model
    model.close()


def test_finals_have_the_aligners_times(aligned: AsrModel, asr_model: AsrModel, clips: list[Clip]) -> None:
    """The aligner changes the times of a final and not its words. Times are in order and inside the segment."""
    clip = next(clip for clip in clips if clip.seconds > 5)
    ours = finals(listen(aligned, clip.samples, OFFLINE, [len(clip.samples)]))
    plain = finals(listen(asr_model, clip.samples, OFFLINE, [len(clip.samples)]))
    assert [f.text for f in ours] == [f.text for f in plain] and any(f.words for f in ours)
    assert [w.start for f in ours for w in f.words] != [w.start for f in plain for w in f.words]
    for final in ours:
        assert not any(word.approximate for word in final.words)
        edges = [edge for word in final.words for edge in (word.start, word.end)]
        assert all(a <= b for a, b in pairwise(edges))
        if edges:
            assert final.start - 1e-3 <= edges[0] and edges[-1] <= final.end + 1e-3


def test_live_times_are_the_files(aligned: AsrModel, clips: list[Clip]) -> None:
    """The aligner's times depend neither on interims nor on how the audio was cut."""
    for clip in clips[:3]:
        live = finals(listen(aligned, clip.samples, LIVE, [1600, 777]))
        assert live == finals(listen(aligned, clip.samples, OFFLINE, [len(clip.samples)]))


def test_a_model_of_the_other_kind_is_named(asr_directory: Path, tmp_path: Path) -> None:
    """An aligner cannot be loaded as a hearing model, nor a hearing model as an aligner."""
    other = aligner(tmp_path)
    with pytest.raises(ManifestError, match="aligns words and hears none"):
        AsrModel(other)
    with pytest.raises(ManifestError, match="which aligns no words"):
        AsrModel(asr_directory, sessions=1, aligner=asr_directory)


def test_keyterms_and_language_do_not_stand_in_its_way(aligned: AsrModel, clips: list[Clip]) -> None:
    """The aligner gives times whatever language and keyterms the session has."""
    options = ListenOptions(language="en", keyterms=("hearsay",), interim=False)
    found = finals(listen(aligned, clips[0].samples, options, [len(clips[0].samples)]))
    assert found and not any(word.approximate for final in found for word in final.words)


@given(st.lists(st.integers(0, 24_000), max_size=40))
def test_mended_marks_never_fall_and_believed_ones_stay(marks: list[int]) -> None:
    """Mended times never fall and lie between the least and the greatest. A list that never falls stays as it is."""
    mended = mend(marks)
    assert len(mended) == len(marks) and mended == sorted(mended)
    assert set(mend(sorted(marks))) <= set(marks) and mend(sorted(marks)) == sorted(marks)
    if marks:
        assert min(marks) <= mended[0] and mended[-1] <= max(marks)


def test_one_mark_out_of_order_takes_its_neighbours() -> None:
    """One wrong time takes the value of the nearer neighbour, the earlier of two equally near. A longer block is spread
    out."""
    assert mend([0, 800, 160, 240]) == [0, 0, 160, 240]
    assert mend([0, 9000, 9000, 80, 160, 240, 320]) == [0, 0, 80, 80, 160, 240, 320]
    assert mend([0, 100, 9000, 8000, 7000, 200, 300, 400, 500]) == [0, 100, 125, 150, 175, 200, 300, 400, 500]


def test_units() -> None:
    """Punctuation is dropped, and each ideograph is a unit by itself."""
    assert units_of("it's") == ["it's"]
    assert units_of("well-known,") == ["wellknown"]
    assert units_of("中文ok3") == ["中", "文", "ok3"]
    assert units_of("—") == [] and units_of("") == []
    assert units_of("a b") == ["a", "b"]
