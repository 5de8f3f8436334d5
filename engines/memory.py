"""How much memory this process may still take."""

import ctypes
import sys
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available() -> int | None:
    """How many bytes this process can take before the machine swaps or the container's limit is reached; None if the
    system does not tell.

    Pages of mapped files count as free, since the system can drop them.
    """
    told = [bytes_ for bytes_ in (_of_machine(), _of_container()) if bytes_ is not None]
    return min(told, default=None)


def total() -> int | None:
    """How many bytes this machine has, or this container may take; None if the system does not tell."""
    told = [bytes_ for bytes_ in (_meminfo("MemTotal"), _number(_GROUP / "memory.max")) if bytes_ is not None]
    if not told and sys.platform == "win32":
        return _windows()[0]
    if not told and sys.platform == "darwin":
        return _darwin("hw.memsize")
    return min(told, default=None)


def _of_machine() -> int | None:
    if sys.platform == "win32":
        return _windows()[1]
    if sys.platform == "darwin":  # macOS tells no such figure, as it compresses and swaps by itself. Half is a guess.
        whole = _darwin("hw.memsize")
        return None if whole is None else whole // 2
    return _meminfo("MemAvailable")


def _of_container() -> int | None:
    most, used = _number(_GROUP / "memory.max"), _number(_GROUP / "memory.current")
    if most is None or used is None:
        return None
    files = _field(_GROUP / "memory.stat", "inactive_file") or 0
    return max(0, most - used + files)


def _meminfo(name: str) -> int | None:
    kilobytes = _field(_MEMINFO, f"{name}:")
    return None if kilobytes is None else 1024 * kilobytes


def _field(file: Path, name: str) -> int | None:
    """The number after ``name`` in a file each of whose lines begins with a name; None if there is none."""
    try:
        for line in file.read_text(encoding="ascii").splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == name:
                return int(words[1])
    except (OSError, ValueError):
        pass
    return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))  # The file says "max" where there is no limit.
    except (OSError, ValueError):
        return None


def _windows() -> tuple[int | None, int | None]:
    """How many bytes the machine has, and how many are available."""
    if sys.platform != "win32":
        return None, None

    class Status(ctypes.Structure):
        """MEMORYSTATUSEX of the Windows API, with the fields that are not read under any name."""

        _fields_ = [
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in ("total", "available", "a", "b", "c", "d", "e")),
        ]

    status = Status(length=ctypes.sizeof(Status))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None, None
    return status.total, status.available


def _darwin(name: str) -> int | None:
    value, size = ctypes.c_uint64(), ctypes.c_size_t(8)
    try:
        library = ctypes.CDLL(None)
        failed = library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    except (OSError, AttributeError):
        return None
    return None if failed else value.value
