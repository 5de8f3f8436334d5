"""A whole file being heard, block after block in worker threads: as backlog, so that live streams go first."""

from collections.abc import AsyncGenerator, Generator, Iterator
from functools import partial
from typing import Final

from audio.pcm import Samples
from daemon.hub import Hub
from daemon.paths import Endpoint
from daemon.workers import SessionWorker
from streaming.events import Event, Transcript
from streaming.listener import Listener

_BLOCK_SECONDS: Final = 8.0
"""Fed at once: what bounds memory, and lets live streams go first."""


async def heard(
    hub: Hub, worker: SessionWorker[Listener], blocks: Generator[Samples], endpoint: Endpoint
) -> AsyncGenerator[tuple[list[Event], float]]:
    """What each block brings, and its seconds of audio; counted for ``endpoint``. Closes the worker, then ``blocks``.

    Args:
        blocks: float32 mono at the model's rate, any sizes.

    Raises:
        Whatever ``blocks`` raises.
    """
    metrics, path = hub.metrics, endpoint.path
    rate = hub.hearing_model().model.sample_rate
    try:
        last = False
        while not last:
            call = partial(_hear_block, worker.session, blocks, int(_BLOCK_SECONDS * rate))
            events, size, last = await worker.run(call)
            metrics.audio.labels(path).inc(size / rate)
            finals = [event for event in events if isinstance(event, Transcript) and event.is_final and event.text]
            metrics.finals.labels(path).inc(len(finals))
            metrics.words.labels(path).inc(sum(len(final.words) for final in finals))
            yield events, size / rate
    finally:
        await worker.close()  # ends the call in flight, which may be inside ``blocks``
        blocks.close()


def _hear_block(listener: Listener, blocks: Iterator[Samples], most: int) -> tuple[list[Event], int, bool]:
    """In a worker thread: (events, samples, whether that was the end)."""
    size, last = 0, False
    while size < most and not last:
        block = next(blocks, None)
        if block is None:
            listener.finish()
            last = True
        else:
            listener.feed(block)
            size += block.size
    return listener.drain(), size, last
