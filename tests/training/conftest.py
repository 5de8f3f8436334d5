"""Tests that need torch run with the comparisons (`make reference`), whose environment has it."""

import importlib.util
from pathlib import Path

collect_ignore = (
    []
    if importlib.util.find_spec("torch")
    else [
        str(path.relative_to(Path(__file__).parent))
        for path in Path(__file__).parent.rglob("test_*.py")
        if "torch" in path.read_text()
    ]
)
