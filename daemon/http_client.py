"""HTTP that the daemon itself asks for, of the chat endpoint and of servers that hold recordings.

No proxy and no password of the environment's is used. What comes back is read a little at a time and never
decompressed: whoever answers decides what arrives, and a kilobyte of gzip can hold a gigabyte.
"""

import asyncio
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import httpcore2
import httpx2

_READ_BYTES: Final = 1 << 12
"""Bytes read at once. All of them are worked off before other tasks have their turn, and 64 KiB can be ten thousand
chunks."""


class _SmallReads(httpcore2.AsyncNetworkStream):
    """A connection that reads at most ``_READ_BYTES`` at once."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 (httpcore's)
        """See ``httpcore2.AsyncNetworkStream``."""
        return await self._inner.read(min(max_bytes, _READ_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 (httpcore's)
        """See ``httpcore2.AsyncNetworkStream``."""
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """See ``httpcore2.AsyncNetworkStream``."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's)
    ) -> httpcore2.AsyncNetworkStream:
        """See ``httpcore2.AsyncNetworkBackend``."""
        return _SmallReads(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """See ``httpcore2.AsyncNetworkBackend``."""
        return self._inner.get_extra_info(info)


class Network(httpcore2.AsyncNetworkBackend):
    """Makes connections. Subclasses say where to."""

    def __init__(self) -> None:
        backend: Any = httpcore2.AnyIOBackend
        self._inner: httpcore2.AsyncNetworkBackend = backend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """See ``httpcore2.AsyncNetworkBackend``."""
        return _SmallReads(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        """See ``httpcore2.AsyncNetworkBackend``."""
        await self._inner.sleep(seconds)


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates, read from disk once."""
    return httpx2.create_ssl_context(trust_env=False)


async def pool(network: Network | None = None) -> httpcore2.AsyncConnectionPool:
    """A pool of connections that are kept from request to request. The caller closes it."""
    return httpcore2.AsyncConnectionPool(
        ssl_context=await asyncio.to_thread(_trust), network_backend=network or Network()
    )


def url(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """``text`` as a URL, relative to ``base`` where there is one; names and paths of any script are encoded.

    Raises:
        ValueError: it is none of http or https with a host.
    """
    try:
        found = httpx2.URL(text) if base is None else base.join(text)
    except httpx2.InvalidURL as error:
        raise ValueError(str(error)) from None
    if found.scheme not in ("http", "https") or not found.raw_host:
        raise ValueError("it must be http or https, with a host")
    if found.port is not None and not 0 < found.port < 1 << 16:
        raise ValueError(f"there is no port {found.port}")
    return found


def target(url: httpx2.URL) -> httpcore2.URL:
    """``url`` in the form that a pool takes."""
    return httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
