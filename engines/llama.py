"""The bindings of llama.cpp, and what it was compiled for."""

import ctypes
import os
import re
import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final


def _bindings() -> Any:
    """The module of llama.cpp's functions, alone.

    Its package imports classes of its own before, with templates and a database: 10 MB and a fifth of a second. So an
    empty package stands in its place meanwhile; whoever imports the package later gets all of it.
    """
    package, bindings = "llama_cpp", "llama_cpp.llama_cpp"
    spec = find_spec(package)
    if package in sys.modules or spec is None:  # Without a package the import says what is missing.
        return import_module(bindings)
    sys.modules[package] = empty = ModuleType(package)
    empty.__path__ = spec.submodule_search_locations or []
    try:
        return import_module(bindings)
    finally:
        del sys.modules[package]


llama: Final[Any] = _bindings()
"""The ctypes bindings, which have no types."""


class GgufError(RuntimeError):
    """A GGUF cannot be loaded, or a call of llama.cpp failed; the message says which."""


VNNI = frozenset({"AVX512_VNNI", "AVX_VNNI"})
"""The :func:`instruction_sets` that multiply bytes at least four times as fast as float32."""

_backend_lock = threading.Lock()
_backend_ready = False


@llama.llama_log_callback
def _log(level: int, text: bytes, _user: ctypes.c_void_p) -> None:
    """Drop a line of llama.cpp's log: callers learn of errors by exceptions."""


def start_backend() -> None:
    """Start llama.cpp and keep its log off the terminal. Idempotent."""
    global _backend_ready
    with _backend_lock:
        if not _backend_ready:
            if products() is not None:
                # llama.cpp's tiles for many rows of q4_k and q6_k would come before ours and take half as long again.
                os.environ.setdefault("GGML_CPU_TILED_MM", "0")
            llama.llama_log_set(_log, ctypes.c_void_p(0))
            llama.llama_backend_init()
            _backend_ready = True


def offloads() -> bool:
    """Whether llama.cpp is compiled for a graphics card and finds one."""
    start_backend()
    return bool(llama.llama_supports_gpu_offload())


def products() -> str | None:
    """The instruction set for which the products of tools/llama are compiled into llama.cpp. None if they are not; on
    Windows this cannot be seen."""
    try:
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(llama._lib, "hearsay_products"))).decode()
    except ValueError:
        return None


def rearranges() -> bool:
    """Whether llama.cpp may hold weights in layouts of its own. It may not where the products of tools/llama multiply
    them as they lie in the file. Nor may it where it is compiled for AMX, because GCC before 12.4 and 13.3 leaves the
    shape of AMX's tiles out (its bug 114098), and the first product ends the process.
    """
    return products() is None and "AMX_INT8" not in instruction_sets()


def instruction_sets() -> frozenset[str]:
    """The instruction sets that llama.cpp is compiled for, by its own names: AVX2, AVX512_VNNI, NEON, …"""
    told: str = llama.llama_print_system_info().decode()
    return frozenset(re.findall(r"(\w+) = 1", told))
