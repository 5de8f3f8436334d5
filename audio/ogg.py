"""Ogg files whose pages disagree about the stream they belong to.

95 of the 1323 clips of the held-out speech shard change their serial number in the middle: pages, their order and
checksums are sound, but libsndfile takes the change for the end of the stream, silently, and FFmpeg refuses the file.
"""

import struct
import zlib
from typing import Final

_HEADER: Final = 27
"""Bytes of a page's header before its table of segments (RFC 3533, 6)."""
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def checksum(page: bytes) -> int:
    """CRC of an Ogg page whose checksum field is zero (RFC 3533: polynomial 04c11db7, not reflected, from 0)."""
    # zlib's is the reflected one from -1, complemented: reverse the bits of every byte going in and of the result.
    register = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{register:032b}"[::-1], 2)


def mend(data: bytes) -> bytes:
    """The file with the serial number of its first page on every page; `data` itself where that is so already.

    Raises:
        ValueError: `data` is not a whole number of Ogg pages in order.
    """
    pages: list[bytes] = []
    position = 0
    while position < len(data):
        if data[position : position + 4] != b"OggS" or position + _HEADER > len(data):
            raise ValueError(f"ogg: no page at byte {position} of {len(data)}")
        segments = data[position + _HEADER : position + _HEADER + data[position + 26]]
        end = position + _HEADER + data[position + 26] + sum(segments)
        page = data[position:end]
        if end > len(data) or struct.unpack_from("<I", page, 18)[0] != len(pages):
            raise ValueError(f"ogg: page {len(pages)} is cut short or out of order")
        pages.append(page)
        position = end
    if len({page[14:18] for page in pages}) <= 1:
        return data
    return b"".join(_with_serial(page, pages[0][14:18]) for page in pages)


def _with_serial(page: bytes, serial: bytes) -> bytes:
    blank = page[:14] + serial + page[18:22] + bytes(4) + page[26:]
    return blank[:22] + struct.pack("<I", checksum(blank)) + blank[26:]
