"""Keys that expire: each opens ``/v1/realtime`` alone, for a page or an app that must not have the daemon's own key.

Kept in memory, at most ``MOST``; a daemon that starts again has forgotten them.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from daemon.refusal import Refused

MOST: Final = 1000
PREFIX: Final = "ek_"
"""What OpenAI's clients tell such a key by."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a secret opens: a session that begins with ``session``. ``expires_at``: Unix time."""

    session: Any
    expires_at: float


class ClientSecrets:
    """All that are good now."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._grants: dict[bytes, Grant] = {}

    def issue(self, session: Any, seconds: int) -> tuple[str, Grant]:
        """A new secret.

        Raises:
            Refused: 429, ``MOST`` are good already.
        """
        self._forget()
        if len(self._grants) >= MOST:
            soonest = min(grant.expires_at for grant in self._grants.values())
            wait = max(1, int(soonest - self._clock()))
            raise Refused(429, "client_secrets", f"{MOST} client secrets are good already", retry_after=wait)
        value = PREFIX + secrets.token_urlsafe(32)
        grant = Grant(session, self._clock() + seconds)
        self._grants[digest(value)] = grant
        return value, grant

    def find(self, keys: Iterable[str]) -> Grant | None:
        """What one of ``keys`` opens. Every pair is compared: the time taken tells nothing of a secret."""
        digests = [digest(key) for key in keys if key.startswith(PREFIX)]
        if not digests:
            return None
        self._forget()
        right = [
            grant for known, grant in self._grants.items() for given in digests if hmac.compare_digest(known, given)
        ]
        return right[0] if right else None

    def _forget(self) -> None:
        now = self._clock()
        self._grants = {known: grant for known, grant in self._grants.items() if grant.expires_at > now}


def digest(key: str) -> bytes:
    """Of a key. All have one length, so the time that a comparison takes tells nothing of it."""
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
