"""What a speaking model computes with: decoders, codec, tables, and the lane that runs their calls.

Contract: methods that compute are generators, which yield each model call to the lane (``engines/lane.py``). Calls of
one kind that wait at the same moment are one batch. The engine knows no session and no clock.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from codec.decoder import CodecDecoder, CodecState, Decode
from codec.frame_graph import FrameGraph
from codec.output import MOST_FRAMES, MOST_FRAMES_LARGE
from codec.predictor import Entry, FrameMaker, FrameStart, Predictor
from codec.prompt import HEAD_ROWS, Prompt
from codec.rows import CodeTable
from codec.sounds.reader import Reader
from codec.talker import Talker, TalkerStep
from codec.voices import Reference
from engines.device import CARD_THREADS, choose
from engines.gguf import SEQUENCES, Decoder
from engines.lane import CARD_BEGINNINGS, MOST, Cancelled, Lane, Steps, alone, call
from engines.manifest import ManifestError, TtsManifest
from engines.onnx import CPU, CUDA, Graph
from engines.scheduling import Place
from engines.threads import SMALL_BYTES, budget, halves

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

FRAME_ROWS: Final = 512
"""How many frames of one piece a sequence of the cache has room for: 41 s, longer than any sentence is read."""
SEQUENCE_ROWS: Final = HEAD_ROWS + FRAME_ROWS
BODY_ROWS: Final = 256
"""How many more rows a sequence has where a piece's text, or a reference, goes in before the first frame."""
PRIMED: Final = 8
"""How many codec states after references are kept, the last used: a voice is mostly used many times in a row."""
PREDICTOR_BATCH: Final = 8
PREDICTOR_CARD_BATCH: Final = 64


@dataclass(slots=True)
class Spent:
    """For how many seconds the lane's threads, which take part in every call, had a processor for so many frames.
    Unlike time by the clock this does not depend on what else the machine does."""

    seconds: float = 0.0
    frames: int = 0

    def add(self, seconds: float, frames: int) -> None:
        """Count a call."""
        self.seconds += seconds
        self.frames += frames

    def since(self, before: "Spent") -> float:
        """Seconds a frame since ``before``."""
        return (self.seconds - before.seconds) / max(1, self.frames - before.frames)


class Engine:
    """Weights, lane and KV cache of one model directory. Thread-safe."""

    def __init__(
        self,
        manifest: TtsManifest,
        directory: Path,
        *,
        sessions: int,
        threads: int | None,
        device: str,
        kv: Literal["f16", "f32"],
    ) -> None:
        """Arguments and errors are those of ``TtsModel``."""
        spec = manifest.codec
        self.manifest = manifest
        self.sample_rate, self.frame_samples = spec.sample_rate, spec.frame_samples
        weights = sum(file.bytes for file in manifest.files.values())
        self.device = choose(device)
        provider, card = self.device.provider, self.device.card
        making, decoding = halves(weights, budget(threads), CARD_THREADS if card else None)
        self.most_frames = MOST_FRAMES if card or weights < SMALL_BYTES else MOST_FRAMES_LARGE
        """How many frames a group may have: a codec call cannot be broken off, so it must be short."""
        self.decoding_threads = decoding.threads
        with ThreadPoolExecutor(1) as beside:  # Either graph of a large model takes a second or two to load.
            of_frame = None if card or manifest.predictor.graph_weights != "int4" else manifest.predictor.graph
            frame = of_frame and beside.submit(Graph, directory / of_frame, threads=making.threads, provider="cpu")
            graph = Graph(directory / spec.file, threads=decoding.threads, provider=provider)
        self.provider = graph.provider
        # A session has a state and the next one, and one more where a clear comes between.
        self.codec = CodecDecoder(spec, graph, kept=3 * sessions + PRIMED if graph.provider == CUDA else 0)
        self._primed: OrderedDict[str, CodecState] = OrderedDict()
        long = "stream" not in manifest.layouts or manifest.codec_encoder is not None
        self.rows = SEQUENCE_ROWS + (BODY_ROWS if long else 0)
        self.codes = CodeTable(
            directory / manifest.code_rows,
            vocabulary=manifest.talker.vocabulary,
            entries=spec.entries,
            codebooks=spec.codebooks,
        )
        if self.codes.width != manifest.talker.width:
            path = directory / manifest.code_rows
            raise ManifestError(f"{path}: rows {self.codes.width} wide, the talker is {manifest.talker.width}")
        self.prompt = Prompt.load(manifest, directory, self.codes)
        sounds = manifest.text.sounds
        self.reader = None if sounds is None else Reader.load(sounds, directory)
        """It tells the sounds of English words; None where the model reads text."""
        entry = Entry(manifest.predictor, directory, self.codes)
        self.talker_seconds = self.predictor_seconds = 0.0
        """Seconds by the clock that all calls for frames took so far in talker and predictor; the lane adds to them."""
        self.making, self.decoding = Spent(), Spent()
        self._lock = threading.Lock()
        # A frame of a large model mostly reads weights, so one call for many costs little more than for one.
        flat = card or weights >= SMALL_BYTES
        self._talking, self._decoding = Place(flat=flat), Place(flat=card)
        with ExitStack() as resources:  # of a load that fails nothing stays
            self._decoder = Decoder(
                directory / manifest.talker.file,
                # One more than there are sessions, in which the model is warmed while sessions come already.
                sequences=min(SEQUENCES, sessions + 1),
                rows=self.rows,
                threads=making.threads,
                kv=kv,
                hidden=True,
                card=card,
            )
            resources.callback(self._decoder.close)
            whole = FrameGraph(frame.result(), entry) if frame else None
            if card and manifest.predictor.graph is not None and manifest.predictor.graph_weights == "fp16":
                whole = FrameGraph.on_cuda(directory / manifest.predictor.graph, entry)
            if whole is not None:
                self._predictor: FrameMaker = whole
            else:
                small = Decoder(
                    directory / manifest.predictor.decoder.file,
                    sequences=min(sessions, PREDICTOR_CARD_BATCH if card else PREDICTOR_BATCH),
                    rows=spec.codebooks,
                    threads=making.threads,
                    kv=kv,
                    hidden=True,
                    card=card,
                    shared_rows=2,
                )
                resources.callback(small.close)
                self._predictor = Predictor(manifest.predictor, directory, small, entry, together=card)
            self.lane = Lane(
                "hearsay-speaking",
                MOST,
                processor=time.thread_time,
                threads=2 if making.side_by_side else 1,
                beginnings=CARD_BEGINNINGS if card else 1,
            )
            resources.callback(self.lane.close)
            self._resources = resources.pop_all()
        self._talker = Talker(
            self._decoder,
            entries=spec.entries,
            end=manifest.tokens.codec_eos,
            min_frames=manifest.sampling.min_frames,
        )

    @property
    def max_frames(self) -> int:
        """How many frames a piece may have."""
        return min(self.manifest.sampling.max_frames, FRAME_ROWS - 1)

    @property
    def taken(self) -> int:
        """How many sequences of the talker are in use."""
        return self._decoder.taken

    def close(self) -> None:
        """End the lane, then free the decoders. Idempotent."""
        self._resources.close()

    def acquire(self) -> Steps[int]:
        """Take an empty sequence of the talker; returns its number."""
        return alone(self._decoder.acquire, self._talking)

    def release(self, sequence: int) -> None:
        """Give a sequence back. This blocks until the lane has done it; once the lane is closed there is nothing to
        do."""
        try:
            self.lane.run(alone(lambda: self._decoder.release(sequence), self._talking))
        except Cancelled:
            return

    def prefill(self, sequence: int, start: int, rows: Floats) -> Steps[None]:
        """Put prompt rows into a sequence at ``start``."""
        return alone(lambda: self._talker.prefill(sequence, start, rows), self._talking)

    def frame(self, step: TalkerStep) -> Steps[list[int] | None]:
        """The next frame's codes, or None for the end of speech. Frames that wait at the same moment are one batch."""
        return call(self._frames, step, key="frame", place=self._talking)

    def decode(self, codes: Codes, state: CodecState) -> Steps[tuple[Floats, CodecState]]:
        """Decode ``codes``, int64 [N, codebooks]: their samples, float32, and the next state."""
        # On a CPU a batch saves next to nothing and rounds differently than one stream alone.
        key = None if self.provider == CPU else ("codec", len(codes))
        return call(self._decoded, Decode(codes, state), key=key, place=self._decoding)

    def warm(self) -> Steps[None]:
        """Run the codec in the shapes that will be run later."""
        return alone(self.codec.warm, self._decoding)

    def primed(self, reference: Reference | None) -> Steps[CodecState]:
        """The codec's state after ``reference``: a cold one would speak the right codes in the wrong voice."""
        if reference is None:
            return self.codec.start()
        key = hashlib.sha256(reference.codes.tobytes()).hexdigest()
        with self._lock:
            if key in self._primed:
                self._primed.move_to_end(key)
                return self._primed[key]
        state = self.codec.start()
        for first in range(0, len(reference.codes), self.most_frames):  # others' calls go between
            _, state = yield from self.decode(reference.codes[first : first + self.most_frames], state)
        with self._lock:
            self._primed[key] = state
            if len(self._primed) > PRIMED:
                self._primed.popitem(last=False)
        return state

    def _frames(self, steps: Sequence[TalkerStep]) -> list[list[int] | None]:
        began, worked = time.perf_counter(), time.thread_time()
        drawn = self._talker.step(steps)
        drew = time.perf_counter()
        going = [i for i, d in enumerate(drawn) if d.code is not None]
        starts = [
            FrameStart(drawn[i].hidden, drawn[i].code or 0, steps[i].talker.sampling, steps[i].talker.random)
            for i in going
        ]
        frames: list[list[int] | None] = [None] * len(steps)
        for i, codes in zip(going, self._predictor.run(starts), strict=True):
            steps[i].talker.row = self.codes.frame(codes)
            frames[i] = codes
        self.talker_seconds += drew - began
        self.predictor_seconds += time.perf_counter() - drew
        self.making.add(time.thread_time() - worked, len(steps))
        return frames

    def _decoded(self, items: Sequence[Decode]) -> Sequence[tuple[Floats, CodecState]]:
        worked = time.thread_time()
        decoded = self.codec.steps(items)
        self.decoding.add(time.thread_time() - worked, sum(len(item.codes) for item in items))
        return decoded
