"""Speaking, part by part: what prompt, talker, predictor and codec cost, and when the first sound is there.

One voice speaks plain sentences until so many frames are made, to a listener who plays at once: groups of frames are
as large as its buffer allows, as in a live session. A model that ends a sentence goes on with the next; one with random
weights is stopped by a guard, which costs the same. Seconds are wall time; there is one session, so nobody waits. CPU
time, all threads together, tells how busy the machine was otherwise. The next frames are made while the codec decodes,
so the parts' seconds together may be more than the wall's, and ``other_seconds`` negative.
"""

import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np

from bench.probe import machine, peak_resident_bytes, resident_bytes
from clients.clock import PlaybackClock
from clients.lag import percentile
from codec.events import AudioChunk, Cleared, Event, Finished
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.output import MOST_FRAMES
from engines.threads import budget

TEXT = (
    "The museum opens at ten and closes at five. My neighbour planted roses along the fence. He counted eleven boats "
    "in the harbour. A cold wind blew in from the sea, and the old man fed the birds in the park. "
)
FIRST_WORDS = "The museum opens "
FIRST_TRIALS = 7
"""Measurements of the first audio, of which the median is given."""
CLEAR_TRIALS = 20
"""Measurements of a clear."""
CLEAR_LIMIT = 60.0
"""Seconds in which a clear's audio or answer must come, before the measurement gives up."""
CALLS = (1, 4, 12)
"""The numbers of frames in a codec call for which the time is published."""
CALL_TRIALS = 9
"""Measurements of a codec call."""


def measure(
    directory: Path, *, frames: int = 125, threads: int | None = None, device: str = "auto", voice: str | None = None
) -> dict[str, object]:
    """Let the model in ``directory`` speak ``frames`` frames, and say what they cost.

    Args:
        voice: id of a voice, the model's first without.

    Raises:
        ManifestError: no usable model.
        OptionError: no such voice.
    """
    began = time.perf_counter()
    tts = TtsModel(directory, sessions=1, threads=threads, device=device)
    load_seconds = time.perf_counter() - began
    try:
        options = SpeakOptions(voice=voice, seed=1, pauses=0)
        cold = [_first_audio(tts, options, prepared=False) for _ in range(FIRST_TRIALS)]
        prepared = [_first_audio(tts, options, prepared=True) for _ in range(FIRST_TRIALS)]
        result: dict[str, object] = {
            "model": tts.name,
            "talker": tts.manifest.talker.quantization,
            "predictor": tts.manifest.predictor.decoder.quantization,
            "codec": tts.manifest.codec.precision,
            "provider": tts.engine.provider,
            "load_seconds": round(load_seconds, 3),
            "first_audio_ms": {
                "at_once": _spread(cold),
                "prompt_prepared": _spread(prepared),
            },
            **_speak(tts, options, frames),
            "clear_ms": clear_ms(tts, options),
            "codec_ms_per_frame": {str(count): _codec_ms(tts, count) for count in CALLS},
            "resident_bytes": resident_bytes(),
            "peak_resident_bytes": peak_resident_bytes(),
        }
    finally:
        tts.close()
    result["machine"] = machine(budget(threads))
    return result


def _first_audio(tts: TtsModel, options: SpeakOptions, *, prepared: bool) -> float:
    """Seconds from the first words to the first samples, of a new session; ``prepared``: it was opened before."""
    speaker = tts.speaker(options)
    try:
        if prepared:
            speaker.step()
        began = time.perf_counter()
        speaker.say(FIRST_WORDS)
        while not any(isinstance(event, AudioChunk) for event in speaker.step(0.0)):
            pass
        return time.perf_counter() - began
    finally:
        speaker.close()


def clear_ms(tts: TtsModel, options: SpeakOptions) -> dict[str, float]:
    """From a clear in mid-sentence to the step that answers it: by then the engine is free for others.

    The clears come at moments spread over the making of a group, when it is as large as it gets.

    Raises:
        TimeoutError: what should come next did not come for ``CLEAR_LIMIT`` seconds. What a step raised, too.
    """
    speaker, came, times = tts.speaker(options), SimpleQueue[Event | Exception](), list[float]()

    def drive() -> None:
        try:
            while not speaker.finished:
                for event in speaker.step(float(MOST_FRAMES)):
                    came.put(event)
                speaker.wait(1.0)
        except Exception as error:
            came.put(error)

    driving = threading.Thread(target=drive)
    driving.start()
    try:
        for trial in range(CLEAR_TRIALS):
            speaker.say(TEXT)
            _await(AudioChunk, came)  # One frame is out, and a whole group is being made.
            time.sleep(trial * tts.frame_samples / tts.sample_rate / 8)
            began = time.perf_counter()
            speaker.clear()
            _await(Cleared, came)
            times.append(time.perf_counter() - began)
        speaker.finish()
        _await(Finished, came)
    finally:
        speaker.close()
        driving.join()
    return {"p95": round(1000 * percentile(times, 0.95), 1), **_spread(times)}


def _await(wanted: type[Event], came: "SimpleQueue[Event | Exception]") -> None:
    """Take what came up to the first event that is ``wanted``; raises as ``clear_ms``."""
    until = time.perf_counter() + CLEAR_LIMIT
    while True:
        try:
            event = came.get(timeout=max(0.0, until - time.perf_counter()))
        except Empty:
            raise TimeoutError(f"no {wanted.__name__} came for {CLEAR_LIMIT:g} s") from None
        if isinstance(event, Exception):
            raise event
        if isinstance(event, wanted):
            return


def _speak(tts: TtsModel, options: SpeakOptions, frames: int) -> dict[str, object]:
    """The run itself: real-time factor, seconds of each part, counts."""
    engine, clock = tts.engine, PlaybackClock()
    speaker = tts.speaker(options)
    talker, predictor, samples = engine.talker_seconds, engine.predictor_seconds, 0
    began, cpu = time.perf_counter(), time.process_time()
    try:
        while speaker.work.codec_frames < frames:
            if speaker.pending < len(TEXT):
                speaker.say(TEXT)
            for event in speaker.step(clock.buffered(time.perf_counter())):
                if isinstance(event, AudioChunk):
                    samples += len(event.samples)
                    clock.add(len(event.samples) / speaker.sample_rate, time.perf_counter())
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        work = speaker.work
    finally:
        speaker.close()
    audio = samples / speaker.sample_rate
    talker, predictor = engine.talker_seconds - talker, engine.predictor_seconds - predictor
    parts = {"prefill": work.prefill_seconds, "talker": talker, "predictor": predictor, "codec": work.codec_seconds}
    per_frame = {name: round(1000 * seconds / work.frames, 2) for name, seconds in parts.items() if name != "prefill"}
    return {
        "audio_seconds": round(audio, 3),
        "wall_seconds": round(wall, 4),
        "cpu_seconds": round(cpu, 4),
        "real_time_factor": round(wall / audio, 4),
        "seconds": {name: round(seconds, 4) for name, seconds in parts.items()},
        "other_seconds": round(wall - sum(parts.values()), 4),
        "ms_per_frame": per_frame,
        "counts": {
            "frames": work.frames,
            "pieces": work.pieces,
            "prefill_rows": work.prefill_rows,
            "codec_calls": work.codec_calls,
            "text_tokens": work.text_tokens,
            "guard_stops": work.budget_stops + work.silence_stops + work.repetition_stops + work.cap_stops,
        },
        "under_runs": clock.under_runs,
    }


def _codec_ms(tts: TtsModel, frames: int) -> float:
    """Milliseconds a frame of codec calls with ``frames`` frames one after another, the median."""
    engine = tts.engine
    spec = tts.manifest.codec
    codes = np.random.default_rng(0).integers(0, spec.entries, (CALL_TRIALS, frames, spec.codebooks))
    state, times = engine.codec.start(), list[float]()
    for call in codes:
        began = time.perf_counter()
        _, state = engine.codec.step(call, state)
        times.append(time.perf_counter() - began)
    return round(1000 * percentile(times, 0.5) / frames, 2)


def _spread(values: list[float]) -> dict[str, float]:
    return {"p50": round(1000 * percentile(values, 0.5), 1), "worst": round(1000 * max(values), 1)}
