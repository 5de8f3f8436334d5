"""Graphs without weights at true dimensions: what is kept is what is traced. Beside test_keep.py, not after it.

All sizes: ``python -m export.trace.keep --check``, part of ``make export-check``.
"""

import pytest

from export import known
from export.trace import keep
from export.trace.releases import released

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("path", ["qwen3-tts-12hz/speaker-0.6b", "qwen3-asr-0.6b/int8"])
def test_what_is_kept_is_what_is_traced(path: str) -> None:
    """At true dimensions, all layers traced, from other weights than those that it was kept with."""
    model, _, folder = path.partition("/")
    kept = next(
        each for each in released() if each.model == model and folder in [name for name, _ in each.folders.values()]
    )
    for precision, template in keep.templates(kept, keep.SEED + 1, quick=False).items():
        _, part = kept.folders[precision]
        assert keep.difference(known.find(part, kept.checkpoint(keep.SEED)), template) is None
