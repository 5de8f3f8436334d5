"""What a hearing model computes with: encoder, decoder and its KV cache, tables, and the lanes before them.

Contract: every call may come from any thread and blocks until a lane has done it. Knows no session and no clock.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from engines.batching import MOST, Cancelled, Lane, Owner
from engines.device import CARD_THREADS, choose
from engines.files import load_tokenizer
from engines.gguf import SEQUENCES, Decoder, Rows
from engines.integrity import check
from engines.load import Load
from engines.manifest import FixedFloor, ManifestError, read_asr
from engines.onnx import Graph
from engines.threads import budget, share
from streaming.encoder import AudioEncoder, rows_of
from streaming.forced_aligner import ForcedAligner
from streaming.fun_asr.fbank import Fbank
from streaming.fun_asr.prompt import FunAsrPrompt
from streaming.keyterms import KeytermBias
from streaming.mel import CLAMP, LogMel, MelStream, load_filters
from streaming.options import OptionError, TooLong
from streaming.prompt import Prompt
from streaming.stability import DECODER_ALONE, WITH_CTC
from streaming.vad import VoiceModel

Floats = npt.NDArray[np.float32]
T = TypeVar("T")

SEGMENT_SECONDS: Final = 24.0
"""Longest segment."""
BEYOND_SECONDS: Final = 0.2
"""A segment is seen to be full up to a frame later, and a final has zeros behind it."""
HEAD_ROWS: Final = 192
"""Prompt rows before the audio, keyterms included; longer lists are refused."""
TEXT_ROWS: Final = 256
"""Suffix and text of one segment; 24 s of fast speech with a small vocabulary stay below it."""

SMALL_WEIGHTS: Final = 50_000_000
"""Most weights in a small decoder's layers. The embedded one has 7 million, the smallest released one 352 million."""


@dataclass(frozen=True, slots=True)
class Head:
    """The prompt before the audio: its rows [n, width], evaluated once a session, and the keyterms in it."""

    rows: Floats
    keyterms: tuple[str, ...]
    bias: KeytermBias


class Engine:
    """Weights, lanes and KV cache of one model directory. Thread-safe."""

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
        """Whether its texts are decoded in the lane. By dimensions, not bytes: it hears the same in every precision."""
        self.rescores = self.small and spec.ctc_blank is not None
        """Whether finals are chosen from an n-best list."""
        self.rule = DECODER_ALONE if spec.ctc_blank is None else WITH_CTC
        """Which words of its hypotheses are committed."""
        frames = int((SEGMENT_SECONDS + BEYOND_SECONDS) * self.sample_rate) // manifest.mel.hop_length
        audio, whole = rows_of(frames, spec.chunk_frames, spec.chunk_rows), manifest.fun_asr
        rows = HEAD_ROWS + (audio if whole is None else whole.heard(audio)) + TEXT_ROWS
        tokenizer = load_tokenizer(directory / manifest.tokenizer.file)
        spaced = manifest.tokenizer.leading_space
        if whole is None:
            self.prompt = Prompt(tokenizer, leading_space=spaced)
            self.log_mel = LogMel(manifest.mel, load_filters(directory / manifest.mel.filters))
        else:
            self.prompt = FunAsrPrompt(tokenizer, whole, leading_space=spaced)
            self.log_mel = Fbank(directory, manifest.mel, whole, spec.chunk_frames)
        self.vad = VoiceModel.load()
        stem = None if spec.stem is None else Graph(directory / spec.stem, threads=mine.threads, provider=provider)
        body = Graph(directory / spec.body, threads=mine.threads, provider=provider)
        self.provider = body.provider
        with ExitStack() as opened:
            self.lane = Lane("hearsay-decoder", most=SEQUENCES if where.card else MOST, flat=where.card)
            opened.callback(self.lane.close)
            self.encoder_lane = Lane("hearsay-encoder") if mine.side_by_side else self.lane
            opened.callback(self.encoder_lane.close)
            self.encoder = AudioEncoder(spec, stem, body, self.encoder_lane, manifest.mel.bins)
            self.decoder = Decoder(
                directory / decoder.file,
                sequences=sessions,
                rows=rows,
                threads=mine.threads,
                card=where.card,
            )
            opened.callback(self.decoder.close)
            self.aligner = None if aligner is None else self._load_aligner(aligner, mine.threads, provider)
            opened.pop_all()
        self.load = Load([self.lane, self.encoder_lane])

    def _load_aligner(self, directory: Path, threads: int, provider: str) -> ForcedAligner:
        aligner = ForcedAligner(directory, lane=self.lane, threads=threads, seconds=SEGMENT_SECONDS, provider=provider)
        if aligner.manifest.mel.sample_rate != self.sample_rate:
            rate = aligner.manifest.mel.sample_rate
            aligner.close()
            raise ManifestError(f"{directory}: {rate} Hz, {self.manifest.name} {self.sample_rate}")
        return aligner

    def close(self) -> None:
        """End the lanes, then free the decoders. Idempotent."""
        self.encoder_lane.close()
        self.lane.close()
        self.decoder.close()
        if self.aligner is not None:
            self.aligner.close()

    # ---------------------------------------------------------------- decoder

    def evaluate(self, rows: Rows, owner: Owner) -> Floats:
        """Logits of ``rows``; single rows of many sessions share one call."""
        key = "step" if len(rows.rows) == 1 else None
        return self.lane.submit(rows, self.decoder.evaluate, key=key, owner=owner)

    def chain(self, calls: Callable[[], T], owner: Owner) -> T:
        """What ``calls`` returns, which brings ``evaluate`` one call after another.

        A small decoder's are shorter than the way to the lane and back: there all are one job, which gives way to what
        is more urgent before each of them. A large one's single rows had better share calls.
        """
        return self.lane.call(calls, owner=owner) if self.small else calls()

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
        """Rows of text tokens: float32 [n, width]."""
        return self.decoder.embed(tokens)

    # ---------------------------------------------------------------- what options mean to this model

    def language(self, asked: str | None) -> str | None:
        """The language to force: the one asked for, the model's only one, or None to let the model tell.

        Raises:
            OptionError: the model does not have it.
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
            OptionError: they are too long.
        """
        if mark := self.prompt.own_mark(keyterms):
            raise OptionError("keyterms", f"{mark} belongs to the model")
        tokens = self.prompt.head(keyterms, language)
        if len(tokens) > HEAD_ROWS:
            raise TooLong("keyterms", f"{len(tokens)} tokens with the model's own, the limit is {HEAD_ROWS}")
        opener = self.prompt.opener if language is None else None
        return Head(self.embed(tokens), keyterms, KeytermBias(self.prompt.terms(keyterms), opener, self.prompt.longer))

    def mel_maximum(self, blocks: Iterable[Floats]) -> float:
        """Greatest log10 mel energy of a clip given in ``blocks`` of samples, for ``ListenOptions.mel_maximum``."""
        if isinstance(self.log_mel.mel.floor, FixedFloor):
            return self.log_mel.mel.floor.log10  # nothing asks for it
        stream, maximum = MelStream(self.log_mel), float(np.log10(CLAMP))
        for block in blocks:
            stream.feed(block)
            if stream.stable > stream.kept_from:
                maximum = max(maximum, float(stream.frames(stream.kept_from, stream.stable).max()))
                stream.drop(stream.stable)
        return float(stream.tail().max(initial=maximum))
