"""The items of a conversation in order, bounded, and what the chat endpoint is told of them.

Of a spoken item only what was played counts: text and sound are told apart here, so that an interruption leaves in the
context what the person has heard.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, cast

import msgspec

from daemon.messages import encode
from daemon.openai.realtime.items import Content, Item, new_id
from daemon.openai.realtime.spec import Invalid
from daemon.spoken_text import SpokenText

Message = dict[str, Any]

MOST_ITEMS: Final = 500
"""Items of a conversation: about an hour of talk. Each is sent to the chat endpoint at every turn."""
MOST_BYTES: Final = 1 << 20
"""Bytes of all items as JSON. Beyond either bound the oldest items leave."""
ROOT: Final = "root"
"""OpenAI's name for the place before the first item."""


class Conversation:
    """The items of a conversation. Their ids are unique."""

    def __init__(self) -> None:
        self.id: Final = new_id("conv")
        self._items: list[Item] = []
        self._spoken: dict[str, SpokenText] = {}
        self._sizes: dict[str, int] = {}
        """Bytes of each item by its id. They are kept, because encoding a megabyte again for each small item that joins
        would let a client hold everybody up with small items."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> str | None:
        """The id of the last item."""
        return self._items[-1].id if self._items else None

    def find(self, identifier: str, param: str = "item_id") -> Item:
        """The item of an id.

        Raises:
            Invalid: there is no such item.
        """
        return self._items[self._place(identifier, param)]

    def before(self, identifier: str) -> str | None:
        """The id of the item before that one; None where either is not there."""
        for one, next_ in pairwise(self._items):
            if next_.id == identifier:
                return one.id
        return None

    def add(self, item: Item, after: str | None = None) -> list[str]:
        """Add an item at the end, or after the item ``after``; returns the ids of old items that leave.

        Raises:
            Invalid: there is no such place, or the id is taken.
        """
        if any(other.id == item.id for other in self._items):
            raise Invalid("item.id", f"item.id: {item.id!r} is taken", "item_create_duplicate_item_id")
        if after is None:
            self._items.append(item)
        else:
            place = 0 if after == ROOT else self._place(after, "previous_item_id") + 1
            self._items.insert(place, item)
        self._sizes[item.id] = _size(item)
        return self._bounded(item)

    def changed(self, item: Item) -> None:
        """Count an item again that holds something else than when it joined. An item in progress may be counted at its
        end, because a reply has bounds of its own."""
        if item.id in self._sizes:
            self._sizes[item.id] = _size(item)

    def context(self, given: object) -> list[Item]:
        """The items that a response answers instead of the conversation: new ones, and references to items of ours.

        A reference costs the client forty bytes and the daemon the whole item, so what it stands for is counted, each
        time that it is given, within the bounds that the conversation has.

        Raises:
            Invalid: no list of items, too many, too large together, or a reference to no item.
        """
        name = "response.input"
        if isinstance(given, list) and len(cast(list[object], given)) > MOST_ITEMS:
            told = f"{name}: {len(cast(list[object], given))} items, the limit is {MOST_ITEMS}; send the newest"
            raise Invalid(name, told, "input_limit")
        found: list[Item] = []
        size = 0
        try:
            for entry in msgspec.convert(given, list[dict[str, Any]]):
                if entry.get("type") == "item_reference":
                    found.append(self.find(str(entry.get("id")), name))
                else:
                    found.append(created(msgspec.convert(entry, Item)))
                size += _size(found[-1])
                if size > MOST_BYTES:
                    told = f"{name}: over {MOST_BYTES} bytes of JSON, each reference counted as its item; send fewer"
                    raise Invalid(name, told, "input_limit")
        except msgspec.ValidationError as error:
            raise Invalid(name, f"{name}: {error}") from None
        return found

    def delete(self, identifier: str) -> None:
        """Remove an item.

        Raises:
            Invalid: there is no such item.
        """
        del self._items[self._place(identifier, "item_id")]
        self._forget(identifier)

    def _forget(self, identifier: str) -> None:
        self._sizes.pop(identifier, None)
        self._spoken.pop(identifier, None)

    def speak(self, identifier: str) -> SpokenText:
        """The sound of an item, from its beginning."""
        return self._spoken.setdefault(identifier, SpokenText())

    def truncate(self, identifier: str, seconds: float) -> float:
        """Keep of a spoken item's text what was heard by ``seconds`` of its sound; returns the seconds that were kept.

        Raises:
            Invalid: there is no such item, or it has no sound.
        """
        item, spoken = self.find(identifier), self._spoken.get(identifier)
        if spoken is None or item.role != "assistant" or not item.content:
            raise Invalid("item_id", f"item_id: {identifier!r} has no sound of ours; only that can be truncated")
        kept = max(0.0, min(seconds, spoken.seconds))
        item.content[0].transcript = spoken.played(kept)
        self.changed(item)
        return kept

    def messages(self, instructions: str | None, items: Sequence[Item] | None = None) -> list[Message]:
        """What a chat endpoint is told: ``instructions``, then ``items``, or all items of the conversation."""
        found: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
        for item in self._items if items is None else items:
            match item.type:
                case "message":
                    content = _told(item)
                    if content:
                        found.append({"role": item.role or "user", "content": content})
                case "function_call":
                    call = {
                        "id": item.call_id or item.id,
                        "type": "function",
                        "function": {"name": item.name or "", "arguments": item.arguments or "{}"},
                    }
                    if found and found[-1].get("tool_calls"):
                        found[-1]["tool_calls"].append(call)
                    else:
                        found.append({"role": "assistant", "content": None, "tool_calls": [call]})
                case "function_call_output":
                    found.append({"role": "tool", "tool_call_id": item.call_id or "", "content": item.output or ""})
        return found

    def _place(self, identifier: str, param: str) -> int:
        for place, item in enumerate(self._items):
            if item.id == identifier:
                return place
        raise Invalid(param, f"{param}: there is no item {identifier!r}", "item_not_found")

    def _bounded(self, newest: Item) -> list[str]:
        """Let the oldest items go. The output of a function goes with its call."""
        gone: list[str] = []
        size = sum(self._sizes.values())
        while len(self._items) > 1 and (len(self._items) > MOST_ITEMS or size > MOST_BYTES):
            oldest = next(item for item in self._items if item is not newest)
            leaving = [oldest]
            if oldest.type == "function_call":
                leaving += [
                    item
                    for item in self._items
                    if item.type == "function_call_output" and item.call_id == oldest.call_id and item is not newest
                ]
            for item in leaving:
                self._items.remove(item)
                size -= self._sizes[item.id]
                self._forget(item.id)
                gone.append(item.id)
        return gone


def created(item: Item) -> Item:
    """A client's item, as it joins the conversation.

    Raises:
        Invalid: it lacks what its type needs.
    """
    if not item.id:
        item.id = new_id("item")
    elif len(item.id) > 64:
        raise Invalid("item.id", f"item.id: {len(item.id)} characters, the limit is 64")
    item.object, item.status = "realtime.item", item.status or "completed"
    match item.type:
        case "message":
            if item.role is None:
                raise Invalid("item.role", "item.role: missing; a message is of user, assistant or system")
            item.content = item.content or []
            for place, part in enumerate(item.content):
                _complete(part, item.role, f"item.content[{place}]")
        case "function_call":
            if not item.name:
                raise Invalid("item.name", "item.name: missing")
            item.call_id = item.call_id or new_id("call")
            item.arguments = "{}" if item.arguments is None else item.arguments
        case "function_call_output":
            if not item.call_id:
                raise Invalid("item.call_id", "item.call_id: missing; it names the function call that this answers")
            item.output = item.output or ""
    return item


_PARTS: Final = {"user": ("text", "audio", "image"), "assistant": ("text", "audio"), "system": ("text",)}
"""What the messages of each role are made of, by OpenAI's schema."""


def _complete(part: Content, role: str, path: str) -> None:
    """Give a part the type that OpenAI's schema has for its role, and the fields that the schema wants of that type.

    Raises:
        Invalid: a message of that role has no such part, or sound of ours comes without what it says.
    """
    if part.type.rpartition("_")[2] not in _PARTS[role]:
        raise Invalid(f"{path}.type", f"{path}.type: a message of {role} has no {part.type}")
    ours = role == "assistant"
    match part.type:
        case "text" | "input_text" | "output_text":
            part.type, part.text = "output_text" if ours else "input_text", part.text or ""
        case "audio" | "input_audio" | "output_audio":
            part.type = "output_audio" if ours else "input_audio"
            if ours and part.said is None:
                raise Invalid(f"{path}.transcript", f"{path}.transcript: missing")
            part.transcript = part.said
        case _:
            pass


def sound(item: Item) -> str | None:
    """The sound of a new item that is to be heard, base64. It is taken out of the item.

    Raises:
        Invalid: it is not all of the item.
    """
    parts = item.content or []
    found = [part for part in parts if part.audio is not None and part.said is None]
    if found and len(parts) > 1:
        raise Invalid("item.content", "item.content: sound is an item of its own, without other parts")
    data = found[0].audio if found else None
    for part in parts:
        part.audio = None
    return data


def _told(item: Item) -> str | list[Message]:
    """The content of a message as chat endpoints take it: a text, or parts where there are pictures."""
    parts = item.content or []
    text = "\n".join(said for part in parts if (said := part.text or part.said))
    pictures = [part for part in parts if part.type == "input_image" and part.image_url]
    if not pictures:
        return text
    shown: list[Message] = [{"type": "text", "text": text}] if text else []
    return shown + [{"type": "image_url", "image_url": _picture(part)} for part in pictures]


def _picture(part: Content) -> Message:
    return {"url": part.image_url, **({"detail": part.detail} if part.detail else {})}


def _size(item: Item) -> int:
    return len(encode(item))
