"""Models on disk: where they lie, how they come and go (whether they are whole: engines/integrity.py).

A model is a directory with a ``model.json`` (``engines.manifest``). It is asked for by directory or by name; a name is
the directory's own. Names are looked up, in this order, in

1. ``HEARSAY_MODELS``, a search path (``os.pathsep`` between its entries; an entry holds model directories, or is one),
2. the user's data directory: ``$XDG_DATA_HOME/hearsay/models`` (Linux, ``~/.local/share`` by default),
   ``~/Library/Application Support/hearsay/models`` (macOS), ``%LOCALAPPDATA%\\hearsay\\models`` (Windows),
3. the models that ship with hearsay.

``pull`` and ``remove`` write to the user's data directory and nowhere else.
"""

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engines.integrity import verify
from engines.manifest import NAME, member, read

SEARCH_PATH = "HEARSAY_MODELS"
BUNDLED = Path(__file__).resolve().parent.parent / "models"
DEFAULTS = {"asr": "pocket-asr-en", "tts": "pocket-tts-en"}

_REPLACED = ".replaced-"
"""Before the name of a model that is making room for a newer one. It is found as long as that has not come."""
_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Origin = Literal["search path", "user", "bundled"]


class ModelNotFound(LookupError):
    """No model of that name or at that place; the message says where it was looked for."""


class StoreError(RuntimeError):
    """A model could not be fetched or removed; the message says why."""


class IllegalName(StoreError):
    """A name that no model can have."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model directory that was found."""

    name: str
    path: Path
    origin: Origin


def user_directory() -> Path:
    """The user's own models directory by the platform's convention; it need not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "hearsay" / "models"


def available() -> list[Model]:
    """Every model that a name reaches, each name once (the first place wins), sorted by name."""
    found: dict[str, Model] = {}
    for root, origin in _roots():
        for name, path in _models_in(root).items():
            found.setdefault(name, Model(name, path, origin))
    return sorted(found.values(), key=lambda model: model.name)


def find(name_or_directory: str | Path) -> Path:
    """The directory of a model.

    Args:
        name_or_directory: a name, or a path: what contains a separator or starts with ``~`` or ``.`` is a path.

    Raises:
        ModelNotFound: nothing there.
    """
    text = str(name_or_directory)
    if isinstance(name_or_directory, Path) or _is_path(text):
        path = Path(text).expanduser()
        if not (path / NAME).is_file():
            reason = f"it holds no {NAME}" if path.is_dir() else "there is no such directory"
            raise ModelNotFound(f"{text} is not a model directory: {reason}")
        return path
    models = available()
    for model in models:
        if model.name == text:
            return model.path
    if (Path(text) / NAME).is_file():
        return Path(text)
    names = ", ".join(model.name for model in models) or "none"
    raise ModelNotFound(f"no model named {text!r}; found: {names} (in {SEARCH_PATH}, {user_directory()}, bundled)")


def default(kind: str = "asr") -> str:
    """The name of the model of that kind (asr, tts) which is used when none is named."""
    return DEFAULTS[kind]


def pull(repository: str, name: str | None = None, *, revision: str | None = None) -> Path:
    """Fetch a model from the Hugging Face hub into the user's data directory.

    Only ``model.json``, the files it lists and the repository's README and licence are fetched, into a directory beside
    the final one; it takes the model's name when every checksum holds. A model of that name there is replaced (of a
    link, the link): whenever a pull ends, however it ends, the name leads to the one or to the other.

    Args:
        repository: ``owner/name`` on the hub.
        name: the model's name here; the repository's own without it.
        revision: branch, tag or commit; the default branch without it.

    Raises:
        StoreError: an illegal name, or the hub has no such thing, or cannot be reached, or the disk takes none.
        ManifestError: what came is not a whole model.
    """
    name = legal_name(name if name is not None else repository.rsplit("/", 1)[-1])
    from huggingface_hub import hf_hub_download, logging, snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HFValidationError

    logging.set_verbosity_error()  # not a line for each time it tries again
    root = user_directory()
    try:
        root.mkdir(parents=True, exist_ok=True)
        # On the same file system as the final place, so that the rename at the end is atomic.
        staging = Path(tempfile.mkdtemp(prefix=".pull-", dir=root))
    except OSError as error:
        raise StoreError(f"cannot write to {root}: {error.strerror}") from error
    try:
        try:
            hf_hub_download(repository, NAME, revision=revision, local_dir=staging)
            manifest = read(staging)
            wanted = [member(staging, file).relative_to(staging).as_posix() for file in manifest.files]
            patterns = [NAME, "README.md", "LICENSE*", *(_literal(file) for file in wanted)]
            snapshot_download(repository, revision=revision, local_dir=staging, allow_patterns=patterns)
        except (OSError, HFValidationError) as error:
            # The hub's own errors are OSErrors; their first line says what happened, the rest is advice for its users.
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            kind = IllegalName if isinstance(error, HFValidationError) else StoreError
            raise kind(f"cannot pull {repository}: {first}") from error
        shutil.rmtree(staging / ".cache", ignore_errors=True)
        verify(staging)
        staging.chmod(0o755)
        _put(staging, root / name)
        return root / name
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _put(staging: Path, target: Path) -> None:
    """Give a model its name, whatever bears it now."""
    old = target.with_name(_REPLACED + target.name)
    try:
        if os.path.lexists(target):
            _delete(old)
            target.rename(old)
        staging.rename(target)
    except OSError as error:
        raise StoreError(f"cannot replace {target}: {error.strerror}") from error
    with contextlib.suppress(OSError):  # files in use, on Windows; the next pull tries again
        _delete(old)


def _delete(path: Path) -> None:
    """Delete a model, if there is one; of a link, the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def remove(name: str) -> Path:
    """Delete a model from the user's data directory and return where it was.

    Raises:
        ModelNotFound: no model of that name in the user's directory.
        StoreError: the name belongs to a model elsewhere (search path, bundled), which is never deleted here.
    """
    path = user_directory() / legal_name(name)
    old = path.with_name(_REPLACED + name)
    if (path / NAME).is_file() or (old / NAME).is_file():
        _delete(path)
        _delete(old)
        return path
    for model in available():
        if model.name == name:
            raise StoreError(f"{name} is not removed: it comes from the {model.origin} models ({model.path})")
    raise ModelNotFound(f"no model named {name!r} in {user_directory()}")


def legal_name(name: str) -> str:
    """``name``, if it can be a model's: letters, digits, ``.``, ``_`` and ``-``, the first a letter or digit.

    Raises:
        IllegalName: otherwise.
    """
    if not _LEGAL_NAME.fullmatch(name):
        raise IllegalName(f"model name {name!r}: letters, digits, '.', '_' and '-' only, a letter or digit first")
    return name


def _roots() -> Iterator[tuple[Path, Origin]]:
    for entry in os.environ.get(SEARCH_PATH, "").split(os.pathsep):
        if entry.strip():
            yield Path(entry.strip()).expanduser(), "search path"
    yield user_directory(), "user"
    yield BUNDLED, "bundled"


def _models_in(root: Path) -> dict[str, Path]:
    """By name."""
    if (root / NAME).is_file():
        path = Path(os.path.abspath(root))
        return {path.name: path}
    try:
        paths = sorted(path for path in root.iterdir() if (path / NAME).is_file())
    except OSError:  # absent or unreadable: the other places still count
        return {}
    # What is being replaced sorts before what replaces it, which takes its name.
    named = {path.name.removeprefix(_REPLACED): path for path in paths}
    return {name: path for name, path in named.items() if not name.startswith(".")}


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith(("~", ".")) or Path(text).is_absolute() or text == ""


def _literal(file: str) -> str:
    """A pattern of fnmatch that matches this file only."""
    return re.sub(r"([*?[])", r"[\1]", file)
