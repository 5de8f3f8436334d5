"""What other servers' clients ask for: served with a warning, or refused where the daemon is strict."""

import http.client
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest

from daemon.serve import Background
from tests.daemon.support import HTTP, SHORT, Speech, Voice, same


@pytest.fixture(scope="module")
def strict(talk: Callable[..., AbstractContextManager[Background]]) -> Iterator[Background]:
    """A daemon that serves nothing but what was asked for."""
    with talk(strict=True) as background:
        yield background


def speak(background: Background, **body: Any) -> Any:
    """Ask for speech."""
    asked = {"input": SHORT, "response_format": "pcm", "seed": 1, **body}
    return HTTP.post(f"{background.url}/v1/audio/speech", json=asked)


def test_a_socket_is_told_in_its_metadata(voice: Voice, strict: Background) -> None:
    """/v1/speak: instructions and voices alike."""
    _, messages = voice.speak(SHORT, voice="af_heart", instructions="Whisper.")
    assert [warning.split(":")[0] for warning in messages[0]["warnings"]] == ["voice", "instructions"]
    answer = HTTP.get(f"{strict.url}/v1/speak?instructions=Whisper")
    assert answer.status_code == 426  # asked for over a socket it is 400, before the upgrade
    assert speak(strict, model="tts-1", voice="alloy").status_code == 200, "OpenAI's own names mean what is loaded"


def test_the_log_tells_each_thing_once(
    talk: Callable[..., AbstractContextManager[Background]], caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is asked for."""
    with talk() as background, caplog.at_level(logging.WARNING, "hearsay.hub"):
        for _ in range(3):
            speak(background, instructions="Whisper.")
    assert sum("does not follow instructions" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("model", ["Systran/faster-whisper-small", "distil-large-v3", "whisper-1"])
def test_a_file_is_heard_under_any_of_these_names(
    daemon: Background, strict: Background, speech: Speech, model: str
) -> None:
    """A header tells which model heard it; a strict daemon knows OpenAI's names only."""
    form: Any = {"data": {"model": model}, "files": {"file": ("speech.opus", speech.path.read_bytes())}}
    answer = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", **form)
    assert answer.json()["text"] and answer.headers["hearsay-warning"] == f"model: '{model}' is pocket-asr-en here"
    refused = HTTP.post(f"{strict.url}/v1/audio/transcriptions", **form)
    assert refused.status_code == (200 if model == "whisper-1" else 404)


@pytest.mark.parametrize(
    ("fields", "warns"),
    [
        ({"vad_filter": "1", "user": "me", "task": "transcribe", "temperature": ".2", "chunking_strategy": "auto"}, ""),
        ({"hotwords": "Oslo, Kyoto", "lang_code": "english", "file_size": "3"}, "file_size: not honoured"),
        ({"stream": "true", "response_format": "srt"}, "stream: srt is not streamed"),
        ({"timestamp_granularities": "word", "response_format": "text"}, "timestamp_granularities: text has no words"),
        ({"diarization": "true", "beam_size": "5", "tag": "false"}, "diarization: not honoured; beam_size: not"),
        ({"include[]": "logprobs"}, "include[]: not honoured"),
        ({"language": "en_US", "model": "large-v3"}, "model: 'large-v3' is pocket-asr-en here"),
    ],
)  # fmt: skip
def test_a_file_with_fields_of_other_servers_is_heard(
    daemon: Background, strict: Background, speech: Speech, fields: dict[str, str], warns: str
) -> None:
    """What was ignored is named in a header; a strict daemon refuses it by name."""
    form: Any = {"data": fields, "files": {"file": ("speech.opus", speech.path.read_bytes())}}
    answer = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", **form)
    assert answer.status_code == 200 and answer.content
    assert answer.headers.get("hearsay-warning", "") == warns or (warns and warns in answer.headers["hearsay-warning"])
    refused = HTTP.post(f"{strict.url}/v1/audio/transcriptions", **form)
    assert refused.status_code == (200 if not warns else 404 if warns.startswith("model") else 400)
    if warns:
        assert refused.json()["error"]["param"] == warns.partition(":")[0]


def test_words_are_told_in_json_to_who_asks_for_them_there(daemon: Background, speech: Speech) -> None:
    """As Vercel's SDK does of gpt-4o-transcribe."""
    form: Any = {
        "data": {"model": "gpt-4o-transcribe", "response_format": "json", "timestamp_granularities[]": "word"},
        "files": {"file[]": ("speech.opus", speech.path.read_bytes())},
    }
    body = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", **form).json()
    assert " ".join(word["word"] for word in body["words"]) == body["text"]
    assert body["words"][0]["end"] > body["words"][0]["start"] and body["duration"] >= body["words"][-1]["end"]


@pytest.mark.parametrize(
    "disposition",
    [
        b"form-data; name=\"file\"; filename*=UTF-8''na%C3%AFve.opus",
        b"form-data; name=\"file[]\"; filename*=utf-8''x.opus",
        b'form-data; name="file"',
        b'form-data; name="audio_file"; filename="x"',
    ],
)
def test_a_file_is_one_however_its_name_comes(daemon: Background, speech: Speech, disposition: bytes) -> None:
    """filename* alone (RFC 5987), or no name at all."""
    file = speech.path.read_bytes()
    form = b"--X\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + file + b"\r\n--X--\r\n"
    headers = {"content-type": "multipart/form-data; boundary=X"}
    answer = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", content=form, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"]


@pytest.mark.parametrize(
    ("body", "warns"),
    [
        ({"stream": True, "user": "me", "speed": "1.0", "lang_code": "a", "normalization_options": {}}, ""),
        ({"volume_multiplier": 2, "download_format": "mp3"}, "volume_multiplier: not honoured; download_format: not"),
        ({"model": "kokoro", "voice": "af_heart"}, "model: 'kokoro' is pocket-tts-en here; voice: 'af_heart' is"),
        ({"voice": "default"}, ""),
        ({"instructions": "Whisper."}, "instructions: pocket-tts-en does not follow instructions"),
        ({"voice": "Rachel"}, "voice: 'Rachel' is the first voice here"),
        ({"voice": "21m00Tcm4TlvDq8ikWAM"}, "voice: '21m00Tcm4TlvDq8ikWAM' is the first voice here"),
        ({"voice": "af_bella(2)+af_sky(1)"}, "is the first voice here"),
        ({"voice": "tara", "model": "orpheus"}, "model: 'orpheus' is pocket-tts-en here; voice: 'tara' is"),
        ({"model": "eleven_multilingual_v2", "language": "English"}, "model: 'eleven_multilingual_v2' is pocket"),
        ({"response_format": "PCM16", "seed": 1}, ""),
    ],
)  # fmt: skip
def test_a_text_with_fields_of_other_servers_is_spoken(
    talker: Background, strict: Background, body: dict[str, Any], warns: str
) -> None:
    """As Kokoro-FastAPI's, speaches', Orpheus' and ElevenLabs' clients send them; a strict daemon refuses by name."""
    answer = speak(talker, **body)
    assert answer.status_code == 200 and same(answer.content, speak(talker).content)
    assert warns in answer.headers.get("hearsay-warning", "") and bool(warns) == ("hearsay-warning" in answer.headers)
    refused = speak(strict, **body)
    assert refused.status_code == (200 if not warns else 404 if "model" in body else 400)
    if warns:
        assert refused.json()["error"]["param"] in warns


def test_digits_are_read_as_they_are_where_that_is_asked(talker: Background) -> None:
    """By any of the names that it has."""
    plain = speak(talker, input="Room 42.", normalise=False).content
    for body in ({"normalize": False}, {"normalization_options": {"normalize": False}},
                 {"apply_text_normalization": "off"}):  # fmt: skip
        assert same(speak(talker, input="Room 42.", **body).content, plain)
    assert not same(speak(talker, input="Room 42.").content, plain)


def test_a_sample_rate_is_kept_to(talker: Background) -> None:
    """A client that asked for one plays at it: half of it is half the samples."""
    whole = speak(talker).content
    assert abs(len(speak(talker, sample_rate="12000").content) * 2 - len(whole)) < 4_000


@pytest.mark.parametrize("model", ["small", "turbo", "base.en", "Systran/faster-whisper-small", "gpt-4o-transcribe"])
def test_every_door_of_hearing_knows_the_same_names(daemon: Background, strict: Background, model: str) -> None:
    """Cards of models, queries of Deepgram."""
    for background, status in ((daemon, 200), (strict, 200 if model.startswith("gpt") else 404)):
        card = HTTP.get(f"{background.url}/v1/models/{model}")
        assert card.status_code == status
        asked = HTTP.post(f"{background.url}/v1/listen", params={"model": model, "language": "english"}, content=b"")
        assert ("model" in asked.json()["err_msg"]) == (status == 404)


@pytest.mark.parametrize("path", ["//v1/models", "/v1//models", "/v1/models/", "///v1///models//"])
def test_a_slash_too_many_is_forgiven(daemon: Background, path: str) -> None:
    """A base URL that ends with a slash, and a path that begins with one."""
    host, port = daemon.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()


def test_what_is_not_done_here_says_what_is(daemon: Background, speech: Speech) -> None:
    """Unknown formats and translations."""
    file = ("speech.opus", speech.path.read_bytes())
    with openai.OpenAI(api_key="any", base_url=daemon.url + "/v1", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as wrong:
            client.audio.transcriptions.create(
                model="whisper-1",
                file=file,
                response_format="lyrics",
            )
        assert wrong.value.param == "response_format" and "verbose_json" in wrong.value.message
    absent = HTTP.post(f"{daemon.url}/v1/audio/translations", files={"file": file})
    assert absent.status_code == 501 and "/v1/audio/transcriptions" in absent.json()["error"]["message"]
