"""What all protocols share: the model, the places, the worker threads, and whether the daemon takes work at all.

The model is loaded in a thread, so that ``/healthz`` answers meanwhile. A *place* is the right to one session; there
are ``settings.sessions`` of them, and the gate hands them out before a request reaches its protocol. A *hearing* is a
listener together with its at most one call in flight; calls run in worker threads, never on the event loop.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakSet

from daemon.config import Settings
from daemon.metrics import Metrics
from daemon.refusal import Refused
from engines import store
from engines.gguf import Busy
from engines.manifest import NAME
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions, OptionError

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 0.25
"""How long a request waits for a place."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to hear, and what protocols tell about it."""

    model: AsrModel
    uuid: str
    """Derived from the checksums of the model's files: the same files, the same uuid."""
    created: int
    """Unix time of its model.json."""

    @classmethod
    def of(cls, model: AsrModel) -> "Loaded":
        """``model`` with its identity."""
        sums = ",".join(sorted(file.sha256 for file in model.manifest.files.values()))
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{model.name}:{sums}")
        return cls(model, str(identity), int((model.directory / NAME).stat().st_mtime))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name


def load_model(settings: Settings) -> Loaded:
    """Find, load and warm the hearing model. Blocking.

    Raises:
        engines.store.ModelNotFound, engines.manifest.ManifestError: no usable model.
    """
    directory = store.find(settings.asr_model)
    return Loaded.of(AsrModel.load(directory, sessions=settings.sessions, threads=settings.threads or None))


class Hearing:
    """A listener and its calls: one at a time, each in a worker thread. :meth:`close` is a must."""

    def __init__(self, pool: ThreadPoolExecutor, listener: Listener) -> None:
        self.listener: Final = listener
        self.since: float | None = None
        """``time.monotonic()`` at which the call in flight began."""
        self._pool = pool
        self._running: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """``call()`` in a worker thread. Cancelling the waiter leaves the call running until :meth:`close` ends it."""
        assert self._running is None or self._running.done(), "a call of this session is in flight"
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._running, self.since = future, time.monotonic()
        future.add_done_callback(self._rested)
        return await asyncio.shield(future)

    def _rested(self, _: object) -> None:
        self.since = None

    async def close(self) -> None:
        """Give up what is in flight, wait until its thread is free, release the sequence. Never raises."""
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._pool, self.listener.close)
        calls: list[asyncio.Future[Any]] = [closing] if self._running is None else [closing, self._running]
        # Shielded: whoever cancels the closer must not leave the sequence behind.
        ended = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.shield(ended)


class Hub:
    """State of one daemon. Made before the event loop runs; ``start`` and ``stop`` are called on it.

    Args:
        settings: of the daemon.
        loader: what loads the model; tests that share one model among daemons hand in theirs.
        owns_model: close the model in ``stop``.
    """

    def __init__(
        self, settings: Settings, loader: Callable[[Settings], Loaded] = load_model, *, owns_model: bool = True
    ) -> None:
        self.settings: Final = settings
        self.metrics: Final = Metrics()
        self.loaded: Loaded | None = None
        self.failure: Exception | None = None
        self.draining = False
        self._places = asyncio.Semaphore(settings.sessions)
        self.taken = 0
        """Places taken now."""
        self.leave = asyncio.Event()
        """Set when the drain deadline passes: sessions finalise what they have and close with 1012."""
        self._loader, self._owns = loader, owns_model
        # Each session has at most one call and one close at the same time.
        self._pool = ThreadPoolExecutor(2 * settings.sessions + 1, "hearsay-worker")
        self._loading: asyncio.Task[None] | None = None
        self._hearings: WeakSet[Hearing] = WeakSet()
        self.metrics.oldest_call.set_function(self.oldest_call)
        self.metrics.capacity.set(settings.sessions)

    async def start(self) -> None:
        """Begin to load the model; returns at once."""
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            self.loaded = await asyncio.get_running_loop().run_in_executor(self._pool, self._loader, self.settings)
        except Exception as error:  # told by whoever started the daemon, which then ends
            self.failure = error
        else:
            self.metrics.ready.set(1)

    async def ready(self) -> bool:
        """Wait until the model is loaded (True) or cannot be (False)."""
        assert self._loading is not None, "start() comes first"
        await asyncio.shield(self._loading)
        return self.loaded is not None

    def drain(self) -> None:
        """Take no new work from now on. Idempotent; thread-safe."""
        self.draining = True
        self.metrics.draining.set(1)
        self.metrics.ready.set(0)

    async def stop(self) -> None:
        """Release model and threads. Sessions must have ended."""
        if self._loading is not None:
            await self._loading
        loaded, self.loaded = self.loaded, None
        if loaded is not None and self._owns:
            await asyncio.get_running_loop().run_in_executor(self._pool, loaded.model.close)
        self._pool.shutdown(wait=True)

    def oldest_call(self) -> float:
        """Seconds since the oldest call to the model that is in flight began; 0 without one."""
        begun = [hearing.since for hearing in list(self._hearings) if hearing.since is not None]
        return time.monotonic() - min(begun) if begun else 0.0

    def model(self) -> Loaded:
        """The loaded model.

        Raises:
            Refused: 503 while it is being loaded, or could not be.
        """
        if self.loaded is None:
            reason = f"the model could not be loaded: {self.failure}" if self.failure else "the model is being loaded"
            raise Refused(503, "not_ready", reason, retry_after=2)
        return self.loaded

    @asynccontextmanager
    async def place(self, path: str) -> AsyncGenerator[None]:
        """One of the ``settings.sessions`` places, for the duration of a request.

        Raises:
            Refused: 503 while draining or loading, 429 when all places are taken and stay so for a moment: whoever ends
                one stream and opens the next is faster than the clearing up between them.
        """
        if self.draining:
            raise Refused(503, "draining", "the daemon is shutting down", retry_after=5)
        self.model()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            everything = f"all {self.settings.sessions} sessions are taken (sessions)"
            raise Refused(429, "sessions", everything, retry_after=5) from None
        self.taken += 1
        self.metrics.sessions.labels(path).inc()
        self.metrics.opened.labels(path).inc()
        try:
            yield
        finally:
            self._places.release()
            self.taken -= 1
            self.metrics.sessions.labels(path).dec()

    async def hear(self, options: ListenOptions) -> Hearing:
        """Open a listener. The caller holds a place and closes the hearing.

        Raises:
            Refused: 400 for an option the model cannot honour, 429 when it has no free sequence.
        """
        model = self.model().model
        opening: Future[Listener] = self._pool.submit(model.listener, options)
        try:
            hearing = Hearing(self._pool, await asyncio.shield(asyncio.wrap_future(opening)))
        except asyncio.CancelledError:
            # The client left while its listener was being made: nobody else will close it.
            opening.add_done_callback(_close_unused)
            raise
        except OptionError as error:
            raise Refused(400, "invalid_option", str(error), param=error.field) from None
        except Busy:
            raise Refused(429, "sessions", "all sequences of the model are taken", retry_after=5) from None
        self._hearings.add(hearing)
        return hearing


def _close_unused(opening: "Future[Listener]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
