"""The packages that exporting needs, and the error where they are not installed."""

import importlib.util

NEEDED = ("torch", "onnx", "onnxscript")
"""The packages that trace graphs of sizes that were not released."""


class ExportUnavailable(RuntimeError):
    """Packages that exporting needs are not installed; the message says how to install them."""


def require(*packages: str) -> None:
    """Raise ExportUnavailable, in one sentence, unless ``packages`` can be imported."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportUnavailable(f"exporting needs {', '.join(missing)}: pip install {' '.join(missing)}")
