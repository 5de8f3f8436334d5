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
"""Secrets that are good at the same time. Each that is asked for is compared with all of them."""
PREFIX: Final = "ek_"
"""The prefix by which OpenAI's clients know such a key."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a secret opens: a session that begins as ``session`` says.

    It expires when either clock says so: somebody may set the wall clock back, and the monotonic one stands still while
    the machine sleeps.
    """

    session: Any
    expires_at: float
    """When the secret expires, in Unix time, which the client is told."""
    ends_at: float
    """The same by ``time.monotonic()``."""


class ClientSecrets:
    """All secrets that have not expired."""

    def __init__(self, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._clock = wall, clock
        self._grants: dict[bytes, Grant] = {}

    def issue(self, session: Any, seconds: int) -> tuple[str, Grant]:
        """A new secret.

        Raises:
            Refused: 429, ``MOST`` are good already.
        """
        self._forget()
        if len(self._grants) >= MOST:
            soonest = min(grant.ends_at for grant in self._grants.values())
            wait = max(1, int(soonest - self._clock()))
            raise Refused(429, "client_secrets", f"{MOST} client secrets are good already", retry_after=wait)
        value = PREFIX + secrets.token_urlsafe(32)
        grant = Grant(session, self._wall() + seconds, self._clock() + seconds)
        self._grants[digest(value)] = grant
        return value, grant

    def find(self, keys: Iterable[str]) -> Grant | None:
        """The grant of the first of ``keys`` that is a secret; None where none is. Every pair is compared, so that the
        time taken tells nothing of a secret."""
        digests = [digest(key) for key in keys if key.startswith(PREFIX)]
        if not digests:
            return None
        self._forget()
        right = [
            grant for known, grant in self._grants.items() for given in digests if hmac.compare_digest(known, given)
        ]
        return right[0] if right else None

    def _forget(self) -> None:
        wall, now = self._wall(), self._clock()
        self._grants = {
            known: grant for known, grant in self._grants.items() if grant.expires_at > wall and grant.ends_at > now
        }


def digest(key: str) -> bytes:
    """A digest of a key. All digests have one length, so that the time which a comparison takes tells nothing of the
    key."""
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
