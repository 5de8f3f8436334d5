"""The table of paths: what it says is what is served."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon.config import ConfigError, Settings
from daemon.deepgram import listen_query, recorded_query, turns_query
from daemon.paths import ENDPOINTS, LISTEN, SPEAK, TRANSCRIPTIONS, VOICES, Endpoint, Kind, endpoint
from daemon.serve import Background
from tests.daemon.support import HTTP
from tests.soak import odd

DOCS = Path(__file__).parents[2] / "docs"
PROTOCOL, DEEPGRAM = ((DOCS / name).read_text(encoding="utf-8") for name in ("protocol.md", "deepgram.md"))


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.path)
def test_every_path_is_served_and_documented(daemon: Background, one: Endpoint) -> None:
    answer = HTTP.get(daemon.url + one.path.replace("{id}", "x"))
    assert "no such path" not in answer.text
    assert re.search(rf"`[^`]*{re.escape(one.path.removesuffix('/{id}'))}\b", PROTOCOL), "docs/protocol.md"


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.path)
def test_the_fuzz_knocks_at_every_path(one: Endpoint) -> None:
    """A door that is new is tried with nonsense as well (``make soak``)."""
    path = re.compile(re.escape(one.path).replace(r"\{id\}", "[^/]+"))
    assert any(map(path.fullmatch, (*odd.SOCKETS, *odd.FORMS, *odd.BODIES, *odd.PAGES)))


@pytest.mark.parametrize("query", [listen_query, recorded_query, turns_query], ids=lambda query: query.__name__)
def test_every_parameter_of_deepgrams_is_documented(query: Any) -> None:
    for name in query.HONOURED:
        assert f"`{name}`" in DEEPGRAM or f"`{name}=" in DEEPGRAM, name


@pytest.mark.parametrize(("one", "key"), [(LISTEN, "err_code"), (SPEAK, "err_code"), (TRANSCRIPTIONS, "error")])
def test_errors_have_the_shape_of_the_protocol(daemon: Background, one: Endpoint, key: str) -> None:
    answer = HTTP.delete(daemon.url + one.path)
    assert answer.status_code >= 400
    assert (key in answer.json()) and (one.door == "deepgram") == (key == "err_code")


def test_a_slot_is_for_those_who_have_work_done() -> None:
    assert LISTEN.needs_slot({"type": "websocket"})
    assert TRANSCRIPTIONS.needs_slot({"type": "http", "method": "POST"})
    assert not VOICES.needs_slot({"type": "http", "method": "GET"})
    assert not endpoint("/v1/models").needs_slot({"type": "http", "method": "POST"})


def test_an_unknown_path_is_closed_and_counted_as_other() -> None:
    for path in ("/page", "/v1/listen/", "/v1/audio/voices/x/y", "/healthz/x"):
        found = endpoint(path)
        assert (found.path, found.kind, found.open) == ("other", Kind.NONE, False)


def test_a_door_that_is_shut_is_not_there(start: Callable[..., AbstractContextManager[Background]]) -> None:
    """For requests and WebSockets alike; how the daemon is, it tells all the same."""
    with start(doors=("openai",)) as background:
        for one in ENDPOINTS:
            answer = HTTP.get(background.url + one.path.replace("{id}", "x"))
            assert ("is shut here (doors)" in answer.text) == (one.door not in ("", "openai"))
        with pytest.raises(InvalidStatus) as error:
            connect(background.url.replace("http", "ws", 1) + LISTEN.path, proxy=None)
        assert error.value.response.status_code == 404


def test_a_door_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="doors: 'opened' is none of deepgram, openai"):
        Settings(doors=("openai", "opened"))
