"""The bindings of llama.cpp, its backend, its refusals."""

import ctypes
import threading
from typing import Any

import llama_cpp.llama_cpp

llama: Any = llama_cpp.llama_cpp  # ctypes bindings, untyped


class GgufError(RuntimeError):
    """The GGUF cannot be loaded or llama.cpp refused a call; the message says which."""


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
