"""``/asr``, ``/detect-language`` and ``/inference``, asked as Bazarr, SubGen and whisper.cpp's clients ask."""

import io
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import soundfile

from daemon.serve import Background
from tests.daemon.support import RATE, Client, Speech, finals


@pytest.fixture(scope="module")
def http(daemon: Background) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=daemon.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def text(http: httpx.Client, speech: Speech) -> str:
    return ask(http, speech, "txt").text.strip()


def ask(http: httpx.Client, speech: Speech, output: str, **query: Any) -> httpx.Response:
    """As Bazarr: samples without a header, everything else in the query."""
    asked = {"task": "transcribe", "language": "en", "output": output, "encode": "false", **query}
    return http.post("/asr", params=asked, files={"audio_file": speech.pcm})


def test_samples_without_a_header_are_heard_like_a_stream(daemon: Background, speech: Speech, text: str) -> None:
    assert text == finals(Client(daemon.url).transcribe(speech.pcm)) != ""


def test_a_file_is_heard_where_it_is_one(http: httpx.Client, speech: Speech, text: str) -> None:
    """SubGen leaves ``encode`` out."""
    wav = io.BytesIO()
    soundfile.write(wav, soundfile.read(io.BytesIO(speech.pcm), channels=1, samplerate=RATE, subtype="PCM_16",
                                        format="RAW")[0], RATE, format="WAV")  # fmt: skip
    answer = http.post("/asr", params={"output": "txt"}, files={"audio_file": wav.getvalue()})
    assert answer.text.strip() == text


def test_every_output_holds_the_words(http: httpx.Client, speech: Speech, text: str) -> None:
    words = text.split()
    for output in ("srt", "vtt"):
        shown = ask(http, speech, output).text
        assert [word for word in shown.split() if word in words] == words and "-->" in shown
    head, *rows = ask(http, speech, "tsv").text.splitlines()
    assert head == "start\tend\ttext" and " ".join(row.split("\t")[2] for row in rows) == text
    start, end = map(int, rows[0].split("\t")[:2])
    assert 0 <= start < end <= 1000 * speech.seconds + 1
    told = ask(http, speech, "json", word_timestamps="true").json()
    assert told["text"] == text and told["language"] == "en"
    assert "".join(word["word"] for one in told["segments"] for word in one["words"]).split() == words
    assert "words" not in ask(http, speech, "json").json()["segments"][0]


def test_what_is_not_done_is_refused_by_its_name(http: httpx.Client, speech: Speech) -> None:
    for query, named in (({"task": "translate"}, "task"), ({"encode": "perhaps"}, "encode")):
        answer = ask(http, speech, "txt", **query)
        assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(named)
    answer = ask(http, speech, "lrc")
    assert answer.status_code == 400 and "txt, vtt, srt, tsv, json" in answer.json()["error"]["message"]


def test_the_language_of_the_beginning(http: httpx.Client, speech: Speech) -> None:
    answer = http.post("/detect-language", params={"encode": "false"}, files={"audio_file": 20 * speech.pcm})
    told = answer.json()
    assert (told["detected_language"], told["language_code"]) == ("english", "en") and 0 < told["confidence"] <= 1
    metrics = http.get("/metrics").text
    heard = next(line for line in metrics.splitlines() if 'path="/detect-language"' in line and "audio_seconds" in line)
    assert float(heard.split()[-1]) <= 30.5


def test_whisper_cpp(http: httpx.Client, speech: Speech) -> None:
    form = {"temperature": "0.0", "temperature_inc": "0.2", "response_format": "json"}
    answer = http.post("/inference", data=form, files={"file": speech.path.read_bytes()})
    assert answer.json()["text"]
    assert "temperature_inc" in answer.headers["hearsay-warning"]
    answer = http.post("/load", data={"model": "models/ggml-base.en.bin"})
    assert answer.status_code == 501 and "--asr-model" in answer.json()["error"]["message"]
