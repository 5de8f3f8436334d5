"""Recordings of tars become shards, in which every so-many-th prompt is held out. An evaluation decodes and compares
the codes of those that are held out, by the codec's own encoder.

The encoder does not ship, so its codes do; bench/codec_quality.py reads them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.shards import decode, entries, source_of
from training.speech.takes import AFTER, BEFORE
from training.tts.codec import Codec
from training.tts.config import FRAME, LABEL, RATE, UNKNOWN
from training.tts.speech import Speech, Utterance, join, levelled

_EVERY = 27
"""One prompt in so many is held out: 51 of Kathleen's recordings, by which codecs are compared."""
READERS = "kathleen", "librispeech", "vctk"
"""Sources whose speakers are told apart and recorded well enough to be learnt from (training/shards.py): 47 readers.
Those of "common_voice" are told apart too, and 161 of them have another clip to be heard in, but not a good microphone.
"""
# The seconds of a recording that is learnt from; Kokoro's takes are as long.
_SHORTEST, _LONGEST = 1.0, 16.0
# Of a longer silence between words so many seconds stay, half of them at either side.
_PAUSE = 0.28
# What is below so much of the loudest 20 ms is cut off at both ends.
_QUIET = 0.03


def held_texts(rows: Iterable[dict[str, str]], every: int) -> set[str]:
    """Give every so-many-th prompt of a tar in alphabetical order: its takes are held out."""
    return set(sorted({row["text"] for row in rows})[::every])


def read_recordings(
    tar: Path, sounds: Mapping[str, str], sources: Sequence[str] = READERS, every: int = _EVERY
) -> Speech:
    """Read all takes of a tar whose readers are known, none with phone labels. sounds: of texts as they stand in the
    index; a take whose text lacks them is left out."""
    rows = [(row, data) for row, data in entries(tar) if source_of(row["corpus"]) in sources and row["text"] in sounds]
    held = held_texts((row for row, _ in rows), every)
    pieces: list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]] = []
    for row, data in rows:
        if not _SHORTEST <= float(row["seconds"]) <= _LONGEST:
            continue
        wave = levelled(trimmed(decode(data, RATE, "float32")))
        held_out = row["text"] in held
        made = Utterance(sounds[row["text"]], row["speaker"], len(wave) // FRAME, held_out)
        pieces.append((made, wave, np.full(len(wave) // LABEL, UNKNOWN, np.uint8)))
    return join(pieces) if pieces else Speech([], {})


def trimmed(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut a take so that it has as much silence at its ends and between its words as Kokoro's takes have."""
    hop = RATE // 50
    frames = wave[: len(wave) // hop * hop].reshape(-1, hop)
    level = np.sqrt(np.square(frames).mean(1))
    loud = np.flatnonzero(level > _QUIET * level.max())
    first, last = max(loud[0] - round(BEFORE * 50), 0), loud[-1] + 1 + round(AFTER * 50)
    kept = np.zeros(len(frames), bool)
    kept[first:last] = True
    side = round(_PAUSE * 25)
    for before, after in pairwise(loud.tolist()):
        kept[before + 1 + side : max(after - side, before + 1 + side)] = False
    return frames[kept].reshape(-1)


@torch.inference_mode()
def write_codes(codec: Codec, tars: Sequence[Path], out: Path, every: int = _EVERY) -> int:
    """Write files, starts (0), frames [n] and codes int16 [all frames, K] of the takes that are held out, and give
    their number."""
    names: list[str] = []
    codes: list[NDArray[np.int16]] = []
    for rows in (list(entries(tar)) for tar in tars):
        kept = held_texts((row for row, _ in rows), every)
        for name, data in ((row["file"], data) for row, data in rows if row["text"] in kept):
            wave = torch.from_numpy(levelled(decode(data, RATE, "float32"))).float() / 32768
            codes.append(codec.encode(wave[None, None])[0].T.numpy().astype(np.int16))
            assert len(codes[-1]) == len(wave) // FRAME
            names.append(name)
    frames = np.array([len(one) for one in codes])
    np.savez_compressed(
        out, files=np.array(names), starts=np.zeros(len(names), int), frames=frames, codes=np.concatenate(codes)
    )
    return len(names)
