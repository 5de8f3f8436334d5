"""Each phase of a model beside the nearer of two limits of this machine: how fast it multiplies, how fast it reads.

The limits are measured in the same run. Products of float32 are those that NumPy's BLAS makes of large matrices; a
processor with VNNI multiplies bytes four times as fast, one without twice. A phase that runs at a limit has 100 %.

usage: python -m bench.roofline DIR…
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime

from bench.probe import gemm_gflops, machine, read_gb_per_second
from bench.row import Row, table
from engines import integrity
from engines.gguf import Decoder, Rows
from engines.llama import VNNI, instruction_sets
from engines.manifest import AsrManifest, CodecDecoder, TtsManifest
from engines.onnx import Graph
from engines.threads import budget, share

Floats = npt.NDArray[np.float32]

ort: Any = onnxruntime  # It has no types.

GOAL: Final = 0.6
"""The share of the nearer limit that a phase should reach."""
TURNS: Final = 9
"""How often a phase is run; the fastest counts, since what else runs on the machine only adds."""
CONTEXT: Final = 64
"""How many rows are in the cache before those that are measured."""
CODEC_FRAMES: Final = (1, 4, 12)
"""The numbers of frames in a call of the codec: the first of a piece, usual ones, the most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """10⁹ products a second of float32 and of bytes, and 10⁹ bytes read a second."""

    real: float
    bytes: float
    read: float


@dataclass(frozen=True, slots=True)
class Load:
    """What a phase multiplies, in products of float32 and of bytes, and how many bytes of weights it reads."""

    real: float
    bytes: float
    read: float

    def seconds(self, limits: Limits) -> tuple[float, str]:
        """The least time it can take, and by which limit."""
        products = self.real / limits.real / 1e9 + self.bytes / limits.bytes / 1e9
        reading = self.read / limits.read / 1e9
        return max((products, "products"), (reading, "reading"))


def measured(threads: int) -> Limits:
    """What this machine does with so many threads."""
    real = gemm_gflops(threads) / 2
    return Limits(real, real * (2 if instruction_sets().isdisjoint(VNNI) else 4), read_gb_per_second(threads))


def threads_of(directory: Path) -> int:
    """How many threads the model's calls use together (``engines.threads``).

    Raises:
        ManifestError: no usable model.
    """
    files = integrity.load_manifest(directory).files
    return share(sum(file.bytes for file in files.values()), budget()).threads


def phases(directory: Path, threads: int) -> dict[str, tuple[float, Load]]:
    """Each phase's name, what it takes in seconds, and its load.

    Raises:
        ManifestError: no usable model.
    """
    manifest = integrity.load_manifest(directory)
    if isinstance(manifest, AsrManifest):
        return _hearing(directory, manifest, threads)
    return _speaking(directory, manifest, threads)


def _hearing(directory: Path, manifest: AsrManifest, threads: int) -> dict[str, tuple[float, Load]]:
    spec, found = manifest.encoder, dict[str, tuple[float, Load]]()
    rows = {"rows": _noise(1, spec.window_rows, spec.stem_width), "mask": np.ones((1, spec.window_rows), np.float32)}
    if spec.stem is not None:
        mel = {"mel": _noise(1, manifest.mel.bins, spec.chunk_frames)}
        found["stem, a chunk"] = _graph(directory / spec.stem, mel, threads)
        found["body, a window"] = _graph(directory / spec.body, rows, threads)
    file = directory / manifest.decoder.file
    return found | _decoder("decoder", file, (1, spec.chunk_rows, spec.window_rows), threads)


def _speaking(directory: Path, manifest: TtsManifest, threads: int) -> dict[str, tuple[float, Load]]:
    found = _decoder("talker", directory / manifest.talker.file, (1,), threads)
    spec = manifest.predictor
    found |= _decoder("predictor", directory / spec.decoder.file, (1,), threads)
    codec = directory / manifest.codec.file
    for frames in CODEC_FRAMES:
        name = f"codec, {frames} frame{'s' if frames > 1 else ''}"
        found[name] = _graph(codec, _frames(manifest.codec, frames), threads)
    return found


def _frames(spec: CodecDecoder, frames: int) -> dict[str, npt.NDArray[Any]]:
    feeds: dict[str, npt.NDArray[Any]] = {spec.codes: np.zeros((1, frames, spec.codebooks), np.int64)}
    if spec.last is not None:
        feeds[spec.last] = np.zeros(1, np.float32)
    feeds |= dict.fromkeys(spec.slots or (), np.zeros(1, np.int64))
    return feeds | {state.input: np.zeros((1, *state.shape), np.float32) for state in spec.states}


def _noise(*shape: int) -> Floats:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _fastest(work: Callable[[], object]) -> float:
    work()
    times = list[float]()
    for _ in range(TURNS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _decoder(name: str, file: Path, counts: tuple[int, ...], threads: int) -> dict[str, tuple[float, Load]]:
    """A call of each of ``counts`` rows. The embedding table is multiplied once a call, for the logits."""
    import gguf

    tensors = gguf.GGUFReader(file).tensors
    layers = [tensor for tensor in tensors if tensor.name.startswith("blk.") and len(tensor.shape) > 1]
    head = next((t for t in tensors if t.name == "output.weight"), None) or next(
        t for t in tensors if t.name == "token_embd.weight"
    )
    weights, read = sum(int(t.n_elements) for t in layers), sum(int(t.n_bytes) for t in layers)
    decoder = Decoder(file, sequences=1, rows=CONTEXT + max(counts), threads=threads)
    found = dict[str, tuple[float, Load]]()
    try:
        sequence = decoder.acquire()
        rows = _noise(CONTEXT + max(counts), decoder.width)
        decoder.evaluate([Rows(sequence, 0, rows[:CONTEXT], CONTEXT)])
        for count in counts:
            item = Rows(sequence, CONTEXT, rows[CONTEXT : CONTEXT + count], count - 1)
            seconds = _fastest(lambda item=item: decoder.evaluate([item]))
            load = Load(0, count * weights + int(head.n_elements), read + int(head.n_bytes))
            found[f"{name}, {count} row{'s' if count > 1 else ''}"] = seconds, load
    finally:
        decoder.close()
    return found


def _graph(file: Path, feeds: Mapping[str, npt.NDArray[Any]], threads: int) -> tuple[float, Load]:
    graph = Graph(file, threads=threads, provider="cpu")
    return _fastest(lambda: graph.run(feeds)), _counted(file, feeds)


def _counted(file: Path, feeds: Mapping[str, npt.NDArray[Any]]) -> Load:
    """What one call of a graph multiplies, by the shapes that ONNX Runtime's profile tells of it."""
    with TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.log_severity_level = 3
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        session.run(None, dict(feeds))
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    real = of_bytes = 0.0
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        operator = event["args"]["op_name"]
        inputs, outputs = (_shapes(event["args"].get(f"{side}_type_shape", [])) for side in ("input", "output"))
        if operator in ("MatMul", "FusedMatMul", "Gemm"):
            real += float(np.prod(inputs[0])) * outputs[0][-1]
        elif operator in ("MatMulInteger", "MatMulIntegerToFloat"):
            of_bytes += float(np.prod(inputs[0])) * outputs[0][-1]
        elif operator == "Conv":
            real += float(np.prod(outputs[0])) * float(np.prod(inputs[1][1:]))
        elif operator == "ConvTranspose":
            # Its weights are not told. All of ours have a kernel of twice their stride, so an output has two taps.
            real += float(np.prod(outputs[0])) * 2 * inputs[0][1]
    return Load(real, of_bytes, _weight_bytes(file))


def _weight_bytes(file: Path) -> int:
    """How many bytes of weights a graph has: its own, and those that lie in the file beside it. It tells of each of
    those as a pair of strings, "length" and the number."""
    content = file.read_bytes()
    return len(content) + sum(int(digits) for digits in re.findall(rb"\x0a\x06length\x12.(\d+)", content))


def _shapes(told: list[dict[str, list[int]]]) -> list[list[int]]:
    """The shapes of a node's inputs or outputs, each of which is told with its type."""
    return [next(iter(each.values())) for each in told]


def rows(found: Mapping[str, tuple[float, Load]], limits: Limits) -> list[Row]:
    """A row for each phase."""
    made = list[Row]()
    for name, (seconds, load) in found.items():
        least, limit = load.seconds(limits)
        work = f"{(load.real + load.bytes) / 1e9:.3g} G products, {load.read / 1e6:.4g} MB"
        told = f"{1000 * seconds:.4g} ms, {work}: {100 * least / seconds:.0f} % of {limit}"
        made.append(Row(name, told, f"≥ {100 * GOAL:.0f} %", least >= GOAL * seconds))
    return made


def main() -> None:
    """Print the limits, and a table for each model."""
    parser = argparse.ArgumentParser(prog="bench.roofline", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="DIR")
    models: list[Path] = parser.parse_args().models
    threads = budget()
    print(machine(threads))
    for count in sorted({1, threads}):
        found = measured(count)
        print(f"{count} threads: {found.real:.0f} G products of float32 a second, {found.bytes:.0f} of bytes, ", end="")
        print(f"{found.read:.1f} GB read")
    for model in models:
        count = threads_of(model)
        told = table(rows(phases(model, count), measured(count)))
        print(f"\n{model.name}, {count} thread{'s' if count > 1 else ''}\n{told}", flush=True)


if __name__ == "__main__":
    main()
