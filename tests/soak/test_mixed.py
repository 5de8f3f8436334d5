"""The load that the daemon lets in, of all kinds at once, for a long time: nobody is lost, nothing grows."""

import json
import os
import threading
import time
from collections import Counter

import psutil
from websockets.exceptions import InvalidStatus

from tests.clips import Clip
from tests.daemon.process import process
from tests.daemon.support import HTTP, RATE, Client, Speech, Voice, finals, send

MINUTES = float(os.environ.get("HEARSAY_SOAK_MIXED_MINUTES", "30"))
PIECE = RATE // 10 * 2
GROWTH = 40_000_000
"""Bytes of resident memory that the process may grow after the first quarter: allocator noise of 30 minutes."""


def test_mixed_work_at_the_admitted_load(clips: list[Clip]) -> None:
    """Live streams at their own pace until no more are let in, voices and files beside them."""
    speech = Speech.among(clips)
    until = time.monotonic() + 60 * MINUTES
    done, faults = Counter[str](), list[str]()

    def live(url: str, expected: str) -> None:
        while time.monotonic() < until:
            try:
                with Client(url).open() as socket:
                    for start in range(0, len(speech.pcm), PIECE):
                        send(socket, speech.pcm[start : start + PIECE])
                        time.sleep(0.1)
                    socket.send('{"type": "CloseStream"}')
                    text = finals(json.loads(message) for message in socket)
                    if socket.close_code != 1000 or text != expected:
                        faults.append(f"live: {socket.close_code} {text!r}")
                done["live"] += 1
            except InvalidStatus as error:
                done[f"refused {error.response.status_code}"] += 1
                time.sleep(5)
            except Exception as error:  # whatever it is, a session was lost
                faults.append(f"live: {error!r}")

    def voice(url: str) -> None:
        while time.monotonic() < until:
            try:
                Voice(url).speak("The boats came home at nine.")
                done["spoken"] += 1
            except Exception as error:
                faults.append(f"spoken: {error!r}")
            time.sleep(1)

    def file(url: str) -> None:
        while time.monotonic() < until:
            answer = HTTP.post(url + "/v1/audio/transcriptions", files={"file": speech.path.read_bytes()})
            done[f"file {answer.status_code}"] += 1
            if answer.status_code not in (200, 429):
                faults.append(f"file: {answer.status_code}")
            time.sleep(2)

    begin = "import engines.load as load; kept = load.USABLE, load.LATE_SECONDS"
    with process(begin, sessions="32", speakers="8", tts_model="auto") as running:
        url = running.url()
        expected = finals(Client(url).transcribe(speech.pcm))
        many = min(8, HTTP.get(url + "/readyz").json()["headroom"])
        threads = [threading.Thread(target=live, args=(url, expected)) for _ in range(many)]
        threads += [threading.Thread(target=voice, args=(url,)) for _ in range(2)]
        threads += [threading.Thread(target=file, args=(url,))]
        for thread in threads:
            thread.start()
        watched, memory = psutil.Process(running.process.pid), list[int]()
        while time.monotonic() < until:
            memory.append(watched.memory_info().rss)
            time.sleep(min(10.0, 6 * MINUTES))
        for thread in threads:
            thread.join()
        settled = memory[len(memory) // 4 :]
        print(
            f"\n{MINUTES:g} minutes, {many} live streams: {dict(done)}, resident {settled[0] / 1e6:.0f} → "
            f"{settled[-1] / 1e6:.0f} MB"
        )
        assert not faults, faults[:5]
        assert done["live"] >= many and done["spoken"] and done["file 200"]
        assert settled[-1] - settled[0] < GROWTH
        running.process.terminate()
        assert running.wait() == 0
    assert "Traceback" not in "\n".join(running.lines)
