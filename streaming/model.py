"""A loaded hearing model: weights once, sessions many."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from audio.pcm import PcmDecoder
from engines.gguf import SEQUENCES, Rows
from engines.lane import Owner, alone, at_once
from engines.load import SPARSE_SECONDS
from engines.scheduling import Priority
from engines.sessions import OptionError, Sessions
from streaming.decoding import EMPTY
from streaming.engine import Engine
from streaming.listener import Listener
from streaming.options import MAX_CONTEXT_WORDS, ListenOptions, TooLong
from streaming.people import checked, voice_print
from streaming.segment import Segment
from streaming.speakers import Person
from streaming.vad import Voice, VoiceActivity
from streaming.work import Work

Floats = npt.NDArray[np.float32]

TOUCH_SECONDS: Final = 1.5
"""How much speech a large model hears before the first session, so that its weights are read from disk: a final of so
much touches every page of them, and more would take long. A small model hears ``WARM_SECONDS``, so that no call that is
measured next has a new shape."""
WARM_SECONDS: Final = 4.0
"""How much speech it hears next, so that its speed is known: about as long as an utterance."""


class AsrModel:
    """A loaded hearing model: weights, lane and KV cache, shared by all its listeners. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int = 32,
        threads: int | None = None,
        device: str = "auto",
        aligner: Path | None = None,
        warm: bool = True,
    ) -> None:
        """Load the model directory ``directory`` and warm it.

        Args:
            sessions: how many listeners may be open at a time, 1…256; each takes rows of the KV cache.
            threads: how many threads all model calls share; None for as many as this process has CPUs.
            device: auto, cpu, cuda or dml (``engines.device``).
            aligner: the directory of a Qwen3-ForcedAligner, which then tells the word times of finals.
            warm: False leaves warming to a call of :meth:`warm`, since a large model takes seconds for it.

        Raises:
            OptionError: ``sessions`` lies outside 1…256.
            ManifestError: the directory holds no hearing model, or ``aligner`` no aligner.
            GgufError, GraphError, ProviderError: an engine refuses the files.
        """
        if not 1 <= sessions <= SEQUENCES:
            raise OptionError("sessions", f"{sessions} lies outside 1…{SEQUENCES}")
        self.engine = Engine(directory, sessions=sessions, threads=threads, device=device, aligner=aligner)
        self.manifest = self.engine.manifest
        self.directory, self.sessions = directory, sessions
        self.sample_rate = self.engine.sample_rate
        self._sessions = Sessions[Listener, Work](sessions, Work)
        self.warmed = False
        """Whether the model is warm: its weights are in memory and its speed is known."""
        if warm:
            try:
                self.warm()
            except BaseException:
                self.engine.close()
                raise

    @property
    def name(self) -> str:
        """The model's name in its manifest."""
        return self.manifest.name

    def listener(self, options: ListenOptions | None = None, *, live: bool = True) -> Listener:
        """Open a session.

        Args:
            live: True where somebody waits for the text while speaking; False for a file, all of whose work is backlog.

        Raises:
            Busy: ``sessions`` listeners are open.
            OptionError: the model cannot do what the options ask; the error names the option.
        """
        options = options or ListenOptions()
        language = self.engine.language(options.language)
        head = self.engine.head(options.keyterms, language)
        return self._sessions.open(partial(Listener, self.engine, options, language, head, live))

    def check(self, options: ListenOptions) -> None:
        """Check options without opening a session.

        Raises:
            OptionError: the model cannot do what the options ask; the error names the option.
        """
        self.engine.head(options.keyterms, self.engine.language(options.language))

    def fitting(self, text: str, options: ListenOptions) -> str:
        """The end of ``text``, beginning at a word, that still fits as one more keyterm beside those of ``options``;
        empty where nothing fits."""
        words = text.split()[-MAX_CONTEXT_WORDS:]
        while words:
            end = " ".join(words)
            try:
                self.check(replace(options, keyterms=(end, *options.keyterms)))
            except TooLong:
                words = words[max(1, len(words) // 8) :]
            except OptionError:  # Something else is wrong, which a shorter text does not mend.
                return end
            else:
                return end
        return ""

    def speaks(self, second: Floats) -> bool:
        """Whether there is speech in a second of audio, float32 mono at the model's rate, 16 kHz."""
        return any(turn.voice is Voice.SPEECH for turn in at_once(VoiceActivity(self.engine.vad).feed(second)))

    def person(self, name: str, recordings: Sequence[Floats], owner: Owner | None = None) -> Person:
        """Who speaks in ``recordings``, float32 mono at the model's rate each, for ``ListenOptions.known``. It takes
        some tenths of a second, as backlog.

        Raises:
            OptionError: of ``name`` or ``recording``, as ``streaming.people`` tells.
        """
        name, engine = checked("name", name), self.engine
        steps = voice_print(engine.speakers(), engine.vad, recordings)
        return Person(name, engine.lane.run(steps, Priority.BACKLOG, owner=owner))

    def mel_maximum(self, blocks: Iterable[Floats]) -> float:
        """The greatest log10 mel energy of a clip, for ``ListenOptions.mel_maximum``. ``blocks``: its samples, float32
        mono at the model's rate, in pieces of any length."""
        return self.engine.mel_maximum(blocks)

    @property
    def live(self) -> int:
        """How many listeners are open."""
        return self._sessions.live

    @property
    def files(self) -> int:
        """How many of the open listeners hear files."""
        return self._sessions.count(lambda listener: not listener.live)

    @property
    def headroom(self) -> int:
        """How many more live sessions this machine would keep up with, by measured speed, and at most as many as are
        free. Files do not count. Until the model is warm and its speed known, one session may be open."""
        live = self.live - self.files
        if not self.warmed:
            return max(0, 1 - live)
        return min(self.engine.load.room(live), self.sessions - self.live)

    @property
    def cost(self) -> float:
        """How many seconds of the lane a second of one session's speech takes, by measured speed, with as few interims
        as live captions need; 0 before the speed is known."""
        return self.engine.load.cost(SPARSE_SECONDS)

    @property
    def work(self) -> Work:
        """Counters of all listeners so far, closed ones included."""
        return self._sessions.work

    def close(self) -> None:
        """Close every listener, then the engines. Idempotent."""
        self._sessions.close()
        self.engine.close()

    def warm(self) -> None:
        """Do all the work that the first session would otherwise wait for, then measure what a session costs.

        Raises:
            Cancelled: the model was closed meanwhile.
        """
        self.engine.lane.run(alone(self.engine.encoder.warm, self.engine.encoder.place))
        touched = WARM_SECONDS if self.engine.small else TOUCH_SECONDS
        self._hear(touched, Priority.BACKLOG, self.engine.lane.threads)
        self.measure()

    def measure(self) -> None:
        """Hear a few seconds of speech as live work, whose cost ``engine.load`` notes. A model that has not heard
        anything yet would seem too slow.

        Raises:
            Cancelled: the model was closed meanwhile.
        """
        self._hear(WARM_SECONDS, Priority.FINAL, 1)
        self.engine.load.heard(WARM_SECONDS)
        self.engine.load.looked()
        self.warmed = True

    def _hear(self, seconds: float, priority: Priority, count: int) -> None:
        """Make an interim and a final of ``seconds`` of speech in each of ``count`` sequences. Each new sequence lies
        in the decoder that has the most room, so ``count`` decoders take part."""
        engine = self.engine
        # Raw speech: whatever reads Opus takes 16 MB, which a daemon of callers who send raw audio never needs.
        mulaw = (files("models") / "samples" / "reading.mulaw").read_bytes()
        decoder = PcmDecoder("mulaw", 16_000, target_rate=self.sample_rate)
        speech = np.concatenate([decoder.decode(mulaw), decoder.flush()])[: int(seconds * self.sample_rate)]
        language = engine.language(None)
        head = engine.head((), language)
        run = engine.lane.run
        sequences = [run(engine.acquire()) for _ in range(min(count, self.sessions))]
        for sequence in sequences:
            run(engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows))), priority)
            segment = Segment(engine, sequence, head, language, Work())
            segment.extend(speech[: len(speech) // 2])  # An interim has about half of the final's audio.
            run(segment.interim(EMPTY, ()), Priority.BACKLOG if priority else Priority.INTERIM)
            segment.extend(speech[len(speech) // 2 :])
            run(segment.final(len(speech)), priority)
        for sequence in sequences:
            engine.release(sequence)
