"""``hearsay models pull``: from a name to a model that runs here, in one command and without torch.

What is pulled comes into a folder of its own beside the models (``.pull-NAME``): the download into ``source…``, what
is made of it into ``model``. A break leaves that folder, and the next pull of the name goes on with the download where
it stood; a conversion begins anew. The model takes its name when it is whole, and the folder goes.
"""

import errno
import fnmatch
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import msgspec

from commands.console import MISUSED, Failure, complain
from commands.progress import Bars
from engines import hub, integrity, manifest, memory, releases, store
from engines.hub import Entry, Repository
from engines.releases import Release
from engines.store import StoreError

if TYPE_CHECKING:
    from export.fill import Estimate

Quantization = Literal["f32", "f16", "q8_0", "q6_k", "q4_k_m"]
Precision = Literal["auto", "f32", "f16", "q8_0", "q6_k", "q4_k_m"]

TRIED: Final[tuple[Quantization, ...]] = ("q8_0", "q4_k_m")
"""What ``auto`` chooses from, the better first."""
SLACK: Final = 200_000_000
"""Bytes that stay free on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for."""

    source: str
    name: str | None = None
    revision: str | None = None
    precision: Precision = "auto"
    keep: bool = False
    threads: int | None = None


def pull(wish: Wish) -> Path:
    """Bring the model, and return where it is.

    Raises:
        Failure, StoreError, ManifestError, CheckpointError: in one sentence, why not. What came of a download stays.
    """
    wish = replace(wish, source=_named(wish.source))
    local = Path(wish.source).expanduser()
    release = releases.find(wish.source)
    if local.exists():
        release = None
    elif wish.source.startswith((".", "~", "/")):
        raise Failure(f"{wish.source}: there is no such directory, and no such file", MISUSED)
    elif release is None and "/" not in wish.source:
        near = releases.near(wish.source)
        raise Failure(
            f"{wish.source!r} is no release, no OWNER/NAME of a repository, and nothing of that name is here"
            f"{f'; did you mean {near}?' if near else ''} (hearsay models list --available)",
            MISUSED,
        )
    repository = wish.source if release is None else release.repository
    plain = local.resolve().name if local.is_dir() else local.stem if local.exists() else repository.rpartition("/")[2]
    name = store.legal_name(wish.name or (plain if release is None else release.alias))
    with _working(name) as work, Bars() as bars:
        target = work.parent / name
        if local.exists():
            made = _local(local, work, bars, wish, name)
        else:
            made = _remote(repository, release, work, bars, wish, name)
        if made != target:
            store.put(made, target)
    return target


def _named(source: str) -> str:
    """What is asked for, without the address of the page that a repository's name is copied from."""
    source = source.strip()
    if not source:
        raise Failure("pull what? hearsay models list --available has the names", MISUSED)
    if source.startswith(("http://", "https://")):
        return "/".join(urlsplit(source).path.strip("/").split("/")[:2])
    return source


@contextmanager
def _working(name: str) -> Generator[Path]:
    """The folder of a pull, held by nobody else; it goes where the pull ends well, or has nothing in it.

    Raises:
        StoreError: it cannot be written, or another pull of the name goes on.
    """
    from filelock import FileLock, Timeout

    root = store.user_directory()
    work = store.pulling(name)
    try:
        work.mkdir(parents=True, exist_ok=True)
        locks = root.parent / "pulls"  # Locks stay: deleting one might delete another pull's.
        locks.mkdir(exist_ok=True)
        lock = FileLock(locks / f"{name}.lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(f"{name} is being pulled already, by another process; wait for it, or end it") from None
    except OSError as error:
        raise StoreError(f"cannot write to {root}: {error.strerror or error}") from None
    try:
        yield work
        shutil.rmtree(work, ignore_errors=True)
    except KeyboardInterrupt:
        complain(f"stopped; what has come is kept in {work}, and another pull goes on from there")
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
            raise StoreError(f"cannot write to {root}: {error.strerror}. What has come is kept") from None
        raise
    finally:
        shutil.rmtree(work / "model", ignore_errors=True)
        if work.exists() and not any(work.iterdir()):
            work.rmdir()
        lock.release()


# ------------------------------------------------------------------------------------------------- where it comes from


def _local(source: Path, work: Path, bars: Bars, wish: Wish, name: str) -> Path:
    """The model made of a directory, or of a GGUF; the source stays as it is."""
    if (source / manifest.NAME).is_file():
        size = sum(file.bytes for file in integrity.load_manifest(source).files.values())
        _hold_disk(work, size, "copying it")
        bars.add("copying", size)
        copy = work / "model"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        bars.reach("copying", size)
        integrity.verify(copy)
        return copy
    if not store.is_checkpoint(source):
        raise Failure(
            f"{wish.source} is no checkpoint: it holds neither safetensors nor model.pt nor a GGUF with mmproj"
        )
    return _converted(source, work, bars, wish, name, None)


def _remote(repository: str, release: Release | None, work: Path, bars: Bars, wish: Wish, name: str) -> Path:
    """The model made of what a repository holds; where that is an export of ours, the export itself. Where the very
    model is here already, it is that."""
    found = hub.look(repository, wish.revision)
    origin = f"{found.name}@{found.commit}"
    if not wish.keep and _is_here(here := work.parent / name, origin, wish.precision):
        complain(f"{name} is here already, made of the same {found.name}; hearsay models remove {name} deletes it")
        return here
    paths = [entry.path for entry in found.entries]
    place = work / f"source-{found.commit[:12]}"
    for other in work.glob("source-*"):
        if other != place:  # Files of another commit are of no use.
            shutil.rmtree(other)
    if manifest.NAME in paths:
        return _export(found, place, work, bars)
    kept = store.user_directory().parent / "checkpoints" / f"{name}-{found.commit[:12]}"
    if wish.keep or kept.exists():
        place = kept
    wanted = _wanted(found, wish)
    _hold_texts(found, wanted, place)
    size = hub.lacking(found, wanted, place)
    _hold_disk(work, size + round(0.62 * sum(entry.size for entry in wanted)), "the download and the model")
    _bring(found, wanted, place, bars)
    if place == kept:
        complain(f"the download stays in {kept}")
    from export.stored import CheckpointError

    try:
        made = _converted(_entrance(place, wanted), work, bars, wish, name, release)
    except CheckpointError as error:
        said = str(error).replace(str(place), found.name)
        raise Failure(f"{said}. The download is kept; hearsay models remove {name} deletes it") from None
    manifest.write(msgspec.structs.replace(manifest.read(made), source=origin), made)
    return made


def _is_here(model: Path, origin: str, precision: Precision) -> bool:
    """Whether ``model`` was made of that commit of that repository, in the precision that is asked for, and is whole:
    another pull is how a damaged one is mended."""
    try:
        found = manifest.read(model)
        decoder = found.decoder if isinstance(found, manifest.AsrManifest) else found.talker
        if found.source != origin or precision not in ("auto", decoder.quantization):
            return False
        complain(f"checking {model.name}, which is here already")
        integrity.verify(model)
    except (manifest.ManifestError, OSError):
        return False
    return True


def _hold_texts(found: Repository, wanted: Sequence[Entry], place: Path) -> None:
    """Fetch all but the weights, and see what can be seen of it before those come.

    Raises:
        Failure: the configuration is of a model that hearsay does not run, or the tokenizer is missing, or another's.
    """
    from export.source import check_architecture
    from export.stored import CheckpointError
    from export.tokenizer import check_alone

    paths = {entry.path for entry in wanted}
    if any(path.endswith(("model.pt", ".gguf")) for path in paths):
        return
    try:
        _hold_files(found, {"config.json"}, paths)
        hub.fetch(found, [entry for entry in wanted if entry.path == "config.json"], place, _untold)
        kind = check_architecture(place)
        _hold_files(found, {"tokenizer.json"} if "tokenizer.json" in paths else {"vocab.json", "merges.txt"}, paths)
        hub.fetch(found, [entry for entry in wanted if not entry.path.endswith(".safetensors")], place, _untold)
        check_alone(place, kind)
    except (CheckpointError, Failure) as error:
        shutil.rmtree(place, ignore_errors=True)
        raise Failure(str(error).replace(str(place), found.name)) from None


def _untold(path: str, more: int) -> None:
    """Files that take a moment have no bar."""


def _hold_files(found: Repository, needed: set[str], paths: set[str]) -> None:
    """
    Raises:
        Failure: the repository lacks one of them.
    """
    if lacks := sorted(needed - paths):
        raise Failure(
            f"{found.name} is no whole checkpoint, {' and '.join(lacks)} {'is' if len(lacks) == 1 else 'are'} missing: "
            "pull an official one (hearsay models list --available)"
        )


def _export(found: Repository, place: Path, work: Path, bars: Bars) -> Path:
    """An export of ours: the manifest, the files it lists, the README and the licence."""
    first = [entry for entry in found.entries if entry.path == manifest.NAME]
    hub.fetch(found, first, place, _untold)
    listed = manifest.read(place).files
    also = ("README.md", "LICENSE*")
    wanted = [
        entry
        for entry in found.entries
        if entry.path in listed or any(fnmatch.fnmatchcase(entry.path, pattern) for pattern in also)
    ]
    _hold_disk(work, sum(entry.size for entry in wanted), "the download")
    _bring(found, wanted, place, bars)
    for path in place.rglob("*"):
        if path.is_symlink():  # The link leads into the hub's cache, which may be cleaned.
            _unlinked(path)
    try:
        integrity.verify(place)
    except manifest.ManifestError:  # Another pull would bring the same files.
        shutil.rmtree(place)
        raise
    return place


def _unlinked(path: Path) -> None:
    """Put a copy of what a link leads to in its place."""
    copy = path.with_name(path.name + hub.PART)
    shutil.copyfile(path, copy)
    copy.replace(path)


def _wanted(found: Repository, wish: Wish) -> list[Entry]:
    """The files of a repository that a conversion reads.

    Raises:
        Failure: there is nothing that hearsay reads; the message names what there is.
    """
    from export.fill import FILES

    paths = [entry.path for entry in found.entries]
    ggufs = [path for path in paths if path.endswith(".gguf")]
    if ggufs and not any(path.endswith(".safetensors") for path in paths):
        files = pair(ggufs, wish.precision)
        if files is None:
            raise Failure(f"{found.name} holds a GGUF without its mmproj, the audio encoder: hearsay needs both")
        return [entry for entry in found.entries if entry.path in files]
    if not any(path.endswith((".safetensors", "model.pt")) for path in paths):
        if any(path.endswith(".onnx") for path in paths):
            raise Failure(
                f"{found.name} is an ONNX export of another program; hearsay makes its own of the checkpoint: "
                f"hearsay models pull {(releases.near(found.name) or 'qwen3-asr-0.6b').partition(' or ')[0]}"
            )
        raise Failure(
            f"{found.name} holds nothing that hearsay reads: no model.json, safetensors, model.pt or GGUF with its "
            "mmproj"
        )
    others = {family: patterns for family, patterns in FILES.items() if family != "fun-asr-nano"}
    patterns = FILES["fun-asr-nano"] if "model.pt" in paths else [one for some in others.values() for one in some]
    return [entry for entry in found.entries if any(fnmatch.fnmatchcase(entry.path, one) for one in patterns)]


def pair(ggufs: Sequence[str], precision: Precision) -> set[str] | None:
    """A decoder and its encoder among GGUF files: of the quantisation asked for, else the best that is small."""
    encoders = [path for path in ggufs if "mmproj" in PurePosixPath(path).name.lower()]
    decoders = [path for path in ggufs if path not in encoders]
    if not encoders or not decoders:
        return None
    order = ["q8_0", "q4_k_m", "q6_k", "f16", "bf16"] if precision == "auto" else [precision]

    def rank(path: str) -> tuple[int, str]:
        lower = path.lower()
        return next((i for i, one in enumerate(order) if one in lower), len(order)), path

    return {min(decoders, key=rank), min(encoders, key=rank)}


def _entrance(place: Path, wanted: Iterable[Entry]) -> Path:
    """What the conversion is given: the directory, or the decoder of a pair."""
    decoders = [place / entry.path for entry in wanted if entry.path.endswith(".gguf")]
    return next((path for path in decoders if "mmproj" not in path.name.lower()), place)


def _bring(found: Repository, wanted: Sequence[Entry], place: Path, bars: Bars) -> None:
    part = f"downloading {found.name}"
    bars.add(part, sum(entry.size for entry in wanted))
    hub.fetch(found, wanted, place, lambda path, more: bars.advance(part, more))


# ------------------------------------------------------------------------------------------------- what is made of it


def _converted(source: Path, work: Path, bars: Bars, wish: Wish, name: str, release: Release | None) -> Path:
    """The model made of a checkpoint, in the folder of the pull."""
    from export import fill

    known = fill.released(source)
    if release is None and known is not None:
        release = releases.find(known.family) or releases.find(f"{known.family}-{known.size}")
    native = fill.native(source)
    if native is not None and wish.precision not in ("auto", native):
        raise Failure(
            f"{source} holds a decoder in {native}, and no other is made of it: --precision {native}", MISUSED
        )
    quantization: Quantization = native or _quantization(wish, release)
    precision = "fp32" if quantization == "f32" else "int8"
    estimate = fill.estimate(source, precision=precision, quantization=quantization)
    _hold_disk(work, estimate.disk, "the model")
    _hold_memory(estimate, release, quantization)
    made = work / "model"
    shutil.rmtree(made, ignore_errors=True)
    for left in fill.leftovers(made):
        shutil.rmtree(left, ignore_errors=True)
    part = f"converting to {quantization}"
    bars.add(part, estimate.disk)
    fill.convert(
        source,
        made,
        precision=precision,
        quantization=quantization,
        name=name,
        report=lambda progress: bars.reach(part, progress.done, progress.total),
    )
    return made


def _quantization(wish: Wish, release: Release | None) -> Quantization:
    """The one asked for; of ``auto`` the best that this machine keeps live, by the probe."""
    from engines import speed

    if wish.precision != "auto":
        return wish.precision
    if release is None or release.kind == "aligner":
        return TRIED[0]
    units = speed.probe(wish.threads)
    costs: dict[Quantization, float] = {one: speed.cost(release.kind, release.weights, one, units) for one in TRIED}
    for one, cost in costs.items():
        if cost <= speed.COMFORTABLE:
            complain(f"precision: {one}, about {cost:.2f} s of this machine for a second of sound (--precision)")
            return one
    fastest = min(costs, key=lambda one: costs[one])
    takes = f"about {costs[fastest]:.2f} s of this machine for a second of sound"
    live = "leaves little room for anything else" if costs[fastest] <= speed.LIVE else "is not live"
    complain(
        f"precision: {fastest}, the fastest, yet {takes}: {release.alias} {live} here, and is taken by its name only"
    )
    return fastest


def _hold_disk(work: Path, needed: int, what: str) -> None:
    """
    Raises:
        StoreError: the disk has no room for so many bytes more.
    """
    free = shutil.disk_usage(work).free
    if needed + SLACK > free:
        sizes = f"{(needed + SLACK) / 1e9:.1f} GB on the disk of {work.parent}, and {free / 1e9:.1f} GB is free"
        raise StoreError(f"{what} needs {sizes}")


def _hold_memory(estimate: "Estimate", release: Release | None, quantization: Quantization) -> None:
    """
    Raises:
        StoreError: converting would take more memory than there is.
    """
    from engines import speed

    free = memory.available()
    if free is None:
        return
    if estimate.memory > free:
        sizes = f"{estimate.memory / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB is free"
        raise StoreError(f"converting needs {sizes}: close something")
    if release is not None:
        needed = speed.resident(release.kind, release.weights, quantization)
        if needed > free:
            complain(
                f"{release.alias} takes about {needed / 1e9:.1f} GB of memory when it runs; {free / 1e9:.1f} GB is free"
            )
