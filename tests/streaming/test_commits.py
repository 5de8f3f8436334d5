"""What words are committed by: their hypotheses' own probabilities, and the CTC head where the model has one."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engines.batching import Owner
from engines.gguf import Rows
from streaming.ctc import CtcRows, align
from streaming.decoding import EMPTY, Hypothesis
from streaming.events import bare
from streaming.model import AsrModel
from streaming.segment import Segment
from streaming.stability import DECODER_ALONE, WITH_CTC, Heard, Stability
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.golden_models import GOLDEN


class Noted(Stability):
    """Keeps what it is told of words, and of their CTC scores."""

    def __init__(self) -> None:
        super().__init__(WITH_CTC)
        self.heard: Sequence[Heard] = ()
        self.scores: Sequence[float] = ()

    def update(self, words: Sequence[Heard], ctc: Callable[[], Sequence[float]], *, pause: bool = False) -> None:
        """Take the words of a hypothesis."""
        self.heard, self.scores = words, ctc()


@pytest.fixture(scope="module")
def heard(asr_model: AsrModel, clips: list[Clip]) -> list[tuple[Hypothesis, CtcRows]]:
    """Interims of the beginnings of some clips, and the rows of what each heard."""
    engine = asr_model.engine
    sequence = engine.acquire(Owner())
    language = engine.language(None)
    head = engine.head((), language)
    engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows)), Owner())
    found: list[tuple[Hypothesis, CtcRows]] = []
    for clip in clips[:6]:
        segment = Segment(engine, sequence, head, language, Work())
        segment.extend(clip.samples[: 5 * RATE])
        found.append((segment.interim(EMPTY, (), Owner()), segment.ctc))
    engine.release(sequence)
    return found


def test_only_a_ctc_head_loosens_the_rule(asr_model: AsrModel) -> None:
    """Models without one, as the official ones are, commit by the decoder alone."""
    assert asr_model.engine.rule is WITH_CTC
    official = AsrModel(GOLDEN / "int8", sessions=1)
    assert official.engine.rule is DECODER_ALONE
    official.close()


def test_what_the_ctc_head_does_not_hear_is_not_committed(
    asr_model: AsrModel, heard: list[tuple[Hypothesis, CtcRows]]
) -> None:
    """However often the same is heard."""

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
    """The least probability of their tokens, that of the token after them, and their CTC scores."""
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
    """What is committed stays."""
    (one, rows), (other, _) = heard[:2]
    stability = Stability(WITH_CTC)
    assert stability.hear(one, asr_model.engine.prompt, rows, pause=True)
    committed = stability.words
    assert committed and one.answer.body[0] != other.answer.body[0]
    assert not stability.hear(other, asr_model.engine.prompt, rows, pause=True)
    assert stability.words == committed


def test_a_committed_word_does_not_go_on_in_a_pause(asr_model: AsrModel) -> None:
    """Where its tokens begin a longer word: that is another one. A mark behind it is none of it."""
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
