"""A whole file being heard, block after block as backlog of the model's lane, so that live streams go first."""

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
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
            # Not in the lane: a file that is made to take long to read takes a thread that nobody live waits for.
            block = await worker.run(partial(_block, blocks, int(_BLOCK_SECONDS * rate)))
            last, size = not block, sum(piece.size for piece in block)
            work = Task(_block_heard(worker.session, block), Priority.BACKLOG)
            events = await worker.done(model.engine.lane, work)
            metrics.audio.labels(path).inc(size / rate)
            finals = [event for event in events if isinstance(event, Transcript) and event.is_final and event.text]
            metrics.finals.labels(path).inc(len(finals))
            metrics.words.labels(path).inc(sum(len(final.words) for final in finals))
            yield events, size / rate
    finally:
        await worker.close()  # It waits for the call in flight, which may be inside ``blocks``.
        blocks.close()


def _block(blocks: Iterator[Samples], most: int) -> list[Samples]:
    """Pieces of ``most`` samples together, or the last ones; none behind those."""
    pieces, size = list[Samples](), 0
    while size < most and (piece := next(blocks, None)) is not None:
        pieces.append(piece)
        size += piece.size
    return pieces


def _block_heard(listener: Listener, pieces: Sequence[Samples]) -> Steps[list[Event]]:
    """What ``pieces`` bring; none of them is the file's end. To hear a second is a call: live streams go between."""
    for piece in pieces:
        for at in range(0, piece.size, listener.sample_rate):
            yield from alone(partial(listener.feed, piece[at : at + listener.sample_rate]))
    if not pieces:
        yield from alone(listener.finish)
    return (yield from listener.drained())
