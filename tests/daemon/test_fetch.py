"""Recordings fetched for a client: bounded, and never from where the operator did not allow."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from starlette.datastructures import UploadFile

from daemon.config import Settings
from daemon.fetch import fetched, public
from daemon.serve import Background
from tests.daemon.support import HTTP, Speech

Start = Callable[..., AbstractContextManager[Background]]


@pytest.fixture(scope="module")
def files(speech: Speech) -> Iterator[str]:
    """A server of recordings on loopback, which is no public address."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/speech":
                data = speech.path.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            elif self.path == "/large":
                self.send_response(200)
                self.end_headers()
                for _ in range(64):
                    self.wfile.write(bytes(1 << 16))
            elif self.path == "/crumbs":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n")
            elif self.path.startswith("/to/"):
                self.send_response(302)
                # As servers send it: whatever the address holds, in UTF-8.
                place = unquote_to_bytes(self.path.removeprefix("/to/")).decode("latin-1")
                self.send_header("Location", place)
                self.end_headers()
            elif self.path == "/gr%C3%BC%C3%9Fe":
                self.send_response(200)
                self.send_header("Content-Length", "3")
                self.end_headers()
                self.wfile.write(b"abc")
            elif self.path == "/silent":
                over.wait()
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def ask(daemon: Background, url: str) -> tuple[int, str]:
    """Status, and what was heard or why not."""
    answer = HTTP.post(f"{daemon.url}/v1/listen?model=nova-3", json={"url": url})
    if answer.status_code != 200:
        return answer.status_code, answer.json()["err_msg"]
    return 200, answer.json()["results"]["channels"][0]["alternatives"][0]["transcript"]


def test_a_recording_is_fetched_also_by_way_of_redirects(start: Start, files: str) -> None:
    """Where the operator allows private addresses."""
    with start(fetch_urls="any", idle_seconds=4, max_upload_bytes=1 << 20) as daemon:
        status, text = ask(daemon, f"{files}/speech")
        assert status == 200 and text
        assert ask(daemon, f"{files}/to//to//speech") == (200, text)
        for path, code, says in [
            ("/nothing", 400, "status 404"),
            ("/to//to//to//to//speech", 400, "redirects more than 3 times"),
            ("/to/file:///etc/passwd", 400, "must be http or https"),
            ("/large", 413, "larger than 1048576 bytes"),
            ("/silent", 400, "takes too long"),
        ]:
            status, text = ask(daemon, files + path)
            assert (status, says in text) == (code, True), (path, text)
        for url in ("ftp://127.0.0.1/a", "http:///a", "no url", "http://[::1", "http://127.0.0.1:99999/a", *_ODD_URLS):
            assert ask(daemon, url)[0] == 400, url


_ODD_URLS = (
    "http://ex\u00e4mple.invalid/a", "http://\u2603.invalid/", "http://a\u200db/", "http://xn--a.invalid/",
    f"http://{'a' * 70}.invalid/", f"http://{'ab.' * 200}invalid/", "http://.../", "http://a b/", "http://a\x00b/",
    "http://127.0.0.1:0/", "http://[::1%25x]/", "http://user:p\u00e4ss@127.0.0.1:9/", "http://127.0.0.1:9/\u2028?\u00fc#\u00fc",
    "http://127.0.0.1:9/" + "\u00fc" * 15_000,
)  # fmt: skip


def test_addresses_of_any_script_are_asked(start: Start, files: str) -> None:
    """In a path, a query, and a redirect."""
    with start(fetch_urls="any") as daemon:
        for path in ("/gr\u00fc\u00dfe", "/to//gr%C3%BC%C3%9Fe", f"/to/http:%2F%2F{files[7:]}/gr%C3%BC%C3%9Fe"):
            status, text = ask(daemon, files + path)
            assert (status, "fetched" in text or "status" in text) == (400, False), text  # it is no recording
        status, text = ask(daemon, f"{files}/to/http:%2F%2F%E2%98%83.invalid/")
        assert status == 400 and "no URL that can be fetched" in text
        status, text = ask(daemon, f"{files}/to/http:%2F%2F%FF%FE/")
        assert status == 400, text


def test_a_recording_that_the_disk_does_not_take_is_507(
    start: Start, files: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that is uploaded: the answer names no path of this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with start(fetch_urls="any") as daemon:
        status, text = ask(daemon, f"{files}/large")
        assert (status, text) == (507, "the file cannot be stored: No such file or directory")
        assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [None]


def test_private_addresses_are_not_asked(start: Start, files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number in every notation, by name, and where a public server redirects to one."""
    port = files.rpartition(":")[2]
    with start(fetch_urls="public") as daemon:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"):
            status, text = ask(daemon, f"http://{host}:{port}/speech")
            assert status == 400 and ("not public" in text or "cannot be fetched" in text), (host, text)

        # A name that resolves to a public and to a private address is not asked either.
        resolve = socket.getaddrinfo

        def two(host: str, *rest: object, **more: object) -> list[object]:
            if host != "two.example":
                return resolve(host, *rest, **more)  # type: ignore[arg-type,return-value]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, int(port))) for ip in ("8.8.8.8", "10.0.0.1")]

        monkeypatch.setattr(socket, "getaddrinfo", two)
        assert "not public" in ask(daemon, f"http://two.example:{port}/speech")[1]


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("192.168.1.1", False), ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False),
        ("224.0.0.1", False), ("::1", False), ("fe80::1", False), ("fc00::1", False), ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True), ("2002:7f00:1::", False), ("64:ff9b::a9fe:a9fe", False), ("64:ff9b::808:808", True),
        ("64:ff9b:1::7f00:1", False), ("64:ff9b:1::808:808", False), ("::ffff:0:127.0.0.1", False),
        ("::ffff:0:808:808", False), ("::127.0.0.1", False), ("::808:808", False), ("fec0::1", False),
        ("2001:0:808:808::f7f7:f7f7", False), ("2001:db8::1", False), ("100::1", False), ("5f00::1", False),
        ("4000::1", False), ("::", False), ("ff0e::1", False), ("192.0.0.8", False), ("192.88.99.1", False),
        ("240.0.0.1", False), ("255.255.255.255", False), ("198.18.0.1", False), ("2001:4860:4860::8888", True),
    ],
)  # fmt: skip
def test_what_counts_as_public(address: str, is_public: bool) -> None:
    assert public(address) is is_public


def test_a_body_in_crumbs_holds_nobody_up(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty thousand chunks of a byte each: others have their turn every few hundred of them."""
    turns, taken, most = 0, 0, 0
    write = UploadFile.write

    async def counted(self: UploadFile, data: bytes) -> None:
        nonlocal taken, most
        taken += 1
        most = max(most, taken)
        await write(self, data)

    async def ticking() -> None:
        nonlocal turns, taken
        while True:
            turns, taken = turns + 1, 0
            await asyncio.sleep(0)

    async def fetch() -> None:
        ticks = asyncio.create_task(ticking())
        file = await fetched(f"{files}/crumbs", Settings(fetch_urls="any"))
        ticks.cancel()
        assert file.size == 50_000
        await file.close()

    monkeypatch.setattr(UploadFile, "write", counted)
    asyncio.run(fetch())
    assert turns > 50 and most < 1000
