"""Token ids of the official chat template around the audio.

The template's source is Qwen3-ASR's inference/qwen3_asr.py:
`<|im_start|>system\\n{context}<|im_end|>\\n<|im_start|>user\\n<|audio_start|>` audio
`<|audio_end|><|im_end|>\\n<|im_start|>assistant\\n` then `language English<asr_text>` text `<|im_end|>`.
"""

from collections.abc import Iterable
from functools import cache

from tokenizers import Tokenizer


class Prompt:
    """The pieces of one conversation as lists of ids. Encoded words are remembered."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises:
        ValueError: the tokenizer lacks a token of the template."""
        self._tokenizer, self._cached = tokenizer, cache(self._encode)
        for token in ("<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<asr_text>", "<|endoftext|>"):
            if tokenizer.token_to_id(token) is None:
                raise ValueError(f"tokenizer: no token {token}")
        [self.end], [self.pad], [self.text_start] = map(self._encode, ("<|im_end|>", "<|endoftext|>", "<asr_text>"))
        self._system = self._encode("<|im_start|>system\n")
        self._user = self._encode("<|im_end|>\n<|im_start|>user\n<|audio_start|>")
        self.suffix = self._encode("<|audio_end|><|im_end|>\n<|im_start|>assistant\n")
        self.english, self.none = self._encode("language English<asr_text>"), self._encode("language None<asr_text>")

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text).ids)

    def words(self, words: Iterable[str]) -> list[int]:
        """Give the ids of " w1 w2 ...". They are exact, because the pre-tokenizer splits before every space."""
        return [i for word in words for i in self._cached(" " + word)]

    def prefix(self, context: Iterable[str] = (), *, leading_space: bool = True) -> list[int]:
        """Give everything before the audio. `context` words stand in the system turn; with a space before the first one
        each word has the very tokens that it has in a transcript."""
        words = list(context)
        if not words:
            return [*self._system, *self._user]
        first = [] if leading_space else self._encode(words[0])
        return [*self._system, *first, *self.words(words[not leading_space :]), *self._user]

    def text(self, ids: list[int]) -> str:
        """Give the transcript of generated ids: what stands between <asr_text> (if it is there) and <|im_end|>."""
        if self.end in ids:
            ids = ids[: ids.index(self.end)]
        if self.text_start in ids:
            ids = ids[ids.index(self.text_start) + 1 :]
        return self._tokenizer.decode(ids).strip()
