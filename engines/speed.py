"""Whether this machine keeps a model live: by what was measured when it ran here, else by an estimate from a probe of
two seconds.

A model's *cost* is how many seconds this machine takes for a second of sound: of one live session's audio for a hearing
model, with an interim every two seconds (``engines.load``), of one voice's speech for a speaking model. A model is live
if its cost is at most :data:`LIVE`.

The cost is measured when a model is warmed at the end of its pull, and lies beside its files. For a model that never
ran here, ran on another machine, or is not here yet, it is estimated from its parameters and three speeds of this
machine: the time for one *row* and parameter in a product of many rows, where arithmetic limits, in q8_0 and in
float32, and the time for one *step* and byte of weights in a product of one row, where reading memory limits. The probe
measures them by llama.cpp on layers of the 0.6B model's shape, and by NumPy.
"""

import hashlib
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from engines import store
from engines.gguf import Decoder, Rows
from engines.llama import instruction_sets, offloads, products
from engines.load import SPARSE_SECONDS, USABLE
from engines.manifest import AsrManifest, Manifest
from engines.releases import Weights
from engines.threads import budget

LIVE: Final = 1.0
"""The greatest cost at which a model is live: a second for a second of sound."""
COMFORTABLE: Final = USABLE
"""The greatest cost of a model, or a precision, that is chosen for a user who named none. It leaves room for what else
the machine does."""
FILE: Final = "measured.json"
"""The name of the file beside ``model.json`` that keeps what the model cost on this machine."""

_BUSY: Final = 2.0
"""The load average per CPU above which a measurement tells of what else runs, not of this machine's speed. It is a
choice: the pull itself brings the load to about 1."""

BYTES: Final = {"f32": 4.0, "f16": 2.0, "q8_0": 1.0625, "q6_k": 0.82, "q4_k_m": 0.61}
"""How many bytes a weight takes in each quantisation of a decoder: 34 for 32 weights in q8_0, 210 for 256 in q6_k;
q4_k_m, a mixture of q4_k and q6_k, has 4.9 bits in the released decoders."""
_ROW_FACTOR: Final = {"f32": 3.0, "f16": 3.0, "q6_k": 1.6, "q4_k_m": 1.3}
"""How many times as long a row takes as in a product of float32 by NumPy. These are cautious estimates, which hold on
processors without VNNI too."""
_K_ROW: Final = 1.3
"""How many times as long as in q8_0 a row takes in q4_k_m or q6_k where tools/llama multiplies both. In ticks at 0.6B
it was 1.0 to 1.3 for q4_k_m (notes/2026-11-processors.md)."""
_WIDTHS: Final = {"int8": 1, "fp16": 2, "fp32": 4}
"""How many bytes a weight takes in each precision of a graph."""
_ENCODER_FACTOR: Final = 1.2
"""How many times as long a row takes per parameter of an encoder as in a product of float32. It is an estimate: an
encoder's products are of int8, but it has attention over a whole window and convolutions besides."""

# An estimate counts the work that AsrModel measures when it warms up: an interim and a final of four seconds of speech.
_AUDIO_ROWS: Final = 52
"""The rows of four seconds of audio, at 13 a second."""
_PROMPT_ROWS: Final = 12
"""The rows of the prompt after the audio, and the interim's draft."""
_TOKENS: Final = 14
"""The tokens of four seconds of speech that are decoded one by one: 3.5 a second, some 150 words a minute."""
_PASSES: Final = 1 / SPARSE_SECONDS + 1 / 4
"""How many interims and finals a second of audio needs, with a final every four seconds."""

_FRAMES: Final = 12.5
"""The frames in a second of speech of Qwen3-TTS."""
_PREDICTOR_PASSES: Final = 15
"""The passes of the code predictor for a frame: one for each of its 16 codebooks but the first."""
_CODEC_ROWS: Final = 24
"""As how many rows through all of its parameters a frame counts in the codec. It is an estimate: most parameters see
one to a few rows a frame, the last convolutions all of its 1920 samples."""


@dataclass(frozen=True, slots=True)
class Units:
    """The speeds of this machine: how many seconds it takes for a row and parameter in q8_0, for a step and byte of
    weights, and for a row and parameter in float32."""

    row: float
    step: float
    product: float


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model cost when it was measured, on which machine (:func:`machine`) and with how many threads."""

    cost: float
    machine: str
    threads: int
    failed: bool = False
    """Whether the model failed its trial: it did not transcribe or speak a sentence as it should."""


def machine() -> str:
    """A key that differs between machines whose speeds are not comparable."""
    told = [platform.machine(), str(os.cpu_count()), *sorted(instruction_sets()), _processor(), str(offloads())]
    return hashlib.sha256(" ".join(told).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


_notes: Final = msgspec.json.Decoder(Measured)


def note(directory: Path, cost: float, threads: int | None = None, *, failed: bool = False) -> None:
    """Write down what the model of ``directory`` cost here, and whether it failed its trial. Nothing is written while
    the machine is busy with other things, since the cost would be wrong, nor in a directory that is read-only."""
    if not failed and sys.platform != "win32" and os.getloadavg()[0] > _BUSY * (os.cpu_count() or 1):
        if failed_here(directory):
            (directory / FILE).unlink(missing_ok=True)
        return
    measured = Measured(round(cost, 4), machine(), budget(threads), failed)
    try:
        (directory / FILE).write_bytes(msgspec.json.encode(measured))
    except OSError:
        return


def note_first(directory: Path, cost: float, threads: int | None = None) -> None:
    """Keep what one of the user's models costs here, where that was not measured before: its trial was left out, or the
    machine was busy, or it is another machine."""
    if directory.parent == store.user_directory() and measured(directory, threads) is None:
        note(directory, cost, threads, failed=failed_here(directory))


def measured(directory: Path, threads: int | None = None) -> float | None:
    """What the model of ``directory`` cost when it ran on this machine with so many threads; None if it never did."""
    found = _noted(directory)
    if found is None or (found.machine, found.threads) != (machine(), budget(threads)):
        return None
    return found.cost


def failed_here(directory: Path) -> bool:
    """Whether the model of ``directory`` failed its last trial."""
    found = _noted(directory)
    return found is not None and found.failed


def _noted(directory: Path) -> Measured | None:
    try:
        return _notes.decode((directory / FILE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def cost_of(directory: Path, manifest: Manifest, threads: int | None = None) -> float:
    """The cost of a model on disk: measured, else estimated."""
    known = measured(directory, threads)
    return estimate_of(manifest, probe(threads)) if known is None else known


def estimate_of(manifest: Manifest, units: Units) -> float:
    """The estimated cost of a model on disk, by the sizes of its files."""
    files = manifest.files
    if isinstance(manifest, AsrManifest):
        decoder, spec = manifest.decoder, manifest.encoder
        apart = (decoder.file, manifest.tokenizer.file)
        encoder = sum(file.bytes for name, file in files.items() if name not in apart) / _WIDTHS[spec.precision]
        weights = Weights(round(encoder), round(files[decoder.file].bytes / BYTES[decoder.quantization]))
        return hearing(weights, decoder.quantization, units)
    talker, predictor = manifest.talker, manifest.predictor.decoder
    codec = (
        sum(file.bytes for name, file in files.items() if name.startswith("codec")) / _WIDTHS[manifest.codec.precision]
    )
    weights = Weights(
        round(codec),
        round(files[talker.file].bytes / BYTES[talker.quantization]),
        16 * predictor.layers * predictor.width**2,
    )
    return speaking(weights, talker.quantization, units)


def hearing(weights: Weights, quantization: str, units: Units) -> float:
    """The estimated cost of a hearing model's live session."""
    encoder = _AUDIO_ROWS * weights.encoder * units.product * _ENCODER_FACTOR
    if quantization == "q8_0":
        row = units.row
    elif quantization in ("q4_k_m", "q6_k") and products() is not None:
        row = units.row * _K_ROW
    else:
        row = units.product * _ROW_FACTOR[quantization]
    rows = (_AUDIO_ROWS + _PROMPT_ROWS) * weights.decoder * row
    steps = _TOKENS * weights.decoder * BYTES[quantization] * units.step
    return _PASSES * (encoder + rows + steps)


def speaking(weights: Weights, quantization: str, units: Units) -> float:
    """The estimated cost of a speaking model's voice."""
    read = (weights.decoder + _PREDICTOR_PASSES * weights.predictor) * BYTES[quantization] * units.step
    return _FRAMES * (read + _CODEC_ROWS * weights.encoder * units.product)


def cost(kind: str, weights: Weights, quantization: str, units: Units) -> float:
    """The estimated cost of a model of that kind, asr or tts."""
    return (speaking if kind == "tts" else hearing)(weights, quantization, units)


def resident(kind: str, weights: Weights, quantization: str) -> int:
    """About how many bytes a model takes in memory with one session.

    This is an estimate from the dimensions: a speaking model's codec runs in fp32 and its embedding tables take 330 MB,
    an encoder runs in int8, of which a tenth is not quantised; interpreter, libraries and one session take 300 MB.
    """
    tables = 330_000_000 if kind == "tts" else 0
    decoders = (weights.decoder + weights.predictor) * BYTES[quantization]
    return round(weights.encoder * (4 if kind == "tts" else 1.1) + decoders + tables + 300e6)


# ------------------------------------------------------------------------------------------------------------ the probe

_LAYERS: Final = 6
"""How many layers are written: 100 MB, which is more than processors cache."""
_WIDTH: Final = 1024
_INNER: Final = 3072
_HEADS: Final = 16
_KEYS: Final = 8
_HEAD: Final = 128
"""The dimensions of a layer of Qwen3-0.6B: width, width of the feed-forward part, heads for queries, heads for keys and
values, width of a head."""
_ROWS: Final = 52
"""How many rows are timed in one product: those of four seconds of audio."""
_TURNS: Final = 5
_STEPS: Final = 12
"""How often the product of many rows and that of one row are timed. The fastest counts, and with these numbers the
probe takes about two seconds."""
_MORE: Final = 0.8
"""What each further thread adds to the speed of one: an estimate, since they share caches, and wait for each other
after every product."""
_READERS: Final = 6
"""How many threads read memory as fast as it can deliver: an estimate for processors with two memory channels or so."""


@cache
def probe(threads: int | None = None) -> Units:
    """Measure this machine's speed, in about two seconds; a second call returns the same.

    The graphics card is measured if llama.cpp computes on one, else a single thread, from which the speed of
    ``threads`` (None for as many as this process has CPUs) is estimated.

    Raises:
        GgufError: llama.cpp does not load what the probe wrote.
        OSError: there is no room for 100 MB in the directory of temporary files.
    """
    card = offloads()
    # The thread's own processor time does not count what else runs at this moment. A card's work has no such time.
    clock = time.perf_counter if card else time.thread_time

    def seconds(items: Rows) -> float:
        began = clock()
        decoder.evaluate([items])
        return clock() - began

    with tempfile.TemporaryDirectory(prefix="hearsay-probe-") as folder:
        file = Path(folder) / "probe.gguf"
        weights, size = _write(file)
        decoder = Decoder(file, sequences=1, rows=_ROWS + _STEPS, threads=1, card=card)
        try:
            rows = np.random.default_rng(0).standard_normal((_ROWS, _WIDTH)).astype(np.float32)
            sequence = decoder.acquire()
            many, one = Rows(sequence, 0, rows, _ROWS), Rows(sequence, _ROWS, rows[:1], 0)
            seconds(many)  # The first call also reads the pages.
            row = min(seconds(many) for _ in range(_TURNS)) / _ROWS / weights
            step = min(seconds(one) for _ in range(_STEPS)) / size
        finally:
            decoder.close()
    more = 0 if card else budget(threads) - 1
    product = row if card else _product() / (1 + _MORE * more)
    return Units(row / (1 + _MORE * more), step / (1 + _MORE * min(more, _READERS - 1)), product)


def _product() -> float:
    """Seconds of one thread for a row and parameter in a product of float32."""
    random = np.random.default_rng(0)
    rows, weights = (random.standard_normal(shape, np.float32) for shape in ((_ROWS, _WIDTH), (_WIDTH, _INNER)))
    made = rows @ weights

    def seconds() -> float:
        began = time.thread_time()
        np.matmul(rows, weights, out=made)
        return time.thread_time() - began

    return min(seconds() for _ in range(2 * _TURNS)) / _ROWS / weights.size


def _write(file: Path) -> tuple[int, int]:
    """Write a decoder with random layers of the 0.6B model's shape. Returns how many weights the layers have, and how
    many bytes."""
    import gguf

    writer: Any = gguf.GGUFWriter(file, "qwen3")
    writer.add_context_length(4096)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KEYS)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(256)
    writer.add_tokenizer_model("no_vocab")
    random = np.random.default_rng(0)
    weights = size = 0

    def matrix(name: str, rows: int, columns: int) -> int:
        """Add a random matrix in q8_0, whose blocks are a half-precision scale and 32 numbers of 8 bits. Returns how
        many bytes it has."""
        blocks = np.empty((rows * columns // 32, 34), np.uint8)
        blocks[:, :2] = np.frombuffer(np.float16(1e-4).tobytes(), np.uint8)
        blocks[:, 2:] = np.resize(random.integers(1, 255, 1 << 16, dtype=np.uint8), (len(blocks), 32))
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        return blocks.size

    def ones(name: str, count: int) -> None:
        writer.add_tensor(name, np.ones(count, np.float32))

    matrix("token_embd.weight", 256, _WIDTH)
    ones("output_norm.weight", _WIDTH)
    for layer in range(_LAYERS):
        for name, count in (
            ("attn_norm", _WIDTH),
            ("ffn_norm", _WIDTH),
            ("attn_q_norm", _HEAD),
            ("attn_k_norm", _HEAD),
        ):
            ones(f"blk.{layer}.{name}.weight", count)
        for name, rows, columns in (
            ("attn_q", _HEADS * _HEAD, _WIDTH), ("attn_k", _KEYS * _HEAD, _WIDTH), ("attn_v", _KEYS * _HEAD, _WIDTH),
            ("attn_output", _WIDTH, _HEADS * _HEAD), ("ffn_gate", _INNER, _WIDTH), ("ffn_up", _INNER, _WIDTH),
            ("ffn_down", _WIDTH, _INNER),
        ):  # fmt: skip
            size += matrix(f"blk.{layer}.{name}.weight", rows, columns)
            weights += rows * columns
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights, size
