"""A whole file being heard, block after block as backlog of the model's lane, so that live streams go first."""

from collections.abc import AsyncGenerator, Generator, Iterator
from functools import partial
from typing import Final

from audio.pcm import Samples
from daemon.hub import Hub
from daemon.paths import Endpoint
from daemon.workers import SessionWorker
from engines.lane import Steps, Task, alone
from engines.scheduling import Priority
from streaming.events import Event, Transcript
from streaming.listener import Listener

_BLOCK_SECONDS: Final = 8.0
"""Heard before its work is done: this bounds memory."""


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
    model = hub.hearing_model().model
    rate = model.sample_rate
    try:
        last = False
        while not last:
            block = _block_heard(worker.session, blocks, int(_BLOCK_SECONDS * rate))
            events, size, last = await worker.done(model.engine.lane, Task(block, Priority.BACKLOG))
            metrics.audio.labels(path).inc(size / rate)
            finals = [event for event in events if isinstance(event, Transcript) and event.is_final and event.text]
            metrics.finals.labels(path).inc(len(finals))
            metrics.words.labels(path).inc(sum(len(final.words) for final in finals))
            yield events, size / rate
    finally:
        await worker.close()  # It waits for the call in flight, which may be inside ``blocks``.
        blocks.close()


def _block_heard(listener: Listener, blocks: Iterator[Samples], most: int) -> Steps[tuple[list[Event], int, bool]]:
    """What ``most`` samples or the last ones bring, how many they are, and whether those were the last. To decode a
    piece is a call, and to hear a second of it another: live streams go between."""
    size, last = 0, False
    while size < most and not last:
        piece = yield from alone(lambda: next(blocks, None))
        if piece is None:
            yield from alone(listener.finish)
            last = True
        else:
            for at in range(0, piece.size, listener.sample_rate):
                yield from alone(partial(listener.feed, piece[at : at + listener.sample_rate]))
            size += piece.size
    return (yield from listener.drained()), size, last
