"""The audio half of a segment: each chunk and window is encoded once, and rows are the same however they are asked
for."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import manifest as manifests
from streaming.encoder import rows_of
from streaming.engine import BEYOND_SECONDS, HEAD_ROWS, SEGMENT_SECONDS, TEXT_ROWS
from streaming.mel import official_length
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.utterance import SPLIT_SECONDS
from streaming.windows import Windows, complete_windows, window_end
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.golden_models import GOLDEN, longer_chunks
from tests.streaming.listening import continuous, finals, finish, hear, listen


@pytest.fixture(scope="module", params=[100, 200, 400])
def any_chunk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsrModel]:
    """A model of random weights with the official floor and chunks of 1, 2 or 4 s."""
    frames = request.param
    directory = GOLDEN / "int8" if frames == 100 else longer_chunks(tmp_path_factory.mktemp("chunks"), frames)
    model = AsrModel(directory, sessions=3, threads=2)
    yield model
    model.close()


def tone(seconds: float) -> np.ndarray:
    """A sound that grows louder, so that the official mel floor rises with it."""
    time = np.arange(int(seconds * RATE)) / RATE
    noise = np.random.default_rng(3).standard_normal(len(time))
    return (np.exp(0.3 * time - 6) * (np.sin(2 * np.pi * 300 * time) + 0.3 * noise)).astype(np.float32)


def heard(model: AsrModel, samples: np.ndarray, looks: list[float]) -> tuple[np.ndarray, Work]:
    """All embeddings of ``samples`` as one segment, of which the tail is encoded at each second of ``looks`` too."""
    work = Work()
    windows, run = Windows(model.engine.encoder, model.engine.log_mel, work), model.engine.lane.run
    found: list[np.ndarray] = []
    at = 0
    for stop in [*(int(look * RATE) for look in looks), len(samples)]:
        windows.extend(samples[at:stop])
        while windows.taken < complete_windows(model.manifest, windows.length):
            found.append(run(windows.take()).embeddings)
        rows = run(windows.tail(windows.length)).embeddings
        at = stop
    return np.concatenate([*found, rows]), work


@given(st.integers(0, 24 * RATE))
def test_a_window_is_complete_from_its_end_on(samples: int) -> None:
    """With any chunk, a window is complete from its last sample on and not before, and all are equally long."""
    for directory in (GOLDEN / "int8", GOLDEN / "fp32"):
        manifest = manifests.read_asr(directory)
        complete = complete_windows(manifest, samples)
        assert complete == 0 or window_end(manifest, complete - 1) <= samples
        assert samples < window_end(manifest, complete)
        assert window_end(manifest, complete + 1) - window_end(manifest, complete) == 8 * RATE


@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0, 3.99, 4.01, 7.99, 8.0, 8.01, 9.7, 23.9])
def test_rows_do_not_depend_on_looks(any_chunk: AsrModel, seconds: float) -> None:
    """Rows have the same bits whether or not tails were encoded in between, and are as many as the official model
    has."""
    samples, spec = tone(seconds), any_chunk.manifest.encoder
    alone, work = heard(any_chunk, samples, [])
    looks = [look for look in np.arange(0.3, 24, 0.7).tolist() if look < seconds]
    looked_at, more = heard(any_chunk, samples, looks)
    np.testing.assert_array_equal(alone, looked_at)
    frames = official_length(len(samples)) // 160
    assert len(alone) == rows_of(frames, spec.chunk_frames, spec.chunk_rows)
    # Without looks every chunk is convolved once, whatever the floor does; looks see it rise.
    sure = (len(samples) - 200) // 160 + 1
    assert work.stem_chunks == more.stem_chunks == sure // spec.chunk_frames
    assert work.stem_repeats == 0
    assert work.windows == more.windows == sure // 800
    assert work.stem_tails <= 1 + (frames // spec.chunk_frames > sure // spec.chunk_frames)
    if len(looks) > 12:
        assert more.stem_repeats > 0


@pytest.mark.parametrize("cuts", [[160, 7001], [51_000, 512]])
def test_live_is_offline_with_any_chunk(any_chunk: AsrModel, clips: list[Clip], cuts: list[int]) -> None:
    """With any chunk, a live session in any pieces and with interims gives the finals of the file."""
    samples = np.concatenate([clips[cuts[0] % len(clips)].samples, continuous(clips[30:], 10)])
    live = finals(listen(any_chunk, samples, ListenOptions(language="en"), cuts))
    offline = finals(listen(any_chunk, samples, ListenOptions(language="en", interim=False), [len(samples)]))
    assert live == offline
    assert all(final.text for final in live)


def test_nothing_finished_is_computed_twice_with_any_chunk(any_chunk: AsrModel, clips: list[Clip]) -> None:
    """In live speech without a pause, each chunk, window and row is computed once."""
    samples = continuous(clips, 26)
    spec = any_chunk.manifest.encoder
    listener = any_chunk.listener(ListenOptions(endpointing=None))
    for at in range(0, len(samples), 8000):
        hear(listener, samples[at : at + 8000])
    work = listener.work
    heard_chunks = len(samples) * 100 // RATE // spec.chunk_frames + 1
    looks = work.ticks + work.finals
    assert work.ticks > 40
    assert work.stem_chunks <= heard_chunks + SPLIT_SECONDS * 100 // spec.chunk_frames + 1
    assert work.stem_tails <= 2 * looks
    assert work.window_rows == work.windows * spec.window_rows
    assert work.windows <= len(samples) // (8 * RATE)
    assert work.tail_rows <= looks * spec.window_rows
    assert len(finals(finish(listener))) == 1
    longest = rows_of(int((SEGMENT_SECONDS + BEYOND_SECONDS) * 100), spec.chunk_frames, spec.chunk_rows)
    assert any_chunk.engine.decoder.rows >= HEAD_ROWS + longest + TEXT_ROWS
    assert longest >= 300


def test_a_window_that_the_split_may_cut_stays_open(tmp_path: Path, clips: list[Clip]) -> None:
    """If windows are shorter than the stretch in which a segment is split, live still equals offline, and no audio is
    lost."""
    import msgspec

    directory = longer_chunks(tmp_path, 200)
    manifest = manifests.read_asr(directory)
    short = msgspec.structs.replace(manifest, encoder=msgspec.structs.replace(manifest.encoder, window_rows=25))
    manifests.write(short, directory)
    model = AsrModel(directory, sessions=2, threads=1)
    try:
        # A pause late in the segment: live the final is decoded in advance there, then speech goes on.
        speech = continuous(clips, 26.5)
        samples = np.concatenate(
            [speech[: int(21.8 * RATE)], np.zeros(RATE // 2, np.float32), speech[int(21.8 * RATE) :]]
        )
        options = ListenOptions(language="en", interim=False, endpointing=None)
        offline = finals(listen(model, samples, options, [len(samples)]))
        before = model.work.finals_discarded
        assert offline == finals(listen(model, samples, ListenOptions(language="en", endpointing=None), [1600]))
        assert model.work.finals_discarded > before
        assert offline[0].end == offline[1].start
    finally:
        model.close()
