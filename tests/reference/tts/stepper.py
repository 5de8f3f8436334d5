"""The exported codec decoder driven from its manifest alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engines import manifest as manifests

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]
State = list[Floats]


class Stepper:
    """``codes`` [N, Q] of one stream, cut and padded as asked."""

    def __init__(self, directory: Path, codec: manifests.CodecDecoder | None = None, threads: int = 1) -> None:
        self.codec = codec or manifests.read_tts(directory).codec
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(directory / self.codec.file, options, providers=["CPUExecutionProvider"])
        self.kind = np.float16 if self.codec.precision == "fp16" else np.float32
        self.outputs = [self.codec.wave, self.codec.samples, *(state.output for state in self.codec.states)]

    def start(self, batch: int = 1) -> State:
        """The state before the first call."""
        return [np.zeros((batch, *state.shape), self.kind) for state in self.codec.states]

    def call(self, codes: Codes, state: State, last: float = 0.0) -> tuple[Floats, Codes, State]:
        """codes [B, N, Q] → wave [B, N · samples], valid samples [B], next state."""
        feed = {self.codec.codes: codes, self.codec.last: np.array([last], self.kind)}
        feed |= dict.fromkeys(self.codec.slots or (), np.arange(len(codes)))
        feed |= {each.input: value for each, value in zip(self.codec.states, state, strict=True)}
        wave, valid, *following = self.session.run(self.outputs, feed)
        return wave, valid, following

    def decode(self, codes: Codes, cuts: Sequence[tuple[int, int]]) -> tuple[Floats, State]:
        """Decode by calls of (frames, padding frames), over and over; samples and the last state."""
        state, waves, place, turn = self.start(), [], 0, 0
        while place < len(codes):
            frames, padding = cuts[turn % len(cuts)]
            chunk = codes[place : place + frames]
            padded = np.concatenate((chunk, np.full((padding, codes.shape[1]), -1)))[None]
            wave, valid, state = self.call(padded, state)
            assert int(valid[0]) == len(chunk) * self.codec.frame_samples
            waves.append(wave[0, : valid[0]])
            place, turn = place + len(chunk), turn + 1
        return np.concatenate(waves).astype(np.float32), state
