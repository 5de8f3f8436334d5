"""Rows that compare with something: marks, the same speech under other conditions, processor time beside others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from bench import marks, peers
from bench.clips import Clip
from bench.conditions import CONDITIONS, flac
from bench.corpora import by_corpus, score
from bench.material import SEED, Material, progress, samples
from bench.peers import Floats
from bench.row import NotMeasured, Row, percent

MARKS: Final = {"sentence ends": 0.85, "commas": 0.65, "capitals": 0.85}
WORSE: Final = 1.3
"""The error rate that is allowed under a condition, as a multiple of that on the same clips without it."""
COST: Final = 0.08
"""How many seconds of a processor a second of recordings may take: the promise in the table of goals."""
A_CORPUS: Final = 20
"""Clips of each corpus that are heard under each condition."""
TIMED: Final = 30
"""Clips on which processor time is measured."""


def mark_rows(material: Material) -> list[Row]:
    """F1 of each kind of mark on clips whose texts are cased and punctuated."""
    clips = [clip.mended() for clip in material.clips if marks.is_cased(clip.text)]
    if not clips:
        raise NotMeasured("no chosen clip has a cased text")

    def found(texts: Sequence[str]) -> dict[str, float]:
        return marks.f1((clip.text, text) for clip, text in zip(clips, texts, strict=True))

    heard = material.texts(clips, what="cased texts")
    ours = found(heard)
    others = {p.name: found([one.text for one in material.heard_by(p, clips)]) for p in material.present}
    lower = all(text == text.lower() for text in heard)
    notes = [f"on {len(clips)} clips", *(["the model writes lower case without marks"] if lower else [])]
    return [
        Row(
            f"F1 of {kind}",
            f"{ours[kind]:.2f}",
            f"≥ {goal:.2f}",
            ours[kind] >= goal,
            tuple(notes) if kind == marks.KINDS[0] else (),
            {"f1": ours[kind], "others": {name: one[kind] for name, one in others.items()}},
            {name: f"{one[kind]:.2f}" for name, one in others.items()},
        )
        for kind, goal in MARKS.items()
    ]


def condition_rows(material: Material) -> list[Row]:
    """Word error rate of the same clips as they are and under each condition."""
    whole = [clip.mended() for clip in material.clips]
    clips = [clip for group in by_corpus(whole).values() for clip in material.sample(group, A_CORPUS, seed=4)]
    if not clips:
        raise NotMeasured("no clips were chosen")
    waves = [samples(clip) for clip in clips]
    changed = {name: _changed(name, clips, waves) for name in CONDITIONS}
    every = [*clips, *(clip for group in changed.values() for clip in group)]
    material.texts(every, what="conditions")
    for peer in material.present:
        material.heard_by(peer, every)
    clean = _rates(material, clips)
    return [_condition_row(material, name, _rates(material, group), clean) for name, group in changed.items()]


def _changed(name: str, clips: Sequence[Clip], waves: Sequence[Floats]) -> list[Clip]:
    """The clips under a condition; who babbles in the background are other speakers."""
    made = list[Clip]()
    for i, (clip, wave) in enumerate(zip(clips, waves, strict=True)):
        strangers = [w for other, w in zip(clips, waves, strict=True) if other.speaker != clip.speaker and len(w)]
        made.append(replace(clip, audio=flac(CONDITIONS[name](wave, np.random.default_rng((SEED, i)), strangers))))
    return made


def _condition_row(material: Material, name: str, rates: dict[str, float], clean: dict[str, float]) -> Row:
    ours, *others = (f"{percent(rates[who])} = {rates[who] / max(clean[who], 1e-9):.2f} ×" for who in rates)
    ratio = rates["ours"] / max(clean["ours"], 1e-9)
    # Besides the ratio, fewer words must be wrong than with the first of the peers, which is of our size.
    beaten = all(rates["ours"] < rates[peer.name] for peer in material.present[:1])
    notes, details = (f"the same clips as they are: {percent(clean['ours'])}",), {"rates": rates, "clean": clean}
    met = ratio <= WORSE and beaten
    beside = dict(zip([peer.name for peer in material.present], others, strict=True))
    return Row(f"WER {name}", ours, f"≤ {WORSE} ×", met, notes, details, beside)


def _rates(material: Material, clips: Sequence[Clip]) -> dict[str, float]:
    """Word error rates: "ours", then each peer's."""
    found = {"ours": score(clips, material.texts(clips)).wer}
    for peer in material.present:
        found[peer.name] = score(clips, [one.text for one in material.heard_by(peer, clips)]).wer
    return found


def cost_row(material: Material) -> list[Row]:
    """Processor seconds a second of recordings: each in processes of one thread, finals only, loading left out."""
    clips = material.sample([clip.mended() for clip in material.clips], TIMED, seed=5)
    if not clips:
        raise NotMeasured("no clips were chosen")
    waves = [samples(clip) for clip in clips]
    seconds = sum(map(len, waves)) / peers.RATE
    with progress("processor time") as report:
        mine = sum(one.processor for one in peers.hear(peers.ours(material.hearing_model), waves, report)) / seconds
    theirs = {p.name: sum(one.processor for one in material.heard_by(p, clips)) / seconds for p in material.present}
    beside = {name: f"{one:.3f}" for name, one in theirs.items()}
    met = mine <= COST and all(mine < one for one in list(theirs.values())[:1])
    note = f"{len(clips)} clips, {seconds:.0f} s, one thread"
    details = {"processor": mine, "others": theirs}
    return [Row("CPU seconds a second of audio", f"{mine:.3f}", f"≤ {COST}", met, (note,), details, beside)]
