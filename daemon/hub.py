"""What all protocols share: it holds models, slots and worker threads, and knows whether the daemon takes work at all.

The models are loaded in a thread, so that ``/healthz`` answers meanwhile. A *slot* is the right to one session: there
are ``settings.sessions`` of them for hearing and ``settings.speakers`` for speaking, and the gate hands them out before
a request reaches its protocol.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, Final, TypeVar

from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker
from daemon import slots
from daemon.client_secrets import ClientSecrets
from daemon.config import Settings
from daemon.ears import Ears
from daemon.floor import Floor
from daemon.jobs import Jobs
from daemon.loading import Loaded, Models, load_models
from daemon.metrics import Metrics
from daemon.names import is_voice_alias, taken_voice
from daemon.paths import Endpoint, Kind
from daemon.refusal import Refused
from daemon.slots import Slots
from daemon.workers import Closable, SessionWorker, opened
from engines.sessions import Busy, OptionError
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.people import People

T = TypeVar("T")

log: Final = logging.getLogger("hearsay.hub")
S = TypeVar("S", bound=Closable)

_WARM_SECONDS: Final = 1.0
"""How long the models may warm up before work is taken: a large one's first session has it a little slower then."""
_LEAVING_SECONDS: Final = 3.0
"""Once sessions are told to leave: how long one message, and what waits with it, may wait for a client to read."""
_LAST_SECONDS: Final = 1.0
"""And each message after that."""
_MOST_WARNED: Final = 100
_LOOK_SECONDS: Final = 0.05
"""How often it looks whether the machine has room."""


class Hub:
    """State of one daemon. Made before the event loop runs; ``start`` and ``stop`` are called on it.

    Args:
        settings: of the daemon.
        loader: what loads the models; tests that share models among daemons hand in theirs.
        owns_models: close the models in ``stop``.
    """

    def __init__(
        self, settings: Settings, loader: Callable[[Settings], Models] = load_models, *, owns_models: bool = True
    ) -> None:
        self.settings: Final = settings
        self.metrics: Final = Metrics()
        self.models: Models | None = None
        self.failure: Exception | None = None
        self.draining = False
        self.listeners, self.speakers = Slots(settings.sessions, "sessions"), Slots(settings.speakers, "speakers")
        full = "all {} files at a time are being heard (half of the setting sessions)"
        self.files = Slots(max(1, settings.sessions // 2), "sessions", full)
        """A file also holds one of these, so that uploads leave slots to live sessions."""
        self.floor: Final = Floor()
        self._sending: set[asyncio.Timeout] = set()
        """Clocks of what is being sent."""
        self._leave_at = float("inf")
        """``time.monotonic()`` at which sessions were told to leave."""
        self.client_secrets: Final = ClientSecrets()
        self.jobs: Final = Jobs()
        self.people: Final = People()
        self._calls = set[asyncio.Task[None]]()
        """Those that outlive the request by which they began."""
        self.leave = asyncio.Event()
        """Set when the drain deadline passes: sessions work off what they have and close with 1012."""
        self.cut = asyncio.Event()
        """Set if nothing moves while the daemon stops: sessions then end and tell what is lost."""
        self.lost = 0
        """How many sessions ended without having heard or spoken all that had arrived."""
        self.moved_at = time.monotonic()
        """``time.monotonic()`` at which a call of any session came back last."""
        self._loader, self._owns = loader, owns_models
        # Each session is opened, closed, or has something encoded or checked: one of it at a time, beside a close.
        self._pool = ThreadPoolExecutor(2 * (settings.sessions + settings.speakers) + 2, "hearsay-worker")
        self.ears: Final = Ears("hearsay-ears")
        """Where streams of raw audio hear."""
        self._decoding = [Ears(f"hearsay-decoding-{number}") for number in (1, 2)]
        self.decoding: Final = cycle(self._decoding)
        """Where those of containers do, in turn: one that takes FFmpeg long holds up none of raw audio."""
        self._loading: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._admitted = 0
        """Live sessions that were let in and have not ended."""
        self._warned: set[str] = set()
        """What the log has told of what clients ask for in vain."""
        self.metrics.oldest_call.set_function(self.oldest_call)
        self.metrics.capacity.set(settings.sessions)
        self.metrics.speakers.set(settings.speakers)

    @property
    def taken(self) -> int:
        """Slots taken now, of both kinds."""
        return self.listeners.taken + self.speakers.taken

    async def start(self) -> None:
        """Begin to load the models; returns at once."""
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            models = await self.run(partial(self._loader, self.settings))
        except Exception as error:  # The daemon's start tells of it and ends.
            self.failure = error
            return
        self._warming = asyncio.create_task(self._warm(models))
        await asyncio.wait((self._warming,), timeout=_WARM_SECONDS)
        if self.failure is not None:
            return
        self.models = models
        self.metrics.ready.set(1)
        self.metrics.headroom.set_function(lambda: self.headroom if self.models is not None else 0)
        if models.speaking is not None:
            self.metrics.watch_work(models.speaking.model)

    async def _warm(self, models: Models) -> None:
        try:
            await self.run(models.warm)
        except Exception as error:
            self.failure = error

    async def warm(self) -> bool:
        """Wait until the models are warm (True), or could not be, or were closed meanwhile (False)."""
        assert self._warming is not None, "ready() comes first"
        await asyncio.shield(self._warming)
        return self.models is not None and not self.models.warming

    async def ready(self) -> bool:
        """Wait until the models are loaded (True) or cannot be (False)."""
        assert self._loading is not None, "start() comes first"
        await asyncio.shield(self._loading)
        return self.models is not None

    def drain(self) -> None:
        """Take no new work from now on. Idempotent; thread-safe."""
        self.draining = True
        self.metrics.draining.set(1)
        self.metrics.ready.set(0)

    def send_away(self, deadline: float) -> None:
        """Of a drain, asked again and again: from ``deadline`` on (time.monotonic) sessions are to leave, and where
        nothing moves for ``stall_seconds`` after it they are cut."""
        now = time.monotonic()
        if now >= deadline and not self.leave.is_set():
            self.leave.set()
            self._leave_at, loop = now, asyncio.get_running_loop()
            for limit in self._sending:
                limit.reschedule(min(limit.when() or loop.time(), loop.time() + _LEAVING_SECONDS))
        if now >= deadline:
            if now - max(deadline, self.moved_at) >= self.settings.stall_seconds:
                self.cut.set()

    @asynccontextmanager
    async def in_time(self, seconds: float | None = None) -> AsyncGenerator[None]:
        """The block sends something to a client, for at most ``seconds``, or else ``send_timeout_seconds``. Where the
        daemon goes, a client that takes nothing is not waited for that long.

        Raises:
            TimeoutError: it takes longer.
        """
        most = self.settings.send_timeout_seconds if seconds is None else seconds
        late = self._leave_at + _LEAVING_SECONDS - time.monotonic()
        async with asyncio.timeout(min(most, max(late, _LAST_SECONDS))) as limit:
            self._sending.add(limit)
            try:
                yield
            finally:
                self._sending.discard(limit)

    async def stop(self) -> None:
        """Release models and threads. Sessions must have ended."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self.jobs.stop()
        if self._loading is not None:
            await self._loading
        models, self.models = self.models, None
        if models is not None and self._owns:
            await self.run(models.close)
        if self._warming is not None:
            await self._warming
        self._pool.shutdown(wait=True)
        for ears in (self.ears, *self._decoding):
            ears.close()

    def begin(self, call: Coroutine[Any, Any, None]) -> None:
        """Run ``call`` in a task of its own."""
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def run(self, call: Callable[[], T]) -> T:
        """``call()`` in a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def oldest_call(self) -> float:
        """Seconds since the oldest call to a model that is in flight began; 0 without one."""
        if (models := self.models) is None:
            return 0.0
        lanes = [model.model.engine.lane for model in (models.hearing, models.speaking) if model is not None]
        return max(lane.oldest for lane in lanes)

    @property
    def stalled(self) -> bool:
        """Whether one call to a model takes longer than any should."""
        return self.oldest_call() > self.settings.stall_seconds

    def loaded(self) -> Models:
        """The loaded models.

        Raises:
            Refused: 503 while they are being loaded, or could not be.
        """
        if self.models is None:
            reason = f"the model could not be loaded: {self.failure}" if self.failure else "the model is being loaded"
            raise Refused(503, "not_ready", reason, retry_after=2)
        return self.models

    def hearing_model(self) -> Loaded[AsrModel]:
        """The hearing model.

        Raises:
            Refused: as :meth:`loaded`.
        """
        return self.loaded().hearing

    def speaking_model(self) -> Loaded[TtsModel]:
        """The speaking model.

        Raises:
            Refused: as :meth:`loaded`; 404 where there is none.
        """
        speaking = self.loaded().speaking
        if speaking is None:
            raise Refused(404, "no_speaking_model", "no speaking model is loaded (tts_model)")
        return speaking

    @asynccontextmanager
    async def slot(self, endpoint: Endpoint, *, live: bool = True) -> AsyncGenerator[None]:
        """A slot of the kind that ``endpoint`` needs, for the duration of a request.

        Args:
            live: what is heard comes as it is spoken; else it is a file, which never keeps a live session out.

        Raises:
            Refused: 503 while draining, loading or stalled, 404 without a speaking model, 429 when all slots are taken,
                or for live hearing when the machine would not keep one more session live.
        """
        if self.draining:
            raise Refused(503, "draining", "the daemon is shutting down", retry_after=5)
        if self.stalled:
            raise Refused(503, "stalled", "a call to the model hangs (stall_seconds)", retry_after=5)
        if endpoint.kind is Kind.SPEAKING:
            held = self.speaking_slot()
        else:
            held = self.hearing_slot() if live else self._file_slot()
        async with held:
            self.metrics.sessions.labels(endpoint.path).inc()
            self.metrics.opened.labels(endpoint.path).inc()
            try:
                yield
            finally:
                self.metrics.sessions.labels(endpoint.path).dec()

    @asynccontextmanager
    async def _file_slot(self) -> AsyncGenerator[None]:
        """A slot for a file, whatever room there is: it is heard in the time that live sessions leave.

        Raises:
            Refused: 429 when all slots, or all of files, are taken.
        """
        self.hearing_model()
        await self.files.take()
        try:
            await self.listeners.take()
            try:
                yield
            finally:
                self.listeners.give_back()
        finally:
            self.files.give_back()

    @asynccontextmanager
    async def hearing_slot(self) -> AsyncGenerator[None]:
        """A slot for live hearing; also one more for each further channel of a session.

        Raises:
            Refused: 429 when all slots are taken, or the machine would not keep one more session live.
        """
        self.hearing_model()
        await self.listeners.take()
        try:
            await self._admit()
            try:
                yield
            finally:
                self._admitted -= 1
        finally:
            self.listeners.give_back()

    @asynccontextmanager
    async def speaking_slot(self) -> AsyncGenerator[None]:
        """A slot for speaking; also for a session that already has one for hearing.

        Raises:
            Refused: 404 without a speaking model, 429 when all slots are taken.
        """
        self.speaking_model()
        await self.speakers.take()
        try:
            yield
        finally:
            self.speakers.give_back()

    @property
    def headroom(self) -> int:
        """How many more sessions would be let in and heard live, by the measured speed of this machine."""
        return max(0, min(self._room, self.listeners.capacity - self.listeners.taken))

    @property
    def _room(self) -> int:
        """What the model has, without live sessions that were let in and have no listener yet."""
        model = self.hearing_model().model
        return model.headroom - max(0, self._admitted - (model.live - model.files))

    async def _admit(self) -> None:
        """Let a session in that has taken its slot.

        Raises:
            Refused: 429, the machine would not keep it live, and does not for a moment.
        """
        deadline = time.monotonic() + slots.PATIENCE_SECONDS
        while self._room < 1:
            if time.monotonic() >= deadline:
                busy = "this machine hears as many sessions as it keeps live"
                raise Refused(429, "headroom", busy, retry_after=5)
            await asyncio.sleep(_LOOK_SECONDS)
        self._admitted += 1

    async def hear(
        self, options: ListenOptions, names: Mapping[str, str], *, live: bool = True
    ) -> SessionWorker[Listener]:
        """Open a listener. The caller holds a slot and closes the worker.

        Args:
            names: of options that the caller's protocol calls something else.
            live: as in :meth:`slot`.

        Raises:
            Refused: 400 for an option the model cannot honour, 429 when it has no free sequence.
        """
        model = self.hearing_model().model

        def listener() -> Listener:
            stored = self.people.all() if options.speakers else ()
            # Whoever asks calls people as they like, whatever those are called here.
            others = (one for one in stored if not any(one.is_like(known) for known in options.known))
            return model.listener(replace(options, known=(*options.known, *others)), live=live)

        try:
            worker = self._worker(await opened(self._pool, listener))
        except OptionError as error:
            name = names.get(error.field, error.field)
            raise Refused(400, "invalid_option", f"{name}: {error.reason}", param=name) from None
        except Busy:
            raise Refused(429, "sessions", "all sequences of the model are taken", retry_after=5) from None
        return worker

    async def speak(self, options: SpeakOptions, told: list[str] | None = None) -> SessionWorker[Speaker]:
        """Open a speaker. The caller holds a slot and closes the worker; ``told`` gets a warning for each option that
        another server would have honoured.

        Raises:
            Refused: as :meth:`hear`.
        """
        model = self.speaking_model().model
        if options.pauses is None:
            options = replace(options, pauses=self.settings.pauses)
        try:
            warnings: list[str] = []
            presets = model.voices.presets
            making = partial(_tolerant, model.speaker, options, presets, self.settings.strict, warnings)
            worker = self._worker(await opened(self._pool, making))
        except OptionError as error:
            raise Refused(400, "invalid_option", str(error), param=error.field) from None
        except Busy:
            raise Refused(429, "speakers", "all sequences of the model are taken", retry_after=5) from None
        for warning in warnings:
            if warning not in self._warned and len(self._warned) < _MOST_WARNED:
                self._warned.add(warning)
                log.warning("%s (told once%s)", warning, "" if self.settings.strict else "; `strict` refuses it")
        if told is not None:
            told += warnings
        return worker

    async def check_voice(self, options: SpeakOptions) -> None:
        """
        Raises:
            Refused: 404 where there is no speaking model.
            OptionError: :meth:`speak` would not find the voice.
        """
        voices = self.speaking_model().model.voices

        def find(asked: SpeakOptions) -> object:
            return voices.find(asked.voice)

        await self.run(partial(_tolerant, find, options, voices.presets, self.settings.strict, []))

    def _worker(self, session: S) -> SessionWorker[S]:
        return SessionWorker(self._pool, session, self._moved)

    def _moved(self) -> None:
        self.moved_at = time.monotonic()


def _tolerant(
    make: Callable[[SpeakOptions], T],
    options: SpeakOptions,
    presets: Collection[str],
    strict: bool,
    warnings: list[str],
) -> T:
    """``make(options)``, with what is here for what others would have. In a worker thread: voices lie on disk.

    A name that clients of other servers send unasked means the first voice here, unless it is one of the model's
    ``presets``: whoever may store a voice must not become what everybody hears. Any other name of theirs means that
    only where no voice has it.
    """
    voice = options.voice or ""
    if taken_voice(voice, strict=strict) is not None and voice.lower() not in presets:
        options = _with_first(options, warnings)
    while True:
        try:
            return make(options)
        except OptionError as error:
            if error.field == "voice" and options.voice and is_voice_alias(options.voice, strict=strict):
                options = _with_first(options, warnings)
            elif error.field == "instructions" and options.instructions and not strict:
                warnings.append(str(error))
                options = replace(options, instructions=None)
            else:
                raise


def _with_first(options: SpeakOptions, warnings: list[str]) -> SpeakOptions:
    voice = options.voice or ""
    if voice.lower() != "default":
        warnings.append(f"voice: {voice[:80]!a} is the first voice here")
    return replace(options, voice=None)
