"""Comparing an exported model with the official code, stage by stage.

The exported model is run by the runtime's own parts: ``streaming.mel``, ``streaming.encoder``, ``streaming.prompt`` and
``engines.gguf``. Stages in float32 (encoder, f32 decoder) must keep limits. Those that were rounded on purpose (fp16,
int8, block formats) are shown, and must keep only limits that rounding explains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engines import manifest as manifests
from engines.files import load_tokenizer
from engines.gguf import Decoder, Rows
from engines.lane import Lane
from engines.manifest import ClipFloor
from engines.onnx import Graph
from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.sound import sound
from export.table import Row, Table
from export.verify.alignment import aligner_rows
from export.verify.reference import Generated, Reference
from streaming.encoder import AudioEncoder, Encoded, rows_of
from streaming.mel import LogMel, load_filters, official_length
from streaming.prompt import LANGUAGES, Prompt

Floats = NDArray[np.float32]

SECONDS = (0.1, 0.3, 1.0, 7.99, 8.0, 8.01, 30.0, 61.3)
"""The lengths of the clips, on both sides of every edge (the shortest official length, a chunk, a window), and with
several windows."""

ENCODER_ERROR, ENCODER_COSINE = 1e-4, 0.999999
"""The largest error divided by the reference's RMS, and the least cosine of a row, that a float32 encoder may have.
They are a choice, well above what sums in another order make."""

HEAD_ERROR = 1e-3
"""The largest difference that the CTC head's log-probabilities may have in float32. Logarithms of small probabilities
make differences larger than those of the embeddings."""

MEL_ERROR = 1e-4
"""The largest difference that normalised mel features may have where no floor applies: the official transform is in
float32, ours in float64."""

TOKENS, FORCED = 64, 256
"""How many tokens are decoded greedily, and on how many tokens of the official text teacher-forced logits are compared.
With fewer, a single near-tie that rounding decides would be more than half a per cent."""

LOGIT_ERROR = 2e-4
"""The largest error that logits may have in float32, divided by their standard deviation. Two runs of the official code
are 6.6e-5 apart at 0.6B dimensions; an error of 1 % in one tensor makes 7e-3 and more (tests/reference/noise.py)."""

F16_AGREEMENT = 0.995
"""On what share of the tokens a decoder in float16 must agree: all but one near-tie in 200."""
DISTINCT = 20
"""How many different tokens a decoder of random weights should write, so that agreeing on them proves something."""
THREADS = 2


class Exported:
    """An exported model, run by the runtime's own parts."""

    def __init__(self, directory: Path) -> None:
        self.manifest = manifests.read_asr(directory)
        self.directory = directory
        spec = self.manifest.encoder
        self.mel = LogMel(self.manifest.mel, load_filters(directory / self.manifest.mel.filters))
        self.lane = Lane("parity")
        graphs = [Graph(directory / name, threads=THREADS, provider="cpu") for name in (spec.stem, spec.body)]
        self.encoder = AudioEncoder(spec, graphs[0], graphs[1], self.manifest.mel.bins)
        self.clip = Graph(directory / spec.clip, threads=THREADS, provider="cpu") if spec.clip else None
        self.tokenizer = directory / self.manifest.tokenizer.file
        self.prompt = Prompt(load_tokenizer(self.tokenizer), leading_space=False)

    def decoder(self, rows: int) -> Decoder:
        """The decoder, with a KV cache of ``rows`` rows in float32."""
        return Decoder(self.directory / self.manifest.decoder.file, sequences=1, rows=rows, threads=THREADS, kv="f32")

    def encode(self, features: Floats) -> Encoded:
        """Encode features [bins, frames], chunk by chunk and window by window."""
        spec = self.manifest.encoder
        chunks = [features[:, at : at + spec.chunk_frames] for at in range(0, features.shape[1], spec.chunk_frames)]
        rows = np.concatenate(self.lane.run(self.encoder.stems(chunks)))
        parts = (rows[at : at + spec.window_rows] for at in range(0, len(rows), spec.window_rows))
        windows = [self.lane.run(self.encoder.body(part)) for part in parts]
        return Encoded.joined(windows)

    def encode_clip(self, features: Floats) -> Floats:
        """Encode features [bins, frames] by the whole-clip graph."""
        assert self.clip is not None
        spec = self.manifest.encoder
        frames = features.shape[1]
        valid = rows_of(frames, spec.chunk_frames, spec.chunk_rows)
        padded = np.pad(features, ((0, 0), (0, -frames % spec.chunk_frames)))[None]
        return self.clip.run({"mel": padded, "valid_rows": np.array([valid])})[0][0, :valid]

    def close(self) -> None:
        """Stop the lane."""
        self.lane.close()


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the exported decoder gives after the reference's prompt: its own greedy tokens, and its logits on the
    reference's tokens."""

    tokens: NDArray[np.int64]
    forced: Floats


def decode(
    decoder: Decoder, ids: Sequence[int], placeholder: int, audio: Floats, reference: Generated, count: int
) -> Decoded:
    """Evaluate a prompt, with ``audio`` in place of its placeholders. Decode ``count`` tokens greedily after it, and
    evaluate all of the reference's tokens after it."""
    rows = decoder.embed(ids)
    rows[np.asarray(ids) == placeholder] = audio
    own: list[int] = []
    sequence = decoder.acquire()
    logits = decoder.evaluate([Rows(sequence, 0, rows, len(rows) - 1)])[0]
    for step in range(count):
        own.append(int(logits[-1].argmax()))
        if step + 1 < count:
            logits = decoder.evaluate([Rows(sequence, len(rows) + step, decoder.embed(own[-1:]), 0)])[0]
    decoder.release(sequence)
    sequence = decoder.acquire()
    whole = np.concatenate([rows, decoder.embed(reference.tokens[:-1].tolist())])
    forced = decoder.evaluate([Rows(sequence, 0, whole, len(rows) - 1)])[0]
    decoder.release(sequence)
    return Decoded(np.array(own), forced)


def error(values: Floats, reference: Floats) -> tuple[float, float]:
    """The largest error divided by the reference's RMS, and the least cosine of a row."""
    ours, theirs = values.astype(np.float64), reference.astype(np.float64)
    worst = float(np.abs(ours - theirs).max() / np.sqrt((theirs**2).mean()))
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return worst, float(((ours * theirs).sum(1) / norms).min())


def verify(
    directory: Path,
    against: Path,
    *,
    seconds: Sequence[float] = SECONDS,
    reference: Reference | None = None,
) -> Table:
    """Compare a model directory with its checkpoint. ``reference`` is that checkpoint's official model if it is loaded
    already."""
    if reference is None:
        checkpoint = open_checkpoint(against)
        reference = Reference(checkpoint, read_dims(checkpoint))
    exported = Exported(directory)
    torch.set_num_threads(THREADS)
    try:
        rows = [*mel_rows(exported, reference, seconds), *encoder_rows(exported, reference, seconds)]
        rows += prompt_rows(exported, reference)
        if exported.manifest.aligner is None:
            rows += decoder_rows(exported, reference)
        else:
            rows += aligner_rows(directory, reference, LOGIT_ERROR)
        return Table(f"{directory} against {against}", tuple(rows))
    finally:
        exported.close()


def mel_rows(exported: Exported, reference: Reference, seconds: Sequence[float]) -> Iterator[Row]:
    """Compare the runtime's log-mel with the official extractor's, where neither is at its floor."""
    worst = 0.0
    for index, length in enumerate(seconds):
        samples = sound(length, index)
        padded = np.pad(samples, (0, official_length(len(samples)) - len(samples)))
        features, _ = reference.features(samples)
        theirs = features[0].numpy()[:, : len(padded) // exported.manifest.mel.hop_length]
        ours = exported.mel.clip(padded)
        if isinstance(exported.manifest.mel.floor, ClipFloor):
            free = np.ones(theirs.shape, bool)
        else:
            free = (theirs > theirs.min() + 1e-3) & (ours > ours.min() + 1e-3)
        worst = max(worst, float(np.abs(ours - theirs)[free].max()))
    yield Row("log-mel", "largest error", worst, MEL_ERROR)


def encoder_rows(exported: Exported, reference: Reference, seconds: Sequence[float]) -> Iterator[Row]:
    """Compare both forms of the encoder, on the official features."""
    exact = exported.manifest.encoder.precision == "fp32"
    limit, least = (ENCODER_ERROR, ENCODER_COSINE) if exact else (None, None)
    for index, length in enumerate(seconds):
        features, mask = reference.features(sound(length, index))
        theirs = reference.encode(features, mask)
        valid = features[0].numpy()[:, : int(mask.sum())]
        ours = exported.encode(valid)
        yield from compared(f"encoder {length:g} s", ours.embeddings, theirs, limit, least)
        if exported.clip is not None:
            yield from compared(f"clip graph {length:g} s", exported.encode_clip(valid), theirs, limit, least)
        official = reference.ctc(features, mask) if reference.dims.encoder.ctc else None
        if ours.ctc is not None or official is not None:
            yield head_row(f"ctc {length:g} s", ours.ctc, official, exact)


def head_row(stage: str, ours: Floats | None, theirs: Floats | None, exact: bool) -> Row:
    """Compare the CTC head's log-probabilities. It is an error if only one side has such a head."""
    if ours is None or theirs is None or ours.shape != theirs.shape:
        shapes = [None if each is None else list(each.shape) for each in (ours, theirs)]
        return Row(stage, f"shape {shapes[0]}, not {shapes[1]}", float("inf"), 0.0)
    return Row(stage, "largest error", float(np.abs(ours - theirs).max()), HEAD_ERROR if exact else None)


def compared(stage: str, ours: Floats, theirs: Floats, limit: float | None, least: float | None) -> Iterator[Row]:
    """The rows of one comparison. It is an error if the shapes differ."""
    if ours.shape != theirs.shape:
        yield Row(stage, f"shape {list(ours.shape)}, not {list(theirs.shape)}", float("inf"), 0.0)
        return
    worst, cosine = error(ours, theirs)
    yield Row(stage, "largest error / RMS", worst, limit)
    yield Row(stage, "least cosine", cosine, least, at_least=True)


def prompt_rows(exported: Exported, reference: Reference) -> Iterator[Row]:
    """Compare the ids of prompts with and without language and context."""
    if exported.manifest.aligner is not None:
        return
    samples = sound(2.0, 1)
    count = rows_of(200, exported.manifest.encoder.chunk_frames, exported.manifest.encoder.chunk_rows)
    placeholder = Tokenizer.from_file(str(exported.tokenizer)).token_to_id("<|audio_pad|>")
    for code in (None, exported.manifest.languages[0]):
        for terms in ((), ("hearsay", "Qwen3 ASR")):
            ours = [*exported.prompt.head(terms), *[placeholder] * count, *exported.prompt.suffix(code)]
            name = None if code is None else LANGUAGES[code]
            theirs = reference.prompt(exported.tokenizer, samples, name, " ".join(terms) or None)
            different = sum(a != b for a, b in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs))
            what = f"prompt, {'language' if code else 'no language'}, {'context' if terms else 'no context'}"
            yield Row(what, "ids that differ", float(different), 0.0)


def decoder_rows(exported: Exported, reference: Reference) -> Iterator[Row]:
    """Compare greedy tokens and teacher-forced logits on three clips."""
    kind = exported.manifest.decoder.quantization
    exact, half = kind == "f32", kind == "f16"
    placeholder = Tokenizer.from_file(str(exported.tokenizer)).token_to_id("<|audio_pad|>")
    decoder = exported.decoder(rows=1024)
    agreed, total, said = 0, 0, []
    try:
        for index, length in enumerate((2.0, 8.01, 12.5)):
            samples = sound(length, 10 + index)
            ids = reference.prompt(exported.tokenizer, samples, None, None)
            features, mask = reference.features(samples)
            generated = reference.generate(ids, features, mask, FORCED)
            audio = reference.encode(features, mask)
            decoded = decode(decoder, ids, placeholder, audio, generated, TOKENS)
            same = decoded.tokens == generated.tokens[:TOKENS]
            first = TOKENS if same.all() else int(np.argmin(same))
            stage = f"decoder {length:g} s"
            yield Row(
                stage,
                f"greedy tokens until the first other, of {TOKENS}",
                float(first),
                TOKENS if exact else None,
                at_least=True,
            )
            if first < TOKENS:
                best = np.sort(generated.logits[first])[-2:]
                yield Row(
                    stage,
                    "margin there / deviation of the logits",
                    float((best[1] - best[0]) / generated.logits[first].std()),
                    None,
                )
            worst = float((np.abs(decoded.forced - generated.logits).max(1) / generated.logits.std(1)).max())
            yield Row(stage, "largest logit error / deviation", worst, LOGIT_ERROR if exact else None)
            agreed += int((decoded.forced.argmax(1) == generated.tokens).sum())
            total += len(generated.tokens)
            said.append(tuple(generated.tokens[:TOKENS].tolist()))
            yield Row(stage, "distinct tokens", float(len(set(said[-1]))), None)
        yield Row(
            "decoder",
            "teacher-forced agreement",
            agreed / total,
            1.0 if exact else F16_AGREEMENT if half else None,
            at_least=True,
        )
        yield Row(
            "decoder", "different texts for different audio", float(len(set(said))), float(len(said)), at_least=True
        )
    finally:
        decoder.close()
