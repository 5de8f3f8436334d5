"""A loaded hearing model: weights once, sessions many."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from audio.recording import samples
from engines.batching import Owner, Priority, Task
from engines.gguf import SEQUENCES, Rows
from engines.sessions import OptionError, Sessions
from streaming.decoding import EMPTY
from streaming.engine import Engine
from streaming.listener import Listener
from streaming.options import MAX_CONTEXT_WORDS, ListenOptions, TooLong
from streaming.segment import Segment
from streaming.work import Work

Floats = npt.NDArray[np.float32]

WARM_SECONDS: Final = 4.0
"""Speech that a model hears before the first session does: pages are touched, and its speed is known."""


class AsrModel:
    """Weights, lanes and KV cache, shared by every listener made here. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int = 32,
        threads: int | None = None,
        device: str = "auto",
        aligner: Path | None = None,
    ) -> None:
        """Load the model directory ``directory`` and warm it.

        Args:
            sessions: most listeners at a time, up to 256; each costs KV rows, no weights.
            threads: the thread budget of all model calls, None for the CPUs this process may use.
            device: auto, cpu, cuda or dml (``engines.device``).
            aligner: directory of a Qwen3-ForcedAligner, which then tells the word times of finals.

        Raises:
            OptionError: ``sessions`` outside 1…256.
            ManifestError: the directory is no hearing model, or ``aligner`` no aligner.
            GgufError, GraphError, ProviderError: the engines refuse it.
        """
        if not 1 <= sessions <= SEQUENCES:
            raise OptionError("sessions", f"{sessions} lies outside 1…{SEQUENCES}")
        self.engine = Engine(directory, sessions=sessions, threads=threads, device=device, aligner=aligner)
        self.manifest = self.engine.manifest
        self.directory, self.sessions = directory, sessions
        self.sample_rate = self.engine.sample_rate
        self._sessions = Sessions[Listener, Work](sessions, Work)
        try:
            self._warm()
        except BaseException:
            self.engine.close()
            raise

    @property
    def name(self) -> str:
        """The manifest's name."""
        return self.manifest.name

    def listener(self, options: ListenOptions | None = None) -> Listener:
        """A new session.

        Raises:
            Busy: ``sessions`` listeners are open.
            OptionError: the model cannot do what the options ask; names the option.
        """
        options = options or ListenOptions()
        language = self.engine.language(options.language)
        head = self.engine.head(options.keyterms, language)
        return self._sessions.open(partial(Listener, self.engine, options, language, head))

    def check(self, options: ListenOptions) -> None:
        """
        Raises:
            OptionError: the model cannot do what the options ask; names the option.
        """
        self.engine.head(options.keyterms, self.engine.language(options.language))

    def fitting(self, text: str, options: ListenOptions) -> str:
        """The end of ``text``, from a word on, that is not too long as one more keyterm of ``options``."""
        words = text.split()[-MAX_CONTEXT_WORDS:]
        while words:
            end = " ".join(words)
            try:
                self.check(replace(options, keyterms=(end, *options.keyterms)))
            except TooLong:
                words = words[max(1, len(words) // 8) :]
            except OptionError:  # something else is wrong, which another length does not mend
                return end
            else:
                return end
        return ""

    def mel_maximum(self, blocks: Iterable[Floats]) -> float:
        """Greatest log10 mel energy of a clip given in ``blocks`` of samples, for ``ListenOptions.mel_maximum``."""
        return self.engine.mel_maximum(blocks)

    @property
    def live(self) -> int:
        """Open listeners."""
        return self._sessions.live

    @property
    def headroom(self) -> int:
        """How many more live sessions this machine would keep live, by measured speed; at most the free sessions."""
        live = self.live
        return min(self.engine.load.room(live), self.sessions - live)

    @property
    def cost(self) -> float:
        """Seconds of the busiest lane that a second of a live session's speech takes, by measured speed."""
        return self.engine.load.cost

    @property
    def work(self) -> Work:
        """Counters of all listeners so far, closed ones included."""
        return self._sessions.work

    def close(self) -> None:
        """Close every listener, then the engines. Idempotent."""
        self._sessions.close()
        self.engine.close()

    def _warm(self) -> None:
        """Hear a few seconds of speech twice, the second time as live work whose cost is noted."""
        engine, owner = self.engine, Owner()
        engine.encoder_lane.call(engine.encoder.warm)
        with as_file(files("models") / "samples" / "reading.opus") as file:
            speech = np.concatenate(list(samples(file, self.sample_rate)))[: int(WARM_SECONDS * self.sample_rate)]
        language = engine.language(None)
        head = engine.head((), language)
        sequence = engine.acquire(owner)
        for priority in (Priority.BACKLOG, Priority.FINAL):
            engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows)), Task(owner, priority))
            segment = Segment(engine, sequence, head, language, Work())
            segment.extend(speech)
            segment.interim(EMPTY, (), Task(owner, Priority.BACKLOG if priority else Priority.INTERIM))
            segment.final(len(speech), Task(owner, priority))
        engine.load.heard(WARM_SECONDS)
        engine.load.looked()
        engine.release(sequence)
