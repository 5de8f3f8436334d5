"""What the tests of sounds share: the shipped dictionary, and readers over it."""

import hashlib
import shutil
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from codec.sounds.dictionary import Dictionary
from codec.sounds.guess import LETTERS
from codec.sounds.neighbours import Neighbours
from codec.sounds.reader import Guess, Reader
from codec.sounds.symbols import SYMBOLS
from engines import manifest as manifests
from engines.manifest import File, Pronunciation, TextRules

PARTS = Pronunciation("dictionary.gz", "neighbours.json", "guesses.npz")
RULES = TextRules("".join(sorted(SYMBOLS)), ".,?!;:—…", "", 120, 40, PARTS)
"""The rules of a model that reads sounds."""


def shipped() -> Path:
    """Where the dictionary lies."""
    return Path(__file__).parents[3] / "models" / "pocket-tts-en"


def never(word: str) -> str:
    """A guess where none is expected."""
    raise AssertionError(f"{word!r} is in no dictionary and made by no rule")


@cache
def reader(guess: Guess = never) -> Reader:
    """Over the shipped dictionary."""
    folder = shipped()
    return Reader(Dictionary.load(folder / PARTS.dictionary), guess, Neighbours.load(folder / PARTS.neighbours))


def write_guesses(path: Path, *, width: int = 8, seed: int = 0) -> None:
    """A model that guesses, with random weights: what it says has the shape of sounds, no more."""
    random = np.random.default_rng(seed)
    chunks = np.array(["", "k", "ˈA", "t", "ə", "ks", "ˌO", "ʃ"])

    def matrix(rows: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return random.standard_normal((rows, columns)).astype(np.float32)

    arrays = {"chunks": chunks, "letters.weight": matrix(len(LETTERS), width)}
    arrays |= {"chunks.weight": matrix(len(chunks) + 1, width), "out.weight": matrix(len(chunks), width)}
    arrays["out.bias"] = matrix(1, len(chunks))[0]
    layers = [("reading", f"l{layer}{way}", width * (1 + layer)) for layer in (0, 1) for way in ("", "_reverse")]
    for name, suffix, inputs in [*layers, ("saying", "l0", 3 * width)]:
        arrays[f"{name}.weight_ih_{suffix}"] = matrix(3 * width, inputs)
        arrays[f"{name}.weight_hh_{suffix}"] = matrix(3 * width, width)
        arrays[f"{name}.bias_ih_{suffix}"], arrays[f"{name}.bias_hh_{suffix}"] = matrix(2, 3 * width)
    np.savez(path, **arrays)


def sounding(other: Path, made: Path) -> Path:
    """A model directory of a model that reads sounds by these ``RULES`` and guesses at random, out of that of
    ``other``. What it speaks may be babble."""
    shutil.copytree(other, made)
    for name in (PARTS.dictionary, PARTS.neighbours):
        shutil.copyfile(shipped() / name, made / name)
    write_guesses(made / PARTS.guesses)
    manifest = manifests.read_tts(made)
    files = manifest.files | {name: _file(made / name) for name in msgspec.structs.astuple(PARTS)}
    manifests.write(msgspec.structs.replace(manifest, name="sounding", text=RULES, files=files), made)
    return made


def _file(path: Path) -> File:
    """A file as a manifest lists it."""
    data = path.read_bytes()
    return File(len(data), hashlib.sha256(data).hexdigest())
