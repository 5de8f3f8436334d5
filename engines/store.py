"""Models on disk: where they lie, and how they are put into place and removed. Whether they are whole is checked by
engines/integrity.py.

A model is a directory with a ``model.json`` (``engines.manifest``). It is asked for by directory or by name, which is
the directory's own name. Names are looked up, in this order, in

1. ``HEARSAY_MODELS``, a search path (``os.pathsep`` between its entries; an entry holds model directories, or is one),
2. the user's data directory: ``$XDG_DATA_HOME/hearsay/models`` (Linux, ``~/.local/share`` by default),
   ``~/Library/Application Support/hearsay/models`` (macOS), ``%LOCALAPPDATA%\\hearsay\\models`` (Windows),
3. the models that ship with hearsay.

``hearsay models pull`` and ``remove`` write to the user's data directory and nowhere else.
"""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engines import releases
from engines.manifest import NAME

SEARCH_PATH = "HEARSAY_MODELS"
BUNDLED = Path(__file__).resolve().parent.parent / "models"
DEFAULTS = {"asr": "pocket-asr-en", "tts": "pocket-tts-en"}

_REPLACED = ".replaced-"
"""The prefix of the name of a model that is being replaced. It is still found by its name until the new one is in
place."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Origin = Literal["search path", "user", "bundled"]


class ModelNotFound(LookupError):
    """There is no model of that name or at that path; the message says where it was looked for."""


class StoreError(RuntimeError):
    """A model could not be fetched, put into place or removed; the message says why."""


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
    """Every model that can be asked for by name, sorted by name. If two places have the same name, the first counts."""
    found: dict[str, Model] = {}
    for root, origin in _roots():
        for name, path in _models_in(root).items():
            found.setdefault(name, Model(name, path, origin))
    return sorted(found.values(), key=lambda model: model.name)


def find(name_or_directory: str | Path) -> Path:
    """The directory of a model.

    Args:
        name_or_directory: the name of a model, of a known release or of its repository; or a path, which contains a
            separator or starts with ``~`` or ``.``.

    Raises:
        ModelNotFound: there is no such model; the message says how to get it.
    """
    text = str(name_or_directory)
    models = available()
    release = None if isinstance(name_or_directory, Path) else releases.find(text)
    names = {text} if release is None else {text, release.alias}
    for model in models:
        if model.name in names:
            return model.path
    path = Path(text).expanduser()
    if (path / NAME).is_file():
        return path
    if release is not None and not path.exists():
        download = f"{release.bytes / 1e9:.1f} GB to download"
        raise ModelNotFound(
            f"{text} is not on this machine: hearsay models pull {release.alias} brings it ({download})"
        )
    if isinstance(name_or_directory, Path) or _is_path(text) or is_checkpoint(path):
        raise ModelNotFound(_no_model(text, path))
    near = releases.near(text, tuple(model.name for model in models))
    found = ", ".join(model.name for model in models) or "none"
    raise ModelNotFound(
        f"no model named {text!r}{f' (did you mean {near}?)' if near else ''}; found: {found} (in {SEARCH_PATH}, "
        f"{user_directory()}, bundled); hearsay models list --available tells what can be pulled"
    )


def default(kind: str = "asr") -> str:
    """The name of the small model of that kind, asr or tts, that ships with hearsay."""
    return DEFAULTS[kind]


def _no_model(text: str, path: Path) -> str:
    """Why ``path`` is no model directory, and what would make it one."""
    if is_checkpoint(path):
        return f"{text} is a checkpoint, not yet a model: hearsay models pull {text} converts it"
    if path.is_dir():
        return f"{text} is not a model directory: it holds no {NAME}"
    if path.is_file():
        return f"{text} is a file, not a model directory"
    if _REPOSITORY.fullmatch(text):
        return f"{text} is no directory here; if it is a repository, hearsay models pull {text} brings it"
    return f"{text} is not a model directory: there is no such directory"


def is_checkpoint(path: Path) -> bool:
    """Whether ``path`` looks like what ``hearsay models pull`` converts: a checkpoint's directory, or a GGUF."""
    if path.is_file():
        return path.suffix == ".gguf"
    weights = ("*.safetensors", "*.safetensors.index.json", "model.pt", "mmproj*.gguf")
    return path.is_dir() and any(next(path.glob(pattern), None) for pattern in weights)


def pulling(name: str) -> Path:
    """The directory in which a pull of that name works. What is in it after a failure, the next pull goes on with."""
    return user_directory() / f".pull-{name}"


def put(staging: Path, target: Path) -> None:
    """Move a complete model to ``target``, and delete a model that is there. Even if the process ends in between, the
    name leads to the old model or to the new one. A link at ``target`` is replaced, not the directory it leads to.

    Raises:
        StoreError: the directory cannot be written.
    """
    old = target.with_name(_REPLACED + target.name)
    try:
        if os.path.lexists(target):
            _delete(old)
            target.rename(old)
        staging.rename(target)
    except OSError as error:
        raise StoreError(f"cannot replace {target}: {error.strerror}") from error
    with contextlib.suppress(OSError):  # On Windows files may be in use; the next pull tries again.
        _delete(old)


def _delete(path: Path) -> None:
    """Delete a model directory if there is one, or a link, but not what it leads to."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def remove(name: str) -> Path:
    """Delete a model from the user's data directory, and what an unfinished pull of that name left there. Returns where
    the model was.

    Raises:
        ModelNotFound: there is no model of that name in the user's directory.
        StoreError: the model of that name lies in the search path or is bundled, and is not deleted.
    """
    path = user_directory() / legal_name(name)
    release = releases.find(name)
    if release is not None and not (path / NAME).is_file():  # A pull takes a release's other names too.
        name, path = release.alias, path.with_name(release.alias)
    old = path.with_name(_REPLACED + name)
    begun = pulling(name)
    if (path / NAME).is_file() or (old / NAME).is_file() or begun.exists():
        for one in (path, old, begun):
            _delete(one)
        return path
    for model in available():
        if model.name == name:
            raise StoreError(f"{name} is not removed: it comes from the {model.origin} models ({model.path})")
    raise ModelNotFound(f"no model named {name!r} in {user_directory()}")


def legal_name(name: str) -> str:
    """Return ``name`` if a model can have it: it has letters, digits, ``.``, ``_`` and ``-``, and begins with a letter
    or digit.

    Raises:
        IllegalName: it has other characters.
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
    """The models in ``root``, or ``root`` itself if it is one, by name."""
    if (root / NAME).is_file():
        path = Path(os.path.abspath(root))
        return {path.name: path}
    try:
        paths = sorted(path for path in root.iterdir() if (path / NAME).is_file())
    except OSError:  # The directory is absent or unreadable; models elsewhere are still found.
        return {}
    # A model that is being replaced sorts before the one that replaces it, which thus takes the name.
    named = {path.name.removeprefix(_REPLACED): path for path in paths}
    return {name: path for name, path in named.items() if not name.startswith(".")}


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith(("~", ".")) or Path(text).is_absolute() or text == ""
