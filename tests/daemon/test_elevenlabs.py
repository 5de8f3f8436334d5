"""ElevenLabs' paths; ``tests/clients_outside`` runs its SDK."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from daemon.elevenlabs.formats import FORMATS
from daemon.serve import Background
from tests.daemon.support import LONG, SHORT, Speech, decoded, eventually, same

VOICE = "/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM"
"""ElevenLabs' own first voice."""


@pytest.fixture(scope="module")
def http(talker: Background) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=talker.url, timeout=60) as client:
        yield client


def ask(http: httpx.Client, path: str = VOICE, form: str = "pcm_24000", **fields: Any) -> httpx.Response:
    body = {"text": SHORT, "model_id": "eleven_multilingual_v2", "seed": 1, **fields}
    return http.post(path, params={"output_format": form}, json=body)


@pytest.mark.parametrize("form", ["mp3_44100_128", "opus_48000_64", "wav_16000", "pcm_44100", "ulaw_8000"])
def test_every_kind_of_format_lasts_as_long(http: httpx.Client, form: str) -> None:
    seconds = len(ask(http).content) / 48_000
    answer = ask(http, form=form)
    name, rate = form.split("_")[:2]
    assert answer.status_code == 200 and answer.headers["content-type"] == FORMATS[form].media_type
    match name:
        case "pcm":
            length = len(answer.content) / 2 / int(rate)
        case "ulaw":
            length = len(answer.content) / int(rate)
        case _:
            samples, heard_rate = decoded(answer.content, name)
            assert heard_rate == int(rate)
            length = len(samples) / heard_rate
    assert length == pytest.approx(seconds, abs=0.1)


def test_both_paths_say_the_same(http: httpx.Client) -> None:
    assert same(ask(http, VOICE + "/stream").content, ask(http).content)


def test_settings_that_mean_something_here_are_honoured(http: httpx.Client) -> None:
    slow = ask(http, voice_settings={"speed": 0.7, "stability": 0.5, "similarity_boost": 0.75})
    assert len(slow.content) > 1.3 * len(ask(http).content)
    answer = ask(http, pronunciation_dictionary_locators=[{"pronunciation_dictionary_id": "x"}], previous_text="So.")
    assert answer.headers["hearsay-warning"].count("not honoured") == 1


@pytest.mark.parametrize(
    ("fields", "form", "named"),
    [
        ({"text": " "}, "pcm_24000", "text"),
        ({"voice_settings": {"speed": 9}}, "pcm_24000", "speed"),
        ({"language_code": "xx"}, "pcm_24000", "language"),
        ({}, "mp3_1_1", "output_format"),
    ],
)
def test_what_is_wrong_is_named(http: httpx.Client, fields: dict[str, Any], form: str, named: str) -> None:
    answer = ask(http, form=form, **fields)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == named


def test_a_voice_that_nobody_has_is_refused(http: httpx.Client) -> None:
    answer = ask(http, "/v1/text-to-speech/nobody-has-this")
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "voice"


def test_a_recording_is_written_down(http: httpx.Client, speech: Speech) -> None:
    form = {"model_id": "scribe_v1", "tag_audio_events": "true", "timestamps_granularity": "word"}
    told = http.post("/v1/speech-to-text", data=form, files={"file": speech.path.read_bytes()}).json()
    assert told["language_code"] == "en" and told["text"]
    assert "".join(word["text"] for word in told["words"]) == told["text"]
    times = [time for word in told["words"] for time in (word["start"], word["end"])]
    assert times == sorted(times)


def test_what_clients_look_at_first(http: httpx.Client) -> None:
    names = [one["voice_id"] for one in http.get("/v1/voices").json()["voices"]]
    assert names and http.get("/v2/voices").json()["total_count"] == len(names)
    assert http.get(f"/v1/voices/{names[0]}").json()["voice_id"] == names[0]
    assert http.get("/v1/voices/nobody").status_code == 404
    models = http.get("/v1/models", headers={"xi-api-key": "any-key-at-all"}).json()
    assert [one["can_do_text_to_speech"] for one in models] == [True, False]
    assert http.get("/v1/models").json()["object"] == "list"
    assert http.get("/v1/user").json()["subscription"] == http.get("/v1/user/subscription").json()


@pytest.mark.parametrize("text", [SHORT, f"  {SHORT}  So did 5 km of it! "])
def test_each_character_has_its_time(http: httpx.Client, text: str) -> None:
    told = ask(http, VOICE + "/with-timestamps", text=text).json()
    sound = base64.b64decode(told["audio_base64"])
    assert same(sound, ask(http, text=text).content)
    timed = told["alignment"]
    assert "".join(timed["characters"]).strip() == text.strip() and told["normalized_alignment"] == timed
    starts, ends = timed["character_start_times_seconds"], timed["character_end_times_seconds"]
    assert starts == sorted(starts) and ends == sorted(ends) and all(map(lambda a, b: a <= b, starts, ends))
    assert starts[0] == 0 and ends[-1] == pytest.approx(len(sound) / 48_000, abs=0.1)


def test_timed_sound_comes_line_by_line(http: httpx.Client) -> None:
    whole = ask(http, VOICE + "/with-timestamps").json()
    lines = [json.loads(line) for line in ask(http, VOICE + "/stream/with-timestamps").text.splitlines()]
    sound = b"".join(base64.b64decode(one["audio_base64"]) for one in lines)
    assert same(sound, base64.b64decode(whole["audio_base64"]))
    (timed,) = [one["alignment"] for one in lines if one["alignment"]]
    assert timed.keys() == whole["alignment"].keys() and timed["characters"] == whole["alignment"]["characters"]
    assert len(lines) > 2


# ------------------------------------------------------------------------------------------------------------- streams


def opened(talker: Background, query: str = "output_format=pcm_24000", path: str = "stream-input") -> ClientConnection:
    url = talker.url.replace("http", "ws", 1)
    return connect(f"{url}{VOICE}/{path}?model_id=eleven_flash_v2_5&{query}", proxy=None)


def rest(socket: ClientConnection) -> tuple[bytes, list[dict[str, Any]]]:
    """All sound until the end, and the messages."""
    told: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosed):
        while True:
            told.append(json.loads(socket.recv(60)))
    return b"".join(base64.b64decode(one["audio"]) for one in told if one.get("audio")), told


def test_text_streams_in_and_sound_comes_back(talker: Background) -> None:
    with opened(talker) as socket:
        socket.send(json.dumps({"text": " ", "voice_settings": {"speed": 1.0}, "generation_config": {}}))
        for word in SHORT.split():
            socket.send(json.dumps({"text": word + " ", "try_trigger_generation": True}))
        socket.send(json.dumps({"text": ""}))
        sound, told = rest(socket)
    assert len(sound) > 4_800 and np.frombuffer(sound, "<i2").any()
    assert [one["isFinal"] for one in told] == [None] * (len(told) - 1) + [True]


def test_times_stream_with_the_sound(talker: Background) -> None:
    with opened(talker, "output_format=pcm_24000&sync_alignment=true") as socket:
        for text in (SHORT + " ", SHORT + " ", ""):
            socket.send(json.dumps({"text": text}))
        sound, told = rest(socket)
    timed = [one["alignment"] for one in told if one["alignment"]]
    assert "".join(character for one in timed for character in one["chars"]).split() == 2 * SHORT.split()
    assert all(one["charStartTimesMs"][0] == 0 for one in timed) and len(timed) == 2
    lasts = sum(one["charStartTimesMs"][-1] + one["charDurationsMs"][-1] for one in timed)
    assert lasts == pytest.approx(len(sound) / 48, abs=100)


def test_several_texts_are_spoken_at_a_time(talker: Background) -> None:
    with opened(talker, path="multi-stream-input") as socket:
        for name in ("one", "two"):
            socket.send(json.dumps({"text": " ", "context_id": name, "voice_settings": {"speed": 1.0}}))
        for name in ("one", "two"):
            socket.send(json.dumps({"text": SHORT + " ", "context_id": name, "flush": True}))
            socket.send(json.dumps({"context_id": name, "close_context": True}))
        told = [json.loads(socket.recv(60))]
        while sum(one["isFinal"] is True for one in told) < 2:
            told.append(json.loads(socket.recv(60)))
        socket.send(json.dumps({"text": SHORT + " ", "context_id": "one"}))  # a new one of that name
        told.append(json.loads(socket.recv(60)))
        socket.send(json.dumps({"close_socket": True}))
        told += rest(socket)[1]
    for name in ("one", "two"):
        mine = [one for one in told if one["contextId"] == name]
        ends = [place for place, one in enumerate(mine) if one["isFinal"]]
        assert ends == ([ends[0], len(mine) - 1] if name == "one" else [len(mine) - 1])
        sound = b"".join(base64.b64decode(one["audio"]) for one in mine[: ends[0]])
        assert len(sound) > 4_800 and np.frombuffer(sound, "<i2").any()


def test_a_context_that_is_closed_says_no_more_than_was_flushed(talker: Background) -> None:
    with opened(talker, path="multi-stream-input") as socket:
        socket.send(json.dumps({"text": LONG + " ", "context_id": "x"}))
        first = json.loads(socket.recv(60))
        socket.send(json.dumps({"context_id": "x", "close_context": True}))
        told = [first]
        while not told[-1]["isFinal"]:
            told.append(json.loads(socket.recv(60)))
        socket.send(json.dumps({"close_socket": True}))
        rest(socket)
    seconds = sum(len(base64.b64decode(one["audio"] or "")) for one in told) / 48_000
    assert first["audio"] and seconds < 20


def test_a_socket_has_so_many_contexts(talker: Background) -> None:
    with opened(talker, path="multi-stream-input") as socket:
        for number in range(6):
            socket.send(json.dumps({"text": " ", "context_id": str(number)}))
        _, told = rest(socket)
    assert told[-1]["error"] == "too_many_contexts"
    assert eventually(lambda: httpx.get(f"{talker.url}/readyz", trust_env=False).status_code == 200)
    with opened(talker) as socket:  # Their slots are free.
        socket.send(json.dumps({"text": SHORT}))
        socket.send(json.dumps({"text": ""}))
        assert rest(socket)[0]


def test_a_compressed_stream_is_whole(talker: Background) -> None:
    with opened(talker, "output_format=mp3_44100_128") as socket:
        socket.send(json.dumps({"text": SHORT + " ", "flush": True}))
        first = base64.b64decode(json.loads(socket.recv(60))["audio"])
        socket.send(json.dumps({"text": ""}))
        sound = first + rest(socket)[0]
    samples, rate = decoded(sound, "mp3")
    assert rate == 44_100 and len(samples) > 0.1 * rate


@pytest.mark.parametrize(
    ("first", "named"),
    [
        ({"text": " ", "voice_settings": {"speed": 9}}, "speed"),
        ({"text": 3}, "text"),
        ({"text": "a" * 300_000}, "text"),
    ],
)
def test_a_stream_that_cannot_be_spoken_says_why(talker: Background, first: dict[str, Any], named: str) -> None:
    with opened(talker) as socket:
        socket.send(json.dumps(first))
        _, told = rest(socket)
    assert named in told[-1]["message"] and told[-1]["code"] == 1008


def test_a_stream_of_no_such_format_is_refused(talker: Background) -> None:
    with pytest.raises(InvalidStatus) as error:
        opened(talker, "output_format=mp3_1_1")
    assert error.value.response.status_code == 400


def test_a_key_in_their_header_opens_the_door(talk: Any) -> None:
    with talk(api_key=("key-of-the-daemon",)) as background:
        for key, status in (("key-of-the-daemon", 200), ("another-key-of-it", 401)):
            answer = httpx.get(f"{background.url}/v1/voices", headers={"xi-api-key": key}, trust_env=False)
            assert answer.status_code == status
