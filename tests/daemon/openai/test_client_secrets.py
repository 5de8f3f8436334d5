"""Client secrets: what they open, what they do not, and until when."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon.client_secrets import MOST, ClientSecrets
from daemon.refusal import Refused
from daemon.serve import Background
from tests.daemon.support import HTTP, PATIENT

KEY = {"authorization": "Bearer correct-horse"}
TRANSCRIPTION = {"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}


def issue(background: Background, **body: Any) -> dict[str, Any]:
    """Ask for a secret with the daemon's own key."""
    answer = HTTP.post(f"{background.url}/v1/realtime/client_secrets", json=body, headers=KEY)
    assert answer.status_code == 200, answer.text
    return answer.json()


def created(background: Background, secret: str, path: str = "/v1/realtime") -> dict[str, Any]:
    """The session that a secret opens."""
    address = background.url.replace("http", "ws", 1) + path
    with connect(address, proxy=None, additional_headers={"authorization": f"Bearer {secret}"}, **PATIENT) as socket:
        return json.loads(socket.recv())["session"]


def test_a_secret_opens_realtime_and_nothing_else(start: Callable[..., AbstractContextManager[Background]]) -> None:
    """With the session it was issued for, in header and subprotocol; every other path still asks for a key."""
    with start(api_key=("correct-horse",)) as locked:
        assert HTTP.post(f"{locked.url}/v1/realtime/client_secrets", json={}).status_code == 401
        issued = issue(locked, session=TRANSCRIPTION, expires_after={"anchor": "created_at", "seconds": 60})
        secret = issued["value"]
        assert secret.startswith("ek_") and issued["session"]["type"] == "transcription"
        opened, again = created(locked, secret), created(locked, secret)
        assert opened["audio"] == issued["session"]["audio"] and opened["type"] == "transcription"
        assert len({opened["id"], again["id"], issued["session"]["id"]}) == 3
        offered: Any = ["realtime", f"openai-insecure-api-key.{secret}"]
        with connect(
            locked.url.replace("http", "ws", 1) + "/v1/realtime", proxy=None, subprotocols=offered, **PATIENT
        ) as socket:
            assert json.loads(socket.recv())["session"]["type"] == "transcription"
        ours = {"authorization": f"Bearer {secret}"}
        for path in ("/v1/models", "/metrics", "/v1/realtime", "/v1/audio/voices", "/nothing"):
            assert HTTP.get(locked.url + path, headers=ours).status_code == 401
        assert HTTP.post(f"{locked.url}/v1/realtime/client_secrets", json={}, headers=ours).status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            created(locked, secret, "/v1/listen?encoding=linear16&sample_rate=16000")
        assert refused.value.response.status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            created(locked, secret[:-1] + ("a" if secret[-1] != "a" else "b"))
        assert refused.value.response.status_code == 401


def test_secrets_expire_and_are_bounded() -> None:
    """One more than MOST is refused until one has expired."""
    wall, now = [1000.0], [100.0]
    secrets = ClientSecrets(lambda: wall[0], lambda: now[0])
    first, grant = secrets.issue("mine", 10)
    assert grant.expires_at == 1010 and secrets.find(["nothing", first]) == grant
    for _ in range(MOST - 1):
        secrets.issue("other", 1000)
    with pytest.raises(Refused) as refused:
        secrets.issue("one more", 10)
    assert (refused.value.status, refused.value.retry_after) == (429, 10)
    wall[0], now[0] = 1010, 110
    assert secrets.find([first]) is None
    assert secrets.issue("one more", 10)[1].session == "one more"


@pytest.mark.parametrize(("wall", "now"), [(-3600, 10), (10, 0)], ids=["the clock is set back", "the machine slept"])
def test_a_secret_expires_by_either_clock(wall: float, now: float) -> None:
    """And does not come back."""
    clocks = [5000.0, 100.0]
    secrets = ClientSecrets(lambda: clocks[0], lambda: clocks[1])
    value, _ = secrets.issue("mine", 10)
    clocks[0] += wall
    assert (secrets.find([value]) is None) == (wall > 0)
    clocks[1] += now
    assert secrets.find([value]) is None
    clocks[:] = 5000.0, 100.0
    assert secrets.find([value]) is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"expires_after": {"anchor": "created_at", "seconds": 5}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "later", "seconds": 50}}, "expires_after.anchor"),
        ({"session": {"type": "video"}}, "session.type"),
        ({"session": {"type": "realtime", "audio": {"output": {"speed": 99}}}}, "session.audio.output.speed"),
        ({"session": 7}, "session"),
        (
            {"session": {"type": "transcription", "audio": {"input": {"transcription": {"language": "xx"}}}}},
            "session.audio.input.transcription.language",
        ),
    ],
)
def test_a_wrong_request_names_its_field(daemon: Background, body: dict[str, Any], param: str) -> None:
    """400 in OpenAI's shape."""
    answer = HTTP.post(f"{daemon.url}/v1/realtime/client_secrets", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param


def test_a_secret_works_where_no_key_is_set(daemon: Background) -> None:
    """Its session is the one it was issued for."""
    answer = HTTP.post(f"{daemon.url}/v1/realtime/client_secrets", json={"session": TRANSCRIPTION})
    assert created(daemon, answer.json()["value"])["audio"]["input"]["transcription"]["language"] == "en"


def test_a_secret_is_of_a_voice_that_is_there(talker: Background) -> None:
    """400 names the field; names of OpenAI's mean the first voice."""
    address = f"{talker.url}/v1/realtime/client_secrets"

    def asked(voice: Any) -> Any:
        return HTTP.post(address, json={"session": {"type": "realtime", "audio": {"output": {"voice": voice}}}})

    for voice in ("nobody", {"id": "nobody"}):
        answer = asked(voice)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "session.audio.output.voice"
    for voice in ("marin", "NOVA", "slt", "af_heart"):
        assert asked(voice).status_code == 200
