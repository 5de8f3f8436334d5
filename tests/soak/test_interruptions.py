"""Five hundred interruptions of speech: is anything left behind, and is the engine free at once?"""

import random
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from codec.events import AudioChunk, Cleared, Event
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker
from engines.lane import Cancelled, Steps
from engines.store import find

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and then it runs away into the forest. ",
    "On March 3, 2024 it cost $5.50. ",
    "Hi. ",
    "word " * 200,
    "…",
)
SESSIONS, ROUNDS = 5, 100
CALLS = 2
"""Most calls of the engine that a session begins after a clear: the frame for which it has just looked, and, if that
was a group's last, the codec's."""

Begun = Counter[Speaker]
"""Calls of the engine that each session has asked for."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Counts from now on."""
    counts, steps = Begun(), Speaker.steps

    def counting(speaker: Speaker, *arguments: Any, **options: Any) -> Steps[list[Event]]:
        work, result = steps(speaker, *arguments, **options), None
        with closing(work):
            while True:
                try:
                    call = work.send(result)
                except StopIteration as end:
                    return end.value
                counts[speaker] += 1
                result = yield call

    monkeypatch.setattr(Speaker, "steps", counting)
    return counts


@pytest.fixture
def model(tmp_path: Path) -> TtsModel:
    """The embedded speaking model."""
    return TtsModel(find("pocket-tts-en"), sessions=SESSIONS, voices=tmp_path)


class Client(threading.Thread):
    """Says things and interrupts itself; another thread of its own drives the session."""

    def __init__(self, model: TtsModel, begun: Begun, seed: int) -> None:
        super().__init__()
        self.model, self.begun, self.random = model, begun, random.Random(seed)
        self.waits: list[float] = []
        self.calls: list[int] = []
        """Of each clear: seconds to its Cleared, and calls of the engine begun meanwhile."""
        self.old_audio = 0
        """Chunks that came after the Cleared which should have stopped them."""

    def run(self) -> None:
        speaker = self.session()
        for turn in range(ROUNDS):
            speaker.say(self.random.choice(TEXTS))
            if self.random.random() < 0.3:
                speaker.flush()
            time.sleep(self.random.random() * 0.05)
            if self.random.random() < 0.2:
                speaker.close()
                self.driver.join(10)
                speaker = self.session()
                continue
            self.cleared.clear()
            asked = time.perf_counter()
            speaker.clear()
            before = self.begun[speaker]
            assert self.cleared.wait(120), f"turn {turn}: no Cleared"
            self.waits.append(time.perf_counter() - asked)
            self.calls.append(self.begun[speaker] - before)
        speaker.close()
        self.driver.join(10)
        assert not self.driver.is_alive()

    def session(self) -> Speaker:
        speaker = self.model.speaker(SpeakOptions(seed=self.random.randrange(1000), speed=self.random.choice([1, 1.5])))
        self.cleared = threading.Event()
        self.driver = threading.Thread(target=self.drive, args=(speaker, self.cleared))
        self.driver.start()
        return speaker

    def drive(self, speaker: Speaker, cleared: threading.Event) -> None:
        try:
            while True:
                seen = False
                for event in speaker.step(buffered=self.random.random()):
                    if isinstance(event, Cleared):
                        seen = True
                        cleared.set()
                    elif seen and isinstance(event, AudioChunk):
                        self.old_audio += 1
                speaker.wait(1.0)
        except Cancelled:
            return


def test_five_hundred_interruptions_leave_nothing_behind(model: TtsModel, begun: Begun) -> None:
    """Clears and closes at random moments, five sessions at once; then the model speaks as it did before.

    How long a clear waits is printed: shared machines have pauses of their own.
    """
    process = psutil.Process()

    def spoken() -> list[bytes]:
        speaker = model.speaker(SpeakOptions(seed=1))
        speaker.say("Good morning to all of you.")
        speaker.finish()
        audio = [e.samples.tobytes() for e in speaker.events() if isinstance(e, AudioChunk)]
        speaker.close()
        return audio

    before, threads, files = spoken(), threading.active_count(), len(process.open_files())
    memory = process.memory_info().rss
    clients = [Client(model, begun, seed) for seed in range(SESSIONS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(600)
        assert not client.is_alive()
    waits = sorted(wait for client in clients for wait in client.waits)
    calls = Counter(count for client in clients for count in client.calls)
    grown = (process.memory_info().rss - memory) / 2**20
    median, late = waits[len(waits) // 2] * 1e3, waits[len(waits) * 99 // 100] * 1e3
    print(f"\n{len(waits)} clears: median {median:.0f} ms, 99 % {late:.0f} ms; resident +{grown:.0f} MiB; {model.work}")
    print(f"calls of the engine begun after a clear: {dict(sorted(calls.items()))}")
    assert max(calls) <= CALLS
    assert sum(client.old_audio for client in clients) == 0
    assert (model.live, model.engine.taken) == (0, 0)
    assert (threading.active_count(), len(process.open_files())) == (threads, files)
    assert grown < 100
    assert model.engine.lane.waiting == 0
    assert spoken() == before
    model.close()
