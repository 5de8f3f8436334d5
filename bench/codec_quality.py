"""The codec on held-out recordings of people: the shipped decoder on their codes; STOI, PESQ wide band, naturalness.

The encoder is needed for training only and is not shipped. So the codes that it gives for the recordings lie beside
the model, in :data:`CODES` (``python -m training.tts held-out`` writes them); the recordings themselves are the data
directory's.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import soxr

from bench.material import Material, progress
from bench.naturalness import opinions
from bench.recordings import held_out, wave
from bench.row import NotMeasured, Row
from codec.decoder import CALL_FRAMES, CodecDecoder
from engines import manifest as manifests
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

_soxr: Any = soxr  # soxr's types are incomplete.

CODES: Final = "held-out.npz"
FIELDS: Final = ("files", "starts", "frames", "codes")
STOI: Final = 0.95
"""The goal for STOI: speech that is understood as well as the recording."""
PESQ: Final = 2.7
"""The goal for PESQ wide band."""
NATURAL: Final = 0.93
"""How natural decoded speech must be, as a share of the recordings' naturalness."""
RATE: Final = 16_000


@dataclass(frozen=True, slots=True)
class Encoded:
    """A recording's codes.

    Attributes:
        file: its name in the voice's shard.
        start: first sample at the codec's rate.
        codes: int64 [frames, Q].
    """

    file: str
    start: int
    codes: Codes


def read_codes(path: Path) -> list[Encoded]:
    """What ``python -m training.tts held-out`` wrote: files, starts, frames [n], codes int16 [all frames, Q].

    A file may hold codes that a search brought nearer to the recordings, and the encoder's own as ``encoded``: these
    are what is read.

    Raises:
        NotMeasured: it lacks one of the four, or cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            fields: dict[str, npt.NDArray[Any]] = {name: data[name] for name in data.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise NotMeasured(f"{path}: no file of codes ({error})") from error
    if missing := [name for name in FIELDS if name not in fields]:
        raise NotMeasured(f"{path} lacks {', '.join(missing)}: write it with python -m training.tts held-out")
    codes, ends = fields.get("encoded", fields["codes"]).astype(np.int64), np.cumsum(fields["frames"])
    places = [slice(end - count, end) for count, end in zip(fields["frames"], ends, strict=True)]
    files = zip(fields["files"], fields["starts"], places, strict=True)
    return [Encoded(str(file), int(start), codes[at]) for file, start, at in files]


def codec_rows(material: Material) -> list[Row]:
    """Likeness to the recordings, and how natural they sound decoded."""
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
    recorded, decoded, found = list[Floats](), list[Floats](), list[tuple[float, float]]()
    with progress("codec") as report:
        for i, one in enumerate(encoded):
            made = decode(decoder, one.codes)
            real = wave(clips[one.file], spec.sample_rate)[one.start :][: len(made)]
            for samples, into in ((real, recorded), (made[: len(real)], decoded)):
                into.append(_soxr.resample(samples, spec.sample_rate, RATE))
            found.append(likeness(recorded[-1], decoded[-1]))
            report((i + 1) / len(encoded))
    stoi, pesq = (float(figure) for figure in np.mean(found, 0))
    bits = spec.sample_rate / spec.frame_samples * spec.codebooks * float(np.log2(spec.entries))
    details: dict[str, Any] = {"files": [one.file for one in encoded], "stoi_pesq": found}
    what = f"{len(found)} held-out recordings, {spec.precision}, {bits / 1000:.2f} kbit/s, the encoder's own codes"
    rows = [
        Row("codec, STOI", f"{stoi:.3f}", f"≥ {STOI}", stoi >= STOI, (what,), details),
        Row("codec, PESQ wide band", f"{pesq:.2f}", f"≥ {PESQ}", pesq >= PESQ),
    ]
    try:
        with progress("naturalness of the codec") as report:
            (said, other), (real_said, real_other) = opinions(decoded, report), opinions(recorded, report)
    except NotMeasured as reason:
        return [*rows, Row("codec, naturalness", "not measured", "", False, (str(reason),))]
    reached = f"{said:.2f} = {said / real_said:.2f} × {real_said:.2f}"
    notes = (f"distillmos of decoded and recorded; DNSMOS {other:.2f} and {real_other:.2f}",)
    return [*rows, Row("codec, naturalness", reached, f"≥ {NATURAL} ×", said >= NATURAL * real_said, notes)]


def decode(decoder: CodecDecoder, codes: Codes) -> Floats:
    """All frames, int64 [N, Q], in calls as long as live ones: float32 [N · frame_samples]."""
    state, parts, most = decoder.start(), list[Floats](), CALL_FRAMES[-1]
    for start in range(0, len(codes), most):
        samples, state = decoder.step(codes[start : start + most], state)
        parts.append(samples)
    return np.concatenate([*parts, state.ahead])


def likeness(recorded: Floats, decoded: Floats) -> tuple[float, float]:
    """STOI and PESQ wide band of two waveforms of one length at 16 kHz."""
    stoi, pesq = (importlib.import_module(name) for name in ("pystoi", "pesq"))
    return float(stoi.stoi(recorded, decoded, RATE)), float(pesq.pesq(RATE, recorded, decoded, "wb"))
