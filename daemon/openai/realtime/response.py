"""One response: the reply of the chat endpoint, which is told and spoken while it comes.

A response is over once: completed, incomplete, failed or cancelled; whatever it had begun is then closed event by
event. Cancelling is immediate: the request to the endpoint ends, and so does the voice.
"""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol

import msgspec

from daemon.openai.realtime import chat
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.chat import Chat, ChatError
from daemon.openai.realtime.conversation import Conversation
from daemon.openai.realtime.items import Content, Item, Status, new_id
from daemon.openai.realtime.output_audio import OutputAudio
from daemon.openai.realtime.spec import Invalid, Spec, ToolChoice
from daemon.refusal import Refused
from daemon.spoken_text import SpokenText
from engines.sessions import OptionError

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""The reasons for which the endpoint stopped early, each in OpenAI's words for a response."""


class Owner(Protocol):
    """The session that a response belongs to."""

    conversation: Conversation
    chat: Chat
    voice: OutputAudio

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """An event for the client; ``owed``: it tells whole what was told bit by bit."""
        ...

    async def room(self, size: int) -> None:
        """Wait until the client has taken so much that ``size`` bytes may wait for it."""
        ...

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Tell the client an event of sound, which an interruption takes back while it waits."""
        ...

    def join(self, item: Item) -> None:
        """Add an item to the conversation."""
        ...

    def finished(self, response: "Response") -> None:
        """Say that the response is over."""
        ...

    async def ready(self) -> None:
        """Wait until the next response may begin its work."""
        ...


class Response:
    """One response. ``asked`` holds its options; ``input`` holds the items that it answers instead of the
    conversation; ``words`` are said in place of an answer."""

    def __init__(
        self, owner: Owner, spec: Spec, asked: Mapping[str, Any], input: Sequence[Item] | None, words: str = ""
    ) -> None:
        self.id: Final = new_id("resp")
        self.asked: Final = asked
        self.over = False
        self._owner, self._spec, self._input, self._words = owner, spec, input, words
        self._detached = asked.get("conversation") == "none"
        """Whether the response stays out of the conversation."""
        self._output: list[Item] = []
        self._message: Item | None = None
        self._spoken = SpokenText()
        self._calls: dict[int, Item] = {}
        self._count: chat.Count | None = None
        self._reason = "stop"
        self._frames = owner.voice.frames
        owner.tell(wire.ResponseCreated(response=self._told("in_progress", None)))

    @property
    def spoken(self) -> bool:
        """Whether the response has sound."""
        return self._spoken.seconds > 0

    @property
    def unheard(self) -> bool:
        """Whether the response left nothing in the context: no word that was played or written, no call."""
        return not self._owner.conversation.messages(None, self._output)

    # ---------------------------------------------------------------------------------------------- course

    async def run(self) -> None:
        """Answer, from the beginning to the end."""
        try:
            await self._owner.ready()
            await self._answer()
        except ChatError as error:
            await self._wind_up("incomplete")
            self._fail(error.code, str(error))
        except Refused as refused:
            self._fail(refused.code, refused.message)
        except (OptionError, Invalid) as error:
            self._fail("invalid_value", str(error))

    def cancel(self, reason: str) -> None:
        """Stop. ``reason`` is ``turn_detected`` or ``client_cancelled``. The caller ends :meth:`run`."""
        if self.over:
            return
        unplayed = self._owner.voice.unplayed
        self._owner.voice.clear()
        self._end("cancelled", wire.StatusDetails("cancelled", reason))
        self.unplay(unplayed)

    def unplay(self, seconds: float) -> None:
        """Keep the words of the spoken text that were heard, where the last ``seconds`` of its sound were not."""
        if self._spec.speaks and self._message is not None and self._message.content:
            self._message.content[0].transcript = self._spoken.played(max(0.0, self._spoken.seconds - seconds))

    async def _answer(self) -> None:
        owner, spec = self._owner, self._spec
        if spec.speaks:
            await owner.voice.open(spec)
            owner.voice.begin(self)
            self._frames = owner.voice.frames
        reply = chat.told(self._words) if self._words else owner.chat.reply(self._request())
        async with aclosing(reply) as parts:
            async for part in parts:
                await owner.room(_told_bytes(part))
                match part:
                    case chat.Text():
                        self._say(part.delta)
                    case chat.Call():
                        self._call(part)
                    case chat.Finish():
                        self._reason = part.reason
                    case chat.Count():
                        self._count = part
                    case chat.Thought():
                        pass
        await owner.room(0)
        await self._wind_up("completed")
        if self._message is not None and spec.speaks:
            await owner.voice.finish()
        early = _INCOMPLETE.get(self._reason)
        if early is None:
            self._end("completed", None)
        else:
            self._end("incomplete", wire.StatusDetails("incomplete", early))

    def _request(self) -> dict[str, Any]:
        spec = self._spec
        request: dict[str, Any] = {
            "model": spec.model,
            "messages": self._owner.conversation.messages(spec.instructions, self._input),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if spec.tools:
            request["tools"] = [
                {"type": "function", "function": {k: v for k, v in msgspec.to_builtins(tool).items() if k != "type"}}
                for tool in spec.tools
            ]
            choice = spec.tool_choice
            if isinstance(choice, ToolChoice):
                request["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
            elif choice is not None:
                request["tool_choice"] = choice
            if spec.parallel_tool_calls is not None:
                request["parallel_tool_calls"] = spec.parallel_tool_calls
        if isinstance(spec.max_output_tokens, int):
            request["max_tokens"] = spec.max_output_tokens
        if spec.temperature is not None:
            request["temperature"] = spec.temperature
        return request

    # ---------------------------------------------------------------------------------------------- message

    def _say(self, delta: str) -> None:
        if self._message is None:
            self._message = self._begin(
                Item("message", new_id("item"), "realtime.item", "in_progress", "assistant", [])
            )
            if self._spec.speaks and not self._detached:
                self._spoken = self._owner.conversation.speak(self._message.id)
            part = Content("audio", transcript="") if self._spec.speaks else Content("text", text="")
            self._owner.tell(wire.ContentPartAdded(**self._place(self._message), content_index=0, part=part))
        self._spoken.text += delta
        place = self._place(self._message)
        if self._spec.speaks:
            self._message.content = [Content("output_audio", transcript=self._spoken.text)]
            self._owner.tell(wire.AudioTranscriptDelta(**place, content_index=0, delta=delta))
            self._owner.voice.say(delta)
        else:
            self._message.content = [Content("output_text", text=self._spoken.text)]
            self._owner.tell(wire.TextDelta(**place, content_index=0, delta=delta))

    def sound(self, data: bytes, seconds: float) -> None:
        """Sound of the message."""
        if self._message is not None and not self.over:
            self._spoken.seconds += seconds
            delta = wire.encoded(data)
            self._owner.tell_sound(wire.AudioDelta(**self._place(self._message), content_index=0, delta=delta))

    def paced(self, last: int) -> None:
        """A sentence of the message was spoken."""
        if not self.over:
            self._spoken.paced(last)

    def _end_message(self, message: Item, status: Status) -> None:
        place: dict[str, Any] = {**self._place(message), "content_index": 0}
        text = self._spoken.text
        if self._spec.speaks:
            self._owner.tell(wire.AudioDone(**place), owed=True)
            self._owner.tell(wire.AudioTranscriptDone(**place, transcript=text), owed=True)
            part = Content("audio", transcript=text)
        else:
            self._owner.tell(wire.TextDone(**place, text=text), owed=True)
            part = Content("text", text=text)
        self._owner.tell(wire.ContentPartDone(**place, part=part), owed=True)
        self._finish(message, status)

    # ------------------------------------------------------------------------------------------------ calls

    def _call(self, part: chat.Call) -> None:
        item = self._calls.get(part.index)
        if item is None:
            item = Item("function_call", new_id("item"), "realtime.item", "in_progress")
            item.call_id, item.name, item.arguments = part.id or new_id("call"), part.name, ""
            self._calls[part.index] = self._begin(item)
        if part.arguments:
            item.arguments = (item.arguments or "") + part.arguments
            call = item.call_id or ""
            self._owner.tell(wire.ArgumentsDelta(**self._place(item), call_id=call, delta=part.arguments))

    async def _wind_up(self, status: Status) -> None:
        """End the calls, one in each turn of the loop: there may be many."""
        for _ in self._end_calls(status):
            await asyncio.sleep(0)

    def _end_calls(self, status: Status) -> Generator[None]:
        """End one call after another."""
        for item in [*self._calls.values()]:
            if item.status == "in_progress":
                told: dict[str, Any] = {
                    "call_id": item.call_id or "",
                    "name": item.name or "",
                    "arguments": item.arguments or "",
                }
                self._owner.tell(wire.ArgumentsDone(**self._place(item), **told), owed=True)
                self._finish(item, status)
                yield

    # ------------------------------------------------------------------------------------------------ items

    def _begin(self, item: Item) -> Item:
        self._output.append(item)
        self._owner.tell(wire.OutputItemAdded(response_id=self.id, output_index=len(self._output) - 1, item=item))
        if not self._detached:
            self._owner.join(item)
        return item

    def _finish(self, item: Item, status: Status) -> None:
        item.status = status
        self._owner.conversation.changed(item)
        index = self._output.index(item)
        self._owner.tell(wire.OutputItemDone(response_id=self.id, output_index=index, item=item), owed=True)
        if not self._detached:
            before = self._owner.conversation.before(item.id)
            self._owner.tell(wire.ItemDone(previous_item_id=before, item=item), owed=True)

    def _place(self, item: Item) -> dict[str, Any]:
        return {"response_id": self.id, "output_index": self._output.index(item), "item_id": item.id}

    def _fail(self, code: str, message: str) -> None:
        if not self.over:
            self._owner.voice.clear()
            fault = wire.ItemFault("server_error", code, message)
            self._end("failed", wire.StatusDetails("failed", error=fault))

    def _end(self, status: str, details: wire.StatusDetails | None) -> None:
        """Close whatever is open, then the response."""
        if self.over:
            return
        whole = "completed" if status == "completed" else "incomplete"
        self.over = True
        for _ in self._end_calls(whole):
            pass
        if self._message is not None:
            self._end_message(self._message, whole)
        self._owner.tell(wire.ResponseDone(response=self._told(status, details)), owed=True)
        self._owner.finished(self)

    def _told(self, status: str, details: wire.StatusDetails | None) -> wire.Response:
        spec = self._spec
        return wire.Response(
            id=self.id,
            object="realtime.response",
            status=status,
            status_details=details,
            output=self._output if status != "in_progress" else [],
            conversation_id=None if self._detached else self._owner.conversation.id,
            output_modalities=["audio" if spec.speaks else "text"],
            max_output_tokens=spec.max_output_tokens or "inf",
            audio=spec.output_audio,
            usage=self._usage(),
            metadata=spec.metadata,
        )

    def _usage(self) -> wire.Usage | None:
        """The tokens that the endpoint counted, if it did, and the frames that were spoken."""
        if self._count is None:
            return None
        sound = self._owner.voice.frames - self._frames if self._spec.speaks else 0
        text, given = self._count.completion, self._count.prompt
        return wire.Usage(
            total_tokens=given + text + sound,
            input_tokens=given,
            output_tokens=text + sound,
            input_token_details=wire.TokenDetails(given, 0),
            output_token_details=wire.TokenDetails(text, sound),
        )


def _told_bytes(part: chat.Part) -> int:
    """A bound on the bytes that tell of ``part``, with every character escaped."""
    match part:
        case chat.Text(delta):
            return 6 * len(delta)
        case chat.Call():
            return 6 * len(part.id + part.name + part.arguments)
        case _:
            return 0
