"""The session with the real model: what a text depends on, which work is done, and what is given back."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import manifest as manifests
from engines.gguf import Busy
from engines.lane import Cancelled, Steps, Task, alone
from engines.scheduling import Priority
from streaming.engine import SEGMENT_SECONDS
from streaming.events import Event, SpeechStarted, Transcript, bare
from streaming.model import AsrModel
from streaming.options import ListenOptions, OptionError
from streaming.utterance import Utterance
from tests.clips import RATE, Clip
from tests.streaming.listening import LIVE, OFFLINE, OFFLINE_UNBROKEN, continuous, finals, finish, hear, listen

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def short(clips: list[Clip]) -> list[Clip]:
    """Two short clips, for tests in which the length does not matter."""
    return [clip for clip in clips if clip.seconds < 6]


@settings(max_examples=6)  # test_live.py mixes them with other work too
@given(which=st.integers(0, 119), cuts=st.lists(st.integers(16, 80_000), min_size=1, max_size=6))
def test_the_final_text_does_not_depend_on_the_cuts(
    asr_model: AsrModel, clips: list[Clip], which: int, cuts: list[int]
) -> None:
    """A live session, in any pieces and with interims, gives bit for bit what the file gives."""
    clip = clips[which % len(clips)]
    assert finals(listen(asr_model, clip.samples, LIVE, cuts)) == finals(
        listen(asr_model, clip.samples, OFFLINE, [len(clip.samples)])
    )


@pytest.fixture(scope="module")
def official_floor(asr_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsrModel]:
    """The bundled model with the official mel floor, the clip's maximum less 8."""
    folder = tmp_path_factory.mktemp("official-floor")
    for file in asr_directory.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    manifest = manifests.read(asr_directory)
    assert isinstance(manifest, manifests.AsrManifest)
    (folder / manifests.NAME).unlink()
    mel = msgspec.structs.replace(manifest.mel, floor=manifests.ClipFloor(8.0))
    manifests.write(msgspec.structs.replace(manifest, mel=mel), folder)
    model = AsrModel(folder, sessions=2)
    yield model
    model.close()


@pytest.fixture(scope="module")
def rising(official_floor: AsrModel, clips: list[Clip]) -> tuple[Floats, list[Transcript]]:
    """Speech in two segments whose loudest moment comes late, and its finals."""
    samples = np.concatenate([continuous(clips, 11) * 0.05, continuous(clips[20:], 15)])
    return samples, finals(listen(official_floor, samples, OFFLINE_UNBROKEN, [len(samples)]))


@settings(max_examples=2)
@given(cuts=st.lists(st.integers(160, 40_000), min_size=1, max_size=4))
def test_the_official_floor_is_frozen_alike_live_and_offline(
    official_floor: AsrModel, rising: tuple[Floats, list[Transcript]], cuts: list[int]
) -> None:
    """If the mel floor rises with the running maximum, chunks are computed again, and the text still depends on the
    samples alone."""
    samples, offline = rising
    assert finals(listen(official_floor, samples, ListenOptions(endpointing=None), cuts)) == offline
    assert len(offline) == 2


def test_sixteen_sessions_hear_what_one_hears(asr_model: AsrModel, clips: list[Clip]) -> None:
    """In a crowd a session has the same text, times and confidences as alone."""
    chosen = clips[:16]
    alone = [finals(listen(asr_model, c.samples, OFFLINE, [len(c.samples)])) for c in chosen]
    crowd: dict[int, list[Transcript]] = {}

    def one(i: int) -> None:
        crowd[i] = finals(listen(asr_model, chosen[i].samples, LIVE, [1600 + 37 * i]))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [crowd[i] for i in range(16)] == alone
    assert len({tuple(f.text for f in fs) for fs in alone}) > 8  # and they say different things


def test_committed_words_are_append_only(asr_model: AsrModel, short: list[Clip]) -> None:
    """While a segment is open, its committed words stay; only the mark after the last of them may change."""
    for clip in short[:8]:
        open_words: tuple[str, ...] = ()
        for event in listen(asr_model, clip.samples, LIVE, [3200]):
            if isinstance(event, Transcript):
                words = tuple(w.text for w in event.words)
                if event.is_final:
                    open_words = ()
                else:
                    assert words[: max(len(open_words) - 1, 0)] == open_words[:-1]
                    assert [bare(w) for w in words[: len(open_words)]] == [bare(w) for w in open_words]
                    assert event.stable_words >= len(open_words)
                    open_words = words[: event.stable_words]


def test_nothing_finished_is_computed_twice(asr_model: AsrModel, clips: list[Clip]) -> None:
    """However many interims are made, a full chunk goes through the stem once, and a closed window through body and
    decoder once."""
    samples = continuous(clips, 28)
    listener = asr_model.listener(ListenOptions(endpointing=None))
    events: list[Event] = []
    for at in range(0, len(samples), 1600):
        events += hear(listener, samples[at : at + 1600])
    work = listener.work
    spec = asr_model.manifest.encoder
    chunks_heard = len(samples) // RATE + 1
    assert work.ticks > 60
    assert work.stem_chunks <= chunks_heard + 4  # a seam opens a segment up to 4 s back
    assert work.stem_repeats == 0
    assert work.window_rows == work.windows * spec.window_rows
    assert work.windows <= len(samples) // (8 * RATE)
    looks = work.ticks + work.finals
    assert work.stem_tails <= looks + work.finals  # the quiet behind a final may reach into one chunk more
    assert work.body_tails <= looks
    assert work.tail_rows <= looks * spec.window_rows
    events += finish(listener)


def test_speech_without_a_pause_is_cut_at_24_seconds_and_loses_nothing(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Segments of long speech follow each other without gap or overlap, and only the last ends with an endpoint."""
    samples = continuous(clips, 60)
    found = finals(listen(asr_model, samples, ListenOptions(interim=False, endpointing=None), [len(samples)]))
    assert len(found) >= 3
    for before, after in pairwise(found):
        assert before.end == after.start
        assert SEGMENT_SECONDS - 4.1 <= before.end - before.start <= SEGMENT_SECONDS
        assert not before.speech_final
    assert found[-1].speech_final
    assert found[-1].end == pytest.approx(len(samples) / RATE, abs=0.5)


def test_an_utterance_that_is_full_in_its_last_silence_still_ends(asr_model: AsrModel, clips: list[Clip]) -> None:
    """If an utterance becomes full in the silence that ends it, its words are final before its end is known. An empty
    final then tells the end."""
    speech, quiet = continuous(clips, 23.2), np.zeros(RATE, np.float32)
    options = ListenOptions(interim=False, endpointing=1.5)
    full, end = finals(listen(asr_model, np.concatenate([quiet, speech, quiet, quiet]), options, [8000]))
    assert full.text and not full.speech_final and full.end - full.start < SEGMENT_SECONDS
    assert (end.text, end.speech_final, end.from_finalize) == ("", True, False)
    assert end.start == end.end == full.end
    again, more = finals(listen(asr_model, np.concatenate([quiet, speech, quiet, speech[:RATE]]), options, [8000]))
    assert again == full and more.text and more.speech_final, "speech that goes on is the same utterance"


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_silence(asr_model: AsrModel, clips: list[Clip], wrong: float) -> None:
    """NaN in mid-speech counts as silence, and does not reach the session that has the sequence next."""
    clip = min(clips, key=lambda clip: clip.seconds)
    broken, mended = clip.samples.copy(), clip.samples.copy()
    broken[len(broken) // 2], mended[len(broken) // 2] = wrong, 0
    for _ in range(2):
        assert listen(asr_model, broken, LIVE, [1000]) == listen(asr_model, mended, LIVE, [1000])


def test_silence_costs_no_model_call(asr_model: AsrModel) -> None:
    """Neither digital silence nor faint noise makes the encoder or the decoder run."""
    noise = np.random.default_rng(0).standard_normal(10 * RATE).astype(np.float32) * 1e-4
    for samples in (np.zeros(10 * RATE, np.float32), noise):
        listener = asr_model.listener(LIVE)
        assert hear(listener, samples) == []
        assert finish(listener) == []
        assert (listener.work.ticks, listener.work.finals, listener.work.head_rows) == (0, 0, 0)


def test_a_finalize_after_every_packet_keeps_the_clock(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Finalize after every 20 ms, which is less than a frame of voice activity, does not move the beginning of
    speech."""
    samples = clips[0].samples
    listener = asr_model.listener(OFFLINE)
    events: list[Event] = []
    for at in range(0, len(samples), 320):
        listener.feed(samples[at : at + 320])
        listener.finalize()
        events += listener.drain()
    events += finish(listener)
    usual = next(e for e in listen(asr_model, samples, OFFLINE, [len(samples)]) if isinstance(e, SpeechStarted))
    begun = next(e for e in events if isinstance(e, SpeechStarted))
    assert begun.at == pytest.approx(usual.at, abs=0.2)
    assert any(one.text for one in finals(events))


def test_a_pause_ends_no_earlier_than_work_on_it_has_seen(asr_model: AsrModel) -> None:
    """A pause that is announced late ends at its announcement at the earliest. Otherwise the final would depend on how
    late the work was."""
    utterance = Utterance(asr_model.manifest, 1000, asr_model.engine.rule, asr_model.engine.head((), None))
    utterance.extend(np.zeros(20_000, np.float32))
    utterance.pause(2000, 2000 + 5 * 512, least=None)
    assert utterance.end == 1000 + 5 * 512


def test_what_was_said_is_awaited_only_where_a_turn_may_end(asr_model: AsrModel) -> None:
    """In a shorter silence the clock goes on without a model's work, and so it does where nothing is judged."""
    for least, silent, awaited in (
        (0.28, 7 * 512, False),
        (0.28, 8 * 512, True),
        (0.2, 6 * 512, True),
        (None, 20_000, False),
    ):
        utterance = Utterance(asr_model.manifest, 0, asr_model.engine.rule, asr_model.engine.head((), None))
        utterance.extend(np.zeros(RATE + silent, np.float32))
        utterance.pause(RATE, RATE, least=least)
        assert utterance.awaited is awaited, (least, silent)


def test_a_closed_session_gives_everything_back(asr_model: AsrModel, clips: list[Clip]) -> None:
    """After closing, which may come twice, the sequence is free again and feeding raises an error."""
    taken, live = asr_model.engine.decoder.taken, asr_model.live
    listener = asr_model.listener(LIVE)
    hear(listener, clips[0].samples[: 2 * RATE])
    listener.close()
    listener.close()
    assert (asr_model.engine.decoder.taken, asr_model.live) == (taken, live)
    for call in (lambda: listener.feed(clips[0].samples), listener.finalize, listener.finish, listener.step):
        with pytest.raises(Cancelled):
            call()


def test_closing_from_another_thread_stops_a_running_step(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Closing a session cancels its own work and nobody else's."""
    samples = continuous(clips, 60)
    listener = asr_model.listener(OFFLINE)
    outcome: list[str] = []

    def run() -> None:
        try:
            for _ in range(20):
                hear(listener, samples)
            outcome.append("finished")
        except Cancelled:
            outcome.append("cancelled")

    thread = threading.Thread(target=run)
    thread.start()
    while listener.work.windows == 0:
        time.sleep(0.001)
    listener.close()
    thread.join(60)
    assert outcome == ["cancelled"]


def test_closing_while_a_sequence_is_taken_gives_it_back(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's work is not the session's own, so that closing does not wait for it, and it may take the sequence when
    the session has none to give back any more."""
    engine, inside, go_on = asr_model.engine, threading.Event(), threading.Event()
    before = engine.decoder.taken
    acquire = engine.acquire

    def slow() -> Steps[int]:
        number = yield from acquire()
        inside.set()
        yield from alone(lambda: go_on.wait(60))
        return number

    monkeypatch.setattr(engine, "acquire", slow)
    listener = asr_model.listener(OFFLINE)
    listener.feed(clips[0].samples)
    listener.finish()
    task = Task(listener.drained(), Priority.BACKLOG)
    engine.lane.start(task)
    assert inside.wait(60)
    listener.close()
    go_on.set()
    with pytest.raises(Cancelled):
        task.future.result(60)
    engine.lane.run(alone(lambda: None))
    assert engine.decoder.taken == before


def test_one_session_too_many_is_refused(asr_model: AsrModel) -> None:
    """A model opens as many sessions as it was loaded for, and not one more."""
    open_ones = [asr_model.listener() for _ in range(asr_model.sessions - asr_model.live)]
    with pytest.raises(Busy, match="sessions are taken"):
        asr_model.listener()
    for listener in open_ones:
        listener.close()
    asr_model.listener().close()


def test_options_the_model_cannot_honour_are_named(asr_model: AsrModel) -> None:
    """The error for a wrong language, or too many keyterms, names the field and the limit."""
    with pytest.raises(OptionError, match="language: .* hears en"):
        asr_model.listener(ListenOptions(language="fi"))
    with pytest.raises(OptionError, match="keyterms: .* limit"):
        asr_model.listener(ListenOptions(keyterms=tuple(["incomprehensibilities"] * 150)))
    asr_model.listener(ListenOptions(language="en-US")).close()
