"""FFmpeg, by PyAV, with a bound on what a small file makes it allocate.

A table of an MP4 can tell of a hundred million samples in a kilobyte, and FFmpeg makes an entry of 36 bytes for each.
FFmpeg's own bound on one allocation, 2 GiB, is therefore lowered once for the process, and files of many tracks, each
of which has tables of its own, are refused.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, Final

MOST_MIB: Final = 64
"""Of one allocation. The table of eighteen hours of AAC is as large."""
_MOST_TRACKS: Final = 12
"""A telephone's film has up to ten."""
TOO_LARGE: Final = f"its tables or its packets take more than {MOST_MIB} MiB, or it has more than {_MOST_TRACKS} tracks"


def opened(source: Any, reader: str, **arguments: Any) -> Any:
    """PyAV's container of ``source``, to be read by this reader of FFmpeg's.

    Args:
        arguments: of ``av.open``; the options ``max_streams`` stays as it is here.

    Raises:
        av.error.FFmpegError: it is none; as ``av.error.MemoryError`` it is ``TOO_LARGE``.
    """
    import av

    _bound()
    options = {**arguments.pop("options", {}), "max_streams": str(_MOST_TRACKS)}
    opener: Any = av.open
    return opener(source, "r", format=reader, options=options, **arguments)


@cache
def _bound() -> bool:
    """Whether the bound was set: FFmpeg's library is found through PyAV's or, on Windows, by its name beside it."""
    import av.error

    module = Path(str(av.error.__file__))
    for library in (module, *(module.parent.parent / "av.libs").glob("avutil-*.dll")):
        limit: Any = getattr(ctypes.CDLL(str(library)), "av_max_alloc", None)
        if limit is not None:
            limit.argtypes, limit.restype = [ctypes.c_size_t], None
            limit(MOST_MIB << 20)
            return True
    return False
