"""Texts of clips by a teacher, and their place in training: {"file", "text"} a line; which clips are held out.

A clip whose index has words keeps them, in their order; the teacher lends case and punctuation where they lack
(`restore`). A clip without words gets the teacher's text if the teacher is sure of it and nothing in it is a guess
(digits).
"""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from training.shards import Clip, read_shards
from training.transcript import transcript, written

_SURE = -0.45  # mean log-probability of a text that stands for itself
_DIGIT = re.compile(r"\d")
_MARKS = ".,?!"
_ALWAYS = {"i": "I", "i'm": "I'm", "i'll": "I'll", "i've": "I've", "i'd": "I'd"}
_WITH_SPEAKERS = ("librispeech", "speechocean762", "an4")


def cased(text: str) -> bool:
    """Whether `text` is written as people write: both cases, and a mark at its end."""
    letters = [c for c in text if c.isalpha()]
    upper = sum(c.isupper() for c in letters)
    return 0 < upper <= max(0.3 * len(letters), 1) and text.rstrip("\"' ")[-1:] in tuple(".?!")


def restore(reference: str, taught: str) -> str:
    """Words of `reference` (any case, no punctuation) as the teacher's `taught` writes them where both agree."""
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
    """Joined, with a capital at the beginning of each sentence and a mark at the end."""
    out = list(words)
    for i, word in enumerate(out):
        if i == 0 or out[i - 1][-1] in ".?!":
            out[i] = word[:1].upper() + word[1:]
    if out and out[-1][-1] not in _MARKS:
        out[-1] += "."
    elif out and out[-1][-1] == ",":
        out[-1] = out[-1][:-1] + "."
    return " ".join(out)


def decided(clip: Clip, taught: str, sure: float, never: frozenset[str]) -> str | None:
    """The text of a clip, or None where none can be trusted."""
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
"""What a teacher writes of clips, and how sure it is."""


def write_labels(
    teach: Teach, shards: Sequence[Path], never: Sequence[Path], out: Path, share: tuple[int, int], processes: int
) -> None:
    """Label every `share[1]`-th clip from the `share[0]`-th on; clips without a label get the text ""."""
    clips = read_shards(shards, processes, share)
    rows = [json.loads(line) for path in never for line in path.read_text().splitlines()]
    known = frozenset(transcript(row["text"]) for row in rows)
    kept = 0
    with out.open("w", encoding="utf-8") as file:
        for clip, taught, sure in teach(clips):
            text = decided(clip, taught, sure, known)
            kept += text is not None
            row = {"file": clip.file, "text": text or "", "taught": taught, "sure": round(sure, 3)}
            file.write(json.dumps(row) + "\n")
    print(f"{kept} of {len(clips)} clips have a text")


def relabelled(clips: list[Clip], labels: Path | None) -> list[Clip]:
    """`clips` with the texts of a labels file; those that it gives none, and those without text, are left out."""
    if labels is None:
        return [c for c in clips if c.text]
    rows = map(json.loads, labels.read_text(encoding="utf-8").splitlines())
    texts: dict[str, str] = {row["file"]: row["text"] for row in rows}
    found = [replace(c, text=texts.get(c.file, c.text)) for c in clips]
    return [c for c in found if c.text]


def split(clips: list[Clip], every: int) -> tuple[list[Clip], list[Clip]]:
    """(held out, kept): one speaker in `every`, or one sentence in `every` of corpora that do not tell speakers apart;
    by a hash, so that every run holds out the same."""
    held_out: list[Clip] = []
    kept: list[Clip] = []
    for clip in clips:
        by_text = clip.source not in _WITH_SPEAKERS
        name = f"{clip.source} {transcript(clip.text) if by_text else clip.speaker}"
        (held_out if zlib.crc32(name.encode()) % every == 0 else kept).append(clip)
    return held_out, kept
