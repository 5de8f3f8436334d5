"""The bindings of llama.cpp, its backend, its refusals."""

import ctypes
import re
import threading
from typing import Any

import llama_cpp.llama_cpp

llama: Any = llama_cpp.llama_cpp  # ctypes bindings, untyped


class GgufError(RuntimeError):
    """The GGUF cannot be loaded or llama.cpp refused a call; the message says which."""


VNNI = frozenset({"AVX512_VNNI", "AVX_VNNI"})
"""Names among :func:`instruction_sets` of what multiplies bytes at four times the speed of float32 and more."""

_backend_lock = threading.Lock()
_backend_ready = False


@llama.llama_log_callback
def _log(level: int, text: bytes, _user: ctypes.c_void_p) -> None:  # errors reach the caller as exceptions
    return None


def start_backend() -> None:
    """Start llama.cpp and keep its log off the terminal. Idempotent."""
    global _backend_ready
    with _backend_lock:
        if not _backend_ready:
            llama.llama_log_set(_log, ctypes.c_void_p(0))
            llama.llama_backend_init()
            _backend_ready = True


def offloads() -> bool:
    """Whether llama.cpp is built for a graphics card and finds one."""
    start_backend()
    return bool(llama.llama_supports_gpu_offload())


def q8_0_tiles() -> str | None:
    """The instruction set for which tools/llama/q8_0.h is compiled into llama.cpp; None: it is not, or not to be seen
    (Windows)."""
    try:
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(llama._lib, "hearsay_q8_0"))).decode()
    except ValueError:
        return None


def instruction_sets() -> frozenset[str]:
    """What llama.cpp is compiled for, by its own names: AVX2, AVX512_VNNI, NEON, …"""
    told: str = llama.llama_print_system_info().decode()
    return frozenset(re.findall(r"(\w+) = 1", told))
