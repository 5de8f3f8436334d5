"""What a client of each door waits for, one session at a time: first interim, final, first audio.

Speech is sent at its own pace, 20 ms a message. *First interim* counts from the end of the first word, *final* from the
end of the last one (with the silence that ends an utterance, where the door has one; over Wyoming and for a file from
the end of the audio), *first audio* from a text of one sentence. Medians of ``--rounds``, in milliseconds.

usage: python -m bench.doors [--rounds N] [--json FILE]
"""

import argparse
import asyncio
import base64
import json
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx2
import numpy as np
import soxr
from websockets.asyncio.client import ClientConnection, connect
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.tts import Synthesize

from bench.figures import lines
from bench.probe import machine
from bench.served import served
from bench.sessions import RATE, Speech, timed_speech
from engines.threads import budget

CLIPS: Final = Path(__file__).parent.parent / "tests" / "synthetic"
ROUNDS: Final = 5
"""Measurements of which the median is given."""
TEXT: Final = "The tide comes in at nine."
_PIECE: Final = 0.02
"""Seconds of audio in a message, as browsers send it."""

Figures = dict[str, float]


class Said:
    """One clip: its audio with a pause after it, and where the sound of its first and its last word ends."""

    def __init__(self, speech: Speech, place: int) -> None:
        begin = speech.starts[place]
        end = speech.starts[place + 1] if place + 1 < len(speech.starts) else speech.seconds
        self.pcm = speech.piece(begin, end - begin)
        self.last = speech.ends[place] - begin
        inside = [word_end - begin for _, word_end in speech.words if begin < word_end <= end]
        self.first = min(inside, default=self.last)

    def resampled(self, rate: int) -> bytes:
        """The audio at another rate."""
        samples = np.frombuffer(self.pcm, "<i2").astype(np.float32) / 32768
        return (np.clip(soxr.resample(samples, RATE, rate), -1, 1) * 32767).astype("<i2").tobytes()


async def paced(pcm: bytes, rate: int, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send audio at its own pace."""
    size, began = 2 * round(rate * _PIECE), time.perf_counter()
    for place, start in enumerate(range(0, len(pcm), size)):
        await asyncio.sleep(max(0.0, began + (place + 1) * _PIECE - time.perf_counter()))
        await send(pcm[start : start + size])


async def over_socket(
    messages: ClientConnection,
    said: Said,
    rate: int,
    send: Callable[[bytes], Awaitable[None]],
    kind: Callable[[Any], str],
) -> Figures:
    """Over a WebSocket. ``kind``: of a message, ``interim`` or ``final`` where it is one with text."""
    began, found = time.perf_counter(), Figures()
    sending = asyncio.create_task(paced(said.resampled(rate), rate, send))
    try:
        async for message in messages:
            name = kind(json.loads(message))
            if name == "interim":
                found.setdefault("first interim", time.perf_counter() - began - said.first)
            elif name == "final":
                return {**found, "final": time.perf_counter() - began - said.last}
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    raise RuntimeError("the connection ended before a final")


async def listen(url: str, said: Said) -> Figures:
    """``/v1/listen``"""

    def kind(message: Any) -> str:
        if message["type"] != "Results" or not message["channel"]["alternatives"][0]["transcript"]:
            return ""
        return "final" if message["is_final"] else "interim"

    query = f"encoding=linear16&sample_rate={RATE}&interim_results=true"
    async with connect(f"{url}/v1/listen?{query}", proxy=None) as one:
        return await over_socket(one, said, RATE, one.send, kind)


async def turns(url: str, said: Said) -> Figures:
    """``/v2/listen``"""
    names = {"StartOfTurn": "interim", "EndOfTurn": "final"}
    async with connect(f"{url}/v2/listen?encoding=linear16&sample_rate={RATE}", proxy=None) as one:
        return await over_socket(one, said, RATE, one.send, lambda message: names.get(message.get("event"), ""))


async def realtime(url: str, said: Said) -> Figures:
    """``/v1/realtime``"""
    before = "conversation.item.input_audio_transcription."
    names = {f"{before}delta": "interim", f"{before}completed": "final"}
    async with connect(f"{url}/v1/realtime?intent=transcription", proxy=None) as one:

        async def append(audio: bytes) -> None:
            audio64 = base64.b64encode(audio).decode()
            await one.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio64}))

        return await over_socket(one, said, 24_000, append, lambda message: names.get(message["type"], ""))


async def transcribed(port: int, said: Said) -> Figures:
    """Wyoming: the transcript after the last sample"""
    found, began = Figures(), time.perf_counter()
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Transcribe().event())
        await client.write_event(AudioStart(RATE, 2, 1).event())
        pcm = said.pcm[: 2 * round(said.last * RATE)]

        async def send(audio: bytes) -> None:
            await client.write_event(AudioChunk(RATE, 2, 1, audio).event())

        async def talk() -> None:
            await paced(pcm, RATE, send)
            await client.write_event(AudioStop().event())

        talking = asyncio.create_task(talk())
        while (event := await client.read_event()) is not None:
            if TranscriptChunk.is_type(event.type):
                found.setdefault("first interim", time.perf_counter() - began - said.first)
            elif Transcript.is_type(event.type):
                await talking
                return {**found, "final": time.perf_counter() - began - said.last}
    raise RuntimeError("the connection ended before a transcript")


async def spoken(url: str) -> Figures:
    """``/v1/speak``, ``/v2/speak``: the path is the URL's"""
    async with connect(url, proxy=None) as one:
        await one.recv()
        began = time.perf_counter()
        await one.send(json.dumps({"type": "Speak", "text": TEXT}))
        await one.send(json.dumps({"type": "Flush"}))
        async for message in one:
            if isinstance(message, bytes):
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("the connection ended before any audio")


async def made(url: str) -> Figures:
    """``/v1/audio/speech``"""
    body = {"input": TEXT, "response_format": "pcm"}
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        began = time.perf_counter()
        async with client.stream("POST", f"{url}/v1/audio/speech", json=body) as answer:
            async for _ in answer.aiter_bytes():
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("no audio came")


async def synthesized(port: int) -> Figures:
    """Wyoming"""
    async with AsyncTcpClient("127.0.0.1", port) as client:
        began = time.perf_counter()
        await client.write_event(Synthesize(TEXT).event())
        while (event := await client.read_event()) is not None:
            if AudioChunk.is_type(event.type):
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("the connection ended before any audio")


async def _all(url: str, port: int, rounds: int) -> dict[str, dict[str, int]]:
    speech, web = timed_speech(CLIPS), url.replace("http", "ws", 1)
    clips = [Said(speech, place) for place in range(rounds)]
    doors: dict[str, Callable[[Said], Awaitable[Figures]]] = {
        "/v1/listen": lambda said: listen(web, said),
        "/v2/listen": lambda said: turns(web, said),
        "/v1/realtime": lambda said: realtime(web, said),
        "wyoming, transcribe": lambda said: transcribed(port, said),
        "/v1/speak": lambda _: spoken(f"{web}/v1/speak"),
        "/v2/speak": lambda _: spoken(f"{web}/v2/speak?model=flux-alexis-en"),
        "/v1/audio/speech": lambda _: made(url),
        "wyoming, synthesize": lambda _: synthesized(port),
    }
    found: dict[str, dict[str, int]] = {}
    for name, door in doors.items():
        figures = [await door(clip) for clip in clips]
        found[name] = {
            kind: round(1000 * statistics.median(one[kind] for one in figures if kind in one))
            for kind in sorted({kind for one in figures for kind in one})
        }
        lines({name: found[name]})
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure every door of a daemon of its own."""
    parser = argparse.ArgumentParser(
        prog="bench.doors", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    with served(("--wyoming-port", str(port))) as daemon:
        found = asyncio.run(_all(daemon.url, port, asked.rounds))
    if asked.json is not None:
        asked.json.write_text(
            json.dumps({"machine": machine(budget()), "milliseconds": found}, indent=2), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
