"""``POST /v1/speak`` over real sockets: Deepgram's way to ask for a file."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.serve import Background
from tests.daemon.support import SHORT, Voice, decoded, same


@pytest.fixture(scope="module")
def http(talker: Background) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=talker.url, timeout=120) as client:
        yield client


def ask(http: httpx.Client, body: Any = None, **query: Any) -> httpx.Response:
    """POST a text with seed 1."""
    return http.post("/v1/speak", params={"seed": 1, **query}, json={"text": SHORT} if body is None else body)


@pytest.fixture(scope="module")
def pcm(http: httpx.Client) -> bytes:
    """The text as linear16 without a header."""
    return ask(http, encoding="linear16", container="none").content


def test_it_is_what_the_stream_says(talker: Background, pcm: bytes) -> None:
    assert same(Voice(talker.url).speak(SHORT)[0], pcm)


@pytest.mark.parametrize(
    ("query", "kind", "name"),
    [
        ({}, "audio/mpeg", "mp3"),
        ({"encoding": "linear16"}, "audio/wav", "wav"),
        ({"encoding": "linear16", "container": "none", "sample_rate": 24_000}, "audio/pcm;rate=24000", "pcm"),
        ({"encoding": "float32"}, "audio/wav", "wav"),
        ({"encoding": "mulaw"}, "audio/wav", "wav"),
        ({"encoding": "alaw", "sample_rate": 16_000}, "audio/wav", "wav"),
        ({"encoding": "opus", "container": "ogg"}, "audio/ogg; codecs=opus", "opus"),
        ({"encoding": "FLAC", "container": "none"}, "audio/flac", "flac"),
        ({"encoding": "aac"}, "audio/aac", "aac"),
    ],
)
def test_every_encoding_is_the_same_speech(
    http: httpx.Client, pcm: bytes, query: dict[str, Any], kind: str, name: str
) -> None:
    answer = ask(http, **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == kind
    samples, rate = decoded(answer.content, name)
    assert samples.size / rate == pytest.approx(len(pcm) / 48_000, abs=0.1)


@pytest.mark.parametrize(("encoding", "kind"), [("mulaw", "audio/PCMU"), ("alaw", "audio/PCMA")])
def test_without_a_container_there_is_no_header(http: httpx.Client, pcm: bytes, encoding: str, kind: str) -> None:
    answer = ask(http, encoding=encoding, container="none")
    assert answer.headers["content-type"] == f"{kind};rate=8000"
    assert len(answer.content) / 8_000 == pytest.approx(len(pcm) / 48_000, abs=0.01)


@pytest.mark.parametrize(
    ("encoding", "rate", "bit_rates"),
    [("mp3", 22_050, (32_000, 48_000, 128_000)), ("mp3", 48_000, (32_000, 64_000)), ("opus", 48_000, (24_000, 64_000))],
)
def test_the_bit_rate_is_the_one_asked_for(
    http: httpx.Client, encoding: str, rate: int, bit_rates: tuple[int, ...]
) -> None:
    for bit_rate in bit_rates:
        spoken = {
            "encoding": encoding,
            "sample_rate": rate,
            "bit_rate": bit_rate,
            "pauses": 0,
        }  # silence needs fewer bits
        answer = ask(http, {"text": SHORT * 4}, **spoken)
        samples, heard_rate = decoded(answer.content, encoding)
        assert heard_rate == rate
        assert 8 * len(answer.content) / (samples.size / rate) == pytest.approx(bit_rate, rel=0.25)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"encoding": "wma"}, "encoding: 'wma' is none of mp3, linear16, float32, mulaw, alaw, opus, flac, aac"),
        ({"container": "wav"}, "container: mp3 comes in none, not 'wav'"),
        ({"encoding": "linear16", "container": "ogg"}, "container: linear16 comes in wav or none, not 'ogg'"),
        ({"sample_rate": 8_000}, "sample_rate: mp3 has 16000, 22050, 24000, 32000, 44100, 48000 Hz, not 8000"),
        ({"encoding": "flac", "sample_rate": 4_000}, "sample_rate: 4000 Hz lies outside 8000…48000 Hz"),
        ({"bit_rate": 8_000}, "bit_rate: 8000 lies outside 32000…160000 of mp3"),
        ({"bit_rate": "much"}, "bit_rate: 'much' is not a whole number"),
        ({"encoding": "flac", "bit_rate": 64_000}, "bit_rate: flac has none"),
        ({"callback": "http://example.org"}, "callback: the audio comes in the answer and nowhere else"),
        ({"redact": "pci"}, "redact: nothing is redacted here"),
        ({"speed": 9}, "speed: 9 lies outside 0.25…4"),
        ({"voice": "nobody"}, "has no 'nobody'; voices: kathleen, slt"),
        ({"model": "nova-3"}, "'nova-3' is not loaded; 'pocket-tts-en' is"),
        ({"model": "aura-2-luna-es"}, "speaks en, not 'es'"),
    ],
)
def test_a_wrong_parameter_is_named(http: httpx.Client, query: dict[str, Any], says: str) -> None:
    answer = ask(http, **query)
    assert answer.status_code == 400
    assert answer.json()["err_code"] == "Bad Request"
    assert says in answer.json()["err_msg"]
    assert answer.json()["request_id"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"text": ""}, "text: empty"),
        ({"text": " \n"}, "text: empty"),
        ({"text": "!!!"}, "text: holds nothing that can be spoken"),
        ({"text": "x" * 5_000}, "text: 5000 characters, the limit is 4096 (max_text_characters)"),
        ({"text": 7}, "text: Expected `str`"),
        ({}, "text: Object missing required field `text`"),
        ({"url": "http://example.org"}, "missing required field `text`"),
        ([], "the body must be a JSON object: "),
    ],
)
def test_a_wrong_body_is_named(http: httpx.Client, body: Any, says: str) -> None:
    answer = ask(http, body)
    assert answer.status_code == 400, answer.text
    assert says in answer.json()["err_msg"]


@settings(max_examples=20)  # test_speech.py draws as many more
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: json.dumps({"text": text}).encode()))
def test_any_body_is_spoken_or_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v1/speak", content=body, params={"encoding": "mulaw"})
    assert answer.status_code in (200, 400)
