"""The load that the daemon lets in, through all doors, for a long time: nobody is lost or late, nothing grows."""

import asyncio
import base64
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import psutil
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon.wyoming.connection import AudioChunk, AudioStart, AudioStop, Ping, Synthesize, Transcribe
from tests.clips import Clip
from tests.daemon.chat_server import ChatServer
from tests.daemon.process import process
from tests.daemon.realtime import at_24_khz, session
from tests.daemon.support import HTTP, PATIENT, RATE, SHORT, Client, Speech, Voice, eventually, finals, free_port, tell
from tests.daemon.wyoming.conftest import Client as WyomingClient

MINUTES = float(os.environ.get("HEARSAY_SOAK_MIXED_MINUTES", "30"))
LATE_SECONDS = float(os.environ.get("HEARSAY_SOAK_MIXED_LATE_SECONDS", "3"))
"""Within which 95 % of all interims of live streams come; more only where other work is on the machine."""
PIECE = RATE // 10 * 2
GROWTH = 40_000_000
"""Bytes of resident memory that the process may grow after the first quarter: allocator noise of 30 minutes."""
OTHERS = 4
"""Streams that are heard beside the live ones: of turns, of a conversation, of Wyoming, and a file."""


class Full(Exception):
    """The daemon has no place."""


class Work:
    """What clients do with one daemon. Every method is a client from its first byte to its last."""

    def __init__(self, url: str, wyoming_port: int, speech: Speech) -> None:
        self._url, self._port, self._speech = url, wyoming_port, speech
        self._expected = finals(Client(url).transcribe(speech.pcm))
        self._expected_turns = self._turns(paced=False)
        self._conversed = at_24_khz(speech.pcm + bytes(2 * RATE))
        self.lateness = list[float]()
        """Seconds from the moment that an interim's audio was sent till it came."""

    def live(self) -> None:
        """Captions at the pace of speech."""
        pcm, heard = self._speech.pcm, list[dict[str, Any]]()
        with Client(self._url).open(interim_results=True) as socket:
            began = time.monotonic()

            def read() -> None:
                for text in socket:
                    message = json.loads(text)
                    heard.append(message)
                    if message["type"] == "Results" and not message["is_final"]:
                        end = message["start"] + message["duration"]
                        self.lateness.append(time.monotonic() - began - end)

            reading = threading.Thread(target=read)
            reading.start()
            for start in range(0, len(pcm), PIECE):
                time.sleep(max(0.0, began + (start + PIECE) / (2 * RATE) - time.monotonic()))
                socket.send(pcm[start : start + PIECE])
            socket.send('{"type": "CloseStream"}')
            reading.join()
            assert (socket.close_code, finals(heard)) == (1000, self._expected)

    def turns(self) -> None:
        """/v2/listen."""
        assert self._turns(paced=True) == self._expected_turns

    def _turns(self, *, paced: bool) -> str:
        pcm = self._speech.pcm
        url = f"{self._url.replace('http', 'ws', 1)}/v2/listen?encoding=linear16&sample_rate={RATE}"
        with connect(url, proxy=None, **PATIENT) as socket:
            for start in range(0, len(pcm), PIECE):
                socket.send(pcm[start : start + PIECE])
                time.sleep(0.1 * paced)
            tell(socket, "CloseStream")
            messages = [json.loads(text) for text in socket]
        return " ".join(one["transcript"] for one in messages if one.get("event") == "EndOfTurn")

    def spoken(self) -> None:
        """/v1/speak."""
        assert Voice(self._url).speak(SHORT)[0]

    def spoken_turns(self) -> None:
        """/v2/speak."""
        with connect(f"{self._url.replace('http', 'ws', 1)}/v2/speak", proxy=None, **PATIENT) as socket:
            for kind, fields in (("Speak", {"text": SHORT}), ("Flush", {}), ("Close", {})):
                tell(socket, kind, **fields)
            messages = list(socket)
            assert socket.close_code == 1000
        assert any(isinstance(one, bytes) for one in messages) and any("SpeechMetadata" in str(one) for one in messages)

    def file(self) -> None:
        """An upload."""
        files = {"file": self._speech.path.read_bytes()}
        answer = HTTP.post(self._url + "/v1/audio/transcriptions", files=files)
        if answer.status_code == 429:
            raise Full
        assert answer.status_code == 200, answer.text

    def conversed(self) -> None:
        """/v1/realtime: said, answered, spoken."""
        with session(self._url) as live:
            for start in range(0, len(self._conversed), 4800):
                live.tell("input_audio_buffer.append", audio=base64.b64encode(self._conversed[start:][:4800]).decode())
                time.sleep(0.1)
            response = live.until("response.done")["response"]
            assert response["status"] == "completed" and live.of("response.output_audio.delta"), response

    def wyoming(self) -> None:
        """Heard, then spoken to."""
        asyncio.run(self._wyoming())

    async def _wyoming(self) -> None:
        client = WyomingClient("127.0.0.1", self._port, read_timeout=120)
        await client.connect()
        try:
            await client.say(Transcribe(), AudioStart(RATE, 2, 1), Ping())
            event = (await client.until("pong"))[-1]  # in turn: whoever is let in is answered
            if event.type != "pong":
                assert event.data["code"] in ("sessions", "headroom"), event
                raise Full
            for start in range(0, len(self._speech.pcm), PIECE):
                await client.say(AudioChunk(RATE, 2, 1, self._speech.pcm[start : start + PIECE]))
                await asyncio.sleep(0.1)
            await client.say(AudioStop(), Synthesize(SHORT))
            events = await client.until("audio-stop")
        finally:
            await client.disconnect()
        if events[-1].type == "error" and events[-1].data["code"] == "speakers":
            raise Full
        texts = [event.data["text"] for event in events if event.type == "transcript"]
        assert events[-1].type == "audio-stop" and texts == [self._expected], events


def test_mixed_work_at_the_admitted_load(clips: list[Clip]) -> None:
    """Live streams at their own pace until no more are let in; every other door beside them."""
    until = time.monotonic() + 60 * MINUTES
    done, faults = Counter[str](), list[str]()

    def again(work: Callable[[], None], pause: float) -> None:
        name = work.__name__
        while time.monotonic() < until:
            try:
                work()
                done[name] += 1
            except (Full, InvalidStatus) as error:
                if isinstance(error, InvalidStatus) and error.response.status_code != 429:
                    faults.append(f"{name}: {error!r}")
                done[f"{name} refused"] += 1
                time.sleep(5)
            except Exception as error:  # whatever it is, a session was lost
                faults.append(f"{name}: {error!r}")
            time.sleep(pause)

    port = free_port()
    settings = {"sessions": "32", "speakers": "8", "tts_model": "auto", "wyoming_port": str(port)}
    with ChatServer() as chat, process(load="", llm_url=chat.url, **settings) as running:
        url = running.url()
        work = Work(url, port, Speech.among(clips))
        many = max(1, min(8, HTTP.get(url + "/readyz").json()["headroom"]) - OTHERS)
        lives = [(work.live, 0.0)] * many
        beside = [(work.turns, 1.0), (work.conversed, 1.0), (work.wyoming, 1.0), (work.file, 2.0)]
        voices = [(work.spoken, 1.0), (work.spoken, 1.0), (work.spoken_turns, 1.0)]
        threads = [threading.Thread(target=again, args=one) for one in (*lives, *beside, *voices)]
        for thread in threads:
            thread.start()
        watched, memory = psutil.Process(running.process.pid), list[int]()
        while time.monotonic() < until:
            memory.append(watched.memory_info().rss)
            chat.seen.requests.clear()
            time.sleep(min(10.0, 6 * MINUTES))
        for thread in threads:
            thread.join()
        settled = memory[len(memory) // 4 :]
        late = quantiles(work.lateness, n=100)
        print(
            f"\n{MINUTES:g} minutes, {many} live streams: {dict(done)}; {len(work.lateness)} interims, "
            f"{late[49]:.2f} s late, 95 % within {late[94]:.2f} s; resident {settled[0] / 1e6:.0f} → "
            f"{settled[-1] / 1e6:.0f} MB"
        )
        assert not faults, Counter(faults).most_common(9)
        assert all(done[one.__name__] for one, _ in (*lives, *beside, *voices)), done
        assert late[94] < LATE_SECONDS
        assert settled[-1] - settled[0] < GROWTH
        assert eventually(lambda: not re.search(r"^hearsay_sessions\{.* [1-9]", HTTP.get(url + "/metrics").text, re.M))
        running.process.terminate()
        assert running.wait() == 0
    assert "Traceback" not in "\n".join(running.lines)
