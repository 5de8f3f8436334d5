"""Codes of the held-out recordings of a voice, for measuring a shipped decoder: the encoder stays behind.

A file has: files [n] names in the voice's tar, starts int64 [n] first sample at the codec's rate, frames int64 [n], and
codes int16 [all frames, K]. Where they were searched (`search`) it also has encoded int16 [all frames, K], those of the
network encoder.
"""

from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.tts.codec import Codec
from training.tts.config import FRAME
from training.tts.search import Search
from training.tts.speech import levelled, trim
from training.tts.voice import decode, held_out_prompts, read_index

Codes = NDArray[np.int16]
_FIELDS = ("files", "starts", "frames", "codes")


def encode_held_out(
    codec: Codec, tars: Sequence[Path], speaker: str, path: Path, search: Search | None = None
) -> int:  # fmt: skip
    """Encode every held-out take of `speaker` in `tars` as preparation would cut and level it, and search from there
    where `search` is given; returns their number. Raises ValueError where there is none.
    """
    device = codec.decoder.pre_conv.conv.weight.device
    rows = [row for tar in tars for row in read_index(tar)]
    prompts = held_out_prompts([index for index, _ in rows])
    files: list[str] = []
    starts: list[int] = []
    encoded: list[Codes] = []
    found: list[Codes] = []
    for index, data in rows:
        if index["speaker"] != speaker or index["text"] not in prompts:
            continue
        first, wave = _cut(data)
        codes = codec.encode(wave.to(device))
        assert wave.shape[2] == codes.shape[2] * FRAME
        files.append(index["file"])
        starts.append(first)
        encoded.append(_stored(codes))
        if search is not None:
            found.append(_searched(search, wave, codes, index["file"]))
    if not files:
        raise ValueError(f"held-out: no recordings of {speaker} in {', '.join(map(str, tars))}")
    _save(path, np.array(files), np.array(starts, np.int64), encoded, found)
    return len(files)


def search_held_out(search: Search, path: Path, tars: Sequence[Path], out: Path) -> int:
    """Go on from the codes in `path`, of the same recordings in `tars`, and write `out` (which may be `path`); returns
    their number. What the network encoder gave stays in `encoded`.

    Raises:
        ValueError: a field of `path` is missing, a recording is, or is cut otherwise than its codes say.
    """
    held = _read(path)
    data = {index["file"]: data for tar in tars for index, data in read_index(tar)}
    ends = np.cumsum(held["frames"])
    found: list[Codes] = []
    for name, start, count, end in zip(held["files"].tolist(), held["starts"], held["frames"], ends, strict=True):
        if name not in data:
            raise ValueError(f"search: {path} has codes of {name}, which is not in {', '.join(map(str, tars))}")
        first, wave = _cut(data[name])
        if (first, wave.shape[2]) != (start, count * FRAME):
            has, codes = (f"{wave.shape[2] // FRAME} frames from sample {first}", f"{count} from {start}")
            raise ValueError(f"search: {name} has {has}, its codes in {path} are {codes}: another recording or cut")
        given = torch.from_numpy(held["codes"][end - count : end].T.astype(np.int64))[None]
        found.append(_searched(search, wave, given, name))
    encoded = held.get("encoded", held["codes"])
    _save(out, held["files"], held["starts"], np.split(encoded, ends[:-1]), found)
    return len(found)


def _cut(data: bytes) -> tuple[int, Tensor]:
    """First sample that is kept, and what is kept of a recording as preparation would have it: [1, 1, 1920 · T]."""
    wave = decode(data)
    first, last = trim(wave)
    samples = levelled(wave[first:last])
    return first, torch.from_numpy(samples.astype(np.float32) / 32768)[None, None]


def _searched(search: Search, wave: Tensor, codes: Tensor, name: str) -> Codes:
    try:
        found = search(wave.to(search.device), codes.to(search.device))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    print(f"{name}: distance {found.given:.3f} -> {found.distance:.3f}", flush=True)
    return _stored(found.codes)


def _stored(codes: Tensor) -> Codes:
    return codes[0].T.to("cpu", torch.int16).numpy()


def _read(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as data:
            held = {name: data[name] for name in data.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise ValueError(f"search: {path}: no held-out.npz ({error})") from error
    if missing := [name for name in _FIELDS if name not in held]:
        raise ValueError(f"search: {path}: lacks {', '.join(missing)}; `held-out` writes {', '.join(_FIELDS)}")
    return held


def _save(
    path: Path, files: NDArray[np.generic], starts: NDArray[np.generic], encoded: Sequence[Codes],
    found: Sequence[Codes],
) -> None:  # fmt: skip
    """found: searched codes; none: those of the encoder are all there is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"codes": np.concatenate(found or encoded)} | ({"encoded": np.concatenate(encoded)} if found else {})
    frames = np.array([len(codes) for codes in encoded], np.int64)
    np.savez_compressed(path, files=files, starts=starts, frames=frames, **arrays)
