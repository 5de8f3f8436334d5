"""ElevenLabs' names of audio formats: codec, sample rate and kilobits a second, as in ``mp3_44100_128``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from audio import encoder
from audio.encoder import MEDIA_TYPES, Encoder
from daemon.parameters import wrong

_PCM_RATES: Final = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_MP3: Final = ((22_050, 32), (24_000, 48), (44_100, 32), (44_100, 64), (44_100, 96), (44_100, 128), (44_100, 192))
_OPUS_KILOBITS: Final = (32, 64, 96, 128, 192)


@dataclass(frozen=True, slots=True)
class Format:
    """An audio format. ``encoder`` makes a new encoder for it; ``rate`` is in Hz."""

    encoder: Callable[[], Encoder]
    media_type: str
    rate: int


def _compressed(name: str, rate: int, kilobits: int) -> Format:
    return Format(partial(encoder.file, name, rate, 1000 * kilobits), MEDIA_TYPES[name], rate)


FORMATS: Final[Mapping[str, Format]] = {
    **{f"mp3_{rate}_{kilobits}": _compressed("mp3", rate, kilobits) for rate, kilobits in _MP3},
    **{f"opus_48000_{kilobits}": _compressed("opus", 48_000, kilobits) for kilobits in _OPUS_KILOBITS},
    **{f"pcm_{rate}": Format(partial(encoder.raw, "linear16", rate), "audio/pcm", rate) for rate in _PCM_RATES},
    **{f"wav_{rate}": Format(partial(encoder.wav, "linear16", rate), "audio/wav", rate) for rate in _PCM_RATES},
    "ulaw_8000": Format(partial(encoder.raw, "mulaw", 8_000), "audio/PCMU;rate=8000", 8_000),
    "alaw_8000": Format(partial(encoder.raw, "alaw", 8_000), "audio/PCMA;rate=8000", 8_000),
}
"""The names of ElevenLabs' ``output_format`` (elevenlabs 2.78, ``types/output_format.py``)."""
USUAL: Final = "mp3_44100_128"
"""The format if a request names none, as at ElevenLabs."""


def format(asked: str) -> Format:
    """The format of that name.

    Raises:
        Refused: 400, there is no such format.
    """
    found = FORMATS.get(asked.lower())
    if found is None:
        raise wrong("output_format", f"output_format: {asked[:80]!r} is none of {', '.join(FORMATS)}")
    return found
