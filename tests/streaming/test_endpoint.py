"""Voice activity and endpointing: their rules on scripted probabilities, and what the real model takes for speech."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from engines.lane import at_once
from streaming.endpoint import Continued, Endpoint, Endpointer, EndpointEvent, Onset, Silence
from streaming.vad import CONTEXT, FRAME, Turn, Voice, VoiceActivity, VoiceModel, VoiceState

Samples = npt.NDArray[np.float32]
GRAPH = Path(models.__path__[0]) / "silero-vad" / "silero_vad_16k_op15.onnx"


class FirstSample:
    """A judge for which a frame's first sample is its probability, so that audio carries its own script."""

    def probabilities(self, frames: Sequence[tuple[VoiceState, Samples]]) -> list[float]:
        return [float(frame[0]) for _, frame in frames]


def script(probabilities: Sequence[float]) -> Samples:
    return np.repeat(np.array(probabilities, np.float32), FRAME)


def turns(probabilities: Sequence[float]) -> list[Turn]:
    return at_once(VoiceActivity(FirstSample()).feed(script(probabilities)))


def events(probabilities: Sequence[float], endpointing: float | None = 0.3) -> list[EndpointEvent]:
    return at_once(Endpointer(VoiceActivity(FirstSample()), endpointing).feed(script(probabilities)))


def spans(given_turns: list[Turn]) -> list[tuple[Voice, int, int]]:
    """The verdicts that differ from the one before, as (voice, frame where it began, frames so far)."""
    changes = [t for i, t in enumerate(given_turns) if i == 0 or given_turns[i - 1].voice is not t.voice]
    return [(t.voice, t.since // FRAME, t.clock // FRAME) for t in changes]


@pytest.fixture(scope="module")
def model() -> VoiceModel:
    return VoiceModel.load()


def voice_like(seed: int, seconds: float = 4.0) -> Samples:
    """Bursts of a buzzing, formant-shaped sound with pauses, which make the model change its verdict."""
    random = np.random.default_rng(seed)
    time = np.arange(int(16_000 * seconds)) / 16_000
    pitch = 120 + 30 * np.sin(2 * np.pi * 1.3 * time) + random.uniform(-20, 60)
    phase = 2 * np.pi * np.cumsum(pitch) / 16_000
    harmonics = np.arange(1, 25)
    formants = np.exp(-(((harmonics * 130 - 600) / 300) ** 2)) + 0.4 * np.exp(-(((harmonics * 130 - 1800) / 500) ** 2))
    buzz = sum(a * np.sin(k * phase) for k, a in zip(harmonics, formants, strict=True))
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * time), 0, 1) * (np.sin(2 * np.pi * 0.6 * time + seed) > -0.2)
    return (0.15 * buzz * syllables + random.normal(0, 0.002, len(time))).astype(np.float32)


# The rules


def test_speech_needs_three_frames() -> None:
    """Two voiced frames are a click and leave no trace; three are speech from the first of them on."""
    click = turns([0, 0.9, 0.9, 0, 0])
    assert [t.voice for t in click] == [
        Voice.SILENCE, Voice.PERHAPS, Voice.PERHAPS, Voice.SILENCE, Voice.SILENCE,
    ]  # fmt: skip
    assert {t.since for t in click if t.voice is Voice.SILENCE} == {0}
    assert spans(turns([0, 0.9, 0.9, 0.9]))[-1] == (Voice.SPEECH, 1, 4)


def test_hysteresis() -> None:
    """0.5 is needed to begin, 0.35 is enough to go on, less is a pause at once."""
    assert spans(turns([0.49] * 6)) == [(Voice.SILENCE, 0, 1)]
    assert spans(turns([0.5, 0.36, 0.36, 0.36])) == [(Voice.PERHAPS, 0, 1), (Voice.SPEECH, 0, 3)]
    assert spans(turns([0.9] * 4 + [0.36] * 9 + [0.34])) == [
        (Voice.PERHAPS, 0, 1), (Voice.SPEECH, 0, 3), (Voice.SILENCE, 13, 14),
    ]  # fmt: skip


def test_one_turn_a_frame() -> None:
    """Every 512 samples bring one verdict with the clock at their end; the rest waits for more."""
    activity = VoiceActivity(FirstSample())
    assert [t.clock for t in at_once(activity.feed(np.zeros(1300, np.float32)))] == [512, 1024]
    assert at_once(activity.feed(np.zeros(235, np.float32))) == []
    assert [t.clock for t in at_once(activity.feed(np.zeros(1, np.float32)))] == [1536]


def test_an_utterance() -> None:
    """Onset at the first voiced frame, silence after 96 ms, endpoint when the silence is long enough."""
    assert events([0, 0, *[0.9] * 10, *[0.1] * 12], endpointing=0.3) == [
        Onset(sample=2 * FRAME, decided=5 * FRAME),
        Silence(sample=12 * FRAME, decided=15 * FRAME),
        Endpoint(sample=12 * FRAME, decided=22 * FRAME),  # 9.4 frames are 0.3 s
    ]


def test_a_pause_inside_an_utterance() -> None:
    """A pause shorter than the endpointing is announced and taken back; a shorter one than 96 ms is not announced."""
    assert events([*[0.9] * 4, *[0.1] * 2, *[0.9] * 5, *[0.1] * 5, *[0.9] * 4], endpointing=0.3) == [
        Onset(sample=0, decided=3 * FRAME),
        Silence(sample=11 * FRAME, decided=14 * FRAME),
        Continued(sample=16 * FRAME, decided=19 * FRAME),
    ]


def test_a_click_does_not_prolong_silence() -> None:
    """Silence counts on through a click, and the endpoint waits while the click may yet be speech."""
    assert events([*[0.9] * 4, *[0.1] * 4, 0.9, 0.9, 0.1], endpointing=0.3)[-1] == Silence(4 * FRAME, 7 * FRAME)
    assert events([*[0.9] * 4, *[0.1] * 8, 0.9, 0.9, 0.1], endpointing=0.3)[-1] == Endpoint(4 * FRAME, 15 * FRAME)
    assert events([*[0.9] * 4, *[0.1] * 8, 0.9, 0.9, 0.9], endpointing=0.3)[-1] == Continued(12 * FRAME, 15 * FRAME)


def test_endpointing_shorter_than_the_confirmation() -> None:
    """With 10 ms one silent frame ends the utterance, and its silence is still announced first."""
    assert events([*[0.9] * 4, 0.1, 0.1], endpointing=0.01)[1:] == [
        Silence(sample=4 * FRAME, decided=5 * FRAME),
        Endpoint(sample=4 * FRAME, decided=5 * FRAME),
    ]


def test_without_endpointing() -> None:
    """None announces silences but never ends an utterance."""
    heard = events([*[0.9] * 4, *[0.1] * 500, *[0.9] * 4], endpointing=None)
    assert [type(event) for event in heard] == [Onset, Silence, Continued]


def test_closing_from_outside() -> None:
    """After close, speech that goes on has an onset at the closing, new speech at its own beginning."""
    endpointer = Endpointer(VoiceActivity(FirstSample()), 0.3)
    at_once(endpointer.feed(script([0.9] * 10)))
    endpointer.close(8 * FRAME)
    assert at_once(endpointer.feed(script([0.9, 0.9]))) == [Onset(8 * FRAME, 11 * FRAME)]
    assert at_once(endpointer.feed(script([0.1] * 5))) == [Silence(12 * FRAME, 15 * FRAME)]
    endpointer.close(17 * FRAME)
    assert at_once(endpointer.feed(script([0.1] * 20))) == []
    assert at_once(endpointer.feed(script([0.9] * 3))) == [Onset(37 * FRAME, 40 * FRAME)]


@given(
    probabilities=st.lists(st.sampled_from([0.0, 0.3, 0.4, 0.6, 1.0]), max_size=120),
    run=st.integers(1, 12),
    endpointing=st.sampled_from([None, 0.01, 0.1, 0.3, 0.6]),
)
def test_order_of_events(probabilities: list[float], run: int, endpointing: float | None) -> None:
    """Whatever the script: the order is Onset (Silence Continued)* Silence Endpoint, and time never goes back."""
    heard = events([p for p in probabilities for _ in range(run)], endpointing)
    follows: dict[type[EndpointEvent] | None, set[type[EndpointEvent]]] = {
        None: {Onset}, Onset: {Silence}, Silence: {Continued, Endpoint}, Continued: {Silence}, Endpoint: {Onset},
    }  # fmt: skip
    previous: EndpointEvent | None = None
    for event in heard:
        assert type(event) in follows[type(previous) if previous else None]
        assert event.sample <= event.decided
        if previous:
            assert previous.sample <= event.sample
            assert previous.decided <= event.decided
        if isinstance(event, Onset) and previous:
            assert event.sample >= previous.decided
        if isinstance(event, Endpoint):
            assert isinstance(previous, Silence)
            assert event.sample == previous.sample
            assert endpointing is not None
            assert event.decided - previous.sample >= endpointing * 16_000
        previous = event


# The model


def test_the_bundled_graph_is_the_published_one() -> None:
    """The file has the checksum that its card and SHA256SUMS state."""
    digest = hashlib.sha256(GRAPH.read_bytes()).hexdigest()
    assert (GRAPH.parent / "SHA256SUMS").read_text().split() == [digest, GRAPH.name]
    assert digest in (GRAPH.parent / "README.md").read_text()


def test_state_is_carried_as_the_model_wants_it(model: VoiceModel) -> None:
    """Frame by frame, the probabilities equal the graph's own, run with explicit context and state."""
    audio = voice_like(1)
    session = ort.InferenceSession(str(GRAPH), providers=["CPUExecutionProvider"])
    recurrent, padded, expected = np.zeros((2, 1, 128), np.float32), np.pad(audio, (CONTEXT, 0)), []
    for start in range(0, len(audio) - FRAME + 1, FRAME):
        feeds = {
            "input": padded[None, start : start + CONTEXT + FRAME],
            "state": recurrent,
            "sr": np.array(16_000, np.int64),
        }
        output, recurrent = session.run(None, feeds)
        expected.append(output[0, 0])
    state = VoiceState()
    got = [model.probabilities([(state, frame)])[0] for frame in audio[: 125 * FRAME].reshape(-1, FRAME)]
    np.testing.assert_array_equal(got, expected)
    assert max(expected) > 0.6 > 0.3 > min(expected)


@pytest.mark.parametrize("count", [2, 3, 8, 24, 64])
def test_frames_of_many_streams_have_the_bits_of_each_alone(model: VoiceModel, count: int) -> None:
    """Frames of speech, silence and hiss in one call have the same bits as alone, states included, over some
    seconds."""
    random = np.random.default_rng(count)
    streams = [voice_like(i, 2.0) * np.float32(i % 3 > 0) for i in range(count)]
    streams = [each + random.normal(0, 0.003 * (i % 2), len(each)).astype(np.float32) for i, each in enumerate(streams)]
    frames = [each[: 60 * FRAME].reshape(-1, FRAME) for each in streams]
    alone, together = [VoiceState() for _ in streams], [VoiceState() for _ in streams]
    for number in range(60):
        expected = [model.probabilities([(state, each[number])])[0] for state, each in zip(alone, frames, strict=True)]
        pairs = [(state, each[number]) for state, each in zip(together, frames, strict=True)]
        assert model.probabilities(pairs) == expected
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.recurrent, other.recurrent)
        np.testing.assert_array_equal(one.context, other.context)


AUDIO = voice_like(3, 4.0)


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, len(AUDIO)), max_size=80), endpointing=st.sampled_from([0.1, 0.3]))
def test_cuts_do_not_matter(model: VoiceModel, cuts: list[int], endpointing: float) -> None:
    """The real model hears the same turns and events for every way the samples are cut."""
    edges = [0, *sorted(cuts), len(AUDIO)]
    pieces = [AUDIO[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    whole, cut = Endpointer(VoiceActivity(model), endpointing), Endpointer(VoiceActivity(model), endpointing)
    expected = at_once(whole.feed(AUDIO))
    assert [event for piece in pieces for event in at_once(cut.feed(piece))] == expected
    assert {Onset, Silence, Endpoint} <= {type(event) for event in expected}
    activity, expected = VoiceActivity(model), at_once(VoiceActivity(model).feed(AUDIO))
    assert [turn for piece in pieces for turn in at_once(activity.feed(piece))] == expected


def test_noise_is_not_speech(model: VoiceModel) -> None:
    """Digital silence, hiss, hum and clicks bring no onset."""
    random = np.random.default_rng(0)
    time = np.arange(160_000) / 16_000
    clicks = np.zeros(160_000)
    clicks[::8000] = 0.8
    for audio in (0 * time, random.normal(0, 0.01, 160_000), 0.1 * np.sin(2 * np.pi * 50 * time), clicks):
        assert at_once(Endpointer(VoiceActivity(model), 0.3).feed(audio.astype(np.float32))) == []


DATA = Path(__file__).parents[1] / "data"
INDEX = [json.loads(line) for line in (DATA / "index.jsonl").read_text("utf-8").splitlines()]


def test_every_clip_is_heard(model: VoiceModel) -> None:
    """Each of the 120 test clips, spelled letters and far microphones included, has at least one onset."""
    for row in INDEX:
        if "parts" not in row:
            samples, _ = soundfile.read(DATA / row["file"], dtype="float32")
            endpointer = Endpointer(VoiceActivity(model), 0.6)
            pieces = (samples[at : at + 8000] for at in range(0, len(samples), 8000))
            found = (event for piece in pieces for event in at_once(endpointer.feed(piece)))
            assert any(isinstance(event, Onset) for event in found), row


@pytest.mark.parametrize("row", [row for row in INDEX if "parts" in row], ids=lambda row: str(row["speaker"]))
def test_gaps_and_speech_of_a_recording(model: VoiceModel, row: dict[str, Any]) -> None:
    """In a long recording every joined clip is speech, and from 0.3 s after it the gap behind it is silence."""
    samples, rate = soundfile.read(DATA / row["file"], dtype="float32")
    speech = np.zeros(len(samples), bool)
    for turn in at_once(VoiceActivity(model).feed(samples)):
        speech[turn.since if turn.voice is Voice.SPEECH else turn.clock : turn.clock] = True
    parts = [(int(part["start"] * rate), int(part["end"] * rate)) for part in row["parts"]]
    for (start, end), following in itertools.zip_longest(
        parts, [begin for begin, _ in parts[1:]], fillvalue=len(samples)
    ):
        assert speech[start:end].mean() > 0.4
        assert not speech[end + 3 * rate // 10 : following - FRAME].any()
