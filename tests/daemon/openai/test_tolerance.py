"""What other servers' clients ask for: served with a warning, or refused where the daemon is strict."""

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import av
import numpy as np
import openai
import pytest

from daemon.serve import Background
from tests.clips import RATE
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


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"model": "kokoro", "voice": "af_heart"}, "model: 'kokoro' is pocket-tts-en here; voice: 'af_heart' is"),
        ({"model": "hexgrad/Kokoro-82M"}, "model: 'hexgrad/Kokoro-82M' is pocket-tts-en here"),
        ({"voice": "en_US-lessac-medium"}, "voice: 'en_US-lessac-medium' is the first voice here"),
        ({"model": "tts-1", "voice": "alloy"}, "voice: 'alloy' is the first voice here"),
        ({"instructions": "Whisper."}, "pocket-tts-en does not follow instructions"),
    ],
)
def test_speech_asked_for_in_anothers_words_is_spoken(talker: Background, body: dict[str, Any], says: str) -> None:
    """The same sound as without them; a header says what is not as it was asked."""
    answer = speak(talker, **body)
    assert answer.status_code == 200 and says in answer.headers["hearsay-warning"]
    plain = speak(talker, model="default", voice="default")
    assert same(answer.content, plain.content) and "hearsay-warning" not in plain.headers


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "kokoro"}, 404, "model"),
        ({"voice": "af_heart"}, 400, "voice"),
        ({"instructions": "Whisper."}, 400, "instructions"),
    ],
)
def test_a_strict_daemon_refuses_them(strict: Background, body: dict[str, Any], status: int, param: str) -> None:
    """OpenAI's own names still mean what is loaded."""
    answer = speak(strict, **body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert speak(strict, model="tts-1", voice="alloy").status_code == 200


def test_a_socket_is_told_in_its_metadata(voice: Voice, strict: Background) -> None:
    """/v1/speak: instructions and voices alike."""
    _, messages = voice.speak(SHORT, voice="af_heart", instructions="Whisper.")
    assert [warning.split(":")[0] for warning in messages[0]["warnings"]] == ["voice", "instructions"]
    answer = HTTP.get(f"{strict.url}/v1/speak?instructions=Whisper")
    assert answer.status_code == 426  # asked for over a socket it is 400, before the upgrade


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


def test_what_is_not_done_here_says_what_is(daemon: Background, speech: Speech) -> None:
    """diarized_json and translations."""
    file = ("speech.opus", speech.path.read_bytes())
    with openai.OpenAI(api_key="any", base_url=daemon.url + "/v1", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as wrong:
            client.audio.transcriptions.create(
                model="gpt-4o-transcribe-diarize", file=file, response_format="diarized_json"
            )
        assert wrong.value.param == "response_format" and "verbose_json" in wrong.value.message
    absent = HTTP.post(f"{daemon.url}/v1/audio/translations", files={"file": file})
    assert absent.status_code == 501 and "/v1/audio/transcriptions" in absent.json()["error"]["message"]


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("mp4", "aac")])
def test_uploads_of_browsers_and_telephones_are_heard(
    daemon: Background, speech: Speech, container: str, codec: str
) -> None:
    """webm and m4a, as MediaRecorder and voice memos make them, without anything installed for it."""
    target = io.BytesIO()
    with av.open(target, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=48_000, layout="mono")
        resampler = av.AudioResampler("s16", "mono", 48_000)
        frame = av.AudioFrame.from_ndarray(np.frombuffer(speech.pcm, "<i2")[None], format="s16", layout="mono")
        frame.sample_rate = RATE
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    answer = HTTP.post(
        f"{daemon.url}/v1/audio/transcriptions",
        files={"file": (f"speech.{container}", target.getvalue())},
        data={"model": "whisper-1"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"]
