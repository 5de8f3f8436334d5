"""How well the speaking model is understood, by our ear and by others that we did not train; how natural it sounds;
and what it skips."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.ear import Ear, array_sound
from bench.material import Material, progress
from bench.naturalness import Floats, natural_row
from bench.peers import PEERS, hear
from bench.recordings import HeldOut, held_out, wave
from bench.row import NotMeasured, Row, percent
from bench.slips import slips
from bench.spoken import RATE, Spoken, beside, odd_lengths, say_all
from bench.wer import rate, read

UNSEEN: Final = "everyday"
"""The kind of sentences on which intelligibility is measured."""
OURS: Final = 1.3
THEIRS: Final = 1.2
"""The error rates that are allowed on what the model says, as multiples of that on the recordings: by our ear, and by
others. The latter holds also for what another model says (``--beside``)."""
FAILURES: Final = 2
"""Failing sentences of the 500 that are allowed."""


@dataclass(frozen=True, slots=True)
class Both:
    """Texts of the same audio by our ear and by pocketsphinx; None where the latter was not asked."""

    ours: list[str]
    theirs: Sequence[str | None]


def speaking_rows(material: Material) -> list[Row]:
    """Rows of intelligibility, one an ear; one of naturalness, one of failures."""
    other = beside(material)
    spoken, voice = say_all(material)
    recorded = held_out(material)
    clips = [*recorded.tests, *recorded.takes]
    if not clips:
        raise NotMeasured(f"{material.data}/speech holds no recordings of the voice")
    waves = [one.wave for one in spoken] + [wave(clip, RATE) for clip in clips]
    with Ear(material.hearing_model, material.threads) as ear, progress("our ear on speech") as report:
        ours = ear.texts([array_sound(samples, RATE) for samples in waves], progress=report)
    # Where our ear misses nothing, a second opinion could not make a sentence fail.
    asked = [
        i
        for i in range(len(waves))
        if i >= len(spoken) or spoken[i].sentence.kind == UNSEEN or slips(spoken[i].text, ours[i], ours[i])
    ]
    natural = natural_of(
        waves[: len(spoken)], waves[len(spoken) :], [other[i] for i in range(len(spoken)) if i in other], voice
    )
    judged = judge_rows(material, spoken, recorded, waves, other)
    theirs: list[str | None] = [None] * len(waves)
    try:
        with progress("pocketsphinx") as report:
            for i, one in zip(asked, hear(PEERS["pocketsphinx"], [waves[i] for i in asked], report), strict=True):
                theirs[i] = one.text
    except NotMeasured as reason:
        return [*intelligible_rows(spoken, recorded, Both(ours, []), voice), *judged, natural, _unheard(str(reason))]
    both = Both(ours, theirs)
    return [*intelligible_rows(spoken, recorded, both, voice), *judged, natural, failure_row(spoken, recorded, both)]


def judge_rows(
    material: Material, spoken: list[Spoken], recorded: HeldOut, waves: Sequence[Floats], other: Mapping[int, Floats]
) -> list[Row]:
    """Errors of each peer on unseen sentences against those on all recordings, and on those that another says too
    against the other's; ``waves``: of all that was spoken, then of the recordings; ``other``: by sentence."""
    unseen = [i for i, one in enumerate(spoken) if one.sentence.kind == UNSEEN]
    both = [i for i in unseen if i in other]
    clips = [*recorded.tests, *recorded.takes]
    rows = list[Row]()
    for peer in material.present:
        asked = [*(waves[i] for i in unseen), *waves[len(spoken) :], *(other[i] for i in both)]
        with progress(f"{peer.name} on speech") as report:
            heard = [_read(one.text) for one in hear(peer, asked, report)]
        texts = iter(heard)
        mine = {i: next(texts) for i in unseen}
        base = rate([(_read(clip.text), next(texts)) for clip in clips])
        wrong = rate((spoken[i].text, mine[i]) for i in unseen)
        rows.append(_row(peer.name, wrong, base, THEIRS, f"{len(unseen)} sentences, {len(clips)} recordings"))
        if both and material.beside:
            wrong = rate((spoken[i].text, mine[i]) for i in both)
            base = rate([(spoken[i].text, next(texts)) for i in both])
            rows.append(_row(peer.name, wrong, base, THEIRS, f"{len(both)} sentences beside {material.beside.name}"))
    return rows


def _read(text: str) -> str:
    return " ".join(read(text))


def natural_of(spoken: list[Floats], recorded: list[Floats], other: list[Floats], voice: str) -> Row:
    """The row of naturalness, or why it is not measured."""
    try:
        with progress("naturalness") as report:
            return natural_row(spoken, recorded, other, voice, report)
    except NotMeasured as reason:
        return Row("naturalness", "not measured", "", False, (str(reason),))


def _unheard(reason: str) -> Row:
    return Row("by pocketsphinx; sentences that fail", "not measured", "", False, (reason,))


def intelligible_rows(spoken: list[Spoken], recorded: HeldOut, both: Both, voice: str) -> list[Row]:
    """Errors on unseen sentences against those on recordings; ``both`` has the sentences' texts, then the recordings'.

    Without texts by pocketsphinx, our ear's row alone.
    """
    unseen = [i for i, one in enumerate(spoken) if one.sentence.kind == UNSEEN]
    clips = [*recorded.tests, *recorded.takes]
    first = len(spoken)

    def rates(texts: Sequence[str | None], most: int) -> tuple[float, float]:
        said = rate((spoken[i].text, texts[i] or "") for i in unseen)
        return said, rate((clip.text, text or "") for clip, text in zip(clips[:most], texts[first:], strict=False))

    # Our ear was trained on the voice's own shard, held-out takes included: only the test split is new to both.
    tests = len(recorded.tests)
    of = f"{len(unseen)} sentences, {tests} recordings"
    rows = [_row("our ear", *rates(both.ours, tests), OURS, of, f"said by the voice {voice}")]
    if both.theirs:
        of = f"{len(unseen)} sentences, {len(clips)} recordings"
        rows.append(_row("pocketsphinx", *rates(both.theirs, len(clips)), THEIRS, of))
    kinds = Counter(one.sentence.kind for one in spoken)
    by_kind = {
        kind: rate((o.text, t) for o, t in zip(spoken, both.ours, strict=False) if o.sentence.kind == kind)
        for kind in kinds
    }
    rows[0].details["our_wer_by_kind"] = by_kind
    rows[0].details["heard"] = [
        {"text": one.text, "ours": mine, "theirs": other, "seconds": round(one.seconds, 2)}
        for one, mine, other in zip(spoken, both.ours, both.theirs or [""] * len(spoken), strict=False)
    ]
    return rows


def _row(ear: str, said: float, base: float, factor: float, of: str, *notes: str) -> Row:
    ratio = said / base if base else float("inf")
    reached = f"{percent(said)} = {ratio:.2f} × {percent(base)}"
    name = f"said, WER by {ear} ({of})"
    return Row(name, reached, f"≤ {factor} ×", ratio <= factor, notes, {"said": said, "recorded": base})


def failure_row(spoken: list[Spoken], recorded: HeldOut, both: Both) -> Row:
    """Sentences without an end, of odd length, or with words that both ears miss or hear twice."""
    odd = odd_lengths(spoken)
    failed, kinds = dict[int, str](), Counter[str]()
    for i, one in enumerate(spoken):
        other = both.theirs[i]
        slip = slips(one.text, both.ours[i], one.text if other is None else other)
        reasons = {
            "no end": f"ended by the {', '.join(one.guards)} guard" if one.guards else "",
            "length": f"{one.seconds:.1f} s" if i in odd else "",
            "words": slip.told(one.text) if slip else "",
        }
        kinds.update(kind for kind, reason in reasons.items() if reason)
        if told := "; ".join(reason for reason in reasons.values() if reason):
            failed[i] = told
    clips = [*recorded.tests, *recorded.takes]
    first = len(spoken)
    accused = [
        clip.text
        for clip, mine, other in zip(clips, both.ours[first:], both.theirs[first:], strict=True)
        if slips(clip.text, mine, other or "")
    ]
    told = [f"{i} “{spoken[i].sentence.text}”: {reason}" for i, reason in failed.items()]
    notes = (
        f"{kinds['no end']} without an end, {kinds['length']} of odd length, {kinds['words']} with words that both "
        f"ears miss or hear twice; the same method accuses {len(accused)} of {len(clips)} recordings",
        *told[:10],
        *([f"and {len(told) - 10} more (--json)"] if len(told) > 10 else []),
    )
    name = f"of {len(spoken)} sentences, skipped or repeated words or no end"
    details = {"failed": told, "accused_recordings": accused}
    return Row(name, str(len(failed)), f"≤ {FAILURES}", len(failed) <= FAILURES, notes, details)
