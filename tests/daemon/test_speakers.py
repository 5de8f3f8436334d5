"""Who speaks, at every door: live and for files, in Deepgram's, OpenAI's and Whisper's shapes."""

import base64
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import openai
import pytest
import soundfile
from deepgram.listen.v1.types import ListenV1Results
from deepgram.types.listen_v1response import ListenV1Response

from daemon.deepgram.listen_messages import SpeakerMerged
from daemon.deepgram.listen_query import parse
from daemon.file_transcript import FileTranscript, spoken_by
from daemon.serve import Background
from daemon.subtitles import Layout, cues, srt, vtt
from streaming.events import Transcript, Word
from streaming.model import AsrModel
from streaming.people import People
from tests.clips import DATA, dialogue, read_clip
from tests.daemon.support import HTTP, RATE, Client

FORMS = "/v1/audio/transcriptions"
ANNA = DATA / "clips/9460fd864aba.opus"
"""More of who begins the dialogue."""


@pytest.fixture(scope="module", autouse=True)
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever runs the tests may know people, and these know none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("share")))
        yield


@pytest.fixture(scope="module")
def pcm() -> bytes:
    """Two people in turns, as 16-bit samples."""
    return np.round(dialogue() * 32767).astype("<i2").tobytes()


@pytest.fixture(scope="module")
def file(pcm: bytes) -> bytes:
    """The same as FLAC."""
    out = io.BytesIO()
    soundfile.write(out, np.frombuffer(pcm, "<i2"), RATE, format="FLAC")
    return out.getvalue()


@pytest.fixture(scope="module")
def live(daemon: Background, pcm: bytes) -> list[dict[str, Any]]:
    """What ``/v1/listen?diarize=true`` says of it."""
    return Client(daemon.url).transcribe(pcm, diarize=True, interim_results=True)


def words_of(messages: list[dict[str, Any]], *, final: bool) -> list[dict[str, Any]]:
    """The words of the results."""
    results = [m for m in messages if m["type"] == "Results" and m["is_final"] is final]
    return [word for one in results for word in one["channel"]["alternatives"][0]["words"]]


def ask(daemon: Background, file: bytes, **fields: str) -> httpx.Response:
    """The answer to an upload."""
    return HTTP.post(daemon.url + FORMS, files={"file": ("talk.flac", file)}, data=fields, timeout=120)


def final() -> Transcript:
    """Two speakers in one segment."""
    words = tuple(
        Word(text, i / 2, i / 2 + 0.4, 1.0, speaker=who, speaker_confidence=0.9)
        for i, (text, who) in enumerate([("So", 0), ("it", 0), ("is.", 0), ("Is", 1), ("it?", 1)])
    )
    return Transcript(0, 2.5, "So it is. Is it?", words, 5, "en", is_final=True)


def test_live_finals_tell_who_speaks(live: list[dict[str, Any]]) -> None:
    """With a confidence, in the SDK's own type; interims do not, and no warning comes."""
    for message in live:
        if message["type"] == "Results":
            ListenV1Results.model_validate(message)
    said = words_of(live, final=True)
    assert {word["speaker"] for word in said} == {0, 1} and said[0]["speaker"] == 0
    assert all(0 < word["speaker_confidence"] <= 1 for word in said)
    assert not any("speaker" in word for word in words_of(live, final=False))
    assert live[-1]["type"] == "Metadata" and not live[-1]["warnings"]


def test_a_stream_that_does_not_ask_is_not_told(daemon: Background, pcm: bytes) -> None:
    plain = Client(daemon.url).transcribe(pcm[: 8 * RATE])
    assert words_of(plain, final=True) and not any("speaker" in word for word in words_of(plain, final=True))
    wrong = HTTP.get(f"{daemon.url}/v1/listen?diarize=perhaps", headers={"upgrade": "websocket"})
    assert wrong.status_code == 426
    refused = HTTP.post(f"{daemon.url}/v1/listen?diarize=perhaps", content=b"x")
    assert refused.status_code == 400 and "diarize" in refused.text


def test_a_merge_is_a_message_of_ours() -> None:
    """It comes only to who asks, since Deepgram's SDKs do not know it."""
    raw = b"encoding=linear16&sample_rate=16000&diarize=true"
    assert not parse(raw, "pocket").speaker_merged and parse(raw, "pocket").options.speakers
    asked = parse(raw + b"&speaker_merged=true", "pocket")
    assert asked.speaker_merged and not asked.warnings
    assert msgspec.to_builtins(SpeakerMerged((0, 1), 2, 0)) == {
        "type": "SpeakerMerged", "channel": (0, 1), "speaker": 2, "into": 0,
    }  # fmt: skip


def test_a_recording_has_utterances_and_paragraphs_by_speaker(daemon: Background, file: bytes) -> None:
    query = "diarize=true&utterances=true&paragraphs=true"
    body = HTTP.post(f"{daemon.url}/v1/listen?{query}", content=file, timeout=120).json()
    ListenV1Response.model_validate(body)
    best = body["results"]["channels"][0]["alternatives"][0]
    assert {word["speaker"] for word in best["words"]} == {0, 1}
    for part in body["results"]["utterances"]:
        assert {word["speaker"] for word in part["words"]} == {part["speaker"]}
    assert len({one["speaker"] for one in best["paragraphs"]["paragraphs"]}) == 2
    text = best["paragraphs"]["transcript"]
    assert text.startswith("Speaker 0: ") and "\n\nSpeaker 1: " in text
    assert "Speaker" not in best["transcript"] and "warnings" not in body["metadata"]


def test_diarized_json_is_openais(daemon: Background, file: bytes) -> None:
    """By the SDK, which finds its own type."""
    with openai.OpenAI(api_key="any", base_url=daemon.url + "/v1", max_retries=0) as client:
        told = client.audio.transcriptions.create(
            model="gpt-4o-transcribe-diarize",
            file=("talk.flac", file),
            response_format="diarized_json",
            chunking_strategy="auto",
        )
    assert [one.speaker for one in told.segments][:2] == ["A", "B"]
    assert {one.speaker for one in told.segments} == {"A", "B"}
    assert " ".join(one.text for one in told.segments) == told.text
    assert all(a.end <= b.start + 0.3 for a, b in zip(told.segments, told.segments[1:], strict=False))
    assert told.segments[0].type == "transcript.text.segment" and told.duration > 10


def test_a_stream_tells_who_speaks(daemon: Background, file: bytes) -> None:
    """The SDK gets a segment for what each speaker says, then its text, and in the end all of it."""
    with openai.OpenAI(api_key="any", base_url=daemon.url + "/v1", max_retries=0) as client:
        asked: Any = {"response_format": "diarized_json", "stream": True}
        told = list(client.audio.transcriptions.create(model="whisper-1", file=("talk.flac", file), **asked))
    segments = [event for event in told if event.type == "transcript.text.segment"]
    assert {one.speaker for one in segments} == {"A", "B"}
    assert [one.id for one in segments] == [f"seg_{number:03}" for number in range(len(segments))]
    assert told[-1].type == "transcript.text.done" and told[-1].text == " ".join(one.text for one in segments)


def test_every_format_tells_who_speaks_where_it_is_asked(daemon: Background, file: bytes) -> None:
    """And none where it is not."""
    told = ask(daemon, file, response_format="vtt", diarize="true").text
    assert "<v A>" in told and "<v B>" in told
    assert "\nA: " in ask(daemon, file, response_format="srt", diarize="true").text
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    words = ask(daemon, file, diarize="true", **fields).json()["words"]
    assert {word["speaker"] for word in words} == {"A", "B"}
    assert not any("speaker" in word for word in ask(daemon, file, **fields).json()["words"])
    for format in ("text", "json"):  # They have no place for it, which is said.
        told = ask(daemon, file, response_format=format, diarize="true").headers["hearsay-warning"]
        assert told == f"diarize: {format} tells no speakers; diarized_json, verbose_json, srt and vtt do"


def test_a_segment_of_two_speakers_is_parted() -> None:
    """In segments, in subtitles, and the text loses nothing."""
    parts = [(words[0].speaker, text) for words, text in spoken_by(final())]
    assert parts == [(0, "So it is."), (1, "Is it?")]
    body = FileTranscript([final()], 2.5).diarized()
    assert [(one["speaker"], one["text"], one["id"]) for one in body["segments"]] == [
        ("A", "So it is.", "seg_000"),
        ("B", "Is it?", "seg_001"),
    ]
    found = cues([final()], Layout(), 2.5)
    assert [cue.speaker for cue in found] == ["A", "B"]
    assert "A: So it is.\n" in srt(found) and "<v B>Is it?\n" in vtt(found)


# ---------------------------------------------------------------- by their names


@pytest.fixture
def anna(asr_model: AsrModel) -> Iterator[None]:
    """Her print is stored while a test runs."""
    People().store(asr_model.person("Anna", [read_clip(ANNA).samples]))
    yield
    People().remove("Anna")


def url(path: Path) -> str:
    """A file as OpenAI's clients send a reference."""
    return "data:audio/ogg;base64," + base64.b64encode(path.read_bytes()).decode()


def test_who_is_known_is_told_live(daemon: Background, pcm: bytes, anna: None) -> None:
    """Numbers stay numbers, in the SDK's own type; a letter that was told before is explained to who asks for that."""
    said = Client(daemon.url).transcribe(pcm, diarize=True, speaker_merged=True)
    for message in said:
        if message["type"] == "Results":
            ListenV1Results.model_validate(message)
    words = words_of(said, final=True)
    assert {(word["speaker"], word.get("speaker_name")) for word in words} == {(0, None), (0, "Anna"), (1, None)}
    (named,) = [message for message in said if message["type"] == "SpeakerNamed"]
    assert named == {"type": "SpeakerNamed", "channel": [0, 1], "speaker": 0, "name": "Anna"}
    before = words_of(said[: said.index(named) - 1], final=True)
    assert before and not any("speaker_name" in word for word in before)
    plain = Client(daemon.url).transcribe(pcm, diarize=True)
    assert not any(message["type"] == "SpeakerNamed" for message in plain)


def test_who_is_known_is_told_of_files(daemon: Background, file: bytes, anna: None) -> None:
    """In every format, and only where speakers are told."""
    assert "<v Anna>" in ask(daemon, file, response_format="vtt", diarize="true").text
    assert "\nAnna: " in ask(daemon, file, response_format="srt", diarize="true").text
    body = ask(daemon, file, response_format="diarized_json").json()
    assert [one["speaker"] for one in body["segments"]][:2] == ["Anna", "B"]
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    words = ask(daemon, file, diarize="true", **fields).json()["words"]
    assert {(word["speaker"], word.get("speaker_name")) for word in words} == {("A", "Anna"), ("B", None)}
    assert "Anna" not in ask(daemon, file, **fields).text
    recorded = HTTP.post(f"{daemon.url}/v1/listen?diarize=true&paragraphs=true", content=file, timeout=120).json()
    ListenV1Response.model_validate(recorded)
    best = recorded["results"]["channels"][0]["alternatives"][0]
    assert {(word["speaker"], word.get("speaker_name")) for word in best["words"]} == {(0, "Anna"), (1, None)}


def test_a_request_brings_who_it_knows(daemon: Background, file: bytes) -> None:
    """By OpenAI's SDK, as it sends them; nothing of it is stored."""
    with openai.OpenAI(api_key="any", base_url=daemon.url + "/v1", max_retries=0) as client:
        told = client.audio.transcriptions.create(
            model="gpt-4o-transcribe-diarize",
            file=("talk.flac", file),
            response_format="diarized_json",
            known_speaker_names=["agent"],
            known_speaker_references=[url(ANNA)],
        )
    assert [one.speaker for one in told.segments][:2] == ["agent", "B"]
    assert {one.speaker for one in told.segments} == {"agent", "B"}
    assert People().all() == []
    loud = url(ANNA).replace("data:audio/ogg;base64", "DATA:audio/ogg;BASE64")  # RFC 2397 minds no case.
    loudly = {"known_speaker_names": "agent", "known_speaker_references": loud}
    assert "<v agent>" in ask(daemon, file, response_format="vtt", diarize="true", **loudly).text
    warned = ask(daemon, file, known_speaker_names="agent", known_speaker_references=url(ANNA))
    assert warned.status_code == 200
    assert warned.headers["hearsay-warning"].count("diarized_json does") == 2  # for each of both fields


def test_a_request_calls_people_as_it_likes(daemon: Background, file: bytes, asr_model: AsrModel) -> None:
    """Whoever is stored by another name stands in nobody's way, although that print is of the very recording."""
    People().store(asr_model.person("Anna", [dialogue()[: 5 * RATE]]))
    try:
        fields = {"known_speaker_names": "agent", "known_speaker_references": url(ANNA)}
        told = ask(daemon, file, response_format="diarized_json", **fields).json()
    finally:
        People().remove("Anna")
    assert [one["speaker"] for one in told["segments"]][:2] == ["agent", "B"]


def test_a_reference_that_is_none_is_refused(daemon: Background, file: bytes, tmp_path: Path) -> None:
    """With the field, what is wrong, the limit and what to do."""
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(3 * RATE), RATE)
    for names, references, field, says in (
        (["a"], [], "known_speaker_references", "0 for 1 names"),
        (["a"] * 5, [url(ANNA)] * 5, "known_speaker_names", "5 names, the limit is 4"),
        (["A"], [url(ANNA)], "known_speaker_names", "without a name"),
        (["a"], ["https://example.org/a.wav"], "known_speaker_references", "data: URL"),
        (["a"], ["data:audio/wav;base64,????"], "known_speaker_references", "encode the file anew"),
        (["a"], ["data:audio/wav;base64,é"], "known_speaker_references", "encode the file anew"),
        (["a"], [url(DATA / "index.jsonl")], "known_speaker_references", "send a sound file of"),
        (["a"], [url(silence)], "known_speaker_references", "0.0 s of speech in it, at least 1.5 s"),
    ):
        data = {"response_format": "diarized_json", "known_speaker_names[]": names}
        data |= {"known_speaker_references[]": references} if references else {}
        answer = HTTP.post(daemon.url + FORMS, files={"file": ("talk.flac", file)}, data=data, timeout=120)
        error = answer.json()["error"]
        assert answer.status_code == 400 and says in error["message"], error
        assert error["param"].removesuffix("[]") == field and error["message"].startswith(error["param"])


def test_whoever_leaves_while_their_speakers_are_looked_at_gives_the_place_back(
    daemon: Background, file: bytes
) -> None:
    """Voice prints of a request that nobody waits for any more are not made."""
    data = {
        "response_format": "diarized_json",
        "known_speaker_names[]": ["a", "b", "c", "d"],
        "known_speaker_references[]": [url(DATA / "recordings" / "lj.opus")] * 4,
    }
    for _ in range(6):
        with pytest.raises(httpx.ReadTimeout):
            HTTP.post(
                daemon.url + FORMS, files={"file": ("talk.flac", file)}, data=data, timeout=httpx.Timeout(20, read=0.05)
            )
    until = time.monotonic() + 5
    held = 'hearsay_sessions{path="/v1/audio/transcriptions"} 0'
    while held not in HTTP.get(daemon.url + "/metrics").text:
        assert time.monotonic() < until, "they still hold their places"
        time.sleep(0.1)
