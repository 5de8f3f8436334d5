"""One piece being spoken: text tokens → frames → samples, a group of frames at a time. While the codec decodes one
group the next may already be made, as work of its own.

Knows where its rows stand in the KV cache, what codes it drew, the codec's state and the guards; nothing of sessions,
queues or clears. Those reach it through ``next_token``, which it asks before every frame.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from codec.decoder import CodecState
from codec.engine import Engine
from codec.events import Reason
from codec.guards import Guard
from codec.script import END
from codec.talker import TalkerState, TalkerStep
from codec.work import Work
from engines.lane import Steps, Task, outcome

Floats = npt.NDArray[np.float32]

_SILENCE: Final = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Group:
    """What a group of frames gave: samples at the codec's rate, and why the piece ended, None while it goes on."""

    samples: Floats
    frames: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class _Frame:
    codes: list[int]
    text_ended: bool
    """Whether the text had been read when it was made."""


class Piece:
    """Its model calls are steps of a lane; one group at a time."""

    def __init__(
        self,
        engine: Engine,
        talker: TalkerState,
        work: Work,
        *,
        index: int,
        start: float,
        state: CodecState,
        prompt_tokens: Sequence[int] | None = None,
        rest: Sequence[Floats] = (),
    ) -> None:
        """
        Args:
            index, start: for its events: number in the session and time of its first sample.
            state: of the codec: empty, or after the reference of a cloned voice.
            prompt_tokens: the text's, where it was all there at the start; None where they come one by one.
            rest: text rows of that text which did not go in before the first frame.
        """
        self.index, self.start = index, start
        self._engine, self._talker, self._work = engine, talker, work
        self._guard = Guard(cap=min(engine.max_frames, engine.rows - talker.position - 1))
        for token in prompt_tokens or ():
            self._guard.read(engine.prompt.spelling(token))
        self._codec = state
        self._rest = deque(rest)
        self._text_ended = prompt_tokens is not None and not self._rest
        self._frames: list[_Frame] = []
        """The frames that were made and not decoded yet."""
        self._reason: Reason | None = None
        """Why the piece ends after those."""
        self._wanted = 0
        """Up to how many of them are made."""
        self._ahead: Task[bool] | None = None
        """The work that makes the next group's frames; nothing else touches the talker until it has ended."""

    def speak(
        self,
        wanted: int,
        next_token: Callable[[], int | None],
        check: Callable[[], None],
        start: Callable[[Steps[bool]], Task[bool]] | None,
    ) -> Steps[Group]:
        """Up to ``wanted`` frames; fewer where the text is late (``next_token`` gives None) or the piece ends.

        ``check`` raises where the frames made so far are not wanted any more; ``next_token`` does the same. ``start``
        starts work in the lane: by it as many frames of the next group are made as the codec decodes meanwhile, whose
        call takes about as long. None: nothing is made ahead.
        """
        self._wanted = wanted
        if self._ahead is not None:
            try:
                yield from outcome(self._ahead)
            except Exception:
                self._ahead = None
                raise
            self._ahead = None
        if not (yield from self._make(next_token)):
            self._work.stalls += 1
        frames, self._frames = self._frames[:wanted], self._frames[wanted:]
        reason = None if self._frames else self._reason
        if not frames:
            return Group(_SILENCE, 0, reason)
        self._work.frames += len(frames)
        check()
        if start is not None and self._reason is None:
            self._wanted = len(frames)
            self._ahead = start(self._make(next_token))
        samples = yield from self._decode([frame.codes for frame in frames])
        if reason is None:
            reason = self._guard.audio(samples, self._engine.frame_samples, frames[-1].text_ended)
            if reason is not None:
                yield from self.drop()
        return Group(samples, len(frames), reason)

    def drop(self) -> Steps[None]:
        """Forget what was made ahead. When this ends nothing of the piece goes on: its rows in the cache are free."""
        if self._ahead is not None:
            self._ahead.withdrawn = True
            with suppress(Exception):  # nobody wants it, whatever came of it
                yield from outcome(self._ahead)
            self._ahead = None
        self._work.frames += len(self._frames)
        self._work.frames_dropped += len(self._frames)
        self._frames.clear()

    def rest(self) -> Floats:
        """What the codec still holds back at the end."""
        return self._codec.ahead

    def _make(self, next_token: Callable[[], int | None]) -> Steps[bool]:
        """Make frames until as many as wanted are there or the piece ends; returns False where the text is late."""
        began = time.perf_counter()
        try:
            while len(self._frames) < self._wanted and self._reason is None:
                text = self._text(next_token())
                if text is None:
                    return False
                step = TalkerStep(self._talker, text, may_end=self._text_ended)
                codes = yield from self._engine.frame(step)
                if codes is None:
                    self._reason = "end"
                else:
                    self._frames.append(_Frame(codes, self._text_ended))
                    self._reason = self._guard.frame(self._talker.first_codes, self._text_ended)
            return True
        finally:
            self._work.frame_seconds += time.perf_counter() - began

    def _text(self, token: int | None) -> Floats | None:
        """The text row of the next frame. After the text's end it is padding for ever, before it never."""
        prompt = self._engine.prompt
        if self._rest:
            row = self._rest.popleft()
            self._text_ended = not self._rest
            return row
        if token is None:
            return None
        if self._text_ended:
            return prompt.pad
        if token == END:
            self._text_ended = True
            return prompt.eos
        self._work.text_tokens += 1
        self._guard.read(prompt.spelling(token))
        return prompt.text_rows([token])[0]

    def _decode(self, frames: list[list[int]]) -> Steps[Floats]:
        began = time.perf_counter()
        samples, self._codec = yield from self._engine.decode(np.array(frames, np.int64), self._codec)
        self._work.codec_seconds += time.perf_counter() - began
        self._work.codec_calls += 1
        self._work.codec_frames += len(frames)
        return samples
