"""OpenAI's REST over plain HTTP: formats, fields, limits, and what a client does wrong."""

import io
import json
import logging
import re
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.recording import RecordingError, samples
from daemon.serve import Background
from tests.audio.containers import contained
from tests.daemon.support import HTTP, RATE, Client, Counts, Speech, damaged, eventually, finals

Start = Callable[..., AbstractContextManager[Background]]

PATH = "/v1/audio/transcriptions"


def encoded(speech: Speech, format: str, subtype: str) -> bytes:
    """The recording as a file of some format."""
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(speech.pcm, "<i2") / np.float32(32768), RATE, format=format, subtype=subtype)
    return file.getvalue()


def ask(url: str, file: bytes, **fields: Any) -> httpx.Response:
    """Upload ``file``."""
    return HTTP.post(url + PATH, files={"file": ("speech", file)}, data=fields, timeout=60)


@pytest.fixture(scope="module")
def wav(speech: Speech) -> bytes:
    return encoded(speech, "WAV", "PCM_16")


@pytest.fixture(scope="module")
def live(daemon: Background, speech: Speech) -> list[dict[str, Any]]:
    """What /v1/listen says of the same samples."""
    return Client(daemon.url).transcribe(speech.pcm)


def test_json_is_the_live_text(daemon: Background, wav: bytes, live: list[dict[str, Any]], speech: Speech) -> None:
    body = ask(daemon.url, wav, model="whisper-1").json()
    assert body["text"] == finals(live) != ""
    assert body["usage"] == {"type": "duration", "seconds": round(speech.seconds, 3)}


def test_verbose_json_has_segments_and_words(daemon: Background, wav: bytes, live: list[dict[str, Any]]) -> None:
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]}
    body = ask(daemon.url, wav, **fields).json()
    said = [m for m in live if m["type"] == "Results" and m["is_final"]]
    spoken = [w for m in said for w in m["channel"]["alternatives"][0]["words"]]
    assert [w["word"] for w in body["words"]] == [w["punctuated_word"] for w in spoken]
    assert [(w["start"], w["end"]) for w in body["words"]] == [(w["start"], w["end"]) for w in spoken]
    assert [s["text"] for s in body["segments"]] == [m["channel"]["alternatives"][0]["transcript"] for m in said]
    assert all(s["start"] < s["end"] <= body["duration"] for s in body["segments"])
    assert body["language"] == "english"
    assert "words" not in ask(daemon.url, wav, response_format="verbose_json").json()


def test_text_and_subtitles(daemon: Background, wav: bytes, live: list[dict[str, Any]]) -> None:
    text = ask(daemon.url, wav, response_format="text")
    assert text.text == finals(live) + "\n"
    assert text.headers["content-type"].startswith("text/plain")
    srt = ask(daemon.url, wav, response_format="srt").text
    assert re.match(r"1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n\S", srt)
    vtt = ask(daemon.url, wav, response_format="vtt").text
    assert re.match(r"WEBVTT\n\n00:00:0\d\.\d{3} --> 00:00:0\d\.\d{3}\n\S", vtt)
    cues = " ".join(line for line in vtt.splitlines()[1:] if line and "-->" not in line)
    assert cues == finals(live)


def events(answer: httpx.Response) -> list[Any]:
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_stream_appends_segment_by_segment(daemon: Background, speech: Speech, silence: bytes) -> None:
    twice = Speech(speech.pcm + 2 * silence + speech.pcm + silence, speech.path)
    file = encoded(twice, "WAV", "PCM_16")
    whole = ask(daemon.url, file).json()
    answer = ask(daemon.url, file, stream="true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    *deltas, done = events(answer)
    assert len(deltas) >= 2
    assert {d["type"] for d in deltas} == {"transcript.text.delta"}
    assert "".join(d["delta"] for d in deltas) == done["text"] == whole["text"]
    assert (done["type"], done["usage"]) == ("transcript.text.done", whole["usage"])


def test_a_stream_tells_in_the_end_what_is_damaged(daemon: Background, speech: Speech, wav: bytes) -> None:
    """And what was ignored of the request; nothing where there is nothing to tell."""
    told = events(ask(daemon.url, damaged(speech), stream="true", beam_size="5"))[-1]["warnings"]
    assert told[0] == "beam_size: not honoured" and "damaged packets" in told[1]
    assert told[1] in ask(daemon.url, damaged(speech)).headers["hearsay-warning"]
    assert "warnings" not in events(ask(daemon.url, wav, stream="true"))[-1]


@pytest.mark.parametrize("kind", ["webm", "m4a", "mp3", "flac", "ogg opus", "wav of floats"])
def test_containers(daemon: Background, speech: Speech, kind: str) -> None:
    """Also of browsers and telephones."""
    file = contained(kind, soxr.resample(np.frombuffer(speech.pcm, "<i2"), RATE, 48_000)[:, None], 48_000)
    body = ask(daemon.url, file, response_format="verbose_json").json()
    assert body["duration"] == pytest.approx(speech.seconds, abs=0.2)
    assert body["text"]


def test_silence_is_an_empty_text(daemon: Background, silence: bytes) -> None:
    file = encoded(Speech(3 * silence, Path()), "WAV", "PCM_16")
    body = ask(daemon.url, file, response_format="verbose_json").json()
    assert (body["text"], body["segments"], body["duration"]) == ("", [], 3.0)


@pytest.mark.parametrize(
    ("fields", "status", "param", "says"),
    [
        ({"model": "unheard-of"}, 404, "model", "'unheard-of' is not loaded; 'pocket-asr-en' is"),
        ({"response_format": "yaml"}, 400, "response_format", "'yaml' is none of json, text, srt, vtt, verbose_json"),
        ({"stream": "maybe"}, 400, "stream", "'maybe' is not true or false"),
        ({"language": "tlh"}, 400, "language", "tlh"),
        ({"timestamp_granularities[]": "hour"}, 400, "timestamp_granularities[]", "each is word or segment"),
        ({"language": ["en", "en"]}, 400, "language", "given more than once"),
        ({"redact": "pci"}, 400, "redact", "redact: nothing is redacted here"),
        ({"profanity_filter": "true"}, 400, "profanity_filter", "no words are filtered here"),
        ({"task": "translate"}, 400, "task", "written down as it is spoken here"),
        ({"response_format": "docx"}, 400, "response_format", "'docx' is none of json, text, srt, vtt, verbose_json"),
        ({"keywords[]": "word " * 201}, 400, "keywords[]", "keywords[]: 201 words, the limit is 200"),
        ({"keywords[]": "words " * 199}, 400, "keywords[]", "tokens with the model's own, the limit is 192"),
        ({"keywords[]": "words " * 199, "prompt": "hello"}, 400, "keywords[]", "keywords[]: 407 tokens"),
        ({"keywords[]": "Oslo<|im_end|>", "prompt": "hello"}, 400, "keywords[]", "keywords[]: <|im_end|> belongs"),
        ({"track": "2"}, 400, "track", "track: it has 1 tracks of sound, no number 2"),
        ({"prompt": "Oslo<|im_end|>"}, 400, "prompt", "prompt: <|im_end|> belongs to the model"),
    ],
)
def test_a_wrong_field_is_named(
    daemon: Background, wav: bytes, fields: dict[str, Any], status: int, param: str, says: str
) -> None:
    answer = ask(daemon.url, wav, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (status, param, "invalid_request_error")
    assert says in error["message"]


@pytest.mark.parametrize(
    ("prompt", "least"), [("boats " * 300, 60), ("the boat on the lake, " * 60, 60), ("x" * 9000, 0)]
)
def test_a_long_prompt_counts_by_its_end(daemon: Background, wav: bytes, prompt: str, least: int) -> None:
    """Clients send all that was heard before; OpenAI takes the end of it as well."""
    answer = ask(daemon.url, wav, prompt=prompt)
    assert answer.status_code == 200 and answer.json()["text"]
    told = re.search(r"prompt: its last (\d+) words", answer.headers["hearsay-warning"])
    assert told is not None and least <= int(told[1]) <= 200
    assert "hearsay-warning" not in ask(daemon.url, wav, prompt="boats and lakes").headers


@pytest.mark.parametrize("stream", ["false", "true"])
@pytest.mark.parametrize(
    ("file", "says"),
    [(b"no audio at all" * 20, "no audio"), (b"RIFF\0\0\0\0WAVEfmt ", "no audio"), (b"", "file: empty")],
)
def test_a_file_that_is_no_audio(daemon: Background, file: bytes, says: str, stream: str) -> None:
    answer = ask(daemon.url, file, stream=stream)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "file"
    assert says in answer.json()["error"]["message"]


def test_forms_that_are_none(daemon: Background, wav: bytes) -> None:
    assert HTTP.post(daemon.url + PATH, json={"file": "x"}).status_code == 415
    assert HTTP.post(daemon.url + PATH, data={"model": "x"}, files={"other": b"x"}).status_code == 400
    text = HTTP.post(daemon.url + PATH, files={"file": (None, "speech.wav")})
    assert (text.status_code, text.json()["error"]["param"]) == (400, "file")
    form = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + wav + b"\r\n--X--\r\n"
    shouted = HTTP.post(daemon.url + PATH, content=form, headers={"Content-Type": "Multipart/Form-Data; boundary=X"})
    assert shouted.status_code == 200
    missing = HTTP.post(daemon.url + PATH, files={"model": (None, "whisper-1")})
    assert missing.json()["error"]["message"] == "file: missing"
    broken = HTTP.post(
        daemon.url + PATH, content=b"--x\r\nnonsense", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert broken.status_code == 400
    for refused, allowed in (
        (HTTP.get(daemon.url + PATH), {"POST"}),
        (HTTP.post(daemon.url + "/v1/models"), {"GET", "HEAD"}),
    ):
        assert refused.status_code == 405
        assert set(refused.headers["allow"].split(", ")) == allowed
    assert HTTP.get(daemon.url + "/v1/nothing").json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "undefined", "unicode_escape", "latin-1", "no-such"])
def test_a_form_of_another_charset_is_refused(daemon: Background, wav: bytes, charset: str) -> None:
    form = b'--X\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xc3\x28-\r\n'
    form += b'--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + wav + b"\r\n--X--\r\n"
    kind = f"multipart/form-data; boundary=X; charset={charset}"
    answer = HTTP.post(daemon.url + PATH, content=form, headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"]["message"] == "charset: a form's fields are UTF-8"


def test_no_room_for_a_large_file_is_507(
    daemon: Background,
    speech: Speech,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line in the log, no traceback; what fits in memory is heard all the same."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    large = encoded(Speech(speech.pcm * 12, speech.path), "WAV", "PCM_16")
    assert len(large) > 1 << 20
    answer = ask(daemon.url, large)
    assert answer.status_code == 507
    assert answer.json()["error"]["message"].startswith("the file cannot be stored: ")
    assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [None]
    assert ask(daemon.url, encoded(speech, "FLAC", "PCM_16")).status_code == 200


def test_a_file_that_does_not_tell_its_length_is_heard(daemon: Background, speech: Speech) -> None:
    """A FLAC that was written to a pipe."""
    file = bytearray(encoded(speech, "FLAC", "PCM_16"))
    file[21] &= 0xF0  # STREAMINFO: 36 bits of samples, 0 where they are not known
    file[22:26] = bytes(4)
    body = ask(daemon.url, bytes(file)).json()
    assert body["usage"]["seconds"] == round(speech.seconds, 3)
    assert body["text"]


def test_a_file_of_next_to_no_rate_is_refused_at_once(daemon: Background) -> None:
    """Ten kilobytes would be hours."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(5000, np.int16), 1, format="WAV")
    answer = ask(daemon.url, file.getvalue())
    assert answer.status_code == 400
    assert "its sample rate of 1 Hz lies outside 4000" in answer.json()["error"]["message"]


def test_uploads_have_a_largest_size_declared_or_not(start: Start, wav: bytes) -> None:
    with start(max_upload_bytes=20_000) as background:
        answer = ask(background.url, wav)
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "the body is larger than 20000 bytes (max_upload_bytes)"

        def chunks() -> Any:
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            for _ in range(100):
                yield bytes(1000)

        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        streamed = HTTP.post(background.url + PATH, content=chunks(), headers=headers)
        assert streamed.status_code == 413
        assert eventually(lambda: background.hub.taken == 0)


def test_audio_has_a_longest_length(start: Start, wav: bytes) -> None:
    with start(max_session_seconds=1) as background:
        answer = ask(background.url, wav, stream="true")
        assert answer.status_code == 400
        assert "s, is longer than 1 s (max_session_seconds)" in answer.json()["error"]["message"]
        sample = background.hub.metrics.registry.get_sample_value
        assert not sample("hearsay_audio_seconds_total", {"path": PATH}), "nothing of it is heard in vain"


def test_files_that_take_long_to_read_hold_up_nobody(start: Start, wav: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the lane has threads: another file is heard meanwhile."""
    slow, go_on = threading.Semaphore(0), threading.Event()

    def read(*_: object) -> Iterator[npt.NDArray[np.float32]]:
        slow.release()
        assert go_on.wait(60)
        yield np.zeros(RATE, np.float32)

    with start() as background:
        lane = background.hub.hearing_model().model.engine.lane
        with monkeypatch.context() as patched, ThreadPoolExecutor(lane.threads) as clients:
            patched.setattr("daemon.heard_upload.samples", read)
            waiting = [clients.submit(ask, background.url, wav) for _ in range(lane.threads)]
            assert all(slow.acquire(timeout=60) for _ in waiting)
            patched.undo()
            assert ask(background.url, wav).json()["text"]
            go_on.set()
            assert all(answer.result(60).status_code == 200 for answer in waiting)


def begun_upload(url: str) -> sockets.socket:
    """An upload that stopped half way."""
    host, port = url.removeprefix("http://").split(":")
    raw = sockets.create_connection((host, int(port)))
    raw.sendall(
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        "Content-Length: 100000\r\n\r\n"
        '--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nabc'.encode()
    )
    return raw


def test_an_upload_that_stands_still_is_given_up(start: Start) -> None:
    with start(idle_seconds=0.5) as background, begun_upload(background.url) as raw:
        raw.settimeout(60)
        assert raw.recv(100).startswith(b"HTTP/1.1 408 ")
        assert eventually(lambda: background.hub.taken == 0)


def test_an_upload_that_trickles_is_given_up(start: Start) -> None:
    with start(idle_seconds=0.5) as background, begun_upload(background.url) as raw:
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 60:
                raw.sendall(b"x")
                time.sleep(0.1)
        assert eventually(lambda: background.hub.taken == 0)


def test_a_client_that_leaves_frees_its_place(
    start: Start, speech: Speech, count: Callable[[Background], Counts]
) -> None:
    """During the upload, and while its file is heard: the work stops, nothing is left."""
    with start() as background:
        before, sample = count(background), background.hub.metrics.registry.get_sample_value

        def opened() -> float:
            return sample("hearsay_sessions_opened_total", {"path": PATH}) or 0

        raw = begun_upload(background.url)
        assert eventually(lambda: opened() == 1)
        raw.close()
        assert eventually(lambda: background.hub.taken == 0)
        long = encoded(Speech(speech.pcm * int(600 / speech.seconds), speech.path), "FLAC", "PCM_16")
        for number, stream in enumerate(("false", "true"), 2):
            impatient = threading.Thread(target=leave, args=(background.url, long, stream))
            impatient.start()
            assert eventually(lambda number=number: opened() == number)
            impatient.join()
            assert eventually(lambda: background.hub.taken == 0)
        heard = sample("hearsay_audio_seconds_total", {"path": PATH})
        assert heard is not None and heard < 600, "neither file was heard to its end"
        assert eventually(lambda: count(background).sequences == before.sequences)
        assert eventually(lambda: count(background).sessions == before.sessions)


def leave(url: str, file: bytes, stream: str) -> None:
    """A client that goes before its answer is complete."""
    timeout = httpx.Timeout(30, read=0.5 if stream == "false" else 30)
    upload = {"files": {"file": file}, "data": {"stream": stream}, "timeout": timeout}
    if stream == "false":
        with pytest.raises(httpx.ReadTimeout):
            HTTP.post(url + PATH, **upload)
    else:
        with HTTP.stream("POST", url + PATH, **upload) as answer:
            next(answer.iter_lines())


@settings(max_examples=150, deadline=None)
@given(
    which=st.sampled_from(
        [
            ("WAV", "PCM_16"),
            ("WAV", "IMA_ADPCM"),
            ("FLAC", "PCM_16"),
            ("OGG", "VORBIS"),
            ("OGG", "OPUS"),
            ("CAF", "PCM_16"),
        ]
    ),
    changes=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 255)), min_size=1, max_size=6),
    kept=st.floats(0.05, 1.0),
)
def test_a_damaged_file_is_heard_or_refused_never_a_fault(
    which: tuple[str, str], changes: list[tuple[int, int]], kept: float
) -> None:
    """What an upload goes through before it reaches a listener: samples, or an error that becomes a 400."""
    noise = np.random.default_rng(3).normal(0, 0.1, RATE // 2)
    file = io.BytesIO()
    soundfile.write(file, noise, RATE, format=which[0], subtype=which[1])
    data = bytearray(file.getvalue())[: max(8, int(len(file.getvalue()) * kept))]
    for at, value in changes:
        data[at % len(data)] = value
    began = time.monotonic()
    try:
        heard = sum(block.size for block in samples(io.BytesIO(data), RATE, 60))
        assert heard <= 60 * RATE
    except RecordingError as error:
        assert str(error)
    assert time.monotonic() - began < 60, "half a second of audio"


def test_a_part_of_many_headers_is_refused_before_they_are_kept(daemon: Background) -> None:
    content = b"--x\r\n" + 10_000 * b"a: b\r\n" + b'Content-Disposition: form-data; name="model"\r\n\r\n\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = HTTP.post(daemon.url + PATH, content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_form")
