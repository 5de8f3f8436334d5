"""What a segment commits words by: its hypotheses' own probabilities, and the CTC head where the model has one."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import streaming.ctc_rows
from streaming.alignment import align
from streaming.events import Transcript
from streaming.interims import Interims
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.stability import DECODER_ALONE, WITH_CTC, Heard, Stability
from tests.clips import Clip
from tests.golden_models import GOLDEN

Floats = npt.NDArray[np.float32]
PIECE = 1600


@pytest.fixture(scope="module")
def without_ctc() -> Iterator[AsrModel]:
    """Random weights in the official architecture, which has no CTC head."""
    model = AsrModel(GOLDEN / "int8", sessions=1)
    yield model
    model.close()


def interims(model: AsrModel, samples: Floats) -> Iterator[Transcript]:
    """Live, in pieces of 100 ms."""
    listener = model.listener(ListenOptions(endpointing=None))
    for start in range(0, len(samples), PIECE):
        for event in listener.feed(samples[start : start + PIECE]):
            if isinstance(event, Transcript) and not event.is_final:
                yield event
    listener.finish()


def rules(model: AsrModel, samples: Floats, monkeypatch: pytest.MonkeyPatch) -> set[object]:
    """The rules of the segments that are opened."""
    used = set[object]()
    inner = Stability.__init__

    def noted(self: Stability, rule: object) -> None:
        used.add(rule)
        inner(self, DECODER_ALONE)

    with monkeypatch.context() as patch:
        patch.setattr(Stability, "__init__", noted)
        list(interims(model, samples))
    return used


def test_only_a_ctc_head_loosens_the_rule(
    asr_model: AsrModel, without_ctc: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models without one commit by the decoder alone."""
    assert rules(asr_model, clips[0].samples, monkeypatch) == {WITH_CTC}
    assert rules(without_ctc, clips[0].samples, monkeypatch) == {DECODER_ALONE}


def test_what_the_ctc_head_does_not_hear_is_not_committed(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same hypotheses, which nothing committed changes here."""
    samples = np.concatenate([clip.samples for clip in clips[:2]])
    assert max(event.stable_words for event in interims(asr_model, samples)) > 3

    def deaf(_: Floats, __: Sequence[int], spans: Sequence[object], ___: int) -> list[float]:
        return [-20.0] * len(spans)

    monkeypatch.setattr(streaming.ctc_rows, "word_scores", deaf)
    assert max(event.stable_words for event in interims(asr_model, samples)) == 0


def test_words_carry_what_the_hypothesis_says_of_them(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least probability of their tokens, that of the token after them, and on request their CTC scores."""
    counts, committing = list[int](), list[Interims]()
    inner = Interims._commit

    def commit(self: Interims) -> None:
        committing.append(self)
        inner(self)

    def update(_: Stability, words: Sequence[Heard], seconds: float, ctc: Callable[[], Sequence[float]]) -> None:
        segment, hypothesis = committing[-1]._segment, committing[-1].hypothesis  # pyright: ignore[reportPrivateUsage]
        body, probabilities = hypothesis.answer.body, hypothesis.body_probabilities
        rows, blank = segment.ctc, asr_model.manifest.encoder.ctc_blank
        assert rows is not None and blank is not None
        assert seconds == segment.length / asr_model.sample_rate
        alignment = align(rows, body, blank)
        at = 0
        for word, score in zip(words, ctc(), strict=True):
            end = at + len(word.tokens)
            assert word.tokens == body[at:end]
            assert word.sure == min(probabilities[at:end])
            assert word.after == (probabilities[end] if end < len(body) else 0)
            assert score == (-np.inf if alignment is None else pytest.approx(alignment.score[at:end].mean()))
            at = end
        counts.append(len(words))

    monkeypatch.setattr(Interims, "_commit", commit)
    monkeypatch.setattr(Stability, "update", update)
    list(interims(asr_model, clips[0].samples))
    assert max(counts) > 2
