"""The part of the Hugging Face hub's protocol that pulling needs, over directories, with what goes wrong on the way."""

import hashlib
import json
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves ``root/owner/name``."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.sent: Counter[str] = Counter()
        """Bytes of each file that went out."""
        self.busy = 0
        """Requests for files that it has no time for yet."""
        self.gated = False
        self.breaks: list[int] = []
        """After so many bytes of a file's body the connection breaks, each once."""
        self.down = False
        """Whether every connection breaks."""
        self.rate: float | None = None
        """Bytes a second."""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_GET(self) -> None:
        """A file, or what a repository holds."""
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            self._list("/".join(parts[2:4]), tree="tree" in parts)
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._file("/".join(parts[:2]), "/".join(parts[4:]))
        else:
            self._refuse(404, "EntryNotFound")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _list(self, repository: str, *, tree: bool) -> None:
        folder = self.server.root / repository
        if not folder.is_dir():
            self._refuse(404, "RepoNotFound")
            return
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        if tree:
            entries = []
            for path in files:
                entry = {"type": "file", "path": path.relative_to(folder).as_posix(), "size": path.stat().st_size}
                if entry["size"] > 10_000:
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    entry["lfs"] = {"oid": digest, "size": entry["size"], "pointerSize": 130}
                entries.append({**entry, "oid": "0" * 40})
            self._json(entries)
        else:
            siblings = [{"rfilename": path.relative_to(folder).as_posix()} for path in files]
            self._json({"id": repository, "sha": COMMIT, "siblings": siblings, "private": False})

    def _json(self, data: object) -> None:
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, repository: str, name: str) -> None:
        server = self.server
        if server.down:
            self.close_connection = True
            self.connection.close()
            return
        file = server.root / repository / name
        if server.busy:
            server.busy -= 1
            self._refuse(503, "Busy")
            return
        if server.gated:
            self._refuse(403, "GatedRepo")
            return
        if not file.is_file():
            self._refuse(404, "EntryNotFound")
            return
        size, start = file.stat().st_size, 0
        server.sent[name] += 0
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes="):
            start = int(asked[6:].partition("-")[0])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        limit = server.breaks.pop(0) if server.breaks and size > 100_000 else None
        with file.open("rb") as source:
            source.seek(start)
            given = 0
            while block := source.read(1 << 14):
                if server.down or (limit is not None and given + len(block) > limit):
                    self.close_connection = True
                    self.connection.close()
                    return
                try:
                    self.wfile.write(block)
                except OSError:  # whoever pulled was interrupted
                    self.close_connection = True
                    return
                given += len(block)
                server.sent[name] += len(block)
                if (rate := server.rate) is not None:  # a test may lift it at any moment
                    time.sleep(len(block) / rate)


@contextmanager
def running(root: Path) -> Iterator[Hub]:
    """A hub over ``root``, for as long as the block lasts."""
    server = Hub(root)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
