"""Speech by the hour: orders drawn from a script and the voices, said in batches, checked and written.

One process drives one GPU; `share` K of N processes draws other orders than the rest and makes an Nth of the hours.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch

from training.speech.batches import Batches, Order, Said
from training.speech.script import Script, load_script
from training.speech.takes import Checked
from training.speech.voices import OWN, OWN_SPEEDS, SPEAKERS, SPEEDS, Voice, Voices
from training.speech.weights import load
from training.speech.write import HearingWriter, SpeakingWriter, Writer
from training.stages import Share

_AHEAD = 6  # batches that may wait for a writer
_ROWS = 64  # utterances whose durations are planned at once
_BATCH_SECONDS = 320.0  # of sound, said at once
_SENTENCES = 6  # of a speaker at a time
Spoken = Iterator[tuple[Voice, float]]


def orders(script: Script, rng: np.random.Generator, spoken_by: Spoken) -> Iterator[Order]:
    """Every sentence once in random order, again and again, each time by the next voice, at its speed."""
    while True:
        for sentence in rng.permutation(len(script.texts)).tolist():
            voice, speed = next(spoken_by)
            accent = int(voice.british)
            aligned = bool(script.aligned[accent][sentence])
            text, spoken = script.texts[sentence], script.spoken[sentence]
            yield Order(text, spoken, script.line(sentence, accent), voice, speed, aligned)


def any_voice(voices: Voices, rng: np.random.Generator) -> Spoken:
    """For a model that hears."""
    while True:
        yield voices.draw(rng), float(np.exp(rng.uniform(*np.log(SPEEDS))))


def few_and_many(voices: Voices, rng: np.random.Generator, share: float) -> Spoken:
    """For a model that speaks: our own voices, and in a share of the sentences others, each saying several."""
    while True:
        other = voices.speaker(int(rng.integers(SPEAKERS)))
        for _ in range(_SENTENCES):
            while rng.random() >= share:
                yield voices.own(str(rng.choice(list(OWN)))), float(rng.uniform(*OWN_SPEEDS))
            yield other


class Line:
    """One kind of speech on its way: orders, batches, and the thread that writes."""

    def __init__(self, orders: Iterator[Order], batches: Batches, writer: Writer, hours: float) -> None:
        self.orders, self.batches, self.writer, self._hours = orders, batches, writer, hours
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[Future[None]] = []

    @property
    def done(self) -> float:
        """Share of the hours that is made."""
        return self.writer.seconds / 3600 / self._hours

    @torch.inference_mode()
    def send(self, said: Said) -> None:
        """Check a batch on its device, fetch it beside what the device does next, and let it be written."""
        checked = self.writer.check(said.wave)
        columns = [checked.samples, checked.starts, checked.ends, checked.silent, checked.clipped]
        event = None
        if said.wave.is_cuda:
            columns = [c.to("cpu", non_blocking=True) for c in columns]
            event = torch.cuda.Event()
            event.record()
        self._waiting.append(self._pool.submit(self._write, Checked(*columns), said, event))
        if len(self._waiting) > _AHEAD:
            self._waiting.pop(0).result()

    def _write(self, checked: Checked, said: Said, event: torch.cuda.Event | None) -> None:
        if event is not None:
            event.synchronize()
        self.writer.add(checked, said.orders, said.durations)

    def advance(self) -> None:
        """Take orders until a batch has been said."""
        for order in self.orders:
            batches = list(self.batches.add(order))
            for said in batches:
                self.send(said)
            if batches:
                return

    def finish(self, deadline: float) -> None:
        """Say what is planned, as long as there is time, and end the last shard."""
        for said in self.batches.finish():
            if time.monotonic() > deadline:
                break
            self.send(said)
        for future in self._waiting:
            future.result()
        self._pool.shutdown()
        self.writer.finish()


def make(
    *,
    weights: Path,
    script: Path,
    hearing: Path | None = None,
    hours: float = 0.0,
    speaking: Path | None = None,
    speaking_hours: float = 0.0,
    others: float = 0.0,
    seconds: float = 1e9,
    device: str = "cuda:0",
    share: Share = (0, 1),
    seed: int = 1,
) -> None:
    """Speech: shards of hearing and of speaking in a folder each, of so many hours (all shares together), or what is
    made in so many seconds. others: share of speaking that thousands of speakers say beside our own voices; weights:
    folder that `convert` wrote. Prints what was made about twice a minute."""
    start = told = time.monotonic()
    number, count = share
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
        torch.backends.cudnn.allow_tf32 = False  # durations as on a processor; the network's large part is float16
    torch.manual_seed(seed * 1000 + number)
    model = load(weights).to(where)
    if where.type == "cuda":
        model.decoder.half()
    voices, sentences = Voices(weights / "voices.safetensors", where), load_script(script)
    lines: dict[str, Line] = {}

    def line(name: str, drawn: Callable[..., Spoken], writer: Writer, wanted: float) -> None:
        # Of few hours, batches are smaller: what waits in them until the end is less.
        size = min(_BATCH_SECONDS, max(wanted / count * 3600 / 800, 8.0))
        rng = np.random.default_rng([seed, number, len(lines)])
        said = orders(sentences, rng, drawn(voices, rng))
        lines[name] = Line(said, Batches(model, voices, where, _ROWS, size), writer, wanted / count)

    if hearing and hours > 0:
        line("hearing", any_voice, HearingWriter(hearing, number), hours)
    if speaking and speaking_hours > 0:
        line("speaking", partial(few_and_many, share=others), SpeakingWriter(speaking, number), speaking_hours)

    def tell() -> None:
        spent = time.monotonic() - start
        total = sum(made.writer.seconds for made in lines.values())
        parts = [
            f"{name} {made.writer.seconds / 3600:.2f} h {dict(made.writer.counts)}, {made.batches.too_long} too long"
            for name, made in lines.items()
        ]
        print(f"share {number}: {spent:.0f} s, {total / spent:.0f} × real time; {'; '.join(parts)}", flush=True)

    while time.monotonic() - start < seconds:
        behind = min(lines.values(), key=lambda one: one.done, default=None)
        if behind is None or behind.done >= 1:
            break
        behind.advance()
        if time.monotonic() - told > 30:
            told = time.monotonic()
            tell()
    for one in lines.values():
        one.finish(start + seconds)
    tell()
