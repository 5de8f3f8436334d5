"""The session: text in, audio events out. No sockets, no asyncio, no clock but the sample count.

``say``, ``flush``, ``clear``, ``finish`` and ``close`` may come from any thread, and but for ``close`` return at once.
One step goes on at a time: :meth:`Speaker.steps` is its work, whose model calls a lane runs (``engines/lane.py``), and
:meth:`Speaker.step` waits for it. A step speaks one group of frames, at most twelve (three of a large model), and looks
for a ``clear`` after every frame. While it decodes them it lets the lane make as many of the next group, which the next
step takes over. Late text stalls the talker: it is never fed padding before the text's end.

The codes of a piece depend on its text, the options and the seed: not on how the text was cut or when it came, nor on
other sessions (with f16, f32 and q8_0 weights; engines/gguf.py says what that rests on).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from codec.engine import Engine
from codec.events import (
    AudioChunk,
    Cleared,
    Event,
    Finished,
    Flushed,
    PieceMark,
    PieceStarted,
    Reason,
    SpeechWarning,
    SpokenWord,
)
from codec.inbox import Inbox, Overtaken
from codec.options import SpeakOptions
from codec.output import MOST_FRAMES, Output, group_frames
from codec.pauses import Tail, silence
from codec.piece import Piece
from codec.sampling import Sampling, generator
from codec.script import Script
from codec.sounds.speller import Speller
from codec.talker import TalkerState
from codec.text.pieces import Fragment, PieceEnd
from codec.voices import Reference
from codec.word_times import Loudness, place_words
from codec.work import Work
from engines.lane import Cancelled, Owner, Steps, Task

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Voicing:
    """What the model made of the options. ``head``: float32 [n, width], the prompt before the text."""

    head: Floats
    english: bool
    sampling: Sampling
    seed: int
    reference: Reference | None
    """The recording of a cloned voice that goes before each piece; a piece then begins once its text is all there."""
    speller: Speller | None = None
    """It makes sounds of words, for a model that reads sounds."""
    gain: float = 0.0
    """By how many decibels the voice is made louder."""


class Speaker:
    """One live session."""

    def __init__(
        self, engine: Engine, options: SpeakOptions, voicing: Voicing, on_close: Callable[["Speaker"], None]
    ) -> None:
        """``on_close`` is called once, with the speaker, when it has given everything back."""
        self.options, self.work, self.seed = options, Work(), voicing.seed
        self.sample_rate = options.sample_rate or engine.sample_rate
        self._engine, self._voicing, self._on_close = engine, voicing, on_close
        self.lane, self.owner = engine.lane, Owner()
        """Where its steps run, and in whose name."""
        self._output = Output(options.speed, engine.sample_rate, self.sample_rate, voicing.gain)
        speller = voicing.speller
        self._inbox = Inbox(Script(engine.prompt, engine.manifest, english=voicing.english, speller=speller))
        self._tail: Tail | None = None
        """The quiet at the end of the last piece; None where no piece was spoken since the last clear."""
        self._piece_speed = options.speed
        self._loudness: Loudness | None = None
        """The loudness of the piece being spoken, where the times of its words are asked for."""
        self._whole = voicing.reference is not None or "stream" not in engine.manifest.layouts
        self._stepping = threading.Lock()
        """Held while a step goes on, or the session is being closed."""
        self._piece: Piece | None = None
        self._pieces = 0
        self._takes = 0
        """How many pieces began since the last clear: a piece's random numbers depend on the seed and on this."""
        self._sequence: int | None = None
        self._groups = 0
        self._given = 0

    # ---------------------------------------------------------------- any thread

    def say(self, text: str) -> None:
        """Append text; it is spoken as soon as words are complete.

        Raises:
            OptionError: more than ``MAX_PENDING`` characters would wait; nothing is taken.
            Cancelled: the session is closed; ValueError: it was finished.
        """
        self._inbox.say(text)

    def flush(self) -> int:
        """What was said is complete: speak it to its end. Returns the number that ``Flushed`` will carry."""
        return self._inbox.flush()

    def clear(self) -> int:
        """Forget everything said so far; stops within a frame. Returns the number that ``Cleared`` will carry.

        Flushes that wait are forgotten too: their ``Flushed`` does not come. After :meth:`finish`, ``Finished`` does.
        """
        return self._inbox.clear()

    def finish(self) -> None:
        """No more text follows: what was said is spoken to its end, then ``Finished`` comes. Idempotent."""
        self._inbox.finish()

    def configure(self, *, speed: float) -> None:
        """Change how the pieces that begin from now on are spoken.

        Raises:
            OptionError: outside the limits; nothing changes.
        """
        self.options = replace(self.options, speed=speed)
        self._output.speed = speed

    def close(self) -> None:
        """Give everything back; this waits for the lane. Idempotent; a step that goes on ends at its next call."""
        self.owner.cancel()
        if self._inbox.close():
            return
        self.lane.wake()
        with self._stepping:
            self._piece = None
            if self._sequence is not None:
                self._engine.release(self._sequence)
                self._sequence = None
        self._on_close(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until a step has something to do (True), or ``timeout`` seconds have passed (False)."""
        return self._inbox.wait(timeout)

    @property
    def pending(self) -> int:
        """How many characters were said and have not been handed to the talker."""
        return self._inbox.pending

    @property
    def finished(self) -> bool:
        """``Finished`` has been given out: no step is due any more."""
        return self._inbox.finished

    # ---------------------------------------------------------------- a step

    def step(self, buffered: float | None = None, *, hold: bool = False) -> list[Event]:
        """Do :meth:`steps` in the lane, due now, and wait for what it returns: so it must not be called in the lane."""
        return self.lane.run(self.steps(buffered, hold=hold), owner=self.owner, deadline=time.monotonic())

    def steps(self, buffered: float | None = None, *, hold: bool = False) -> Steps[list[Event]]:
        """Speak one group of frames, or do what else is due; no events when text is awaited, or where long text held
        nothing to say so far, or where speed and rate hold a group's few samples back (:meth:`wait` tells).

        Args:
            buffered: seconds of audio that the client holds unplayed; the group is made to fit. None: groups grow.
            hold: begin a piece only when all of its text is there.

        Raises:
            Cancelled: the session is closed.
            RuntimeError: another step goes on.
        """
        if not self._stepping.acquire(blocking=False):
            if self._inbox.closed:
                raise Cancelled
            raise RuntimeError("a step of this speaker goes on already")
        try:
            if self._inbox.closed:
                raise Cancelled
            return (yield from self._steps(buffered, hold))
        finally:
            self._stepping.release()

    def _steps(self, buffered: float | None, hold: bool) -> Steps[list[Event]]:
        events, epoch = yield from self._settle()
        made: list[Event] = []
        given, frames = self._given, self.work.frames
        try:
            yield from self._advance(made, buffered, epoch, whole=self._whole or hold)
            finished = bool(made) and isinstance(made[-1], Finished)
            # Of a frame that was made there may be nothing to give out yet: the next is due all the same.
            busy = bool(made) or self.work.frames > frames
            self._inbox.rest(epoch, busy=busy, finished=finished)
            return events + made
        except Overtaken:
            self._given = given
            self.work.frames_dropped += self.work.frames - frames
            return events + (yield from self._settle())[0]

    def events(self) -> Iterator[Event]:
        """Every event up to ``Finished``; for callers that said everything and called :meth:`finish`."""
        while not self.finished:
            yield from self.step(buffered=float(MOST_FRAMES))
            if not self.finished:
                self.wait()

    def warm(self) -> None:
        """Run one frame and one codec call of every usual size. For the model's start."""
        self.say("one two three.")
        self.flush()
        self.step()
        self.lane.run(self._engine.warm())

    def _settle(self) -> Steps[tuple[list[Event], int]]:
        """Answer the clears that came, once nothing of what they stop goes on, and begin a new turn."""
        numbers, epoch = self._inbox.settle()
        if numbers:
            if self._piece is not None:
                yield from self._piece.drop()
            self._piece = None
            self._output.reset()
            self._tail = None
            self._groups = self._takes = 0
            self.work.clears += len(numbers)
        return [Cleared(number) for number in numbers], epoch

    def _advance(self, events: list[Event], buffered: float | None, epoch: int, *, whole: bool) -> Steps[None]:
        while self._piece is None:
            with self._inbox.current(epoch) as script:
                mark = script.next_mark()
                begin = mark is None and not script.behind and script.has_text(whole=whole)
                ends = script.take_ends() if begin or mark is not None else []
                in_vain = mark is not None and script.in_vain
                unread = script.unread() if mark is not None else ""
            if unread:
                events.append(_left_out(unread))
            if in_vain:
                events.append(SpeechWarning("nothing_to_speak", "the text holds nothing that can be spoken"))
            self._pause(ends, events, last=mark is not None)
            if isinstance(mark, int):
                events.append(Flushed(mark))
            elif mark is not None:
                events.append(Finished())
                return
            elif begin:
                self._piece = yield from self._begin(events, epoch)
            else:
                yield from self._prepare()
                return
        yield from self._speak(self._piece, events, buffered, epoch)

    def _pause(self, ends: list[PieceEnd], events: list[Event], *, last: bool) -> None:
        """The silence between two pieces. After the ``last`` one of a flush only what the author asked for: when the
        next text comes is the caller's, and it should be heard at once."""
        if self._tail is None or not ends:
            return
        asked = self.options.pauses
        scale = 0.0 if last else 1.0 if asked is None else asked
        seconds = silence(ends, scale, self._tail.quiet / self._engine.sample_rate)
        self._give(np.zeros(round(seconds / self._output.speed * self.sample_rate), np.float32), events)
        self._tail = None

    def _prepare(self) -> Steps[int]:
        """Take a sequence and evaluate the prompt's head, once a session: its rows stay in the cache."""
        if self._sequence is None:
            self._sequence = yield from self._engine.acquire()
            yield from self._prefill(self._sequence, 0, self._voicing.head)
        return self._sequence

    def _prefill(self, sequence: int, start: int, rows: Floats) -> Steps[None]:
        """Put ``rows`` of the prompt into the cache, counted."""
        began = time.perf_counter()
        yield from self._engine.prefill(sequence, start, rows)
        self.work.prefill_rows += len(rows)
        self.work.prefill_seconds += time.perf_counter() - began

    def _begin(self, events: list[Event], epoch: int) -> Steps[Piece]:
        """Start the next piece after the prompt's head."""
        engine, voicing, sequence = self._engine, self._voicing, (yield from self._prepare())
        self._output.reset()
        self._tail = Tail()
        self._piece_speed = self._output.speed
        self._loudness = Loudness(engine.sample_rate) if self.options.word_times else None
        start = self._given / self.sample_rate
        talker = TalkerState(
            sequence,
            position=len(voicing.head),
            row=engine.prompt.codec_bos,
            sampling=voicing.sampling,
            random=generator(self.seed, self._takes),
        )
        ids: list[int] | None = None
        rest: Sequence[Floats] = ()
        if self._whole:
            with self._inbox.current(epoch) as script:
                ids = script.whole()
            body = engine.prompt.cloned(ids, voicing.reference) if voicing.reference else engine.prompt.whole(ids)
            yield from self._prefill(sequence, talker.position, body.rows)
            talker.position += len(body.rows)
            talker.row, rest = body.row, list(body.rest)
            self.work.text_tokens += len(ids)
        piece = Piece(
            engine,
            talker,
            self.work,
            index=self._pieces,
            start=start,
            state=(yield from engine.primed(voicing.reference)),
            prompt_tokens=ids,
            rest=rest,
        )
        self._pieces += 1
        self._takes += 1
        self.work.pieces += 1
        events.append(PieceStarted(piece.index, start))
        return piece

    def _speak(self, piece: Piece, events: list[Event], buffered: float | None, epoch: int) -> Steps[None]:
        """Speak one group of frames of ``piece``."""

        def next_token() -> int | None:
            with self._inbox.current(epoch) as script:
                return script.next_token()

        def check() -> None:
            with self._inbox.current(epoch):
                pass

        def start(steps: Steps[bool]) -> Task[bool]:
            # It is due with the step that takes it over: when the client has played this group too.
            due = began if buffered is None else began + buffered + wanted * frame_seconds / self._piece_speed
            task = Task(steps, owner=self.owner, deadline=due)
            self.lane.start(task)
            return task

        engine, began = self._engine, time.monotonic()
        frame_seconds = engine.frame_samples / engine.sample_rate
        wanted = group_frames(self._groups, buffered, frame_seconds, engine.most_frames)
        # In a single thread it would be made before the next step asks how much is wanted, and no sooner.
        group = yield from piece.speak(wanted, next_token, check, start if self.lane.threads > 1 else None)
        if group.frames:
            self._groups += 1
            self._speak_samples(group.samples, events)
        if group.reason is not None:
            self._end(piece, group.reason, events, epoch)

    def _speak_samples(self, samples: Floats, events: list[Event]) -> None:
        """Give out samples of the open piece, which come at the codec's rate."""
        if self._tail is not None:
            self._tail.feed(samples * self._output.gain)
        if self._loudness is not None:
            self._loudness.feed(samples)
        self._give(self._output.feed(samples), events)

    def _give(self, samples: Floats, events: list[Event]) -> None:
        if len(samples):
            events.append(AudioChunk(samples, self._given / self.sample_rate))
            self._given += len(samples)

    def _end(self, piece: Piece, reason: Reason, events: list[Event], epoch: int) -> None:
        self._speak_samples(piece.rest(), events)
        self._give(self._output.flush(), events)
        with self._inbox.current(epoch) as script:
            said = script.end_piece()
            unread = script.unread()
        if unread:
            events.append(_left_out(unread))
        events.append(
            PieceMark(
                piece.index,
                text="".join(fragment.text for fragment in said).strip(),
                start_char=said[0].start if said else 0,
                end_char=max((fragment.end for fragment in said), default=0),
                start=piece.start,
                end=self._given / self.sample_rate,
                reason=reason,
                words=self._words(said, piece.start),
            )
        )
        if reason != "end":
            name = f"{reason}_stops"
            setattr(self.work, name, getattr(self.work, name) + 1)
            events.append(SpeechWarning("piece_ended_by_guard", f"piece {piece.index} was ended by the {reason} guard"))
        self._piece = None

    def _words(self, said: list[Fragment], start: float) -> tuple[SpokenWord, ...]:
        if self._loudness is None:
            return ()
        return place_words(said, self._loudness.levels, start, self._piece_speed)


def _left_out(unread: str) -> SpeechWarning:
    return SpeechWarning("letters_left_out", f"the model has no sounds for {' '.join(unread)}: they are left out")
