"""Tests that need torch or scipy run with the comparisons (`make reference`), whose environment has them."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
MISSING = [name for name in ("torch", "scipy") if importlib.util.find_spec(name) is None]

collect_ignore = [
    str(path.relative_to(HERE))
    for path in HERE.rglob("test_*.py")
    if any(name in path.read_text(encoding="utf-8") for name in MISSING)
]
