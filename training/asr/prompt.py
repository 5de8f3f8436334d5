"""Token ids of the official chat template around the audio.

Source: Qwen3-ASR inference/qwen3_asr.py:
`<|im_start|>system\\n{context}<|im_end|>\\n<|im_start|>user\\n<|audio_start|>` audio
`<|audio_end|><|im_end|>\\n<|im_start|>assistant\\n` then `language English<asr_text>` text `<|im_end|>`.
"""

from collections.abc import Iterable

from tokenizers import Tokenizer


class Prompt:
    """Pieces of one conversation as lists of ids, and a cache of word encodings."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._words: dict[str, list[int]] = {}
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        self.end, self.pad = end, self.special("<|endoftext|>")
        self.text_start = self.special("<asr_text>")
        self._system = [start, *self._encode("system\n")]
        self._user = [end, *self._encode("\n"), start, *self._encode("user\n"), self.special("<|audio_start|>")]
        self.suffix = [self.special("<|audio_end|>"), end, *self._encode("\n"), start, *self._encode("assistant\n")]
        self.english = [*self._encode("language English"), self.text_start]
        self.none = [*self._encode("language None"), self.text_start]

    def special(self, token: str) -> int:
        """Id of a token that must exist."""
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ValueError(f"tokenizer: no token {token}")
        return found

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text).ids)

    def words(self, words: Iterable[str]) -> list[int]:
        """Ids of " w1 w2 ...": exact, because the pre-tokenizer splits before every space."""
        ids: list[int] = []
        for word in words:
            known = self._words.get(word)
            if known is None:
                known = self._words[word] = self._encode(" " + word)
            ids += known
        return ids

    def prefix(self, context: Iterable[str] = (), *, leading_space: bool = True) -> list[int]:
        """Everything before the audio. `context` words stand in the system turn; with a space before the first one each
        word has the very tokens that it has in a transcript."""
        words = list(context)
        if not words:
            return [*self._system, *self._user]
        first = [] if leading_space else self._encode(words[0])
        return [*self._system, *first, *self.words(words[not leading_space :]), *self._user]

    def text(self, ids: list[int]) -> str:
        """Transcript of generated ids: what stands between <asr_text> (if any) and <|im_end|>."""
        if self.end in ids:
            ids = ids[: ids.index(self.end)]
        if self.text_start in ids:
            ids = ids[ids.index(self.text_start) + 1 :]
        return self._tokenizer.decode(ids).strip()
