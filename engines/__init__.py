"""What runs models: ONNX Runtime, llama.cpp, the lanes that queue their calls, and the store of models on disk. Nothing
here knows about speech."""

import contextlib
import ctypes
import os
import sys
from typing import Final

DEVICES: Final = ("auto", "cpu", "cuda", "dml")
"""The devices that can be asked for (engines/device.py). They are listed here since that module loads llama.cpp, which
the command line need not do."""

# libgomp's threads spin before they sleep. ggml has a barrier after every operator, so some spinning pays. The default
# of milliseconds keeps the core from other threads. libgomp reads this once, when llama.cpp loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# ONNX Runtime 1.31 and later reports every session to its maker, and keeps unsent reports in the home directory. It
# reads this when it is imported. The environment cannot switch it on again: hearsay calls nobody.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if sys.platform == "linux":
    # glibc gives every thread a heap of its own and returns little of it. With two heaps for all threads of a daemon,
    # 24 live sessions take some 20 MB less. M_ARENA_MAX is -8 in malloc.h; other C libraries have no mallopt.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-8, 2)
