"""``POST /v1/listen``: a recording's answer in Deepgram's pre-recorded shape."""

import hashlib
import io
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from deepgram.types.list_models_v1response import ListModelsV1Response
from deepgram.types.listen_v1response import ListenV1Response
from hypothesis import given
from hypothesis import strategies as st

from daemon.deepgram.listen_messages import ListenWord
from daemon.deepgram.recorded_answer import results
from daemon.deepgram.recorded_query import parse
from daemon.refusal import Refused
from daemon.serve import Background
from streaming.events import Transcript
from streaming.events import Word as Spoken
from tests.daemon.support import HTTP, RATE, Client, Speech, finals


def post(daemon: Background, data: Any, query: str = "", **headers: str) -> httpx.Response:
    """The answer to a recording."""
    return HTTP.post(f"{daemon.url}/v1/listen?{query}", content=data, headers={"content-type": "audio/*", **headers})


def flac(*channels: bytes) -> bytes:
    """linear16 recordings side by side, as long as the longest."""
    most = max(map(len, channels))
    columns = [np.frombuffer(channel.ljust(most, b"\0"), "<i2") for channel in channels]
    file = io.BytesIO()
    soundfile.write(file, np.stack(columns, axis=1), RATE, format="FLAC")
    return file.getvalue()


def transcript(answer: httpx.Response, channel: int = 0) -> str:
    """What was heard in a channel."""
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]["channels"][channel]["alternatives"][0]["transcript"]


def test_a_recording_is_heard_as_a_stream_is(daemon: Background, client: Client, speech: Speech) -> None:
    """The same words, times and confidences; the SDK's own type takes the answer; metadata are true."""
    data = flac(speech.pcm)
    answer = post(daemon, data, "model=nova-3&smart_format=true&utterances=true&detect_language=true")
    body = answer.json()
    ListenV1Response.model_validate(body)
    streamed = client.transcribe(speech.pcm)
    assert transcript(answer) == finals(streamed) != ""
    alternative = body["results"]["channels"][0]["alternatives"][0]
    words = [word for m in streamed if m["type"] == "Results" for word in m["channel"]["alternatives"][0]["words"]]
    assert alternative["words"] == words
    assert body["results"]["channels"][0]["detected_language"] == "en"
    listed = post(daemon, data, "detect_language=en&detect_language=es").json()["results"]["channels"][0]
    assert (listed["detected_language"], listed["alternatives"][0]["words"]) == ("en", words)
    assert " ".join(one["transcript"] for one in body["results"]["utterances"]) == transcript(answer)
    paragraphs = alternative["paragraphs"]
    assert paragraphs["transcript"].split() == transcript(answer).split()
    assert sum(one["num_words"] for one in paragraphs["paragraphs"]) == len(words)
    metadata = body["metadata"]
    assert metadata["sha256"] == hashlib.sha256(data).hexdigest()
    assert metadata["duration"] == pytest.approx(speech.seconds, abs=1e-3)
    assert (metadata["channels"], metadata["request_id"]) == (1, answer.headers["dg-request-id"])
    assert "warnings" not in metadata


def test_raw_audio_needs_its_format(daemon: Background, speech: Speech) -> None:
    """With it the bytes alone; a container beside it tells its own, with a warning."""
    text = transcript(post(daemon, flac(speech.pcm)))
    raw = "encoding=linear16&sample_rate=16000"
    assert transcript(post(daemon, speech.pcm, raw)) == text
    assert transcript(post(daemon, speech.pcm + b"\0", raw)) == text
    told = post(daemon, flac(speech.pcm), raw)
    assert transcript(told) == text and "FLAC, which tells its own" in told.json()["metadata"]["warnings"][0]
    assert post(daemon, speech.pcm).status_code == 400


@pytest.mark.parametrize("raw", [False, True])
def test_every_channel_alone(daemon: Background, speech: Speech, raw: bool) -> None:
    """multichannel: each as if it were a recording of its own; without it they are mixed."""
    second = bytes(2 * RATE) + speech.pcm
    stereo = flac(speech.pcm, second)
    query = "multichannel=true&utterances=true"
    if raw:
        stereo = soundfile.read(io.BytesIO(stereo), dtype="int16")[0].tobytes()
        query += "&encoding=linear16&sample_rate=16000&channels=2"
    answer = post(daemon, stereo, query)
    body = answer.json()
    assert body["metadata"]["channels"] == 2 and len(body["results"]["channels"]) == 2
    assert transcript(answer, 0) == transcript(post(daemon, flac(speech.pcm)))
    assert transcript(answer, 1) == transcript(post(daemon, flac(second)))
    assert {one["channel"] for one in body["results"]["utterances"]} == {0, 1}


def test_without_punctuation_words_are_bare(daemon: Background, speech: Speech) -> None:
    answer = post(daemon, flac(speech.pcm), "punctuate=false")
    assert transcript(answer) == transcript(answer).lower()
    assert "punctuated_word" not in answer.json()["results"]["channels"][0]["alternatives"][0]["words"][0]


@pytest.mark.parametrize(
    ("data", "query", "says"),
    [
        (b"", "", "the body is empty"),
        (b"this is no audio" * 100, "", "corrupt or unsupported data"),
        (b"fLaC" + bytes(300), "", "corrupt or unsupported data"),
        (bytes(100), "multichannel=true", "corrupt or unsupported data"),
        (bytes(100), "encoding=linear16", "sample_rate: linear16 needs it"),
        (bytes(100), "utt_split=0", "utt_split: 0 s lies outside"),
        (bytes(100), "model=mine", "model: 'mine' is not loaded"),
        (bytes(100), "language=xx", "language: "),
    ],
)
def test_what_is_wrong_is_told_in_deepgrams_shape(daemon: Background, data: bytes, query: str, says: str) -> None:
    answer = post(daemon, data, query)
    assert answer.status_code == 400
    assert says in answer.json()["err_msg"] and answer.json()["err_code"] == "Bad Request"
    assert answer.json()["request_id"]


def test_a_recording_that_is_cut_off_or_followed_by_another_says_so(daemon: Background, speech: Speech) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(speech.pcm, "<i2"), RATE, format="WAV")
    whole = file.getvalue()
    told = [post(daemon, data).json()["metadata"].get("warnings") for data in (whole, whole[:-40_000], 2 * whole)]
    assert told[0] is None and told[1][0].startswith("its end is missing: it tells of 1.2 s more")
    assert told[2] == [f"the WAV header tells where its audio ends: {len(whole)} bytes after it not heard"]


def test_a_track_that_is_not_there_is_named(daemon: Background, speech: Speech) -> None:
    answer = post(daemon, flac(speech.pcm), "track=2")
    assert answer.status_code == 400
    assert answer.json()["err_msg"] == "track: it has 1 tracks of sound, no number 2 (track)"


def test_a_get_is_told_what_to_do(daemon: Background) -> None:
    answer = HTTP.get(f"{daemon.url}/v1/listen")
    assert answer.status_code == 426 and "POST a recording" in answer.json()["err_msg"]


def test_models_are_listed_as_deepgrams_sdk_reads_them(talker: Background) -> None:
    answer = ListModelsV1Response.model_validate(HTTP.get(f"{talker.url}/v1/models").json())
    assert answer.stt is not None and answer.tts is not None
    assert [(one.name, one.languages, one.streaming) for one in answer.stt] == [("pocket-asr-en", ["en"], True)]
    assert answer.stt[0].uuid_ and answer.tts[0].canonical_name


def test_urls_are_refused_unless_allowed(daemon: Background) -> None:
    answer = HTTP.post(f"{daemon.url}/v1/listen", json={"url": "https://example.org/a.wav"})
    assert answer.status_code == 400 and "fetch_urls" in answer.json()["err_msg"]
    assert HTTP.post(f"{daemon.url}/v1/listen", json={"link": 1}).status_code == 400


WORDS = st.builds(
    Spoken,
    st.sampled_from(["yes.", "no", "well?", "Oslo,", "…"]),
    st.floats(0, 9).map(lambda x: round(x, 2)),
    st.floats(0, 9).map(lambda x: round(x, 2)),
    st.floats(0, 1),
)


@given(st.lists(st.lists(WORDS, max_size=30), min_size=1, max_size=3), st.floats(0.1, 5))
def test_every_word_stands_in_one_paragraph_and_one_utterance(channels: list[list[Spoken]], split: float) -> None:
    """Whatever their times: none is lost, none is there twice."""
    heard = [
        [Transcript(0, 1, " ".join(w.text for w in words), tuple(words), 0, "en", is_final=True)] for words in channels
    ]
    found = results(heard, parse(f"paragraphs=true&utterances=true&utt_split={split}".encode(), "pocket"))
    assert found.utterances is not None
    for number, words in enumerate(channels):
        [alternative] = found.channels[number].alternatives
        assert alternative.paragraphs is not None
        texts = [word.text for word in words]
        assert alternative.paragraphs.transcript.split() == texts
        said: list[ListenWord] = [word for one in found.utterances if one.channel == number for word in one.words]
        assert sorted(word.punctuated_word or "" for word in said) == sorted(texts)


@given(st.binary(max_size=200))
def test_any_query_is_read_or_refused(query: bytes) -> None:
    try:
        parse(query, "pocket")
    except Refused as refused:
        assert refused.status == 400
