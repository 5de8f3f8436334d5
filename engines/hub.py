"""Fetching files of a repository on the Hugging Face hub, so that a broken download goes on where it stopped.

``huggingface_hub`` lists a repository, tells the addresses of its files, authenticates, and knows its cache. This
module downloads the bytes itself, since that library begins a file anew after every break. What has arrived lies in a
file that ends in ``.part``, to which a later call appends. ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME`` and
``HF_HUB_OFFLINE`` mean what they mean to ``huggingface_hub``.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from engines import releases
from engines.integrity import sha256
from engines.manifest import member
from engines.store import IllegalName, StoreError

PART: Final = ".part"
"""The suffix of a file that has not arrived whole."""

MOST_FILES: Final = 10_000
"""Files that a repository may list; a page of the hub's listing has 1000."""

Told = Callable[[str, int], None]
"""A function that is told a file's name and how many more of its bytes have arrived."""

_BLOCK: Final = 1 << 18
"""How many bytes are written at a time: 256 KiB, so that progress moves smoothly."""
_TRIES: Final = 6
"""How many attempts in a row may bring nothing before a download is given up. With the waits between them that is a
quarter of a minute: longer than a network hiccup lasts, and a new pull goes on from there anyway."""
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""The HTTP statuses of an overloaded hub, after which another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a repository: its path with ``/``, its size in bytes, and its SHA-256 if the hub tells it."""

    path: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit, with the files it holds."""

    name: str
    commit: str
    entries: tuple[Entry, ...]


def look(name: str, revision: str | None = None) -> Repository:
    """List the repository ``owner/name``. If the hub cannot be reached, the list is that of its cache on this machine.

    Raises:
        IllegalName: no repository can have that name.
        StoreError: there is no such repository, it is closed to this user, or the hub does not answer.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HFValidationError

    api = HfApi()
    try:
        commit = api.repo_info(name, revision=revision).sha or revision or "main"
        listed = _listed(api.list_repo_tree(name, recursive=True, revision=commit), name)
    except HFValidationError:
        raise IllegalName(
            f"cannot pull {name}: a repository is called OWNER/NAME, of letters, digits, '.', '_' and '-'"
        ) from None
    except (OSError, httpx2.HTTPError) as error:
        held = _held(name, revision) if _unanswered(error) else None
        if held is None:
            raise StoreError(f"cannot pull {name}: {_why(error, name)}") from None
        return held
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"cannot pull {name}: what answers at {constants.ENDPOINT} is no Hugging Face hub, or a page before it "
            f"asks for a login ({_first_line(error)})"
        ) from error
    return Repository(name, commit, tuple(listed))


def _listed(files: Iterable[Any], name: str) -> list[Entry]:
    """The files of a listing.

    Raises:
        StoreError: there are more than a model has.
        ValueError: the size of one is no size.
    """
    from huggingface_hub.hf_api import RepoFile

    found: list[Entry] = []
    for one in files:
        if not isinstance(one, RepoFile):
            continue
        if type(one.size) is not int or one.size < 0:
            raise ValueError(f"{one.path[:80]!r} is listed with the size {one.size!r}")
        if not all(
            part.isprintable() and part not in ("", ".", "..") and len(part) < 200 for part in one.path.split("/")
        ):
            raise StoreError(f"cannot pull {name}: it lists {one.path[:80]!r}, which is no name of a file")
        if len(found) == MOST_FILES:
            raise StoreError(f"cannot pull {name}: it lists more than {MOST_FILES} files, so it is no model")
        found.append(Entry(one.path, one.size, None if one.lfs is None else one.lfs.sha256))
    return found


def cached(repository: Repository, entry: Entry) -> Path | None:
    """The path of the file in the hub's own cache on this machine, or None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository.name, entry.path, revision=repository.commit)
    path = Path(found) if isinstance(found, str) else None
    return path if path is not None and path.is_file() and path.stat().st_size == entry.size else None


def lacking(repository: Repository, wanted: Sequence[Entry], place: Path) -> int:
    """How many bytes of ``wanted`` are still to be downloaded."""
    return sum(
        entry.size - _arrived(place / entry.path, entry)
        for entry in wanted
        if cached(repository, entry) is None or _whole(place / entry.path, entry)
    )


def fetch(repository: Repository, wanted: Sequence[Entry], place: Path, told: Told) -> None:
    """Bring ``wanted`` into the directory ``place``: links to files in the hub's cache, downloads of the rest.

    Raises:
        StoreError: the hub refuses, the connection keeps breaking, a file arrives damaged, or the disk is full. What
            has arrived stays, and the next call goes on from there.
    """
    with _client() as client:
        for entry in wanted:
            target = member(place, entry.path)
            if _whole(target, entry):
                told(entry.path, entry.size)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if (source := cached(repository, entry)) is not None:
                _link(source, target)
                told(entry.path, entry.size)
                continue
            try:
                _fetch(client, repository, entry, target, told)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    lacks = entry.size - _arrived(target, entry)
                    reason = f"the disk is full, and {entry.path} lacks {lacks / 1e6:.0f} MB"
                else:
                    reason = error.strerror or str(error)
                raise StoreError(
                    f"cannot write to {place}: {reason}. What has come is kept; pull again to go on from there"
                ) from None


def _client() -> Any:
    from huggingface_hub.utils import build_hf_headers  # pyright: ignore[reportUnknownVariableType]

    headers: dict[str, str] = {**build_hf_headers(), "accept-encoding": "identity"}
    return httpx2.Client(headers=headers, follow_redirects=True, timeout=httpx2.Timeout(30.0, connect=15.0))


def _fetch(client: Any, repository: Repository, entry: Entry, target: Path, told: Told) -> None:
    from huggingface_hub import constants, hf_hub_url

    url = hf_hub_url(repository.name, entry.path, revision=repository.commit, endpoint=constants.ENDPOINT)
    part = target.with_name(target.name + PART)
    have = _arrived(target, entry)
    told(entry.path, have)
    tries = 0
    while have < entry.size or not part.exists():
        try:
            before = have
            have = _more(client, url, part, have, entry, repository.name, told)
            tries = 0 if have > before else tries + 1
        except (
            httpx2.TooManyRedirects,
            httpx2.UnsupportedProtocol,
            httpx2.DecodingError,
            httpx2.InvalidURL,
        ) as error:
            raise StoreError(
                f"cannot pull {repository.name}: the hub leads nowhere for {entry.path} ({_first_line(error)})"
            ) from None
        except httpx2.TransportError as error:
            before, have = have, _arrived(target, entry)
            tries = 0 if have > before else tries + 1
            if tries >= _TRIES:
                told_by = str(error) or type(error).__name__
                raise StoreError(
                    f"cannot pull {repository.name}: the connection broke after {have / 1e6:.0f} of "
                    f"{entry.size / 1e6:.0f} MB of {entry.path} ({told_by}). Pull again to go on from there"
                ) from None
        if tries:
            if tries >= _TRIES:
                raise StoreError(
                    f"cannot pull {repository.name}: the hub has no time for {entry.path}, or sends less of it than "
                    f"the {entry.size} bytes that it lists; try again later"
                )
            time.sleep(min(0.25 * 2**tries, 8.0))
    if entry.sha256 is not None and sha256(part) != entry.sha256:
        part.unlink()
        raise StoreError(f"cannot pull {repository.name}: {entry.path} came damaged (its SHA-256 differs); pull again")
    os.replace(part, target)


def _more(client: Any, url: str, part: Path, have: int, entry: Entry, name: str, told: Told) -> int:
    """Ask the hub once for the rest of a file and append what comes to ``part``, which has ``have`` bytes. Returns how
    many bytes it has then.

    Raises:
        StoreError: the hub refuses.
        httpx2.TransportError: the connection broke; what came is in ``part``.
    """
    with client.stream("GET", url, headers={"range": f"bytes={have}-"} if have else {}) as response:
        status: int = response.status_code
        if status in _PASSING:
            return have
        if status not in (200, 206):
            raise StoreError(f"cannot pull {name}: {_status(status, name, entry.path, response.headers)}")
        if have and status == 200:  # The server ignores ranges and sends the file from its beginning.
            told(entry.path, -have)
            have = 0
        with part.open("ab" if have else "wb") as file:
            for block in response.iter_bytes(_BLOCK):
                block = block[: entry.size - have]
                file.write(block)
                have += len(block)
                told(entry.path, len(block))
                if have >= entry.size:  # A hub may go on sending for ever.
                    break
    return have


def _whole(target: Path, entry: Entry) -> bool:
    return target.is_file() and target.stat().st_size == entry.size


def _arrived(target: Path, entry: Entry) -> int:
    """How many bytes of the file have arrived. A part that is longer than the file cannot belong to it and is
    deleted."""
    if _whole(target, entry):
        return entry.size
    part = target.with_name(target.name + PART)
    try:
        size = part.stat().st_size
    except OSError:
        return 0
    if size > entry.size:
        part.unlink()
        return 0
    return size


def _link(source: Path, target: Path) -> None:
    try:
        target.unlink(missing_ok=True)
        target.symlink_to(source.resolve())
    except OSError:  # Windows lets only few users make links.
        shutil.copyfile(source, target)


def _held(name: str, revision: str | None) -> Repository | None:
    """The repository as it lies in the hub's cache on this machine, or None."""
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]

    try:
        place = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (OSError, ValueError):
        return None
    files = (path for path in sorted(place.rglob("*")) if path.is_file())
    entries = tuple(Entry(path.relative_to(place).as_posix(), path.stat().st_size) for path in files)
    return Repository(name, place.name, entries)


def _unanswered(error: Exception) -> bool:
    """Whether the hub did not answer the question, so that its cache may be asked instead."""
    from huggingface_hub.errors import HfHubHTTPError

    return not isinstance(error, HfHubHTTPError) or _code(error) in _PASSING


def _why(error: Exception, name: str) -> str:
    """A sentence for the user on what went wrong and what to do."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"HF_HUB_OFFLINE is set, and the hub's cache ({constants.HF_HUB_CACHE}) has it not; unset it to go on"
    if isinstance(error, errors.GatedRepoError):
        return _closed(name)
    if isinstance(error, errors.RepositoryNotFoundError):
        near = releases.near(name)
        return f"the hub has no repository of that name that you may see{f'; did you mean {near}?' if near else ''}"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the repository has no such revision"
    if isinstance(error, errors.HfHubHTTPError):
        return f"the hub answers {_code(error)}: {_first_line(error)}"
    return f"{constants.ENDPOINT} does not answer ({_first_line(error)}); is there a network?"


def _status(status: int, name: str, path: str, headers: Any) -> str:
    if status in (401, 403):
        return _closed(name)
    if status == 404:
        return f"the hub has no {path}"
    return f"the hub answers {status} for {path} {headers.get('x-error-message', '')}".strip()


def _closed(name: str) -> str:
    from huggingface_hub import constants

    return (
        f"its owner asks for an account: accept the licence at {constants.ENDPOINT}/{name}, then hf auth login "
        "(or HF_TOKEN)"
    )


def _code(error: Any) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
