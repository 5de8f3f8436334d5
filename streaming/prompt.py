"""The Qwen3-ASR conversation, token by token.

``<|im_start|>system\\n{context}<|im_end|>\\n<|im_start|>user\\n<|audio_start|>`` · audio rows ·
``<|audio_end|><|im_end|>\\n<|im_start|>assistant\\n`` and, where the language is forced, ``language
English<asr_text>``. Source: QwenLM/Qwen3-ASR, inference/qwen3_asr.py:446-465; language names utils.py:37-68. The
tokens the model answers with are ``language English<asr_text>text<|im_end|>``, or ``language None<asr_text>`` where
it hears no speech.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engines.manifest import ManifestError
from streaming.events import MARKS

QWEN: Final = {
    "zh": "Chinese", "en": "English", "yue": "Cantonese", "ar": "Arabic", "de": "German", "fr": "French",
    "es": "Spanish", "pt": "Portuguese", "id": "Indonesian", "it": "Italian", "ko": "Korean", "ru": "Russian",
    "th": "Thai", "vi": "Vietnamese", "ja": "Japanese", "tr": "Turkish", "hi": "Hindi", "ms": "Malay", "nl": "Dutch",
    "sv": "Swedish", "da": "Danish", "fi": "Finnish", "pl": "Polish", "cs": "Czech", "fil": "Filipino", "fa": "Persian",
    "el": "Greek", "ro": "Romanian", "hu": "Hungarian", "mk": "Macedonian",
}  # fmt: skip
"""The 30 languages of Qwen3-ASR: ISO 639-1 (639-3 where there is none) → the name that it was trained with."""
LANGUAGES: Final = {
    **QWEN, "bg": "Bulgarian", "hr": "Croatian", "et": "Estonian", "ga": "Irish", "lv": "Latvian", "lt": "Lithuanian",
    "mt": "Maltese", "sk": "Slovak", "sl": "Slovenian",
}  # fmt: skip
"""Those and Fun-ASR-MLT-Nano's."""

_CODES: Final = {name: code for code, name in LANGUAGES.items()}
_UNSPACED: Final = frozenset({"zh", "yue", "ja", "th"})

_WORD_STARTS: Final = ("Ġ", "Ċ")
"""Byte-level letters of the space and the line break."""

_LIST: Final = re.compile("[,;，、；\n]")
_LISTED: Final = 4
"""Most words of a name in a list."""
REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a token sequence of the model says.

    ``language`` is an ISO code, None for "no speech" or while the name is unfinished; ``body`` are the text's tokens.
    """

    language: str | None
    body: tuple[int, ...]
    text: str


class Prompt:
    """Token ids around the audio, and the way back from tokens to text. Stateless after construction."""

    def __init__(self, tokenizer: Tokenizer, *, leading_space: bool) -> None:
        self._tokenizer = tokenizer
        self._leading_space = leading_space
        self.end = self._special("<|im_end|>")
        """What ends an answer that was trained on; ``stop`` holds all that is taken for an end."""
        self.opener: int | None = None
        """The token between the language that the model writes and its text, where it writes one."""
        self._own = [str(token) for token in tokenizer.get_added_tokens_decoder().values()]
        self._template()
        self.stop = frozenset({self.end, self._special("<|endoftext|>")})
        self._vocabulary = tokenizer.get_vocab_size()
        pieces = [tokenizer.id_to_token(i) or "" for i in range(self._vocabulary)]
        self._marks = frozenset(i for i, piece in enumerate(pieces) if piece and not piece.strip(MARKS))
        starts = [
            piece.startswith(_WORD_STARTS) or i in self.stop or i in self._marks for i, piece in enumerate(pieces)
        ]
        self._after_spaced = np.array(starts, dtype=np.bool_)
        self._sorted = sorted((piece, i) for i, piece in enumerate(pieces))

    def _template(self) -> None:
        start, end, newline = self._special("<|im_start|>"), self.end, self._ids("\n")
        self._audio_start, self._audio_end = self._special("<|audio_start|>"), self._special("<|audio_end|>")
        self.opener = self._asr_text = self._special("<asr_text>")
        self._before_context = [start, *self._ids("system\n")]
        self._after_context = [end, *newline, start, *self._ids("user\n"), self._audio_start]
        self._suffix = [self._audio_end, end, *newline, start, *self._ids("assistant\n")]

    def _special(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ManifestError(f"tokenizer: no token {token}")
        return found

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def head(self, keyterms: Sequence[str], language: str | None = None) -> list[int]:
        """Everything before the audio. ``keyterms`` become the bare words of the system turn.

        ``language`` (ISO code): what is forced, for templates that say it here.
        """
        context = " ".join(" ".join(term.split()) for term in keyterms)
        if context and self._leading_space:
            context = " " + context
        return [*self._before_context, *(self._ids(context) if context else []), *self._after_context]

    def terms(self, keyterms: Sequence[str]) -> list[list[list[int]]]:
        """Tokens of each keyterm as it stands inside a text, after a space: as it is given, and with capitals. One with
        commas is a list (or prose, of which short parts count)."""
        forms = (dict.fromkeys((term, _capitalised(term))) for given in keyterms for term in _listed(given))
        return [[self._ids(f" {form}") for form in term] for term in forms]

    def longer(self, token: int) -> list[int]:
        """The tokens that begin with what ``token`` spells and spell more."""
        piece = self._tokenizer.id_to_token(token) or ""
        begin = bisect_right(self._sorted, (piece, token))
        return [i for _, i in takewhile(lambda one: one[0].startswith(piece), self._sorted[begin:])]

    def own_mark(self, keyterms: Sequence[str]) -> str | None:
        """The first token of the conversation itself, such as ``<|im_end|>``, that a keyterm holds; None: there is
        none."""
        return next((mark for mark in self._own for term in keyterms if mark in term), None)

    def suffix(self, language: str | None) -> list[int]:
        """Everything between the audio and the answer; ``language`` (ISO code) is forced unless None."""
        if language is None:
            return list(self._suffix)
        return [*self._suffix, *self._ids(f"language {LANGUAGES[language]}"), self._asr_text]

    def answer(self, tokens: Sequence[int], language: str | None) -> Answer:
        """Read an answer (stop token already removed). With ``language`` forced all tokens are text."""
        if language is None:
            if self._asr_text not in tokens:
                return Answer(None, (), "")
            cut = list(tokens).index(self._asr_text)
            name = self._tokenizer.decode(list(tokens[:cut])).removeprefix("language").strip()
            language, tokens = _CODES.get(name), tokens[cut + 1 :]
        return Answer(language, tuple(tokens), self.text(tokens))

    def text(self, tokens: Sequence[int]) -> str:
        """The text of answer tokens, without an unfinished UTF-8 sequence at its end."""
        text = self._tokenizer.decode(list(tokens)).rstrip(REPLACEMENT)
        return text.lstrip() if self._leading_space else text

    def after_word(self, language: str | None, vocabulary: int | None = None) -> npt.NDArray[np.bool_]:
        """Which tokens may follow a whole word: marks, those that begin a word, those that end the text; bool
        [vocabulary].

        ``vocabulary``: of the decoder, where it is padded beyond the tokenizer's.
        """
        size = self._vocabulary if vocabulary is None else vocabulary
        if language in _UNSPACED:
            return np.ones(size, np.bool_)
        return np.pad(self._after_spaced, (0, size - self._vocabulary))

    def words(self, tokens: Sequence[int], language: str | None) -> list[tuple[str, int, int]]:
        """The words of a text: (word, first token, one past its last token).

        A word starts at a piece with a leading space. In scripts without spaces a word is what one or more tokens
        decode to without cutting a UTF-8 character.
        """
        words: list[tuple[str, int, int]] = []
        unspaced = language in _UNSPACED
        first = 0
        for i, token in enumerate(tokens):
            starts = unspaced or (self._tokenizer.id_to_token(token) or "").startswith(_WORD_STARTS)
            if i > first and starts:
                text = self._tokenizer.decode(list(tokens[first:i]))
                if REPLACEMENT in text or not text.strip():
                    continue
                words.append((text.strip(), first, i))
                first = i
        rest = self._tokenizer.decode(list(tokens[first:])).rstrip(REPLACEMENT).strip() if first < len(tokens) else ""
        if rest:
            words.append((rest, first, len(tokens)))
        return words

    def unmarked(self, tokens: Sequence[int], first: int, stop: int) -> int:
        """Where the mark behind the word of tokens ``first … stop`` begins; ``stop`` where there is none."""
        while stop > first + 1 and tokens[stop - 1] in self._marks:
            stop -= 1
        return stop


def _listed(given: str) -> list[str]:
    parts = [" ".join(part.split()) for part in _LIST.split(given)]
    return [part for part in parts if part and (len(parts) == 1 or len(part.split()) <= _LISTED)]


def _capitalised(term: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in term.split())
