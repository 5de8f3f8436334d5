"""Files of hours as jobs: taken at once, heard meanwhile, kept for a while."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from daemon import jobs
from daemon.serve import Background
from tests.daemon.support import HTTP, Speech, damaged, eventually

Start = Callable[..., AbstractContextManager[Background]]
Calls = list[dict[str, Any]]


def asked(background: Background, speech: Speech | bytes, **fields: str) -> httpx.Response:
    files = {"file": ("speech", speech if isinstance(speech, bytes) else speech.path.read_bytes())}
    return HTTP.post(f"{background.url}/v1/jobs", data=fields, files=files)


def job(background: Background, identifier: str) -> dict[str, Any]:
    return HTTP.get(f"{background.url}/v1/jobs/{identifier}").json()


def over(background: Background, identifier: str) -> dict[str, Any]:
    """A job once it is over."""
    assert eventually(lambda: job(background, identifier)["status"] in ("done", "failed"), 120)
    return job(background, identifier)


@pytest.fixture
def caller() -> Iterator[tuple[str, Calls]]:
    """A server that is called back: its address, and what it was told."""
    told: Calls = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(503 if len(told) == 1 else 204)  # It is called again.
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/done", told
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("format", ["verbose_json", "srt"])
def test_a_job_hears_what_a_request_hears(daemon: Background, speech: Speech, format: str) -> None:
    answer = asked(daemon, speech, response_format=format)
    assert answer.status_code == 202 and answer.json()["status"] in ("queued", "running")
    done = over(daemon, answer.json()["id"])
    files = {"file": ("speech.opus", speech.path.read_bytes())}
    whole = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", data={"response_format": format}, files=files)
    expected = whole.json() if format == "verbose_json" else whole.text
    assert done["result"] == expected and done["progress"] == 1.0
    assert done["seconds"] == pytest.approx(done["duration"], abs=0.2)
    assert HTTP.delete(f"{daemon.url}/v1/jobs/{done['id']}").json()["deleted"]
    assert HTTP.get(f"{daemon.url}/v1/jobs/{done['id']}").status_code == 404


def test_what_is_no_recording_is_refused_at_once(daemon: Background) -> None:
    answer = HTTP.post(f"{daemon.url}/v1/jobs", files={"file": ("x.wav", b"no sound at all" * 99)})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "file"
    assert HTTP.put(f"{daemon.url}/v1/jobs").status_code == 405


def test_who_is_to_be_called_back_is(start: Start, speech: Speech, caller: tuple[str, Calls]) -> None:
    url, told = caller
    with start(callbacks="any") as background:
        done = over(background, asked(background, speech, callback=url).json()["id"])
        assert told == [done, done] and done["result"]["text"]
        assert "warnings" not in done
        assert asked(background, speech, callback="file:///etc/passwd").status_code == 400


@pytest.mark.parametrize("format", ["json", "srt"])
def test_a_job_tells_what_it_ignored_and_what_is_damaged(
    start: Start, speech: Speech, caller: tuple[str, Calls], format: str
) -> None:
    """Whoever asks for the result, and whoever is called back; a result may be text, so they lie beside it."""
    url, told = caller
    with start(callbacks="any") as background:
        fields = {"model": "whisper-1", "beam_size": "5", "response_format": format, "callback": url}
        taken = asked(background, damaged(speech), **fields).json()
        done = over(background, taken["id"])
    assert (
        done["warnings"][:2]
        == taken["warnings"]
        == ["beam_size: not honoured", "model: 'whisper-1' is pocket-asr-en here"]
    )
    assert "damaged packets" in done["warnings"][2] and told[-1] == done


def test_nobody_is_called_back_where_that_is_not_allowed(start: Start, daemon: Background, speech: Speech) -> None:
    answer = asked(daemon, speech, callback="http://127.0.0.1:9/")
    assert answer.status_code == 400 and "callbacks" in answer.json()["error"]["message"]
    with start(callbacks="public") as background:
        identifier = asked(background, speech, callback="http://127.0.0.1:9/").json()["id"]
        assert over(background, identifier)["status"] == "done"  # An address that is not public is told nothing.


def test_jobs_are_bounded(start: Start, speech: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_JOBS", 2)
    with start() as background:
        first = over(background, asked(background, speech).json()["id"])
        for _ in range(2):  # The oldest result gives way.
            assert asked(background, speech).status_code == 202
        assert HTTP.get(f"{background.url}/v1/jobs/{first['id']}").status_code == 404
        monkeypatch.setattr(jobs, "MOST_JOBS", 0)
        assert asked(background, speech).status_code == 429


def test_a_job_that_is_forgotten_ends(start: Start, speech: Speech) -> None:
    with start() as background:
        first, second = (asked(background, speech).json()["id"] for _ in range(2))
        for identifier in (second, first):  # one waits, the other runs
            assert HTTP.delete(f"{background.url}/v1/jobs/{identifier}").json()["deleted"]
        assert eventually(lambda: background.hub.listeners.taken == 0)
        background.hub.jobs.taken_here = False
        assert asked(background, speech).status_code == 501


def test_results_are_kept_for_a_while(start: Start, speech: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    with start() as background:
        done = over(background, asked(background, speech).json()["id"])
        monkeypatch.setattr(jobs, "KEPT_SECONDS", 0.1)
        time.sleep(0.2)
        assert HTTP.get(f"{background.url}/v1/jobs/{done['id']}").status_code == 404


def test_a_daemon_that_goes_ends_its_jobs(start: Start, speech: Speech) -> None:
    began = time.monotonic()
    with start(drain_seconds=0) as background:
        for _ in range(8):
            assert asked(background, speech).status_code == 202
    assert time.monotonic() - began < 60
