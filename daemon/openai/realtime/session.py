"""``GET /v1/realtime``: one connection, from accept to close.

A transcription session hears. A conversation session also answers what it heard, by way of the chat endpoint that the
operator names, and speaks while the answer comes; whoever begins to speak interrupts it.

There is no message that keeps a session alive, and push-to-talk clients say nothing for long: it lives as long as its
client answers pings, at most ``max_session_seconds``.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from daemon.duplex import Duplex, Ending, echoed
from daemon.hub import Hub
from daemon.messages import encode
from daemon.names import means_model
from daemon.openai.realtime import beta
from daemon.openai.realtime import client_events as said
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.capability import check
from daemon.openai.realtime.chat import Chat
from daemon.openai.realtime.config import Config, Document
from daemon.openai.realtime.conversation import Conversation, created, sound
from daemon.openai.realtime.input_audio import MOST_UPDATES, InputAudio
from daemon.openai.realtime.items import Item, spoken_item
from daemon.openai.realtime.output_audio import OutputAudio
from daemon.openai.realtime.response import Response
from daemon.openai.realtime.spec import Invalid, Spec
from daemon.openai.realtime.turn import Turn
from daemon.paths import REALTIME
from daemon.refusal import Refused

_ENVELOPE: Final = 512
"""Bytes of an event beside the item or session in it: ids and keys."""
_BETWEEN_SECONDS: Final = 0.2
"""Seconds from the beginning of one response's work to that of the next. A person does not take a response back so
soon; a client that asks and takes back without end must not have the endpoint asked and a voice begun a hundred times a
second."""
_MOST_TOLD: Final = 1000
"""Characters of an error that the client is told."""
_CODES: Final = {"UnheardAudio": "unheard_audio", "SessionLength": "session_expired", "Fault": "fault"}


async def realtime(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, and run the session."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{REALTIME.path} is a WebSocket")
    config = asked(hub, scope)
    await RealtimeStream(hub, config, receive, send, is_beta=beta.asked_for(scope)).run(echoed(scope))


def asked(hub: Hub, scope: Scope) -> Config:
    """The object with which the session begins, from the client secret or the query.

    Raises:
        Refused: 400 an intent that is none.
    """
    grant = scope.get("hearsay.grant")
    if grant is not None:
        return cast(Config, grant.session).again(seconds=hub.settings.max_session_seconds)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    intent, model = query.get("intent", ""), query.get("model", "")
    if intent not in ("", "transcription", "conversation"):
        raise Refused(400, "invalid_query", f"intent: {intent[:80]!r} is neither transcription nor conversation")
    hears = model == hub.hearing_model().name or means_model(model, "hears", strict=hub.settings.strict)
    kind: Literal["realtime", "transcription"] = "realtime"
    if intent == "transcription" or (not intent and model and hears):
        kind = "transcription"
    return Config.initial(kind, model[:256], seconds=hub.settings.max_session_seconds)


class RealtimeStream(Duplex):
    """One session."""

    _commands = said.commands

    def __init__(self, hub: Hub, config: Config, receive: Receive, send: Send, *, is_beta: bool = False) -> None:
        super().__init__(hub, receive, send)
        self._beta = is_beta
        """Whether the client is told events by the names that they had before the protocol was released."""
        self._config = config
        self.conversation, self.chat = Conversation(), Chat(hub)
        self.voice = OutputAudio(hub, self._outbox)
        self._input = InputAudio(hub, config.spec, self)
        self._response: Response | None = None
        self._answering: asyncio.Task[None] | None = None
        self._answers: set[asyncio.Task[None]] = set()
        """The task of the present answer, and those of cancelled ones that still clear up."""
        self._answered_at = 0.0
        """The ``time.monotonic()`` at which a response last began its work."""
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set to the error where an answer fails through a fault of the daemon."""
        self._spoke: Response | None = None
        """The last response that was spoken."""
        self._interrupted: Response | None = None
        """The response that somebody spoke over, until the next response."""
        self.tell(wire.SessionCreated(session=config.document))

    @property
    def _waiting(self) -> float:
        return self._input.unheard

    @property
    def _last_sign(self) -> float:
        return time.monotonic()

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        self._complain(Invalid(None, f"a binary message of {len(data)} bytes: audio goes base64 in JSON", "binary"))

    def _misunderstood(self, reason: str, text: str) -> None:
        self._complain(Invalid(said.field(text), reason, "invalid_event"), said.event_id(text))

    async def _follow(self, command: Any) -> None:
        if self._ending is not None:
            return
        # A client that sends more than it takes of the answers is held back. It is neither closed, nor heard first.
        await self._outbox.room(_ENVELOPE, self._settings.max_outbound_bytes // 2)
        try:
            await self._act(command)
        except Invalid as error:
            self._complain(error, getattr(command, "event_id", None))
        except RecursionError:
            self._complain(Invalid(None, "nested too deeply"), getattr(command, "event_id", None))

    async def _act(self, command: Any) -> None:
        match command:
            case said.InputAudioBufferAppend():
                self._append(decoded(command.audio))
            case said.InputAudioBufferCommit():
                self._input.commit()
            case said.InputAudioBufferClear():
                self._input.clear()
                self.tell(wire.Cleared())
            case said.SessionUpdate():
                await self._update(command.session, is_beta=beta.spoken(command.session))
            case said.TranscriptionSessionUpdate():
                await self._update({"type": "transcription", **beta.released(command.session)}, is_beta=True)
            case said.ConversationItemCreate():
                item = created(command.item)
                audio = sound(item)
                data = None if audio is None else decoded(audio)
                await self._room(item)
                self.join(item, command.previous_item_id)
                if data is not None:
                    self._input.attach(item.id, data)
                await self._room(item)
                self.tell(wire.ItemDone(previous_item_id=self.conversation.before(item.id), item=item))
            case said.ConversationItemDelete():
                self.conversation.delete(command.item_id)
                self.tell(wire.ItemDeleted(item_id=command.item_id))
            case said.ConversationItemRetrieve():
                item = self.conversation.find(command.item_id)
                await self._room(item)
                self.tell(wire.ItemRetrieved(item=item))
            case said.ConversationItemTruncate():
                self.conversation.truncate(command.item_id, command.audio_end_ms / 1000)
                self.tell(
                    wire.ItemTruncated(item_id=command.item_id, content_index=0, audio_end_ms=command.audio_end_ms)
                )
            case said.ResponseCreate():
                patch = command.response or {}
                spec = self._answer_spec(patch)
                await check(self._hub, spec, self._config.spec, root="response")
                self._create(patch, spec)
            case said.ResponseCancel():
                if self._response is None or command.response_id not in (None, self._response.id):
                    # LiveKit passes over an error that begins so: an interruption may come too late.
                    told = "Cancellation failed: no such response is in progress"
                    raise Invalid("response_id", told, "response_cancel_not_active")
                self._cancel("client_cancelled")
            case said.OutputAudioBufferClear():
                self._cancel("client_cancelled")
                self._hush()
            case _:
                pass

    def _append(self, data: bytes) -> None:
        """Hear ``data``, in the session's format."""
        if not self._input.append(data):
            self._end(Ending(1008, "UnheardAudio", self._input.full))

    async def _update(self, patch: dict[str, Any], *, is_beta: bool | None) -> None:
        seconds = self._settings.max_session_seconds
        if self._input.updates >= MOST_UPDATES:
            told = f"{MOST_UPDATES} updates wait for the audio before them to be heard; this one was not taken"
            raise Invalid("session", told, "update_limit")
        fresh = not self._input.touched and not len(self.conversation)
        config = self._config.updated(patch, seconds=seconds, fresh=fresh, strict=self._settings.strict)
        await check(self._hub, config.spec, self._config.spec)
        await self._room(config.document)
        self._config = config
        self._beta = self._beta if is_beta is None else is_beta
        self._input.change(config.spec)
        self.tell(wire.SessionUpdated(session=config.document))

    # ------------------------------------------------------------------------------------------------ turns

    @property
    def answers(self) -> bool:
        """Whether somebody who speaks now speaks over an answer."""
        return self._response is not None or self.voice.unplayed > 0

    def began(self) -> None:
        """Take note that somebody speaks: what is being said stops, unless the session says otherwise."""
        turns = self._config.spec.turns
        if turns is None or turns.interrupt_response is not False:
            self._interrupted = self._response or (self._spoke if self.voice.unplayed > 0 else self._interrupted)
            self._cancel("turn_detected")
            self._hush()

    def committed(self, item_id: str) -> None:
        """Take note that a turn is complete."""
        before = self.conversation.last
        self.tell(wire.Committed(item_id=item_id, previous_item_id=before))
        item = spoken_item(item_id, None)
        self.join(item)
        self.tell(wire.ItemDone(previous_item_id=before, item=item))

    def transcribed(self, turn: Turn, *, detected: bool) -> None:
        """Take the text of a turn."""
        spec, transcript = self._config.spec, turn.transcript
        with suppress(Invalid):  # The item may have been deleted.
            item = self.conversation.find(turn.item_id)
            if item.content:
                item.content[0].transcript = transcript
                self.conversation.changed(item)
        if spec.transcribes:
            self.tell(
                wire.TranscriptionCompleted(
                    item_id=turn.item_id,
                    content_index=0,
                    transcript=transcript,
                    usage=wire.DurationUsage(round(turn.seconds, 3)),
                    languages=[wire.LanguageCode(code) for code in turn.languages],
                    words=turn.words,
                ),
                owed=True,
            )
        answers = spec.type == "realtime" and (spec.turns is None or spec.turns.create_response is not False)
        # A sound without words is no turn to answer. But where it stopped an answer that nobody had heard, none would
        # come.
        asked: Mapping[str, Any] | None = {} if transcript else None
        if asked is None and self._interrupted is not None and self._interrupted.unheard:
            asked = self._interrupted.asked
        if detected and answers and asked is not None and self._response is None and self._ending is None:
            try:
                self._create(asked, self._answer_spec(asked))
            except Invalid as error:
                self._complain(error)

    async def ready(self) -> None:
        """Wait until a response may begin: what the client committed is heard, the response before is cleared up and
        its end told, and some time has passed since its beginning."""
        before = self._answers - {self._answering}
        if before:
            await asyncio.wait(before)
        await self._input.settled()
        await self.room(0)
        await asyncio.sleep(self._answered_at + _BETWEEN_SECONDS - time.monotonic())
        self._answered_at = time.monotonic()

    # ------------------------------------------------------------------------------------------------ answers

    def _answer_spec(self, patch: Mapping[str, Any]) -> Spec:
        """What a response that can begin now is made by.

        Raises:
            Invalid: none can, or not so.
        """
        if self._config.spec.type != "realtime":
            raise Invalid("type", "response.create: this is a transcription session; it does not answer")
        if not self._settings.llm_url:
            told = "no chat endpoint is set, so nothing answers: start the daemon with --llm-url (llm_url)"
            raise Invalid(None, told, "no_llm")
        if self._response is not None:
            raise self._busy(self._response)
        spec = self._config.for_response(patch)
        if spec.speaks and self._hub.loaded().speaking is None:
            told = "no speaking model is loaded (tts_model); ask for output_modalities ['text']"
            raise Invalid("output_modalities", told, "no_speaking_model")
        return spec

    def _busy(self, response: Response) -> Invalid:
        told = f"response {response.id} is in progress; wait for response.done, or cancel it"
        return Invalid(None, told, "conversation_already_has_active_response")

    def _create(self, patch: Mapping[str, Any], spec: Spec, words: str = "") -> None:
        if self._response is not None:  # Another response began while this one was checked.
            raise self._busy(self._response)
        given = patch.get("input")
        items = None if given is None else self.conversation.context(given)
        response = Response(self, spec, patch, items, words)
        self._response, self._interrupted = response, None
        self._answering = asyncio.create_task(response.run())
        self._answers.add(self._answering)
        self._answering.add_done_callback(self._answered)

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._answers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _cancel(self, reason: str) -> None:
        """Stop the response in progress, if there is one."""
        response, answering = self._response, self._answering
        if response is not None and answering is not None:
            response.cancel(reason)
            answering.cancel()

    def _hush(self) -> None:
        """Take back the sound of an answer that is over, as far as it was sent and not played."""
        unplayed = self.voice.unplayed
        if unplayed > 0 and self._spoke is not None:
            self._spoke.unplay(unplayed)
            self.voice.clear()

    def finished(self, response: Response) -> None:
        """Take note that a response is over."""
        if self._response is response:
            self._response = None
            self._spoke = response if response.spoken else self._spoke

    # ---------------------------------------------------------------------------------------------------- out

    async def _room(self, told: Item | Document) -> None:
        """Read on only when the client has taken so much that there is room for what it is told again."""
        await self._outbox.room(len(msgspec.json.encode(told)) + _ENVELOPE, self._settings.max_outbound_bytes)

    async def room(self, size: int) -> None:
        """Wait until the client has taken so much that an event of ``size`` bytes may wait for it."""
        await self._outbox.room(size + _ENVELOPE)

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Send an event to the client. ``owed`` says that it repeats as a whole what was told bit by bit."""
        if (told := self._shaped(event)) is not None:
            self._outbox.put(told, owed=owed)

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Send sound to the client, as long as nobody interrupts."""
        if (told := self._shaped(event)) is not None:
            self._outbox.put_sound(told, text=True)

    def _shaped(self, event: wire.Event) -> bytes | None:
        """The event as this client knows it; None where it knows no such event."""
        if not self._beta:
            return encode(event)
        told = beta.told(msgspec.to_builtins(event))
        return None if told is None else msgspec.json.encode(told)

    def join(self, item: Item, after: str | None = None) -> None:
        """Add an item to the conversation. The oldest of too many leave."""
        gone = self.conversation.add(item, after)
        self.tell(wire.ItemAdded(previous_item_id=self.conversation.before(item.id), item=item))
        for identifier in gone:
            self.tell(wire.ItemDeleted(item_id=identifier))

    def _complain(self, error: Invalid, cause: str | None = None) -> None:
        """Tell the client of an error. ``cause`` is the id of the event that is to blame."""
        kind = "server_error" if error.code == "no_llm" else "invalid_request_error"
        told, param = str(error), error.param
        if len(told) > _MOST_TOLD:  # The error may repeat what was sent.
            told, param = f"{told[:_MOST_TOLD]}…", param[:_MOST_TOLD] if param is not None else None
        self.tell(wire.Error(error=wire.Fault(kind, error.code, told, param, cause)))

    def _say_error(self, ending: Ending) -> None:
        code = _CODES.get(ending.variant, ending.variant.lower())
        kind = "invalid_request_error" if ending.code == 1008 else "server_error"
        self.tell(wire.Error(error=wire.Fault(kind, code, ending.reason)))

    # -------------------------------------------------------------------------------------------------- course

    def _unfinished(self) -> str:
        return f"the last {self._input.unheard:.1f} s of audio" + (", and an answer" if self._response else "")

    def _wind_up(self, ending: Ending) -> None:
        """Hear the audio that has come and end the answer; where the daemon goes, finish the answer. Nothing new is
        answered."""
        if ending.code != 1012:
            self._cancel("client_cancelled")
        self._input.end()

    async def _work(self) -> None:
        """Hear until the end of the stream, while answers come and go."""
        hearing = asyncio.create_task(self._input.run())
        try:
            await asyncio.wait((hearing, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if not self._failed.done():
                hearing.result()
                if self._answering is not None:
                    await asyncio.wait((self._answering,))
            if self._failed.done():
                self._failed.result()
        finally:
            tasks = [hearing, *self._answers]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.voice.close()
            await self.chat.close()


def decoded(audio: str) -> bytes:
    """The bytes of a text in base64.

    Raises:
        Invalid: it is none.
    """
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("audio", f"audio: not base64: {error}") from None
