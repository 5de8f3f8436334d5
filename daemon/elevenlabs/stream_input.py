"""The WebSockets ``/v1/text-to-speech/{id}/stream-input`` and ``…/multi-stream-input``, which take text in pieces and
send sound in JSON.

The first one speaks one text, which ends with an empty message (as in ``realtime_tts.py`` of elevenlabs 2.78). The
second one speaks several texts at a time, each in a context that its first message opens. The first message of a text
may have settings of the voice.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Final

import msgspec
from starlette.types import Receive, Scope, Send

from audio.encoder import Encoder
from codec.events import Event, PieceMark
from daemon.duplex import Duplex, Ending, echoed
from daemon.elevenlabs.alignment import characters, in_milliseconds
from daemon.elevenlabs.formats import Format
from daemon.elevenlabs.request import Asked as Spoken
from daemon.elevenlabs.request import VoiceSettings, options, queried
from daemon.hub import Hub
from daemon.parameters import Query
from daemon.paths import MULTI_STREAM_INPUT, STREAM_INPUT, Endpoint, endpoint
from daemon.refusal import Refused
from daemon.speaking import Sound, SpeechStream
from engines.sessions import OptionError

_MOST_CONTEXTS: Final = 5
"""How many contexts one socket may have at a time, as at ElevenLabs."""


class Input(msgspec.Struct):
    """A message from the client. Other fields of ElevenLabs' tune how much text a server waits for before it speaks;
    this one does not wait."""

    text: str | None = ""
    flush: bool | None = False
    voice_settings: VoiceSettings | None = None
    context_id: str | None = None
    close_context: bool | None = False
    close_socket: bool | None = False


class Output(msgspec.Struct, rename="camel"):
    """Sound in base64, the times of characters, or the end of both."""

    audio: str | None = None
    is_final: bool | None = None
    normalized_alignment: dict[str, Any] | None = None
    alignment: dict[str, Any] | None = None
    context_id: str | msgspec.UnsetType = msgspec.UNSET


class Failure(msgspec.Struct):
    """An error, which ends the stream."""

    error: str
    message: str
    code: int


_inputs: Final = msgspec.json.Decoder(Input)


async def stream_input(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, then speak the text that comes."""
    model = hub.speaking_model().name
    query, form = queried(scope["query_string"], model, strict=hub.settings.strict)
    voice: str = scope["path_params"]["id"]
    options(Spoken(), voice, query, form.rate, model, strict=hub.settings.strict)
    await InputStream(hub, query, form, voice, endpoint(scope["path"]), receive, send).run(echoed(scope))


class _Context:
    """A text that is being spoken, with the stream that speaks it and the encoder of its sound."""

    def __init__(self, speech: SpeechStream, encoder: Encoder, held: AsyncExitStack, *, timed: bool) -> None:
        self.speech, self.held, self._encoder, self._timed = speech, held, encoder, timed
        self.flushed = True
        """Whether a flush came after all text so far, so that closing the context takes none of it back."""
        self._text = ""
        """The text that is not spoken yet, kept if the times of characters are wanted."""
        self._place, self._at = 0, 0.0
        """The index of that text's first character in the whole text, and the second at which its sound begins."""

    def take(self, message: Input) -> None:
        """Append the text of ``message`` to what is spoken.

        Raises:
            OptionError: too much text waits.
        """
        if message.text:
            self.speech.say(message.text)
            self._text += message.text if self._timed else ""
            self.flushed = False
        if message.flush:
            self.speech.flush()
            self.flushed = True

    def close(self) -> None:
        """End the text, and drop what came after the last flush."""
        if not self.flushed:
            self.speech.clear()
        self.speech.finish()

    async def speak(self, hub: Hub, room: Callable[[int], Awaitable[None]], put: Callable[[Output], None]) -> None:
        """Speak the text to its end and put its sound out, then give speaker and encoder back."""
        async with self.held:
            async for item in self.speech.items(room):
                if (told := self._output(item)) is not None:
                    put(told)
            for data in await hub.run(lambda: list(self._encoder.finish())):
                await room(len(data))
                put(_sound(data))

    def _output(self, item: Sound | Event) -> Output | None:
        if isinstance(item, Sound):
            return _sound(item.data) if item.data else None
        if not isinstance(item, PieceMark) or not self._timed:
            return None
        size = item.end_char - self._place
        timed = list(characters(self._text[:size], item, self._place, self._at))
        told = in_milliseconds(timed, self._at)
        self._text, self._place, self._at = self._text[size:], item.end_char, item.end
        return Output(alignment=told, normalized_alignment=told)


class InputStream(Duplex):
    """One connection, from accept to close."""

    _commands: ClassVar[Any] = _inputs
    _nothing_came = "no text"

    def __init__(
        self, hub: Hub, query: Query, form: Format, voice: str, endpoint: Endpoint, receive: Receive, send: Send
    ) -> None:
        super().__init__(hub, receive, send)
        self._query, self._form, self._asked_voice, self._endpoint = query, form, voice, endpoint
        self._contexts: dict[str, _Context] = {}
        """The contexts that take text."""
        self._live: set[_Context] = set()
        """The same, and closed ones that are still being spoken."""
        self._held.push_async_callback(self._release)
        self._opened = asyncio.Queue[tuple[str, _Context] | None]()
        """Contexts whose speaking has not begun; None tells that there will be no more."""

    @property
    def _last_sign(self) -> float:
        return max([self._alive_at, *(one.speech.busy_until for one in self._live)])

    def _take_bytes(self, data: bytes) -> None:
        self._misunderstood(f"a binary message of {len(data)} bytes: text goes in JSON", "")

    def _misunderstood(self, reason: str, text: str) -> None:
        del text
        self._end(Ending(1008, "invalid_message", reason))

    def _say_error(self, ending: Ending) -> None:
        self._say(Failure(ending.variant, ending.reason, ending.code))

    async def _follow(self, command: Input) -> None:
        if self._ending is not None:
            return
        name = (command.context_id or "") if self._endpoint is MULTI_STREAM_INPUT else ""
        try:
            await self._take(name, command)
        except OptionError as error:
            self._end(Ending(1008, error.field, str(error)))
        except Refused as refused:
            self._end(Ending(1008, refused.code, refused.message))

    async def _take(self, name: str, command: Input) -> None:
        multi, context = self._endpoint is MULTI_STREAM_INPUT, self._contexts.get(name)
        if command.close_socket or (not multi and not command.text and not command.flush):
            self._end(Ending(1000))
        elif multi and command.close_context:
            if context is not None:
                del self._contexts[name]
                context.close()
        elif command.text or context is not None:
            context = context or await self._begin(name, command.voice_settings)
            context.take(command)

    async def _begin(self, name: str, settings: VoiceSettings | None) -> _Context:
        """Open a context with the settings of its first message.

        Raises:
            Refused: a setting is wrong, there are too many contexts, or as ``Hub.speak``.
        """
        hub, form, strict = self._hub, self._form, self._hub.settings.strict
        if len(self._live) >= _MOST_CONTEXTS:
            raise Refused(429, "too_many_contexts", f"context_id: {_MOST_CONTEXTS} are open, the limit; close one")
        timed = self._query.one.get("sync_alignment", "").lower() == "true"
        wanted = Spoken(voice_settings=settings, model=self._query.one.get("model"))
        model = hub.speaking_model().name
        chosen = options(wanted, self._asked_voice, self._query, form.rate, model, strict=strict, word_times=timed)
        async with AsyncExitStack() as held:
            if self._live:  # The first context uses the slot that the request has.
                await held.enter_async_context(hub.speaking_slot())
            encoder = await hub.run(form.encoder)  # To load FFmpeg takes a moment.
            held.callback(encoder.close)
            worker = await hub.speak(chosen, self._query.warnings)
            held.push_async_callback(worker.close)
            speech = SpeechStream(worker, encoder, self._metrics, self._endpoint.path)
            context = self._contexts[name] = _Context(speech, encoder, held.pop_all(), timed=timed)
        self._live.add(context)
        self._opened.put_nowait((name, context))
        return context

    def _wind_up(self, ending: Ending) -> None:
        """Speak all text to its end if the client ended the stream or the daemon stops; else end at once."""
        good = ending.code in (1000, 1012)
        for context in self._live:
            if not good:
                context.speech.clear()
            context.speech.finish()
        if not good:
            self._outbox.forget_sound()
        self._opened.put_nowait(None)

    def _unfinished(self) -> str:
        return "text that is not spoken"

    async def _work(self) -> None:
        try:
            async with asyncio.TaskGroup() as speaking:
                while (opened := await self._opened.get()) is not None:
                    speaking.create_task(self._speak(*opened))
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        if self._endpoint is STREAM_INPUT and (self._ending is None or not self._ending.variant):
            self._say(Output(is_final=True))

    async def _speak(self, name: str, context: _Context) -> None:
        def put(told: Output) -> None:
            told.context_id = name if name else msgspec.UNSET
            message = msgspec.json.encode(told)
            self._outbox.put_sound(message, text=True)

        await context.speak(self._hub, self._outbox.room, put)
        self._live.discard(context)
        if self._contexts.get(name) is context:
            del self._contexts[name]
        if self._endpoint is MULTI_STREAM_INPUT:
            self._say(Output(is_final=True, context_id=name if name else msgspec.UNSET))

    async def _release(self) -> None:
        """Give back speakers and encoders of contexts that were never spoken."""
        for context in self._live:
            await context.held.aclose()


def _sound(data: bytes) -> Output:
    return Output(base64.b64encode(data).decode())
