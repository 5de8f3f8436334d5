"""Keyterms that leak into the text are told from keyterms that were said."""

import numpy as np
import pytest

from streaming.context import Run, recited, supported
from streaming.hypothesis import Hypothesis
from streaming.model import AsrModel
from tests.clips import Clip

CONTEXT = "kubernetes grafana prometheus new york city".split()


def test_three_context_words_in_order_are_suspicious() -> None:
    """Wherever they stand; case and punctuation do not hide them."""
    assert recited("well kubernetes Grafana, prometheus then".split(), CONTEXT) == Run(1, 4)
    assert recited("he lives in new york city now".split(), CONTEXT) == Run(3, 6)


def test_two_or_another_order_are_not() -> None:
    """A keyterm that was said is what the context is for."""
    assert recited("kubernetes and grafana prometheus".split(), CONTEXT) is None
    assert recited("prometheus grafana kubernetes".split(), CONTEXT) is None
    assert recited([], CONTEXT) is None


def test_support_is_what_the_ctc_head_heard() -> None:
    """Tokens with their own rows are supported, tokens without are not."""
    rows, vocabulary = 30, 10
    log_probs = np.full((rows, vocabulary + 1), -9.0, np.float32)
    log_probs[:, vocabulary] = -0.1
    for row, token in ((3, 1), (8, 2), (12, 3)):
        log_probs[row, token], log_probs[row, vocabulary] = -0.05, -4.0
    assert supported(log_probs, [1, 2, 3], (0, 3), vocabulary)
    assert not supported(log_probs, [4, 5, 6], (0, 3), vocabulary)
    assert not supported(log_probs, [1] * 40, (0, 40), vocabulary)


@pytest.mark.parametrize("seconds", [2, 11])
def test_the_replay_without_context_hears_what_a_session_without_context_hears(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A re-decoded final equals the one of a session that never had keyterms, and the context is back afterwards."""
    from streaming.options import ListenOptions
    from streaming.recognizer import Segment
    from tests.streaming.test_listener import continuous, finals, listen

    samples = continuous(clips, seconds)
    plain = ListenOptions(interim=False, endpointing=None)
    biased = ListenOptions(interim=False, endpointing=None, keyterms=("grafana", "marjoram"))
    without = finals(listen(asr_model, samples, plain, [len(samples)]))
    biased_before = finals(listen(asr_model, samples, biased, [len(samples)]))

    def leaks(self: Segment, hypothesis: Hypothesis) -> bool:
        """As long as there is a context, it leaks."""
        return bool(self.keyterms)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "leaks", leaks)
        listener = asr_model.listener(biased)
        taken_back = finals(listener.feed(samples) + listener.finalize())
    assert listener.work.context_redecoded == 1
    assert [f.text for f in taken_back] == [f.text for f in without]
    again = finals(listener.feed(samples) + listener.finish())
    assert [f.text for f in again] == [f.text for f in biased_before]
