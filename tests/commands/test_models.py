"""Models come, are looked at, and go: the real command, the real hub client, a hub on this machine."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands.conftest import Run

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The part of the Hugging Face hub's protocol that fetching one repository needs, over a directory."""

    def __init__(self, repository: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repository, self.folder = repository, folder
        self.fetched: list[str] = []
        self.busy = 0
        """How many requests for a file's size it has no time for yet."""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_GET(self) -> None:
        """A file, or what the repository holds."""
        path = self.path.partition("?")[0]
        if path.startswith(f"/api/models/{self.server.repository}"):
            if "/tree/" in path:
                self._json([
                    {"type": "file", "path": name, "size": size, "oid": "0" * 40} for name, size in self._files()
                ])  # fmt: skip
            else:
                siblings = [{"rfilename": name} for name, _ in self._files()]
                self._json({"id": self.server.repository, "sha": COMMIT, "siblings": siblings, "private": False})
        else:
            self._file(path, body=True)

    def do_HEAD(self) -> None:
        """A file's size, tag and commit."""
        if self.server.busy:
            self.server.busy -= 1
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._file(self.path.partition("?")[0], body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _files(self) -> list[tuple[str, int]]:
        folder = self.server.folder
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]

    def _json(self, data: object) -> None:
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _file(self, path: str, *, body: bool) -> None:
        start = f"/{self.server.repository}/resolve/"
        name = path.removeprefix(start).partition("/")[2]
        file = self.server.folder / name
        if not path.startswith(start) or not name or not file.is_file():
            missing = "EntryNotFound" if path.startswith(start) else "RepoNotFound"
            self.send_response(404)
            self.send_header("X-Error-Code", missing)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = file.read_bytes()
        if body:
            self.server.fetched.append(name)
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub(asr_directory: Path, tmp_path: Path) -> Iterator[Hub]:
    """A hub with one repository: the embedded model, a README, and a file that nobody asked for."""
    folder = tmp_path / "repository"
    shutil.copytree(asr_directory, folder)
    (folder / "README.md").write_text("a card\n")
    (folder / "pytorch_model.bin").write_bytes(bytes(1000))
    server = Hub("someone/tiny-asr", folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_pull_verify_use_and_remove(hearsay: Run, process: Run, hub: Hub, tmp_path: Path):
    """Fetched, checked, found by name, and gone again; what the manifest does not list stays on the hub."""
    place = tmp_path / "share" / "hearsay" / "models" / "mine"
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", "someone/tiny-asr", "--name", "mine", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(place)
    assert (place / "README.md").is_file() and not (place / "pytorch_model.bin").exists()
    assert "pytorch_model.bin" not in hub.fetched
    assert [path.name for path in place.parent.iterdir()] == ["mine"]
    assert hearsay("models", "path", "mine").stdout.strip() == str(place)
    verified = hearsay("models", "verify", "mine")
    assert verified.returncode == 0 and "all as the manifest says" in verified.stdout
    listed = [json.loads(line) for line in hearsay("models", "list", "--json").stdout.splitlines()]
    mine = next(entry for entry in listed if entry["name"] == "mine")
    assert mine["origin"] == "user" and mine["bytes"] > 1_000_000 and not mine["default"]
    assert hearsay("models", "remove", "mine").returncode == 0
    assert not place.exists()
    assert hearsay("models", "path", "mine").returncode == 2


def test_a_hub_that_is_busy_is_asked_again_in_silence(process: Run, hub: Hub, tmp_path: Path):
    hub.busy = 2
    done = process("models", "pull", "someone/tiny-asr", HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path / "cache"))
    assert (done.returncode, hub.busy) == (0, 0)
    assert "503" not in done.stderr and "Retrying" not in done.stderr


def test_a_link_is_replaced_by_what_is_pulled(process: Run, hub: Hub, tmp_path: Path):
    """Somebody linked a model of their own into the place; it stays where it is."""
    own, place = tmp_path / "own", tmp_path / "share" / "hearsay" / "models" / "tiny-asr"
    shutil.copytree(hub.folder, own)
    place.parent.mkdir(parents=True)
    place.symlink_to(own)
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", "someone/tiny-asr", **environment)
    assert done.returncode == 0, done.stderr
    assert not place.is_symlink() and (own / "model.json").is_file()
    assert [path.name for path in place.parent.iterdir()] == ["tiny-asr"]


def test_a_damaged_download_is_not_kept(process: Run, hub: Hub, tmp_path: Path):
    """One byte of the decoder differs on the hub: an error naming the file, and nothing left behind."""
    decoder = next(hub.folder.glob("*.gguf"))
    content = bytearray(decoder.read_bytes())
    content[-1] ^= 1
    decoder.write_bytes(content)
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", "someone/tiny-asr", **environment)
    assert done.returncode == 1
    assert decoder.name in done.stderr and "SHA-256" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "share" / "hearsay" / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["someone/none"], 1, "cannot pull someone/none"),
        (["someone/tiny-asr", "--name", "../out"], 2, "model name"),
        (["not a repository"], 2, "model name"),
        (["someone/else/tiny-asr"], 2, "cannot pull someone/else/tiny-asr"),
    ],
)
def test_what_cannot_be_pulled_is_said(
    process: Run, hub: Hub, tmp_path: Path, arguments: list[str], code: int, reason: str
):
    """No such repository, an illegal name: one line."""
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", *arguments, **environment)
    assert done.returncode == code
    assert reason in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_repository_without_a_manifest_is_no_model(process: Run, hub: Hub, tmp_path: Path):
    """A checkpoint is not an exported model."""
    (hub.folder / "model.json").unlink()
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
    done = process("models", "pull", "someone/tiny-asr", **environment)
    assert done.returncode == 1 and "cannot pull someone/tiny-asr" in done.stderr and "Traceback" not in done.stderr


def test_the_default_is_listed_and_verifies(hearsay: Run, asr_directory: Path):
    """The embedded model is found, marked as the default, and whole; it is never removed."""
    lines = hearsay("models", "list").stdout.splitlines()
    assert sum(line.startswith("* pocket-asr-en ") for line in lines) == 1
    assert hearsay("models", "verify", "pocket-asr-en").returncode == 0
    removed = hearsay("models", "remove", "pocket-asr-en")
    assert removed.returncode == 1 and "is not removed" in removed.stderr
    assert (asr_directory / "model.json").is_file()


def test_a_broken_model_is_told_and_the_others_listed(hearsay: Run, asr_directory: Path, tmp_path: Path):
    """A manifest that cannot be read: a line on stderr, exit 1, the rest on stdout."""
    broken = tmp_path / "search" / "broken"
    broken.mkdir(parents=True)
    (broken / "model.json").write_text("{}")
    shutil.copytree(asr_directory, tmp_path / "search" / "whole")
    done = hearsay("models", "list", HEARSAY_MODELS=str(tmp_path / "search"))
    assert done.returncode == 1
    assert "broken" in done.stderr and " whole " in done.stdout and "search/broken" not in done.stdout
