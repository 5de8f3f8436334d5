"""Word error rate, corpus by corpus: the shipped hearing model on speech that nobody trained on."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from bench.clips import Clip, shards
from bench.material import Material
from bench.row import NotMeasured, Row, percent
from bench.wer import character_distance, distance, read
from engines import manifest as manifests

GOALS: Final[dict[str, tuple[str, float | None]]] = {
    "librispeech": ("LibriSpeech, speakers held out", 0.10),
    "common_voice_v1": ("Common Voice v1, sentences held out", 0.14),
    "Common Voice v1": ("Common Voice v1, sentences held out", 0.14),
    "speechocean762": ("speechocean762, speakers held out", 0.18),
    "ljspeech": ("LJSpeech", 0.06),
    "CMU AN4": ("AN4", 0.05),
    "kathleen": ("Kathleen", 0.06),
    "Common Voice": ("Common Voice, newer", 0.20),
}
"""The beginning of each corpus's name, what the table calls the corpus, and the error rate that is wanted, if any."""
QUANTISED_LIMIT: Final = 0.003
"""How much the error rate may grow from fp32 to what ships."""


class NoSuchCorpus(LookupError):
    """No corpus of that name is there; the message names those that are."""


def error_rows(material: Material) -> list[Row]:
    """A row a corpus; two where clips had to be mended: as the files are, and mended."""
    groups = as_placed(material.clips)
    if not groups:
        raise NotMeasured("no clips were chosen")
    damaged = [clip.mended() for clip in material.clips if clip.mended() is not clip]
    material.texts([*material.clips, *damaged], what="word errors")
    for peer in material.present:
        material.heard_by(peer, [*material.clips, *damaged])
    notes = [f"{len(damaged)} of {len(material.clips)} clips change their Ogg serial number; libsndfile stops there"]
    rows = list[Row]()
    for place, name in sorted(groups):
        limit = list(GOALS.values())[place][1] if place < len(GOALS) else None
        group = groups[place, name]
        whole = [clip.mended() for clip in group]
        cut = sum(a is not b for a, b in zip(group, whole, strict=True))
        rows.append(_row(material, name, limit, group, f"{len(group)} clips"))
        if cut:
            rows.append(_row(material, f"{name}, mended", limit, whole, f"{cut} mended", *notes))
            notes = []
    rows[0] = replace(rows[0], notes=(*rows[0].notes, *material.absent))
    return rows


def _row(material: Material, name: str, limit: float | None, clips: Sequence[Clip], count: str, *notes: str) -> Row:
    found = score(clips, material.texts(clips))
    beside = {
        peer.name: score(clips, [one.text for one in material.heard_by(peer, clips)]) for peer in material.present
    }
    details = asdict(found) | {"others": {peer: asdict(theirs) for peer, theirs in beside.items()}}
    others = {peer: percent(theirs.wer) for peer, theirs in beside.items()}
    reached = f"{percent(found.wer)} ({count})"
    if limit is None:
        return Row(f"WER {name}", reached, notes=notes, details=details, others=others)
    return Row(f"WER {name}", reached, f"≤ {percent(limit)}", found.wer <= limit, notes, details, others)


def by_corpus(clips: Sequence[Clip]) -> dict[str, list[Clip]]:
    """The clips of each corpus."""
    groups = dict[str, list[Clip]]()
    for clip in clips:
        groups.setdefault(clip.corpus, []).append(clip)
    return groups


def as_placed(clips: Sequence[Clip]) -> dict[tuple[int, str], list[Clip]]:
    """Clips by the place and the name of their corpus in the table; each group keeps their order."""
    groups = dict[tuple[int, str], list[Clip]]()
    for clip in clips:
        groups.setdefault(_placed(clip.corpus), []).append(clip)
    return groups


def _placed(corpus: str) -> tuple[int, str]:
    """Where a corpus stands in the table, and its name there: goals in their order, other corpora after them."""
    names = [name for name, _ in GOALS.values()]
    for start, (name, _) in GOALS.items():
        if corpus.lower().startswith(start.lower()):
            return names.index(name), name
    return len(GOALS), corpus


def quantised_row(material: Material) -> list[Row]:
    """What the shipped precision costs: the same checkpoint in fp32 and f32 on the same (mended) clips."""
    if material.reference is None:
        raise NotMeasured("needs --reference DIR, the same checkpoint exported with --encoder fp32 --decoder f32")
    clips = [clip.mended() for clip in material.clips]
    ours = score(clips, material.texts(clips, what="word errors"))
    theirs = score(clips, material.texts(clips, material.reference, what="word errors of the reference"))
    name = f"{'/'.join(precision(material.hearing_model))} against {'/'.join(precision(material.reference))}"
    reached = f"{100 * (ours.wer - theirs.wer):+.2f} points ({percent(ours.wer)}, {percent(theirs.wer)})"
    goal = f"≤ {100 * QUANTISED_LIMIT:+.1f} points"
    details = {"shipped": asdict(ours), "reference": asdict(theirs)}
    return [Row(name, reached, goal, ours.wer - theirs.wer <= QUANTISED_LIMIT, details=details)]


def precision(directory: Path) -> tuple[str, str]:
    """Precision of a hearing model's encoder and decoder, as the manifest says."""
    manifest = manifests.read_asr(directory)
    return manifest.encoder.precision, manifest.decoder.quantization


@dataclass(frozen=True, slots=True)
class Score:
    """Word and character error rate, and how many clips and words they were counted on."""

    wer: float
    cer: float
    clips: int
    words: int


def score(clips: Sequence[Clip], texts: Sequence[str]) -> Score:
    """What ``texts`` got wrong of the clips' own."""
    word_errors = words = character_errors = characters = 0
    for clip, text in zip(clips, texts, strict=True):
        reference, heard = read(clip.text), read(text)
        word_errors += distance(reference, heard)
        words += len(reference)
        character_errors += character_distance(" ".join(reference), " ".join(heard))
        characters += len(" ".join(reference))
    wer, cer = word_errors / max(words, 1), character_errors / max(characters, 1)
    return Score(round(wer, 4), round(cer, 4), len(clips), words)


def measure(
    data: Path,
    model: str | None = None,
    *,
    threads: int | None = None,
    corpora: list[str] | None = None,
    limit: int | None = None,
) -> dict[str, object]:
    """Hear every clip of the test shards below ``data``, as the files are: what ``hearsay bench eval`` prints.

    Args:
        model: name or directory, the default without.
        corpora: only these; all without.
        limit: most clips of a corpus.

    Raises:
        NoSuchCorpus: one of ``corpora`` is not there.
        ModelNotFound, ManifestError: no usable model.
    """
    material = Material(data, shards(data), hearing=model, threads=threads, limit=limit)
    there = by_corpus(material.clips)
    for corpus in corpora or ():
        if corpus not in there:
            raise NoSuchCorpus(f"no corpus named {corpus!r}; found: {', '.join(sorted(there))}")
    clips = [clip for clip in material.clips if not corpora or clip.corpus in corpora]
    began = time.perf_counter()
    material.texts(clips)
    wall = time.perf_counter() - began
    seconds = sum(clip.seconds for clip in clips)
    groups = sorted(by_corpus(clips).items())
    encoder, decoder = precision(material.hearing_model)
    return {
        "model": manifests.read_asr(material.hearing_model).name,
        "encoder": encoder,
        "decoder": decoder,
        "corpora": {corpus: asdict(score(group, material.texts(group))) for corpus, group in groups},
        "audio_hours": round(seconds / 3600, 3),
        "times_real_time": round(seconds / max(wall, 1e-9), 1),
    }
