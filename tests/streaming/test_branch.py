"""Texts that depart from another: the same as token by token, in few rows; finals of the shipped model use them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaming.decoding
from engines.batching import Urgency
from engines.store import find
from streaming import branch
from streaming.branch import AHEAD, BEHIND, DRAFT, Branch, expected
from streaming.doubt import ROWS, Doubt, Draft
from streaming.events import Transcript
from streaming.hearings import Hearings
from streaming.hypothesis import Hypothesis
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.panel import Panel
from tests.clips import DATA, RATE, read_clip

CLIPS = sorted((DATA / "clips").glob("*.opus"))


@pytest.fixture(scope="module")
def model() -> Iterator[AsrModel]:
    loaded = AsrModel(find("pocket-asr-en"), sessions=1)
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


@dataclass
class Job:
    """Rows of one final's or further hearing's search: of its first text, before and after each doubt."""

    first: int = 0
    tokens: int = 0
    doubts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def searched(model: AsrModel, monkeypatch: pytest.MonkeyPatch, rows: int) -> tuple[list[Job], list[Hypothesis]]:
    """Searches of three clips of 21.5 s, heard again whatever is sure, with ``rows`` for the bound; what was heard."""
    monkeypatch.setattr(streaming.decoding, "ROWS", rows)
    jobs, heard = dict[Branch, Job](), list[Hypothesis]()
    begin, follow, again = Branch.begin, Branch.follow, Panel.again

    def begun(self: Branch, draft: Draft, logits: npt.NDArray[np.float32], other: Sequence[int]) -> None:
        begin(self, draft, logits, other)
        jobs[self] = Job(self.rows, len(draft.tokens))

    def followed(self: Branch, draft: Draft, doubt: Doubt) -> None:
        before = self.rows
        follow(self, draft, doubt)
        jobs.setdefault(self, Job()).doubts.append((before, self.rows))

    def noted(self: Panel, samples: npt.NDArray[np.float32], known: Hypothesis, urgency: Urgency) -> Hypothesis | None:
        found = again(self, samples, known, urgency)
        heard.extend([found] if found else [])
        return found

    monkeypatch.setattr(Branch, "begin", begun)
    monkeypatch.setattr(Branch, "follow", followed)
    monkeypatch.setattr(Panel, "again", noted)
    monkeypatch.setattr(streaming.decoding, "HOPELESS", 1e9)
    monkeypatch.setattr(model, "unsure", 0.0)
    speech = np.concatenate([read_clip(path).samples for path in CLIPS])
    size = int(21.5 * RATE)
    for start in range(0, 3 * size, size):
        listener = model.listener(ListenOptions(interim=False, endpointing=None))
        listener.feed(speech[start : start + size])
        segment = listener._segment  # pyright: ignore[reportPrivateUsage]
        assert segment is not None
        Hearings(model, segment, segment.length, listener.work).settle()
        listener.close()
    return list(jobs.values()), heard


def test_a_long_hearing_keeps_to_the_rows_of_a_final(model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as long a clip as may be heard again: the first text takes few rows more than it has tokens, leaves some for
    doubts, and the doubt that goes beyond the bound is the last."""
    jobs, _ = searched(model, monkeypatch, ROWS)
    again = [job for job in jobs if job.first]
    assert len(again) >= 3 and len(jobs) - len(again) == 3
    assert all(job.tokens > 50 and job.first < min(3 * job.tokens, ROWS) for job in again)
    assert all(job.doubts and all(before < ROWS for before, _ in job.doubts) for job in jobs)
    assert all(job.doubts[-1][1] < 1.5 * ROWS for job in jobs)
    assert all(job.doubts[0][0] == job.first for job in jobs)  # the first text counts


def test_a_hearing_whose_first_text_takes_all_rows_still_has_that_text(
    model: AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, heard = searched(model, monkeypatch, 40)
    again = [job for job in jobs if job.first]
    assert len(again) >= 3 and all(job.first >= 40 and not job.doubts for job in again)
    assert len(heard) == len(again) and all(text.score is not None and len(text.tokens) > 50 for text in heard)


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
