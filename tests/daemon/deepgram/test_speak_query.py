"""Deepgram's parameters of ``/v1/speak``: known ones checked, unknown ones named."""

import string
from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.deepgram.speak_query import HONOURED, parse
from daemon.parameters import SEED_BITS
from daemon.refusal import Refused

NAMES = sorted(HONOURED | {"bit_rate", "callback", "tag"})


def test_nothing_at_all_is_enough() -> None:
    request = parse(b"", "pocket")
    assert (request.encoding, request.sample_rate, request.marks) == ("linear16", 24_000, False)
    assert request.options.voice is request.options.language is request.options.instructions is None
    assert request.options.seed is not None and request.options.seed < 2**SEED_BITS
    assert request.options.sample_rate == 24_000


@pytest.mark.parametrize(("encoding", "rate"), [("MULAW", 8_000), ("alaw", 8_000), ("float32", 24_000)])
def test_every_encoding_has_its_usual_rate(encoding: str, rate: int) -> None:
    request = parse(f"encoding={encoding}".encode(), "pocket")
    assert (request.encoding, request.sample_rate, request.options.sample_rate) == (encoding.lower(), rate, rate)


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("model=aura-2-thalia-en", "en"), ("model=aura-asteria-en", "en"), ("model=aura-2-celeste-es", "es"),
        ("model=aura-2-celeste-es&language=en", "en"), ("model=aura-2", None), ("model=pocket", None), ("", None),
    ],
)  # fmt: skip
def test_an_aura_name_brings_its_language(query: str, language: str | None) -> None:
    assert parse(query.encode(), "pocket").options.language == language


def test_what_is_not_honoured_is_named() -> None:
    request = parse(b"tag=a&tag=b&callback=http://example.org&bit_rate=0", "pocket")
    assert request.warnings == ("tag: not honoured", "callback: not honoured")


@pytest.mark.parametrize(
    "query", ["speed=1&speed=2", "seed=1&seed=1", "speed=1e3", "speed=", "seed=-1", "sample_rate=٨"]
)
def test_twice_and_half_numbers_are_refused(query: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(query.encode(), "pocket")
    assert (refused.value.status, refused.value.param) == (400, query.partition("=")[0])


@given(st.dictionaries(st.sampled_from(NAMES), st.text(string.printable, max_size=12), max_size=5))
@example({"speed": "inf"})
@example({"sample_rate": "9" * 30})
def test_any_values_give_a_request_or_a_reason(values: dict[str, str]) -> None:
    try:
        request = parse(urlencode(values).encode(), "pocket")
    except Refused as refused:
        assert refused.status == 400
        assert refused.param in NAMES and refused.message.startswith(refused.param)
    else:
        assert 8_000 <= request.sample_rate <= 48_000
        assert 0.25 <= request.options.speed <= 4


@given(st.binary(max_size=60))
def test_any_query_string_gives_a_request_or_a_reason(query: bytes) -> None:
    try:
        parse(query, "pocket")
    except Refused as refused:
        assert refused.status == 400
