"""Deepgram's query parameters: honoured, accepted with a warning, or refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.pcm import Shape
from daemon.deepgram.listen_query import CONTAINED, SHORTEST_ENDPOINT, parse
from daemon.refusal import Refused
from streaming.options import ListenOptions
from streaming.turn import DEFAULT, Turn

RAW = "encoding=linear16&sample_rate=16000"


def test_defaults_are_the_listeners_own() -> None:
    request = parse(RAW.encode(), "pocket")
    assert request.options == ListenOptions(interim=False)
    assert request.shape == Shape("linear16", 16_000, 1)
    assert (request.vad_events, request.punctuate, request.warnings) == (False, True, ())
    assert not request.multichannel


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
    assert request.shape == Shape("mulaw", 8_000, 2)
    assert request.vad_events and not request.punctuate
    assert request.warnings == ("keywords: taken as keyterms, their intensifiers are ignored",)


def test_a_keyword_to_be_heard_less_is_not_heard_more() -> None:
    request = parse(f"{RAW}&keywords=Oslo:-2&keywords=Kyoto".encode(), "pocket")
    assert request.options.keyterms == ("Kyoto",)
    assert "1 with a negative one left out" in request.warnings[0]


@pytest.mark.parametrize(
    ("value", "seconds"), [("false", None), ("true", DEFAULT), ("turn", Turn()), ("300", 0.3), ("0.5", "error")]
)
def test_endpointing(value: str, seconds: Turn | float | str | None) -> None:
    query = f"{RAW}&endpointing={value}".encode()
    if seconds == "error":
        with pytest.raises(Refused, match="endpointing: '0.5' is not a whole number"):
            parse(query, "pocket")
    else:
        assert parse(query, "pocket").options.endpointing == seconds


@pytest.mark.parametrize(
    ("value", "seconds", "says"),
    [
        ("0", None, "0 is taken as false"),
        ("25", 0.3, "25 ms is raised to 300 ms"),
        ("299", 0.3, "raised"),
        ("1", 0.3, "1 ms"),
    ],
)
def test_an_endpointing_that_cuts_sentences_is_raised_with_a_warning(
    value: str, seconds: float | None, says: str
) -> None:
    request = parse(f"{RAW}&endpointing={value}".encode(), "pocket")
    assert request.options.endpointing == seconds
    assert len(request.warnings) == 1 and says in request.warnings[0]
    assert parse(f"{RAW}&endpointing={SHORTEST_ENDPOINT}".encode(), "pocket").warnings == ()


@pytest.mark.parametrize("name", ["smart_format", "dictation", "numerals", "callback", "extra", "unheard_of", "tag"])
def test_what_is_not_honoured_is_named_unless_it_is_off(name: str) -> None:
    """Also what nobody knows: it must not keep a client out."""
    assert parse(f"{RAW}&{name}=true".encode(), "pocket").warnings == (f"{name}: not honoured",)
    assert parse(f"{RAW}&{name}=false&{name}=false".encode(), "pocket").warnings == ()


@pytest.mark.parametrize(
    "query", ["", "model=nova-3&interim_results=true", *(f"encoding={name}" for name in CONTAINED)]
)
def test_without_an_encoding_of_raw_audio_a_container_is_expected(query: str) -> None:
    """The README's form; the sample rate is then the container's own."""
    assert parse(query.encode(), "pocket").shape is None
    assert "counts for nothing" in parse(b"sample_rate=16000", "pocket").warnings[0]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("channels=2", "channels: without encoding it counts for nothing"),
        ("encoding=opus&sample_rate=many", "sample_rate: with encoding=opus it counts for nothing"),
        ("encoding=opus&channels=2", "channels: with encoding=opus it counts for nothing"),
        ("detect_language=fr&language=en-GB", "language: en-GB is not forced, because detect_language"),
        ("speaker_merged=true", "speaker_merged: without diarize nobody is told apart"),
    ],
)
def test_what_counts_for_nothing_beside_the_others_is_told(query: str, says: str) -> None:
    request = parse(query.encode(), "pocket")
    assert len(request.warnings) == 1 and request.warnings[0].startswith(says)
    assert parse(b"detect_language=fr&language=multi&diarize=true&speaker_merged=true", "pocket").warnings == ()


def test_linear32_is_float32() -> None:
    request = parse(b"encoding=linear32&sample_rate=16000", "pocket")
    assert request.shape == Shape("float32", 16_000, 1)
    assert request.shape is not None


@pytest.mark.parametrize("language", ["multi", "auto", ""])
def test_languages_that_leave_it_to_the_model(language: str) -> None:
    assert parse(f"{RAW}&language={language}".encode(), "pocket").options.language is None


@pytest.mark.parametrize(
    ("query", "param", "says"),
    [
        ("encoding=linear16", "sample_rate", "sample_rate: linear16 needs it"),
        ("encoding=linear16&sample_rate=", "sample_rate", "sample_rate: linear16 needs it"),
        ("encoding=speex", "encoding", "encoding: 'speex' is none of linear16, float32, mulaw, alaw, opus, ogg-opus"),
        ("encoding=linear16&sample_rate=7999", "sample_rate", "7999 Hz lies outside 8000…48000 Hz"),
        ("encoding=linear16&sample_rate=96000", "sample_rate", "96000 Hz lies outside 8000…48000 Hz"),
        ("encoding=linear16&sample_rate=16k", "sample_rate", "'16k' is not a whole number"),
        ("encoding=linear16&sample_rate=-16000", "sample_rate", "'-16000' is not a whole number"),
        ("encoding=linear16&sample_rate=16000&sample_rate=8000", "sample_rate", "given 2 times"),
        (f"{RAW}&channels=9", "channels", "9 lies outside 1…8"),
        (f"{RAW}&channels=0", "channels", "0 lies outside 1…8"),
        (f"{RAW}&interim_results=1", "interim_results", "'1' is not true or false"),
        (f"{RAW}&endpointing=10001", "endpointing", "endpointing: 10001 ms lies outside 1…10000 ms"),
        (f"{RAW}&endpointing=", "endpointing", "endpointing: '' is not a whole number"),
        (f"{RAW}&detect_language=klingon", "detect_language", "is not true, false or the code of a language"),
        (f"{RAW}&utterance_end_ms=50", "utterance_end_ms", "utterance_end_ms: 50 ms lies outside 100…10000 ms"),
        (f"{RAW}&channels={'9' * 30}", "channels", "channels: a number of 30 digits, the limit is 9"),
        (f"{RAW}&model=my-model", "model", "'my-model' is not loaded; 'pocket' is"),
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
