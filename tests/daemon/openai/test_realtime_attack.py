"""What a hostile client, or a hostile chat endpoint, sends to ``/v1/realtime``: refused in a sentence, at once, and
nobody else notices."""

import asyncio
import gzip
import itertools
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.openai.realtime import chat as endpoint
from daemon.openai.realtime.chat import ChatError, Part, Reply
from daemon.openai.realtime.conversation import MOST_BYTES, MOST_ITEMS, Conversation
from daemon.openai.realtime.items import Content, Item
from daemon.serve import Background
from tests.daemon.chat_server import ChatServer, chunk
from tests.daemon.realtime import ASKED, Session, ask, session
from tests.daemon.support import HTTP, eventually

PROMPT_SECONDS = 5.0
"""Within this time an attack has its answer."""


def refused(live: Session, **response: Any) -> dict[str, Any]:
    """The error that a ``response.create`` is answered with."""
    live.tell("response.create", response={"output_modalities": ["text"], **response})
    event = live.until("error", "response.done", timeout=PROMPT_SECONDS)
    assert event["type"] == "error", event
    return event["error"]


@pytest.mark.parametrize("size", [10, 900_000])
def test_references_are_bounded_as_the_conversation_is(partner: Background, chat: ChatServer, size: int) -> None:
    """25,000 references to one item would be as many copies of it: they count like items, and so do their bytes."""
    text = [{"type": "input_text", "text": "x" * size}]
    with session(partner.url, options={"max_size": None}) as live:
        live.tell("conversation.item.create", item={**ASKED, "id": "a", "content": text})
        live.until("conversation.item.done")
        one = {"type": "item_reference", "id": "a"}
        error = refused(live, input=[one] * 25_000)
        assert error["param"] == "response.input" and str(MOST_ITEMS) in error["message"]
        if size > MOST_BYTES // 2:
            error = refused(live, input=[one, one])
            assert error["param"] == "response.input" and str(MOST_BYTES) in error["message"]
        assert not chat.seen.requests
        live.tell("response.create", response={"output_modalities": ["text"], "input": [one]})
        assert live.until("response.done")["response"]["status"] == "completed"
        assert [len(message["content"]) for message in chat.seen.requests[0]["messages"]] == [size]


@contextmanager
def answering(url: str) -> Generator[None]:
    """``/healthz`` answers all the while, and nothing holds up a daemon's event loop: no callback takes it long, by the
    time of its own thread, since a busy machine may stop it anywhere."""
    longest, over, run = 0.0, threading.Event(), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        began = time.thread_time()
        run(handle)
        if threading.current_thread().name == "hearsay-daemon":
            longest = max(longest, time.thread_time() - began)

    def look() -> None:
        while not over.wait(0.02):
            assert HTTP.get(f"{url}/healthz").status_code == 200

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(asyncio.Handle, "_run", timed)
        looking = pool.submit(look)
        try:
            yield
        finally:
            over.set()
        looking.result()
    assert 0 < longest < 0.5


def call(index: int, name: str = "tide", arguments: str = "") -> bytes:
    """An event that begins a function call, or goes on with one."""
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]})


BOMB = gzip.compress(b"\n" * (128 << 20), 6)


@pytest.mark.parametrize(
    ("raw", "coding", "code"),
    [
        pytest.param(BOMB, "gzip", "llm_garbled", id="a bomb"),
        pytest.param((BOMB[n : n + 500] for n in range(0, len(BOMB), 500)), "GZip", "llm_garbled", id="in pieces"),
        pytest.param(itertools.repeat(b"\n" * 5000), "", "llm_garbled", id="line ends"),
        pytest.param(itertools.repeat(b": comment\n\n" * 100), "", "llm_garbled", id="comments"),
        pytest.param(itertools.repeat(chunk({"content": ""}) * 9), "", "llm_garbled", id="empty deltas"),
        pytest.param(itertools.repeat(b'data: {"usage": {}}\n\n' * 9), "", "llm_garbled", id="counts of tokens"),
        pytest.param(itertools.repeat(call(0) * 9), "", "llm_garbled", id="one empty call"),
        pytest.param(itertools.repeat(b"x"), "", "llm_garbled", id="a line in pieces of a byte"),
        pytest.param(map(call, itertools.count()), "", "llm_endless", id="calls"),
        pytest.param((call(n, "x" * 3000) for n in itertools.count()), "", "llm_endless", id="names of calls"),
        pytest.param(itertools.repeat(chunk({"reasoning_content": "Hm. " * 99})), "", "llm_endless", id="thoughts"),
        pytest.param(itertools.repeat(chunk({"content": "Hm. " * 9})), "", "llm_endless", id="text"),
        pytest.param(b'data: {"error": ' + b"[" * 900 + b"]" * 900 + b"}\n", "", "llm_", id="a nested error"),
    ],
)
def test_what_an_endpoint_sends_without_end_ends(
    partner: Background, chat: ChatServer, raw: Any, coding: str, code: str
) -> None:
    """Within seconds, with a word that says why; meanwhile others are answered, and the session goes on."""
    chat.script.raw, chat.script.coding = raw, coding
    with session(partner.url, options={"max_size": None}) as live:
        live.update(output_modalities=["text"])
        with answering(partner.url):
            began = time.perf_counter()
            done = ask(live)
            assert time.perf_counter() - began < 4 * PROMPT_SECONDS
        assert done["status"] == "failed" and done["status_details"]["error"]["code"].startswith(code)
        assert len(done["output"]) <= endpoint.MOST_CALLS
        chat.forget()
        assert ask(live)["status"] == "completed"


@pytest.mark.parametrize(
    ("piece", "coding"), [(b": comment\n\n", ""), (chunk({"content": ""}), ""), (call(0), ""), (b"\x1f", "gzip")]
)
def test_who_brings_no_token_is_silent(
    partner: Background, chat: ChatServer, monkeypatch: pytest.MonkeyPatch, piece: bytes, coding: str
) -> None:
    """Whatever else it sends, and however slowly."""
    monkeypatch.setattr(endpoint, "_TOKEN_SECONDS", 1.0)
    chat.script.raw, chat.script.pause, chat.script.coding = itertools.repeat(piece), 0.1, coding
    with session(partner.url) as live:
        live.update(output_modalities=["text"])
        began = time.perf_counter()
        error = ask(live)["status_details"]["error"]
        assert time.perf_counter() - began < 1.0 + PROMPT_SECONDS
        assert error["code"] == ("llm_garbled" if coding else "llm_timeout"), error
        assert eventually(lambda: chat.seen.broken_off == 1)


def test_a_reply_that_is_whole_is_held_by_nothing(
    partner: Background, chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of its tokens is waited for, but not for long."""
    monkeypatch.setattr(endpoint, "_COUNT_SECONDS", 0.5)
    whole = chunk({"content": "Hm."}, "stop")
    chat.script.raw, chat.script.pause = itertools.chain((whole,), itertools.repeat(b": comment\n\n")), 0.1
    with session(partner.url) as live:
        live.update(output_modalities=["text"])
        began = time.perf_counter()
        done = ask(live)
        assert done["status"] == "completed" and done["output"][0]["content"][0]["text"] == "Hm."
        assert time.perf_counter() - began < PROMPT_SECONDS


REPLY = (
    chunk({"role": "assistant"})
    + b": alive\r\n\r\n"
    + chunk({"content": "Grüße, "})
    + chunk({"reasoning": "Hm."})
    + call(0)
    + call(0, "", '{"a": 1}')
    + chunk({"content": "Thea."}, "stop")
    + b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n\ndata: [DONE]\n\nrubbish'
)


@given(st.lists(st.integers(0, len(REPLY)), max_size=20).map(sorted))
def test_a_reply_is_the_same_however_its_bytes_are_cut(cuts: list[int]) -> None:
    """Lines and letters too."""

    def parts(*pieces: bytes) -> list[Part]:
        reply = Reply()
        found = [part for piece in pieces for part in reply.take(piece)]
        assert reply.finished and reply.done
        return found

    assert parts(*(REPLY[a:b] for a, b in itertools.pairwise((0, *cuts, len(REPLY))))) == parts(REPLY)


def test_a_long_line_costs_as_much_in_bytes_as_in_one_piece() -> None:
    """It is not copied for each of them."""

    def seconds(size: int) -> float:
        reply, piece = Reply(), bytes(1)
        began = time.thread_time()
        try:
            for _ in range(size):
                list(reply.take(piece))
        except ChatError:
            pass
        return time.thread_time() - began

    small, large = (min(seconds(size) for _ in range(3)) for size in (4_000, 16_000))
    assert large < 12 * small


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize(
    "pieces",
    [
        [chunk({"content": "\x01" * 65_000})],
        [chunk({"content": "\x01"})] * 3000,
        [call(n, arguments="\x01" * 1000) for n in range(64)],
    ],
    ids=["one delta", "many", "calls"],
)
def test_who_reads_is_told_everything_however_much_comes_at_once(
    partner: Background, chat: ChatServer, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], how: str
) -> None:
    """The end of a reply tells it five times, six bytes a character: more than may wait for one who does not read."""
    last = {"completed": chunk({}, "stop"), "failed": b"data: {nonsense\n\n", "cancelled": b""}[how]
    monkeypatch.setattr(endpoint, "_COUNT_SECONDS", 0.2)
    chat.script.pause = 0.05
    with session(partner.url, options={"max_size": None}) as live:
        live.update(output_modalities=["text"])
        for _ in range(2):
            chat.script.raw = itertools.chain((b"".join(pieces) + last,), itertools.repeat(b": alive\n\n"))
            live.events.clear()
            live.tell("response.create")
            if how == "cancelled":
                while sum(event["type"].endswith(".delta") for event in live.events) < len(pieces):
                    live.next()
                live.tell("response.cancel")
            assert live.until("response.done")["response"]["status"] == how


def test_what_is_wrong_is_told_in_a_sentence_however_long_it_is(partner: Background, chat: ChatServer) -> None:
    """An error repeats what was sent; a client that reads gets no megabyte of it, and no close."""
    long = "x" * 900_000
    with session(partner.url, options={"max_size": None}) as live:
        for _ in range(3):
            live.tell(long)
            live.tell("session.update", session={"type": long})
            live.tell("session.update", session={"audio": {"input": {"turn_detection": {"type": long}}}})
            live.tell("session.update", session={"audio": {"output": {"voice": long}}})
            live.tell("conversation.item.retrieve", item_id=long)
            live.tell("conversation.item.create", item={**ASKED, "type": long})
            live.tell("conversation.item.create", item=ASKED, previous_item_id=long)
            live.tell("response.create", response={"input": [{"type": "item_reference", "id": long}]})
            live.tell("response.create", response={"metadata": {"a": long}})
            live.tell("response.create", response={"metadata": {str(n): "a" for n in range(1000)}})
            live.tell("response.cancel", response_id=long)
            live.tell("conversation.item.truncate", item_id=long, content_index=0, audio_end_ms=0)
        live.tell("conversation.item.create", item={**ASKED, "id": "last"})
        live.until("conversation.item.done")
        errors = live.of("error")
        assert len(errors) == 36
        assert max(len(str(event)) for event in errors) < 3000
        assert ask(live, output_modalities=["text"])["status"] == "completed"


def test_small_items_cost_little_beside_large_ones() -> None:
    """What is there is not measured anew for each that joins."""

    def item(name: str, size: int) -> Item:
        return Item("message", name, role="user", content=[Content("input_text", text="x" * size)])

    def seconds(size: int) -> float:
        held = Conversation()
        held.add(item("large", size))
        began = time.thread_time()
        for n in range(400):
            held.add(item(str(n), 10))
        return time.thread_time() - began

    assert min(seconds(900_000) for _ in range(3)) < 5 * min(seconds(10) for _ in range(3))


def test_what_grows_in_a_conversation_counts_when_it_is_told() -> None:
    """A text that was heard, or a reply: the oldest leave as if it had come so large."""
    held = Conversation()
    for name in ("old", "heard"):
        held.add(Item("message", name, role="user", content=[Content("input_audio", transcript="x" * 500_000)]))
    found = held.find("heard")
    assert found.content
    found.content[0].transcript = "x" * 900_000
    held.changed(found)
    assert held.add(Item("message", "new", role="user", content=[])) == ["old"]
