"""The input audio buffer of a session: audio comes in, and turns of the conversation come out, each an item with its
text.

With turn detection the listener's endpoints make the turns; without it the client's commits do. A turn's text is told
as it is heard: a delta holds words that the listener has committed, the last one what the final adds. Where a final
takes words back, no delta follows and the whole text of ``completed`` is right.

Options of a listener are fixed when it opens. So an update of them ends one span of audio and begins another with a
listener of its own; what came before is heard to its end first.
"""

import asyncio
from collections import deque
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Final, Protocol

from audio.pcm import Shape
from daemon.hearing import MOST_FINALIZES, UNHEARD_BYTES, opened
from daemon.hub import Hub
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.items import new_id
from daemon.openai.realtime.span import Span
from daemon.openai.realtime.spec import Invalid, Spec
from daemon.openai.realtime.turn import Turn
from daemon.paths import REALTIME
from daemon.refusal import Refused
from streaming.events import SpeechStarted, Transcript, bare

_LEAST_SECONDS: Final = 0.1
"""Seconds of audio that a commit must hold, as at OpenAI."""
_SURE: Final = 0.5
"""The confidence of a word that is one. What a cough is taken for has less."""
_NODS: Final = frozenset("mm mmm mhm mmhm mmhmm hm hmm hmmm uh uhhuh um huh ah eh er".split())
"""Sounds by which people say that they listen, or think."""
MOST_UPDATES: Final = 64
"""Updates that may wait for the audio before them."""

NAMES: Final = {
    "language": "session.audio.input.transcription.language",
    "keyterms": "session.audio.input.transcription.prompt",
}
"""The fields of a session in which options of the listener come."""


class Turns(Protocol):
    """The session, which is told of turns."""

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Send an event to the client. ``owed`` says that it repeats as a whole what was told bit by bit."""
        ...

    @property
    def answers(self) -> bool:
        """Whether somebody who speaks now speaks over an answer."""
        ...

    def began(self) -> None:
        """Take note that somebody speaks."""
        ...

    def committed(self, item_id: str) -> None:
        """Take note that a turn is complete. Its text follows."""
        ...

    def transcribed(self, turn: Turn, *, detected: bool) -> None:
        """Take the text of a turn. ``detected`` says that the listener found its end, not the client."""
        ...


class InputAudio:
    """The buffer. ``append``, ``commit``, ``clear``, ``change`` and ``end`` never wait; :meth:`run` hears."""

    def __init__(self, hub: Hub, spec: Spec, turns: Turns) -> None:
        self._hub, self._spec, self._turns = hub, spec, turns
        self._spans: deque[Span] = deque()
        """The spans that are not heard to their end. Audio goes to the last one, if it is ``_newest``."""
        self._newest: Span | None = None
        self._offset = 0.0
        """Seconds of audio before the newest span."""
        self._next = Turn(new_id("item"))
        """The turn that the next commit makes. Until then it grows from span to span."""
        self._buffered = 0.0
        """Seconds of audio since the last turn was committed."""
        self._came, self._settled = asyncio.Event(), asyncio.Event()
        self._settled.set()
        self._ended = False
        self.touched = False
        """Whether any audio has come."""
        self._limit: Final = hub.settings.max_unheard_seconds
        self.full: Final = f"more than {self._limit:g} s of audio arrived that is not heard yet (max_unheard_seconds)"
        """The reason for which :meth:`append` took nothing."""

    @property
    def unheard(self) -> float:
        """Seconds of audio that wait to be heard. May be read from any thread."""
        return sum(span.unheard for span in tuple(self._spans))

    @property
    def updates(self) -> int:
        """The number of updates that wait for the audio before them."""
        return len(self._spans)

    async def settled(self) -> None:
        """Wait until every turn that the client committed has its text."""
        await self._settled.wait()

    # ------------------------------------------------------------------------------------------------- in

    def append(self, data: bytes) -> bool:
        """Take audio in the session's format; returns False where too much of it waits."""
        if self._ended or not data:
            return True
        self.touched = True
        span = self._open()
        if span.refused:
            return True
        seconds = len(data) / self._spec.audio.input.format.bytes_per_second
        waiting = sum(one.size for one in self._spans if one.stream is None) + len(data)
        if self.unheard + seconds > self._limit or waiting > self._limit * UNHEARD_BYTES or not span.push(data):
            return False
        self._buffered += seconds
        return True

    def commit(self) -> None:
        """Make a turn of the audio so far.

        Raises:
            Invalid: there is next to none, or too many turns wait for their text.
        """
        if self._buffered < _LEAST_SECONDS:
            told = f"the buffer holds {1000 * self._buffered:.0f} ms of audio, a turn needs {1000 * _LEAST_SECONDS:g}"
            raise Invalid(None, f"input_audio_buffer.commit: {told}", "input_audio_buffer_commit_empty")
        span = self._open()
        if not span.finalize():
            raise Invalid(
                None, f"{MOST_FINALIZES} turns wait for their text; this commit was not taken", "commit_limit"
            )
        self._buffered = 0.0
        if self._spec.turns is not None:
            span.closes += 1
            return  # The session is told of the turn when its text is there, as of turns that the listener ends.
        turn, self._next = self._next, Turn(new_id("item"))
        span.turns.append(self._next)
        self._settled.clear()
        self._turns.committed(turn.item_id)
        if span.refused:
            self._fail(span, "nothing is heard until the session is updated")

    def attach(self, item_id: str, data: bytes) -> None:
        """Hear ``data``, apart from the buffer, as the item ``item_id``. A turn that is open in the buffer ends here.

        Raises:
            Invalid: too much audio waits.
        """
        if self._ended:
            return
        before = self._leave()
        if before is not None:
            before.end()
        apart = Span(self._spec.without_turns(), self._offset, Turn(item_id), apart=True)
        seconds = len(data) / self._spec.audio.input.format.bytes_per_second
        if self.unheard + seconds > self._limit or self.updates >= MOST_UPDATES:
            raise Invalid("item.content", self.full)
        apart.push(data)
        apart.finalize()
        # The turn that follows stays empty: all of the sound belongs to the item.
        apart.turns.append(Turn(new_id("item")))
        apart.end()
        self._spans.append(apart)
        self._settled.clear()
        self._came.set()

    def clear(self) -> None:
        """Forget what is not committed, in every span that holds some of it."""
        self._buffered = 0.0
        self._next = Turn(new_id("item"))  # Deltas of the old turn may have gone out.
        self._leave()
        for span in [one for one in reversed(self._spans) if not one.apart]:
            if not span.drained:
                span.cleared = True
                span.end()
                return  # What came before this span is committed.
            if span.hearing is None:
                self._spans.remove(span)
            else:
                span.hearing.cancel()

    def change(self, spec: Spec) -> None:
        """Set the session to ``spec``, from the present place in the audio on."""
        before, self._spec = self._spec, spec
        span = self._newest
        if span is None:
            return
        same = spec.listen_options() == before.listen_options() and spec.audio.input.format == before.audio.input.format
        if same and not span.refused:
            span.spec = spec
        else:
            span.end()
            self._leave()

    def end(self) -> None:
        """Say that no more audio comes. The audio that was not committed is committed now, and :meth:`run` ends when
        all of it is heard. May be called again."""
        if self._spec.turns is None and not self._ended:
            with suppress(Invalid):  # What is left is next to nothing.
                self.commit()
        self._ended = True
        if self._newest is not None:
            self._newest.end()
        self._came.set()

    def _open(self) -> Span:
        if self._newest is None:
            self._newest = Span(self._spec, self._offset, self._next)
            self._spans.append(self._newest)
            # The listener ends what is open itself, maybe after the next span has begun.
            if self._spec.turns is not None:
                self._next = Turn(new_id("item"))
            self._came.set()
        return self._newest

    def _leave(self) -> Span | None:
        """End the newest span, which gets no more audio; returns it."""
        span, self._newest = self._newest, None
        if span is not None:
            self._offset += span.seconds
        return span

    # ------------------------------------------------------------------------------------------------ hear

    async def run(self) -> None:
        """Hear span after span, to the last."""
        while True:
            while not self._spans:
                if self._ended:
                    return
                self._came.clear()
                await self._came.wait()
            span = self._spans[0]
            span.hearing = asyncio.create_task(self._hear(span))
            try:
                await asyncio.wait((span.hearing,))
            finally:
                span.hearing.cancel()  # Cancelling does nothing to a task that is done.
                outcome = (await asyncio.gather(span.hearing, return_exceptions=True))[0]
            if isinstance(outcome, Exception):
                raise outcome
            self._spans.popleft()

    async def _hear(self, span: Span) -> None:
        spec, format = span.spec, span.spec.audio.input.format
        shape = Shape(format.encoding, format.sample_rate, 1)
        async with AsyncExitStack() as held:
            try:
                stream = await opened(self._hub, REALTIME, spec.listen_options(), NAMES, shape, held)
            except Refused as refused:
                self._refuse(span, refused)
                return
            span.open(stream)
            batches = await held.enter_async_context(aclosing(stream.batches()))
            async for batch in batches:
                for said in batch:
                    self._take(span, said.event)
                    if span.cleared and span.drained:
                        return
            if span.spec.turns is not None and span.turns[0].last is not None:
                self._complete(span)  # The speech had ended, and no endpoint had told so yet.
            if stream.fault is not None:
                self._refuse(span, Refused(400, "not_raw_audio", f"audio: {stream.fault}", param="audio"))

    def _refuse(self, span: Span, refused: Refused) -> None:
        """Give a span up for which there is no listener: its audio is lost, and so is what comes before the next
        update."""
        self._hub.metrics.denials.labels(refused.code).inc()
        span.refused = True
        kind = "server_error" if refused.status >= 429 else "invalid_request_error"
        self._turns.tell(wire.Error(error=wire.Fault(kind, refused.code, refused.message, refused.param)))
        self._fail(span, refused.message)

    def _fail(self, span: Span, message: str) -> None:
        """Say that the turns committed in a span have no text."""
        while span.commits:
            fault = wire.ItemFault("server_error", "not_heard", message)
            item_id = span.turns.popleft().item_id
            self._turns.tell(wire.TranscriptionFailed(item_id=item_id, content_index=0, error=fault))
        self._settle()

    def _settle(self) -> None:
        if not any(span.commits for span in self._spans):
            self._settled.set()

    # ----------------------------------------------------------------------------------------------- turns

    def _take(self, span: Span, event: object) -> None:
        detects, turn = span.spec.turns is not None, span.turns[0]
        match event:
            case SpeechStarted() if detects and not turn.announced:
                turn.began = event.at if turn.began is None else turn.began
                # A cough is no reason to stop an answer, and clients stop it themselves once they are told.
                if not self._turns.answers:
                    self._announce(span, turn)
            case Transcript(is_final=False):
                if detects and says(event):
                    self._announce(span, turn)
                if turn.announced or not detects:
                    self._delta(span, turn, event, event.stable_words)
            case Transcript():
                if detects and says(event):
                    self._announce(span, turn)
                if not event.retracted_words and (turn.announced or not detects):
                    self._delta(span, turn, event, len(event.words))
                turn.extend(event, span.offset)
                span.closes -= detects and event.from_finalize
                if event.speech_final if detects else event.from_finalize:
                    self._complete(span)
            case _:
                pass

    def _announce(self, span: Span, turn: Turn) -> None:
        """Tell that a person speaks, once."""
        if not turn.announced and turn.began is not None:
            turn.announced = True
            at = max(0, round(1000 * (span.offset + turn.began)) - span.spec.padding_ms)
            self._turns.tell(wire.SpeechStarted(audio_start_ms=at, item_id=turn.item_id))
            self._turns.began()

    def _delta(self, span: Span, turn: Turn, event: Transcript, words: int) -> None:
        if span.spec.transcribes and (delta := turn.delta(event, words)):
            self._turns.tell(wire.TranscriptionDelta(item_id=turn.item_id, content_index=0, delta=delta))

    def _complete(self, span: Span) -> None:
        turn = span.turns.popleft()
        final = turn.last
        assert final is not None
        detected = not span.turns
        if detected:
            span.turns.append(Turn(new_id("item")))
            self._buffered = 0.0
            if turn.began is not None and not turn.announced and not final.from_finalize:
                return  # Nothing was said over the answer.
            if turn.announced:
                at = round(1000 * (span.offset + final.end + final.silence))
                self._turns.tell(wire.SpeechStopped(audio_end_ms=at, item_id=turn.item_id))
            self._turns.committed(turn.item_id)
        self._turns.transcribed(turn, detected=detected and not final.from_finalize)
        self._settle()


def says(heard: Transcript) -> bool:
    """Whether words were heard that take the floor: no cough, and no "mm-hm"."""
    return any(
        word.confidence >= _SURE and bare(word.text).lower().replace("-", "") not in _NODS for word in heard.words
    )
