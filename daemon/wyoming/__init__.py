"""The Wyoming protocol, by which Home Assistant hears and speaks: events over TCP."""

import importlib
import warnings

with warnings.catch_warnings():
    # It imports a module of Python's own that 3.13 has no more, and does without it there.
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    importlib.import_module("wyoming.audio")
