"""How a session with a daemon opens, and how it may fail: address, headers, refusal, loss.

Nothing here waits.
"""

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI

from .events import ListenError
from .options import StreamOptions

RETRY_CODES = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1015})
"""Close codes after which a new connection may succeed (going away, lost, server error, restart, overload)."""

RETRY_STATUS = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP answers to the handshake after which another attempt may succeed."""

_MAX_MESSAGE = 16 << 20
"""Bytes of a message that a client takes: far more than a daemon sends at its default settings."""


class Refused(ListenError):
    """The daemon did not accept the session.

    Attributes:
        status: the HTTP status; 400 also where the mistake shows before the daemon is asked, None where no HTTP answer
            came.
        retry_after: the seconds after which the session may be accepted, where the daemon said so.
        of_file: whether the file is what is wrong.
    """

    def __init__(
        self, message: str, status: int | None = None, retry_after: float | None = None, *, of_file: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.retry_after, self.of_file = status, retry_after, of_file

    @property
    def may_retry(self) -> bool:
        """Whether another attempt may succeed: the daemon is away, full or draining."""
        return self.status is None or self.status in RETRY_STATUS

    @property
    def asked_wrongly(self) -> bool:
        """Whether an option or a name is wrong, or asks for something that this daemon does not do."""
        return self.status in (400, 404) and not self.of_file


class Lost(ListenError):
    """An accepted session ended before its time. ``code`` is the WebSocket close code (1006: no close frame at all)."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"connection closed with code {code}{': ' + reason if reason else ''}")
        self.code = code
        self.reason = reason

    @property
    def may_retry(self) -> bool:
        """Whether a new session may succeed. It cannot where this one broke a rule or a limit."""
        return self.code in RETRY_CODES


def session_url(url: str, path: str, query: str) -> str:
    """The WebSocket address of a session at ``path`` on the daemon at ``url`` (``http``, ``https``, ``ws`` or ``wss``).

    Raises:
        Refused: not such an address.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in schemes or not parts.hostname:
        raise Refused(f"{url!r} is no daemon's address: expected http://HOST:PORT", 400)
    place = parts.path.rstrip("/").removesuffix(path).removesuffix("/v1") + path
    return urlunsplit((schemes[parts.scheme], parts.netloc, place, query, ""))


def listen_url(url: str, options: StreamOptions) -> str:
    """The WebSocket address of a hearing session on the daemon at ``url``.

    Raises:
        Refused: not such an address.
    """
    return session_url(url, "/v1/listen", options.query())


def user_agent() -> str:
    """Name and version of this client, for the User-Agent header."""
    try:
        return f"hearsay/{version('hearsay')}"
    except PackageNotFoundError:
        return "hearsay"


def authorization(scheme: str, key: str | None) -> dict[str, str]:
    """The header that carries the key, if there is one.

    Raises:
        Refused: no header can carry it.
    """
    if key and not (key.isascii() and key.isprintable()):
        raise Refused("key: it holds what no key does; letters, digits and . _ ~ + - are what one is made of", 400)
    return {"Authorization": f"{scheme} {key}"} if key else {}


def settings(url: str, key: str | None) -> dict[str, Any]:
    """Arguments of websockets' ``connect`` for a session at ``url``.

    Raises:
        Refused: as :func:`authorization`.
    """
    found: dict[str, Any] = {
        "additional_headers": authorization("Token", key),
        "user_agent_header": user_agent(),
        "compression": None,  # Audio does not compress, and deflate costs memory on both sides.
        "max_size": _MAX_MESSAGE,
        "ping_interval": 20,
        "ping_timeout": 60,  # A busy daemon answers late long before it is dead.
        # Audio that nobody took may lie before the daemon's answer to a close: it is not waited for much longer then.
        "close_timeout": 1,
    }
    major = int(version("websockets").split(".")[0])
    if major >= 15 and urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
        found["proxy"] = None  # No proxy can reach this machine's loopback.
    return found


def is_normal(error: ConnectionClosed) -> bool:
    """Whether the daemon ended the session as agreed."""
    # ConnectionClosedOK counts 1001 (going away) as normal too; for a session in progress it is a loss.
    return error.rcvd is not None and error.rcvd.code == 1000


def loss(error: ConnectionClosed, fault: str) -> Lost:
    """The error to raise for a broken session; ``fault`` is what the daemon said before, if anything."""
    frame = error.rcvd or error.sent
    if frame is None:
        return Lost(1006, fault or "the connection broke")
    return Lost(frame.code, fault or frame.reason)


def refusal(url: str, error: Exception) -> Refused:
    """The error to raise for a handshake that failed."""
    place = urlsplit(url).netloc
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        told = explanation(bytes(error.response.body or b""), error.response.reason_phrase)
        reason = f"the daemon at {place} refused the session with HTTP {status}: {told}"
        return Refused(reason, status, seconds_told(error.response.headers.get("Retry-After")))
    if isinstance(error, InvalidURI):
        return Refused(str(error), 400)
    return Refused(f"no daemon answers at {place}: {error or type(error).__name__}; start one with `hearsay serve`")


def seconds_told(after: str | None) -> float | None:
    """The seconds that a ``Retry-After`` header tells; None where it tells none."""
    return float(after) if after and after.isascii() and after.isdigit() else None


def explanation(body: bytes, otherwise: str) -> str:
    """The message of a JSON error body in the shapes of OpenAI and Deepgram, else its first 200 characters; of an empty
    one ``otherwise``."""
    text = body.decode("utf-8", "replace")
    try:
        data: Any = json.loads(text)
        detail: Any = data.get("error", data)
        if isinstance(detail, str):
            return detail
        return str(detail.get("message") or detail.get("err_msg") or detail.get("reason") or text[:200])
    except (ValueError, AttributeError):
        return text[:200].strip() or otherwise
