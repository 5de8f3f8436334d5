"""How probable the decoder finds texts that nobody said: it reads them behind its prompt, the audio's rows left out.

A decoder that was trained on text without sound too (``decoder.language_model`` in model.json) is a language model with
the weights that it has anyway. It knows what people say and not what was said, so what it adds is the choice among the
texts that fit the sound about as well (streaming/doubt.py).

Contract: one sequence of the KV cache is the model's own, taken for good. The prompt is evaluated when another language
is asked for than before, always in one piece. The texts of a call stand behind it, one after the other in the order of
their tokens, so what two have in common at their beginning is evaluated once; the next call forgets them. Nothing
shares these calls of the decoder: the numbers depend on the texts of a call alone. To be used in the decoder's lane.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engines.gguf import Decoder, Rows
from streaming.bias import KeytermBias
from streaming.prompt import Prompt

Floats = npt.NDArray[np.float32]


class LanguageModel:
    """Reads texts without sound."""

    def __init__(self, decoder: Decoder, prompt: Prompt) -> None:
        """Takes a sequence of ``decoder``. Raises Busy: none is free."""
        self._decoder, self._prompt = decoder, prompt
        self._sequence = decoder.acquire()
        self._head: list[int] = []
        """Tokens of the prompt whose rows are in the cache."""
        self._first = np.empty(0, np.float32)
        """Logits [vocabulary] behind it."""
        self.rows = 0
        """Rows of texts evaluated so far."""

    def log_probabilities(
        self, texts: Sequence[Sequence[int]], start: int, language: str | None, bias: KeytermBias
    ) -> npt.NDArray[np.float64]:
        """Logarithm of each text's probability, its end included: float64 [texts].

        Args:
            texts: tokens of each answer, as the model says them after its prompt, without the one that ends it.
            start: tokens of each that are given: the language, where that was not forced.
            language: ISO code, forced unless None.
            bias: the session's keyterms, which are no less probable here for being rare.

        Raises:
            GgufError: a text is longer than the decoder's sequence.
        """
        base = self._begin(language)
        texts = [tuple(text) for text in texts]
        logs, rows = log_probabilities(self._decoder, self._sequence, base, self._first, texts, self._prompt.end, bias)
        self.rows += rows
        return np.array([each[start:].sum() for each in logs])

    def _begin(self, language: str | None) -> int:
        """Have the prompt in the cache; the position behind it."""
        head = [*self._prompt.head(()), *self._prompt.suffix(language)]
        if head != self._head:
            self._head = []
            rows = Rows(self._sequence, 0, self._decoder.embed(head), len(head) - 1)
            self._first = self._decoder.evaluate([rows])[0][0]
            self._head = head
        return len(head)


def log_probabilities(
    decoder: Decoder,
    sequence: int,
    position: int,
    first: Floats,
    texts: Sequence[tuple[int, ...]],
    end: int,
    bias: KeytermBias,
) -> tuple[list[npt.NDArray[np.float64]], int]:
    """Logarithms of the probabilities of texts behind what ``sequence`` holds up to ``position``, where its logits
    ``first`` [vocabulary] choose the first token.

    Returns:
        For each text those of its tokens and of ``end`` after them, float64 [tokens + 1]; and how many rows it took.
    """
    logs, evaluated = dict[int, npt.NDArray[np.float64]](), 0
    path: list[int] = []
    after = [*log_softmax(first[None].copy(), bias, path)]  # behind path[:k], for each k
    for i in sorted(range(len(texts)), key=lambda i: texts[i]):
        text = list(texts[i])
        known = shared(path, text)
        del path[known:], after[known + 1 :]
        if known < len(text):
            rest = text[known:]
            (logits,) = decoder.evaluate([Rows(sequence, position + known, decoder.embed(rest), 0)])
            evaluated += len(rest)
            path = text
            after += [*log_softmax(logits, bias, path)]
        logs[i] = np.array([float(after[k][token]) for k, token in enumerate([*text, end])])
    return [logs[i] for i in range(len(texts))], evaluated


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts have in common at their beginning."""
    for k, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return k
    return min(len(one), len(other))


def log_softmax(logits: Floats, bias: KeytermBias, tokens: Sequence[int]) -> Floats:
    """Logarithms of probabilities from ``logits`` [n, vocabulary], in place: of what follows ``tokens`` in the last
    row, all but their last one in the row above, and so on."""
    for row, stop in zip(logits, range(len(tokens) + 1 - len(logits), len(tokens) + 1), strict=True):
        bias.apply(row, tokens[:stop])
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
