"""Keyterms: how many rare names come out with them and not without, and how many come out that nobody said.

Each of a hundred utterances gets its own rare word and 5–20 others that it does not hold. Three hundred other draws get
5–20 words of which they hold none.
"""

import random
from collections.abc import Sequence
from typing import Final

from bench.clips import Clip
from bench.ear import Ear, file_sound
from bench.material import SEED, Material, progress
from bench.row import NotMeasured, Row, percent
from bench.vocabulary import Rare, rare_words
from bench.wer import normalize, rate
from streaming.engine import HEAD_ROWS

NAMES: Final = 100
"""The number of utterances that each hold a rare name."""
UTTERANCES: Final = 300
"""The number of utterances that hold none of their keyterms."""
POOL: Final = 400
"""Rare words from which distractors are drawn."""
OTHERS: Final = (5, 20)
"""The fewest and the most distractors of a session."""
GAIN: Final = 0.4
"""The goal for the share of names that come out because of keyterms."""
INSERTED: Final = 0.002
"""The goal for the share of keyterms that come out although nobody said them."""


def keyterm_rows(material: Material) -> list[Row]:
    """Recall of rare names, and unspoken context words."""
    clips = [clip.mended() for clip in material.clips]
    rare = rare_words(clips, material.data, POOL)
    if len(rare) < 2 * OTHERS[1]:
        raise NotMeasured(f"the chosen clips hold {len(rare)} rare words, at least {2 * OTHERS[1]} are needed")
    pool = [item.word for item in rare]
    with Ear(material.hearing_model, material.threads) as ear:
        return [_recall(material, ear, rare[:NAMES], pool), _unspoken(material, ear, clips, pool)]


def _recall(material: Material, ear: Ear, rare: Sequence[Rare], pool: Sequence[str]) -> Row:
    chance = random.Random(SEED + 1)
    clips = [item.clip for item in rare]
    terms = list[list[str]]()
    for item in rare:
        own = [item.word, *_others(chance, pool, item.clip)]
        terms.append(_fitting(ear, own, chance))
    plain = material.texts(clips, what="names without keyterms")
    with progress("names with keyterms") as report:
        helped = ear.texts([file_sound(clip.audio) for clip in clips], terms, report)
    hits = [[_count(text, item.word) > 0 for item, text in zip(rare, texts, strict=True)] for texts in (plain, helped)]
    before, after = (sum(found) / len(rare) for found in hits)
    names = sum(item.name for item in rare)
    wers = [rate((c.text, t) for c, t in zip(clips, texts, strict=True)) for texts in (plain, helped)]
    notes = (
        f"{names} are written like names, {len(rare) - names} are other words; no training clip holds any, the text "
        f"holds {sum(item.written == 0 for item in rare)} of them never",
        f"word error rate of these clips {percent(wers[0])} without, {percent(wers[1])} with keyterms",
    )
    details = {
        "words": [
            {"word": item.word, "without": a, "with": b, "heard": text, "said": item.clip.text}
            for item, a, b, text in zip(rare, hits[0], hits[1], helped, strict=True)
        ]
    }
    reached = f"{100 * (after - before):+.0f} points ({percent(before)} → {percent(after)})"
    goal = f"≥ {100 * GAIN:+.0f} points"
    return Row(f"{len(rare)} rare names, recall with keyterms", reached, goal, after - before >= GAIN, notes, details)


def _unspoken(material: Material, ear: Ear, clips: Sequence[Clip], pool: Sequence[str]) -> Row:
    chance = random.Random(SEED + 2)
    chosen = material.sample(clips, UTTERANCES, seed=3)
    terms = [_fitting(ear, _others(chance, pool, clip), chance) for clip in chosen]
    plain = material.texts(chosen, what="utterances without keyterms")
    with progress("utterances with unspoken keyterms") as report:
        misled = ear.texts([file_sound(clip.audio) for clip in chosen], terms, report)
    counts = [
        sum(_count(text, term) for text, own in zip(texts, terms, strict=True) for term in own)
        for texts in (plain, misled)
    ]
    words = sum(len(normalize(clip.text)) for clip in chosen)
    wers = [rate((c.text, t) for c, t in zip(chosen, texts, strict=True)) for texts in (plain, misled)]
    share = counts[1] / max(words, 1)
    notes = (
        f"{counts[1]} of {words} words; the same words came out {counts[0]} times without keyterms",
        f"word error rate of these clips {percent(wers[0])} without, {percent(wers[1])} with unspoken keyterms",
    )
    inserted = [
        {"term": term, "heard": text, "said": clip.text}
        for clip, text, own in zip(chosen, misled, terms, strict=True)
        for term in own
        if _count(text, term)
    ]
    name = f"unspoken context words, {len(chosen)} utterances"
    return Row(name, percent(share), f"≤ {percent(INSERTED)}", share <= INSERTED, notes, {"inserted": inserted})


def _others(chance: random.Random, pool: Sequence[str], clip: Clip) -> list[str]:
    """5–20 words of ``pool`` that the clip does not hold, not even within a longer word."""
    text = " ".join(normalize(clip.text))
    unspoken = [word for word in pool if word not in text]
    return chance.sample(unspoken, min(chance.randint(*OTHERS), len(unspoken)))


def _fitting(ear: Ear, terms: list[str], chance: random.Random) -> list[str]:
    """As many of ``terms``, the first always, as a prompt takes, in random order."""
    while len(terms) > 1 and len(ear.model.engine.prompt.head(terms)) > HEAD_ROWS:
        terms = terms[:-1]
    return chance.sample(terms, len(terms))


def _count(text: str, word: str) -> int:
    return normalize(text).count(word)
