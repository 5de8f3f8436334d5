"""A segment in the KV cache: nothing cancelled in it changes what comes after, and a leaking context is taken back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from bench.clips import pcm16, samples_of
from engines.batching import Cancelled, Owner
from engines.gguf import Rows
from streaming import decoding
from streaming.decoding import EMPTY, Hypothesis
from streaming.engine import BEYOND_SECONDS, HEAD_ROWS, SEGMENT_SECONDS
from streaming.model import AsrModel
from streaming.segment import Segment
from streaming.utterance import QUIET
from streaming.vad import FRAME
from streaming.windows import complete_windows
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.streaming.listening import Floats, continuous

SAMPLES = Path(__file__).parents[2] / "models" / "samples"
LEAKING = "he had been in the house"
"""A keyterm that the embedded model recites over noise once it has begun it."""


class GivenUp(Owner):
    """Cancelled when it was asked ``after`` times whether it is; ``asked`` tells how often it was."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.asked, self._after, self._lock = 0, after, threading.Lock()

    @property
    def cancelled(self) -> bool:
        """Asked by the lanes before every call."""
        with self._lock:
            self.asked += 1
            return self.asked > self._after


def noisy(clip: Clip) -> Floats:
    """The clip, hard to make out."""
    noise = np.random.default_rng(len(clip.samples)).standard_normal(len(clip.samples))
    return (0.5 * clip.samples + 0.1 * noise).astype(np.float32)


@contextmanager
def segment(model: AsrModel, samples: Floats, keyterms: tuple[str, ...]) -> Iterator[tuple[Segment, Work]]:
    """One that has heard ``samples``, none of its windows closed."""
    engine, work = model.engine, Work()
    sequence = engine.acquire(Owner())
    try:
        language = engine.language(None)
        head = engine.head(keyterms, language)
        engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows)), Owner())
        made = Segment(engine, sequence, head, language, work)
        made.extend(samples)
        yield made, work
    finally:
        engine.release(sequence)


@pytest.fixture(scope="module")
def leaking(asr_model: AsrModel, clips: list[Clip]) -> list[Floats]:
    """Speech over which the model recites ``LEAKING``."""
    found: list[Floats] = []
    for clip in clips[:60]:
        samples = noisy(clip)[: int(9.5 * RATE)]
        with segment(asr_model, samples, (LEAKING,)) as (made, work):
            for _ in range(complete_windows(asr_model.manifest, len(samples))):
                made.advance(Owner())
            made.final(made.length, Owner())
            if work.context_redecoded:
                found.append(samples)
        if len(found) == 3:
            break
    assert len(found) == 3
    return sorted(found, key=len, reverse=True)


def cancelled_everywhere(
    asr_model: AsrModel, samples: Floats, keyterms: tuple[str, ...], act: Callable[[Segment, Owner], object]
) -> None:
    """``act`` is given up at several points; what it gives afterwards, and the final, are those of a segment in which
    nothing was."""
    with segment(asr_model, samples, keyterms) as (plain, _):
        complete = complete_windows(asr_model.manifest, len(samples))
        for _ in range(complete):
            plain.advance(Owner())
        owner = GivenUp(10**9)
        first, final = act(plain, owner), plain.final(plain.length, Owner())
    for after in np.linspace(0, owner.asked - 2, 6).astype(int).tolist():
        with segment(asr_model, samples, keyterms) as (made, _):
            for _ in range(complete):
                made.advance(Owner())
            with pytest.raises(Cancelled):
                act(made, GivenUp(after))
            assert act(made, Owner()) == first
            assert made.final(made.length, Owner()) == final


def test_a_final_that_is_given_up_anywhere_leaves_nothing_behind(asr_model: AsrModel, clips: list[Clip]) -> None:
    def final(made: Segment, owner: Owner) -> Hypothesis:
        return made.final(made.length, owner)

    cancelled_everywhere(asr_model, continuous(clips, 9), (), final)


def test_an_interim_that_is_given_up_anywhere_leaves_nothing_behind(asr_model: AsrModel, clips: list[Clip]) -> None:
    def interim(made: Segment, owner: Owner) -> Hypothesis:
        return made.interim(EMPTY, (), owner)

    cancelled_everywhere(asr_model, continuous(clips, 5), (), interim)


def test_a_context_that_was_taken_back_is_there_again_wherever_that_was_given_up(
    asr_model: AsrModel, leaking: list[Floats]
) -> None:
    """Speech goes on while the final in advance is decoded without its context."""

    def final(made: Segment, owner: Owner) -> Hypothesis:
        return made.final(made.length, owner)

    cancelled_everywhere(asr_model, leaking[0], (LEAKING,), final)


def test_a_keyterm_comes_out_as_it_is_given_where_the_head_heard_it(asr_model: AsrModel) -> None:
    """In the final and in interims; the model alone writes it otherwise, and so it does if nobody says the term."""
    (samples,) = (part for part in samples_of(*pcm16(SAMPLES / "reading.opus"), RATE) if len(part))
    for term, expected in (("Lady", "the Lady played"), ("Locust", "the lady played"), ("", "the lady played")):
        with segment(asr_model, samples[: int(4.6 * RATE)], (term,) if term else ()) as (made, _):
            assert expected in made.interim(EMPTY, (), Owner()).answer.text
            assert expected in made.final(made.length, Owner()).answer.text


def test_a_text_that_never_ends_stays_within_the_cache(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interims of a segment of full length behind the longest list of keyterms, by a model that neither ends a text nor
    repeats itself: each has the last one as its draft, and more audio before it."""
    assert FRAME + QUIET <= BEYOND_SECONDS * RATE
    monkeypatch.setattr(decoding, "loop", lambda tokens: 0)
    monkeypatch.setattr(asr_model.engine.prompt, "stop", frozenset())
    samples, hypothesis, terms = continuous(clips, SEGMENT_SECONDS + BEYOND_SECONDS), EMPTY, list[str]()
    while len(asr_model.engine.prompt.head([*terms, "Oslo"])) <= HEAD_ROWS:
        terms.append("Oslo")
    with segment(asr_model, samples[:RATE], tuple(terms)) as (made, work):
        for at in range(RATE, len(samples), RATE):
            made.extend(samples[at : at + RATE])
            while complete_windows(asr_model.manifest, made.length) > work.windows:
                made.advance(Owner())
            before, hypothesis = hypothesis, made.interim(hypothesis, hypothesis.answer.body, Owner())
            assert hypothesis.tokens[: len(before.tokens)] == before.tokens
        assert len(made.final(made.length, Owner()).tokens) == len(hypothesis.tokens)


def test_a_window_that_is_given_up_anywhere_is_encoded_once(asr_model: AsrModel, clips: list[Clip]) -> None:
    samples = continuous(clips, 9)
    with segment(asr_model, samples, ()) as (plain, _):
        owner = GivenUp(10**9)
        plain.advance(owner)
        expected = plain.final(plain.length, Owner())
    for after in range(owner.asked - 1):
        with segment(asr_model, samples, ()) as (made, work):
            with pytest.raises(Cancelled):
                made.advance(GivenUp(after))
            made.advance(Owner())
            assert made.final(made.length, Owner()) == expected
            assert work.windows == 1 and work.window_rows == asr_model.manifest.encoder.window_rows


def test_what_leaks_is_heard_again_without_the_context(asr_model: AsrModel, leaking: list[Floats]) -> None:
    """As a segment hears it that never had one; afterwards the context is there again, and leaks again."""
    for samples in leaking:
        with segment(asr_model, samples, ()) as (plain, plain_work):
            windows = complete_windows(asr_model.manifest, len(samples))
            for _ in range(windows):
                plain.advance(Owner())
            expected = plain.final(plain.length, Owner())
        with segment(asr_model, samples, (LEAKING,)) as (made, work):
            for _ in range(windows):
                made.advance(Owner())
            assert [made.final(made.length, Owner()) for _ in range(2)] == [expected] * 2
        assert (plain_work.context_redecoded, work.context_redecoded) == (0, 2)
