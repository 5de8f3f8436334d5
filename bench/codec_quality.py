"""The codec on held-out recordings of the voice: the shipped decoder on their codes, STOI and PESQ wide band.

The encoder is needed for training only and is not shipped. So the codes of the held-out recordings lie beside the
model, in :data:`CODES` (``python -m training.tts held-out`` writes them with the checkpoint's own encoder); the
recordings themselves are the data directory's.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.material import Material, progress
from bench.recordings import held_out, wave
from bench.row import NotMeasured, Row
from codec.decoder import CALL_FRAMES, CodecDecoder
from engines import manifest as manifests
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]

CODES: Final = "held-out.npz"
STOI: Final = 0.93
PESQ: Final = (2.0, 2.5)
"""At least that, up to 1 kbit/s and above."""
RATE: Final = 16_000


@dataclass(frozen=True, slots=True)
class Encoded:
    """A recording's codes: its name in the voice's shard, its first sample at the codec's rate, int64 [frames, Q]."""

    file: str
    start: int
    codes: npt.NDArray[np.int64]


def read_codes(path: Path) -> list[Encoded]:
    """What ``python -m training.tts held-out`` wrote: files, starts, frames [n], and codes int16 [all frames, Q]."""
    with np.load(path, allow_pickle=False) as data:
        ends = np.cumsum(data["frames"])
        codes = data["codes"].astype(np.int64)
        return [
            Encoded(str(file), int(start), codes[end - count : end])
            for file, start, count, end in zip(data["files"], data["starts"], data["frames"], ends, strict=True)
        ]


def codec_rows(material: Material) -> list[Row]:
    """STOI and PESQ of the shipped decoder."""
    for package in ("pystoi", "pesq"):
        if importlib.util.find_spec(package) is None:
            raise NotMeasured(f"needs {package}: pip install -e '.[eval]'")
    directory = material.speaking_model
    path = directory / CODES
    if not path.is_file():
        raise NotMeasured(f"{directory.name} comes without {CODES}, the codes of the held-out recordings")
    spec = manifests.read_tts(directory).codec
    decoder = CodecDecoder(spec, Graph(directory / spec.file, threads=1))
    clips = {clip.file: clip for clip in held_out(material).takes}
    encoded = read_codes(path)
    if missing := [one.file for one in encoded if one.file not in clips]:
        raise NotMeasured(f"the data directory lacks {len(missing)} of the recordings of {CODES}: {missing[0]}")
    found = list[tuple[float, float]]()
    with progress("codec") as report:
        for one in encoded:
            made = decode(decoder, one.codes)
            recorded = wave(clips[one.file], spec.sample_rate)[one.start : one.start + len(made)]
            found.append(likeness(recorded, made[: len(recorded)], spec.sample_rate))
            report(len(found) / len(encoded))
    stoi, pesq = (float(np.mean([pair[i] for pair in found])) for i in (0, 1))
    bits = spec.sample_rate / spec.frame_samples * spec.codebooks * float(np.log2(spec.entries))
    least = PESQ[0] if bits <= 1000 else PESQ[1]
    details: dict[str, Any] = {"files": [one.file for one in encoded], "stoi_pesq": found}
    what = f"{len(found)} held-out recordings, {spec.precision}, {bits / 1000:.2f} kbit/s"
    return [
        Row(f"codec, STOI ({what})", f"{stoi:.3f}", f"≥ {STOI}", stoi >= STOI, details=details),
        Row("codec, PESQ wide band", f"{pesq:.2f}", f"≥ {least}", pesq >= least),
    ]


def decode(decoder: CodecDecoder, codes: npt.NDArray[np.int64]) -> Floats:
    """All frames, int64 [N, Q], in calls as long as live ones: float32 [N · frame_samples]."""
    state, parts, most = decoder.start(), list[Floats](), CALL_FRAMES[-1]
    for start in range(0, len(codes), most):
        samples, state = decoder.step(codes[start : start + most], state, last=start + most >= len(codes))
        parts.append(samples)
    return np.concatenate(parts)


def likeness(recorded: Floats, decoded: Floats, rate: int) -> tuple[float, float]:
    """STOI and PESQ wide band of two waveforms of one length at ``rate``; both are taken at 16 kHz."""
    soxr, stoi, pesq = (importlib.import_module(name) for name in ("soxr", "pystoi", "pesq"))
    a, b = (soxr.resample(samples, rate, RATE) for samples in (recorded, decoded))
    return float(stoi.stoi(a, b, RATE)), float(pesq.pesq(RATE, a, b, "wb"))
