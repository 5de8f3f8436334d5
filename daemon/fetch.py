"""A recording fetched by http or https: bounded in size, time and redirects, and never from an address
that the operator did not allow.

A name is resolved once and the connection goes to the address that was looked at, so a name that changes between the
look and the connection leads nowhere. That holds for every redirect alike.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Iterable
from contextlib import aclosing
from tempfile import SpooledTemporaryFile
from typing import Any, Final

import httpcore2
from starlette.datastructures import UploadFile

from daemon import http_client
from daemon.body import storing
from daemon.config import Settings
from daemon.refusal import Refused

_SPOOL_BYTES: Final = 1 << 20
"""Bytes. A larger recording goes to the temporary directory."""
_MOST_REDIRECTS: Final = 3
"""Redirects that are followed: from http to https, to the canonical name, and to a store of files."""
_MOST_SECONDS: Final = 300.0
"""Seconds for the whole fetch, redirects included: a recording of an hour over a slow connection."""
_POST_SECONDS: Final = (0.0, 2.0, 10.0)
"""Seconds before each attempt to call somebody back."""
_SHOWN: Final = 300
"""Characters of an error about a URL that a client is told."""


log: Final = logging.getLogger("hearsay.fetch")


class _Forbidden(Exception):
    """An address that is not public."""


class _Pinned(http_client.Network):
    """A network that connects to the address which was looked at, and to no other."""

    def __init__(self, *, private: bool) -> None:
        super().__init__()
        self._private = private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one address of ``host``."""
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:  # A time-out is an ``OSError`` too.
            raise httpcore2.ConnectTimeout from None
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error.strerror or error}") from None
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        if not self._private and not all(public(address) for address in addresses):
            raise _Forbidden(host)
        return await super().connect_tcp(addresses[0], port, timeout, local_address, socket_options)


_INTERNET: Final = ipaddress.IPv6Network("2000::/3")
"""All addresses that are given out for the internet (RFC 4291). Others lead to this machine, to its neighbours, or
through a translator to some IPv4 address of which nothing is known here."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""The one exception: through this prefix a network that has IPv6 alone reaches public IPv4 addresses (RFC 6052,
3.1)."""
_RELAYS: Final = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("192.88.99.0/24"))
"""Addresses for protocols between networks (RFC 6890) and for relays (RFC 7526), which not every version of Python
knows to be no public ones."""


def public(address: str) -> bool:
    """Whether an IP address is a public one, in whatever form it is written."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast and not any(ip in relay for relay in _RELAYS)
    inner = ip.ipv4_mapped or ip.sixtofour
    if ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return public(str(inner)) if inner is not None else ip in _INTERNET and ip.is_global


async def fetched(url: str, settings: Settings) -> UploadFile:
    """Fetch ``url`` into a temporary file, which the caller closes.

    Raises:
        Refused: 400, urls are not fetched here, this one must not be or brings nothing; 413, it is too large; 507,
            there is no room for it.
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
            case httpcore2.NetworkError() | httpcore2.ProtocolError() | OSError():
                raise _wrong(f"it cannot be fetched: {error}") from None
            case ValueError():
                raise _wrong(f"it is no URL that can be fetched: {str(error)[:_SHOWN]}") from None
            case _:
                raise
    return file


def check_callback(url: str, settings: Settings) -> None:
    """
    Raises:
        Refused: 400, nobody is called back here, or there is no such address.
    """
    if settings.callbacks == "none":
        raise Refused(
            400,
            "invalid_field",
            "callback: nobody is called back here; `hearsay serve --callbacks public` allows it",
            param="callback",
        )
    try:
        http_client.url(url)
    except ValueError as error:
        raise Refused(400, "invalid_field", f"callback: {str(error)[:_SHOWN]}", param="callback") from None


async def post(url: str, body: bytes, settings: Settings) -> None:
    """Post JSON to an address, and again where nobody is there; the log has what comes of it. Redirects are not
    followed."""
    asked, wait = http_client.url(url), settings.idle_seconds
    headers = [("Host", asked.netloc), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    extensions = {"timeout": {"connect": wait, "read": wait, "write": wait, "pool": wait}}
    for pause in _POST_SECONDS:
        try:
            await asyncio.sleep(pause)
            network = _Pinned(private=settings.callbacks == "any")
            async with asyncio.timeout(_MOST_SECONDS), await http_client.pool(network) as pool:
                sent = pool.stream(
                    "POST", http_client.target(asked), headers=headers, content=body, extensions=extensions
                )
                async with sent as response:
                    log.info("a callback was answered with status %d", response.status)
                    if response.status < 500:
                        return
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError) as error:
            log.warning("a callback was not taken: %s", type(error).__name__)
        except _Forbidden:
            log.warning("a callback leads to an address that is not public (callbacks)")
            return


async def _fetch(given: str, settings: Settings, file: UploadFile) -> None:
    wait = settings.idle_seconds
    extensions = {"timeout": {"connect": wait, "read": wait, "write": wait, "pool": wait}}
    url = http_client.url(given)
    async with await http_client.pool(_Pinned(private=settings.fetch_urls == "any")) as pool:
        for _ in range(_MOST_REDIRECTS + 1):
            headers = [("Host", url.netloc), ("Accept", "*/*"), ("User-Agent", "hearsay")]
            async with pool.stream("GET", http_client.target(url), headers=headers, extensions=extensions) as response:
                if response.status in (301, 302, 303, 307, 308):
                    places = [value for name, value in response.headers if name.lower() == b"location"]
                    if not places:
                        raise _wrong("it redirects to nowhere")
                    url = http_client.url(_text(places[0]), url)
                    continue
                if response.status != 200:
                    raise _wrong(f"it is answered with status {response.status}")
                async with aclosing(response.aiter_stream()) as pieces:
                    async for piece in pieces:
                        if (file.size or 0) + len(piece) > settings.max_upload_bytes:
                            most = settings.max_upload_bytes
                            raise Refused(413, "too_large", f"url: it is larger than {most} bytes (max_upload_bytes)")
                        with storing():
                            await file.write(piece)
                return
        raise _wrong(f"it redirects more than {_MOST_REDIRECTS} times")


def _text(location: bytes) -> str:
    """The text of a header: servers send addresses in UTF-8, though they should not."""
    try:
        return location.decode()
    except UnicodeDecodeError:
        return location.decode("latin-1")


def _wrong(reason: str) -> Refused:
    return Refused(400, "invalid_url", f"url: {reason}", param="url")
