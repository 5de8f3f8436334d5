"""The input audio buffer of a session: audio in, turns of the conversation out, each an item with its text.

With turn detection the listener's endpoints make the turns; without it the client's commits do. A turn's text is told
as it is heard: a delta holds words that the listener has committed, the last one what the final adds. Where a final
takes words back, no delta follows and the whole text of ``completed`` is right.

Options of a listener are fixed when it opens. So an update of them ends one stretch of audio and begins another with a
listener of its own; what came before is heard to its end first.
"""

import asyncio
from collections import deque
from contextlib import AsyncExitStack, aclosing
from typing import Final, Protocol

from audio.pcm import Shape
from daemon.hearing import MOST_FINALIZES, UNHEARD_BYTES, opened
from daemon.hub import Hub
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.items import new_id
from daemon.openai.realtime.spec import Invalid, Spec
from daemon.openai.realtime.stretch import Stretch
from daemon.openai.realtime.turn import Turn
from daemon.paths import REALTIME
from daemon.refusal import Refused
from streaming.events import SpeechStarted, Transcript

_LEAST_SECONDS: Final = 0.1
"""Of audio in a commit, as at OpenAI."""
MOST_UPDATES: Final = 64
"""That may wait for the audio before them."""

NAMES: Final = {
    "language": "session.audio.input.transcription.language",
    "keyterms": "session.audio.input.transcription.prompt",
}
"""What options of the listener are called here."""


class Turns(Protocol):
    """Who wants to know of turns: the session."""

    def tell(self, event: wire.Event) -> None:
        """An event for the client."""
        ...

    def began(self) -> None:
        """Somebody speaks."""
        ...

    def committed(self, item_id: str) -> None:
        """A turn is complete; its text follows."""
        ...

    def heard(self, turn: Turn, *, detected: bool) -> None:
        """Its text; ``detected``: the listener found its end, not the client."""
        ...


class InputAudio:
    """The buffer. ``append``, ``commit``, ``clear``, ``change`` and ``end`` never wait; :meth:`run` hears."""

    def __init__(self, hub: Hub, spec: Spec, turns: Turns) -> None:
        self._hub, self._spec, self._turns = hub, spec, turns
        self._stretches: deque[Stretch] = deque()
        """Not heard to their end; audio goes to the last one, if it is ``_newest``."""
        self._newest: Stretch | None = None
        self._offset = 0.0
        """Seconds of audio before the newest stretch."""
        self._turn: Turn | None = None
        self._next_id = new_id("item")
        """Of the turn that the next commit makes."""
        self._commits: deque[str] = deque()
        """Ids of turns that the client committed and whose text is still to come."""
        self._buffered = 0.0
        """Seconds since the last turn was committed."""
        self._came, self._settled = asyncio.Event(), asyncio.Event()
        self._settled.set()
        self._ended = False
        self.touched = False
        """Whether audio has come."""
        self._limit: Final = hub.settings.max_unheard_seconds
        self.full: Final = f"more than {self._limit:g} s of audio arrived that is not heard yet (max_unheard_seconds)"
        """Why :meth:`append` took nothing."""

    @property
    def unheard(self) -> float:
        """Seconds of audio that wait to be heard."""
        return sum(stretch.unheard for stretch in self._stretches)

    @property
    def updates(self) -> int:
        """Updates that wait for the audio before them."""
        return len(self._stretches)

    async def settled(self) -> None:
        """Until every turn that the client committed has its text."""
        await self._settled.wait()

    # ------------------------------------------------------------------------------------------------- in

    def append(self, data: bytes) -> bool:
        """Take audio in the session's format; False where too much of it waits."""
        if self._ended or not data:
            return True
        self.touched = True
        stretch = self._open()
        if stretch.refused:
            return True
        seconds = len(data) / self._spec.audio.input.format.bytes_per_second
        waiting = sum(one.size for one in self._stretches if one.stream is None) + len(data)
        if self.unheard + seconds > self._limit or waiting > self._limit * UNHEARD_BYTES or not stretch.push(data):
            return False
        self._buffered += seconds
        return True

    def commit(self) -> None:
        """The audio so far is a turn.

        Raises:
            Invalid: there is next to none, or too many turns wait for their text.
        """
        if self._buffered < _LEAST_SECONDS:
            told = f"the buffer holds {1000 * self._buffered:.0f} ms of audio, a turn needs {1000 * _LEAST_SECONDS:g}"
            raise Invalid(None, f"input_audio_buffer.commit: {told}", "input_audio_buffer_commit_empty")
        stretch = self._open()
        if not stretch.finalize():
            raise Invalid(
                None, f"{MOST_FINALIZES} turns wait for their text; this commit was not taken", "commit_limit"
            )
        self._buffered = 0.0
        if self._spec.turns is not None:
            return  # the turn is told of when its text is there, as those are that the listener ends
        item_id, self._next_id = self._next_id, new_id("item")
        self._expect(stretch, item_id)
        self._turns.committed(item_id)
        if stretch.refused:
            self._fail(stretch, "nothing is heard until the session is updated")

    def attach(self, item_id: str, data: bytes) -> None:
        """Hear ``data``, apart from the buffer, as the item ``item_id``. A turn that is open in the buffer ends here.

        Raises:
            Invalid: too much audio waits.
        """
        before = self._leave()
        if before is not None:
            before.end()
        apart = Stretch(self._spec.without_turns(), self._offset, apart=True)
        seconds = len(data) / self._spec.audio.input.format.bytes_per_second
        if self.unheard + seconds > self._limit or self.updates >= MOST_UPDATES:
            raise Invalid("item.content", self.full)
        apart.push(data)
        apart.finalize()
        apart.end()
        self._stretches.append(apart)
        self._expect(apart, item_id)
        self._came.set()

    def clear(self) -> None:
        """Forget what is not committed."""
        self._buffered = 0.0
        self._next_id = new_id("item")  # deltas of the old one may have gone out
        stretch = self._leave()
        if stretch is None:
            return
        if stretch.commits:
            stretch.cleared = True
            stretch.end()
        else:
            stretch.dropped = True
            if stretch.hearing is not None:
                stretch.hearing.cancel()
            self._turn = None

    def change(self, spec: Spec) -> None:
        """From here on the session is set to ``spec``."""
        before, self._spec = self._spec, spec
        stretch = self._newest
        if stretch is None:
            return
        same = spec.listen_options() == before.listen_options() and spec.audio.input.format == before.audio.input.format
        if same and not stretch.refused:
            stretch.spec = spec
        else:
            stretch.end()
            self._leave()

    def end(self) -> None:
        """No more audio: :meth:`run` ends when all of it is heard. Idempotent."""
        self._ended = True
        if self._newest is not None:
            self._newest.end()
        self._came.set()

    def _expect(self, stretch: Stretch, item_id: str) -> None:
        self._commits.append(item_id)
        stretch.commits += 1
        self._settled.clear()

    def _open(self) -> Stretch:
        if self._newest is None:
            self._newest = Stretch(self._spec, self._offset)
            self._stretches.append(self._newest)
            self._came.set()
        return self._newest

    def _leave(self) -> Stretch | None:
        """The newest stretch, which gets no more audio."""
        stretch, self._newest = self._newest, None
        if stretch is not None:
            self._offset += stretch.seconds
        return stretch

    # ------------------------------------------------------------------------------------------------ hear

    async def run(self) -> None:
        """Hear stretch after stretch, to the end."""
        while True:
            while not self._stretches:
                if self._ended:
                    return
                self._came.clear()
                await self._came.wait()
            stretch = self._stretches[0]
            open_turn = self._turn
            if stretch.apart:
                self._turn = None
            if not stretch.dropped:
                stretch.hearing = asyncio.create_task(self._hear(stretch))
                try:
                    await asyncio.wait((stretch.hearing,))
                finally:
                    stretch.hearing.cancel()  # does nothing to one that is done
                    outcome = (await asyncio.gather(stretch.hearing, return_exceptions=True))[0]
                if isinstance(outcome, Exception):
                    raise outcome
            if stretch.apart:
                self._turn = open_turn
            self._stretches.popleft()

    async def _hear(self, stretch: Stretch) -> None:
        spec, format = stretch.spec, stretch.spec.audio.input.format
        shape = Shape(format.encoding, format.sample_rate, 1)
        async with AsyncExitStack() as held:
            try:
                stream = await opened(self._hub, REALTIME, spec.listen_options(), NAMES, shape, held)
            except Refused as refused:
                self._refuse(stretch, refused)
                return
            stretch.open(stream)
            batches = await held.enter_async_context(aclosing(stream.batches()))
            async for batch in batches:
                for said in batch:
                    self._take(stretch, said.event)
                    if stretch.cleared and not stretch.commits:
                        return
            if stream.fault is not None:
                self._refuse(stretch, Refused(400, "not_raw_audio", f"audio: {stream.fault}", param="audio"))

    def _refuse(self, stretch: Stretch, refused: Refused) -> None:
        """No listener can be had: what the stretch holds is lost, and so is what comes before the next update."""
        self._hub.metrics.denials.labels(refused.code).inc()
        stretch.refused = True
        kind = "server_error" if refused.status >= 429 else "invalid_request_error"
        self._turns.tell(wire.Error(error=wire.Fault(kind, refused.code, refused.message, refused.param)))
        self._fail(stretch, refused.message)

    def _fail(self, stretch: Stretch, message: str) -> None:
        """The turns that were committed of it have no text."""
        while stretch.commits:
            stretch.commits -= 1
            fault = wire.ItemFault("server_error", "not_heard", message)
            self._turns.tell(wire.TranscriptionFailed(item_id=self._commits.popleft(), content_index=0, error=fault))
        self._turn = None
        if not self._commits:
            self._settled.set()

    # ----------------------------------------------------------------------------------------------- turns

    def _take(self, stretch: Stretch, event: object) -> None:
        detects = stretch.spec.turns is not None
        match event:
            case SpeechStarted() if detects and self._turn is None:
                turn = self._begin(stretch)
                turn.announced = True
                at = max(0, round(1000 * (stretch.offset + event.at)) - stretch.spec.padding_ms)
                self._turns.tell(wire.SpeechStarted(audio_start_ms=at, item_id=turn.item_id))
                self._turns.began()
            case Transcript(is_final=False):
                self._delta(stretch, self._turn or self._begin(stretch), event, event.stable_words)
            case Transcript():
                turn = self._turn or self._begin(stretch)
                if not event.retracted_words:
                    self._delta(stretch, turn, event, len(event.words))
                turn.extend(event, stretch.offset)
                if event.speech_final if detects else (event.from_finalize or self._ended):
                    self._complete(stretch, turn, event)
            case _:
                pass

    def _begin(self, stretch: Stretch) -> Turn:
        if stretch.spec.turns is not None:
            item_id = new_id("item")
        else:
            item_id = self._commits[0] if stretch.commits else self._next_id
        self._turn = Turn(item_id)
        return self._turn

    def _delta(self, stretch: Stretch, turn: Turn, event: Transcript, words: int) -> None:
        if stretch.spec.transcribes and (delta := turn.delta(event, words)):
            self._turns.tell(wire.TranscriptionDelta(item_id=turn.item_id, content_index=0, delta=delta))

    def _complete(self, stretch: Stretch, turn: Turn, final: Transcript) -> None:
        self._turn = None
        if self._commits and self._commits[0] == turn.item_id:
            self._commits.popleft()
            stretch.commits -= 1
        else:
            self._buffered = 0.0
            if turn.announced:
                silence = 0 if final.from_finalize or self._ended else stretch.spec.silence_ms
                at = round(1000 * (stretch.offset + final.end)) + silence
                self._turns.tell(wire.SpeechStopped(audio_end_ms=at, item_id=turn.item_id))
            self._turns.committed(turn.item_id)
        self._turns.heard(turn, detected=stretch.spec.turns is not None and not final.from_finalize)
        if not self._commits:
            self._settled.set()
