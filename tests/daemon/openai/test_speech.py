"""``/v1/audio/speech`` and ``/v1/audio/voices`` over real sockets."""

import base64
import errno
import io
import json
import logging
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.encoder import MEDIA_TYPES
from codec.model import TtsModel
from codec.talker import TalkerStep
from codec.voices import Voices
from daemon.loading import Loaded, Models
from daemon.serve import Background
from engines.lane import Steps
from tests.codec.sounds.voices import sounding
from tests.daemon.encoders import cloner
from tests.daemon.support import LONG, SHORT, Voice, decoded, eventually, running, same

Start = Callable[..., AbstractContextManager[Background]]


@pytest.fixture(scope="module")
def http(talker: Background) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=talker.url, timeout=60) as client:
        yield client


def ask(http: httpx.Client, **fields: Any) -> httpx.Response:
    """POST a text; seed 1 unless told otherwise, None leaves a field out."""
    body = {"input": SHORT, "seed": 1, **fields}
    return http.post("/v1/audio/speech", json={key: value for key, value in body.items() if value is not None})


@pytest.fixture(scope="module")
def pcm(http: httpx.Client) -> bytes:
    """The text as pcm."""
    return ask(http, response_format="pcm").content


@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_every_format_is_the_same_speech(http: httpx.Client, pcm: bytes, name: str) -> None:
    answer = ask(http, response_format=name)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == MEDIA_TYPES[name]
    samples, rate = decoded(answer.content, name)
    assert samples.size / rate == pytest.approx(len(pcm) / 48_000, abs=0.1)
    spoken = np.frombuffer(pcm, "<i2") / 32768
    assert np.sqrt(np.mean(samples**2)) == pytest.approx(np.sqrt(np.mean(spoken**2)), rel=0.3)


def test_it_is_what_the_stream_says(talker: Background, pcm: bytes) -> None:
    assert same(Voice(talker.url).speak(SHORT)[0], pcm)


def test_mp3_is_the_default_and_libsndfile_reads_it(http: httpx.Client, pcm: bytes) -> None:
    answer = ask(http)
    assert answer.headers["content-type"] == "audio/mpeg"
    assert soundfile.info(io.BytesIO(answer.content)).duration == pytest.approx(len(pcm) / 48_000, abs=0.1)


def test_the_answer_begins_while_it_is_made(
    http: httpx.Client, tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model stands after fifty frames until the client has the first bytes."""
    frame, frames, heard = tts_model.engine.frame, 0, threading.Event()

    def halting(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal frames
        frames += 1
        if frames == 50:
            assert heard.wait(60), "nothing came while the speech was made"
        return (yield from frame(step))

    monkeypatch.setattr(tts_model.engine, "frame", halting)
    size = 0
    with http.stream("POST", "/v1/audio/speech", json={"input": LONG[:560], "response_format": "pcm"}) as answer:
        for chunk in answer.iter_raw():
            heard.set()
            size += len(chunk)
    assert size > 60 * 3840


def test_sse_carries_the_same_bytes(http: httpx.Client, pcm: bytes) -> None:
    answer = ask(http, response_format="pcm", stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert len(events) > 3
    assert same(b"".join(base64.b64decode(event["audio"]) for event in events[:-1]), pcm)
    usage = events[-1]["usage"]
    assert events[-1]["type"] == "speech.audio.done"
    assert usage["output_tokens"] == len(pcm) // 3840
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > usage["output_tokens"]


def test_voices_are_named_in_two_ways(http: httpx.Client, pcm: bytes) -> None:
    first, second = [voice["id"] for voice in http.get("/v1/audio/voices").json()["voices"]]
    for voice in (first, {"id": first}, "alloy", "default", first.upper(), ""):
        assert same(ask(http, voice=voice, response_format="pcm").content, pcm), voice
    assert not same(ask(http, voice={"id": second}, response_format="pcm").content, pcm)


def test_speed_changes_the_length(http: httpx.Client, pcm: bytes) -> None:
    assert len(ask(http, response_format="pcm", speed=2).content) == pytest.approx(len(pcm) / 2, rel=0.05)


@pytest.mark.parametrize(
    "model", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15", "aura-2-luna-en"]
)
def test_aliases_mean_the_speaking_model(http: httpx.Client, model: str) -> None:
    assert ask(http, model=model).status_code == 200
    card = http.get(f"/v1/models/{model}").json()
    assert (card["id"], card["root"], card["does"]) == (model, "pocket-tts-en", "speaking")


def test_pauses_are_the_requests_or_the_settings(talk: Start, http: httpx.Client) -> None:
    """Of two paragraphs: more where more is asked for; where nothing is, the daemon's setting counts."""
    text = f"{SHORT}\n\n{SHORT}"

    def length(client: httpx.Client, pauses: float | None) -> int:
        return len(ask(client, input=text, pauses=pauses, response_format="pcm").content)

    none, once, twice = (length(http, pauses) for pauses in (0, 1, 2))
    assert none < once < twice and length(http, None) == once
    with talk(pauses=2.0) as background, httpx.Client(base_url=background.url, timeout=60) as client:
        assert length(client, None) == twice and length(client, 0) == none


@pytest.mark.parametrize("stream", [None, False])
def test_captioned_speech_has_the_words_with_their_times(http: httpx.Client, pcm: bytes, stream: bool | None) -> None:
    """As Kokoro-FastAPI's: objects a line, or one, with the file's bytes and the words; the same sound as without."""
    body = {"input": SHORT, "seed": 1, "response_format": "pcm", "return_timestamps": True, "stream": stream}
    answer = http.post("/dev/captioned_speech", json={key: value for key, value in body.items() if value is not None})
    assert answer.status_code == 200
    kind = "application/json" if stream is False else "application/x-ndjson"
    assert answer.headers["content-type"] == kind
    parts = [json.loads(line) for line in answer.text.splitlines()]
    assert (len(parts) == 1) == (stream is False)
    assert same(b"".join(base64.b64decode(part["audio"]) for part in parts), pcm)
    assert all(part["audio_format"] == MEDIA_TYPES["pcm"] for part in parts)
    words = [word for part in parts for word in part["timestamps"]]
    assert [word["word"] for word in words] == SHORT.lower().split()
    times = [word[key] for word in words for key in ("start_time", "end_time")]
    assert times == sorted(times) and times[-1] <= len(pcm) / 48_000


def test_captioned_speech_streams_or_not_and_nothing_else(http: httpx.Client) -> None:
    answer = http.post("/dev/captioned_speech", json={"input": SHORT, "stream": "false"})
    assert answer.status_code == 400 and "stream: true" in answer.json()["error"]["message"]


def test_models_are_listed(http: httpx.Client) -> None:
    cards = http.get("/v1/models").json()["data"]
    assert [(card["id"], card["does"]) for card in cards] == [
        ("pocket-asr-en", "hearing"), ("pocket-tts-en", "speaking")
    ]  # fmt: skip
    assert http.get("/v1/models/whisper-1").json()["root"] == "pocket-asr-en"
    missing = http.get("/v1/models/unheard-of")
    assert missing.status_code == 404
    assert "'pocket-asr-en' and 'pocket-tts-en' are" in missing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "status", "param", "says"),
    [
        ({"input": None}, 400, "input", "missing required field `input`"),
        ({"input": ""}, 400, "input", "input: empty"),
        ({"input": " \n\t "}, 400, "input", "input: empty"),
        ({"input": "\x00\x01\x02"}, 400, "input", "nothing that can be spoken"),
        ({"input": "!!! … ???"}, 400, "input", "nothing that can be spoken"),
        ({"input": "x" * 100_000}, 400, "input", "input: 100000 characters, the limit is 4096 (max_text_characters)"),
        ({"input": 7}, 400, "input", "Expected `str`"),
        ({"input": ["a"]}, 400, "input", "Expected `str`"),
        ({"voice": "nobody"}, 400, "voice", "has no 'nobody'; voices: kathleen, slt"),
        ({"voice": {"name": "slt"}}, 400, "voice", "voice"),
        ({"response_format": "wma"}, 400, "response_format", "'wma' is none of mp3, opus, aac, flac, wav, pcm"),
        ({"stream_format": "video"}, 400, "stream_format", "'video' is none of audio, sse"),
        ({"speed": 9}, 400, "speed", "9 lies outside 0.25…4"),
        ({"speed": "fast"}, 400, "speed", "Expected `float"),
        ({"language": "fi"}, 400, "language", "speaks en, not 'fi'"),
        ({"seed": -2}, 400, "seed", "-2 lies outside"),
        ({"lexicon": {"gif": "jif"}}, 400, "lexicon", "pocket-tts-en reads letters, so it takes no pronunciations"),
        ({"lexicon": {"gif": "h5"}}, 400, "lexicon", "'gif': '5' is no letter of a respelling such as hyoo-STUN"),
        ({"lexicon": {"gif": 5}}, 400, "lexicon", "'gif': its pronunciation must be a string"),
        ({"lexicon": ["gif"]}, 400, "lexicon", "Expected `object | null`"),
        ({"lexicon": dict.fromkeys(map("w{}".format, range(300)), "ah")}, 400, "lexicon", "300 words, a request may"),
        ({"model": "whisper-1"}, 404, "model", "'whisper-1' is not loaded; 'pocket-tts-en' is"),
        ({"sample_rate": 8000}, 400, "sample_rate", "mp3 comes at 24000 Hz here"),
        ({"profanity_filter": True}, 400, "profanity_filter", "no words are filtered here"),
    ],
)
def test_what_is_wrong_is_named(http: httpx.Client, fields: dict[str, Any], status: int, param: str, says: str) -> None:
    answer = ask(http, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (status, param, "invalid_request_error")
    assert says in error["message"]


@given(st.one_of(st.binary(max_size=80), st.text(max_size=80).map(str.encode)))
@settings(max_examples=40, deadline=None)
def test_any_body_is_survived(http: httpx.Client, body: bytes) -> None:
    assert http.post("/v1/audio/speech", content=body).status_code == 400


@given(st.text(min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_any_text_is_spoken_or_refused(http: httpx.Client, text: str) -> None:
    answer = ask(http, input=text, response_format="pcm")
    assert answer.status_code in (200, 400)
    assert (len(answer.content) >= 3840) == (answer.status_code == 200)


def test_a_body_too_large_is_refused_before_it_is_read(http: httpx.Client) -> None:
    answer = http.post("/v1/audio/speech", content=b" " * (1 << 20 | 1))
    assert (answer.status_code, answer.json()["error"]["param"]) == (413, None)
    refused = http.get("/v1/audio/speech")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_a_word_is_said_as_the_request_says(models: Models, tmp_path: Path) -> None:
    """By a model that reads sounds: another pronunciation is another speech, the dictionary's own is the same."""
    directory = sounding(Path(__file__).parents[2] / "golden" / "speaking", tmp_path / "sounding")
    model = TtsModel(directory, sessions=1, threads=1, voices=tmp_path / "voices")
    with (
        running(Models(models.hearing, Loaded.of(model)), speakers=1) as background,
        httpx.Client(base_url=background.url, timeout=60) as client,
    ):
        said = [
            ask(client, input="The choir.", response_format="pcm", lexicon=lexicon)
            for lexicon in (None, {"choir": "/kwaɪɚ/"}, {"Choir": "KOY-er"})
        ]
    model.close()
    assert [answer.status_code for answer in said] == [200] * 3
    assert same(said[0].content, said[1].content) and not same(said[0].content, said[2].content)


# --------------------------------------------------------------------------------------------------------- voices


@pytest.fixture(scope="module")
def cloning(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A daemon whose model can clone."""
    folder = tmp_path_factory.mktemp("cloning")
    directory = cloner(Path(__file__).parents[2] / "golden" / "speaking", folder / "tiny-base")
    model = TtsModel(directory, sessions=2, threads=1, voices=folder / "voices")
    with (
        running(Models(models.hearing, Loaded.of(model)), speakers=2) as background,
        httpx.Client(base_url=background.url, timeout=60) as client,
    ):
        yield client
    model.close()


def recording(seconds: float, level: float = 0.1, rate: int = 16_000) -> bytes:
    """A WAV of noise."""
    noise = np.random.default_rng(5).standard_normal(int(seconds * rate)) * level
    file = io.BytesIO()
    soundfile.write(file, noise.astype(np.float32), rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def add(http: httpx.Client, audio: bytes | None = None, field: str = "audio_sample", **fields: str) -> httpx.Response:
    """POST a voice."""
    files = {field: ("me.wav", recording(3) if audio is None else audio)}
    return http.post("/v1/audio/voices", data={"name": "me", **fields}, files=files)


def test_a_voice_is_added_heard_and_deleted(cloning: httpx.Client) -> None:
    before = cloning.get("/v1/audio/voices").json()["voices"]
    assert [voice["kind"] for voice in before] == ["preset", "preset"]
    answer = add(cloning, name="Aunt-May", consent="cons_1")
    assert (answer.status_code, answer.json()) == (201, {"id": "aunt-may", "name": "aunt-may", "kind": "cloned"})
    assert add(cloning, field="file", name="bob", text="This is what I say.").status_code == 201
    assert [voice["id"] for voice in cloning.get("/v1/audio/voices").json()["voices"][2:]] == ["aunt-may", "bob"]
    assert cloning.get("/v1/audio/voices/AUNT-MAY").json() == answer.json()
    said = {
        voice: ask(cloning, voice=voice, response_format="pcm").content for voice in ("kathleen", "aunt-may", "bob")
    }
    assert len(set(said.values())) == 3
    assert min(map(len, said.values())) > 3840
    again, messages = Voice(str(cloning.base_url).rstrip("/")).speak(SHORT, voice="Aunt-May")
    assert messages[0]["voice"] == "aunt-may"
    assert same(again, said["aunt-may"])
    for voice in ("aunt-may", "bob"):
        assert cloning.delete(f"/v1/audio/voices/{voice}").json()["deleted"] is True
    assert cloning.get("/v1/audio/voices").json()["voices"] == before
    assert cloning.delete("/v1/audio/voices/bob").status_code == 404
    assert ask(cloning, voice="bob").status_code == 400


@pytest.mark.parametrize(
    ("audio", "fields", "says"),
    [
        (recording(3, level=0), {}, "audio_sample: is silent"),
        (recording(0.5), {}, "audio_sample: 0.5 s of audio, it must be 1 to 30 s"),
        (recording(1800, rate=8_000), {}, "audio_sample: 1800.0 s of audio, it must be 1 to 30 s"),
        (recording(20), {"text": "Hello there."}, "audio_sample: 20.0 s of audio, it must be 1 to 15 s"),
        (b"this is no audio at all", {}, "audio_sample: "),
        (b"", {}, "audio_sample: empty"),
        (recording(3), {"name": "../../evil"}, "name: '../../evil'"),
        (recording(3), {"name": "kathleen"}, "name: 'kathleen' is a preset"),
        (recording(3), {"name": ""}, "name: missing"),
        (recording(3), {"text": "!!!"}, "text: holds nothing that can be spoken"),
        (recording(3), {"type": "prompt"}, "type: voices are made from recordings"),
    ],
)  # fmt: skip
def test_a_voice_that_cannot_be_made_says_why(
    cloning: httpx.Client, audio: bytes, fields: dict[str, str], says: str
) -> None:
    answer = add(cloning, audio, **fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert says in error["message"]
    assert error["message"].startswith(f"{error['param']}: ")
    assert len(cloning.get("/v1/audio/voices").json()["voices"]) == 2


def test_a_file_that_is_frames_too_long_is_taken(cloning: httpx.Client) -> None:
    """Of AAC thirty seconds are 30.02: to a tenth of a second, as the refusal of 30.1 tells it."""
    assert add(cloning, recording(30.02)).status_code == 201
    assert cloning.delete("/v1/audio/voices/me").status_code == 200
    assert "audio_sample: 30.1 s of audio" in add(cloning, recording(30.06)).json()["error"]["message"]


def test_a_wav_that_lies_about_its_length_is_bounded(cloning: httpx.Client) -> None:
    """A header that says one second before an hour of audio, and one that says nothing."""
    wav = bytearray(recording(600, rate=8_000))
    struct.pack_into("<I", wav, 40, 0xFFFFFFFF)
    answer = add(cloning, bytes(wav))
    assert answer.status_code == 400
    assert "it must be 1 to 30 s" in answer.json()["error"]["message"]


def test_forms_that_are_none(cloning: httpx.Client) -> None:
    assert cloning.post("/v1/audio/voices", json={"name": "me"}).status_code == 415
    missing = cloning.post("/v1/audio/voices", files={"name": (None, "me")})
    assert (missing.status_code, missing.json()["error"]["message"]) == (400, "audio_sample: missing")
    text = cloning.post("/v1/audio/voices", files={"name": (None, "me"), "file": (None, "not a file")})
    assert (text.status_code, text.json()["error"]["param"]) == (400, "file")
    assert add(cloning, b"\0" * ((32 << 20) + 1)).status_code == 413
    for refused, allowed in (
        (cloning.put("/v1/audio/voices"), "GET, POST"),
        (cloning.post("/v1/audio/voices/bob"), "GET, DELETE"),
    ):
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


def test_a_model_that_cannot_clone_says_so(http: httpx.Client) -> None:
    answer = add(http)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cannot_clone")
    assert "cannot clone voices: it has no speaker encoder" in answer.json()["error"]["message"]
    kept = http.delete("/v1/audio/voices/slt")
    assert (kept.status_code, kept.json()["error"]["code"]) == (400, "preset_voice")


def test_of_two_who_delete_a_voice_the_later_one_is_told_that_it_is_gone(
    cloning: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(cloning, name="bob").status_code == 201
    delete = Voices.delete

    def second(voices: Voices, name: str) -> None:
        delete(voices, name)
        delete(voices, name)

    monkeypatch.setattr(Voices, "delete", second)
    answer = cloning.delete("/v1/audio/voices/bob")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "voice_not_found")


@pytest.mark.parametrize("name", ["alloy", "DEFAULT", "af_heart", "en_us-lessac-medium", "aura-2-thalia-en", "tts-1"])
def test_no_voice_is_stored_under_a_name_that_others_mean_their_own_by(
    cloning: httpx.Client, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Else whoever may speak decides what everybody hears. One that lies there from before is not heard either."""
    plain = ask(cloning, response_format="pcm").content
    answer = add(cloning, name=name)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "name")
    assert "choose another" in answer.json()["error"]["message"]
    if name in ("alloy", "af_heart"):
        assert add(cloning, name="heir").status_code == 201
        (stored,) = tmp_path_factory.getbasetemp().rglob("heir.npz")
        older = stored.rename(stored.with_stem(name))
        try:
            assert same(ask(cloning, voice=name, response_format="pcm").content, plain)
        finally:
            older.unlink()


def test_a_disk_that_takes_no_voice_is_507_and_names_no_path(
    cloning: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log does."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/voices/.voice-x")

    monkeypatch.setattr("codec.voices.tempfile.mkstemp", full)
    answer = add(cloning)
    assert answer.status_code == 507
    assert answer.json()["error"]["message"] == "the voice cannot be stored: No space left on device"
    assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [None]


def test_a_file_that_the_disk_does_not_take_breaks_off(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """flac waits in the temporary directory: the answer ends before its end, and the log says why in a sentence."""
    monkeypatch.setattr("audio.encoder._SPOOL_BYTES", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(http, response_format="flac")
    assert not any(record.exc_info for record in caplog.records)
    assert "No such file or directory" in caplog.text
    monkeypatch.undo()
    assert ask(http, response_format="flac").status_code == 200


def test_places_are_free_again(talker: Background) -> None:
    assert eventually(lambda: talker.hub.taken == 0)


def test_voices_are_not_mixed(http: httpx.Client) -> None:
    """What Kokoro's clients send for a mixture is the first voice; a mixture of our own is none, and says so."""
    body = {"input": SHORT, "voice": "af_sky+af_bella(2)", "response_format": "pcm"}
    answer = http.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200 and "first voice" in answer.headers["hearsay-warning"]
    ours = http.get("/v1/audio/voices").json()["voices"][0]["id"]
    answer = http.post("/v1/audio/speech", json={**body, "voice": f"{ours}+{ours}"})
    assert answer.status_code == 400 and ours in answer.json()["error"]["message"]
    answer = http.post("/v1/audio/voices/combine", json="af_sky+af_bella")
    assert answer.status_code == 501 and "name one voice" in answer.json()["error"]["message"]
