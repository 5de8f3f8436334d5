"""``/v2/listen``: a WebSocket in the shape of Deepgram's Flux, whose unit is a turn of a conversation.

    StartOfTurn → Update* → (EagerEndOfTurn → TurnResumed → Update*)* → EagerEndOfTurn? → EndOfTurn

A turn begins with its first word and ends by silence, by ``ForceEndTurn`` or with the stream. It holds everything said
in between, of one segment or of several.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from daemon.deepgram import turns_messages as wire
from daemon.deepgram.listen_query import NAMES
from daemon.deepgram.turns_query import TurnsRequest, parse
from daemon.duplex import Ending, echoed
from daemon.heard_stream import HeardStream, open_streams
from daemon.hearing import HearingStream
from daemon.hub import Hub
from daemon.messages import decoded
from daemon.paths import TURNS
from daemon.refusal import Refused
from engines.sessions import OptionError
from streaming.events import Event, Paused, Resumed, Transcript, Word


async def turns(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, open a listener, and run the stream."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{TURNS.path} is a WebSocket; recordings go to POST /v1/listen")
    loaded = hub.hearing_model()
    request = parse(scope["query_string"], loaded.name, strict=hub.settings.strict)
    async with open_streams(hub, TURNS, request.options, NAMES, request.shape) as (stream,):
        await TurnsStream(hub, request, stream, receive, send).run(echoed(scope))


class TurnsStream(HeardStream):
    """One connection, from accept to close."""

    _commands = wire.commands
    _faults, _full = ("NOT_RAW_AUDIO", "NOT_DECODABLE"), "UNHEARD_AUDIO"

    def __init__(self, hub: Hub, request: TurnsRequest, stream: HearingStream, receive: Receive, send: Send) -> None:
        super().__init__(hub, [stream], receive, send)
        self._stream = stream
        self._thresholds, self._terms = request.thresholds, request.terms
        self._sequence = 0
        self._turn = 0
        self._start: float | None = None
        """The time at which the present turn begins; None where there is no turn."""
        self._said: list[Transcript] = []
        """The finals of the present turn."""
        self._say_next(wire.Connected)
        for warning in request.warnings:
            self._warn("NOT_HONOURED", warning)

    # ------------------------------------------------------------------------------------------------- in

    def _misunderstood(self, reason: str, text: str) -> None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            if decoded(text, wire.kinds).type == "Configure":
                self._refuse(reason)
                return
        self._warn("NOT_UNDERSTOOD", f"{reason}; audio goes in binary messages")

    async def _follow(self, command: wire.Command) -> None:
        match command:
            case wire.ForceEndTurn():
                if not self._finalize():
                    self._warn("TOO_MANY", "too many ForceEndTurn wait; this one was not taken")
            case wire.CloseStream():
                self._end(Ending(1000))
            case wire.Configure():
                self._configure(command)
            case wire.KeepAlive():
                pass

    def _configure(self, asked: wire.Configure) -> None:
        given = asked.thresholds or wire.Thresholds()
        try:
            changed = replace(
                self._thresholds,
                **{
                    name: value
                    for name, value in msgspec.structs.asdict(given).items()
                    if value is not msgspec.UNSET and not (value is None and name != "eager_eot_threshold")
                },
            )
            terms = self._terms
            if asked.keyterms is not None:
                terms = (asked.keyterms,) if isinstance(asked.keyterms, str) else tuple(asked.keyterms)
            self._stream.listener.configure(endpointing=changed.turn, keyterms=None if terms == self._terms else terms)
        except OptionError as error:
            self._refuse(str(error))
        except ValueError as error:
            self._refuse(": ".join(map(str, error.args)))
        else:
            self._thresholds, self._terms = changed, terms
            eager = msgspec.UNSET if changed.eager_eot_threshold is None else changed.eager_eot_threshold
            told = wire.Thresholds(changed.eot_threshold, eager, changed.eot_timeout_ms)
            self._say_next(wire.ConfigureSuccess, thresholds=told, keyterms=list(terms))
            for name in ("language_hints", "numerals"):
                if getattr(asked, name):
                    self._warn("NOT_HONOURED", f"{name}: not honoured")

    def _refuse(self, reason: str) -> None:
        self._say_next(wire.ConfigureFailure, code="INVALID_CONFIGURATION", description=reason)

    def _unfinished(self) -> str:
        return "the turn that had begun"

    # ------------------------------------------------------------------------------------------------ hear

    async def _work(self) -> None:
        await super()._work()
        if self._said:
            self._end_turn("close")

    def _hear(self, channel: int, event: Event) -> None:
        del channel
        match event:
            case Transcript(is_final=True):
                self._final(event)
            case Transcript() if event.text:
                if not self._begin(event):
                    self._tell("Update", event)
            case Paused(transcript=heard, sure=sure):
                self._begin(heard)
                self._tell("EagerEndOfTurn", heard, round(sure, 4))
            case Resumed() if self._start is not None:
                self._tell("TurnResumed", event.transcript)
            case _:
                pass

    def _final(self, event: Transcript) -> None:
        if event.text:
            self._begin(event)
            self._said.append(event)
        if self._start is None and event.from_finalize:
            self._warn("FORCE_END_TURN_NO_ACTIVE_TURN", "ForceEndTurn: no turn is open")
        if self._start is None or not event.speech_final:
            return
        if event.from_finalize:
            self._end_turn("manual")
        elif not event.silence:
            self._end_turn("close")
        else:
            sure = 0.0 if event.sure is None else event.sure
            self._end_turn("model" if sure >= self._thresholds.eot_threshold else "timeout", sure)

    def _begin(self, first: Transcript) -> bool:
        """Begin a turn with its first words; returns whether it has begun."""
        if self._start is not None:
            return False
        self._start = first.start
        self._tell("StartOfTurn", first)
        return True

    def _end_turn(self, trigger: str, sure: float = 1.0) -> None:
        """End the turn. By the client's word it is over for sure."""
        self._tell("EndOfTurn", None, sure, trigger=trigger)
        self._turn, self._start, self._said = self._turn + 1, None, []

    # ------------------------------------------------------------------------------------------------- out

    def _tell(self, event: str, heard: Transcript | None, sure: float = 0.0, trigger: str | None = None) -> None:
        """Tell where the turn stands. ``heard`` is the open segment, which follows the finals."""
        parts = [*self._said, *([heard] if heard is not None and heard not in self._said else [])]
        assert self._start is not None
        self._say_next(
            wire.TurnInfo,
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._start, 4),
            audio_window_end=round(parts[-1].end if parts else self._start, 4),
            transcript=" ".join(part.text for part in parts if part.text),
            words=[_word(word) for part in parts for word in part.words],
            end_of_turn_confidence=sure,
            trigger=trigger,
            languages=list(dict.fromkeys(part.language for part in parts if part.language)) or None,
            revisable=event == "Update",
        )

    def _warn(self, code: str, description: str) -> None:
        self._say_next(wire.TurnsWarning, code=code, description=description)

    def _say_error(self, ending: Ending) -> None:
        self._say(wire.FatalError(self._sequence, ending.variant, ending.reason))
        self._sequence += 1

    def _say_next(self, kind: Any, *, revisable: bool = False, **fields: Any) -> None:
        """Send a message of ``kind`` with the next number. An Update that waits gives way to the next one."""
        message = kind(request_id=self._id, sequence_id=self._sequence, **fields)
        self._sequence += 1
        self._say(message, revises=revisable, revisable=revisable)


def _word(word: Word) -> wire.TurnWord:
    return wire.TurnWord(word.text, word.confidence, word.start, word.end)
