"""What a session may choose: one value, checked once, before any text arrives."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from codec.sampling import Sampling
from codec.sounds.lexicon import Lexicon
from engines.sessions import OptionError

SPEEDS: Final = (0.25, 4.0)
SAMPLE_RATES: Final = (8_000, 48_000)
INSTRUCTION_CHARS: Final = 2_000
SEEDS: Final = 2**63
PAUSES: Final = (0.0, 4.0)
Hold = Literal["auto", "phrase", "word"]
HOLDS: Final[tuple[Hold, ...]] = get_args(Hold)


@dataclass(frozen=True, slots=True)
class SpeakOptions:
    """Options of one speaking session.

    Attributes:
        voice: id of a preset or stored voice, None for the model's first.
        language: ISO 639-1 code or the model's own name of the language; None lets the model tell.
        instructions: how to speak, in words; only models that follow instructions take them.
        speed: 1 as the model speaks, 2 twice as fast; the pitch stays.
        seed: the same seed, text and options give the same codes; None draws one (``Speaker.seed`` tells which).
        sample_rate: of the audio given out, in Hz; None for the model's own.
        sampling: how codes are drawn; None for the model's own settings.
        pauses: how long the pauses between sentences, lines and paragraphs are, as a multiple of a reader's; 0 leaves
            them as the model speaks. None: 1, or what the daemon was set to.
        word_times: find out when each word was spoken (``PieceMark.words``).
        normalise: turn digits, dates, units and abbreviations into words (English only).
        hold: when a piece begins: with its first word, with its whole phrase, or with the first word of text that
            arrives faster than it is spoken and with the phrase of slower text (``codec.arrival``).
        lexicon: the user's own pronunciations, before the model's dictionary; only for models that read sounds.
    """

    voice: str | None = None
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    seed: int | None = None
    sample_rate: int | None = None
    sampling: Sampling | None = None
    normalise: bool = True
    pauses: float | None = None
    word_times: bool = False
    hold: Hold = "auto"
    lexicon: Lexicon | None = None

    def __post_init__(self) -> None:
        low, high = SPEEDS
        if not low <= self.speed <= high:
            raise OptionError("speed", f"{self.speed:g} lies outside {low:g}…{high:g}")
        low, high = PAUSES
        if self.pauses is not None and not low <= self.pauses <= high:
            raise OptionError("pauses", f"{self.pauses:g} lies outside {low:g}…{high:g}")
        if self.hold not in HOLDS:
            raise OptionError("hold", f"{self.hold!r} is none of {', '.join(HOLDS)}")
        if self.seed is not None and not 0 <= self.seed < SEEDS:
            raise OptionError("seed", f"{self.seed} lies outside 0…2⁶³ − 1")
        least, most = SAMPLE_RATES
        if self.sample_rate is not None and not least <= self.sample_rate <= most:
            raise OptionError("sample_rate", f"{self.sample_rate} Hz lies outside {least}…{most} Hz")
        if self.instructions is not None and len(self.instructions) > INSTRUCTION_CHARS:
            raise OptionError("instructions", f"{len(self.instructions)} characters, the limit is {INSTRUCTION_CHARS}")
