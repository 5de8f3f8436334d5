"""``/v1/listen`` in good order: what is said, in which order, in which shape."""

import hashlib
import io
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from deepgram.listen.v1 import types as sdk

from daemon.serve import Background
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.daemon.support import HTTP, RATE, Client, Speech, eventually, finals, send
from tests.streaming.listening import finish, hear

Start = Callable[..., AbstractContextManager[Background]]

DOCS = Path(__file__).parents[3] / "docs"

SDK_TYPES: dict[str, Any] = {
    "Results": sdk.ListenV1Results,
    "Metadata": sdk.ListenV1Metadata,
    "SpeechStarted": sdk.ListenV1SpeechStarted,
    "UtteranceEnd": sdk.ListenV1UtteranceEnd,
    "Error": sdk.ListenV1Error,
    "ConfigureFailure": sdk.ListenV1ConfigureFailure,
}


def validate(messages: list[dict[str, Any]]) -> None:
    """Every message against the SDK's own types, required fields included."""
    for message in messages:
        SDK_TYPES[message["type"]].model_validate(message)


def offline(model: AsrModel, speech: Speech, **options: Any) -> list[Transcript]:
    """The finals of a listener that is fed at once."""
    listener = model.listener(ListenOptions(interim=False, **options))
    events = [*hear(listener, np.frombuffer(speech.pcm, "<i2") / np.float32(32768)), *finish(listener)]
    return [e for e in events if isinstance(e, Transcript) and e.is_final]


@pytest.mark.parametrize("piece", [64, 3201, 32_000])
def test_finals_are_those_of_the_file(client: Client, asr_model: AsrModel, speech: Speech, piece: int) -> None:
    messages = client.transcribe(speech.pcm, piece=piece, interim_results=True)
    validate(messages)
    expected = offline(asr_model, speech)
    assert expected and expected[0].words
    said = [m for m in messages if m["type"] == "Results" and m["is_final"]]
    assert [m["channel"]["alternatives"][0]["transcript"] for m in said] == [t.text for t in expected]
    for message, transcript in zip(said, expected, strict=True):
        alternative = message["channel"]["alternatives"][0]
        assert message["start"] == pytest.approx(transcript.start, abs=1e-3)
        assert message["start"] + message["duration"] == pytest.approx(transcript.end, abs=1e-3)
        assert alternative["stable_words"] == len(alternative["words"]) == len(transcript.words)
        assert [w["punctuated_word"] for w in alternative["words"]] == [w.text for w in transcript.words]
        assert message["speech_final"] and not message["from_finalize"]


def test_interims_come_only_when_asked_for_and_precede_their_final(client: Client, speech: Speech) -> None:
    assert all(m.get("is_final", True) for m in client.transcribe(speech.pcm))
    with client.open(interim_results=True) as socket:
        # A tick that falls behind is skipped, so the rest is not sent before one has been seen.
        most = len(speech.pcm) // 9600 * 7200
        send(socket, speech.pcm[:most], 9600)
        messages = [json.loads(socket.recv(timeout=60))]
        send(socket, speech.pcm[most:], 9600)
        socket.send('{"type": "CloseStream"}')
        messages += [json.loads(message) for message in socket]
    validate(messages)
    results = [m for m in messages if m["type"] == "Results"]
    interims = [m for m in results if not m["is_final"]]
    assert interims
    for interim in interims:
        alternative = interim["channel"]["alternatives"][0]
        assert 0 <= alternative["stable_words"] <= len(alternative["words"])
        following = results[results.index(interim) + 1 :]
        assert any(m["is_final"] and m["start"] == interim["start"] for m in following)
    assert finals(messages) == finals(client.transcribe(speech.pcm)), "interims change no final"


def test_metadata_is_last_and_true(client: Client, speech: Speech) -> None:
    messages = client.transcribe(speech.pcm + b"\x07", smart_format=True, tag="x", diarize=False)
    metadata = messages[-1]
    assert metadata["type"] == "Metadata"
    assert metadata["duration"] == pytest.approx(speech.seconds, abs=1e-3)
    assert metadata["sha256"] == hashlib.sha256(speech.pcm + b"\x07").hexdigest()
    assert metadata["warnings"] == [
        "smart_format: not honoured",
        "tag: not honoured",
        "the audio ended within a sample: 1 bytes dropped",
    ]
    results = [m for m in messages if m["type"] == "Results"]
    assert {m["metadata"]["request_id"] for m in results} == {metadata["request_id"]}
    assert results[0]["metadata"]["model_info"]["name"] == "pocket-asr-en"
    assert results[0]["metadata"]["model_uuid"] in metadata["models"]


def test_speech_started_only_with_vad_events(client: Client, speech: Speech) -> None:
    assert not [m for m in client.transcribe(speech.pcm) if m["type"] == "SpeechStarted"]
    messages = client.transcribe(speech.pcm, vad_events=True)
    validate(messages)
    kinds = [m["type"] for m in messages]
    assert kinds.index("SpeechStarted") < kinds.index("Results")
    first = next(m for m in messages if m["type"] == "SpeechStarted")
    assert 0 < first["timestamp"] < speech.seconds


def test_utterance_end_after_the_gap(client: Client, speech: Speech, silence: bytes) -> None:
    messages = client.transcribe(speech.pcm + 4 * silence, utterance_end_ms=1000)
    validate(messages)
    ends = [m for m in messages if m["type"] == "UtteranceEnd"]
    words = [w for m in messages if m["type"] == "Results" for w in m["channel"]["alternatives"][0]["words"]]
    assert words[-1]["end"] == ends[-1]["last_word_end"]
    assert not [m for m in client.transcribe(speech.pcm + 4 * silence) if m["type"] == "UtteranceEnd"]


def test_finalize_answers_at_once_and_the_stream_goes_on(client: Client, speech: Speech) -> None:
    half = len(speech.pcm) // 4 * 2
    with client.open() as socket:
        socket.send(speech.pcm[:half])
        socket.send('{"type": "Finalize"}')
        answer = json.loads(socket.recv(timeout=60))
        assert answer["is_final"] and answer["from_finalize"]
        socket.send('{"type": "Finalize"}')
        answer = json.loads(socket.recv(timeout=60))
        assert answer["from_finalize"] and answer["channel"]["alternatives"][0]["transcript"] == ""
        socket.send(speech.pcm[half:])
        socket.send('{"type": "CloseStream"}')
        rest = [json.loads(message) for message in socket]
    validate([answer, *rest])
    assert any(m["type"] == "Results" and not m["from_finalize"] for m in rest)
    assert rest[-1]["duration"] == pytest.approx(speech.seconds, abs=1e-3)


def test_endpointing_false_keeps_one_segment(client: Client, speech: Speech, silence: bytes) -> None:
    twice = speech.pcm + 2 * silence + speech.pcm

    def count(messages: list[dict[str, Any]]) -> int:
        return len([m for m in messages if m.get("is_final")])

    assert count(client.transcribe(twice, endpointing=500)) > count(client.transcribe(twice, endpointing="false"))


def test_utterance_end_comes_without_endpointing_too(client: Client, speech: Speech, silence: bytes) -> None:
    messages = client.transcribe(speech.pcm + 4 * silence, endpointing="false", utterance_end_ms=1000)
    validate(messages)
    kinds = [m["type"] for m in messages]
    assert kinds.count("UtteranceEnd") == 1
    assert kinds.index("UtteranceEnd") < kinds.index("Results"), "the utterance is still open"
    end = messages[kinds.index("UtteranceEnd")]["last_word_end"]
    assert speech.seconds - 2 < end < speech.seconds + 0.5


@pytest.mark.parametrize(
    ("encoding", "rate"), [("linear16", 44_100), ("float32", 8_000), ("mulaw", 8_000), ("alaw", 44_100)]
)
def test_encodings_and_rates(client: Client, speech: Speech, encoding: str, rate: int) -> None:
    """The length heard is the length sent, and words are heard, whatever the wire."""
    samples = soxr.resample(np.frombuffer(speech.pcm, "<i2") / np.float32(32768), RATE, rate).astype(np.float32)
    match encoding:
        case "linear16":
            pcm = (samples * 32767).astype("<i2").tobytes()
        case "float32":
            pcm = samples.astype("<f4").tobytes()
        case _:
            pcm = companded(samples, encoding)
    messages = client.transcribe(pcm, raw=False, encoding=encoding, sample_rate=rate)
    assert messages[-1]["duration"] == pytest.approx(speech.seconds, abs=0.01)
    assert finals(messages)


def companded(samples: Any, encoding: str) -> bytes:
    """G.711 as libsndfile writes it."""
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="RAW", subtype={"mulaw": "ULAW", "alaw": "ALAW"}[encoding])
    return file.getvalue()


def test_two_channels_are_mixed_down(client: Client, speech: Speech) -> None:
    mono = np.frombuffer(speech.pcm, "<i2")
    stereo = np.stack([mono, mono], axis=1).tobytes()
    assert finals(client.transcribe(stereo, channels=2)) == finals(client.transcribe(speech.pcm))


def test_a_second_wav_in_a_stream_is_told(client: Client, speech: Speech) -> None:
    """Only the first is heard, and nobody has to guess why."""
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(speech.pcm, "<i2"), RATE, format="WAV", subtype="PCM_16")
    messages = client.transcribe(2 * file.getvalue())
    assert messages[-1]["duration"] == pytest.approx(speech.seconds, abs=0.001)
    says = f"the WAV header tells where its audio ends: {len(file.getvalue())} bytes after it not heard"
    assert messages[-1]["warnings"] == [says]


def test_without_punctuation_words_are_bare(client: Client, speech: Speech) -> None:
    for message in client.transcribe(speech.pcm, punctuate=False):
        if message["type"] == "Results":
            alternative = message["channel"]["alternatives"][0]
            assert alternative["transcript"] == " ".join(w["word"] for w in alternative["words"])
            assert all("punctuated_word" not in w for w in alternative["words"])


def test_configure_is_declined_and_the_stream_goes_on(client: Client, speech: Speech) -> None:
    with client.open() as socket:
        socket.send('{"type": "Configure", "keyterms": ["Oslo"]}')
        answer = json.loads(socket.recv(timeout=60))
        validate([answer])
        assert answer["code"] == "CONFIGURE_KEYTERMS_NOT_SUPPORTED"
        send(socket, speech.pcm)
        socket.send('{"type": "CloseStream"}')
        assert finals(json.loads(message) for message in socket)


def test_keepalive_keeps_an_idle_stream(start: Start, speech: Speech) -> None:
    with start(idle_seconds=6) as background:  # much more than a machine stands still
        client = Client(background.url)
        with client.open() as socket:
            for _ in range(70):
                time.sleep(0.1)
                socket.send('{"type": "KeepAlive"}')
            send(socket, speech.pcm)
            socket.send('{"type": "CloseStream"}')
            assert finals(json.loads(message) for message in socket)
            assert socket.close_code == 1000


def test_sixteen_streams_at_once_hear_what_one_hears(daemon: Background, client: Client, speech: Speech) -> None:
    """Alone or in a crowd, a session gets the same text."""
    alone = finals(client.transcribe(speech.pcm))
    assert eventually(lambda: daemon.hub.taken == 0), "a place is free a moment after its client has seen the close"
    with ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(lambda i: finals(client.transcribe(speech.pcm, piece=1600 + 2 * i)), range(16)))
    assert crowd == [alone] * 16


def test_metrics_count_what_happened(start: Start, speech: Speech) -> None:
    def value(text: str, name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    with start() as background:
        client = Client(background.url)
        messages = client.transcribe(speech.pcm, interim_results=True)
        assert eventually(lambda: background.hub.taken == 0)
        text = HTTP.get(background.url + "/metrics").text
        path = '{path="/v1/listen"}'
        assert value(text, f"hearsay_audio_seconds_total{path}") == pytest.approx(speech.seconds, abs=1e-3)
        assert value(text, f"hearsay_finals_total{path}") == len([m for m in messages if m.get("is_final")])
        assert value(text, f"hearsay_final_words_total{path}") == sum(
            len(m["channel"]["alternatives"][0]["words"]) for m in messages if m.get("is_final")
        )
        assert value(text, 'hearsay_closes_total{code="1000"}') == 1
        assert value(text, f"hearsay_sessions{path}") == 0
        assert value(text, "hearsay_final_lag_seconds_count") >= 1
        assert value(text, "hearsay_unheard_seconds") == 0
        assert value(text, "hearsay_ready") == 1
        with client.open() as socket:
            socket.send(b"\0" * 32_000)
            assert eventually(lambda: value(HTTP.get(background.url + "/metrics").text, f"hearsay_sessions{path}") == 1)


def test_documented_metrics_are_those_there_are(talker: Background) -> None:
    documented = set(re.findall(r"`(hearsay_[a-z_]+)", (DOCS / "operations.md").read_text(encoding="utf-8")))
    text = HTTP.get(talker.url + "/metrics").text
    kinds = dict(line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE hearsay_"))
    assert documented == set(kinds)
