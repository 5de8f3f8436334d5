"""A segment in the KV cache: cancelled work changes nothing that follows, and recited keyterms are taken back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from bench.clips import pcm16, samples_of
from engines.gguf import Rows
from engines.lane import Steps
from streaming import decoding
from streaming.ctc import CtcRows
from streaming.decoding import EMPTY, Hypothesis
from streaming.engine import BEYOND_SECONDS, HEAD_ROWS, SEGMENT_SECONDS
from streaming.model import AsrModel
from streaming.segment import Segment
from streaming.utterance import QUIET
from streaming.vad import FRAME
from streaming.windows import complete_windows
from streaming.work import Work
from tests.clips import DATA, RATE, Clip, read_clip
from tests.streaming.listening import Floats, continuous

SAMPLES = Path(__file__).parents[2] / "models" / "samples"
LEAKING = "he had been in the house"
"""A keyterm that the embedded model recites over noise once it has begun it."""


class GivenUp:
    """Runs work and closes it before the call after ``after`` calls; ``calls`` counts those it made."""

    def __init__(self, after: int) -> None:
        self.calls, self._after = 0, after

    def __call__(self, steps: Steps[object]) -> Steps[object]:
        try:
            call = next(steps)
            while self.calls < self._after:
                self.calls += 1
                call = steps.send((yield call))
        except StopIteration as end:
            return end.value
        steps.close()
        return None


def noisy(clip: Clip) -> Floats:
    """The clip with so much noise that it is hard to make out."""
    noise = np.random.default_rng(len(clip.samples)).standard_normal(len(clip.samples))
    return (0.5 * clip.samples + 0.1 * noise).astype(np.float32)


@contextmanager
def segment(model: AsrModel, samples: Floats, keyterms: tuple[str, ...]) -> Iterator[tuple[Segment, Work]]:
    """A segment that has all of ``samples``, with none of its windows closed yet."""
    engine, work = model.engine, Work()
    sequence = engine.lane.run(engine.acquire())
    try:
        language = engine.language(None)
        head = engine.head(keyterms, language)
        engine.lane.run(engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows))))
        made = Segment(engine, sequence, head, language, work)
        made.extend(samples)
        yield made, work
    finally:
        engine.release(sequence)


@pytest.fixture(scope="module")
def leaking(asr_model: AsrModel, clips: list[Clip]) -> list[Floats]:
    """Speech for which the model recites ``LEAKING``."""
    found: list[Floats] = []
    for clip in clips[:60]:
        samples = noisy(clip)[: int(9.5 * RATE)]
        with segment(asr_model, samples, (LEAKING,)) as (made, work):
            for _ in range(complete_windows(asr_model.manifest, len(samples))):
                asr_model.engine.lane.run(made.advance())
            asr_model.engine.lane.run(made.final(made.length))
            if work.context_redecoded:
                found.append(samples)
        if len(found) == 3:
            break
    assert len(found) == 3
    return sorted(found, key=len, reverse=True)


def cancelled_everywhere(
    asr_model: AsrModel, samples: Floats, keyterms: tuple[str, ...], act: Callable[[Segment], Steps[Hypothesis]]
) -> None:
    """Close the work that ``act`` gives at several points. What it gives afterwards, and the final, must be those of a
    segment in which nothing was cancelled."""
    run = asr_model.engine.lane.run
    with segment(asr_model, samples, keyterms) as (plain, _):
        complete = complete_windows(asr_model.manifest, len(samples))
        for _ in range(complete):
            run(plain.advance())
        whole = GivenUp(10**9)
        first, final = run(whole(act(plain))), run(plain.final(plain.length))
    assert whole.calls > 3
    for after in np.linspace(0, whole.calls - 1, 6).astype(int).tolist():
        with segment(asr_model, samples, keyterms) as (made, _):
            for _ in range(complete):
                run(made.advance())
            assert run(GivenUp(after)(act(made))) is None
            assert run(act(made)) == first
            assert run(made.final(made.length)) == final


def test_a_final_that_is_given_up_anywhere_leaves_nothing_behind(asr_model: AsrModel, clips: list[Clip]) -> None:
    def final(made: Segment) -> Steps[Hypothesis]:
        return made.final(made.length)

    cancelled_everywhere(asr_model, continuous(clips, 9), (), final)


def test_an_interim_that_is_given_up_anywhere_leaves_nothing_behind(asr_model: AsrModel, clips: list[Clip]) -> None:
    def interim(made: Segment) -> Steps[Hypothesis]:
        return made.interim(EMPTY, ())

    cancelled_everywhere(asr_model, continuous(clips, 5), (), interim)


def test_a_context_that_was_taken_back_is_there_again_wherever_that_was_given_up(
    asr_model: AsrModel, leaking: list[Floats]
) -> None:
    """If speech goes on while a final in advance is decoded without keyterms, the keyterms return to the cache."""

    def final(made: Segment) -> Steps[Hypothesis]:
        return made.final(made.length)

    cancelled_everywhere(asr_model, leaking[0], (LEAKING,), final)


def test_a_keyterm_comes_out_as_it_is_given_where_the_head_heard_it(asr_model: AsrModel) -> None:
    """A keyterm that is said is written as it was given, in finals and interims. Without it, or if nobody says it, the
    model writes its own text."""
    samples = np.concatenate(list(samples_of(*pcm16(SAMPLES / "reading.opus"), RATE)))
    for term, expected in (("Lady", "the Lady played"), ("Locust", "the lady played"), ("", "the lady played")):
        with segment(asr_model, samples[: int(4.6 * RATE)], (term,) if term else ()) as (made, _):
            assert expected in asr_model.engine.lane.run(made.interim(EMPTY, ())).answer.text
            assert expected in asr_model.engine.lane.run(made.final(made.length)).answer.text


def test_speech_that_begins_inside_a_word_has_a_text_and_noise_has_none(asr_model: AsrModel) -> None:
    """The decoder alone takes all of these for noise, in some interim or in the final."""
    run = asr_model.engine.lane.run
    for name, start, last in (("3b6d9d766003", 1.16, "fantasies"), ("5b423ed81f90", 1.01, "himself")):
        samples = read_clip(DATA / "clips" / f"{name}.opus").samples[int(start * RATE) :]
        with segment(asr_model, samples, ()) as (made, _):
            assert run(made.final(made.length, QUIET)).answer.text.endswith(f" {last}.")
        for seconds in (0.48, 0.74, len(samples) / RATE):
            with segment(asr_model, samples[: int(seconds * RATE)], ()) as (made, _):
                assert run(made.interim(EMPTY, ())).answer.text
    noise = 0.02 * np.random.default_rng(1).standard_normal(RATE).astype(np.float32)
    with segment(asr_model, noise, ()) as (made, _):
        assert run(made.interim(EMPTY, ())).answer.text == run(made.final(made.length)).answer.text == ""


def test_what_the_head_newly_heard_saves_an_interim_steps_and_changes_no_token(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interims every quarter of a second, with the head's tokens as a guess and without."""

    def texts() -> tuple[list[tuple[int, ...]], int]:
        found, steps = list[tuple[int, ...]](), 0
        for clip in clips[:6]:
            hypothesis, samples = EMPTY, clip.samples[: 4 * RATE]
            with segment(asr_model, samples[:0], ()) as (made, work):
                for at in range(0, len(samples), RATE // 4):
                    made.extend(samples[at : at + RATE // 4])
                    hypothesis = asr_model.engine.lane.run(made.interim(hypothesis, ()))
                    found.append(hypothesis.tokens)
                steps += work.steps
        return found, steps

    guessed, few = texts()
    monkeypatch.setattr(CtcRows, "path", lambda _: [])
    plain, many = texts()
    assert guessed == plain
    assert few < 0.9 * many


def test_a_text_that_never_ends_stays_within_the_cache(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that neither ends a text nor repeats itself stays within the cache, in interims of a full segment after
    the longest list of keyterms."""
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
                asr_model.engine.lane.run(made.advance())
            before, hypothesis = hypothesis, asr_model.engine.lane.run(made.interim(hypothesis, hypothesis.answer.body))
            assert hypothesis.tokens[: len(before.tokens)] == before.tokens
        assert len(asr_model.engine.lane.run(made.final(made.length)).tokens) == len(hypothesis.tokens)


def test_a_window_that_is_given_up_anywhere_is_encoded_once(asr_model: AsrModel, clips: list[Clip]) -> None:
    samples = continuous(clips, 9)
    with segment(asr_model, samples, ()) as (plain, _):
        whole, run = GivenUp(10**9), asr_model.engine.lane.run
        run(whole(plain.advance()))
        expected = run(plain.final(plain.length))
    assert whole.calls == 3
    for after in range(whole.calls):
        with segment(asr_model, samples, ()) as (made, work):
            run(GivenUp(after)(made.advance()))
            run(made.advance())
            assert run(made.final(made.length)) == expected
            assert work.windows == 1 and work.window_rows == asr_model.manifest.encoder.window_rows


def test_what_leaks_is_heard_again_without_the_context(asr_model: AsrModel, leaking: list[Floats]) -> None:
    """A text that recites the keyterms is decoded again without them, as if there had been none. Afterwards they are in
    the cache again."""
    for samples in leaking:
        with segment(asr_model, samples, ()) as (plain, plain_work):
            windows = complete_windows(asr_model.manifest, len(samples))
            for _ in range(windows):
                asr_model.engine.lane.run(plain.advance())
            expected = asr_model.engine.lane.run(plain.final(plain.length))
        with segment(asr_model, samples, (LEAKING,)) as (made, work):
            for _ in range(windows):
                asr_model.engine.lane.run(made.advance())
            assert [asr_model.engine.lane.run(made.final(made.length)) for _ in range(2)] == [expected] * 2
        assert (plain_work.context_redecoded, work.context_redecoded) == (0, 2)
