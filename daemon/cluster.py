"""The daemon on many machines: the same ASGI application as a deployment of Ray Serve (extra ``cluster``).

Ray starts replicas, counts them and passes requests on. Ours is what it asks: how many places are free
(:class:`Replica` tells, ``daemon.cluster_policy`` decides), and that who leaves drains as a daemon does. What Ray's
proxies do not hold, the size of a message and a proxy that dies, is held here.
"""

import asyncio
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon import paths
from daemon.answer import json
from daemon.app import create_app
from daemon.config import ConfigError, Settings
from daemon.hub import Hub

APP: Final = "hearsay"
_BOARD: Final = "hearsay-board"
_ROOMS: Final = Path(__file__).resolve().parent.parent
_TELL_SECONDS: Final = 1.0
"""Seconds between two reports of a replica."""
_STALE_SECONDS: Final = 10.0
"""A replica that has not reported for so many seconds is gone: ten reports are missing then."""
_OTHERS: Final = 64
"""Requests of a replica at the same time that hold no slot, such as those for its metrics."""


class NoRay(RuntimeError):
    """Ray Serve is not installed; the message says how to get it."""


class NotStarted(RuntimeError):
    """The replicas do not start; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many replicas there are at least and at most, how many CPUs each reserves, and how long too many are kept."""

    least: int
    most: int
    cpus: float
    downscale_seconds: float

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most <= 4096:
            raise ConfigError(
                f"replicas, max_replicas: {self.least}, {self.most} is not 1 ≤ replicas ≤ max_replicas ≤ 4096"
            )
        if not 0 < self.cpus <= 256:
            raise ConfigError(f"cpus: {self.cpus:g} lies outside 0…256")


@dataclass(frozen=True, slots=True)
class Report:
    """What a replica tells the others: ``headroom``, the sessions that it can still hear, and ``text``, its own
    /metrics."""

    ready: bool
    speaking: bool
    headroom: int
    text: str


class Board:
    """The place where replicas leave their reports, and read those of all: an actor of Ray."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, Report]] = {}

    def exchange(self, name: str, report: Report) -> dict[str, Report]:
        """Leave a report, and return those of all replicas that are not stale."""
        now = time.monotonic()
        self._told[name] = (now, report)
        self._told = {one: kept for one, kept in self._told.items() if now - kept[0] < _STALE_SECONDS}
        return {one: report for one, (_, report) in sorted(self._told.items())}


class Merged(Collector):
    """The metrics of all replicas, each series with the label ``replica``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def collect(self) -> list[Metric]:
        """The families of all replicas, those of the same name joined."""
        families: dict[str, Metric] = {}
        for name, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    whole.samples.append(sample._replace(labels={**sample.labels, "replica": name}))
        return list(families.values())

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


class Replica:
    """One daemon without its sockets, which Ray calls. It is made on the event loop that its sessions run on."""

    def __init__(self, settings: Settings) -> None:
        self.hub: Final = Hub(settings)
        self.hub.jobs.taken_here = False
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[None]]()
        self._all: dict[str, Report] = {}
        ray: Any = importlib.import_module("ray")
        serve: Any = importlib.import_module("ray.serve")
        self._name: str = serve.get_replica_context().replica_id.unique_id
        self._board: Any = ray.get_actor(_BOARD, namespace=APP)
        _when_leaving(lambda: self._loop.call_soon_threadsafe(self._begin, self._drain()))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """The daemon's application. Asked how it is, it answers for all replicas."""
        self._begin(self._report())
        return _held(
            create_app(self.hub.settings, self.hub, {paths.READYZ: self._readyz, paths.METRICS: self._metrics}),
            self.hub.settings,
        )

    async def check_health(self) -> None:
        """Raise where Ray is to start another replica in place of this one.

        Raises:
            RuntimeError: the models cannot be loaded, or a call to them hangs.
        """
        if not await self.hub.ready():
            raise RuntimeError(f"the model could not be loaded: {self.hub.failure}")
        if self.hub.stalled:
            raise RuntimeError("a call to the model hangs")

    def record_routing_stats(self) -> dict[str, Any]:
        """The free places, for the router."""
        return {"headroom": self._headroom}

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The sessions that are heard and the places for them, for the autoscaler."""
        return {"live": float(self.hub.listeners.taken), "headroom": float(self._headroom)}

    @property
    def _ready(self) -> bool:
        return self.hub.models is not None and not self.hub.draining and not self.hub.stalled

    @property
    def _headroom(self) -> int:
        return self.hub.headroom if self._ready else 0

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self) -> None:
        """Report to the others, again and again."""
        while True:
            hub = self.hub
            speaking = hub.models is not None and hub.models.speaking is not None
            mine = Report(self._ready, speaking, self._headroom, hub.metrics.text().decode())
            try:
                self._all = await self._board.exchange.remote(self._name, mine)
            except Exception:  # Ray raises many kinds of errors where the board is away; it comes again.
                self._all = {self._name: mine}
            await asyncio.sleep(_TELL_SECONDS)

    async def _drain(self) -> None:
        """Drain as a daemon does: no new work is taken, and what is left at the deadline is worked off and sent
        away."""
        hub = self.hub
        hub.drain()
        deadline = time.monotonic() + hub.settings.drain_seconds
        while hub.taken:
            hub.send_away(deadline)
            await asyncio.sleep(0.1)

    def _readyz(self, hub: Hub, request: Request) -> Response:
        del hub, request
        ready = [report for report in self._all.values() if report.ready]
        if not ready:
            return json({"status": "loading", "replicas": 0}, 503)
        speaking, headroom = any(report.speaking for report in ready), sum(report.headroom for report in ready)
        return json({"status": "ready", "speaking": speaking, "headroom": headroom, "replicas": len(ready)}, 200)

    def _metrics(self, hub: Hub, request: Request) -> Response:
        del hub, request
        text = Merged({name: report.text for name, report in self._all.items()}).text()
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


def _when_leaving(call: Callable[[], object]) -> None:
    """``call`` when Ray begins to stop this process's replica. Ray tells user code only when all requests have ended,
    which a session that is to be sent away does not by itself."""
    theirs: Any = importlib.import_module("ray.serve._private.replica").Replica
    stop = theirs.perform_graceful_shutdown

    async def stopping(replica: Any) -> None:
        call()
        await stop(replica)

    theirs.perform_graceful_shutdown = stopping


def _held(app: ASGIApp, settings: Settings) -> ASGIApp:
    """``app`` behind proxies that take messages of 16 MiB, and raise Ray's errors where they die."""

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        async def taken() -> Message:
            try:
                message = await receive()
            except Exception:  # Ray raises many kinds of errors.
                return {
                    "type": "websocket.disconnect" if scope["type"] == "websocket" else "http.disconnect",
                    "code": 1006,
                }
            if message["type"] == "websocket.receive":
                data = message.get("bytes") or (message.get("text") or "").encode()
                if len(data) > settings.max_frame_bytes:
                    await send(
                        {
                            "type": "websocket.close",
                            "code": 1009,
                            "reason": f"more than {settings.max_frame_bytes} bytes",
                        }
                    )
                    return {"type": "websocket.disconnect", "code": 1009}
            return message

        await app(scope, receive if scope["type"] == "lifespan" else taken, send)

    return held


def deploy(settings: Settings, plan: Plan, ready: Callable[[str], None]) -> None:
    """Start Ray here, or use the cluster that RAY_ADDRESS names, and deploy; returns when that is interrupted.

    Raises:
        ConfigError: a setting that Ray's proxies do not honour.
        NoRay: it is not installed.
        NotStarted: the replicas do not start.
    """
    for name, why in (
        ("wyoming_port", "Ray Serve passes on HTTP alone"),
        ("audiosocket_port", "Ray Serve passes on HTTP alone"),
        ("tls_certificate", "end TLS before Ray's proxies"),
    ):
        if getattr(settings, name):
            raise ConfigError(f"{name}: not in a cluster; {why}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Without this Ray reports its use to its makers.
    try:
        ray: Any = importlib.import_module("ray")
        serve: Any = importlib.import_module("ray.serve")
        schema: Any = importlib.import_module("ray.serve.config")
    except ImportError as error:
        raise NoRay(f"Ray Serve is not installed ({error.name}): pip install 'ray[serve]==2.60.*'") from None
    handed = {
        name: value for name, value in os.environ.items() if name.startswith("HEARSAY_") or name == "XDG_DATA_HOME"
    }
    ray.init(
        address=os.environ.get("RAY_ADDRESS", "local"), namespace=APP, include_dashboard=False,
        log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {**handed, "PYTHONPATH": str(_ROOMS)}},
    )  # fmt: skip
    try:
        board = ray.remote(Board).options(name=_BOARD, num_cpus=0, get_if_exists=True).remote()
        serve.start(http_options={"host": settings.host, "port": settings.port, "location": "EveryNode"})
        threads = settings.threads or max(1, round(plan.cpus))
        deployment = serve.deployment(serve.ingress()(Replica)).options(
            name=APP,
            max_ongoing_requests=settings.sessions + settings.speakers + _OTHERS,
            ray_actor_options={"num_cpus": plan.cpus},
            graceful_shutdown_timeout_s=settings.drain_seconds + 2 * settings.stall_seconds,
            health_check_timeout_s=settings.stall_seconds,
            request_router_config=schema.RequestRouterConfig(
                request_router_class="daemon.cluster_policy:ByHeadroom", request_routing_stats_period_s=_TELL_SECONDS
            ),
            autoscaling_config=schema.AutoscalingConfig(
                min_replicas=plan.least, max_replicas=plan.most, metrics_interval_s=_TELL_SECONDS,
                look_back_period_s=5 * _TELL_SECONDS, upscale_delay_s=2 * _TELL_SECONDS,
                downscale_delay_s=plan.downscale_seconds,
                policy=schema.AutoscalingPolicy(policy_function="daemon.cluster_policy:wanted"),
            ),
        )  # fmt: skip
        try:
            serve.run(deployment.bind(replace(settings, threads=threads)), name=APP, route_prefix="/")
        except RuntimeError as error:
            raise NotStarted(f"the replicas do not start: {error}") from None
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has set a handler that exits at once.
        ready(f"http://{settings.host}:{settings.port}")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
        with suppress(KeyboardInterrupt):  # A second signal ends at once.
            serve.delete(APP, _blocking=False)  # Replicas drain, and proxies pass on what they still say.
            while APP in serve.status().applications:
                time.sleep(0.5)
        serve.shutdown()
        del board
    finally:
        ray.shutdown()
