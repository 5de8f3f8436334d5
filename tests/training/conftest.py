"""Tests that need torch run with the comparisons (`make reference`), whose environment has it."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
collect_ignore = (
    []
    if importlib.util.find_spec("torch")
    else [
        str(path.relative_to(HERE)) for path in HERE.rglob("test_*.py") if "torch" in path.read_text(encoding="utf-8")
    ]
)
