"""Speech by the hour: orders are drawn from a script and the voices, said in batches, checked and written.

One process drives one GPU. With a `share` of (K, N) it draws other orders than the rest and makes an Nth of the hours.
"""

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from training.speech.batches import Batches, Order, Said
from training.speech.contour import bends
from training.speech.script import Script, load_scripts
from training.speech.takes import Checked
from training.speech.voices import OWN, OWN_SPEEDS, SPEAKERS, SPEEDS, Voice, Voices
from training.speech.weights import load
from training.speech.write import HearingWriter, SpeakingWriter, Writer
from training.stages import Share

# Batches that may wait for a writer: more would fill memory where the disk is slow.
_AHEAD = 6
# Utterances whose durations are planned at once.
_ROWS = 64
# Seconds of sound that are said at once: smaller batches leave the GPU waiting.
_BATCH_SECONDS = 320.0
# Seconds to say what waits, where a run's seconds are given.
_FINISH = 10.0
# Sentences of a speaker in a row, so that a speaker is heard in others of his own.
_SENTENCES = 6
Spoken = Iterator[tuple[Voice, float]]


def orders(script: Script, rng: np.random.Generator, spoken_by: Spoken, *, bend: bool) -> Iterator[Order]:
    """Give every sentence once in random order, again and again, each time by the next voice, at its speed. bend:
    whether pitch is bent, as it is for a model that speaks."""
    while True:
        for sentence in rng.permutation(len(script.texts)).tolist():
            voice, speed = next(spoken_by)
            accent = int(voice.british)
            aligned = bool(script.aligned[accent][sentence])
            order = Order(script.texts[sentence], script.line(sentence, accent), voice, speed, aligned)
            if bend:
                sounds = script.sounds(sentence)
                order = replace(order, sounds=sounds, bends=tuple(bends(sounds, order.tokens.tolist())))
            yield order


def any_voice(voices: Voices, rng: np.random.Generator) -> Spoken:
    """Draw any voice, for a model that hears."""
    while True:
        yield voices.draw(rng), float(np.exp(rng.uniform(*np.log(SPEEDS))))


def few_and_many(voices: Voices, rng: np.random.Generator, share: float, own: Sequence[str] = ()) -> Spoken:
    """Draw voices for a model that speaks: our own (those named, or all), and in a share of the sentences other
    speakers, each of whom says several."""
    names = list(own or OWN)
    while True:
        other = voices.speaker(int(rng.integers(SPEAKERS)))
        for _ in range(_SENTENCES):
            while rng.random() >= share:
                yield voices.own(str(rng.choice(names))), float(rng.uniform(*OWN_SPEEDS))
            yield other


class Writing:
    """A writer in a thread of its own beside the device."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self._pool = writer, ThreadPoolExecutor(1)
        self._waiting: list[Future[None]] = []

    @torch.inference_mode()
    def send(self, said: Said) -> None:
        """Check a batch on its device, fetch it beside what the device does next, and let it be written."""
        checked, event = self._writer.check(said.wave), None
        if said.wave.is_cuda:
            checked = Checked(*(column.to("cpu", non_blocking=True) for column in checked))
            event = torch.cuda.Event()
            event.record()
        self._waiting.append(self._pool.submit(self._write, checked, said, event))
        if len(self._waiting) > _AHEAD:
            self._waiting.pop(0).result()

    def _write(self, checked: Checked, said: Said, event: torch.cuda.Event | None) -> None:
        if event is not None:
            event.synchronize()
        self._writer.add(checked, said.orders, said.durations)

    def finish(self) -> None:
        """Write what waits, and end the last shard."""
        for future in self._waiting:
            future.result()
        self._pool.shutdown()
        self._writer.finish()


def make(
    *,
    weights: Path,
    script: tuple[Path, ...],
    hours: float,
    hearing: Path | None = None,
    speaking: Path | None = None,
    others: float = 0.0,
    own: tuple[str, ...] = (),
    device: str = "cuda",
    share: Share = (0, 1),
    seed: int = 1,
    seconds: float = math.inf,
) -> None:
    """Make speech: shards in a folder, for hearing or for speaking, of so many hours (all shares together) or of so
    many seconds' work. others: the share of speaking that thousands of speakers say beside our own voices; own: those
    of our own voices that speak (default: all); weights: folder that `convert` wrote. What was made is printed about
    twice a minute."""
    if (hearing is None) == (speaking is None):
        raise ValueError("make: give --hearing or --speaking")
    start = told = time.monotonic()
    number, count = share
    where = torch.device(device)
    if where.type == "cuda":
        if where.index is not None:
            torch.cuda.set_device(where)
        # Durations are then those of a processor. The network's large part is float16 in any case.
        torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(seed * 1000 + number)
    model = load(weights).to(where)
    if where.type == "cuda":
        model.decoder.half()
    voices, rng = Voices(weights / "voices.safetensors", where), np.random.default_rng([seed, number, 0])
    wanted = hours / count
    # Of few hours the batches are smaller, so that less waits in them until the end.
    batches = Batches(model, voices, where, _ROWS, min(_BATCH_SECONDS, max(wanted * 3600 / 200, 8.0)))
    spoken_by = any_voice(voices, rng) if hearing else few_and_many(voices, rng, others, own)
    writer: Writer = HearingWriter(hearing, number) if hearing else SpeakingWriter(speaking or Path(), number)
    writing = Writing(writer)

    def tell() -> None:
        spent = time.monotonic() - start
        made = f"{writer.seconds / 3600:.2f} h {dict(writer.counts)}, {batches.too_long} too long"
        print(f"share {number}: {spent:.0f} s, {writer.seconds / spent:.0f} × real time; {made}", flush=True)

    for order in orders(load_scripts(script), rng, spoken_by, bend=speaking is not None):
        for said in batches.add(order):
            writing.send(said)
        if writer.seconds >= wanted * 3600 or time.monotonic() - start > seconds:
            break
        if time.monotonic() - told > 30:
            told = time.monotonic()
            tell()
    for said in batches.finish():
        writing.send(said)
        if time.monotonic() - start > seconds + _FINISH:
            break
    writing.finish()
    tell()
