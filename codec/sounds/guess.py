"""The little model that guesses the sounds of words that nobody has written down: names, inventions, slips of the pen.

Two bidirectional GRU layers read the letters, a third GRU says of each letter what sounds it stands for, and hears what
it said before. A word of n letters costs n steps of each: about 60 µs a letter, whatever is written. Trained by
training/sounds/learn.py, whose header says how often it is right.
"""

from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from codec.sounds.symbols import PRIMARY, SECONDARY, VOWELS
from engines.manifest import ManifestError

Floats = npt.NDArray[np.float32]
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
SCALE: Final = ".scale"
"""Ends the name of what the rows of an int8 matrix are multiplied by."""
_ONE: Final = np.float32(1)
_WEAK: Final = frozenset("əᵊᵻɐ")


class Gru:
    """A layer of a GRU in one direction, with matrices as in torch: the gates r, z and n stand one above the other."""

    def __init__(self, weights: dict[str, Floats], prefix: str, suffix: str) -> None:
        self._input = weights[f"{prefix}.weight_ih_{suffix}"].T.copy()
        self._hidden = weights[f"{prefix}.weight_hh_{suffix}"].T.copy()
        self._input_bias, self._hidden_bias = (weights[f"{prefix}.bias_{kind}_{suffix}"] for kind in ("ih", "hh"))
        self.width = self._hidden.shape[0]

    def gates(self, x: Floats) -> Floats:
        """The input's share of the gates: ``x`` [..., inputs] → [..., 3 · width]."""
        return x @ self._input + self._input_bias

    def step(self, gates: Floats, state: Floats) -> Floats:
        """The next state [width]."""
        width = self.width
        own = state @ self._hidden + self._hidden_bias
        both: Floats = np.reciprocal(_ONE + np.exp(-(gates[: 2 * width] + own[: 2 * width])))
        new: Floats = np.tanh(gates[2 * width :] + both[:width] * own[2 * width :])
        return np.asarray(new + both[width:] * (state - new), np.float32)

    def run(self, x: Floats, *, backward: bool) -> Floats:
        """All states of a word [letters, inputs] → [letters, width]."""
        gates, state = self.gates(x), np.zeros(self.width, np.float32)
        found = np.empty((len(x), self.width), np.float32)
        for i in range(len(x) - 1, -1, -1) if backward else range(len(x)):
            state = self.step(gates[i], state)
            found[i] = state
        return found


class Guesser:
    """Immutable, thread-safe."""

    def __init__(self, weights: dict[str, Floats], chunks: list[str]) -> None:
        self._letters, self._chunk_rows = weights["letters.weight"], weights["chunks.weight"]
        self._reading = [
            tuple(Gru(weights, "reading", f"l{layer}{way}") for way in ("", "_reverse")) for layer in range(2)
        ]
        self._saying = Gru(weights, "saying", "l0")
        self._out, self._out_bias = weights["out.weight"].T.copy(), weights["out.bias"]
        self._chunks = chunks

    @classmethod
    def load(cls, path: Path) -> "Guesser":
        """Read the weights' file.

        Raises:
            ManifestError: it cannot be read, or its parts do not fit one another.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays: dict[str, npt.NDArray[Any]] = {name: file[name] for name in file.files}
            chunks = [str(chunk) for chunk in arrays.pop("chunks")]
            weights: dict[str, Floats] = {}
            for name, array in arrays.items():
                if not name.endswith(SCALE):
                    scale = arrays.get(name + SCALE)
                    weights[name] = array.astype(np.float32) * (1 if scale is None else scale.astype(np.float32))
            guesser = cls(weights, chunks)
            guesser("warm")
        except (OSError, ValueError, KeyError, IndexError, EOFError, BadZipFile) as error:
            raise ManifestError(f"{path}: the model that guesses sounds cannot be read: {error}") from error
        return guesser

    def __call__(self, word: str) -> str:
        """The sounds of ``word``, letters a to z, with one strong syllable; "" where it has none of them."""
        x = self._letters[[LETTERS.index(c) for c in word if c in LETTERS]]
        if not len(x):
            return ""
        for ways in self._reading:
            x = np.concatenate([gru.run(x, backward=bool(i)) for i, gru in enumerate(ways)], 1)
        chunk, state, said = len(self._chunks), np.zeros(self._saying.width, np.float32), ""
        for read in x:
            gates = self._saying.gates(np.concatenate([read, self._chunk_rows[chunk]]))
            state = self._saying.step(gates, state)
            chunk = int(np.argmax(state @ self._out + self._out_bias))
            said += self._chunks[chunk]
        return stressed(said)


def stressed(sounds: str) -> str:
    """``sounds`` with one strong syllable: the first of several, or the first that can be strong."""
    first = sounds.find(PRIMARY)
    if first >= 0:
        return sounds[: first + 1] + sounds[first + 1 :].replace(PRIMARY, SECONDARY)
    if (half := sounds.find(SECONDARY)) >= 0:
        return sounds[:half] + PRIMARY + sounds[half + 1 :]
    vowels = [i for i, symbol in enumerate(sounds) if symbol in VOWELS]
    strong = next((i for i in vowels if sounds[i] not in _WEAK), vowels[0] if vowels else None)
    return sounds if strong is None else sounds[:strong] + PRIMARY + sounds[strong:]
