"""What others call things: one table of the models, voices and languages of other servers, used at every door alike.

A client that was set up for another server asks for what that one has: ``whisper-1``, ``Rachel``, ``english``. The
names of the cloud services whose protocols are spoken here (OpenAI, Deepgram) always mean what is loaded; those of all
other servers do unless the daemon is strict, and the client is told.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from codec.languages import LANGUAGES as SPOKEN_LANGUAGES
from daemon.loading import Models
from daemon.refusal import Refused
from streaming.prompt import LANGUAGES as HEARD_LANGUAGES

Does = Literal["hears", "speaks"]
"""What a model is for."""

_CLOUD_MODELS: Final[Mapping[Does, tuple[str, ...]]] = {
    "hears": (
        "default",
        # Deepgram
        "nova", "nova-*", "flux", "flux-*", "enhanced", "enhanced-*", "base", "base-*", "general", "general-*",
        "meeting", "phonecall", "voicemail", "finance", "conversationalai", "video", "medical", "drivethru",
        "automotive", "whisper", "whisper-*",
        # OpenAI
        "gpt-4o-transcribe", "gpt-4o-transcribe-*", "gpt-4o-mini-transcribe", "gpt-4o-mini-transcribe-*",
        "gpt-transcribe", "gpt-transcribe-*", "gpt-live-transcribe", "gpt-realtime-whisper",
    ),
    "speaks": (
        "default",
        "aura", "aura-*", "flux", "flux-*",  # These are Deepgram's.
        "tts-1", "tts-1-*", "gpt-4o-mini-tts", "gpt-4o-mini-tts-*",  # These are OpenAI's.
    ),
}  # fmt: skip
"""Patterns of the names of models at OpenAI and Deepgram."""

_WHISPER_SIZES: Final = ("tiny", "base", "small", "medium", "large", "turbo")
_OTHER_MODELS: Final[Mapping[Does, tuple[str, ...]]] = {
    "hears": (
        # Whisper's own names, as faster-whisper, whisper.cpp, openai-whisper and their servers have them.
        *_WHISPER_SIZES, *(f"{size}.??" for size in _WHISPER_SIZES), *(f"{size}-*" for size in _WHISPER_SIZES),
        *(f"ggml-{size}*" for size in _WHISPER_SIZES), *(f"*/{size}*" for size in _WHISPER_SIZES),
        "*whisper*", "distil-*", "*/distil-*", "crisper*",
        # Other open recognisers
        "*parakeet*", "*canary*", "*moonshine*", "*qwen*asr*", "*voxtral*", "*vosk*", "*sensevoice*", "*paraformer*",
        "*fun-asr*", "*funasr*", "*zipformer*", "*wav2vec*", "*conformer*", "*kyutai/stt*", "*granite-speech*",
        "*nemotron*asr*", "*omniasr*", "*canary-qwen*", "*kroko*", "*gigaam*", "*citrinet*", "stt_*", "stt-*",
        # ElevenLabs, AssemblyAI, Cartesia, Google, Speechmatics, Gladia, Groq, Soniox, Azure
        "scribe*", "universal", "universal-*", "best", "nano", "slam-1", "ink-*", "chirp*", "latest_*", "telephony*",
        "standard", "solaria*", "stt-rt-*", "azure*speech*", "transcribe", "transcribe-*",
    ),
    "speaks": (
        # Open voices
        "*kokoro*", "*piper*", "voice-[a-z][a-z]*", "*orpheus*", "*xtts*", "*chatterbox*", "*qwen*tts*", "*bark*",
        "*parler*", "*f5-tts*", "*f5tts*", "*cosyvoice*", "*melo*tts*", "*vits*", "*coqui*", "*tacotron*", "*fish*",
        "*openaudio*", "dia", "dia-*", "*/dia-*", "*sesame*", "csm", "csm-*", "*higgs*", "*vibevoice*", "*zonos*",
        "*pocket-tts*", "*pockettts*", "*kitten*tts*", "*outetts*", "*spark-tts*", "*index*tts*", "*neutts*",
        "*styletts*", "*speecht5*", "*supertonic*", "*soprano*", "*maya1*", "*tortoise*", "*espeak*", "*marytts*",
        "*kyutai/tts*", "*voxcpm*", "*glm-tts*", "tts", "tts-*", "edge-tts", "edge*",
        # ElevenLabs, Cartesia, OpenAI's chat models that speak, Groq, Google, Hume, Rime, Inworld, MiniMax, LMNT, Azure
        "eleven_*", "eleven-*", "elevenlabs*", "sonic", "sonic-*", "gpt-audio*", "gpt-4o-audio*", "gpt-4o-mini-audio*",
        "playai-*", "playht*", "play3*", "gemini-*-tts*", "octave*", "mist*", "arcana*", "inworld-*", "speech-0?*",
        "speech-[0-9]*", "aurora*", "blizzard*", "lmnt*", "azure*tts*", "neural", "standard", "generative", "long-form",
    ),
}  # fmt: skip
"""Patterns of the names that other servers give to their models."""

_CLOUD_VOICES: Final = frozenset({
    "default",
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
})  # fmt: skip
"""OpenAI's voices."""

_UNASKED_VOICES: Final = frozenset({"rachel", "adam", "tara", "alba", "vivian", "puck", "zephyr", "kore", "joanna"})
"""Names of voices that clients of other servers send although nobody chose one."""
_OTHER_VOICES: Final = frozenset({
    # ElevenLabs
    "rachel", "domi", "bella", "antoni", "elli", "josh", "arnold", "adam", "sam", "aria", "roger", "sarah", "laura",
    "charlie", "george", "callum", "river", "liam", "charlotte", "alice", "matilda", "will", "jessica", "eric", "chris",
    "brian", "daniel", "lily", "bill", "dorothy", "thomas", "emily", "nicole", "glinda", "clyde", "paul", "dave", "fin",
    "drew", "patrick", "harry", "michael", "ethan", "gigi", "freya", "grace", "serena", "mimi", "jeremy", "joseph",
    "james", "giovanni", "dorothy", "santa claus", "natasha", "hope",
    # Orpheus
    "tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe",
    # Qwen3-TTS
    "vivian", "uncle_fu", "dylan", "ryan", "aiden", "ono_anna", "sohee",
    # Pocket TTS
    "alba", "marius", "javert", "jean", "fantine", "cosette", "eponine", "azelma",
    # Gemini
    "zephyr", "puck", "charon", "kore", "fenrir", "leda", "orus", "aoede", "callirrhoe", "autonoe", "enceladus",
    "iapetus", "umbriel", "algieba", "despina", "erinome", "algenib", "rasalgethi", "laomedeia", "achernar", "alnilam",
    "schedar", "gacrux", "pulcherrima", "achird", "zubenelgenubi", "vindemiatrix", "sadachbia", "sadaltager", "sulafat",
    # Amazon Polly
    "joanna", "matthew", "ivy", "kendra", "kimberly", "salli", "joey", "justin", "kevin", "ruth", "stephen", "amy",
    "emma", "brian", "arthur", "olivia", "danielle", "gregory", "aria",
    # No voice in particular
    "auto", "random", "none", "male", "female", "man", "woman", "narrator",
})  # fmt: skip
"""Names of voices of other servers, which are plain first names."""
_OTHER_VOICE_PATTERNS: Final = (
    "[a-z][fm]_*",  # Kokoro: af_sky, bm_george, and mixtures (af_bella+af_sky, af_bella(2)+af_sky(1))
    "[a-z][a-z]_[a-z][a-z]-*",  # Piper: en_us-lessac-medium
    "[a-z][a-z]-[a-z][a-z]-*",  # Azure, Edge, Google: en-us-avaneural, en-us-wavenet-d
    "aura-*", "flux-*",  # These are Deepgram's.
    "*-playai", "*-english", "expr-voice-*", "voice-[0-9]*", "female_*", "male_*", "female-*", "male-*", "speaker_*",
)  # fmt: skip
"""Patterns of other servers' names of voices, in lower case."""
_VOICE_IDS: Final = re.compile(
    r"(?=[a-z]*[A-Z0-9])(?=.*[0-9])[A-Za-z0-9]{20}"  # ElevenLabs: 21m00Tcm4TlvDq8ikWAM
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # Cartesia
)

_ANY_LANGUAGE: Final = frozenset({"", "auto", "multi", "detect", "detected", "none", "null", "und", "any", "automatic"})
"""Words that callers write where the model is to tell the language."""

_KOKORO_LANGUAGES: Final = {
    "a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh",
}  # fmt: skip
"""Kokoro's codes of languages, in which *a* is American and *b* British English."""

_ISO_639_2: Final = {
    "eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es", "por": "pt", "ita": "it", "nld": "nl",
    "dut": "nl", "rus": "ru", "zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko", "ara": "ar", "tur": "tr",
    "hin": "hi", "msa": "ms", "may": "ms", "swe": "sv", "dan": "da", "fin": "fi", "pol": "pl", "ces": "cs", "cze": "cs",
    "tgl": "fil", "tl": "fil", "fas": "fa", "per": "fa", "ell": "el", "gre": "el", "ron": "ro", "rum": "ro",
    "hun": "hu", "mkd": "mk", "mac": "mk", "tha": "th", "vie": "vi", "ind": "id", "in": "id", "bul": "bg", "hrv": "hr",
    "est": "et", "gle": "ga", "lav": "lv", "lit": "lt", "mlt": "mt", "slk": "sk", "slo": "sk", "slv": "sl", "jp": "ja",
    "cn": "zh", "ukr": "uk", "heb": "he", "nor": "no", "cat": "ca",
}  # fmt: skip
"""Codes of three letters, and old codes, each with its code of two letters."""

_LANGUAGE_NAMES: Final = {
    **{name.lower(): code for code, name in HEARD_LANGUAGES.items()},
    **SPOKEN_LANGUAGES,
    "mandarin": "zh", "castilian": "es", "flemish": "nl", "farsi": "fa", "tagalog": "fil", "ukrainian": "uk",
    "hebrew": "he", "norwegian": "no", "catalan": "ca", "deutsch": "de", "español": "es", "français": "fr",
    "italiano": "it", "português": "pt",
}  # fmt: skip
"""The English names of languages, in lower case, each with its code."""


# ------------------------------------------------------------------------------------------------------------- models


def check_model(asked: str, loaded: str, does: Does, *, strict: bool, status: int) -> list[str]:
    """Accept the loaded model's name, a name that means it, or no name; returns a warning where another model is meant.

    Args:
        asked: what the caller wrote.
        loaded: the name of the loaded model.
        strict: names of servers other than OpenAI and Deepgram mean nothing.
        status: of the refusal.

    Raises:
        Refused: the name means no model here.
    """
    if asked in ("", "default") or asked.lower() == loaded.lower():
        return []
    if not means_model(asked, does, strict=strict):
        raise Refused(status, "model_not_found", f"model: {asked[:80]!r} is not loaded; {loaded!r} is", param="model")
    return [f"model: {asked[:80]!a} is {loaded} here"]


def means_model(asked: str, does: Does, *, strict: bool = False) -> bool:
    """Whether ``asked`` is another server's name of a model that ``does`` the same."""
    return _matches(asked, _CLOUD_MODELS[does]) or (not strict and _matches(asked, _OTHER_MODELS[does]))


def loaded_model(asked: str, models: Models, *, strict: bool) -> str:
    """The name of the loaded model that ``asked`` means.

    Raises:
        Refused: 404, it means none.
    """
    hearing, speaking = models.hearing.name, models.speaking.name if models.speaking else None
    if asked in (hearing, speaking):
        return asked
    if means_model(asked, "hears", strict=strict):
        return hearing
    if speaking is not None and means_model(asked, "speaks", strict=strict):
        return speaking
    told = f"{hearing!r}" + (f" and {speaking!r} are" if speaking else " is")
    raise Refused(404, "model_not_found", f"model: {asked[:80]!r} is not loaded; {told}", param="model")


# ------------------------------------------------------------------------------------------------------------- voices


def is_voice_alias(name: str, *, strict: bool = False) -> bool:
    """Whether a voice's name is another server's, and means the model's first voice where no voice has it.

    Args:
        name: as the caller wrote it, in any case of letters.
        strict: only OpenAI's names count, which mean that at every daemon.
    """
    return taken_voice(name, strict=strict) is not None or (not strict and name.strip().lower() in _OTHER_VOICES)


def taken_voice(name: str, *, strict: bool = False) -> str | None:
    """Why no stored voice may be called ``name``, for people; None where one may.

    Clients of other servers send such names and mean whatever voice is here. A voice stored under one of them would
    speak to all of them from then on, and whoever may speak may store. First names that are also another server's
    stay free: who asks for one of those has chosen it.

    Args:
        name: as the caller wrote it, in any case of letters.
        strict: as for :func:`is_voice_alias`.
    """
    plain = name.strip().lower()
    if plain in _CLOUD_VOICES:
        return "a name that clients of OpenAI's send for the first voice here"
    if strict:
        return None
    others = plain in _UNASKED_VOICES or _matches(plain, _OTHER_VOICE_PATTERNS) or _VOICE_IDS.fullmatch(name.strip())
    if others or (plain and means_model(plain, "speaks")):
        return "a name that clients of other servers send for the first voice here"
    return None


# ---------------------------------------------------------------------------------------------------------- languages


def language(asked: str | None) -> str | None:
    """The code of the language that a caller means; None where the model is to tell the language.

    ``english``, ``en-US``, ``en_US``, ``eng`` and Kokoro's ``a`` are all ``en``. What this table does not know is
    returned as it is, for the model to refuse in its own words.
    """
    plain = (asked or "").strip().lower()
    if plain in _ANY_LANGUAGE:
        return None
    if plain in _LANGUAGE_NAMES:
        return _LANGUAGE_NAMES[plain]
    code = plain.replace("_", "-").split("-")[0]
    if code in _KOKORO_LANGUAGES:
        return _KOKORO_LANGUAGES[code]
    return _ISO_639_2.get(code, (asked or "").strip())


def _matches(asked: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(asked.lower(), pattern) for pattern in patterns)
