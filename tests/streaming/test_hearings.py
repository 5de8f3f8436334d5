"""Further hearings: which finals get them, which text is kept, what they may not change."""

import math
import threading
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.batching import Cancelled, Urgency
from streaming import hearings
from streaming.events import Transcript
from streaming.hearings import SPEEDS, Hearings, at_speed
from streaming.hypothesis import Hypothesis
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.panel import Panel
from streaming.recognizer import Segment
from tests.clips import RATE, Clip

Floats = npt.NDArray[np.float32]
ALWAYS, NEVER = 0.0, -math.inf
OFFLINE, LIVE = ListenOptions(interim=False), ListenOptions(interim=True)


@pytest.fixture
def model(asr_model: AsrModel) -> Iterator[AsrModel]:
    """The embedded model; a test may change what it is unsure of."""
    before = asr_model.unsure
    yield asr_model
    asr_model.unsure = before


def hear(model: AsrModel, samples: Floats, options: ListenOptions, cut: int) -> tuple[Listener, list[Transcript]]:
    """A finished session fed in pieces of ``cut`` samples, and its finals."""
    listener = model.listener(options)
    events = [event for at in range(0, len(samples), cut) for event in listener.feed(samples[at : at + cut])]
    events += listener.finish()
    return listener, [event for event in events if isinstance(event, Transcript) and event.is_final]


def said(found: list[Transcript]) -> list[object]:
    """What may not depend on how the audio came."""
    return [(e.start, e.end, e.text, e.words, e.confidence, e.speech_final) for e in found]


def silence(seconds: float) -> Floats:
    return np.zeros(int(seconds * RATE), np.float32)


@given(st.integers(1, 4000), st.sampled_from(SPEEDS))
def test_a_speed_shortens_and_gives_the_same_bits_again(samples: int, speed: float) -> None:
    wave = np.random.default_rng(samples).standard_normal(samples).astype(np.float32)
    played = at_speed(wave, speed)
    assert played.dtype == np.float32 and abs(len(played) - samples / speed) <= 1
    assert np.array_equal(played, at_speed(wave.copy(), speed))


def test_the_pitch_goes_along() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE).astype(np.float32)
    for speed in SPEEDS:
        played = at_speed(tone, speed)
        peak = np.abs(np.fft.rfft(played * np.hanning(len(played)))).argmax() * RATE / len(played)
        assert peak == pytest.approx(1000 * speed, abs=2)


def silent(self: Panel, best: Hypothesis, urgency: Urgency) -> Hypothesis:
    """Instead of ``Panel.confer``."""
    del self, urgency
    return best


def test_the_best_of_all_hearings_is_kept(model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they confer: each kept text has the best score of those heard of its clip; some come from another hearing,
    and differ."""
    heard: list[list[Hypothesis]] = []
    first, again, settle = Segment.final, Panel.again, Hearings.settle

    def noted_first(self: Segment, end: int) -> Hypothesis:
        heard.append([first(self, end)])
        return heard[-1][0]

    def noted_again(self: Panel, samples: Floats, known: Hypothesis, urgency: Urgency) -> Hypothesis | None:
        found = again(self, samples, known, urgency)
        heard[-1] += [found] if found else []
        return found

    kept: list[Hypothesis] = []

    def noted_settle(self: Hearings) -> Hypothesis:
        kept.append(settle(self))
        return kept[-1]

    monkeypatch.setattr(Segment, "final", noted_first)
    monkeypatch.setattr(Panel, "again", noted_again)
    monkeypatch.setattr(Panel, "confer", silent)
    monkeypatch.setattr(Hearings, "settle", noted_settle)
    for clip in clips[:20]:
        hear(model, clip.samples, OFFLINE, len(clip.samples))
    assert len(heard) == len(kept) >= 20
    for texts, best in zip(heard, kept, strict=True):
        assert best in texts
        assert all(best.score is not None and (text.score or -math.inf) <= best.score for text in texts[1:])
    changed = [texts for texts, best in zip(heard, kept, strict=True) if best.tokens != texts[0].tokens]
    assert changed and sum(len(texts) == 1 for texts in heard) > 0


def test_a_hearing_is_the_decoder_s_own(model: AsrModel, clips: list[Clip]) -> None:
    """With the first text as its draft it finds what it finds with none at all, but for the rounding of rows that share
    a call: hardly ever so far that a text changes."""
    alike = compared = 0
    for clip in clips[:12]:
        listener = model.listener(ListenOptions(interim=False, endpointing=None))
        listener.feed(clip.samples[: 7 * RATE])
        segment = listener._segment  # pyright: ignore[reportPrivateUsage]
        if segment is not None:
            best = segment.final(segment.length)
            samples = at_speed(segment.audio(0, segment.length), SPEEDS[0])
            nothing = Hypothesis((), (), best.answer, best.score)
            panel = Panel(model, segment, listener.work)
            drafted = panel.again(samples, best, Urgency.DUE)
            alone = panel.again(samples, nothing, Urgency.DUE)
            if drafted and alone:
                compared += 1
                alike += drafted.tokens == alone.tokens
        listener.close()
    assert compared >= 8 and alike >= compared - 1


def test_a_quick_model_hears_once(model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is the thorough one's first text; nothing is heard again or conferred about."""
    firsts: list[str] = []
    first = Segment.final

    def noted(self: Segment, end: int) -> Hypothesis:
        found = first(self, end)
        firsts.append(found.answer.text)
        return found

    quick = AsrModel(model.directory, sessions=1, thorough=False)
    try:
        short: list[str] = []
        for clip in clips[8:14]:
            short += [event.text for event in hear(quick, clip.samples, OFFLINE, len(clip.samples))[1]]
        work = quick.work
    finally:
        quick.close()
    monkeypatch.setattr(Segment, "final", noted)
    long = [e.text for clip in clips[8:14] for e in hear(model, clip.samples, OFFLINE, len(clip.samples))[1]]
    assert short == [text for text in firsts if text] and short != long
    assert work.finals >= 6 and work.doubts > 0
    assert (work.heard_again, work.hearings, work.conferred) == (0, 0, 0)


def test_only_the_unsure_and_the_short_are_heard_again(model: AsrModel, clips: list[Clip]) -> None:
    """By the unlikeliest token, and never where the slowest hearing would be longer than a segment may be."""
    short = [clip for clip in clips if clip.seconds < 6][:6]
    counts: list[int] = []
    for bound in (NEVER, -1.2, ALWAYS):
        model.unsure = bound
        works = [hear(model, clip.samples, OFFLINE, len(clip.samples))[0].work for clip in short]
        counts.append(sum(work.heard_again for work in works))
        assert all(work.heard_again <= work.hearings <= len(SPEEDS) * work.heard_again for work in works)
        assert all(work.heard_again <= work.finals for work in works)
    assert counts[0] == 0 <= counts[1] <= counts[2] and counts[2] > 0
    model.unsure = ALWAYS
    speech = np.concatenate([clip.samples for clip in clips[:8]])
    for seconds, expected in ((5.0, True), (15.0, True), (22.5, False)):
        listener = model.listener(ListenOptions(interim=False, endpointing=None))
        listener.feed(speech[: int(seconds * RATE)])
        listener.finalize()
        assert (listener.work.heard_again > 0) is expected, seconds
        listener.close()


def test_a_model_that_has_no_second_thoughts_hears_once(
    model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones: their texts have no score to compare."""
    monkeypatch.setattr(model, "doubts", False)
    model.unsure = ALWAYS
    work = hear(model, clips[0].samples, OFFLINE, RATE)[0].work
    assert work.finals > 0 and work.heard_again == work.hearings == work.doubts == 0


@settings(max_examples=12)
@given(which=st.integers(0, 119), cuts=st.lists(st.integers(16, 40_000), min_size=1, max_size=4))
def test_live_or_from_a_file_all_hearings_give_the_same(
    asr_model: AsrModel, clips: list[Clip], which: int, cuts: list[int]
) -> None:
    """Every final heard again, in pieces of any length with interims, is bit for bit what the file gives."""
    clip, before = clips[which % len(clips)], asr_model.unsure
    asr_model.unsure = ALWAYS
    try:
        whole = hear(asr_model, clip.samples, OFFLINE, len(clip.samples))[1]
        for cut in cuts[:2]:
            assert said(hear(asr_model, clip.samples, LIVE, cut)[1]) == said(whole)
    finally:
        asr_model.unsure = before


def test_a_final_heard_in_advance_is_not_heard_twice(model: AsrModel, clips: list[Clip]) -> None:
    """The hearings of the silence are those of the endpoint."""
    model.unsure = ALWAYS
    clip = next(clip for clip in clips if 2 < clip.seconds < 5)
    samples = np.concatenate([clip.samples, silence(1.5)])
    offline, expected = hear(model, samples, OFFLINE, len(samples))
    live, found = hear(model, samples, LIVE, 800)
    assert said(found) == said(expected)
    assert live.work.finals - live.work.finals_discarded == offline.work.finals
    if not live.work.finals_discarded:
        assert (live.work.heard_again, live.work.hearings) == (offline.work.heard_again, offline.work.hearings)
    assert offline.work.heard_again > 0


def test_speech_that_goes_on_after_a_hearing_in_advance_loses_nothing(model: AsrModel, clips: list[Clip]) -> None:
    """The hearings used the session's place in the cache; the text of the longer clip is that of the file. It grows
    beyond a window, so one is put where they stood."""
    model.unsure = ALWAYS
    discarded = 0
    for first, second in zip(clips[:12:2], clips[1:12:2], strict=True):
        samples = np.concatenate([first.samples[: 4 * RATE], silence(0.5), second.samples[: 6 * RATE], silence(1)])
        offline, expected = hear(model, samples, OFFLINE, len(samples))
        live, found = hear(model, samples, LIVE, 1600)
        assert said(found) == said(expected)
        discarded += live.work.finals_discarded if live.work.hearings > offline.work.hearings else 0
    assert discarded > 0


def test_a_crowd_hears_again_what_one_hears(model: AsrModel, clips: list[Clip]) -> None:
    """Text, times and confidences of a session are the same among twelve others whose finals are all heard again."""
    model.unsure = ALWAYS
    chosen = [clip for clip in clips if clip.seconds < 7][:12]
    alone = [said(hear(model, clip.samples, OFFLINE, len(clip.samples))[1]) for clip in chosen]
    crowd: dict[int, list[object]] = {}

    def one(i: int) -> None:
        crowd[i] = said(hear(model, chosen[i].samples, LIVE, 1600 + 37 * i)[1])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(chosen))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [crowd[i] for i in range(len(chosen))] == alone


def test_words_stand_where_they_were_said(model: AsrModel, clips: list[Clip]) -> None:
    """Times count on the clip as it is, whatever hearing the text comes from: words that both texts have start where
    they started."""
    compared = changed = 0
    for clip in [clip for clip in clips if clip.seconds < 7][:48]:
        model.unsure = NEVER
        once = hear(model, clip.samples, OFFLINE, len(clip.samples))[1]
        model.unsure = ALWAYS
        again = hear(model, clip.samples, OFFLINE, len(clip.samples))[1]
        for before, after in zip(once, again, strict=True):
            assert (before.start, before.end) == (after.start, after.end)
            starts = [word.start for word in after.words]
            assert starts == sorted(starts)
            assert all(after.start <= w.start <= w.end <= after.end and not w.approximate for w in after.words)
            if before.text != after.text:
                changed += 1
                known = {word.text: word.start for word in before.words}
                twice = {w.text for w in after.words if [x.text for x in after.words].count(w.text) > 1}
                gaps = [abs(known[w.text] - w.start) for w in after.words if w.text in known and w.text not in twice]
                compared += len(gaps)
                assert sum(gap > 0.2 for gap in gaps) <= len(gaps) // 4
    assert changed > 3 and compared > 20


def test_a_text_that_recites_the_keyterms_is_not_taken_from_a_hearing(
    model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the context leaks into a further hearing, that hearing counts for nothing."""
    model.unsure = ALWAYS
    clip = next(clip for clip in clips if 2 < clip.seconds < 6)
    options = ListenOptions(interim=False, keyterms=("harbour", "signal"))
    seen: list[bool] = []

    def leaks(self: Segment, hypothesis: Hypothesis) -> bool:
        del self, hypothesis
        seen.append(True)
        return len(seen) > 1  # the first text does not

    monkeypatch.setattr(Segment, "leaks", leaks)
    monkeypatch.setattr(Panel, "confer", silent)
    work = hear(model, clip.samples, options, len(clip.samples))[0].work
    assert work.finals == 1 and work.hearings == len(SPEEDS) and len(seen) == 1 + len(SPEEDS)
    assert work.context_redecoded == 0


def test_who_leaves_in_a_hearing_is_heard_no_further(
    model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session closed while it is heard again ends there, and its sequence is free."""
    model.unsure = ALWAYS
    taken, begun, closing = model.decoder.taken, threading.Event(), threading.Event()

    def held(samples: Floats, speed: float) -> Floats:
        begun.set()
        closing.wait(60)
        return at_speed(samples, speed)

    monkeypatch.setattr(hearings, "at_speed", held)
    clip = next(clip for clip in clips if 2 < clip.seconds < 6)
    listener = model.listener(OFFLINE)
    outcome: list[str] = []

    def run() -> None:
        try:
            listener.feed(clip.samples)
            listener.finish()
            outcome.append("finished")
        except Cancelled:
            outcome.append("cancelled")

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    closer = threading.Thread(target=listener.close)
    closer.start()
    owner = listener._owner  # pyright: ignore[reportPrivateUsage]
    while not owner.cancelled:
        time.sleep(0.001)
    closing.set()
    thread.join(60)
    closer.join(60)
    assert outcome == ["cancelled"]
    assert model.decoder.taken == taken


def test_a_segment_lends_its_place_to_what_a_segment_may_have(model: AsrModel, clips: list[Clip]) -> None:
    speech = np.concatenate([clip.samples for clip in clips[:12]])
    listener = model.listener(ListenOptions(interim=False, endpointing=None))
    listener.feed(speech[: 5 * RATE])
    segment = listener._segment  # pyright: ignore[reportPrivateUsage]
    assert segment is not None
    panel = Panel(model, segment, listener.work)
    assert panel.lends(24 * RATE) and not panel.lends(24 * RATE + 1)
    known = segment.final(segment.length)
    with pytest.raises(ValueError, match="samples: 400000, more than a segment may have"):
        panel.again(np.zeros(400_000, np.float32), known, Urgency.DUE)
    listener.close()


@pytest.mark.parametrize("seconds", [5, 10, 18])
def test_what_another_hearing_displaced_is_put_back(model: AsrModel, clips: list[Clip], seconds: int) -> None:
    """Windows that had closed before a clip was heard again, and a segment that goes on after it: the same bits."""
    speech = np.concatenate([clip.samples for clip in clips[:12]])

    def final(*, heard_again: bool) -> Hypothesis:
        listener = model.listener(ListenOptions(interim=False, endpointing=None))
        listener.feed(speech[: seconds * RATE])
        segment = listener._segment  # pyright: ignore[reportPrivateUsage]
        assert segment is not None
        if heard_again:
            model.unsure = ALWAYS
            hearings = Hearings(model, segment, segment.length, listener.work)
            hearings.settle()
            assert listener.work.hearings > 0
        listener.feed(speech[seconds * RATE : (seconds + 4) * RATE])
        found = segment.final(segment.length)
        listener.close()
        return found

    before = final(heard_again=False)
    assert len(before.tokens) > 3 and final(heard_again=True) == before


def test_nothing_is_put_back_until_it_is_needed(model: AsrModel, clips: list[Clip]) -> None:
    """A session that is fed silence after its final was heard again evaluates nothing, however many windows it has."""
    speech = np.concatenate([clip.samples for clip in clips[:12]])
    listener = model.listener(ListenOptions(interim=False, endpointing=None))
    listener.feed(speech[: 18 * RATE])
    segment = listener._segment  # pyright: ignore[reportPrivateUsage]
    assert segment is not None
    model.unsure = ALWAYS
    Hearings(model, segment, segment.length, listener.work).settle()
    assert listener.work.hearings > 0 and listener.work.windows == 2
    jobs = model.lane.jobs
    listener.feed(silence(0.5))
    assert model.lane.jobs == jobs
    segment.final(segment.length)
    assert model.lane.jobs > jobs
    listener.close()
