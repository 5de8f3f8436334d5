"""Texts that depart from another: the same as token by token, in few rows; finals of the shipped model use them."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaming.decoding
from engines.store import find
from streaming import branch
from streaming.branch import AHEAD, BEHIND, DRAFT, Branch, expected
from streaming.doubt import Doubt, Draft
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import DATA, read_clip

CLIPS = sorted((DATA / "clips").glob("*.opus"))


@pytest.fixture(scope="module")
def model() -> Iterator[AsrModel]:
    loaded = AsrModel.load(find("pocket-asr-en"), sessions=1)
    yield loaded
    loaded.close()


def finals(model: AsrModel, clips: Sequence[int], *keyterms: str) -> tuple[list[str], int, int]:
    """Texts of the clips, and how many doubts were followed by how many rows."""
    texts, doubts, rows = list[str](), 0, 0
    for i in clips:
        listener = model.listener(ListenOptions(language="en", interim=False, keyterms=keyterms))
        events = [*listener.feed(read_clip(CLIPS[i]).samples), *listener.finish()]
        texts += [e.text for e in events if isinstance(e, Transcript) and e.is_final]
        doubts, rows = doubts + listener.work.doubts, rows + listener.work.doubt_rows
        listener.close()
    return texts, doubts, rows


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30), st.integers(0, 3), st.integers(0, 30))
def test_a_guess_follows_the_nearest_same_token(other: list[int], place: int, token: int, start: int) -> None:
    guess = list(expected(other, place, token, start))
    places = [k for k, each in enumerate(other) if each == token and start <= k and -BEHIND <= k - place <= AHEAD]
    if places:
        nearest = min(abs(k - place) for k in places)
        assert guess in [other[k + 1 : k + 1 + DRAFT] for k in places if abs(k - place) == nearest]
    else:
        assert guess == []


def test_finals_of_the_shipped_model_change_where_they_were_unsure(
    model: AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = range(12)
    after, followed, rows = finals(model, some)
    monkeypatch.setattr(streaming.decoding, "DOUBTS", 0)
    before, none, no_rows = finals(model, some)
    assert followed > 0 and rows > followed and none == no_rows == 0
    assert len(before) == len(after) and before != after


def test_drafts_change_no_text(model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """They save calls; rows of one call and of several may round apart, but hardly ever so far that a text changes."""
    some = range(12)
    with_drafts, _, _ = finals(model, some)
    monkeypatch.setattr(branch, "DRAFT", 0)
    without, _, _ = finals(model, some)
    assert sum(a != b for a, b in zip(with_drafts, without, strict=True)) <= 1


def test_a_final_follows_no_more_than_it_may(model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in doubts nor in rows: the one that goes beyond is the last."""
    monkeypatch.setattr(streaming.decoding, "ROWS", 20)
    monkeypatch.setattr(streaming.decoding, "DOUBTS", 5)
    before = dict[Branch, list[int]]()
    follow = Branch.follow

    def noted(self: Branch, draft: Draft, doubt: Doubt) -> None:
        before.setdefault(self, []).append(self.rows)
        follow(self, draft, doubt)

    monkeypatch.setattr(Branch, "follow", noted)
    finals(model, range(12))
    assert before and all(rows < 20 for each in before.values() for rows in each)
    assert max(len(each) for each in before.values()) <= 5
    assert any(branch.rows >= 20 for branch in before)


def test_what_a_branch_says_is_what_the_decoder_says_of_it(model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many branches shared the cache before it: each one's tokens are the decoder's greedy ones, and their
    probabilities those of the whole text evaluated at once."""
    kept: list[tuple[Draft, int]] = []
    follow = Branch.follow

    def noted(self: Branch, draft: Draft, doubt: Doubt) -> None:
        follow(self, draft, doubt)
        if draft.ended:
            kept.append((draft, doubt.position))

    monkeypatch.setattr(Branch, "follow", noted)
    compared = 0
    for i in range(4):
        kept.clear()
        clip = read_clip(CLIPS[i]).samples
        listener = model.listener(ListenOptions(language="en", interim=False, endpointing=None))
        try:
            list(listener.feed(clip))
            segment = listener._segment  # pyright: ignore[reportPrivateUsage]
            if segment is None:
                continue
            segment.final(segment.length)
            for draft, position in list(kept):
                logits, _ = segment.read(segment.length, draft.tokens)
                log = log_softmax(logits)
                for at in range(position, len(draft.choices)):
                    token = draft.tokens[at] if at < len(draft.tokens) else int(logits[at].argmax())
                    assert draft.choices[at].log == pytest.approx(float(log[at, token]), abs=0.15)
                    if at > position:
                        assert log[at, token] >= log[at].max() - 0.15
                    compared += 1
        finally:
            listener.close()
    assert compared > 20


def test_the_keyterms_lead_second_thoughts_too(model: AsrModel) -> None:
    """A term that was said is not taken back by them: the same clip, its own word as the term."""
    (text, *_), _, _ = finals(model, [0])
    word = max(text.split(), key=len)
    (again, *_), _, _ = finals(model, [0], word)
    assert word in again


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
