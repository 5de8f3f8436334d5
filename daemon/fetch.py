"""A recording fetched for a client by http or https: bounded in size, time and redirects, and never from an address
that the operator did not allow.

A name is resolved once and the connection goes to the address that was looked at, so a name that changes between the
look and the connection leads nowhere. That holds for every redirect alike.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore2
from starlette.datastructures import UploadFile

from daemon.config import Settings
from daemon.refusal import Refused

_SPOOL_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 12
"""Read at once: all of it is worked off before others have their turn, and 64 KiB can be ten thousand chunks."""
_MOST_REDIRECTS: Final = 3
_MOST_SECONDS: Final = 300.0
"""For all of it."""


class _Forbidden(Exception):
    """An address that is not public."""


class _SmallReads(httpcore2.AsyncNetworkStream):
    """Reads at most ``_READ_BYTES``."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 (httpcore's)
        """httpcore's."""
        return await self._inner.read(min(max_bytes, _READ_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 (httpcore's)
        """httpcore's."""
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """httpcore's."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's)
    ) -> httpcore2.AsyncNetworkStream:
        """httpcore's."""
        return _SmallReads(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """httpcore's."""
        return self._inner.get_extra_info(info)


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the address that was looked at."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
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
        """To one address of ``host``."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error.strerror or error}") from None
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        if not self._private and not all(public(address) for address in addresses):
            raise _Forbidden(host)
        stream = await self._inner.connect_tcp(addresses[0], port, timeout, local_address, socket_options)
        return _SmallReads(stream)

    async def sleep(self, seconds: float) -> None:
        """httpcore's."""
        await self._inner.sleep(seconds)


def public(address: str) -> bool:
    """Whether an IP address is one of the internet's, whatever form of it this is."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return public(str(inner))
    return ip.is_global and not ip.is_multicast


_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


async def fetched(url: str, settings: Settings) -> UploadFile:
    """What ``url`` brings, in a temporary file that the caller closes.

    Raises:
        Refused: 400, urls are not fetched here, this one must not be or brings nothing; 413, it is too large.
    """
    if settings.fetch_urls == "none":
        raise _wrong("this daemon fetches no recordings (fetch_urls); send the bytes")
    spool: Any = SpooledTemporaryFile(_SPOOL_BYTES)
    file = UploadFile(spool, size=0)
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            await _fetch(url, settings, file)
    except BaseException as error:
        await file.close()
        match error:
            case TimeoutError() | httpcore2.TimeoutException():
                raise _wrong("fetching it takes too long") from None
            case _Forbidden():
                raise _wrong("it leads to an address that is not public (fetch_urls)") from None
            case httpcore2.NetworkError() | httpcore2.ProtocolError() | httpcore2.UnsupportedProtocol():
                raise _wrong(f"it cannot be fetched: {error}") from None
            case UnicodeError() | ValueError():
                raise _wrong("it is no URL") from None
            case _:
                raise
    return file


async def _fetch(url: str, settings: Settings, file: UploadFile) -> None:
    wait = settings.idle_seconds
    extensions = {"timeout": {"connect": wait, "read": wait, "write": wait, "pool": wait}}
    backend = _Pinned(private=settings.fetch_urls == "any")
    async with httpcore2.AsyncConnectionPool(network_backend=backend) as pool:
        for _ in range(_MOST_REDIRECTS + 1):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise _wrong("it must be http or https")
            headers = [("Host", parts.netloc.rpartition("@")[2]), ("Accept", "*/*"), ("User-Agent", "hearsay")]
            async with pool.stream("GET", url, headers=headers, extensions=extensions) as response:
                if response.status in (301, 302, 303, 307, 308):
                    target = dict(response.headers).get(b"location") or dict(response.headers).get(b"Location")
                    if target is None:
                        raise _wrong("it redirects to nowhere")
                    url = urljoin(url, target.decode("latin-1"))
                    continue
                if response.status != 200:
                    raise _wrong(f"it is answered with status {response.status}")
                async for chunk in response.aiter_stream():
                    if (file.size or 0) + len(chunk) > settings.max_upload_bytes:
                        most = settings.max_upload_bytes
                        raise Refused(413, "too_large", f"url: it is larger than {most} bytes (max_upload_bytes)")
                    await file.write(chunk)
                return
        raise _wrong(f"it redirects more than {_MOST_REDIRECTS} times")


def _wrong(reason: str) -> Refused:
    return Refused(400, "invalid_url", f"url: {reason}", param="url")
