"""Sentences as people talk and write today, for speech that a synthesiser says and a small recogniser learns from.

A line is what the recogniser shall write, in the one style of `training.speech.written`. No line holds a text of a
test; tests are transcripts in index.jsonl or plain lines.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from training.speech.slots import Slots, expand, templates, vocabulary
from training.speech.sounds import said
from training.speech.written import styled
from training.transcript import lines_of, plain

MIX: Final = {"fiction": 0.35, "modern": 0.36, "template": 0.29}
"""Shares of draws. Where sentences of a kind run out, templates take their share."""
SHORT: Final = 0.07
"""The share of the found lines that have one to four words."""
MOST_WORDS: Final = 30
# Words of a line as it is said: 15 s at 2.7 words a second.
MOST_SAID: Final = 40
# A word shall occur so many times; until then lines that hold it are preferred.
_WANTED: Final = 18
_CHOICES: Final = 20
"""So many sentences are drawn, of which the one with the rarest words is taken."""
_WINDOW: Final = 7
"""So many words in a row make two texts the same sentence; shorter ones occur by chance."""
_END: Final = re.compile(r"(?<=[a-z0-9)]{2}[.?!]) (?=[A-Z])")
_SAID: Final = re.compile(r"[A-Za-z][A-Za-z '.,?!-]*")
_CLAUSE: Final = re.compile(
    r", (?=(?:and|but|so|because|though|although|when|while|as|if|for|which|who|where|until|then) )|(?<=\w\w[.?!]) "
)


class Never:
    """Texts that no line may be or hold, or share seven words in a row with."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._whole = set[str]()
        self._windows = set[tuple[str, ...]]()
        for text in texts:
            for form in {plain(text), plain(said(styled(text) or "."))}:
                words = form.split()
                self._whole.add(form)
                self._windows.update(zip(*(words[i:] for i in range(_WINDOW)), strict=False))
                if 4 <= len(words) < _WINDOW:
                    self._windows.add(tuple(words))
        self._whole.discard("")

    def __contains__(self, line: str) -> bool:
        form = plain(line)
        words = form.split()
        return form in self._whole or any(
            tuple(words[i : i + size]) in self._windows
            for size in range(4, _WINDOW + 1)
            for i in range(len(words) - size + 1)
        )


def transcripts(path: Path) -> Iterator[str]:
    """Give the texts of an index.jsonl, or a plain file's lines."""
    lines = lines_of(path)
    yield from (json.loads(line)["text"] for line in lines) if path.suffix == ".jsonl" else lines


def sentences(path: Path) -> Iterator[str]:
    """Give the sentences of a text, plain or .xz, in which a line is one sentence or some."""
    for line in lines_of(path):
        yield from split(line)


def split(text: str) -> list[str]:
    """Give the sentences of a paragraph. Short ones stay with the one before, so that some lines hold two."""
    parts: list[str] = []
    for part in _END.split(text):
        if parts and len(parts[-1].split()) < 4:
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


class Pool:
    """Found sentences in random order. Each is given once, and of some candidates the one with the rarest words
    comes."""

    def __init__(self, texts: Iterable[str], chance: random.Random) -> None:
        found = list(dict.fromkeys(texts))
        chance.shuffle(found)
        self._chance = chance
        self._short = [text for text in found if text.count(" ") < 4]
        self._long = [text for text in found if text.count(" ") >= 4]

    def draw(self, gain: Callable[[str], float]) -> str | None:
        """Give the next sentence, or None where all were given."""
        from_pool = self._short if self._short and self._chance.random() < SHORT else self._long
        if not from_pool:
            return None
        tries = sorted({self._chance.randrange(len(from_pool)) for _ in range(_CHOICES)})
        best = max(tries, key=lambda i: gain(from_pool[i]))
        from_pool[best], from_pool[-1] = from_pool[-1], from_pool[best]
        return from_pool.pop()


class Script:
    """The lines of one seed."""

    def __init__(self, fiction: Iterable[str], modern: Iterable[str], never: Never, seed: int) -> None:
        self._chance = random.Random(seed)
        self._never = never
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self._vocabulary = frozenset(vocabulary()[:25_000])
        self._slots = Slots(self._chance, self.counts)
        self._given = set[str]()
        self._pools = {"fiction": Pool(fiction, self._chance), "modern": Pool(modern, self._chance)}

    def lines(self, count: int) -> Iterator[tuple[str, str]]:
        """So many lines, each with its kind."""
        made = 0
        while made < count:
            kind, found = self._next()
            written = self._accepted(found, generated=kind not in self._pools)
            if written is None:
                continue
            made += 1
            self.kinds[kind] += 1
            self.counts.update(set(plain(written).split()))
            yield kind, written

    def _next(self) -> tuple[str, str]:
        kind = self._chance.choices(list(MIX), list(MIX.values()))[0]
        if kind in self._pools and (text := self._pools[kind].draw(self._gain)) is not None:
            return kind, self._cut(text)
        table = templates()
        kind = self._chance.choices(list(table), [weight for weight, _ in table.values()])[0]
        return kind, expand(self._chance.choice(table[kind][1]), self._chance, self._slots)

    def _gain(self, text: str) -> float:
        words = plain(text).split()
        rare = sum(max(0, _WANTED - self.counts[w]) for w in words if w in self._vocabulary)
        return rare / (len(words) + 4)

    def _cut(self, text: str) -> str:
        """Let half of the long sentences end, or begin, at a clause's end."""
        words = text.split()
        if len(words) <= 12 or (len(words) <= 28 and self._chance.random() < 0.5):
            return text
        clauses = [part.strip(" ,.?!") for part in _CLAUSE.split(text)]
        fit = [part for part in clauses if 2 <= len(part.split()) <= 28]
        if not fit:
            return text
        part = self._chance.choice(fit)
        mark = text[-1] if text.endswith(part + text[-1]) and text[-1] in ".?!" else "."
        return part[0].upper() + part[1:] + mark

    def _accepted(self, text: str, *, generated: bool) -> str | None:
        written = styled(text)
        if written is None or written in self._given or len(written.split()) > MOST_WORDS:
            return None
        spoken = said(written).strip()
        if len(spoken.split()) > MOST_SAID or _SAID.fullmatch(spoken) is None:
            return None
        if written in self._never or spoken in self._never:
            return None
        if generated and len(set(words := plain(written).split())) < len(words) - 4:
            return None
        self._given.add(written)
        return written


def write(
    *, count: int, fiction: Path, modern: tuple[Path, ...] = (), never: tuple[Path, ...], seed: int = 1, out: Path
) -> None:
    """Write so many lines for `prepare` of novels, sentences of today and templates. fiction, modern: files of
    sentences, one a line (.xz too); never: transcripts of tests. The same arguments give the same file."""
    today: Sequence[str] = [text for path in modern for text in sentences(path)]
    script = Script(sentences(fiction), today, Never(text for path in never for text in transcripts(path)), seed)
    lines = [written for _, written in script.lines(count)]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    enough = sum(script.counts[word] >= 12 for word in vocabulary()[:25_000])
    print(f"{len(lines)} lines; {enough} of the 25,000 most frequent words occur in 12 lines or more")
    print(", ".join(f"{kind} {share / len(lines):.1%}" for kind, share in script.kinds.most_common()))
