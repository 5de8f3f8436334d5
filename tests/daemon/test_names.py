"""Other servers' names of models, voices and languages, and their fields: one table each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.fields import Fields, asks, unsafe
from daemon.names import check_model, is_voice_alias, language, means_model
from daemon.refusal import Refused

HEARS = (
    "whisper-1", "small", "turbo", "large-v3", "large-v3-turbo", "base.en", "tiny.en", "medium", "distil-large-v3",
    "gpt-4o-transcribe", "gpt-4o-transcribe-diarize", "Systran/faster-whisper-small", "ggml-base.en.bin", "nova-3",
    "openai/whisper-large-v3", "deepdml/faster-whisper-large-v3-turbo-ct2", "nvidia/parakeet-tdt-0.6b-v3", "scribe_v1",
    "vosk-model-small-en-us-0.15", "Qwen/Qwen3-ASR-0.6B", "mlx-community/whisper-turbo", "universal", "default",
)  # fmt: skip
SPEAKS = (
    "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "aura-2-thalia-en", "kokoro", "hexgrad/Kokoro-82M", "orpheus", "dia",
    "speaches-ai/Kokoro-82M-v1.0-ONNX", "eleven_multilingual_v2", "eleven_turbo_v2_5", "eleven_flash_v2_5", "sonic-2",
    "canopylabs/orpheus-3b-0.1-ft", "voice-en-us-amy-low", "playai-tts", "XTTS-v2", "chatterbox", "default",
)  # fmt: skip
VOICES = (
    "alloy", "ALLOY", "default", "tara", "Rachel", "af_sky", "af_bella+af_sky", "af_bella(2)+af_sky(1)", "bm_george",
    "en_US-lessac-medium", "21m00Tcm4TlvDq8ikWAM", "en-US-AvaNeural", "aura-2-thalia-en", "Fritz-PlayAI", "Kore", "Leo",
)  # fmt: skip


@pytest.mark.parametrize("name", HEARS)
def test_a_name_of_a_recogniser_means_the_hearing_model(name: str) -> None:
    assert check_model(name, "pocket", "hears", strict=False, status=404) == (
        [] if name == "default" else [f"model: '{name}' is pocket here"]
    )
    assert not means_model(name, "speaks") or name == "default"


@pytest.mark.parametrize("name", SPEAKS)
def test_a_name_of_a_voice_model_means_the_speaking_model(name: str) -> None:
    check_model(name, "pocket", "speaks", strict=False, status=404)
    assert not means_model(name, "hears") or name == "default"


@pytest.mark.parametrize("name", ["my-model", "gpt-5", "llama-3", "clip", "../etc/passwd", "a" * 999, "embed"])
def test_other_names_mean_nothing(name: str) -> None:
    for does in ("hears", "speaks"):
        with pytest.raises(Refused) as refused:
            check_model(name, "pocket", does, strict=False, status=404)
        assert refused.value.param == "model" and len(refused.value.message) < 200


@pytest.mark.parametrize("name", VOICES)
def test_a_name_of_anothers_voice_means_the_first(name: str) -> None:
    assert is_voice_alias(name)
    assert is_voice_alias(name, strict=True) == (name.lower() in ("alloy", "default"))


@pytest.mark.parametrize(
    "name", ["nobody", "maeve", "owen", "my-voice", "", "../../etc/passwd", "x" * 999, "grandmother"]
)
def test_other_voices_are_what_they_are_called(name: str) -> None:
    assert not is_voice_alias(name)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("english", "en"), ("English", "en"), ("en", "en"), ("eng", "en"), ("a", "en"), ("b", "en"), ("en-US", "en-US"),
        ("en_GB", "en_GB"), ("german", "de"), ("deu", "de"), ("z", "zh"), ("mandarin", "zh"), ("Klingon", "Klingon"),
        ("auto", None), ("", None), (None, None), ("multi", None), ("None", None), ("detect", None), ("jp", "ja"),
    ],
)  # fmt: skip
def test_languages_by_any_name(asked: str | None, code: str | None) -> None:
    assert language(asked) == code


FIELDS = Fields(frozenset({"input", "speed"}), {"text": "input"}, idle=frozenset({"user"}))


def test_fields_are_taken_passed_over_ignored_or_refused() -> None:
    """By name; ours counts more than another's for the same."""
    found = FIELDS.understood([("text", "a"), ("speed[]", "2"), ("user", "me"), ("colour", "blue")], strict=False)
    assert found.values == {"input": ["a"], "speed": ["2"]}
    assert (found.name("input"), found.name("speed")) == ("text", "speed[]")
    assert found.warnings == ["colour: not honoured"]
    both = FIELDS.understood([("text", "a"), ("input", "b"), ("colour", "false")], strict=False)
    assert both.values == {"input": ["b"]} and both.warnings == ["text: not honoured"]
    with pytest.raises(Refused, match="colour: no such field here"):
        FIELDS.understood([("colour", "blue")], strict=True)
    assert FIELDS.understood([("colour", False), ("shape", None), ("n", 0)], strict=True).warnings == []


@pytest.mark.parametrize(
    "name", ["redact", "redact_pii", "profanity_filter", "filter_profanity", "replace", "translate"]
)
def test_what_the_answer_would_hide_is_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        FIELDS.understood([(name, "true")], strict=False)
    assert refused.value.param == name and "; leave it out" in refused.value.message
    for off in ("false", "", None, False, []):
        FIELDS.understood([(name, off)], strict=False)


@given(st.lists(st.tuples(st.text(max_size=80), st.none() | st.booleans() | st.integers() | st.text(max_size=9))))
def test_any_fields_are_sorted_out(given_fields: list[tuple[str, object]]) -> None:
    """Bounded, whatever comes."""
    try:
        found = FIELDS.understood(given_fields, strict=False)
    except Refused as refused:
        assert refused.status == 400 and refused.param is not None and len(refused.param) <= 64
    else:
        assert len(found.warnings) <= 17 and found.values.keys() <= {"input", "speed"}
    assert all(unsafe(name) is None or isinstance(unsafe(name), str) for name, _ in given_fields)
    assert not asks("off") and asks("pci")
