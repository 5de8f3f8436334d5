"""The codec on held-out recordings of the voice: the shipped decoder on their codes, STOI and PESQ wide band.

The encoder is needed for training only and is not shipped. So the codes of the held-out recordings lie beside the
model, in :data:`CODES` (``python -m training.tts held-out`` writes them with the checkpoint's own encoder); the
recordings themselves are the data directory's. Codes that a search brought nearer to their recordings (``--search``)
are what the goals are asked of, and the rows say so; the network encoder's own, which they began from, get a row
without a goal.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from bench.material import Material, progress
from bench.recordings import held_out, wave
from bench.row import NotMeasured, Row
from codec.decoder import CALL_FRAMES, CodecDecoder
from engines import manifest as manifests
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

CODES: Final = "held-out.npz"
FIELDS: Final = ("files", "starts", "frames", "codes")
STOI: Final = 0.93
PESQ: Final = (2.0, 2.5)
"""At least that, up to 1 kbit/s and above."""
RATE: Final = 16_000
SEARCHED: Final = (
    "for each recording codes were searched, from the encoder's own, that a loss like that of training finds nearer; "
    "parts of it follow STOI and PESQ"
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A recording's codes.

    Attributes:
        file: its name in the voice's shard.
        start: first sample at the codec's rate.
        codes: int64 [frames, Q].
        encoded: the network encoder's codes, int64 [frames, Q], where ``codes`` were searched from them.
    """

    file: str
    start: int
    codes: Codes
    encoded: Codes | None = None


def read_codes(path: Path) -> list[Encoded]:
    """What ``python -m training.tts held-out`` wrote: files, starts, frames [n], codes int16 [all frames, Q], and
    where these were searched encoded, likewise.

    Raises:
        NotMeasured: it lacks one of the first four, cannot be read, or ``encoded`` is not as large as ``codes``.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            fields: dict[str, npt.NDArray[Any]] = {name: data[name] for name in data.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise NotMeasured(f"{path}: no file of codes ({error})") from error
    if missing := [name for name in FIELDS if name not in fields]:
        raise NotMeasured(f"{path} lacks {', '.join(missing)}: write it with python -m training.tts held-out")
    codes, encoded = fields["codes"], fields.get("encoded")
    if encoded is not None and encoded.shape != codes.shape:
        raise NotMeasured(f"{path}: encoded is {list(encoded.shape)}, must be {list(codes.shape)} as codes")
    ends = np.cumsum(fields["frames"])
    places = [slice(end - count, end) for count, end in zip(fields["frames"], ends, strict=True)]
    return [
        Encoded(
            str(file), int(start), codes[at].astype(np.int64), None if encoded is None else encoded[at].astype(np.int64)
        )
        for file, start, at in zip(fields["files"], fields["starts"], places, strict=True)
    ]


def codec_rows(material: Material) -> list[Row]:
    """STOI and PESQ of the shipped decoder, on searched codes where there are such, then on the encoder's own too."""
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
    searched = all(one.encoded is not None for one in encoded)
    found, plain = list[tuple[float, float]](), list[tuple[float, float]]()
    with progress("codec") as report:
        for i, one in enumerate(encoded):
            recorded = wave(clips[one.file], spec.sample_rate)[one.start :]
            for codes, into in ((one.codes, found), (one.encoded, plain)):
                if codes is not None:
                    made = decode(decoder, codes)
                    heard = recorded[: len(made)]
                    into.append(likeness(heard, made[: len(heard)], spec.sample_rate))
            report((i + 1) / len(encoded))
    stoi, pesq = means(found)
    bits = spec.sample_rate / spec.frame_samples * spec.codebooks * float(np.log2(spec.entries))
    least = PESQ[0] if bits <= 1000 else PESQ[1]
    details: dict[str, Any] = {"files": [one.file for one in encoded], "searched": searched, "stoi_pesq": found}
    what = f"{len(found)} held-out recordings, {spec.precision}, {bits / 1000:.2f} kbit/s"
    how = "codes searched" if searched else "codes as encoded"
    notes = (SEARCHED,) if searched else ()
    rows = [
        Row(f"codec, STOI ({what}, {how})", f"{stoi:.3f}", f"≥ {STOI}", stoi >= STOI, notes, details),
        Row(f"codec, PESQ wide band ({how})", f"{pesq:.2f}", f"≥ {least}", pesq >= least),
    ]
    if searched:
        stoi, pesq = means(plain)
        name = "codec, STOI / PESQ wide band with the network encoder's own codes"
        rows.append(Row(name, f"{stoi:.3f} / {pesq:.2f}", details={"stoi_pesq": plain}))
    return rows


def means(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Of the first and of the second figures."""
    first, second = (float(np.mean(one)) for one in zip(*pairs, strict=True))
    return first, second


def decode(decoder: CodecDecoder, codes: Codes) -> Floats:
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
