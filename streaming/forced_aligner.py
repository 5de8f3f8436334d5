"""Word times from a Qwen3-ForcedAligner that stands beside the hearing model.

One pass over audio and text: ``<|audio_start|>`` · audio rows · ``<|audio_end|>`` and each unit of the text followed by
two ``<timestamp>`` tokens, at which a classifier on the decoder's last hidden state says in which step of the clip (80
ms) the unit begins and ends. Marks that run backwards are mended. Source: QwenLM/Qwen3-ASR,
inference/qwen3_forced_aligner.py, the same in transformers' Qwen3ASRProcessor; held to it in
tests/reference/test_aligner.py. There Japanese and Korean are cut into words by libraries of their own; here, as all
other languages, at spaces and around each ideograph.
"""

import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engines import manifest as manifests
from engines.batching import Lane, Owner
from engines.files import load_floats, load_tokenizer
from engines.gguf import Decoder, Rows
from engines.integrity import check
from engines.manifest import ManifestError
from engines.onnx import Graph
from streaming.encoder import AudioEncoder, rows_of
from streaming.mel import LogMel, load_filters, official_length

Floats = npt.NDArray[np.float32]

LANGUAGES: Final = frozenset({"zh", "en", "yue", "fr", "de", "it", "ja", "ko", "pt", "ru", "es"})
"""What the released aligner was trained on (transformers' FORCED_ALIGNER_LANGUAGES)."""
TEXT_ROWS: Final = 960
"""Rows of one segment's text and marks; a longer text is not aligned."""
CALL_ROWS: Final = 64
"""Text rows of one call: each brings a row of the vocabulary's size along."""
_SHORT_BLOCK: Final = 2
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class ForcedAligner:
    """A loaded aligner, shared by all sessions. Thread-safe; one text is aligned at a time."""

    def __init__(self, directory: Path, *, lane: Lane, threads: int, seconds: float, provider: str = "auto") -> None:
        """Load the model directory ``directory``.

        Args:
            lane: where its model calls run, the hearing model's.
            threads: of one call.
            seconds: of the longest clip.

        Raises:
            ManifestError: the directory is no ForcedAligner.
            GgufError, ProviderError: the engines refuse it.
        """
        manifest = manifests.read_asr(directory)
        check(directory, manifest)
        spec = manifest.encoder
        if manifest.aligner is None or spec.stem is None:
            raise ManifestError(f"{directory} holds {manifest.name}, which aligns no words: a ForcedAligner is needed")
        self.manifest = manifest
        graphs = [Graph(directory / name, threads=threads, provider=provider) for name in (spec.stem, spec.body)]
        self._encoder = AudioEncoder(spec, graphs[0], graphs[1], lane, manifest.mel.bins)
        self._log_mel = LogMel(manifest.mel, load_filters(directory / manifest.mel.filters))
        frames = int(seconds * manifest.mel.sample_rate) // manifest.mel.hop_length
        rows = rows_of(frames, spec.chunk_frames, spec.chunk_rows) + TEXT_ROWS
        self._head = load_floats(directory / manifest.aligner.head)
        self._step = manifest.aligner.step
        self._tokenizer = load_tokenizer(directory / manifest.tokenizer.file)
        self._start, self._end, self._mark = (
            self._special(token) for token in ("<|audio_start|>", "<|audio_end|>", "<timestamp>")
        )
        self._lane = lane
        self._lock = threading.Lock()
        self._encoder.warm()
        # Last: what fails above leaves nothing to close.
        self._decoder = Decoder(
            directory / manifest.decoder.file, sequences=1, rows=rows, threads=threads, kv="f16", hidden=True
        )
        self._sequence = self._decoder.acquire()

    def _special(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ManifestError(f"{self.manifest.name}: its tokenizer has no {token}")
        return found

    def close(self) -> None:
        """Free the decoder. Idempotent; the lane must have ended."""
        self._decoder.close()

    def times(
        self, samples: Floats, words: Sequence[str], language: str | None, owner: Owner
    ) -> list[tuple[float, float]] | None:
        """Start and end of each word in seconds from the clip's beginning, none before the one in front of it.

        Args:
            samples: the clip, float32 mono at the model's rate.
            words: of its text; punctuation takes no time, a word of nothing else stands where the one before it ends.
            language: ISO code; None where it is not known.

        Returns:
            None where the language or the length is beyond the aligner.

        Raises:
            Cancelled: the owner has gone.
        """
        units = [units_of(word) for word in words]
        flat = [unit for each in units for unit in each]
        if not flat or (language is not None and language not in LANGUAGES):
            return None
        with self._lock:
            marks = self._marks(samples, flat, owner)
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

    def _marks(self, samples: Floats, units: Sequence[str], owner: Owner) -> list[float] | None:
        """Two times a unit, in seconds."""
        ids: list[int] = []
        for unit in units:
            ids += [*self._tokenizer.encode(unit, add_special_tokens=False).ids, self._mark, self._mark]
        audio = self._audio(samples, owner)
        before = np.concatenate([self._decoder.embed([self._start]), audio, self._decoder.embed([self._end])])
        if len(before) + len(ids) > self._decoder.rows:
            return None
        text = self._decoder.embed(ids)
        self._evaluate(before, 0, len(before), owner)
        hidden = [
            self._evaluate(text[at : at + CALL_ROWS], len(before) + at, 0, owner)
            for at in range(0, len(text), CALL_ROWS)
        ]
        marked = np.concatenate(hidden)[np.asarray(ids) == self._mark]
        classes = (marked @ self._head.T).argmax(axis=1)
        return [mended / 1000 for mended in mend([int(each) * round(1000 * self._step) for each in classes])]

    def _audio(self, samples: Floats, owner: Owner) -> Floats:
        """Embeddings of the clip, its floor that of the official model."""
        spec = self.manifest.encoder
        padding = official_length(len(samples), self.manifest.mel.sample_rate) - len(samples)
        mel = self._log_mel.clip(np.pad(samples, (0, padding)))
        chunks = [mel[:, at : at + spec.chunk_frames] for at in range(0, mel.shape[1], spec.chunk_frames)]
        rows = np.concatenate(self._encoder.stems(chunks, owner))
        windows = [rows[at : at + spec.window_rows] for at in range(0, len(rows), spec.window_rows)]
        return np.concatenate([self._encoder.body(window, owner).embeddings for window in windows])

    def _evaluate(self, rows: Floats, start: int, wanted: int, owner: Owner) -> Floats:
        """Hidden states of the rows from ``wanted`` on."""
        work = Rows(self._sequence, start, rows, wanted)
        return self._lane.submit(work, self._decoder.outputs, owner=owner).hidden


def units_of(text: str) -> list[str]:
    """What is aligned of a text: runs of letters, digits and apostrophes between spaces, and each ideograph alone."""
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
    """Marks in milliseconds, none before the one in front of it.

    The longest run that never falls (a subsequence) is believed. Of the others, up to two in a row take the value of
    the nearer believed neighbour, longer blocks are spread evenly between both.
    """
    values = np.asarray(marks, np.int64)
    count = len(values)
    length, parent = np.ones(count, np.int64), np.full(count, -1, np.int64)
    for i in range(1, count):
        lengths = np.where(values[:i] <= values[i], length[:i], 0)
        best = int(lengths.argmax())  # the first of equals, as the official code takes it
        if lengths[best]:
            length[i], parent[i] = lengths[best] + 1, best
    believed = np.zeros(count, np.bool_)
    at = int(length.argmax()) if count else -1
    while at >= 0:
        believed[at] = True
        at = int(parent[at])
    places = np.flatnonzero(believed)
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
