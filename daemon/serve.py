"""A server that drains, and what a process or a thread needs to run a daemon.

The first SIGTERM or SIGINT drains: ``/readyz`` and new work answer 503, live sessions go on until they end by
themselves. At ``drain_seconds`` nothing more is taken; what arrived is worked off, and streams are closed with 1012.
Only where nothing moves for ``stall_seconds`` sessions are cut, and told what is lost. A second signal ends at once.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Self

from daemon.app import create_app
from daemon.config import Settings
from daemon.connection import Door
from daemon.http_connection import HttpConnection
from daemon.hub import Hub
from daemon.loading import Models, load_models
from daemon.open_files import BACKLOG, most_connections, provide_files
from daemon.tcp_server import TcpServer
from daemon.telephone.audiosocket import audiosocket_protocol
from daemon.tls import TlsConnection, server_context
from daemon.wyoming.connection import wyoming_protocol

_LOOK_SECONDS: Final = 0.1
"""Seconds between two looks at whether to end: a person's signal is obeyed at once, and looking costs nothing."""
_CUT_SECONDS: Final = 10.0
"""Seconds to tell sessions that they were cut."""
_READ_SECONDS: Final = 5.0
"""Seconds for clients to read, at the end, what they were sent last."""
_SEND_BUFFER: Final = 256 << 10
"""Bytes of the kernel's buffer for each connection. It bounds what the kernel holds of a client that does not read."""

log: Final = logging.getLogger("hearsay.serve")


class Server:
    """Takes connections and drains.

    Args:
        listening: called once connections are taken.
        settled: called once the models are loaded or cannot be.
        warmed: called once they are warm.
    """

    def __init__(
        self,
        hub: Hub,
        context: ssl.SSLContext | None,
        listening: Callable[[], None] = lambda: None,
        settled: Callable[[], None] = lambda: None,
        warmed: Callable[[], None] = lambda: None,
    ) -> None:
        self._hub, self._context = hub, context
        self._listening, self._settled, self._warmed = listening, settled, warmed
        self._door = Door(create_app(hub.settings, hub), hub.settings, most_connections(hub.settings))
        self.abandon: Callable[[], None] = lambda: None
        """Called where everything is to end at once, as the last step. It need not return."""
        self.beside: Sequence[TcpServer] = ()
        """The servers of protocols that have a port of their own."""
        self._deadline: float | None = None
        """When sessions that are live are ended, by the monotonic clock; None while the daemon does not drain."""
        self._cut_at = 0.0
        self._at_once = False
        """End without waiting for anybody."""

    async def serve(self, sock: socket.socket) -> None:
        """Take connections from ``sock`` until a signal or :meth:`drain` ends that, or the models cannot be loaded."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_Scarcity().told)
        with self._signals():
            await self._hub.start()
            server = await loop.create_server(self._connection, sock=sock, backlog=BACKLOG)
            for one in self.beside:
                await one.start()
            self._listening()
            settling = asyncio.create_task(self._settle())
            await _until(self._ends)
            await self._stop(server)
            settling.cancel()

    def _connection(self) -> asyncio.BaseProtocol:
        return HttpConnection(self._door) if self._context is None else TlsConnection(self._door, self._context)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """Drain at signals, where this is the main thread: no other one gets them."""
        ours = [signal.SIGINT, signal.SIGTERM]
        if sys.platform == "win32":
            ours.append(signal.SIGBREAK)
        main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self._signalled) for number in ours if main}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _settle(self) -> None:
        loaded = await self._hub.ready()
        self._settled()
        if loaded and await self._hub.warm():
            self._warmed()

    def drain(self, seconds: float) -> None:
        """Take no new work, and end once the live sessions have, or when ``seconds`` are over. Thread-safe."""
        self._hub.drain()
        self._deadline = time.monotonic() + seconds

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        del number, frame
        if self._deadline is None:
            seconds = self._hub.settings.drain_seconds
            self.drain(seconds)
            if self._hub.taken:
                _tell(f"hearsay drains {self._hub.taken} sessions for {seconds:g} s; a second signal ends them")
        elif not self._at_once:
            self._at_once = True
            if self._hub.taken:
                self._hub.lost += self._hub.taken
                _tell(f"hearsay ends at once; {self._hub.taken} sessions are lost")

    def _ends(self) -> bool:
        """Whether to end now."""
        drained = self._deadline is not None and self._drained(time.monotonic())
        return drained or self._at_once or self._hub.failure is not None

    def _drained(self, now: float) -> bool:
        """Whether nobody is left, or nobody who could still be helped."""
        hub = self._hub
        assert self._deadline is not None
        if hub.taken == 0:
            return True
        if now < self._deadline:
            return False
        if not hub.cut.is_set():
            hub.send_away(self._deadline)
            if hub.cut.is_set():
                _tell(f"hearsay cuts {hub.taken} sessions: nothing moved for {hub.settings.stall_seconds:g} s")
                self._cut_at = now
            return False
        if now - self._cut_at < _CUT_SECONDS:
            return False
        self._at_once = True  # What hangs is waited for no more.
        return True

    async def _stop(self, server: asyncio.Server) -> None:
        """Take no more connections and close those that there are; clients have a while to read what they were sent."""
        for one in self.beside:
            await one.stop(0.0 if self._at_once else _READ_SECONDS)
        server.close()
        door = self._door
        for connection in list(door.connections):
            connection.shutdown()
        await _until(lambda: self._at_once or not (door.connections or door.tasks), _READ_SECONDS)
        for task in door.tasks:
            task.cancel()
        if self._at_once:
            await asyncio.sleep(_LOOK_SECONDS)  # What was put last gets time to be sent.
            self.abandon()
        else:
            await self._hub.stop()
        for connection in list(door.connections):  # These are of clients that do not read.
            connection.transport.abort()


async def _until(over: Callable[[], bool], seconds: float = math.inf) -> None:
    """Wait until something is over, at most for so long. Signals and other threads cannot set an event of the loop's,
    so it is looked for."""
    end = time.monotonic() + seconds
    while True:
        if over() or time.monotonic() >= end:
            return
        await asyncio.sleep(_LOOK_SECONDS)


class _Scarcity:
    """What asyncio tells of its own accord. Where files are too few to take a connection, it does so with a traceback
    for each connection that the kernel holds, once a second: here that is a line, once a minute."""

    def __init__(self) -> None:
        self._told_at = float("-inf")

    def told(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what asyncio reports, as an exception handler of a loop does."""
        error = context.get("exception")
        scarce = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
        if isinstance(error, ValueError) and "_start_serving" in repr(context.get("handle")):
            return  # The server has closed since, so asyncio cannot take any.
        if "aiortc" in repr(context.get("future")):  # It takes for granted that clients send what they should.
            log.info("a client broke its call: %r", error)
            return
        if "socket" not in context or not isinstance(error, OSError) or error.errno not in scarce:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._told_at > _SCARCE_SECONDS:
            self._told_at = time.monotonic()
            log.error("no connection can be taken for now: %s (ulimit -n, max_connections)", error.strerror)


_SCARCE_SECONDS: Final = 60.0
"""Seconds between two lines of the log that say so."""
_SWITCH_SECONDS: Final = 0.0002
"""How long a thread may run Python while others wait. A final passes between threads some fifty times; with Python's
own 5 ms a client that floods the event loop with tiny frames makes each of them wait that long."""


def _bind(settings: Settings, port: int) -> tuple[socket.socket, str]:
    """A listening socket and the address it is reached at.

    Raises:
        OSError: the address is taken or not ours; ``filename`` is the address.
    """
    host = settings.host.strip("[]")
    sock = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        if sys.platform != "win32":  # On Windows this option would let two daemons share a port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # Accepted sockets inherit the size.
        # This bounds HTTP answers to a client that does not read; streams have their own bound.
        if sys.platform == "linux":
            milliseconds = round(3000 * settings.send_timeout_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        sock.bind(address)
        sock.listen()  # Whoever learns the URL can connect at once, although the server takes connections later.
    except OSError as error:
        if sock is not None:
            sock.close()
        raise OSError(error.errno, error.strerror or str(error), f"{settings.host}:{port}") from None
    shown = f"[{host}]" if ":" in host else host
    return sock, f"{shown}:{sock.getsockname()[1]}"


def _sockets(hub: Hub) -> tuple[socket.socket, str, list[TcpServer]]:
    """A listening socket, the URL it is reached at, and the protocols that are asked for on sockets of their own.

    Raises:
        OSError: as :func:`_bind`.
    """
    settings = hub.settings
    sock, address = _bind(settings, settings.port)
    url = f"{'https' if settings.tls_certificate else 'http'}://{address}"
    wanted = ((wyoming_protocol, settings.wyoming_port), (audiosocket_protocol, settings.audiosocket_port))
    bound, servers = [sock], list[TcpServer]()
    try:
        for protocol, port in wanted:
            if port:
                beside, address = _bind(settings, port)
                bound.append(beside)
                servers.append(TcpServer(protocol(hub), beside, address))
    except OSError:
        for one in bound:
            one.close()
        raise
    return sock, url, servers


def serve(settings: Settings) -> int:
    """Run a daemon until a signal ends it; the process's exit status.

    Two lines on stderr tell its address: ``hearsay listens on URL`` and, with the models loaded, ``hearsay is ready on
    URL``. More lines say which models were chosen and why, and which of them this machine does not keep live. The
    status is 1 where sessions were lost. Ending at once, it does not return: a call to a model that hangs would keep
    the process.

    Raises:
        daemon.config.ConfigError: the certificate or its key cannot be used.
        engines.store.ModelNotFound …: as :func:`daemon.loading.load_models`.
    """
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    # Otherwise anybody's broken form would be a line of the log.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    context = server_context(settings)
    hub = Hub(settings)
    try:
        sock, url, beside = _sockets(hub)
    except OSError as error:
        next_ = "; choose another port" if error.errno == errno.EADDRINUSE else ""
        _tell(f"hearsay cannot listen on {error.filename}: {error.strerror}{next_}")
        return 1
    provide_files(settings)
    sys.setswitchinterval(_SWITCH_SECONDS)

    def settled() -> None:
        if hub.models is not None:
            # What is loaded now stays. Looking through it for garbage again and again would hold everybody up for 0.1
            # s.
            gc.collect()
            gc.freeze()
            for reason in hub.models.reasons:
                _tell(f"hearsay {reason}")
            warming = f"; warming up {' and '.join(hub.models.warming)}" if hub.models.warming else ""
            _tell(f"hearsay is ready on {url} with {hub.models.names}{warming}")

    def warmed() -> None:
        if hub.models is not None and hub.models.why_not_live:
            _tell(f"hearsay cannot keep up: {hub.models.why_not_live}")

    def listening() -> None:
        _tell(f"hearsay listens on {url}")
        for one in beside:
            _tell(f"hearsay speaks {one.told}")
        _tell("hearsay loads its models")

    server = Server(hub, context, listening, settled, warmed)
    server.beside = beside
    server.abandon = lambda: os._exit(1 if hub.lost else 0)
    asyncio.run(server.serve(sock))
    if hub.failure is not None:
        raise hub.failure
    return 1 if hub.lost else 0


class Background:
    """A daemon in a thread of this process, for as long as a ``with`` block lasts; ready when the block begins.

    ``settings`` decide the address; port 0 is what callers usually want. ``url`` is where it answers.
    """

    def __init__(
        self, settings: Settings, loader: Callable[[Settings], Models] = load_models, *, owns_models: bool = True
    ) -> None:
        self.hub: Final = Hub(settings, loader, owns_models=owns_models)
        self.url = ""
        self._ready = threading.Event()
        self._server = Server(self.hub, server_context(settings), settled=self._ready.set)
        self._thread = threading.Thread(target=self._run, name="hearsay-daemon")
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        """Start, and wait until the models are loaded.

        Raises:
            OSError: the address is taken. Whatever the loader raises.
        """
        self._sock, self.url, self._server.beside = _sockets(self.hub)
        self._thread.start()
        self._ready.wait()
        fault = self.hub.failure or self._fault
        if fault is not None:
            self._thread.join()
            raise fault
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: sessions that are still open are finalised and closed with 1012."""
        self.drain(0)
        self._thread.join()

    def drain(self, seconds: float) -> None:
        """See :meth:`Server.drain`."""
        self._server.drain(seconds)

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(self._sock))
        except BaseException as error:  # The starting thread raises it.
            self._fault = error
        finally:
            self._ready.set()


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):  # A closed stderr must not end the daemon.
        print(line, file=sys.stderr, flush=True)


__all__: Final = ["Background", "Server", "serve"]
