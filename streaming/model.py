"""A loaded hearing model: weights once, sessions many."""

import math
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from engines import manifest as manifests
from engines.batching import Cancelled, Lane, Owner, Urgency
from engines.gguf import Busy, Decoder, Rows
from engines.manifest import AsrManifest, ManifestError
from engines.onnx import Graph
from engines.threads import budget, share
from streaming.aligner import ForcedAligner
from streaming.doubt import UNSURE, affordable
from streaming.encoder import AudioEncoder, rows_of
from streaming.language_model import LanguageModel
from streaming.listener import Listener
from streaming.mel import CLAMP, LogMel, MelStream, load_filters
from streaming.options import ListenOptions, OptionError
from streaming.prompt import Prompt
from streaming.pronunciation import Pronunciation
from streaming.respelling import Speller
from streaming.seam import SEGMENT_SECONDS
from streaming.voice import VoiceModel
from streaming.work import Work

Floats = npt.NDArray[np.float32]

SESSIONS: Final = 255
"""Most listeners: llama.cpp has 256 sequences, and texts are read in one of them (streaming/language_model.py)."""
HEAD_ROWS: Final = 192
"""Prompt rows before the audio, keyterms included; longer lists are refused."""
TEXT_ROWS: Final = 264
"""Suffix and text of one segment; 24 s of fast speech with a small vocabulary stay below it."""


def sequence_rows(manifest: AsrManifest) -> int:
    """KV rows of one session: prompt, the longest segment's audio, text."""
    frames = int(SEGMENT_SECONDS * manifest.mel.sample_rate) // manifest.mel.hop_length
    return HEAD_ROWS + rows_of(frames, manifest.encoder.chunk_frames, manifest.encoder.chunk_rows) + TEXT_ROWS


class AsrModel:
    """Weights, the lane and the KV cache, shared by every listener made here. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int = 32,
        threads: int | None = None,
        provider: str = "auto",
        kv: Literal["f16", "f32"] = "f16",
        aligner: Path | None = None,
        thorough: bool = True,
    ) -> None:
        """Load the model directory ``directory`` and warm it.

        Args:
            sessions: most listeners at a time, up to 255; each costs KV rows, no weights.
            threads: the thread budget of all model calls, None for the CPUs this process may use.
            provider: ONNX Runtime execution provider: auto, cpu, dml, cuda or coreml.
            kv: type of the KV cache.
            aligner: directory of a Qwen3-ForcedAligner, which then tells the word times of finals.
            thorough: a small model's finals are heard again where they are unsure, and all hearings confer; else they
                are heard once, in less than half the time.

        Raises:
            OptionError: ``sessions`` outside 1…255.
            ManifestError: the directory is no hearing model, or ``aligner`` no aligner.
            GgufError, ProviderError: the engines refuse it.
        """
        if not 1 <= sessions <= SESSIONS:
            raise OptionError("sessions", f"{sessions} lies outside 1…{SESSIONS}")
        manifest = manifests.read_asr(directory)
        if manifest.aligner is not None:
            raise ManifestError(
                f"{directory} holds {manifest.name}, which aligns words and hears none: a hearing model"
            )
        self.manifest = manifest
        self.directory = directory
        self.sample_rate = manifest.mel.sample_rate
        mine = share(sum(f.bytes for f in manifest.files.values()), budget(threads))
        self.doubts = affordable(manifest.decoder)
        self.unsure = UNSURE if self.doubts and thorough else -math.inf
        """Logarithm of a token's probability below which its final is heard again; -inf: finals are quick."""
        reads = self.doubts and manifest.decoder.language_model  # who has no second thoughts has one text
        phones = manifest.encoder.phones if self.doubts else None
        self.pronunciation = phones and Pronunciation.load(directory / phones.pronunciation, phones.classes)
        self.threads = mine.threads
        self.lane = Lane("hearsay-decoder")
        self.encoder_lane = Lane("hearsay-encoder") if mine.side_by_side else self.lane
        spec = manifest.encoder
        stem = Graph(directory / spec.stem, threads=mine.threads, provider=provider)
        body = Graph(directory / spec.body, threads=mine.threads, provider=provider)
        self.provider = body.provider
        self.encoder = AudioEncoder(spec, stem, body, self.encoder_lane, manifest.mel.bins)
        self.decoder = Decoder(
            directory / manifest.decoder.file,
            sequences=sessions + reads,
            rows=sequence_rows(manifest),
            threads=mine.threads,
            kv=kv,
        )
        self.prompt = Prompt.load(
            directory / manifest.tokenizer.file,
            leading_space=manifest.tokenizer.leading_space,
            languages=manifest.languages,
        )
        self.language_model = LanguageModel(self.decoder, self.prompt) if reads else None
        self.log_mel = LogMel(manifest.mel, load_filters(directory / manifest.mel.filters))
        self.aligner = None if aligner is None else self._load_aligner(aligner, mine.threads, provider)
        self.voice = VoiceModel.load()
        self.sessions = sessions
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._closed_work = Work()
        self._warm()

    def _load_aligner(self, directory: Path, threads: int, provider: str) -> ForcedAligner:
        aligner = ForcedAligner(directory, lane=self.lane, threads=threads, seconds=SEGMENT_SECONDS, provider=provider)
        if aligner.manifest.mel.sample_rate != self.sample_rate:
            raise ManifestError(f"{directory}: {aligner.manifest.mel.sample_rate} Hz, {self.name} {self.sample_rate}")
        return aligner

    @property
    def thorough(self) -> bool:
        """Whether finals are heard again where they are unsure, and conferred about (streaming/hearings.py)."""
        return self.unsure > -math.inf

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
        language = self.forced_language(options.language)
        head = self.prompt.head(options.keyterms)
        if len(head) > HEAD_ROWS:
            raise OptionError("keyterms", f"{len(head)} tokens with the model's own, the limit is {HEAD_ROWS}")
        with self._lock:
            if len(self._listeners) >= self.sessions:
                raise Busy(f"all {self.sessions} sessions are taken")
            listener = Listener(self, options, language)
            self._listeners.add(listener)
            return listener

    def forced_language(self, asked: str | None) -> str | None:
        """The language to force: the one asked for, the model's only one, or None to let the model tell.

        Raises:
            OptionError: the model does not have it.
        """
        offered = self.manifest.languages
        if asked is None:
            return offered[0] if len(offered) == 1 else None
        code = asked.replace("_", "-").split("-")[0].lower()
        if code not in offered:
            raise OptionError("language", f"{self.name} hears {', '.join(offered)}, not {asked!r}")
        return code

    def speller(self, keyterms: Sequence[str]) -> Speller | None:
        """Of a session with these keyterms; None without a list of words."""
        said = self.pronunciation
        if said is None or said.lexicon is None:
            return None
        return Speller(said, said.lexicon, self.prompt, keyterms)

    def mel_maximum(self, blocks: Iterable[Floats]) -> float:
        """Greatest log10 mel energy of a clip given in ``blocks`` of samples, for ``ListenOptions.mel_maximum``."""
        stream, maximum = MelStream(self.log_mel), float(np.log10(CLAMP))
        for block in blocks:
            stream.feed(block)
            if stream.stable > stream.kept_from:
                maximum = max(maximum, float(stream.frames(stream.kept_from, stream.stable).max()))
                stream.drop(stream.stable)
        tail = stream.tail() if stream.fed else np.empty((0, 0), np.float32)
        return max(maximum, float(tail.max())) if tail.size else maximum

    @property
    def live(self) -> int:
        """Open listeners."""
        return len(self._listeners)

    @property
    def work(self) -> Work:
        """Counters of all listeners so far, closed ones included."""
        total = Work()
        with self._lock:
            total.add(self._closed_work)
            for listener in self._listeners:
                total.add(listener.work)
        return total

    def forget(self, listener: Listener) -> None:
        """A listener closed. Called by the listener itself, once."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
                self._closed_work.add(listener.work)

    def close(self) -> None:
        """Close every listener, then the engines. Idempotent."""
        for listener in list(self._listeners):
            listener.close()
        self.encoder_lane.close()
        self.lane.close()
        self.decoder.close()
        if self.aligner is not None:
            self.aligner.close()

    # ------------------------------------------------------- calls into the decoder, from any thread

    def evaluate(self, rows: Rows, owner: Owner, urgency: Urgency = Urgency.DUE) -> Floats:
        """Logits of ``rows``; single rows of many sessions share one call, and go first."""
        if len(rows.rows) == 1:
            return self.lane.submit(rows, self.decoder.evaluate, key="step", owner=owner, urgency=Urgency.STEP)
        return self.lane.submit(rows, self.decoder.evaluate, owner=owner, urgency=urgency)

    def acquire(self, owner: Owner) -> int:
        """An empty sequence."""
        return self.lane.call(self.decoder.acquire, owner=owner)

    def release(self, sequence: int) -> None:
        """Give a sequence back, whoever owned it. Waits for the lane; nothing to do once that is closed."""
        try:
            self.lane.call(lambda: self.decoder.release(sequence))
        except Cancelled:
            return

    def embed(self, tokens: Sequence[int]) -> Floats:
        """Rows of text tokens."""
        return self.decoder.embed(tokens)

    def _warm(self) -> None:
        """Touch every page and shape that the first session would otherwise wait for."""
        self.encoder_lane.call(self.encoder.warm)
        owner = Owner()
        sequence = self.acquire(owner)
        rows = self.embed(self.prompt.head(()))
        self.evaluate(Rows(sequence, 0, rows, len(rows) - 1), owner)
        self.evaluate(Rows(sequence, len(rows), rows[:1], 0), owner)
        self.release(sequence)
