"""Transcripts made of hypotheses: words with times and confidences, on the session's clock.

The words of an interim share out the time of their segment, and are marked ``approximate``. The words of a final are
timed by the aligner beside the model if there is one, else by the model's own CTC head, else as those of an interim.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.lane import Steps
from streaming.ctc import align
from streaming.decoding import Hypothesis
from streaming.encoder import ROW_FRAMES
from streaming.engine import Engine
from streaming.events import Transcript, Word
from streaming.segment import Segment
from streaming.utterance import Utterance

SPIKE_DELAY: Final = 0.065
"""By how many seconds the CTC head's spike comes after the beginning of its word: the signed median over 200 utterances
of espeak-ng, which reports where its words start. ``hearsay bench words tests/synthetic`` measures what error stays."""

Found = list[tuple[str, int, int]]
"""The words of a text, each with the index of its first token and of the one after its last."""
Times = list[tuple[float, float]]
"""Start and end of each word, in seconds on the session's clock."""


class Transcripts:
    """Makes the transcripts of one session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rate = engine.sample_rate

    def interim(self, utterance: Utterance, hypothesis: Hypothesis, end: int) -> Transcript:
        """The transcript of an interim ``hypothesis`` of the utterance's first ``end`` samples; all but its committed
        words may be revised."""
        found = self._engine.prompt.words(hypothesis.answer.body, hypothesis.answer.language)
        span = self._span(utterance.start, end)
        committed = len(utterance.stability.words)
        return _transcript(
            hypothesis, found, share([text for text, _, _ in found], *span), span, committed, approximate=True
        )

    def final(self, utterance: Utterance, segment: Segment, hypothesis: Hypothesis) -> Steps[Transcript]:
        """The final transcript of ``utterance``, which is closed."""
        closed = utterance.closed
        assert closed is not None
        found = self._engine.prompt.words(hypothesis.answer.body, hypothesis.answer.language)
        span = self._span(utterance.start, closed.end)
        times = yield from self._marked(segment, hypothesis, found, utterance.start, closed.end)
        times = self._aligned(segment, hypothesis, found, span) if times is None else times
        approximate = times is None
        times = share([text for text, _, _ in found], *span) if times is None else times
        event = _transcript(hypothesis, found, times, span, len(found), approximate=approximate)
        return replace(
            event,
            is_final=True,
            speech_final=closed.speech_final,
            from_finalize=closed.from_finalize,
            silence=closed.silence,
            sure=closed.sure,
            retracted_words=utterance.stability.retracted([w.text for w in event.words]),
        )

    def _marked(
        self, segment: Segment, hypothesis: Hypothesis, found: Found, start: int, end: int
    ) -> Steps[Times | None]:
        """The times of the words by the aligner beside the model; None if there is none or it cannot tell."""
        if self._engine.aligner is None:
            return None
        words = [text for text, _, _ in found]
        times = yield from self._engine.aligner.times(segment.audio(0, end), words, hypothesis.answer.language)
        offset = start / self._rate
        return None if times is None else [(offset + a, offset + b) for a, b in times]

    def _aligned(
        self, segment: Segment, hypothesis: Hypothesis, found: Found, span: tuple[float, float]
    ) -> Times | None:
        """The times of the words by the CTC head; None if the model has none or the text cannot be aligned."""
        spec, mel = self._engine.manifest.encoder, self._engine.manifest.mel
        ctc = segment.ctc.log_probs
        if ctc is None or spec.ctc_blank is None:
            return None
        edges = row_edges(
            len(ctc),
            chunk_rows=spec.chunk_rows,
            chunk_frames=spec.chunk_frames,
            frame_seconds=mel.hop_length / mel.sample_rate,
            offset=span[0],
        )
        spans = [(a, b) for _, a, b in found]
        return word_times(ctc, hypothesis.answer.body, spans, spec.ctc_blank, edges, span[1])

    def _span(self, start: int, end: int) -> tuple[float, float]:
        """From ``start``, a sample of the session, for ``end`` samples: both ends in seconds on its clock."""
        return start / self._rate, (start + end) / self._rate


def _transcript(
    hypothesis: Hypothesis,
    found: Found,
    times: Times,
    span: tuple[float, float],
    committed: int,
    *,
    approximate: bool,
) -> Transcript:
    sure = hypothesis.body_probabilities
    words = tuple(
        Word(text, round(a, 3), round(b, 3), round(float(np.mean(sure[i:j])), 4), approximate)
        for (text, i, j), (a, b) in zip(found, times, strict=True)
    )
    return Transcript(
        *span,
        hypothesis.answer.text.strip(),
        words,
        min(committed, len(words)),
        hypothesis.answer.language,
        confidence=round(float(np.mean(sure)), 4) if sure else 0.0,
    )


def row_edges(
    rows: int, *, chunk_rows: int, chunk_frames: int, frame_seconds: float, offset: float = 0.0
) -> npt.NDArray[np.float64]:
    """The seconds at which the encoder's rows begin, and at which the last one ends: float64 [rows + 1].

    A row begins every 8 frames of its chunk. The rows are not evenly spaced if a chunk is no multiple of 8 frames: one
    of 100 frames gives 13 rows, the last of which has 4 frames (its other half is padding), so row 13 begins at 1.00 s,
    not at 1.04 s. Chunks of 200 or 400 frames give 25 or 50 even rows.

    Args:
        rows: how many rows there are.
        chunk_rows, chunk_frames: how many rows and frames a chunk has (the manifest's ``encoder``).
        frame_seconds: the mel hop in seconds.
        offset: the second at which the first row begins.
    """
    chunk, row = np.divmod(np.arange(rows + 1), chunk_rows)
    return offset + frame_seconds * (chunk * chunk_frames + row * ROW_FRAMES)


def word_times(
    log_probs: npt.NDArray[np.float32],
    tokens: Sequence[int],
    spans: Sequence[tuple[int, int]],
    blank: int,
    edges: npt.NDArray[np.float64],
    end: float,
) -> list[tuple[float, float]] | None:
    """The times of a segment's words by forced alignment.

    A word starts ``SPIKE_DELAY`` before the first row of its first token. It ends with the last row of its last token,
    or where the next word starts if that is sooner.

    Args:
        log_probs: float32 [rows, vocabulary + 1], the segment's CTC log-probabilities.
        tokens: the tokens of the segment's text, without blanks.
        spans: (first token, one past the last) of each word, in order; tokens between words belong to none.
        blank: the index of the blank.
        edges: the ``row_edges`` of the rows.
        end: the second at which the segment ends. Its last row may reach beyond, its words do not.

    Returns:
        (start, end) of each word in seconds, none before the end of the previous one; None if the text cannot be
        aligned.

    Raises:
        ValueError: as ``align``.
    """
    alignment = align(log_probs, tokens, blank)
    if alignment is None:
        return None
    starts = np.maximum(edges[[alignment.first[a] for a, _ in spans]] - SPIKE_DELAY, edges[0])
    ends = np.minimum(edges[[alignment.last[b - 1] + 1 for _, b in spans]], end)
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    return [(float(min(a, b)), float(b)) for a, b in zip(starts, ends, strict=True)]


def share(words: Sequence[str], start: float, end: float) -> list[tuple[float, float]]:
    """Times for ``words`` where nothing aligned them: they share out the time from ``start`` to ``end`` in proportion
    to their lengths."""
    edges = np.cumsum([0, *map(len, words)], dtype=np.float64)
    edges = np.minimum(start + (end - start) * edges / max(edges[-1], 1), end)
    return [(float(a), float(b)) for a, b in pairwise(edges)]
