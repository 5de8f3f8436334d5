"""``/v2/speak``: speaking in the shape of Deepgram's Flux, whose unit is a turn: all that an agent says in one go.

    SpeechStarted → audio → SpeechMetadata, or SpeechInterrupted where somebody spoke meanwhile

A turn begins with its first text and has all of it at ``Flush``; turns that come before it is spoken wait. The place in
the session's audio is that of the client: an ``Interrupt`` that tells how much was played sets it back to there.
"""

import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.types import Receive, Send

from codec.events import Cleared, Event, Finished, Flushed, PieceMark, SpeechWarning
from codec.model import TtsModel
from daemon.deepgram import speak_turns_messages as wire
from daemon.deepgram.spoken_stream import MOST_FLUSHES, SpokenStream
from daemon.duplex import Ending
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.speaking import SpeechStream
from daemon.spoken_text import SpokenText
from engines.sessions import OptionError

M = TypeVar("M", bound=wire.TurnMetadata)


@dataclass(slots=True)
class _Turn:
    """All that is said in one go. ``first`` is the place of its first character in all text, ``start`` that of its
    sound in seconds."""

    first: int
    start: float = 0.0
    spoken: SpokenText = field(default_factory=SpokenText)
    id: str = field(default_factory=lambda: f"dg_sp_{secrets.token_hex(6)}")
    flushed: bool = False
    announced: bool = False

    def metadata(self, kind: type[M]) -> M:
        """The turn in numbers, as a message of ``kind``."""
        size = len(self.spoken.text)
        return kind(self.id, round(1000 * self.spoken.seconds), size, size)


@dataclass(frozen=True, slots=True)
class _Interruption:
    """An Interrupt. ``offset`` is the seconds of audio that were played, if that was told."""

    turn: _Turn
    offset: float | None


class SpeakTurnsStream(SpokenStream):
    """One connection, from accept to close."""

    _commands = wire.commands

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[TtsModel],
        speech: SpeechStream,
        warnings: list[str],
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, loaded, speech, receive, send)
        self._turns: deque[_Turn] = deque()
        """The turns that are not spoken yet. Sound belongs to the first, text to the last if it is not flushed."""
        self._spoken: _Turn | None = None
        """The last turn that was spoken, which the client may still be playing."""
        self._interruption: _Interruption | None = None
        """The Interrupt that is not answered yet."""
        self._characters = 0
        self._position = self._least = 0.0
        """The places in the session's audio, in seconds, up to which it was sent, and up to which it is known to be
        played."""
        self._say(wire.Connected(self._id, loaded.name, "1", [loaded.uuid], self._voice, speech.speaker.seed))
        for warning in warnings:
            self._warn("NOT_HONOURED", warning)

    @property
    def _last_sign(self) -> float:
        """The stream is never idle: no message keeps a session alive, and agents listen for long."""
        return time.monotonic()

    # ------------------------------------------------------------------------------------------------- in

    async def _follow(self, command: wire.Command) -> None:
        match command:
            case wire.Interrupt():  # An Interrupt also stops what is spoken to its end because of a Close.
                self._interrupt(command.playback_offset)
            case _ if self._ending is not None:
                self._taken_no_more()
            case wire.Speak():
                self._speak(command.text)
            case wire.Flush():
                self._flush()
            case wire.Configure():
                self._configure(command.speed)
            case wire.Close():
                self._end(Ending(1000))

    def _speak(self, text: str) -> None:
        if not self._taken(text):
            return
        if not self._turns or self._turns[-1].flushed:
            self._turns.append(_Turn(self._characters))
            self._announce()
        self._turns[-1].spoken.text += text
        self._characters += len(text)

    def _flush(self) -> None:
        if not self._turns or self._turns[-1].flushed:
            self._warn("NO_ACTIVE_SPEECH", "Flush: no turn is open; it begins with a Speak")
        elif len(self._turns) > MOST_FLUSHES:
            self._warn("FLUSH_LIMIT", f"{MOST_FLUSHES} turns wait, which is the limit; this message was not taken")
        else:
            turn = self._turns[-1]
            turn.flushed = True
            self._speech.flush()
            self._say(wire.Flushed(turn.id))

    def _configure(self, speed: float | None) -> None:
        speaker = self._speech.speaker
        try:
            if speed is not None:
                speaker.configure(speed=speed)
        except OptionError as error:
            self._say(wire.ConfigureFailure("SPEED_OUT_OF_RANGE", "speed", speed or 0.0, str(error)))
        else:
            self._say(wire.ConfigureSuccess(wire.Applied(speaker.options.speed)))

    def _interrupt(self, played: wire.PlaybackOffset | None) -> None:
        offset = None if played is None else played.value / 1000
        turn = self._turns[0] if self._turns else None
        if offset is not None and self._spoken is not None and offset < (turn.start if turn else self._position):
            turn = self._spoken
        if self._interruption is not None:
            self._warn("INTERRUPT_IN_PROGRESS", "an Interrupt before this one has no answer yet")
        elif turn is None:
            self._warn("NO_ACTIVE_SPEECH", "Interrupt: nothing is being said")
        elif self._position == 0:
            self._warn("NO_AUDIO_GENERATED", "Interrupt: there is no audio yet")
        elif offset is not None and offset <= self._least:
            told = f"{1000 * offset:g} ms does not lie after the last Interrupt, at {1000 * self._least:g} ms"
            self._warn("INVALID_INTERRUPT_OFFSET", f"playback_offset: {told}")
        else:
            self._position = min(offset, self._position) if offset is not None else self._position
            self._least = self._position
            self._interruption = _Interruption(turn, None if offset is None else self._position)
            self._turns.clear()
            self._spoken = None
            self._forget()

    # ------------------------------------------------------------------------------------------------- out

    def _sounded(self, seconds: float) -> None:
        if self._turns:
            self._turns[0].spoken.seconds += seconds
        self._position += seconds

    def _tell(self, event: Event) -> None:
        if self._interruption is not None and not isinstance(event, Cleared):
            return  # The sound belongs to text that is forgotten.
        match event:
            case PieceMark() if self._turns:
                turn = self._turns[0]
                turn.spoken.paced(event.end_char - turn.first)
            case Flushed() if self._turns:
                self._complete()
            case Cleared():
                self._answer_interruption()
                self._announce()
            case Finished() if self._ending is not None and self._ending.code in (1000, 1012):
                while self._turns:  # The last turn may lack its Flush.
                    self._complete()
            case SpeechWarning():
                code = "NO_SYNTHESIZABLE_TEXT" if event.code == "nothing_to_speak" else event.code.upper()
                self._warn(code, event.description)
            case _:
                pass

    def _announce(self) -> None:
        """Tell of the next turn, once nothing of another is on its way."""
        if self._turns and not self._turns[0].announced and self._interruption is None:
            turn = self._turns[0]
            turn.announced, turn.start = True, self._position
            self._say(wire.SpeechStarted(turn.id))

    def _complete(self) -> None:
        turn = self._spoken = self._turns.popleft()
        self._say(turn.metadata(wire.SpeechMetadata))
        self._announce()

    def _answer_interruption(self) -> None:
        if (interruption := self._interruption) is None:
            return
        self._interruption = None
        turn, offset = interruption.turn, interruption.offset
        message = wire.SpeechInterrupted(round(1000 * self._position), turn.metadata(wire.TurnMetadata))
        if offset is not None:
            heard = turn.spoken.played(offset - turn.start)
            message.text_spoken, message.text_remaining = heard, turn.spoken.text[len(heard) :]
        self._say(message)

    def _last_words(self) -> None:
        self._answer_interruption()
        total = round(1000 * self._position)
        self._say(wire.SessionMetadata(total, self._characters, self._characters))

    def _say_error(self, ending: Ending) -> None:
        self._say(wire.FatalError(ending.variant, ending.reason))
