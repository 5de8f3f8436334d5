"""Deepgram's query parameters: honoured, accepted with a warning, or refused by name."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.deepgram.listen_query import HONOURED, NOT_HONOURED, parse
from daemon.refusal import Refused
from streaming.options import ListenOptions

RAW = "encoding=linear16&sample_rate=16000"


def test_defaults_are_the_listeners_own() -> None:
    request = parse(RAW.encode(), "pocket")
    assert request.options == ListenOptions(interim=False)
    assert (request.encoding, request.sample_rate, request.channels) == ("linear16", 16_000, 1)
    assert (request.vad_events, request.punctuate, request.warnings) == (False, True, ())
    assert request.bytes_per_second == 32_000


def test_everything_honoured() -> None:
    query = (
        "model=nova-3&language=en&encoding=mulaw&sample_rate=8000&channels=2&interim_results=true&endpointing=300"
        "&utterance_end_ms=1000&vad_events=True&punctuate=false&keyterm=hear+say&keyterm=Kyoto&keywords=Oslo:2"
    )
    request = parse(query.encode(), "pocket")
    assert request.options == ListenOptions(
        language="en",
        keyterms=("hear say", "Kyoto", "Oslo"),
        interim=True,
        endpointing=0.3,
        utterance_end=1.0,
    )
    assert request.bytes_per_second == 16_000
    assert request.vad_events and not request.punctuate
    assert request.warnings == ("keywords: taken as keyterms, their intensifiers are ignored",)


@pytest.mark.parametrize(
    ("value", "seconds"), [("false", None), ("true", ListenOptions().endpointing), ("10", 0.01), ("0.5", "error")]
)
def test_endpointing(value: str, seconds: float | str | None) -> None:
    query = f"{RAW}&endpointing={value}".encode()
    if seconds == "error":
        with pytest.raises(Refused, match="endpointing: '0.5' is not a whole number"):
            parse(query, "pocket")
    else:
        assert parse(query, "pocket").options.endpointing == seconds


@pytest.mark.parametrize("name", sorted(NOT_HONOURED))
def test_what_is_not_honoured_is_named_unless_it_is_off(name: str) -> None:
    assert parse(f"{RAW}&{name}=true".encode(), "pocket").warnings == (f"{name}: not honoured",)
    assert parse(f"{RAW}&{name}=false".encode(), "pocket").warnings == ()


@pytest.mark.parametrize("model", ["", "pocket", "nova-3", "nova-2-medical", "Nova-3", "whisper-large", "base"])
def test_aliases_mean_the_loaded_model(model: str) -> None:
    parse(f"{RAW}&model={model}".encode(), "pocket")


@pytest.mark.parametrize("language", ["multi", "auto", ""])
def test_languages_that_leave_it_to_the_model(language: str) -> None:
    assert parse(f"{RAW}&language={language}".encode(), "pocket").options.language is None


@pytest.mark.parametrize(
    ("query", "param", "says"),
    [
        ("", "encoding", "encoding and sample_rate missing: raw audio needs encoding (linear16, float32, mulaw, alaw)"),
        ("sample_rate=16000", "encoding", "encoding missing"),
        ("encoding=linear16", "sample_rate", "sample_rate missing"),
        ("encoding=linear16&sample_rate=", "sample_rate", "sample_rate missing"),
        ("encoding=opus&sample_rate=16000", "encoding", "'opus' is none of linear16, float32, mulaw, alaw; compressed"),
        ("encoding=opus", "encoding", "encoding: 'opus' is none of linear16, float32, mulaw, alaw; compressed audio"),
        ("encoding=linear16&sample_rate=7999", "sample_rate", "7999 Hz lies outside 8000…48000 Hz"),
        ("encoding=linear16&sample_rate=96000", "sample_rate", "96000 Hz lies outside 8000…48000 Hz"),
        ("encoding=linear16&sample_rate=16k", "sample_rate", "'16k' is not a whole number"),
        ("encoding=linear16&sample_rate=-16000", "sample_rate", "'-16000' is not a whole number"),
        ("encoding=linear16&sample_rate=16000&sample_rate=8000", "sample_rate", "given 2 times"),
        (f"{RAW}&channels=9", "channels", "9 lies outside 1…8"),
        (f"{RAW}&channels=0", "channels", "0 lies outside 1…8"),
        (f"{RAW}&interim_results=1", "interim_results", "'1' is not true or false"),
        (f"{RAW}&endpointing=5", "endpointing", "endpointing: 5 ms lies outside 10…10000 ms"),
        (f"{RAW}&utterance_end_ms=50", "utterance_end_ms", "utterance_end_ms: 50 ms lies outside 100…10000 ms"),
        (f"{RAW}&channels={'9' * 30}", "channels", "channels: a number of 30 digits, the limit is 9"),
        (f"{RAW}&model=my-model", "model", "'my-model' is not loaded; 'pocket' is"),
        (f"{RAW}&sampel_rate=8000", "sampel_rate", "sampel_rate: no such parameter"),
        (f"{RAW}&keyterm={'word+' * 201}", "keyterm", "keyterm: 201 words, the limit is 200"),
    ],
)
def test_what_is_wrong_is_named_with_its_limit(query: str, param: str, says: str) -> None:
    with pytest.raises(Refused) as error:
        parse(query.encode(), "pocket")
    assert says in error.value.message
    assert (error.value.status, error.value.param) == (400, param)


@given(st.binary(max_size=200) | st.text(st.sampled_from("encodisamplrt_chl=&%+-0169aF")).map(str.encode))
def test_any_query_is_read_or_refused(query: bytes) -> None:
    for full in (query, RAW.encode() + b"&" + query):
        try:
            parse(full, "pocket")
        except Refused as refused:
            assert refused.status == 400


def test_documentation_lists_what_is_not_honoured_and_what_is() -> None:
    text = (Path(__file__).parents[3] / "docs" / "deepgram.md").read_text(encoding="utf-8")
    section = text.partition("Accepted, not honoured")[2].partition("Any other name")[0]
    assert set(re.findall(r"`([a-z_]+)`", section)) == NOT_HONOURED
    for name in HONOURED:
        assert f"`{name}`" in text or f"`{name}=" in text, name
