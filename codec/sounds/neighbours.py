"""Whether a word that is read in more than one way is a verb where it stands, by its neighbours: a sum of weights.

"they **record** a song" and "a **record** of it" differ by the two words before and how those end. A word after it is
not waited for: speech would come later, and of a hundred such words one more would be right. Each such feature has a
weight, learnt from labelled sentences (training/sounds/neighbours.py says from
which, and how often it is right). The same weights serve all words; each word has its own share besides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from engines.manifest import ManifestError

_ENDINGS: Final = ("ly", "ed", "ing", "tion", "s", "al", "ive", "ous", "ic", "y", "er")
_NOTHING: Final = ""


def features(before: Sequence[str]) -> Iterator[str]:
    """What is looked at: ``1the`` is the word before, ``2of`` the one before that, ``1~ly`` how the word before ends,
    ``1^`` that it has a capital."""
    last = before[-1] if before else _NOTHING
    yield f"1{last.lower()}"
    yield f"2{before[-2].lower() if len(before) > 1 else _NOTHING}"
    if len(last) > 3:
        yield from (f"1~{ending}" for ending in _ENDINGS if last.lower().endswith(ending))
    if last[:1].isupper() and len(last) > 1:
        yield "1^"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """``weights`` of features, ``own`` of words; above 0 in all it is a verb."""

    weights: Mapping[str, float]
    own: Mapping[str, float]

    @classmethod
    def load(cls, path: Path) -> "Neighbours":
        """Read the weights' file.

        Raises:
            ManifestError: it cannot be read.
        """
        try:
            found = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
            return cls(found["weights"], found["own"])
        except (OSError, msgspec.DecodeError, KeyError) as error:
            raise ManifestError(f"{path}: the weights of neighbours cannot be read: {error}") from error

    def verb(self, word: str, before: Sequence[str]) -> bool:
        """Whether ``word``, in small letters, is a verb after the words ``before`` it."""
        return self.own.get(word, 0.0) + sum(self.weights.get(key, 0.0) for key in features(before)) > 0
