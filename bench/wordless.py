"""Words that come out where nobody spoke: ten minutes each of silence, generated noise, and music. Promised: none."""

from typing import Final

import numpy as np
import numpy.typing as npt

from bench import music, noise, peers
from bench.ear import Ear, array_sound
from bench.material import Material, progress
from bench.row import Row
from bench.wer import normalize

Floats = npt.NDArray[np.float32]

MINUTES: Final = 10.0
"""Minutes of each kind of sound."""
PIECE_SECONDS: Final = 60.0
"""Seconds of the sessions in which every sound is heard, as by a client that reconnects."""


def wordless_rows(material: Material) -> list[Row]:
    """A row for each of silence, noise and music."""
    seconds = 60 * MINUTES
    recorded, packages = music.tracks()
    notes = list[str]()
    if recorded:
        sources = "; ".join(f"{p.name} ({p.author}, {p.licence})" for p in packages)
        notes.append(f"recordings of the Debian packages {sources}")
        played = music.excerpt(recorded, seconds)
    else:
        notes.append("generated: no Debian package with music is installed, cached or can be fetched here")
        played = noise.melodies(seconds)
    kinds = {"silence": noise.silences(seconds), "noise": noise.noises(seconds), "music": played}
    with Ear(material.hearing_model, material.threads) as ear:
        return [_row(material, ear, kind, sounds, notes if kind == "music" else []) for kind, sounds in kinds.items()]


def _row(material: Material, ear: Ear, kind: str, sounds: dict[str, Floats], notes: list[str]) -> Row:
    size = round(PIECE_SECONDS * noise.RATE)
    pieces = [(name, wave[at : at + size]) for name, wave in sounds.items() for at in range(0, len(wave), size)]
    before = ear.model.work.finals
    with progress(kind) as report:
        texts = ear.texts([array_sound(wave, noise.RATE) for _, wave in pieces], progress=report)
    heard = {name: " / ".join(t for (n, _), t in zip(pieces, texts, strict=True) if n == name and t) for name in sounds}
    words = {name: len(normalize(text)) for name, text in heard.items() if text}
    minutes = sum(len(wave) for wave in sounds.values()) / noise.RATE / 60
    passed = ear.model.work.finals - before
    notes = [f"{passed} stretches passed the voice gate", *notes]
    notes += [f"{words[name]} words on {name}: {_shortened(heard[name])}" for name in words]
    total, others = sum(words.values()), dict[str, str]()
    for peer in material.present:
        with progress(f"{kind}, {peer.name}") as report:
            found = peers.hear(peer, [wave for _, wave in pieces], report, gated=True)
        others[peer.name] = str(sum(len(normalize(one.text)) for one in found))
    reached = f"{total} words in {minutes:.1f} min"
    details = {"words": words, "texts": {name: text for name, text in heard.items() if text}}
    return Row(f"words on {kind}", reached, "0", total == 0, tuple(notes), details, others)


def _shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
