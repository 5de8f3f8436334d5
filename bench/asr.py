"""Hearing, phase by phase: what the front end, the encoder and the decoder cost on one recording, and what is done for
unsure finals.

The recording is heard as one segment after another of at most 24 s, without voice activity, so that every sample is
computed and the counts follow from the length alone. ``tick`` hears it as live audio: a hypothesis every so many
seconds, then the final. Seconds of a phase are wall time; a phase waits for nobody, there is one session.

Random weights say nothing and never stop, so a model that has them is measured with ``force_tokens``: what is done for
a hypothesis stays the same (tail, suffix and text so far in one call, then token by token), but the text grows by a
fixed number of tokens a tick.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.clips import pcm16, samples_of
from bench.probe import machine, peak_resident_bytes, resident_bytes
from clients.lag import percentile
from engines import store
from engines.batching import Owner
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.hearings import Hearings
from streaming.interims import Interims
from streaming.model import AsrModel
from streaming.prefix import Head
from streaming.recognizer import Segment
from streaming.seam import SEGMENT_SECONDS
from streaming.stability import DECODER_ALONE
from streaming.work import Work

Floats = npt.NDArray[np.float32]

UNCERTAIN: Final = DECODER_ALONE.agreement
"""Readings after which a forced token counts as committed, so that its logits are not asked for."""


def measure(
    audio: Path,
    model: str | None,
    *,
    threads: int | None = None,
    tick: float | None = None,
    force_tokens: int = 0,
    seconds: float | None = None,
) -> dict[str, object]:
    """Hear ``audio`` and say what it cost.

    Args:
        model: name or directory, the default without.
        tick: seconds of audio between two hypotheses; None: the finals only.
        force_tokens: not 0: so many tokens are decoded each segment, with ``tick`` each tick, whatever the model says.
        seconds: how much of the recording; None: all of it.

    Raises:
        ModelNotFound, ManifestError: no usable model.
        OSError, soundfile.LibsndfileError: no readable recording.
    """
    directory = store.find(model or store.default())
    began = time.perf_counter()
    asr = AsrModel(directory, sessions=1, threads=threads)
    load_seconds = time.perf_counter() - began
    samples = np.concatenate(list(samples_of(*pcm16(audio), asr.sample_rate)))
    if seconds is not None:
        samples = samples[: round(seconds * asr.sample_rate)]
    work, forced, ticks = Work(), _Forced(asr, force_tokens), list[float]()
    began = time.perf_counter()
    text = [
        _hear(
            asr,
            samples[start : start + int(SEGMENT_SECONDS * asr.sample_rate)],
            work,
            tick,
            ticks,
            forced,
        )
        for start in range(0, len(samples), int(SEGMENT_SECONDS * asr.sample_rate))
    ]
    wall = time.perf_counter() - began
    heard = len(samples) / asr.sample_rate
    result: dict[str, object] = {
        "model": asr.name,
        "encoder": asr.manifest.encoder.precision,
        "decoder": asr.manifest.decoder.quantization,
        "provider": asr.provider,
        "audio_seconds": round(heard, 3),
        "text": " ".join(text).strip(),
        "load_seconds": round(load_seconds, 3),
        "wall_seconds": round(wall, 4),
        "times_real_time": round(heard / wall, 2),
        "phases": _phases(work, forced),
        # Of small models: what finals do beyond decoding once.
        "finals": {
            "second_thoughts_seconds": round(work.doubt_seconds, 4),
            "further_hearings_seconds": round(work.hearing_seconds, 4),
            "conferring_seconds": round(work.confer_seconds, 4),
        },
        "counts": {name: count for name, count in asdict(work).items() if not name.endswith("_seconds")},
        "resident_bytes": resident_bytes(),
        "peak_resident_bytes": peak_resident_bytes(),
    }
    if tick is not None:
        result["ticks"] = {
            "seconds_of_audio": tick,
            "count": len(ticks),
            "mean_ms": round(1000 * sum(ticks) / max(len(ticks), 1), 2),
            "p50_ms": round(1000 * percentile(ticks, 0.5), 2),
            "p95_ms": round(1000 * percentile(ticks, 0.95), 2),
            "worst_ms": round(1000 * max(ticks, default=0.0), 2),
        }
    asr.close()
    result["machine"] = machine(asr.threads)
    return result


class _Forced:
    """A segment whose text grows by a fixed number of tokens at each reading, and the time that took."""

    def __init__(self, asr: AsrModel, count: int) -> None:
        self._asr, self.count = asr, count
        self.tokens = 0
        self.seconds = 0.0
        self.text: list[int] = []

    def read(self, segment: Segment, sequence: int, owner: Owner) -> None:
        """Evaluate tail, suffix and text with logits on the last ``UNCERTAIN`` readings' tokens; ``count`` steps."""
        known = max(0, len(self.text) - UNCERTAIN * self.count)
        logits, position = segment.read(segment.length, self.text, known)
        began = time.perf_counter()
        token = int(logits[-1].argmax())
        count = min(self.count, self._asr.decoder.rows - position)
        for step in range(count):
            self.text.append(token)
            row = self._asr.embed([token])
            token = int(self._asr.evaluate(Rows(sequence, position + step, row, 0), owner)[0].argmax())
        self.tokens += count
        self.seconds += time.perf_counter() - began


def _hear(
    asr: AsrModel,
    samples: Floats,
    work: Work,
    tick: float | None,
    ticks: list[float],
    forced: _Forced,
) -> str:
    """One segment; returns its text."""
    owner = Owner()
    sequence = asr.acquire(owner)
    language = asr.forced_language(None)
    forced.text.clear()
    try:
        head = asr.embed(asr.prompt.head(()))
        began = time.perf_counter()
        asr.evaluate(Rows(sequence, 0, head, len(head)), owner)
        work.prefill_seconds += time.perf_counter() - began
        work.head_rows += len(head)
        segment = Segment(asr, sequence, Head(head, (), KeytermBias(())), language, owner, work)
        interims = Interims(asr, segment, work)
        step = len(samples) if tick is None else int(tick * asr.sample_rate)
        for start in range(0, len(samples), step):
            began = time.perf_counter()
            segment.extend(samples[start : start + step])
            segment.advance(segment.length)
            segment.settle()
            if forced.count:
                forced.read(segment, sequence, owner)
            elif tick is not None:
                interims.tick()
            if tick is not None:
                ticks.append(time.perf_counter() - began)
        if forced.count:
            return ""
        return Hearings(asr, segment, segment.length, work).settle().answer.text
    finally:
        asr.release(sequence)


def _phases(work: Work, forced: _Forced) -> dict[str, object]:
    rows = work.head_rows + work.window_rows + work.tail_rows + work.text_rows
    tokens = work.steps + forced.tokens
    decode = work.step_seconds + forced.seconds
    return {
        "mel": {"seconds": round(work.mel_seconds, 4), "frames": work.mel_frames},
        "stem": {
            "seconds": round(work.stem_seconds, 4),
            "chunks": work.stem_chunks,
            "again": work.stem_repeats,
            "tails": work.stem_tails,
        },
        "body": {"seconds": round(work.body_seconds, 4), "windows": work.windows, "tails": work.body_tails},
        "prefill": {
            "seconds": round(work.prefill_seconds, 4),
            "rows": rows,
            "ms_per_row": round(1000 * work.prefill_seconds / max(rows, 1), 3),
        },
        "decode": {
            "seconds": round(decode, 4),
            "tokens": tokens,
            "forced": forced.tokens,
            "ms_per_token": round(1000 * decode / max(tokens, 1), 3),
        },
    }
