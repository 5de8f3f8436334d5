"""What the daemon counts. Every daemon has a registry of its own, so that two in one process never share a number."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from codec.model import TtsModel
from streaming.events import Transcript

disable_created_metrics()  # By default there is a second time series for each counter, which nobody asked for.

_LAG = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The bounds of the histograms' buckets in seconds: fine where a person notices, coarse where a queue is long."""


class Metrics:
    """Counters, gauges and histograms of one daemon, named ``hearsay_*`` in Prometheus' text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        ProcessCollector(registry=r)
        self.ready = Gauge("hearsay_ready", "1 while models are loaded and the daemon is not draining.", registry=r)
        self.draining = Gauge("hearsay_draining", "1 after the first SIGTERM.", registry=r)
        self.capacity = Gauge("hearsay_session_capacity", "Sessions that fit at the same time.", registry=r)
        self.headroom = Gauge(
            "hearsay_session_headroom", "More sessions that would be heard live, by measured speed.", registry=r
        )
        self.speakers = Gauge("hearsay_speaker_capacity", "Texts that can be spoken at the same time.", registry=r)
        self.sessions = Gauge("hearsay_sessions", "Sessions open now.", ["path"], registry=r)
        self.opened = Counter("hearsay_sessions_opened", "Sessions begun.", ["path"], registry=r)
        self.audio = Counter("hearsay_audio_seconds", "Seconds of audio heard.", ["path"], registry=r)
        self.unheard = Gauge(
            "hearsay_unheard_seconds", "Audio that arrived and waits, all streams together.", registry=r
        )
        self.outbound = Gauge(
            "hearsay_outbound_bytes", "Messages that wait for their clients, all streams together.", registry=r
        )
        self.oldest_call = Gauge(
            "hearsay_oldest_call_seconds", "Age of the oldest call to the model in flight.", registry=r
        )
        self.interims = Counter("hearsay_interims", "Revisable transcripts.", ["path"], registry=r)
        self.coalesced = Counter(
            "hearsay_interims_coalesced", "Interims replaced by newer ones before sending.", registry=r
        )
        self.finals = Counter("hearsay_finals", "Final transcripts.", ["path"], registry=r)
        self.words = Counter("hearsay_final_words", "Words of final transcripts.", ["path"], registry=r)
        self.retracted = Counter("hearsay_retracted_words", "Committed words that a final took back.", registry=r)
        self.interim_lag = Histogram(
            "hearsay_interim_lag_seconds", "Arrival of the newest audio of an interim → the interim.",
            buckets=_LAG, registry=r,
        )  # fmt: skip
        self.final_lag = Histogram(
            "hearsay_final_lag_seconds", "Arrival of the audio, or Finalize, that made a final due → the final.",
            buckets=_LAG, registry=r,
        )  # fmt: skip
        self.spoken = Counter("hearsay_spoken_seconds", "Seconds of audio spoken.", ["path"], registry=r)
        self.first_audio = Histogram(
            "hearsay_first_audio_seconds", "Text for a speaker that was silent → its first audio.",
            buckets=_LAG, registry=r,
        )  # fmt: skip
        self.denials = Counter("hearsay_denials", "Requests refused.", ["code"], registry=r)
        self.closes = Counter(
            "hearsay_closes", "Streams ended, by close code; 1006: the client vanished.", ["code"], registry=r
        )
        self.requests = Counter("hearsay_requests", "HTTP responses.", ["path", "status"], registry=r)

        self._watched: set[tuple[Callable[[], float], Callable[[], float]]] = set()
        self.unheard.set_function(lambda: sum(unheard() for unheard, _ in tuple(self._watched)))
        self.outbound.set_function(lambda: sum(outbound() for _, outbound in tuple(self._watched)))

    def watch_work(self, model: TtsModel) -> None:
        """Show what the speaking model does from now on."""
        self.registry.register(_Work(model))

    @contextmanager
    def watch(self, unheard: Callable[[], float], outbound: Callable[[], float]) -> Generator[None]:
        """Show a stream's queues in the gauges for as long as the block lasts."""
        entry = (unheard, outbound)
        self._watched.add(entry)
        try:
            yield
        finally:
            self._watched.discard(entry)

    def count(self, path: str, transcript: Transcript, late: float) -> None:
        """Count a transcript that came ``late`` seconds after the newest audio it depends on."""
        if transcript.is_final:
            self.finals.labels(path).inc()
            self.words.labels(path).inc(len(transcript.words))
            self.retracted.inc(transcript.retracted_words)
            self.final_lag.observe(late)
        else:
            self.interims.labels(path).inc()
            self.interim_lag.observe(late)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Work(Collector):
    """A speaking model's own counters, read when they are asked for."""

    def __init__(self, model: TtsModel) -> None:
        self._model = model

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' registry."""
        work = self._model.work
        for name, help, value in (
            ("spoken_pieces", "Sentences, or parts of very long ones, begun.", work.pieces),
            ("spoken_frames", "Frames of 80 ms made.", work.frames),
            ("dropped_frames", "Frames made and then forgotten because of a Clear.", work.frames_dropped),
            ("speech_stalls", "Times a speaker stood because its text was late.", work.stalls),
            ("speech_clears", "Clears answered.", work.clears),
        ):
            yield CounterMetricFamily(f"hearsay_{name}", help, value=value)
        stops = CounterMetricFamily("hearsay_speech_guard_stops", "Pieces ended by a guard.", labels=["guard"])
        for guard in ("budget", "silence", "repetition", "cap"):
            stops.add_metric([guard], getattr(work, f"{guard}_stops"))
        yield stops
