"""The runtime on the golden model gives what the official code gave: prompt rows, greedy frames, samples."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from codec.events import AudioChunk
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.talker import TalkerStep
from engines.lane import Steps, at_once

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tts"
TEXT = "The king is singing: 27 songs, one by one, until the morning."
OFFICIAL = np.load(GOLDEN / "official.npz")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TtsModel]:
    """Float32 throughout."""
    model = TtsModel(GOLDEN / "model", sessions=2, kv="f32", voices=tmp_path_factory.mktemp("voices"))
    yield model
    model.close()


def options(model: TtsModel) -> SpeakOptions:
    """Greedy, with the checkpoint's penalty; the text as it stands."""
    greedy = replace(model.sampling, greedy=True)
    return SpeakOptions(voice="ryan", language="English", seed=0, sampling=greedy, normalise=False)


def test_prompt_rows_are_the_official_ones(model: TtsModel) -> None:
    """Head, first text row with the begin of speech, and the rows that follow one a frame."""
    prompt = model.engine.prompt
    ids = prompt.encode(TEXT)
    head = prompt.head("ryan", "en", None)
    rows = np.concatenate([head, prompt.text_rows(ids[:1]) + prompt.codec_bos])
    assert np.abs(rows - OFFICIAL["rows"]).max() <= 1e-5
    trailing = np.concatenate([prompt.text_rows(ids[1:]), prompt.eos[None]])
    assert np.abs(trailing - OFFICIAL["trailing"]).max() <= 1e-5


@pytest.mark.parametrize("cuts", [[1000], [1, 4, 2, 7]])
def test_greedy_frames_are_the_official_ones(model: TtsModel, monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    """50 frames, every codebook, through the session; text at once and in deltas."""
    frame, frames = model.engine.frame, list[list[int]]()

    def watched(step: TalkerStep) -> Steps[list[int] | None]:
        codes = yield from frame(step)
        frames.append(codes or [])
        return codes

    monkeypatch.setattr(model.engine, "frame", watched)
    speaker = model.speaker(options(model))
    at = turn = 0
    while at < len(TEXT):
        speaker.say(TEXT[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
        while speaker.step(buffered=1.0):
            pass
    speaker.finish()
    while len(frames) < 50 and not speaker.finished:
        speaker.step(buffered=1.0)
    speaker.close()
    assert len(np.unique(OFFICIAL["frames"][:, 0])) >= 20
    np.testing.assert_array_equal(np.array(frames[:50]), OFFICIAL["frames"])


@pytest.mark.parametrize("sizes", [[1], [1, 2, 4, 8, 12], [64, 3]])
def test_samples_are_the_official_ones(model: TtsModel, sizes: list[int]) -> None:
    """300 frames in groups, to 4.2e-4 of an output whose RMS is .15: the window turns four times."""
    codes = OFFICIAL["codes"].astype(np.int64)
    state, at, turn = model.engine.codec.start(), 0, 0
    parts: list[np.ndarray] = []
    while at < len(codes):
        samples, state = at_once(model.engine.decode(codes[at : at + sizes[turn % len(sizes)]], state))
        parts.append(samples)
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    wave = np.concatenate(parts)
    assert wave.shape == (300 * model.frame_samples,)
    assert np.abs(wave[::29] - OFFICIAL["wave"]).max() <= 4.2e-4


def test_all_of_a_session_is_heard(model: TtsModel) -> None:
    """The samples a session gives out are those of its frames."""
    speaker = model.speaker(options(model))
    speaker.say(TEXT)
    speaker.finish()
    samples = sum(len(e.samples) for e in speaker.events() if isinstance(e, AudioChunk))
    assert samples == speaker.work.codec_frames * model.frame_samples == speaker.work.frames * model.frame_samples
    speaker.close()
