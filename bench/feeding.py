"""How long a call of ``Listener.feed`` lasts: what the wire cannot tell.

Run as a script by the interpreter of the checkout that is measured, with its root as working directory; it knows
listeners that are stepped apart from being fed and those that do all within ``feed``. Prints one JSON object.

usage: python -P bench/feeding.py FILE… [--sessions N] [--seconds S]
"""

import argparse
import json
import sys
import threading
import time
from typing import Any

PIECE_SECONDS = 0.1
"""Seconds of audio in a call."""


def main() -> int:
    """Feed ``--sessions`` listeners at real-time pace and print how long the calls took, in milliseconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    sys.path.insert(0, "")

    import numpy as np
    import soundfile
    import soxr

    from engines import store
    from streaming.model import AsrModel
    from streaming.options import ListenOptions

    untyped: Any = AsrModel
    asr = untyped(store.find(store.default()), sessions=given.sessions)
    rate = int(asr.sample_rate)
    parts = list[Any]()
    for file in given.files:
        samples: Any
        samples, source = soundfile.read(file, dtype="float32", always_2d=True)  # pyright: ignore[reportUnknownMemberType]
        parts.append(soxr.resample(samples[:, 0], source, rate))
        parts.append(np.zeros(rate, np.float32))
    speech = np.concatenate(parts)
    size, calls, lock = int(PIECE_SECONDS * rate), list[float](), threading.Lock()

    def live(index: int) -> None:
        listener = asr.listener(ListenOptions())
        over = threading.Event()
        stepped = hasattr(listener, "step")

        def step() -> None:
            while not over.is_set():
                if not listener.ready:
                    time.sleep(0.01)
                    continue
                listener.step()

        worker = threading.Thread(target=step if stepped else over.wait)
        worker.start()
        own = np.roll(speech, -index * len(speech) // given.sessions)
        began = time.monotonic()
        try:
            for number in range(int(given.seconds / PIECE_SECONDS)):
                time.sleep(max(0.0, began + (number + 1) * PIECE_SECONDS - time.monotonic()))
                at = number * size % (len(own) - size)
                before = time.perf_counter()
                listener.feed(own[at : at + size])
                lasted = time.perf_counter() - before
                with lock:
                    calls.append(1000 * lasted)
        finally:
            over.set()
            worker.join()
            listener.close()

    threads = [threading.Thread(target=live, args=(index,)) for index in range(given.sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asr.close()
    calls.sort()
    found = {"p50": calls[len(calls) // 2], "p95": calls[int(0.95 * len(calls))], "worst": calls[-1]}
    print(json.dumps({name: round(value, 2) for name, value in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
