"""The n-best list, compared with decoding every alternative by itself, on made-up decoders and on the real model."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engines.gguf import Rows
from streaming.ctc import log_likelihoods
from streaming.decoding import Choice, Draft, Floats, budget, follow
from streaming.keyterms import KeytermBias
from streaming.model import AsrModel
from streaming.rescoring import CTC, CUT, DRAFT, MOST, NEAR, PER_TOKEN, Evaluate, expected, rescored
from streaming.segment import Segment
from streaming.windows import Windows
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.lanes import alone, yielding

NO_TERMS = KeytermBias([])
STOP = 5
"""Ends a text of the made-up decoders; their vocabulary is 0…5."""
FIRST = 7
"""Position of their first token's row."""


def alternatives(greedy: Draft, start: int) -> list[tuple[int, int, float]]:
    """The (place, token, logarithm) of the alternatives that are tried: the likeliest ``MOST`` of those above ``CUT``,
    or of all where the text has no word."""
    all_ = [
        (choice.log - log, at, token, log)
        for at, choice in enumerate(greedy.choices)
        for token, log in choice.others
        if at >= start and (choice.log - log < CUT or len(greedy.tokens) == start)
    ]
    return [(at, token, log) for _, at, token, log in sorted(all_)[:MOST]]


def by_brute_force(
    greedy: Draft,
    start: int,
    step: Callable[[int, int], Floats],
    stop: frozenset[int],
    position: int,
    limit: int,
    bias: KeytermBias,
) -> list[Draft]:
    """The greedy text, and each alternative that ends, decoded from its first token on, row by row."""
    found = {tuple(greedy.tokens): greedy}
    for at, token, log in alternatives(greedy, start):
        draft = Draft(greedy.tokens[:at], greedy.probabilities[:at], [*greedy.choices[:at], Choice(log)])
        draft.ended = token in stop
        if not draft.ended:
            draft.append(token, float(np.exp(log)))
            logits = np.zeros(0, np.float32)
            for i, each in enumerate(draft.tokens):
                logits = step(each, position + i)
            bias.apply(logits, draft.tokens)
            at, one = position + len(draft.tokens), yielding(step)
            alone(follow(draft, logits, at, step=one, stop=stop, bias=bias, limit=limit, choices=True))
        if draft.ended:
            found.setdefault(tuple(draft.tokens), draft)
    return list(found.values())


def scores(drafts: Sequence[Draft], start: int, ctc: Floats, blank: int) -> list[float]:
    """The scores by which the best text is chosen."""
    heard = log_likelihoods(ctc, [draft.tokens[start:] for draft in drafts], blank)
    heard = CTC * heard if np.isfinite(heard).any() else np.zeros(len(drafts))
    return [
        sum(choice.log for choice in draft.choices) + PER_TOKEN * len(draft.tokens) + float(h)
        for draft, h in zip(drafts, heard, strict=True)
    ]


class Made:
    """A made-up decoder with a cache. Its logits are drawn from ``seed`` and all tokens so far."""

    def __init__(self, seed: int, sharpness: float) -> None:
        self._seed, self._sharpness = seed, sharpness
        self._cache: list[int] = []

    def logits(self) -> Floats:
        """After what is in the cache. Ends become likelier with length."""
        found = np.random.default_rng([self._seed, *self._cache]).standard_normal(STOP + 1) * self._sharpness
        found[STOP] += 0.3 * len(self._cache) - 2
        return found.astype(np.float32)

    def evaluate(self, tokens: Sequence[int], position: int, wanted: int) -> Floats:
        """Forgets what stands from ``position`` on."""
        assert FIRST <= position <= FIRST + len(self._cache), "a gap in the cache"
        del self._cache[position - FIRST :]
        found: list[Floats] = []
        for token in tokens:
            self._cache.append(token)
            found.append(self.logits())
        return np.stack(found[wanted:])

    def step(self, token: int, position: int) -> Floats:
        """One row."""
        return self.evaluate([token], position, 0)[0]


@example(seed=57054, sharpness=1.25, start=0, rows=1, limit=13, term=[4, 3, 3])  # an end right behind the limit
@given(
    seed=st.integers(0, 10**6),
    sharpness=st.floats(0.3, 3),
    start=st.integers(0, 2),
    rows=st.integers(1, 12),
    limit=st.integers(6, 40),
    term=st.lists(st.integers(0, STOP - 1), max_size=3),
)
def test_drafts_save_calls_and_change_nothing(
    seed: int, sharpness: float, start: int, rows: int, limit: int, term: list[int]
) -> None:
    """Text, score and probabilities are those of decoding every alternative by itself, with limits, loops, bonuses, and
    clips too short for any text."""
    stop, bias = frozenset({STOP}), KeytermBias([[term]] if term else [])
    decoder, greedy = Made(seed, sharpness), Draft()
    logits = decoder.logits()
    bias.apply(logits, ())
    one, several = yielding(decoder.step), yielding(decoder.evaluate)
    alone(follow(greedy, logits, FIRST, step=one, stop=stop, bias=bias, limit=limit, choices=True))
    if not greedy.ended or len(greedy.tokens) < start:
        return
    ctc = np.log(np.random.default_rng(seed).dirichlet(np.ones(STOP + 2), rows)).astype(np.float32)
    blank = STOP + 1
    best = alone(rescored(greedy, start, FIRST, ctc, blank, evaluate=several, stop=stop, bias=bias, limit=limit))
    drafts = by_brute_force(greedy, start, Made(seed, sharpness).step, stop, FIRST, limit, bias)
    each = scores(drafts, start, ctc, blank)
    assert scores([best], start, ctc, blank)[0] == pytest.approx(max(each)) or not np.isfinite(max(each))
    chosen = drafts[int(np.argmax(each))]
    if len(each) == 1 or sorted(each)[-1] > sorted(each)[-2] + 1e-6:
        assert best.tokens == chosen.tokens
        assert best.probabilities == pytest.approx(chosen.probabilities)
        assert [choice.log for choice in best.choices] == pytest.approx([choice.log for choice in chosen.choices])


@given(
    greedy=st.lists(st.integers(0, 4), max_size=30),
    place=st.integers(0, 30),
    token=st.integers(0, 4),
    begin=st.integers(0, 30),
)
def test_a_draft_is_what_followed_the_nearest_same_token(greedy: list[int], place: int, token: int, begin: int) -> None:
    found = list(expected(greedy, place, token, begin))
    near = [k for k in range(begin, len(greedy)) if abs(k - place) <= NEAR and greedy[k] == token]
    if not near:
        assert found == []
    else:
        nearest = min(abs(k - place) for k in near)
        assert found in [greedy[k + 1 : k + 1 + DRAFT] for k in near if abs(k - place) == nearest]


class Real:
    """The model's own decoder over one clip that is shorter than a window."""

    def __init__(self, model: AsrModel, samples: Floats, sequence: int) -> None:
        engine = self.engine = model.engine
        self._sequence = sequence
        language = engine.language(None)
        head = engine.head((), language)
        windows = Windows(engine.encoder, engine.log_mel, Work())
        windows.extend(samples)
        tail = engine.lane.run(windows.tail(len(samples)))
        assert tail.ctc is not None
        self.ctc = tail.ctc
        self._before = np.concatenate([head.rows, tail.embeddings, engine.embed(engine.prompt.suffix(language))])
        self._cuts = (0, len(head.rows), len(self._before))
        self.position = len(self._before)
        self.limit = budget(len(samples), RATE, engine.decoder.rows - self.position)
        self.calls = 0

    def greedy(self) -> Draft:
        """As a segment decodes it, in the same calls."""
        head = self._cuts[1]
        self.engine.lane.run(self.engine.evaluate(Rows(self._sequence, 0, self._before[:head], head)))
        rest = self._before[head:]
        logits = self.engine.lane.run(self.engine.evaluate(Rows(self._sequence, head, rest, len(rest) - 1)))
        draft = Draft()
        stop = self.engine.prompt.stop
        one, limit = yielding(self.step), self.limit
        alone(follow(draft, logits[0], self.position, step=one, stop=stop, bias=NO_TERMS, limit=limit, choices=True))
        return draft

    def evaluate(self, tokens: Sequence[int], position: int, wanted: int) -> Floats:
        """Through the lane."""
        self.calls += 1
        return self.engine.lane.run(
            self.engine.evaluate(Rows(self._sequence, position, self.engine.embed(tokens), wanted))
        )

    def step(self, token: int, position: int) -> Floats:
        """One row."""
        return self.evaluate([token], position, 0)[0]


def test_the_real_models_choice_is_that_of_brute_force(asr_model: AsrModel, clips: list[Clip]) -> None:
    """The real model chooses the best of all alternatives decoded by themselves, with the same bits each time, in less
    than half the calls."""
    engine, blank = asr_model.engine, asr_model.manifest.encoder.ctc_blank
    assert engine.rescores and blank is not None
    sequence = engine.lane.run(engine.acquire())
    stop = engine.prompt.stop
    changed = compared = 0
    calls = np.zeros(2, int)
    try:
        for clip in [clip for clip in clips if clip.seconds < 6][:8]:
            real = Real(asr_model, clip.samples, sequence)
            evaluate: Evaluate = yielding(real.evaluate)
            results: list[Draft] = []
            for _ in range(2):
                greedy = real.greedy()
                if not greedy.ended:
                    break
                real.calls = 0
                results.append(
                    alone(
                        rescored(
                            greedy, 0, real.position, real.ctc, blank,
                            evaluate=evaluate, stop=stop, bias=NO_TERMS, limit=real.limit,
                        )
                    )
                )  # fmt: skip
            if len(results) < 2:
                continue
            best, again = results
            assert (best.tokens, best.probabilities, best.choices) == (again.tokens, again.probabilities, again.choices)
            calls[0] += real.calls
            real.calls = 0
            drafts = by_brute_force(greedy, 0, real.step, stop, real.position, real.limit, NO_TERMS)
            calls[1] += real.calls
            each = scores(drafts, 0, real.ctc, blank)
            # Other calls round differently: where two are this near, either may be chosen.
            near = [draft.tokens for draft, score in zip(drafts, each, strict=True) if score > max(each) - 0.05]
            assert best.tokens in near
            assert scores([best], 0, real.ctc, blank)[0] >= scores([greedy], 0, real.ctc, blank)[0]
            segment = Segment(engine, sequence, engine.head((), engine.language(None)), engine.language(None), Work())
            segment.extend(clip.samples)
            assert engine.lane.run(segment.final(len(clip.samples))).tokens == tuple(best.tokens)
            changed += best.tokens != greedy.tokens
            compared += len(drafts) > 1
    finally:
        engine.release(sequence)
    assert compared >= 5 and changed >= 1
    assert calls[0] * 2 < calls[1]
