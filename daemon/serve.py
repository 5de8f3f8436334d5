"""uvicorn with drain, and what a process or a thread needs to run a daemon.

The first SIGTERM or SIGINT drains: ``/readyz`` and new work answer 503, live sessions go on until they end by
themselves. At ``drain_seconds`` nothing more is taken; what arrived is worked off, and streams are closed with 1012.
Only where nothing moves for ``stall_seconds`` sessions are cut, and told what is lost. A second signal ends at once.
"""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

import uvicorn

from daemon.app import create_app
from daemon.config import Settings
from daemon.connection import BACKLOG, WebSocketConnection, http_connection, most_connections, provide_files
from daemon.hub import Hub
from daemon.loading import Models, load_models
from daemon.tls import server_context, tls_connection
from daemon.wyoming.server import Wyoming

_CUT_SECONDS: Final = 10.0
"""After sessions were cut: time to tell them."""
_READ_SECONDS: Final = 5
"""At the end: time for clients to read what they were sent last."""
_SEND_BUFFER: Final = 256 << 10
"""Kernel buffer of a connection. It bounds what a client that does not read makes the kernel hold."""

log: Final = logging.getLogger("hearsay.serve")


class Server(uvicorn.Server):
    """uvicorn's server that drains.

    ``listening`` is called once connections are taken, ``settled`` once the models are loaded or cannot be.
    """

    def __init__(
        self, config: uvicorn.Config, hub: Hub, listening: Callable[[], None], settled: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._hub, self._listening, self._settled = hub, listening, settled
        self.abandon: Callable[[], None] = lambda: None
        """Called where all is to end at once, connections last. It need not return."""
        self.wyoming: Wyoming | None = None
        """The server of that protocol, where there is one."""
        self._deadline: float | None = None
        self._cut_at = 0.0
        self._settling: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's, then tell."""
        await super().startup(sockets)
        if self.wyoming is not None:
            await self.wyoming.start()
        self._listening()
        self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        await self._hub.ready()
        self._settled()

    def drain(self, seconds: float) -> None:
        """Take no new work, and end once the live sessions have, or when ``seconds`` are over. Thread-safe."""
        self._hub.drain()
        self._deadline = time.monotonic() + seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal. Not passed on to uvicorn, which would raise it again at the end: drained is a clean exit."""
        del sig, frame
        if self._deadline is None:
            self.drain(self._hub.settings.drain_seconds)
            if self._hub.taken:
                _tell(f"hearsay drains {self._hub.taken} sessions; a second signal ends them")
        else:
            self.should_exit = self.force_exit = True
            if self._hub.taken:
                self._hub.lost += self._hub.taken
                _tell(f"hearsay ends at once; {self._hub.taken} sessions are lost")

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to end."""
        if self._deadline is not None and self._drained(time.monotonic()):
            return True
        return await super().on_tick(counter) or self._hub.failure is not None

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
        self.force_exit = True  # what hangs is waited for no more
        return True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's, which waits for connections and logs what it gives up, also where all is to end at once."""
        if self.wyoming is not None:
            await self.wyoming.stop(0.0 if self.force_exit else _READ_SECONDS)
        if not self.force_exit:
            await super().shutdown(sockets)
            for connection in list(self.server_state.connections):  # of clients that do not read
                connection.transport.abort()
            return
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0.1)
        self.abandon()


_SWITCH_SECONDS: Final = 0.0002
"""How long a thread may run Python while others wait. A final passes between threads some fifty times; with Python's
own 5 ms a client that floods the event loop with tiny frames makes each of them wait that long."""


def _server(
    hub: Hub, context: ssl.SSLContext | None, listening: Callable[[], None], settled: Callable[[], None]
) -> Server:
    settings = hub.settings
    connection = http_connection(most_connections(settings))
    config = uvicorn.Config(
        create_app(settings, hub),
        http=connection if context is None else tls_connection(connection, context),
        backlog=BACKLOG,
        ws=WebSocketConnection,
        ws_max_size=settings.max_frame_bytes,
        ws_ping_interval=settings.ping_interval_seconds,
        ws_ping_timeout=settings.ping_timeout_seconds,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=settings.log_level in ("info", "debug"),
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=_READ_SECONDS,
    )
    return Server(config, hub, listening, settled)


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
        if sys.platform != "win32":  # there it would let two daemons share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # accepted sockets inherit it
        if sys.platform == "linux":  # HTTP answers to a client that does not read; streams have their own end
            milliseconds = round(3000 * settings.send_timeout_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        sock.bind(address)
        sock.listen()  # whoever learns the URL can connect at once, although the server takes over later
    except OSError as error:
        if sock is not None:
            sock.close()
        raise OSError(error.errno, error.strerror or str(error), f"{settings.host}:{port}") from None
    shown = f"[{host}]" if ":" in host else host
    return sock, f"{shown}:{sock.getsockname()[1]}"


def _sockets(hub: Hub) -> tuple[socket.socket, str, Wyoming | None]:
    """A listening socket, the URL it is reached at, and Wyoming on a socket of its own where it is asked for.

    Raises:
        OSError: as :func:`_bind`.
    """
    settings = hub.settings
    sock, address = _bind(settings, settings.port)
    url = f"{'https' if settings.tls_certificate else 'http'}://{address}"
    if not settings.wyoming_port:
        return sock, url, None
    try:
        beside, address = _bind(settings, settings.wyoming_port)
    except OSError:
        sock.close()
        raise
    return sock, url, Wyoming(hub, beside, address)


def serve(settings: Settings) -> int:
    """Run a daemon until a signal ends it; the process's exit status.

    Two lines on stderr tell its address: ``hearsay listens on URL`` and, with the models loaded, ``hearsay is ready on
    URL``. The status is 1 where sessions were lost. Ending at once, it does not return: a call to a model that hangs
    would keep the process.

    Raises:
        daemon.config.ConfigError: the certificate or its key cannot be used.
        engines.store.ModelNotFound …: as :func:`daemon.loading.load_models`.
    """
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # else anybody's broken form is a line of the log
    context = server_context(settings)
    hub = Hub(settings)
    try:
        sock, url, wyoming = _sockets(hub)
    except OSError as error:
        _tell(f"hearsay cannot listen on {error.filename}: {error.strerror}")
        return 1
    provide_files(settings)
    sys.setswitchinterval(_SWITCH_SECONDS)

    def settled() -> None:
        if hub.models is not None:
            gc.collect()  # what is there stays: looking through it again and again holds everybody up for 0.1 s
            gc.freeze()
            _tell(f"hearsay is ready on {url} with {hub.models.names}")

    def listening() -> None:
        _tell(f"hearsay listens on {url}")
        if wyoming is not None:
            _tell(f"hearsay speaks Wyoming on tcp://{wyoming.address}")

    server = _server(hub, context, listening, settled)
    server.wyoming = wyoming
    server.abandon = lambda: os._exit(1 if hub.lost else 0)
    asyncio.run(server.serve(sockets=[sock]))
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
        self._server = _server(self.hub, server_context(settings), lambda: None, self._ready.set)
        self._thread = threading.Thread(target=self._run, name="hearsay-daemon")
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        """Start, and wait until the models are loaded.

        Raises:
            OSError: the address is taken. Whatever the loader raises.
        """
        self._sock, self.url, self._server.wyoming = _sockets(self.hub)
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
            asyncio.run(self._server.serve(sockets=[self._sock]))
        except BaseException as error:  # the starting thread raises it
            self._fault = error
        finally:
            self._ready.set()


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):  # a closed stderr must not end the daemon
        print(line, file=sys.stderr, flush=True)


__all__: Final = ["Background", "Server", "serve"]
