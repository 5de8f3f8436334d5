"""The Qwen3-ASR conversation, token by token.

``<|im_start|>system\\n{context}<|im_end|>\\n<|im_start|>user\\n<|audio_start|>`` · audio rows ·
``<|audio_end|><|im_end|>\\n<|im_start|>assistant\\n`` and, where the language is forced, ``language
English<asr_text>``. The model answers ``language English<asr_text>text<|im_end|>``, or ``language None<asr_text>``
where it finds no speech. Source: QwenLM/Qwen3-ASR, inference/qwen3_asr.py:446-465; language names utils.py:37-68.
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
"""The 30 languages of Qwen3-ASR: each ISO 639-1 code (639-3 where there is none) with the name that the model was
trained on."""
LANGUAGES: Final = {
    **QWEN, "bg": "Bulgarian", "hr": "Croatian", "et": "Estonian", "ga": "Irish", "lv": "Latvian", "lt": "Lithuanian",
    "mt": "Maltese", "sk": "Slovak", "sl": "Slovenian",
}  # fmt: skip
"""The same with the languages that Fun-ASR-MLT-Nano adds."""

_CODES: Final = {name: code for code, name in LANGUAGES.items()}
_UNSPACED: Final = frozenset({"zh", "yue", "ja", "th"})
"""Languages that are written without spaces between words."""

_WORD_STARTS: Final = ("Ġ", "Ċ")
"""The letters by which byte-level BPE writes a space and a line break."""

_LIST: Final = re.compile("[,;，、；\n]")
"""The marks that part the names of a list inside one keyterm."""
_LISTED: Final = 4
"""How many words a name in such a list has at most; more are prose. It is a choice: few names have five words."""
SENTENCE_MARKS: Final = ".?!…。？！"
"""The marks that end a sentence."""
REPLACEMENT: Final = "\ufffd"
"""What a tokenizer decodes an incomplete UTF-8 sequence to."""


@dataclass(frozen=True, slots=True)
class Closers:
    """The tokens that may stand behind a last word: ``marks``, and those of them that end a sentence, int64 [n]."""

    marks: frozenset[int]
    sentence: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sequence of the model's tokens says.

    ``language`` is an ISO code, or None if the model finds no speech or has not finished the language's name; ``body``
    are the tokens of ``text``.
    """

    language: str | None
    body: tuple[int, ...]
    text: str


class Prompt:
    """The tokens around the audio, and the way back from tokens to text. Nothing changes after construction."""

    def __init__(self, tokenizer: Tokenizer, *, leading_space: bool) -> None:
        """``leading_space``: whether the model was trained on texts that begin with a space.

        Raises:
            ManifestError: the tokenizer lacks a token of the conversation.
        """
        self._tokenizer = tokenizer
        self._leading_space = leading_space
        self.end = self._special("<|im_end|>")
        """The token that ends an answer in training; ``stop`` holds every token that is taken for an end."""
        self.opener: int | None = None
        """The token between a language and the text, for a model that writes the language first."""
        self._own = [str(token) for token in tokenizer.get_added_tokens_decoder().values()]
        self._template()
        self.stop = frozenset({self.end, self._special("<|endoftext|>")})
        self._vocabulary = tokenizer.get_vocab_size()
        spelled = [tokenizer.id_to_token(i) or "" for i in range(self._vocabulary)]
        self._marks = frozenset(i for i, letters in enumerate(spelled) if letters and not letters.strip(MARKS))
        sentence = {i for i in self._marks if not spelled[i].strip(SENTENCE_MARKS)}
        # Marks of other scripts are spelled in bytes.
        known = {mark: ids[0] for mark in MARKS if len(ids := self._ids(mark)) == 1}
        sentence |= {known[mark] for mark in SENTENCE_MARKS if mark in known}
        self.closers = Closers(self._marks.union(known.values()), np.array(sorted(sentence), np.int64))
        """The tokens that may stand behind the last word of a sentence."""
        starts = [
            letters.startswith(_WORD_STARTS) or i in self.stop or i in self._marks for i, letters in enumerate(spelled)
        ]
        self._after_spaced = np.array(starts, dtype=np.bool_)
        self._sorted = sorted((letters, i) for i, letters in enumerate(spelled))

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
        """The tokens before the audio. ``keyterms`` stand in the system turn, parted by spaces.

        ``language``, an ISO code, is the forced one; it is for templates that name it here, which Qwen3-ASR's does not.
        """
        context = " ".join(" ".join(term.split()) for term in keyterms)
        if context and self._leading_space:
            context = " " + context
        return [*self._before_context, *(self._ids(context) if context else []), *self._after_context]

    def terms(self, keyterms: Sequence[str]) -> list[list[list[int]]]:
        """The tokens of each keyterm inside a text, after a space, in each way it may be written: as it is given, and
        with capitals. A keyterm with commas is a list of terms; of prose only the short parts become terms."""
        forms = (dict.fromkeys((term, _capitalised(term))) for given in keyterms for term in _listed(given))
        return [[self._ids(f" {form}") for form in term] for term in forms]

    def longer(self, token: int) -> list[int]:
        """The tokens that begin with what ``token`` spells and spell more."""
        letters = self._tokenizer.id_to_token(token) or ""
        begin = bisect_right(self._sorted, (letters, token))
        return [i for _, i in takewhile(lambda one: one[0].startswith(letters), self._sorted[begin:])]

    def own_mark(self, keyterms: Sequence[str]) -> str | None:
        """The first of the model's special tokens, such as ``<|im_end|>``, that a keyterm contains, or None. A keyterm
        with one could end the system turn."""
        return next((mark for mark in self._own for term in keyterms if mark in term), None)

    def suffix(self, language: str | None) -> list[int]:
        """The tokens between the audio and the answer. ``language``, an ISO code, is forced unless it is None."""
        if language is None:
            return list(self._suffix)
        return [*self._suffix, *self._ids(f"language {LANGUAGES[language]}"), self._asr_text]

    def answer(self, tokens: Sequence[int], language: str | None) -> Answer:
        """Read an answer's tokens, without the one that ended it. If ``language`` was forced, all of them are text."""
        if language is None:
            if self._asr_text not in tokens:
                return Answer(None, (), "")
            cut = list(tokens).index(self._asr_text)
            name = self._tokenizer.decode(list(tokens[:cut])).removeprefix("language").strip()
            language, tokens = _CODES.get(name), tokens[cut + 1 :]
        return Answer(language, tuple(tokens), self.text(tokens))

    def text(self, tokens: Sequence[int]) -> str:
        """The text of an answer's tokens, without an incomplete UTF-8 character at its end."""
        text = self._tokenizer.decode(list(tokens)).rstrip(REPLACEMENT)
        return text.lstrip() if self._leading_space else text

    def after_word(self, language: str | None, vocabulary: int | None = None) -> npt.NDArray[np.bool_]:
        """Which tokens may follow a whole word: marks, tokens that begin a word, and tokens that end the text.

        Args:
            language: the text's, an ISO code; in one without spaces any token may follow.
            vocabulary: the size of the decoder's vocabulary where that is padded beyond the tokenizer's.

        Returns:
            bool [vocabulary].
        """
        size = self._vocabulary if vocabulary is None else vocabulary
        if language in _UNSPACED:
            return np.ones(size, np.bool_)
        return np.pad(self._after_spaced, (0, size - self._vocabulary))

    def words(self, tokens: Sequence[int], language: str | None) -> list[tuple[str, int, int]]:
        """The words of a text, each as (word, first token, one past its last token).

        A word starts at a token with a leading space. In scripts without spaces the fewest tokens that decode to whole
        characters are a word.
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
        """Where the marks begin that end the word of tokens ``first … stop``; ``stop`` if it ends with none."""
        while stop > first + 1 and tokens[stop - 1] in self._marks:
            stop -= 1
        return stop


def _listed(given: str) -> list[str]:
    """The terms in one keyterm, which may be a list."""
    parts = [" ".join(part.split()) for part in _LIST.split(given)]
    return [part for part in parts if part and (len(parts) == 1 or len(part.split()) <= _LISTED)]


def _capitalised(term: str) -> str:
    """``term`` with a capital at each word's beginning."""
    return " ".join(word[:1].upper() + word[1:] for word in term.split())
