"""The table of paths: what it says is what is served."""

import re
from pathlib import Path

import pytest

from daemon.paths import ENDPOINTS, LISTEN, SPEAK, TRANSCRIPTIONS, VOICES, Endpoint, Kind, endpoint
from daemon.serve import Background
from tests.daemon.support import HTTP

PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.path)
def test_every_path_is_served_and_documented(daemon: Background, one: Endpoint) -> None:
    answer = HTTP.get(daemon.url + one.path.replace("{id}", "x"))
    assert "no such path" not in answer.text
    assert re.search(rf"`[^`]*{re.escape(one.path.removesuffix('/{id}'))}\b", PROTOCOL), "docs/protocol.md"


@pytest.mark.parametrize(("one", "key"), [(LISTEN, "err_code"), (SPEAK, "err_code"), (TRANSCRIPTIONS, "error")])
def test_errors_have_the_shape_of_the_protocol(daemon: Background, one: Endpoint, key: str) -> None:
    answer = HTTP.delete(daemon.url + one.path)
    assert answer.status_code >= 400
    assert (key in answer.json()) and one.deepgram == (key == "err_code")


def test_a_slot_is_for_those_who_have_work_done() -> None:
    assert LISTEN.needs_slot({"type": "websocket"})
    assert TRANSCRIPTIONS.needs_slot({"type": "http", "method": "POST"})
    assert not VOICES.needs_slot({"type": "http", "method": "GET"})
    assert not endpoint("/v1/models").needs_slot({"type": "http", "method": "POST"})


def test_an_unknown_path_is_closed_and_counted_as_other() -> None:
    for path in ("/page", "/v1/listen/", "/v1/audio/voices/x", "/healthz/x"):
        found = endpoint(path)
        assert (found.path, found.kind, found.open) == ("other", Kind.NONE, False)
