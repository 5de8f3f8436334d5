"""``GET /`` and ``GET /page/{id}``: the files of the web page, as they lie beside this module.

They hold nothing that is not public, so they ask for no key: the page has a field for it. A Content-Security-Policy
keeps it to this daemon: nothing inline, nothing from elsewhere, in nobody's frame.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from daemon.hub import Hub
from daemon.refusal import Refused

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media types of the files. The machine's own table says on some machines that JavaScript is plain text."""

HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def _read() -> dict[str, tuple[bytes, dict[str, str]]]:
    """The bytes and headers of each file by its name. They are read once (some 50 KB), so that no request reaches the
    disk."""
    found: dict[str, tuple[bytes, dict[str, str]]] = {}
    for path in Path(__file__).parent.iterdir():
        if path.suffix in _TYPES:
            data = path.read_bytes()
            tag = f'"{sha256(data).hexdigest()[:32]}"'
            found[path.name] = data, {**HEADERS, "content-type": _TYPES[path.suffix], "etag": tag}
    return found


FILES: Final = _read()


def page(hub: Hub, request: Request) -> Response:
    """Answer with the file that the path names, or with 304 for a browser that has it already."""
    del hub
    name = request.path_params.get("id", "index.html")
    if name not in FILES:
        raise Refused(404, "not_found", f"{name[:80]!r}: no such file of the page")
    data, headers = FILES[name]
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers)
