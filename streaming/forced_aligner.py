"""Word times from a Qwen3-ForcedAligner that stands beside the hearing model.

The aligner reads audio and text in one pass: ``<|audio_start|>`` · audio rows · ``<|audio_end|>``, then each unit of
the text, a word or an ideograph, followed by two ``<timestamp>`` tokens. At those a classifier on the decoder's last
hidden state tells in which step of the clip (80 ms) the unit begins and ends. Times that run backwards are mended.

Source: QwenLM/Qwen3-ASR, inference/qwen3_forced_aligner.py, and the same in transformers' Qwen3ASRProcessor, to which
tests/reference/test_aligner.py compares this module. One thing differs: the official code cuts Japanese and Korean into
words by libraries of their own, this module cuts every language at spaces and around each ideograph.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engines import manifest as manifests
from engines.files import load_floats, load_tokenizer
from engines.gguf import Decoder, Rows
from engines.integrity import check
from engines.lane import Steps, alone, call
from engines.manifest import ManifestError
from engines.onnx import Graph
from engines.scheduling import Place
from streaming.encoder import AudioEncoder, rows_of
from streaming.mel import LogMel, load_filters, official_length

Floats = npt.NDArray[np.float32]

LANGUAGES: Final = frozenset({"zh", "en", "yue", "fr", "de", "it", "ja", "ko", "pt", "ru", "es"})
"""The languages that the released aligner was trained on (transformers' FORCED_ALIGNER_LANGUAGES)."""
TEXT_ROWS: Final = 960
"""How many rows of the cache one segment's text with its timestamps may take; a longer text is not aligned. A hearing
model's text has 256 tokens at most, and each unit of it adds two timestamps: most texts of 24 s need less than half."""
CALL_ROWS: Final = 64
"""How many rows of text one call evaluates: llama.cpp computes logits of the vocabulary's size for each of them, so
more would take much memory."""
_SHORT_BLOCK: Final = 2
"""How many wrong times in a row take over a neighbour's instead of being spread out, as in the official code."""
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
"""The code points, first and last, of the blocks that Unicode calls CJK (unified or compatibility) ideographs, as in
the official code."""


class ForcedAligner:
    """A loaded aligner, shared by all sessions. Its model calls run in the hearing model's lane."""

    def __init__(self, directory: Path, *, sessions: int, threads: int, seconds: float, provider: str = "auto") -> None:
        """Load the model directory ``directory``.

        Args:
            sessions: how many texts may be aligned at the same time.
            threads: how many threads one call uses.
            seconds: how long a clip may be.
            provider: which provider of ONNX Runtime runs the encoder (``engines.onnx``).

        Raises:
            ManifestError: the directory holds no ForcedAligner.
            GgufError, ProviderError: an engine refuses its files.
        """
        manifest = manifests.read_asr(directory)
        check(directory, manifest)
        spec = manifest.encoder
        if manifest.aligner is None or spec.stem is None:
            raise ManifestError(f"{directory} holds {manifest.name}, which aligns no words: a ForcedAligner is needed")
        self.manifest = manifest
        stem = Graph(directory / spec.stem, threads=threads, provider=provider, convolves=True)
        body = Graph(directory / spec.body, threads=threads, provider=provider)
        self._encoder = AudioEncoder(spec, stem, body, manifest.mel.bins)
        self._log_mel = LogMel(manifest.mel, load_filters(directory / manifest.mel.filters))
        frames = int(seconds * manifest.mel.sample_rate) // manifest.mel.hop_length
        rows = rows_of(frames, spec.chunk_frames, spec.chunk_rows) + TEXT_ROWS
        self._head = load_floats(directory / manifest.aligner.head)
        self._step = manifest.aligner.step
        self._tokenizer = load_tokenizer(directory / manifest.tokenizer.file)
        self._start, self._end, self._mark = (
            self._special(token) for token in ("<|audio_start|>", "<|audio_end|>", "<timestamp>")
        )
        self._place = Place()
        self._free: list[int] = []
        """Sequences of the cache that were acquired before and are not in use now."""
        self._encoder.warm()
        # The decoder is loaded last, so that a failure above leaves nothing to close.
        self._decoder = Decoder(
            directory / manifest.decoder.file, sequences=sessions, rows=rows, threads=threads, kv="f16", hidden=True
        )

    def _special(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ManifestError(f"{self.manifest.name}: its tokenizer has no {token}")
        return found

    def close(self) -> None:
        """Free the decoder. Idempotent; the lane must have ended."""
        self._decoder.close()

    def times(
        self, samples: Floats, words: Sequence[str], language: str | None
    ) -> Steps[list[tuple[float, float]] | None]:
        """Align a text to its audio.

        Args:
            samples: the clip, float32 mono at the model's rate.
            words: the words of its text. Punctuation takes no time, and a word that is nothing else lies where the word
                before it ends.
            language: an ISO code, or None where the language is not known.

        Returns:
            Start and end of each word in seconds from the clip's beginning, no word before the end of the previous one;
            None where the aligner does not know the language or the text is too long.
        """
        units = [units_of(word) for word in words]
        flat = [unit for each in units for unit in each]
        if not flat or (language is not None and language not in LANGUAGES):
            return None
        marks = yield from self._marks(samples, flat)
        if marks is None:
            return None
        found: list[tuple[float, float]] = []
        at, before, clip = 0, 0.0, len(samples) / self.manifest.mel.sample_rate
        for each in units:
            start, end = (marks[2 * at], marks[2 * (at + len(each)) - 1]) if each else (before, before)
            at += len(each)
            start = max(min(start, clip), before)
            before = max(min(end, clip), start)
            found.append((start, before))
        return found

    def _marks(self, samples: Floats, units: Sequence[str]) -> Steps[list[float] | None]:
        """Start and end of each unit, in seconds, one after the other; None where the text is too long."""
        ids: list[int] = []
        for unit in units:
            ids += [*self._tokenizer.encode(unit, add_special_tokens=False).ids, self._mark, self._mark]
        audio = yield from self._audio(samples)
        before = np.concatenate([self._decoder.embed([self._start]), audio, self._decoder.embed([self._end])])
        if len(before) + len(ids) > self._decoder.rows:
            return None
        text = self._decoder.embed(ids)
        sequence = self._free.pop() if self._free else (yield from alone(self._decoder.acquire, self._place))
        try:
            yield from self._evaluate(Rows(sequence, 0, before, len(before)))
            hidden: list[Floats] = []
            for at in range(0, len(text), CALL_ROWS):
                rows = Rows(sequence, len(before) + at, text[at : at + CALL_ROWS], 0)
                hidden.append((yield from self._evaluate(rows)))
        finally:
            self._free.append(sequence)
        marked = np.concatenate(hidden)[np.asarray(ids) == self._mark]
        classes = (marked @ self._head.T).argmax(axis=1)
        return [mended / 1000 for mended in mend([int(each) * round(1000 * self._step) for each in classes])]

    def _audio(self, samples: Floats) -> Steps[Floats]:
        """The embeddings of the clip, padded to half a second as the official extractor does."""
        spec = self.manifest.encoder
        padding = official_length(len(samples), self.manifest.mel.sample_rate) - len(samples)
        mel = self._log_mel.clip(np.pad(samples, (0, padding)))
        chunks = [mel[:, at : at + spec.chunk_frames] for at in range(0, mel.shape[1], spec.chunk_frames)]
        rows = np.concatenate((yield from self._encoder.stems(chunks)))
        found: list[Floats] = []
        for at in range(0, len(rows), spec.window_rows):
            encoded = yield from self._encoder.body(rows[at : at + spec.window_rows])
            found.append(encoded.embeddings)
        return np.concatenate(found)

    def _evaluate(self, rows: Rows) -> Steps[Floats]:
        """The decoder's hidden states of the rows whose logits are asked for, float32 [wanted, width]."""
        return (yield from call(self._decoder.outputs, rows, place=self._place)).hidden


def units_of(text: str) -> list[str]:
    """The units of a text that get times: runs of letters, digits and apostrophes between spaces, and each ideograph by
    itself."""
    units: list[str] = []
    run = ""
    for letter in text:
        ideograph = any(first <= ord(letter) <= last for first, last in _IDEOGRAPHS)
        if (ideograph or letter.isspace()) and run:
            units.append(run)
            run = ""
        if ideograph:
            units.append(letter)
        elif letter == "'" or unicodedata.category(letter)[0] in "LN":
            run += letter
    return [*units, run] if run else units


def mend(marks: Sequence[int]) -> list[int]:
    """``marks``, times in milliseconds, changed so that none is before the previous one.

    The longest subsequence that never falls is trusted. Of the other times up to two in a row take the value of the
    nearer trusted neighbour; longer blocks are spread evenly between both neighbours.
    """
    values = np.asarray(marks, np.int64)
    count = len(values)
    length, parent = np.ones(count, np.int64), np.full(count, -1, np.int64)
    for i in range(1, count):
        lengths = np.where(values[:i] <= values[i], length[:i], 0)
        best = int(lengths.argmax())  # Of equals the first, as in the official code.
        if lengths[best]:
            length[i], parent[i] = lengths[best] + 1, best
    trusted = np.zeros(count, np.bool_)
    at = int(length.argmax()) if count else -1
    while at >= 0:
        trusted[at] = True
        at = int(parent[at])
    places = np.flatnonzero(trusted)
    mended = values.tolist()
    for left, right in zip([-1, *places.tolist()], [*places.tolist(), count], strict=True):
        block = range(left + 1, right)
        for place in block:
            if left < 0:
                mended[place] = int(values[right])
            elif right == count:
                mended[place] = int(values[left])
            elif len(block) <= _SHORT_BLOCK:
                mended[place] = int(values[left] if place - left <= right - place else values[right])
            else:
                step = float(values[right] - values[left]) / (len(block) + 1)
                mended[place] = int(values[left] + step * (place - left))
    return mended
