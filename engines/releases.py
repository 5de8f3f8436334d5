"""The published checkpoints that hearsay runs, with their names, sizes and languages.

Parameters are counted from the dimensions in the published configurations; ``engines.speed`` estimates by them what a
model costs before it is downloaded. Languages and licences are those of the model cards on the hub.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

Kind = Literal["asr", "tts", "aligner"]

DOES: Final[dict[str, str]] = {"asr": "hears", "tts": "speaks", "aligner": "times words"}


@dataclass(frozen=True, slots=True)
class Weights:
    """How many parameters a model has in each part: in its encoder or codec, in the decoder that makes text or frames,
    and in the layers of its code predictor."""

    encoder: int
    decoder: int
    predictor: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """A published checkpoint."""

    alias: str
    repository: str
    kind: Kind
    bytes: int
    """The size of its download."""
    weights: Weights
    languages: str
    licence: str = "Apache-2.0"
    about: str = ""


_ASR: Final = "30 languages, 22 Chinese dialects"
_TTS: Final = "zh en ja ko de fr ru pt es it"
_M: Final = 1_000_000


def _asr(size: str, download: float, encoder: int, decoder: int) -> Release:
    return Release(
        f"qwen3-asr-{size.lower()}", f"Qwen/Qwen3-ASR-{size}", "asr", round(download * 1e9),
        Weights(encoder * _M, decoder * _M), _ASR,
    )  # fmt: skip


def _tts(size: str, variant: str, download: float, talker: int, about: str) -> Release:
    return Release(
        f"qwen3-tts-{size.lower()}-{variant.lower()}", f"Qwen/Qwen3-TTS-12Hz-{size}-{variant}", "tts",
        round(download * 1e9), Weights(114 * _M, talker * _M, 79 * _M), _TTS, about=about,
    )  # fmt: skip


RELEASES: Final = (
    _asr("0.6B", 1.9, 187, 596),
    _asr("1.7B", 4.7, 318, 1721),
    Release(
        "qwen3-forced-aligner-0.6b", "Qwen/Qwen3-ForcedAligner-0.6B", "aligner", 1_840_000_000,
        Weights(318 * _M, 596 * _M), "zh yue en fr de it ja ko pt ru es", about="word times for a hearing model",
    ),
    Release(
        "fun-asr-nano", "FunAudioLLM/Fun-ASR-Nano-2512", "asr", 2_000_000_000, Weights(234 * _M, 596 * _M), "zh en ja",
    ),
    _tts("0.6B", "CustomVoice", 2.5, 444, "nine voices"),
    _tts("0.6B", "Base", 2.5, 444, "clones a voice"),
    _tts("1.7B", "CustomVoice", 4.5, 1420, "nine voices, follows instructions"),
    _tts("1.7B", "Base", 4.5, 1420, "clones a voice"),
    _tts("1.7B", "VoiceDesign", 4.5, 1420, "a voice by its description"),
)  # fmt: skip
"""All releases, in the order in which ``hearsay models list --available`` shows them."""

_SHORT: Final = {"qwen3-tts-0.6b": "qwen3-tts-0.6b-customvoice", "qwen3-tts-1.7b": "qwen3-tts-1.7b-customvoice"}
"""Names without a variant mean the one that has voices, which needs no recording or description of a voice."""


def find(name: str) -> Release | None:
    """The release with that alias or repository, whatever the case of the letters; None if there is none."""
    asked = name.strip().lower()
    asked = _SHORT.get(asked, asked)
    return next((one for one in RELEASES if asked in (one.alias, one.repository.lower())), None)


def near(name: str, others: tuple[str, ...] = ()) -> str:
    """Up to three names of releases and ``others`` that are most like ``name``, joined for people; empty if none is
    like it."""
    names = {one.lower(): one for one in (*others, *(release.alias for release in RELEASES))}
    found = get_close_matches(name.lower().rpartition("/")[2], names, 3, 0.6)
    return " or ".join(names[one] for one in found)
