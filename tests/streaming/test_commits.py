"""Which words are committed, by the probabilities of real hypotheses and, if the model has one, the CTC head."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engines.gguf import Rows
from streaming.ctc import CtcRows, align
from streaming.decoding import EMPTY, Hypothesis
from streaming.events import bare
from streaming.model import AsrModel
from streaming.segment import Segment
from streaming.stability import DECODER_ALONE, WITH_CTC, Stability, TokenWord
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.golden_models import GOLDEN


class Noted(Stability):
    """A rule for committing that only records the words and CTC scores it is given."""

    def __init__(self) -> None:
        super().__init__(WITH_CTC)
        self.heard: Sequence[TokenWord] = ()
        self.scores: Sequence[float] = ()

    def update(self, words: Sequence[TokenWord], ctc: Callable[[], Sequence[float]], *, pause: bool = False) -> None:
        """Record the words of a hypothesis and their scores."""
        self.heard, self.scores = words, ctc()


@pytest.fixture(scope="module")
def heard(asr_model: AsrModel, clips: list[Clip]) -> list[tuple[Hypothesis, CtcRows]]:
    """Interim hypotheses of the beginnings of some clips, each with the CTC head's rows of its clip."""
    engine = asr_model.engine
    sequence = engine.lane.run(engine.acquire())
    language = engine.language(None)
    head = engine.head((), language)
    engine.lane.run(engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows))))
    found: list[tuple[Hypothesis, CtcRows]] = []
    for clip in clips[:6]:
        segment = Segment(engine, sequence, head, language, Work())
        segment.extend(clip.samples[: 5 * RATE])
        found.append((engine.lane.run(segment.interim(EMPTY, ())), segment.ctc))
    engine.release(sequence)
    return found


def test_only_a_ctc_head_loosens_the_rule(asr_model: AsrModel) -> None:
    """A model without a CTC head, as official ones are, commits by the decoder alone."""
    assert asr_model.engine.rule is WITH_CTC
    official = AsrModel(GOLDEN / "int8", sessions=1)
    assert official.engine.rule is DECODER_ALONE
    official.close()


def test_what_the_ctc_head_does_not_hear_is_not_committed(
    asr_model: AsrModel, heard: list[tuple[Hypothesis, CtcRows]]
) -> None:
    """No word is committed that the CTC head does not find in the audio, however often hypotheses agree on it."""

    def committed(hypothesis: Hypothesis, ctc: CtcRows) -> int:
        stability = Stability(WITH_CTC)
        for pause in (False, False, True):
            stability.hear(hypothesis, asr_model.engine.prompt, ctc, pause=pause)
        return len(stability.words)

    counts: list[int] = []
    for hypothesis, rows in heard:
        assert rows.log_probs is not None
        deaf = CtcRows(rows.blank)
        deaf.end(np.full_like(rows.log_probs, -20.0))
        assert committed(hypothesis, deaf) == 0
        counts.append(committed(hypothesis, rows))
    assert max(counts) > 3


def test_words_carry_what_the_hypothesis_says_of_them(
    asr_model: AsrModel, heard: list[tuple[Hypothesis, CtcRows]]
) -> None:
    """Each word comes with the least probability of its tokens, that of the token after them, and its CTC score."""
    hypothesis, rows = heard[0]
    stability = Noted()
    assert stability.hear(hypothesis, asr_model.engine.prompt, rows)
    assert len(stability.heard) > 3
    body, probabilities = hypothesis.answer.body, hypothesis.body_probabilities
    assert rows.log_probs is not None and rows.blank is not None
    alignment = align(rows.log_probs, body, rows.blank)
    assert alignment is not None
    at = 0
    for word, score in zip(stability.heard, stability.scores, strict=True):
        end = at + len(word.tokens)
        assert word.tokens == body[at:end]
        assert word.sure == min(probabilities[at:end])
        assert word.after == (probabilities[end] if end < len(body) else 0)
        assert score == pytest.approx(alignment.score[at:end].mean())
        assert word.mark == body[end : end + len(word.mark)]
        at = end + len(word.mark)
    assert at == len(body)
    assert [word.text for word in stability.heard] == [bare(word) for word in hypothesis.answer.text.split()]


def test_a_final_in_a_pause_that_lacks_committed_words_is_passed_over(
    asr_model: AsrModel, heard: list[tuple[Hypothesis, CtcRows]]
) -> None:
    """A final in a pause that does not begin with the committed words changes nothing."""
    (one, rows), (other, _) = heard[:2]
    stability = Stability(WITH_CTC)
    assert stability.hear(one, asr_model.engine.prompt, rows, pause=True)
    committed = stability.words
    assert committed and one.answer.body[0] != other.answer.body[0]
    assert not stability.hear(other, asr_model.engine.prompt, rows, pause=True)
    assert stability.words == committed


def test_a_committed_word_does_not_go_on_in_a_pause(asr_model: AsrModel) -> None:
    """A final in which a committed word goes on as a longer one is ignored. A mark after the word does not make it
    another."""
    prompt = asr_model.engine.prompt
    stability = Stability(DECODER_ALONE)

    def hear(text: str) -> bool:
        (tokens,) = (tuple(form) for term in prompt.terms([text]) for form in term[:1])
        sure = Hypothesis(tokens, (0.99,) * len(tokens), prompt.answer(tokens, "en"))
        return stability.hear(sure, prompt, CtcRows(None), pause=True)

    assert hear("taken by Tom") and stability.words == ("taken", "by", "Tom")
    for longer in ("taken by Tom's daughter", "taken by Tommy"):
        assert not hear(longer) and stability.words == ("taken", "by", "Tom")
    assert hear("taken by Tom. And") and stability.words == ("taken", "by", "Tom", "And")
