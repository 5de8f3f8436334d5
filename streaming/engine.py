"""What a hearing model computes with: encoder, decoder with its KV cache, tables, and the lane that runs their calls.

Contract: methods that compute are generators, which yield each model call to the lane (``engines/lane.py``). The engine
knows no session and no clock.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.decoders import Decoders
from engines.device import CARD_THREADS, choose
from engines.files import load_tokenizer
from engines.gguf import SEQUENCES, Rows
from engines.integrity import check
from engines.lane import CARD_BEGINNINGS, MOST, Cancelled, Lane, Steps
from engines.load import INTERIM_SECONDS, LARGE_INTERIM_SECONDS, Load
from engines.manifest import FixedFloor, ManifestError, read_asr
from engines.onnx import Graph
from engines.threads import budget, share
from streaming import families
from streaming.encoder import AudioEncoder, rows_of
from streaming.forced_aligner import ForcedAligner
from streaming.keyterms import KeytermBias
from streaming.mel import CLAMP, MelStream
from streaming.options import OptionError, TooLong
from streaming.speakers import SpeakerModel
from streaming.stability import DECODER_ALONE, WITH_CTC
from streaming.vad import VoiceModel

Floats = npt.NDArray[np.float32]

SEGMENT_SECONDS: Final = 24.0
"""How long a segment may be: three windows of 8 s. Its length decides how much of the KV cache each session takes."""
BEYOND_SECONDS: Final = 0.2
"""By how much a segment's audio may be longer than that: it is seen to be full up to a frame (32 ms) late, and a final
has 0.15 s of zeros behind it."""
HEAD_ROWS: Final = 192
"""How many rows of the cache the prompt before the audio may take, keyterms included; a longer list is refused. It is a
choice between some fifty names and the memory that each session's sequence takes."""
TEXT_ROWS: Final = 256
"""How many rows of the cache the prompt after the audio and the text of one segment take at most: fast speech of 24 s
in a small vocabulary, some 190 tokens, fits."""

SMALL_WEIGHTS: Final = 50_000_000
"""How many weights the layers of a small decoder have at most. It only has to part two groups: the bundled decoder has
7 million, the smallest released one 352 million."""


@dataclass(frozen=True, slots=True)
class Head:
    """The prompt before the audio: its embeddings, float32 [n, width], which are evaluated once a session, the keyterms
    in it and their bonus at decoding."""

    rows: Floats
    keyterms: tuple[str, ...]
    bias: KeytermBias


class Engine:
    """The weights, lane and KV caches of one model directory. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int,
        threads: int | None,
        device: str,
        aligner: Path | None,
    ) -> None:
        """Arguments and errors are those of ``AsrModel``."""
        manifest = read_asr(directory)
        check(directory, manifest)
        if manifest.aligner is not None:
            raise ManifestError(
                f"{directory} holds {manifest.name}, which aligns words and hears none: a hearing model"
            )
        self.manifest = manifest
        self.sample_rate = manifest.mel.sample_rate
        where = choose(device)
        provider = where.provider
        mine = share(
            sum(f.bytes for f in manifest.files.values()), budget(threads), CARD_THREADS if where.card else None
        )
        self.threads = mine.threads
        spec, decoder = manifest.encoder, manifest.decoder
        self.small = 12 * decoder.layers * decoder.width**2 <= SMALL_WEIGHTS
        """Whether the decoder is small. Its dimensions decide, not its bytes, so that all precisions of a model work
        alike."""
        self.rescores = self.small and spec.ctc_blank is not None
        """Whether finals are chosen from an n-best list."""
        self.rule = DECODER_ALONE if spec.ctc_blank is None else WITH_CTC
        """When words of a hypothesis are committed."""
        frames = int((SEGMENT_SECONDS + BEYOND_SECONDS) * self.sample_rate) // manifest.mel.hop_length
        self.family = families.load(directory, manifest, load_tokenizer(directory / manifest.tokenizer.file))
        self.prompt, self.log_mel = self.family.prompt, self.family.log_mel
        audio = self.family.rows(rows_of(frames, spec.chunk_frames, spec.chunk_rows))
        self.vad = VoiceModel.load()
        self._speakers: SpeakerModel | None = None
        self._loading = threading.Lock()
        graph = partial(Graph, threads=mine.threads, provider=provider)
        stem = None if spec.stem is None else graph(directory / spec.stem, convolves=True)
        # Without a stem it is the body that has convolutions.
        body = graph(directory / spec.body, convolves=spec.stem is None)
        self.provider = body.provider
        with ExitStack() as opened:
            self.lane = Lane(
                "hearsay-hearing",
                SEQUENCES if where.card else MOST,
                processor=None if where.card or mine.threads > 1 else time.thread_time,
                threads=2 if mine.side_by_side else 1,
                hands=mine.threads if where.card else 0,
                beginnings=CARD_BEGINNINGS if where.card else 1,
            )
            opened.callback(self.lane.close)
            self.encoder = AudioEncoder(spec, stem, body, manifest.mel.bins)
            self.decoder = Decoders(
                directory / decoder.file,
                count=1 if where.card else self.lane.threads,
                # Besides those of sessions there are some in which the model is warmed while sessions come already.
                sequences=min(SEQUENCES, sessions + self.lane.threads),
                rows=HEAD_ROWS + audio + TEXT_ROWS,
                threads=mine.threads,
                card=where.card,
                flat=where.card or not self.small,
            )
            opened.callback(self.decoder.close)
            self.aligner = None if aligner is None else self._load_aligner(aligner, sessions, mine.threads, provider)
            opened.pop_all()
        places = [self.encoder.place] if self.encoder.place is not None else []
        self.load = Load(
            self.lane,
            [*places, *self.decoder.places] if len(self.decoder.places) == 1 else places,
            cores=0 if where.card else budget(threads),
            threads=mine.threads,
            interim_seconds=INTERIM_SECONDS if self.small and not where.card else LARGE_INTERIM_SECONDS,
        )

    def _load_aligner(self, directory: Path, sessions: int, threads: int, provider: str) -> ForcedAligner:
        aligner = ForcedAligner(
            directory, sessions=sessions, threads=threads, seconds=SEGMENT_SECONDS, provider=provider
        )
        if aligner.manifest.mel.sample_rate != self.sample_rate:
            rate = aligner.manifest.mel.sample_rate
            aligner.close()
            raise ManifestError(f"{directory}: {rate} Hz, {self.manifest.name} {self.sample_rate}")
        return aligner

    def close(self) -> None:
        """End the lane, then free decoders and aligner. Idempotent."""
        self.lane.close()
        self.decoder.close()
        if self.aligner is not None:
            self.aligner.close()

    def speakers(self) -> SpeakerModel:
        """The speaker encoder, which is loaded when it is first asked for: some tens of milliseconds."""
        with self._loading:
            self._speakers = self._speakers or SpeakerModel.load()
            return self._speakers

    @property
    def knows_speakers(self) -> bool:
        """Whether the speaker encoder is loaded."""
        return self._speakers is not None

    # ---------------------------------------------------------------- decoder

    def evaluate(self, rows: Rows) -> Steps[Floats]:
        """Evaluate ``rows`` and return the logits that they ask for, float32 [wanted, vocabulary]; single rows of many
        sessions share one call."""
        return self.decoder.evaluate(rows)

    def acquire(self) -> Steps[int]:
        """Take an empty sequence of the KV cache; returns its number."""
        return self.decoder.acquire()

    def release(self, sequence: int) -> None:
        """Give a sequence back, whoever owned it. This blocks until the lane has done it; once the lane is closed there
        is nothing to do."""
        try:
            self.lane.run(self.decoder.release(sequence))
        except Cancelled:
            return

    def embed(self, tokens: Sequence[int]) -> Floats:
        """The embeddings of text tokens: float32 [n, width]."""
        return self.decoder.embed(tokens)

    # ---------------------------------------------------------------- what options mean to this model

    def language(self, asked: str | None) -> str | None:
        """The language to force, as an ISO code: the one ``asked`` for, else the model's only one, else None, which
        lets the model tell. A region ("en-GB") is dropped.

        Raises:
            OptionError: the model does not know the language.
        """
        offered = self.manifest.languages
        if asked is None:
            return offered[0] if len(offered) == 1 else None
        code = asked.replace("_", "-").split("-")[0].lower()
        if code not in offered:
            raise OptionError("language", f"{self.manifest.name} hears {', '.join(offered)}, not {asked!r}")
        return code

    def head(self, keyterms: tuple[str, ...], language: str | None) -> Head:
        """The prompt before the audio of a session with these keyterms.

        Raises:
            OptionError: they hold a token of the conversation itself.
            TooLong: their tokens do not fit.
        """
        if mark := self.prompt.own_mark(keyterms):
            raise OptionError("keyterms", f"{mark} belongs to the model")
        tokens = self.prompt.head(keyterms, language)
        if len(tokens) > HEAD_ROWS:
            raise TooLong("keyterms", f"{len(tokens)} tokens with the model's own, the limit is {HEAD_ROWS}")
        opener = self.prompt.opener if language is None else None
        return Head(self.embed(tokens), keyterms, KeytermBias(self.prompt.terms(keyterms), opener, self.prompt.longer))

    def mel_maximum(self, blocks: Iterable[Floats]) -> float:
        """The greatest log10 mel energy of a clip, for ``ListenOptions.mel_maximum``. ``blocks``: its samples, float32
        mono at the model's rate, in pieces of any length."""
        if isinstance(self.log_mel.mel.floor, FixedFloor):
            return self.log_mel.mel.floor.log10  # A model with a fixed floor never uses the value.
        stream, maximum = MelStream(self.log_mel), float(np.log10(CLAMP))
        for block in blocks:
            stream.feed(block)
            if stream.stable > stream.kept_from:
                maximum = max(maximum, float(stream.frames(stream.kept_from, stream.stable).max()))
                stream.drop(stream.stable)
        return float(stream.tail().max(initial=maximum))
