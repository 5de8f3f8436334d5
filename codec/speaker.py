"""The session: text in, audio events out. No sockets, no asyncio, no clock but the sample count.

``say``, ``flush``, ``clear``, ``finish`` and ``close`` return at once and may come from any thread;
:meth:`Speaker.step` blocks for model calls and belongs to one thread at a time. A step speaks one group of frames, at
most twelve, and looks for a ``clear`` after every frame. Late text stalls the talker: it is never fed padding before
the text's end.

The codes of a piece depend on its text, the options and the seed: not on how the text was cut or when it came, nor on
other sessions (with f16, f32 and q8_0 weights; engines/gguf.py says what that rests on).
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from codec.decoder import CodecState
from codec.events import AudioChunk, Cleared, Event, Finished, Flushed, PieceMark, PieceStarted, Reason, Warning
from codec.guards import Guard
from codec.options import OptionError, SpeakOptions
from codec.output import MOST_FRAMES, Output, group_frames
from codec.sampling import Sampling, generator
from codec.script import Script
from codec.talker import TalkerStep, Utterance
from codec.work import Work
from engines.batching import Cancelled, Owner

if TYPE_CHECKING:
    from codec.model import TtsModel

Floats = npt.NDArray[np.float32]

MAX_PENDING: Final = 65_536
"""Characters said and not yet spoken; an hour of speech."""


@dataclass(frozen=True, slots=True)
class Voicing:
    """What the model made of the options. ``head``: float32 [n, width], the prompt before the text."""

    head: Floats
    english: bool
    sampling: Sampling
    seed: int


@dataclass(slots=True)
class _Piece:
    """The piece being spoken."""

    index: int
    utterance: Utterance
    guard: Guard
    state: CodecState
    start: float
    text_ended: bool = False
    """The row that ends the text has gone in."""


class Speaker:
    """One live session."""

    def __init__(self, model: "TtsModel", options: SpeakOptions, voicing: Voicing) -> None:
        self.options, self.work, self.seed = options, Work(), voicing.seed
        self.sample_rate = options.sample_rate or model.sample_rate
        self._model, self._voicing = model, voicing
        self._owner = Owner()
        self._output = Output(options.speed, model.sample_rate, self.sample_rate)
        self._script = Script(model.prompt, model.manifest, english=voicing.english)
        self._whole = "stream" not in model.manifest.layouts
        self._inbox = threading.Condition()
        """Guards what other threads touch: the script's inbox, the counters of clears, ``_idle`` and ``_closed``."""
        self._clears: list[int] = []
        self._flushes = self._clear_count = 0
        self._epoch = 0
        self._idle = self._closed = self._finishing = False
        self._stepping = threading.Lock()
        self._piece: _Piece | None = None
        self._pieces = 0
        self._sequence: int | None = None
        self._groups = 0
        self._given = 0
        self.finished = False

    # ---------------------------------------------------------------- any thread

    def say(self, text: str) -> None:
        """Append text; it is spoken as soon as words are complete.

        Raises:
            OptionError: more than ``MAX_PENDING`` characters would wait; nothing is taken.
            Cancelled: the session is closed; ValueError: it was finished.
        """
        with self._inbox:
            self._check_open()
            waiting = self._script.pending + len(text)
            if waiting > MAX_PENDING:
                raise OptionError("text", f"{waiting} characters would wait to be spoken, the limit is {MAX_PENDING}")
            self._script.say(text)
            self._stir()

    def flush(self) -> int:
        """What was said is complete: speak it to its end. Returns the number that ``Flushed`` will carry."""
        with self._inbox:
            self._check_open()
            number, self._flushes = self._flushes, self._flushes + 1
            self._script.mark(number)
            self._stir()
            return number

    def clear(self) -> int:
        """Forget everything said so far; stops within a frame. Returns the number that ``Cleared`` will carry.

        Flushes that wait are forgotten too: their ``Flushed`` does not come.
        """
        with self._inbox:
            self._check_open()
            number, self._clear_count = self._clear_count, self._clear_count + 1
            self._clears.append(number)
            self._epoch += 1
            self._script.clear()
            self._stir()
            return number

    def finish(self) -> None:
        """No more text follows: what was said is spoken to its end, then ``Finished`` comes. Idempotent."""
        with self._inbox:
            if not self._closed:
                self._finishing = True
                self._script.finish()
                self._stir()

    def close(self) -> None:
        """Give everything back. Idempotent; a ``step`` running elsewhere stops at its next model call."""
        self._owner.cancel()
        with self._inbox:
            already, self._closed = self._closed, True
            self._inbox.notify_all()
        if already:
            return
        with self._stepping:
            self._piece = None
            if self._sequence is not None:
                self._model.release(self._sequence)
                self._sequence = None
        self._model.forget(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until a step has something to do (True), or ``timeout`` seconds have passed (False)."""
        with self._inbox:
            return self._inbox.wait_for(lambda: not self._idle or self._closed, timeout)

    @property
    def pending(self) -> int:
        """Characters said and not yet handed to the talker."""
        with self._inbox:
            return self._script.pending

    def _check_open(self) -> None:
        if self._closed:
            raise Cancelled
        if self._finishing:
            raise ValueError("the session was finished: no more text can follow")

    def _stir(self) -> None:
        self._idle = False
        self._inbox.notify_all()

    # ---------------------------------------------------------------- the stepping thread

    def step(self, buffered: float | None = None) -> list[Event]:
        """Speak one group of frames, or do what else is due; no events when text is awaited (then :meth:`wait`).

        Args:
            buffered: seconds of audio that the client holds unplayed; the group is made to fit. None: groups grow.

        Raises:
            Cancelled: the session is closed.
        """
        with self._stepping:
            if self._closed:
                raise Cancelled
            with self._inbox:
                epoch, self._idle = self._epoch, True  # say() and the like unset it
            events = self._settle()
            self._advance(events, buffered, epoch)
            with self._inbox:
                if self._epoch != epoch:
                    # Cleared while this group was made: none of it goes out.
                    events = [e for e in events if isinstance(e, Cleared)]
                if events:
                    self._idle = False
            return events + self._settle()

    def events(self) -> Iterator[Event]:
        """Every event up to ``Finished``; for callers that said everything and called :meth:`finish`."""
        while not self.finished:
            yield from self.step(buffered=float(MOST_FRAMES))
            if not self.finished:
                self.wait()

    def warm(self) -> None:
        """Run one frame and one codec call of every usual size. For the model's start."""
        self.say("one two ")
        self.step()
        for frames in (2, 4, 8, MOST_FRAMES):
            codes = np.zeros((frames, self._model.manifest.codec.codebooks), np.int64)
            self._model.decode(codes, self._model.codec.start(), self._owner)

    def _settle(self) -> list[Event]:
        """Answer the clears that came."""
        with self._inbox:
            numbers, self._clears = self._clears, []
        if not numbers:
            return []
        self._piece = None
        self._output.reset()
        self._groups = 0
        self.work.clears += len(numbers)
        return [Cleared(number) for number in numbers]

    def _advance(self, events: list[Event], buffered: float | None, epoch: int) -> None:
        while self._piece is None:
            with self._inbox:
                mark = self._script.next_mark()
                begin = mark is None and self._script.has_text(whole=self._whole)
            if isinstance(mark, int):
                events.append(Flushed(mark))
            elif mark is not None:
                self.finished = True
                events.append(Finished())
                return
            elif begin:
                self._begin(events)
            else:
                return
        self._speak(self._piece, events, buffered, epoch)

    def _begin(self, events: list[Event]) -> None:
        """Start the next piece: the prompt's head is evaluated once a session, its rows stay in the cache."""
        began = time.perf_counter()
        model, head = self._model, self._voicing.head
        if self._sequence is None:
            self._sequence = model.acquire(self._owner)
            model.prefill(self._sequence, 0, head, self._owner)
            self.work.prefill_rows += len(head)
        at = len(head)
        ended = self._whole
        if self._whole:
            with self._inbox:
                ids = self._script.whole()
            body = model.prompt.whole(ids)
            model.prefill(self._sequence, at, body, self._owner)
            self.work.prefill_rows += len(body)
            self.work.text_tokens += len(ids)
            at += len(body)
        guard = Guard(cap=model.max_frames, tokens=self._script.tokens)
        random = generator(self.seed, self._pieces)
        utterance = Utterance(self._sequence, at, model.prompt.codec_bos, self._voicing.sampling, random)
        start = self._given / self.sample_rate
        self._piece = _Piece(self._pieces, utterance, guard, model.codec.start(), start, ended)
        self._pieces += 1
        self.work.pieces += 1
        self.work.prefill_seconds += time.perf_counter() - began
        events.append(PieceStarted(self._piece.index, start))

    def _speak(self, piece: _Piece, events: list[Event], buffered: float | None, epoch: int) -> None:
        """One group of frames of ``piece``."""
        model = self._model
        wanted = group_frames(self._groups, buffered, model.frame_samples / model.sample_rate)
        frames: list[list[int]] = []
        reason: Reason | None = None
        began = time.perf_counter()
        while len(frames) < wanted and reason is None:
            text = self._text(piece)
            if text is None:
                self.work.stalls += 1
                break
            codes = model.frame(TalkerStep(piece.utterance, text, may_end=piece.text_ended), self._owner)
            if self._epoch != epoch:
                self.work.frames_dropped += len(frames) + 1
                return
            if codes is None:
                reason = "end"
            else:
                frames.append(codes)
                reason = piece.guard.frame(piece.utterance.first_codes, piece.text_ended)
        self.work.frames += len(frames)
        self.work.frame_seconds += time.perf_counter() - began
        if frames:
            reason = self._sound(piece, frames, events) or reason
            self._groups += 1
        if reason is not None:
            self._end(piece, reason, events)

    def _text(self, piece: _Piece) -> Floats | None:
        """The text row of the next frame; None where the text is late."""
        prompt = self._model.prompt
        if piece.text_ended:
            return prompt.pad
        with self._inbox:
            token = self._script.next_token()
        if token is None:
            return None
        if token < 0:
            piece.text_ended = True
            return prompt.eos
        self.work.text_tokens += 1
        piece.guard.tokens += 1
        return prompt.text_rows([token])[0]

    def _sound(self, piece: _Piece, frames: list[list[int]], events: list[Event]) -> Reason | None:
        """Decode ``frames`` and give out their samples."""
        began = time.perf_counter()
        samples, piece.state = self._model.decode(np.array(frames, np.int64), piece.state, self._owner)
        self.work.codec_seconds += time.perf_counter() - began
        self.work.codec_calls += 1
        self.work.codec_frames += len(frames)
        self._give(self._output.feed(samples), events)
        return piece.guard.audio(samples, self._model.frame_samples, piece.text_ended)

    def _give(self, samples: Floats, events: list[Event]) -> None:
        if len(samples):
            events.append(AudioChunk(samples, self._given / self.sample_rate))
            self._given += len(samples)

    def _end(self, piece: _Piece, reason: Reason, events: list[Event]) -> None:
        ahead = self._model.codec.finish(piece.state)
        self._give(self._output.feed(ahead), events)
        self._give(self._output.flush(), events)
        with self._inbox:
            text, first, last = self._script.end_piece()
        events.append(PieceMark(piece.index, text, first, last, piece.start, self._given / self.sample_rate, reason))
        if reason != "end":
            name = f"{reason}_stops"
            setattr(self.work, name, getattr(self.work, name) + 1)
            events.append(Warning("piece_ended_by_guard", f"piece {piece.index} was ended by the {reason} guard"))
        self._piece = None


__all__ = ["Cancelled", "Speaker"]
