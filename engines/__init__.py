"""What runs models: ONNX Runtime, llama.cpp, the lanes before them and the store. Knows nothing of speech."""

import contextlib
import ctypes
import os
import sys
from typing import Final

DEVICES: Final = ("auto", "cpu", "cuda", "dml")
"""Where models may be asked to be computed (engines/device.py). Here, because that module loads llama.cpp."""

# libgomp's threads spin before they sleep. ggml meets a barrier after every operator, so some spinning pays; the
# default (milliseconds) starves whoever else needs the core. libgomp reads this once, when llama.cpp loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# ONNX Runtime 1.31 and later tells its maker of every session, and keeps what it could not send in the home directory.
# It reads this when it is imported. hearsay calls nobody, whatever the environment says.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if sys.platform == "linux":
    # glibc gives every thread a heap of its own and returns little of it. Two heaps for all of a daemon's workers keep
    # 24 live sessions some 20 MB smaller. M_ARENA_MAX is -8 in malloc.h; other C libraries have no such call.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-8, 2)
