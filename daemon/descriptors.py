"""Open files: what a daemon may need, and what the system lets it have.

Without one to spare a process cannot take a connection, not even to reset it: asyncio then writes thousands of lines a
second into the log, and nobody is answered. So connections are bounded by what there is.
"""

import contextlib
import logging
from typing import Final

from daemon.config import Settings

BACKLOG: Final = 64
"""Connections that the kernel holds for us."""
_UNCOUNTED: Final = 4 * BACKLOG
"""asyncio takes all of those in each turn of its loop, and one too many is closed three turns later."""
_PLACE: Final = 2
"""Of a session beside its connection: an upload or a spoken file on disk, and a voice being read."""
_OTHERS: Final = 64
"""Models, libraries, log, event loop."""

log: Final = logging.getLogger("hearsay.descriptors")


def provide(settings: Settings) -> None:
    """Raise this process's soft limit to what ``settings`` may need, as far as the hard one allows."""
    try:
        import resource
    except ImportError:  # Windows counts sockets elsewhere
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _beside(settings)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has another limit behind an infinite one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections(settings: Settings) -> int:
    """How many connections there can be: ``max_connections``, or fewer, of which the log is told."""
    try:
        import resource
    except ImportError:
        return settings.max_connections
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
    return _UNCOUNTED + _PLACE * (settings.sessions + settings.speakers) + _OTHERS
