"""From hypotheses to the transcripts that a session sends: words with times and confidences, on the session's clock.

An interim's words share out its segment's time and say so (``approximate``). A final's are timed by the aligner beside
the model, else by the model's own CTC head, else they share too.
"""

from typing import TYPE_CHECKING

import numpy as np

from engines.batching import Owner
from streaming.alignment import row_edges, share, word_times
from streaming.events import Transcript, Word
from streaming.hypothesis import Hypothesis
from streaming.recognizer import Segment
from streaming.stability import Stability

if TYPE_CHECKING:
    from streaming.model import AsrModel

Found = list[tuple[str, int, int]]
"""Words of a text: each with the first of its tokens and the one after its last."""
Times = list[tuple[float, float]]
"""Start and end of each word, in seconds of the session."""


class Transcripts:
    """Makes the transcripts of one session. ``start``: the segment's first sample on the session's clock; ``end``: the
    sample of the segment that the hypothesis goes up to."""

    def __init__(self, model: "AsrModel", owner: Owner) -> None:
        self._model, self._owner = model, owner
        self._rate = model.sample_rate

    def interim(self, hypothesis: Hypothesis, committed: int, start: int, end: int) -> Transcript:
        """What is heard so far; all but the first ``committed`` words may be revised."""
        found = self._model.prompt.words(hypothesis.answer.body, hypothesis.answer.language)
        span = self._span(start, end)
        return _transcript(hypothesis, found, _shared(found, span), span, committed, approximate=True)

    def final(
        self,
        segment: Segment,
        hypothesis: Hypothesis,
        stability: Stability,
        start: int,
        end: int,
        *,
        speech_final: bool,
        from_finalize: bool,
    ) -> Transcript:
        """What was said. Blocking where an aligner times the words."""
        found = self._model.prompt.words(hypothesis.answer.body, hypothesis.answer.language)
        span = self._span(start, end)
        times = self._marked(segment, hypothesis, found, start, end) if self._model.aligner is not None else None
        times = self._aligned(segment, hypothesis, found, span) if times is None else times
        approximate = times is None
        times = _shared(found, span) if times is None else times
        event = _transcript(hypothesis, found, times, span, len(found), approximate=approximate)
        return Transcript(
            event.start,
            event.end,
            event.text,
            event.words,
            event.stable_words,
            event.language,
            is_final=True,
            speech_final=speech_final,
            from_finalize=from_finalize,
            confidence=event.confidence,
            retracted_words=stability.retracted([w.text for w in event.words]),
        )

    def _marked(self, segment: Segment, hypothesis: Hypothesis, found: Found, start: int, end: int) -> Times | None:
        """Times of the words by the aligner beside the model, None where it cannot tell."""
        assert self._model.aligner is not None
        words = [text for text, _, _ in found]
        times = self._model.aligner.times(segment.audio(0, end), words, hypothesis.answer.language, self._owner)
        offset = start / self._rate
        return None if times is None else [(offset + a, offset + b) for a, b in times]

    def _aligned(
        self, segment: Segment, hypothesis: Hypothesis, found: Found, span: tuple[float, float]
    ) -> Times | None:
        """Times of the words by the CTC head, None where the model has none or the text cannot be aligned."""
        spec, mel = self._model.manifest.encoder, self._model.manifest.mel
        ctc = segment.ctc
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
        """Start and end in seconds of the session."""
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


def _shared(found: Found, span: tuple[float, float]) -> Times:
    """The time of ``span`` shared out over the words."""
    return share([text for text, _, _ in found], *span)
