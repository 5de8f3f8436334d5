"""The options of a request to speak: fields of the body or of a stream's first message, and parameters of the query."""

from typing import Any, Final

import msgspec

from codec.options import SpeakOptions
from daemon import body
from daemon.elevenlabs.formats import USUAL, Format, format
from daemon.fields import Fields, Understood
from daemon.names import check_model, language
from daemon.parameters import Query, asked
from daemon.refusal import Refused
from engines.sessions import OptionError

QUERY: Final = Fields(
    frozenset({"output_format", "model", "language", "sync_alignment"}),
    {"model_id": "model", "language_code": "language"},
    # These change nothing: sound is always sent at once, no request is kept, and the daemon's settings end a stream.
    idle=frozenset({"enable_logging", "optimize_streaming_latency", "auto_mode",
                    "inactivity_timeout", "enable_ssml_parsing", "apply_text_normalization"}),
    code="invalid_query",
)  # fmt: skip
BODY: Final = Fields(
    frozenset({"text", "model", "language", "voice_settings", "seed", "apply_text_normalization"}),
    {"model_id": "model", "language_code": "language"},
    # These change nothing: each request is spoken by itself, in the voice as it is.
    idle=frozenset({"previous_text", "next_text", "previous_request_ids", "next_request_ids", "use_pvc_as_ivc",
                    "apply_language_text_normalization"}),
    code="invalid_body",
)  # fmt: skip


class VoiceSettings(msgspec.Struct):
    """The settings of a voice, of which only the speed has an effect. Others tune ElevenLabs' own models."""

    speed: float | None = None


class Asked(msgspec.Struct):
    """The fields of a body: a text, and how it is to be spoken."""

    text: str = ""
    model: str | None = None
    language: str | None = None
    voice_settings: VoiceSettings | None = None
    seed: int | None = None
    apply_text_normalization: str | None = None


def understood(given: dict[str, Any], *, strict: bool) -> tuple[Asked, Understood[Any]]:
    """Read the fields of a body.

    Raises:
        Refused: 400, naming a field that is wrong, or that a strict daemon does not know.
    """
    found = BODY.understood(given.items(), strict=strict)
    return body.converted({name: values[-1] for name, values in found.values.items()}, Asked), found


def queried(query_string: bytes, model: str, *, strict: bool) -> tuple[Query, Format]:
    """Read the parameters of a query, and the audio format that they name.

    Raises:
        Refused: 400, naming a parameter that is wrong.
    """
    query = asked(query_string, QUERY, model, "speaks", strict=strict)
    return query, format(query.one.get("output_format", USUAL))


def options(
    wanted: Asked, voice: str, query: Query, rate: int, model: str, *, strict: bool, word_times: bool = False
) -> SpeakOptions:
    """The options for a speaker. Warnings are added to those of the query.

    Args:
        rate: the sample rate in Hz.
        model: the name of the loaded model.
        word_times: whether the times of words are wanted.

    Raises:
        Refused: 400, naming a field that is wrong; 404, another model is asked for.
    """
    query.warnings.extend(check_model(wanted.model or "", model, "speaks", strict=strict, status=404))
    settings = wanted.voice_settings or VoiceSettings()
    try:
        return SpeakOptions(
            voice=voice,
            language=language(wanted.language or query.one.get("language")),
            sample_rate=rate,
            speed=1.0 if settings.speed is None else settings.speed,
            seed=wanted.seed,
            word_times=word_times,
            normalise=(wanted.apply_text_normalization or "auto").lower() != "off",
        )
    except OptionError as error:
        raise Refused(400, "invalid_field", str(error), param=error.field) from None
