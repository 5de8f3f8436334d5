"""Which model is used where none is named: the best one that was pulled and that this machine keeps live."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engines import integrity, store
from engines.manifest import AsrManifest, Manifest, ManifestError
from engines.store import ModelNotFound

Kind = Literal["asr", "tts"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that is taken. ``why`` is a part of a sentence for people, empty if there was only one to take."""

    path: Path
    name: str
    why: str = ""

    def told(self, kind: Kind, option: str) -> str:
        """The sentence that tells a user which model was taken and why; empty if there was only one. ``option`` is the
        command line's option that takes another."""
        does = {"asr": "hears", "tts": "speaks"}[kind]
        other = f"{option} NAME takes another (hearsay models list)"
        return f"{does} with {self.name}, {self.why}; {other}" if self.why else ""


def choose(kind: Kind, threads: int | None = None) -> Choice:
    """Choose a model that hears or speaks: the best that was pulled and is live on this machine, else the small one
    that ships with hearsay.

    Of two models the one with more weights is better. A model that failed its trial is not considered. What a model
    costs was measured when it was pulled; if it was not measured on this machine, a probe of two seconds estimates it.

    Args:
        threads: the thread budget, or None for as many as this process has CPUs.

    Raises:
        ModelNotFound: there is no model at all.
    """
    pulled = sorted(_pulled(kind), key=lambda found: _size(found[1]), reverse=True)
    if not pulled:
        name = store.default(kind)
        return Choice(store.find(name), name)
    from engines import speed

    slow: list[tuple[float, store.Model]] = []
    failed = [model.name for model, _ in pulled if speed.failed_here(model.path)]
    skipped = "".join(f"; {name} failed its trial" for name in failed)
    for model, manifest in pulled:
        if model.name in failed:
            continue
        cost = speed.cost_of(model.path, manifest, threads)
        if cost <= speed.COMFORTABLE:
            why = f"the best here that this machine keeps live ({_share(cost)} for a second of sound{skipped})"
            return Choice(model.path, model.name, why)
        slow.append((cost, model))
        skipped += f"; {model.name} would take {_share(cost)}"
    try:
        small = store.find(store.default(kind))
    except ModelNotFound:
        if not slow:
            raise
        cost, model = min(slow, key=lambda one: one[0])
        return Choice(model.path, model.name, f"the fastest here, though it takes {_share(cost)} for a second of sound")
    return Choice(small, store.default(kind), f"the small one{skipped}{' for a second of sound' if slow else ''}")


def serves(manifest: Manifest) -> Kind | None:
    """What the model can be chosen for, asr or tts; None if it has to be named, since it only aligns words or has no
    voice of its own."""
    if isinstance(manifest, AsrManifest):
        return "asr" if manifest.aligner is None else None
    return "tts" if manifest.voices else None


def _pulled(kind: Kind) -> list[tuple[store.Model, Manifest]]:
    found: list[tuple[store.Model, Manifest]] = []
    for model in store.available():
        if model.origin != "user":
            continue
        try:
            manifest = integrity.load_manifest(model.path)
        except ManifestError:  # ``hearsay models list`` reports it.
            continue
        if serves(manifest) == kind:
            found.append((model, manifest))
    return found


def _size(manifest: Manifest) -> int:
    """A number that grows with the decoder's parameters, whatever their precision."""
    decoder = manifest.decoder if isinstance(manifest, AsrManifest) else manifest.talker
    return decoder.layers * decoder.width**2 + decoder.vocabulary * decoder.width


def _share(cost: float) -> str:
    return f"{cost:.2f} s"
