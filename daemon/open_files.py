"""How many files the process may have open, and so how many connections it takes.

Without an open file to spare a process cannot take a connection, not even to reset it: asyncio then writes thousands of
lines a second into the log, and nobody is answered. So connections are bounded by what the system lets a daemon have.
"""

import contextlib
import logging
import sys
from typing import Final

from daemon.config import Settings

BACKLOG: Final = 64
"""Connections that the kernel holds until they are taken: a burst of clients, and few enough to be taken in one turn of
the event loop."""
_UNCOUNTED: Final = 4 * BACKLOG
"""asyncio takes the whole backlog in each turn of its loop, and closes a connection that is one too many three turns
later: so many files are open beyond the bound in the worst case."""
_SLOT: Final = 2
"""Files of a session beside its connection: an upload or a spoken file on disk, and a voice being read."""
_OTHERS: Final = 64
"""Files of models, libraries, the log and the event loop: some 40 were seen, the rest is spare."""

log: Final = logging.getLogger("hearsay.connection")


def provide_files(settings: Settings) -> None:
    """Raise this process's soft limit of open files to what ``settings`` may need, as far as the hard one allows."""
    if sys.platform == "win32":  # Windows does not count sockets as files.
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _beside(settings)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has a further limit if this one is infinite.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(settings: Settings) -> int:
    """How many connections there can be: ``max_connections``, or fewer, of which the log is told."""
    if sys.platform == "win32":
        return settings.max_connections
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    room = max(8, soft - _beside(settings))
    if room < settings.max_connections:
        log.warning(
            "max_connections: %d instead of %d, open files are limited to %d (ulimit -n)",
            room,
            settings.max_connections,
            soft,
        )
    return min(room, settings.max_connections)


def _beside(settings: Settings) -> int:
    ports = bool(settings.wyoming_port) + bool(settings.audiosocket_port)
    return _UNCOUNTED + _SLOT * (settings.sessions + settings.speakers) + _OTHERS + ports * settings.beside_connections
