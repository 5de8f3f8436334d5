"""Tests that need torch run with the comparisons (`make reference`), whose environment has it."""

import importlib.util
import re
from pathlib import Path

HERE = Path(__file__).parent
collect_ignore = (
    []
    if importlib.util.find_spec("torch")
    else [
        str(path.relative_to(HERE))
        for path in HERE.rglob("test_*.py")
        if re.search(r"torch|\bshapes\b", path.read_text(encoding="utf-8"))  # shapes.py imports torch.
    ]
)
