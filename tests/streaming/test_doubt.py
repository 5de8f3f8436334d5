"""Second thoughts: what is doubted, and that following it changes finals for the likelier."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaming.doubt
from engines.batching import Owner, Urgency
from engines.gguf import Rows
from engines.manifest import Decoder
from engines.store import find
from streaming.doubt import DOUBTS, SURE, Choice, Draft, affordable, choose, doubts
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.repetition import Period
from tests.clips import DATA, read_clip

logarithms = st.floats(-12, -1e-6)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=40, unique=True), st.data())
def test_a_choice_tells_its_probability_and_the_runner_up(values: list[float], data: st.DataObject) -> None:
    logits = np.array(values, np.float32)
    token = data.draw(st.integers(0, len(values) - 1))
    choice = choose(logits, token)
    whole = np.log(np.exp(logits.astype(np.float64)).sum())
    assert choice.log == pytest.approx(float(logits[token]) - whole, abs=1e-3)
    assert choice.runner_up != token
    assert logits[choice.runner_up] == max(x for i, x in enumerate(logits) if i != token)
    assert choice.runner_up_log == pytest.approx(float(logits[choice.runner_up]) - whole, abs=1e-3)


def test_a_banned_token_is_no_runner_up() -> None:
    assert choose(np.array([1.0, -np.inf, 0.5, 2.0], np.float32), 3).runner_up == 0


@given(st.lists(st.tuples(logarithms, logarithms), max_size=40), st.integers(0, 45))
def test_the_closest_calls_are_doubted_last_one_first(logs: list[tuple[float, float]], start: int) -> None:
    choices = [Choice(a, 0, b) for a, b in logs]
    found = doubts(choices, start)
    assert len(found) <= DOUBTS and found == sorted(set(found), reverse=True)
    assert all(i >= start and np.exp(choices[i].log) < SURE for i in found)
    gaps = [choices[i].log - choices[i].runner_up_log for i in found]
    for i in set(range(start, len(choices))) - set(found):
        unsure = np.exp(choices[i].log) < SURE
        assert not unsure or (len(found) == DOUBTS and choices[i].log - choices[i].runner_up_log >= max(gaps))


def test_a_draft_is_cut_before_the_doubted_token() -> None:
    draft = Draft([5, 6, 7], [0.9, 0.4, 0.8], [Choice(-0.1, 1, -3.0), Choice(-0.9, 2, -1.0), Choice(-0.2, 3, -2.0)])
    cut = draft.until(1)
    assert cut.tokens == [5] and cut.probabilities == [0.9]
    assert [c.log for c in cut.choices] == [-0.1, -1.0]
    assert draft.tokens == [5, 6, 7] and len(draft.choices) == 3


def test_finals_of_the_shipped_model_change_where_they_were_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[int, list[str]] = {}
    with_model = AsrModel.load(find("pocket-asr-en"), sessions=1)
    try:
        for most in (0, DOUBTS):
            monkeypatch.setattr(streaming.doubt, "DOUBTS", most)
            followed, texts = 0, list[str]()
            for path in sorted((DATA / "clips").glob("*.opus"))[:12]:
                listener = with_model.listener(ListenOptions(language="en", interim=False))
                events = [*listener.feed(read_clip(path).samples), *listener.finish()]
                texts += [e.text for e in events if isinstance(e, Transcript) and e.is_final]
                followed += listener.work.doubts
                listener.close()
            assert (followed > 0) == (most > 0)
            heard[most] = texts
    finally:
        with_model.close()
    assert len(heard[0]) == len(heard[DOUBTS]) and heard[0] != heard[DOUBTS]


@pytest.mark.parametrize(("layers", "width", "expected"), [(4, 320, True), (28, 1024, False)])
def test_dimensions_decide_whether_finals_doubt(layers: int, width: int, expected: bool) -> None:
    """The embedded decoder's and the released 0.6B's, whatever the precision."""
    decoder = Decoder("f", "f32", layers, width, heads=6, kv_heads=2, head_dim=64, vocabulary=768, context=4096)
    assert affordable(decoder) is expected


def test_a_loop_behind_a_doubt_leaves_the_cache_before_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubt relies on the rows before it being the first text's; a loop there must not lead back over them."""
    model = AsrModel.load(find("pocket-asr-en"), sessions=1)
    starts: list[int] = []
    """Positions of the rows that one final evaluated alone, in order."""
    evaluate = model.evaluate

    def noted(rows: Rows, owner: Owner, urgency: Urgency = Urgency.DUE) -> npt.NDArray[np.float32]:
        if len(rows.rows) > 1:
            starts.clear()
        else:
            starts.append(rows.start)
        return evaluate(rows, owner, urgency)

    def looping(tokens: list[int]) -> Period | None:
        """Every text that follows a doubt is found to loop; going back would lead to its second token."""
        following = any(b <= a for a, b in pairwise(starts))
        return Period(0, 1) if following and len(tokens) > 2 else None

    monkeypatch.setattr(model, "evaluate", noted)
    monkeypatch.setattr("streaming.decoding.loop_period", looping)
    try:
        listener = model.listener(ListenOptions(language="en", interim=False))
        for path in sorted((DATA / "clips").glob("*.opus"))[:6]:
            list(listener.feed(read_clip(path).samples))
            listener.finalize()
            back = [b for a, b in pairwise(starts) if b <= a]
            assert back == sorted(set(back), reverse=True), "a doubt was followed over rows that had changed"
        assert listener.work.loops_broken > 0
        listener.close()
    finally:
        model.close()
