"""Hearing, phase by phase: what the front end, the encoder and the decoder cost on one recording.

The recording is heard as one segment after another of at most 24 s, without voice activity, so that every sample is
computed and the counts follow from the length alone. The model is warm, as a daemon's is before it takes a session.
``tick`` hears it as live audio: a hypothesis every so many seconds, then the final. Seconds of a phase are wall time; a
phase waits for nobody, there is one session.

Random weights say nothing and never stop, so a model that has them is measured with ``force_tokens``: what is done for
a hypothesis stays the same (tail, suffix and text so far in one call, then token by token), but the text grows by a
fixed number of tokens a tick, of which the older ones are committed.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.clips import pcm16, samples_of
from bench.probe import machine, peak_resident_bytes, resident_bytes
from clients.lag import percentile
from engines import store
from engines.gguf import Rows
from engines.lane import Steps, alone
from streaming.decoding import EMPTY
from streaming.engine import SEGMENT_SECONDS, Engine
from streaming.segment import Segment
from streaming.stability import Stability
from streaming.windows import complete_windows
from streaming.work import Work

Floats = npt.NDArray[np.float32]

UNCERTAIN: Final = 7
"""Readings after which a forced token counts as committed, so that its logits are not asked for."""


def measure(
    audio: Path,
    model: str | None,
    *,
    threads: int | None = None,
    device: str = "auto",
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
        RecordingError: no readable recording.
    """
    directory = store.find(model or store.default())
    began = time.perf_counter()
    kind = _Forced if force_tokens else Engine
    asr = kind(directory, sessions=1, threads=threads, device=device, aligner=None)
    load_seconds = time.perf_counter() - began
    samples = np.concatenate(list(samples_of(*pcm16(audio), asr.sample_rate)))
    if seconds is not None:
        samples = samples[: round(seconds * asr.sample_rate)]
    asr.lane.run(alone(asr.encoder.warm, asr.encoder.place))
    _hear(asr, samples[: asr.sample_rate], Work(), None, [], force_tokens)  # This touches all weights.
    work, ticks = Work(), list[float]()
    began = time.perf_counter()
    text = [
        _hear(asr, samples[start : start + int(SEGMENT_SECONDS * asr.sample_rate)], work, tick, ticks, force_tokens)
        for start in range(0, len(samples), int(SEGMENT_SECONDS * asr.sample_rate))
    ]
    wall = time.perf_counter() - began
    heard = len(samples) / asr.sample_rate
    result: dict[str, object] = {
        "model": asr.manifest.name,
        "encoder": asr.manifest.encoder.precision,
        "decoder": asr.manifest.decoder.quantization,
        "provider": asr.provider,
        "audio_seconds": round(heard, 3),
        "text": " ".join(text).strip(),
        "load_seconds": round(load_seconds, 3),
        "wall_seconds": round(wall, 4),
        "times_real_time": round(heard / wall, 2),
        "phases": _phases(work),
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


class _Forced(Engine):
    """An engine whose decoder says so many tokens a reading, whatever its weights say, and then ends the text.

    The tokens are drawn once, so that a reading's draft is accepted as a text that was heard before would be.
    """

    def begin(self, count: int, known: int) -> None:
        """Begin a reading of ``count`` tokens in all, of which the first logits choose number ``known``."""
        self._at, self._end = known, count

    @cached_property
    def text(self) -> Sequence[int]:
        """The tokens of every reading. Each begins a word, so that any of them may follow any other."""
        words = np.flatnonzero(self.prompt.after_word(None))
        words = words[~np.isin(words, list(self.prompt.stop))]
        return np.random.default_rng(0).choice(words, self.decoder.rows).tolist()

    def evaluate(self, rows: Rows) -> Steps[Floats]:
        """As ``Engine.evaluate``, with the greatest logit at the forced token."""
        logits = yield from super().evaluate(rows)
        for row in logits:
            token = self.text[self._at] if self._at < self._end else self.prompt.end
            row[token] = row.max() + 20.0
            self._at += 1
        return logits


def _hear(
    engine: Engine, samples: Floats, work: Work, tick: float | None, ticks: list[float], force_tokens: int
) -> str:
    """Hear one segment and return its text."""
    run = engine.lane.run
    sequence = run(engine.acquire())
    # Forced tokens name no language.
    language = engine.language(engine.manifest.languages[0] if force_tokens else None)
    try:
        head = engine.head((), language)
        began = time.perf_counter()
        run(engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows))))
        work.prefill_seconds += time.perf_counter() - began
        work.head_rows += len(head.rows)
        segment = Segment(engine, sequence, head, language, work)
        step = len(samples) if tick is None else int(tick * engine.sample_rate)
        windows, last, said = 0, EMPTY, 0
        stability = Stability(engine.rule)
        for start in range(0, len(samples), step):
            began = time.perf_counter()
            segment.extend(samples[start : start + step])
            while windows < complete_windows(engine.manifest, segment.length):
                run(segment.advance())
                windows += 1
            if tick is None:
                break
            committed = stability.tokens
            if isinstance(engine, _Forced):
                committed = last.answer.body[: max(0, said - UNCERTAIN * force_tokens)]
                said += force_tokens
                engine.begin(said, len(committed))
            last = run(segment.interim(last, committed))
            stability.hear(last, engine.prompt, segment.ctc)
            ticks.append(time.perf_counter() - began)
        if isinstance(engine, _Forced):
            if tick is None:
                engine.begin(force_tokens, 0)
                run(segment.final(segment.length))
            return ""
        return run(segment.final(segment.length)).answer.text
    finally:
        engine.release(sequence)


def _phases(work: Work) -> dict[str, object]:
    rows = work.head_rows + work.window_rows + work.tail_rows + work.text_rows
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
            "seconds": round(work.step_seconds, 4),
            "tokens": work.steps,
            "ms_per_token": round(1000 * work.step_seconds / max(work.steps, 1), 3),
        },
        # Of small models: alternatives of finals.
        "rescoring": {"seconds": round(work.rescoring_seconds, 4), "rows": work.rescoring_rows},
    }
