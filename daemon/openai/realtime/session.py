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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from daemon.duplex import Duplex, Ending, echoed
from daemon.hub import Hub
from daemon.messages import encode
from daemon.openai.realtime import client_events as said
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.capability import check
from daemon.openai.realtime.chat import Chat
from daemon.openai.realtime.config import Config, Document
from daemon.openai.realtime.conversation import Conversation, created, sound
from daemon.openai.realtime.input_audio import MOST_UPDATES, InputAudio
from daemon.openai.realtime.items import Item, heard
from daemon.openai.realtime.output_audio import OutputAudio
from daemon.openai.realtime.response import Response
from daemon.openai.realtime.spec import Invalid, Spec
from daemon.openai.realtime.turn import Turn
from daemon.parameters import HEARING_ALIASES, OTHER_HEARING, matches
from daemon.paths import REALTIME
from daemon.refusal import Refused

_ENVELOPE: Final = 512
"""Bytes of an event beside the item or session in it."""
_CODES: Final = {"UnheardAudio": "unheard_audio", "SessionLength": "session_expired", "Fault": "fault"}


async def realtime(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, run the session."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{REALTIME.path} is a WebSocket")
    config = _asked(hub, scope)
    await RealtimeStream(hub, config, receive, send).run(echoed(scope))


def _asked(hub: Hub, scope: Scope) -> Config:
    """How the session begins: as the client secret says, or the query.

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
    hears = model == hub.hearing_model().name or matches(model, HEARING_ALIASES + OTHER_HEARING)
    kind: Literal["realtime", "transcription"] = "realtime"
    if intent == "transcription" or (not intent and model and hears):
        kind = "transcription"
    return Config.initial(kind, model[:256], seconds=hub.settings.max_session_seconds)


class RealtimeStream(Duplex):
    """One session."""

    _commands = said.commands

    def __init__(self, hub: Hub, config: Config, receive: Receive, send: Send) -> None:
        super().__init__(hub, receive, send)
        self._config = config
        self.conversation, self.chat = Conversation(), Chat(hub)
        self.voice = OutputAudio(hub, self._outbox)
        self._input = InputAudio(hub, config.spec, self)
        self._response: Response | None = None
        self._answering: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set to what went wrong with an answer through a fault of ours."""
        self._spoke: Response | None = None
        """The last one that was spoken."""
        self._interrupted: Response | None = None
        """The one that somebody spoke over, until the next response."""
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
        self._complain(Invalid(said.field(reason), reason, "invalid_event"), said.event_id(text))

    async def _follow(self, command: said.Command) -> None:
        if self._ending is not None:
            return
        try:
            await self._act(command)
        except Invalid as error:
            self._complain(error, command.event_id)
        except RecursionError:
            self._complain(Invalid(None, "nested too deeply"), command.event_id)

    async def _act(self, command: said.Command) -> None:
        match command:
            case said.InputAudioBufferAppend():
                if not self._input.append(_decoded(command.audio)):
                    self._end(Ending(1008, "UnheardAudio", self._input.full))
            case said.InputAudioBufferCommit():
                self._input.commit()
            case said.InputAudioBufferClear():
                self._input.clear()
                self.tell(wire.Cleared())
            case said.SessionUpdate():
                await self._update(command.session)
            case said.ConversationItemCreate():
                item = created(command.item)
                audio = sound(item)
                data = None if audio is None else _decoded(audio)
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
                await check(self._hub, self._answer_spec(patch), self._config.spec, root="response")
                self._create(patch)
            case said.ResponseCancel():
                if self._response is None or command.response_id not in (None, self._response.id):
                    raise Invalid("response_id", "there is no such response in progress", "response_cancel_not_active")
                self._cancel("client_cancelled")
            case said.OutputAudioBufferClear():
                self._cancel("client_cancelled")
                self._hush()

    async def _update(self, patch: dict[str, Any]) -> None:
        seconds = self._settings.max_session_seconds
        if self._input.updates >= MOST_UPDATES:
            told = f"{MOST_UPDATES} updates wait for the audio before them to be heard; this one was not taken"
            raise Invalid("session", told, "update_limit")
        fresh = not self._input.touched and not len(self.conversation)
        config = self._config.updated(patch, seconds=seconds, fresh=fresh)
        await check(self._hub, config.spec, self._config.spec)
        await self._room(config.document)
        self._config = config
        self._input.change(config.spec)
        self.tell(wire.SessionUpdated(session=config.document))

    # ------------------------------------------------------------------------------------------------ turns

    def began(self) -> None:
        """Somebody speaks: whatever is being said stops, unless the session says otherwise."""
        turns = self._config.spec.turns
        if turns is None or turns.interrupt_response is not False:
            self._interrupted = self._response or (self._spoke if self.voice.unplayed > 0 else self._interrupted)
            self._cancel("turn_detected")
            self._hush()

    def committed(self, item_id: str) -> None:
        """A turn is complete."""
        before = self.conversation.last
        self.tell(wire.Committed(item_id=item_id, previous_item_id=before))
        item = heard(item_id, None)
        self.join(item)
        self.tell(wire.ItemDone(previous_item_id=before, item=item))

    def heard(self, turn: Turn, *, detected: bool) -> None:
        """A turn's text is there."""
        spec, transcript = self._config.spec, turn.transcript
        with suppress(Invalid):  # the item may have been deleted
            content = self.conversation.find(turn.item_id).content
            if content:
                content[0].transcript = transcript
        if spec.transcribes:
            self.tell(
                wire.TranscriptionCompleted(
                    item_id=turn.item_id,
                    content_index=0,
                    transcript=transcript,
                    usage=wire.DurationUsage(round(turn.seconds, 3)),
                    languages=[wire.LanguageCode(code) for code in turn.languages],
                    words=turn.words,
                )
            )
        answers = spec.type == "realtime" and (spec.turns is None or spec.turns.create_response is not False)
        # A sound without words is no turn to answer; but where it stopped an answer that nobody heard, none would come.
        asked: Mapping[str, Any] | None = {} if transcript else None
        if asked is None and self._interrupted is not None and self._interrupted.unheard:
            asked = self._interrupted.asked
        if detected and answers and asked is not None and self._response is None and self._ending is None:
            try:
                self._create(asked)
            except Invalid as error:
                self._complain(error)

    async def settled(self) -> None:
        """Until what the client committed is heard."""
        await self._input.settled()

    # ------------------------------------------------------------------------------------------------ answers

    def _answer_spec(self, patch: Mapping[str, Any]) -> Spec:
        """Of a response that can begin now.

        Raises:
            Invalid: none can, or not so.
        """
        if self._config.spec.type != "realtime":
            raise Invalid("type", "response.create: this is a transcription session; it does not answer")
        if not self._settings.llm_url:
            told = "no chat endpoint is set, so nothing answers: start the daemon with --llm-url (llm_url)"
            raise Invalid(None, told, "no_llm")
        if self._response is not None:
            told = f"response {self._response.id} is in progress; wait for response.done, or cancel it"
            raise Invalid(None, told, "conversation_already_has_active_response")
        spec = self._config.for_response(patch)
        if spec.speaks and self._hub.loaded().speaking is None:
            told = "no speaking model is loaded (tts_model); ask for output_modalities ['text']"
            raise Invalid("output_modalities", told, "no_speaking_model")
        return spec

    def _create(self, patch: Mapping[str, Any]) -> None:
        spec = self._answer_spec(patch)
        items = self._items(patch.get("input"))
        response = Response(self, spec, patch, items)
        self._response, self._interrupted = response, None
        self._answering = asyncio.create_task(response.run())
        self._answering.add_done_callback(self._answered)

    def _items(self, given: object) -> Sequence[Item] | None:
        """The items of a response's own context; references mean items of the conversation."""
        if given is None:
            return None
        items: list[Item] = []
        try:
            entries = msgspec.convert(given, list[dict[str, Any]])
            for entry in entries:
                if entry.get("type") == "item_reference":
                    items.append(self.conversation.find(str(entry.get("id")), "response.input"))
                else:
                    items.append(created(msgspec.convert(entry, Item)))
        except msgspec.ValidationError as error:
            raise Invalid("response.input", f"response.input: {error}") from None
        return items

    def _answered(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _cancel(self, reason: str) -> None:
        """Stop the response in progress, if there is one."""
        response, answering = self._response, self._answering
        if response is not None and answering is not None:
            response.cancel(reason)
            answering.cancel()

    def _hush(self) -> None:
        """Take back what was sent of an answer that is over, but not played."""
        unplayed = self.voice.unplayed
        if unplayed > 0 and self._spoke is not None:
            self._spoke.unplay(unplayed)
            self.voice.clear()

    def finished(self, response: Response) -> None:
        """A response is over."""
        if self._response is response:
            self._response = None
            self._spoke = response if response.spoken else self._spoke

    # ---------------------------------------------------------------------------------------------------- out

    async def _room(self, told: Item | Document) -> None:
        """Read on when the client has taken so much that there is room for what it is told again."""
        await self._outbox.room(len(msgspec.json.encode(told)) + _ENVELOPE, self._settings.max_outbound_bytes)

    def tell(self, event: wire.Event) -> None:
        """An event for the client."""
        self._outbox.put(encode(event))

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Sound for the client, as long as nobody interrupts."""
        self._outbox.put_sound(encode(event), text=True)

    def join(self, item: Item, after: str | None = None) -> None:
        """An item joins the conversation; the oldest of too many leave."""
        gone = self.conversation.add(item, after)
        self.tell(wire.ItemAdded(previous_item_id=self.conversation.before(item.id), item=item))
        for identifier in gone:
            self.tell(wire.ItemDeleted(item_id=identifier))

    def _complain(self, error: Invalid, cause: str | None = None) -> None:
        """``cause``: id of the client's event that is to blame."""
        kind = "server_error" if error.code == "no_llm" else "invalid_request_error"
        self.tell(wire.Error(error=wire.Fault(kind, error.code, str(error), error.param, cause)))

    def _say_error(self, ending: Ending) -> None:
        code = _CODES.get(ending.variant, ending.variant.lower())
        kind = "invalid_request_error" if ending.code == 1008 else "server_error"
        self.tell(wire.Error(error=wire.Fault(kind, code, ending.reason)))

    # -------------------------------------------------------------------------------------------------- course

    def _unfinished(self) -> str:
        return f"the last {self._input.unheard:.1f} s of audio" + (", and an answer" if self._response else "")

    def _wind_up(self, ending: Ending) -> None:
        """Hear what is there, and end the answer; where the daemon goes, finish it. Nothing new is answered."""
        if ending.code != 1012:
            self._cancel("client_cancelled")
        self._input.end()

    async def _work(self) -> None:
        """Hear until the stream's end, while answers come and go."""
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
            tasks = [hearing, *([self._answering] if self._answering is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.voice.close()
            await self.chat.close()


def _decoded(audio: str) -> bytes:
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("audio", f"audio: not base64: {error}") from None
