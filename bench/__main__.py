"""``make bench``: the published speeds, one after another, on the bundled recording and the default model."""

import os
import sys
from pathlib import Path

# Before numpy: the thread budget belongs to the model calls (commands/main.py).
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from bench import asr, sessions, words  # noqa: E402
from bench.figures import lines  # noqa: E402
from engines.store import BUNDLED  # noqa: E402

SESSIONS = (1, 8, 24)


def main() -> int:
    """Print hearing at once, hearing in ticks, and live sessions."""
    recording = BUNDLED / "samples" / "demo.opus"
    timed = Path(__file__).parent.parent / "tests" / "synthetic"  # in a clone, not in an installed package
    if timed.exists():
        lines({"word times": words.measure(timed)})
    lines({"hearing a file": asr.measure(recording, None)})
    lines({"hearing live, a tick every 0.3 s": asr.measure(recording, None, tick=0.3)})
    for count in SESSIONS:
        lines(
            {
                f"{count} live sessions": sessions.measure(
                    [recording], count=count, seconds=30.0, timed=timed if timed.exists() else None
                )
            }
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
