"""Labels are texts of clips by a teacher and where their words end, {"file", "text", "cuts"} a line. Here it is also
decided which clips are held out.

A clip whose index has words keeps them, in their order, and the teacher lends case and punctuation where they lack
these (`restore`). A clip without words gets the teacher's text if the teacher is sure of it and nothing in it is a
guess, as digits are.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Self

from training.shards import Clip, read_shards
from training.transcript import transcript, written

# From this mean log-probability of a token on, a teacher's text stands for itself: the teacher gave each token a
# probability of .64 in the mean.
_SURE = -0.45
_DIGIT = re.compile(r"\d")
_MARKS = ".,?!"
_ALWAYS = {"i": "I", "i'm": "I'm", "i'll": "I'll", "i've": "I've", "i'd": "I'd"}
_SOUNDS = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|[♪♫]+")
_NO_WORDS = re.compile(r"\W*(?:blank[ _]?audio|silence|music|applause|laughter|inaudible)?\W*", re.IGNORECASE)
_WITH_SPEAKERS = ("librispeech", "speechocean762", "an4")


def cased(text: str) -> bool:
    """Whether `text` is written as people write it, in both cases and with a mark at its end."""
    letters = [c for c in text if c.isalpha()]
    upper = sum(c.isupper() for c in letters)
    return 0 < upper <= max(0.3 * len(letters), 1) and text.rstrip("\"' ")[-1:] in tuple(".?!")


def restore(reference: str, taught: str) -> str:
    """Write the words of `reference` (any case, no punctuation) as the teacher's `taught` writes them, where both
    agree."""
    words = transcript(reference).split()
    model: list[tuple[str, str]] = []
    for word in written(taught).split():
        model += [(bare, part) for part in word.split("-") if (bare := transcript(part))]
    out = [_ALWAYS.get(w, w if len(w) > 1 or w == "a" else w.upper()) for w in words]
    matcher = SequenceMatcher(None, [b for b, _ in model], words, autojunk=False)
    for block in matcher.get_matching_blocks():
        for k in range(block.size):
            word = model[block.a + k][1]
            if len(words[block.b + k]) > 1 or word[:1].isupper():
                out[block.b + k] = word
    return sentence(out)


def sentence(words: Sequence[str]) -> str:
    """Join words, with a capital at the beginning of each sentence and a mark at the end."""
    out = list(words)
    for i, word in enumerate(out):
        if i == 0 or out[i - 1][-1] in ".?!":
            out[i] = word[:1].upper() + word[1:]
    if out and out[-1][-1] not in _MARKS:
        out[-1] += "."
    elif out and out[-1][-1] == ",":
        out[-1] = out[-1][:-1] + "."
    return " ".join(out)


def spoken(text: str) -> str:
    """Give `text` without what a recogniser writes of sounds that are no words: "[BLANK_AUDIO]", "(laughs)", "♪". It is
    "" where only such is left."""
    return "" if _NO_WORDS.fullmatch(bare := " ".join(_SOUNDS.sub(" ", text).split())) else bare


def decided(clip: Clip, taught: str, sure: float, never: frozenset[str]) -> str | None:
    """Give the text of a clip, or None where none can be trusted."""
    taught = spoken(taught)
    if clip.text:
        words, model = transcript(clip.text).split(), transcript(re.sub(r"\d", "", taught)).split()
        if len(words) > 3 and SequenceMatcher(None, words, model, autojunk=False).ratio() < 0.3:
            return None
        return clip.text if cased(clip.text) else restore(clip.text, taught)
    plain = transcript(taught)
    if sure < _SURE or _DIGIT.search(taught) or not plain or plain in never:
        return None
    return written(taught)


Teach = Callable[[Sequence[Clip]], Iterator[tuple[Clip, str, float]]]
"""A teacher: clips -> each clip, what the teacher writes of it, and how sure it is."""
Cut = Callable[[Sequence[Clip]], list[list[tuple[int, int]]]]
"""An aligner: clips -> the word boundaries of each, as of an utterance (plan.py)."""


def write_labels(
    teach: Teach,
    cut: Cut,
    shards: Sequence[Path],
    never: Sequence[Path],
    out: Path,
    share: tuple[int, int],
    processes: int,
) -> None:
    """Label every `share[1]`-th clip from the `share[0]`-th on. A clip without a trusted text gets the text ""."""
    clips = read_shards(shards, processes, share)
    rows = [json.loads(line) for path in never for line in path.read_text().splitlines()]
    known = frozenset(transcript(row["text"]) for row in rows)
    found: list[Clip] = []
    told: list[tuple[str, float]] = []
    for clip, taught, sure in teach(clips):
        found.append(replace(clip, text=decided(clip, taught, sure, known) or ""))
        told.append((taught, sure))
    cuts = cut([replace(clip, text=written(clip.text)) for clip in found])
    with out.open("w", encoding="utf-8") as file:
        for clip, at, (taught, sure) in zip(found, cuts, told, strict=True):
            row = {"file": clip.file, "text": clip.text, "cuts": at, "taught": taught, "sure": round(sure, 3)}
            file.write(json.dumps(row) + "\n")
    print(f"{sum(bool(c.text) for c in found)} of {len(clips)} clips have a text")


@dataclass(frozen=True)
class Labels:
    """What files of `write_labels` say, by clip."""

    texts: Mapping[str, str]
    cuts: Mapping[str, list[tuple[int, int]]]

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Self:
        rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        return cls({row["file"]: row["text"] for row in rows}, {row["file"]: row["cuts"] for row in rows})

    def lent(self, clips: Sequence[Clip]) -> list[Clip]:
        """Give `clips` with these texts. A clip that has no label keeps its own text, written as a sentence."""
        return [replace(c, text=self.texts[c.file] if c.file in self.texts else _own(c.text)) for c in clips]


def _own(text: str) -> str:
    return text if not text or cased(text) else restore(text, "")


def split(clips: Sequence[Clip], every: int, readers: int) -> tuple[list[Clip], list[Clip]]:
    """Give the clips that are held out, and those that are kept.

    One speaker in `every` is held out (of LibriSpeech, by whose strangers a model is judged, one in `readers`), or one
    clip in `every` of corpora that do not tell speakers apart. A hash decides, so that every run holds out the same
    clips.
    """
    held_out: list[Clip] = []
    kept: list[Clip] = []
    for clip in clips:
        name = f"{clip.source} {clip.speaker if clip.source in _WITH_SPEAKERS else transcript(clip.text) or clip.file}"
        # One name stands for several readers here, of whom one may be held out under another name.
        if clip.source == "librispeech" and ".." in clip.speaker:
            kept.append(clip)
            continue
        count = readers if clip.source == "librispeech" else every
        (held_out if zlib.crc32(name.encode()) % count == 0 else kept).append(clip)
    return held_out, kept
