"""Who comes in, over real sockets, http and websocket alike."""

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from daemon.config import Settings
from daemon.loading import Models
from daemon.serve import Background
from tests.daemon.support import HTTP, PATIENT, RATE, Client, eventually

Start = Callable[..., AbstractContextManager[Background]]

KEY = "a-good-key.of_ours~"
RAW = f"encoding=linear16&sample_rate={RATE}"


def refusal(url: str, **options: Any) -> tuple[int, dict[str, Any], Any]:
    """Status, body and headers of a WebSocket handshake that must fail."""
    with pytest.raises(InvalidStatus) as error, connect(url, proxy=None, **PATIENT, **options):
        pass
    response = error.value.response
    return response.status_code, json.loads(response.body or b"null"), response.headers


@pytest.fixture(scope="module")
def guarded(start: Start) -> Any:
    with start(api_key=(KEY, "another-key"), allowed_origins=("https://example.org",)) as background:
        yield background


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/audio/transcriptions", "/page", "/nothing", "/docs"])
def test_without_a_key_every_path_but_health_is_closed(guarded: Background, path: str) -> None:
    answer = HTTP.get(guarded.url + path)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_health_is_open_even_to_foreign_hosts(guarded: Background) -> None:
    for path in ("/healthz", "/readyz"):
        assert HTTP.get(guarded.url + path, headers={"Host": "probe.example"}).status_code == 200


def test_a_websocket_without_a_key_is_refused_before_the_upgrade(guarded: Background) -> None:
    url = Client(guarded.url).socket_url
    for path in (f"/v1/listen?{RAW}", "/v1/realtime", "/nothing"):
        status, body, _ = refusal(url + path)
        assert status == 401
        assert "key is needed" in json.dumps(body)


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"Token {KEY}", f"bearer {KEY}", "Token another-key"])
def test_the_key_in_the_header(guarded: Background, header: str) -> None:
    assert HTTP.get(guarded.url + "/v1/models", headers={"Authorization": header}).status_code == 200
    with connect(
        f"{Client(guarded.url).socket_url}/v1/listen?{RAW}",
        proxy=None,
        additional_headers={"Authorization": header},
        **PATIENT,
    ):
        pass


@pytest.mark.parametrize("header", ["", "Bearer", f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", "Bearer ü"])
def test_a_wrong_key_in_the_header(guarded: Background, header: str) -> None:
    answer = HTTP.get(guarded.url + "/v1/models", headers=[(b"Authorization", header.encode("latin-1"))])
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("offered", "echoed"),
    [
        (["token", KEY], "token"),
        (["Token", KEY], "Token"),
        (["realtime", f"openai-insecure-api-key.{KEY}"], "realtime"),
    ],
)
def test_the_key_in_the_subprotocol_is_never_echoed(guarded: Background, offered: list[str], echoed: str) -> None:
    url = f"{Client(guarded.url).socket_url}/v1/listen?{RAW}"
    with connect(url, proxy=None, subprotocols=[Subprotocol(name) for name in offered], **PATIENT) as socket:
        assert socket.subprotocol == echoed
        assert KEY not in str(socket.response.headers if socket.response else "")


def test_a_wrong_key_in_the_subprotocol(guarded: Background) -> None:
    url = f"{Client(guarded.url).socket_url}/v1/listen?{RAW}"
    assert refusal(url, subprotocols=["token", "wrong"])[0] == 401


@pytest.mark.parametrize("name", ["api_key", "token"])
def test_the_key_in_the_query_goes_no_further(guarded: Background, name: str) -> None:
    assert HTTP.get(f"{guarded.url}/v1/models?{name}={KEY}").status_code == 200
    assert HTTP.get(f"{guarded.url}/v1/models?{name}=wrong").status_code == 401
    with connect(f"{Client(guarded.url).socket_url}/v1/listen?{RAW}&{name}={KEY}", proxy=None, **PATIENT):
        pass  # /v1/listen would refuse it as an unknown parameter


def test_the_key_in_the_query_can_be_switched_off(start: Start) -> None:
    with start(api_key=(KEY,), key_in_query=False) as background:
        assert HTTP.get(f"{background.url}/v1/models?api_key={KEY}").status_code == 401


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://example.org.evil", "http://example.org"])
def test_a_foreign_origin_is_refused_even_with_the_key(guarded: Background, origin: str) -> None:
    headers = {"Origin": origin, "Authorization": f"Bearer {KEY}"}
    answer = HTTP.get(guarded.url + "/v1/models", headers=headers)
    assert answer.status_code == 403
    assert "allowed_origins" in answer.json()["error"]["message"]
    url = f"{Client(guarded.url).socket_url}/v1/listen?{RAW}"
    status, body, _ = refusal(url, origin=origin, additional_headers={"Authorization": f"Bearer {KEY}"})
    assert status == 403
    assert "allowed_origins" in body["err_msg"]


def test_an_origin_of_an_allowed_scheme_passes(start: Start) -> None:
    """Firefox gives an extension another origin on every machine."""
    with start(allowed_origins=("moz-extension://*", "https://[::1]:8443")) as background:
        asked = ["moz-extension://9b1f", "https://[::1]:8443", "chrome-extension://abc", "https://evil.example"]
        answers = [HTTP.get(background.url + "/v1/models", headers={"Origin": origin}) for origin in asked]
    assert [answer.status_code for answer in answers] == [200, 200, 403, 403]


def test_an_allowed_origin_may_call_across(guarded: Background) -> None:
    origin = "https://example.org"
    sent = "authorization, content-type, x-stainless-lang"  # the last is openai-js's
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": sent}
    preflight = HTTP.options(guarded.url + "/v1/audio/transcriptions", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert preflight.headers["access-control-allow-headers"] == sent
    answer = HTTP.get(guarded.url + "/v1/models", headers={"Origin": origin, "Authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.headers["access-control-expose-headers"] == "*"  # Retry-After, hearsay-warning …
    assert answer.headers["vary"] == "Origin"
    with connect(
        f"{Client(guarded.url).socket_url}/v1/listen?{RAW}",
        proxy=None,
        origin=Origin(origin),
        additional_headers={"Authorization": f"Bearer {KEY}"},
        **PATIENT,
    ):
        pass


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.evil"])
def test_a_foreign_host_is_refused(daemon: Background, host: str) -> None:
    """DNS rebinding: a page's own name that resolves to this machine."""
    answer = HTTP.get(daemon.url + "/v1/models", headers={"Host": host})
    assert answer.status_code == 403
    assert "allowed_hosts" in answer.json()["error"]["message"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "192.168.1.7:8750"])
def test_our_own_host_passes(daemon: Background, host: str) -> None:
    assert HTTP.get(daemon.url + "/v1/models", headers={"Host": host}).status_code == 200


def test_hosts_can_be_added(start: Start) -> None:
    with start(allowed_hosts=("hear.example",)) as background:
        assert HTTP.get(background.url + "/v1/models", headers={"Host": "hear.example:443"}).status_code == 200
        assert HTTP.get(background.url + "/v1/models", headers={"Host": "say.example"}).status_code == 403
    with start(allowed_hosts=("*",)) as background:
        assert HTTP.get(background.url + "/v1/models", headers={"Host": "any.example"}).status_code == 200


def test_one_session_too_many_is_told_when_to_come_back(
    start: Start, silence: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(sessions=2) as background:
        client = Client(background.url)
        with client.open(), client.open():
            status, body, headers = refusal(f"{client.socket_url}/v1/listen?{RAW}")
            assert (status, headers["retry-after"]) == (429, "5")
            assert body["err_msg"] == "all 2 sessions are taken (the daemon's setting sessions)"
            answer = HTTP.post(background.url + "/v1/audio/transcriptions", files={"file": silence})
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
            assert HTTP.get(background.url + "/v1/models").status_code == 200
        assert eventually(lambda: background.hub.taken == 0)
        monkeypatch.setattr("daemon.slots.PATIENCE_SECONDS", 60)  # how long clearing up takes is the machine's affair
        for _ in range(20):  # at once after the close, before everything is cleared up
            with client.open(), client.open():
                pass


def test_health_answers_while_the_model_is_loaded(models: Models) -> None:
    """The model comes in a thread: alive at once, ready when it is there."""
    go_on = threading.Event()

    def slowly(_: Settings) -> Models:
        go_on.wait(120)
        return models

    background = Background(Settings(port=0), slowly, owns_models=False)
    entering = threading.Thread(target=background.__enter__)
    entering.start()
    try:
        assert eventually(lambda: bool(background.url))
        assert HTTP.get(background.url + "/healthz").status_code == 200
        ready = HTTP.get(background.url + "/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "loading"})
        answer = HTTP.get(background.url + "/v1/models")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        status, body, _ = refusal(f"{Client(background.url).socket_url}/v1/listen?{RAW}")
        assert (status, body["err_msg"]) == (503, "the model is being loaded")
        go_on.set()
        assert eventually(lambda: HTTP.get(background.url + "/readyz").status_code == 200)
    finally:
        go_on.set()
        entering.join()
        background.__exit__(None, None, None)


@pytest.mark.parametrize("name", ["API_KEY", "Token"])
def test_the_key_in_the_query_goes_no_further_in_capitals(
    guarded: Background, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Nor does a word that somebody expects to hear: the log says what was given, and no value of it."""
    with caplog.at_level("INFO"):
        assert HTTP.get(f"{guarded.url}/v1/models?{name}={KEY}&keyterm=secret").status_code == 200
        assert HTTP.get(f"{guarded.url}/v1/models?{name}=wrong-{KEY}&keyterm=secret").status_code == 401
        query = f"{RAW}&keyterm=secret&{name}={KEY}"
        with connect(f"{Client(guarded.url).socket_url}/v1/listen?{query}", proxy=None, **PATIENT):
            pass
        assert HTTP.post(f"{guarded.url}/v1/listen?keyterm=secret&{name}={KEY}&nonsense=secret").status_code == 400
    said = [record.getMessage() for record in caplog.records if record.name.startswith("hearsay")]
    assert any("/v1/models?keyterm" in line for line in said)
    assert any("/v1/listen?encoding&sample_rate&keyterm" in line for line in said)
    assert not [line for line in said if KEY in line or "secret" in line]


def test_a_path_writes_no_line_of_its_own(guarded: Background, caplog: pytest.LogCaptureFixture) -> None:
    """Line ends and escapes of a path reach the log as they were spelled."""
    with caplog.at_level("INFO"):
        assert HTTP.get(f"{guarded.url}/v1/x%0aWARNING%20all%20is%20lost%1b%5b31m").status_code == 401
    said = [record.getMessage() for record in caplog.records if "all" in record.getMessage()]
    assert any(line.startswith("refused ") for line in said)
    assert not [line for line in said if "\n" in line or "\x1b" in line]
