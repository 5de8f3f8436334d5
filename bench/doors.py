"""What a client of each door waits for, one session at a time: first interim, final, first audio, answer, file.

Speech is sent at its own pace, 20 ms a message. *First interim* counts from the end of the first word, *final* from the
end of the last one (with the silence that ends an utterance, where the door has one; over Wyoming from the end of the
audio), *first audio* from a text of one sentence, *answer* from the end of the last word to the first sound of what a
chat endpoint replies at once, *file* from the request to the whole answer. Every round goes by all doors, so that a
machine that others use is the same to each. Medians of ``--rounds``, in milliseconds.

usage: python -m bench.doors [--rounds N] [--doors NAME] [--json FILE]
"""

import argparse
import asyncio
import base64
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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

from audio.encoder import raw, wav
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

_REPLY: Final = (
    'data: {"choices": [{"index": 0, "delta": {"content": "The boats came home at nine."}, "finish_reason": null}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)

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


async def synthesized(port: int) -> Figures:
    """Wyoming"""
    async with AsyncTcpClient("127.0.0.1", port) as client:
        began = time.perf_counter()
        await client.write_event(Synthesize(TEXT).event())
        while (event := await client.read_event()) is not None:
            if AudioChunk.is_type(event.type):
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("the connection ended before any audio")


async def elevenlabs(url: str) -> Figures:
    """``stream-input``"""
    async with connect(f"{url}/v1/text-to-speech/default/stream-input?output_format=pcm_24000", proxy=None) as one:
        await one.send('{"text": " "}')
        began = time.perf_counter()
        await one.send(json.dumps({"text": f"{TEXT} ", "flush": True}))
        async for message in one:
            if json.loads(message).get("audio"):
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("the connection ended before any audio")


async def posted(url: str, whole: bool = False, **request: Any) -> Figures:
    """A POST, up to the first of its answer or to the last."""
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        began = time.perf_counter()
        async with client.stream("POST", url, **request) as answer:
            answer.raise_for_status()
            if whole:
                await answer.aread()
                return {"file": time.perf_counter() - began}
            async for _ in answer.aiter_bytes():
                return {"first audio": time.perf_counter() - began}
    raise RuntimeError("no audio came")


async def vosk(url: str, said: Said) -> Figures:
    """``/vosk``"""

    def kind(message: Any) -> str:
        return "final" if message.get("text") else "interim" if message.get("partial") else ""

    async with connect(f"{url}/vosk", proxy=None) as one:
        await one.send(json.dumps({"config": {"sample_rate": RATE}}))
        return await over_socket(one, said, RATE, one.send, kind)


async def answered(
    said: Said, rate: int, send: Callable[[bytes], Awaitable[None]], heard: Callable[[], Awaitable[bool]]
) -> Figures:
    """Speech, and the first sound of the answer, after which ``heard`` is True."""
    began = time.perf_counter()
    sending = asyncio.create_task(paced(said.resampled(rate), rate, send))
    try:
        while not await heard():
            pass
        return {"answer": time.perf_counter() - began - said.last}
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def conversed(url: str, said: Said, first: Any, rate: int, wrap: Callable[[bytes], Any], sound: Any) -> Figures:
    """A conversation over a WebSocket: its first message, how it has audio, and by what a message with sound is known:
    its type, or that it is binary."""
    async with connect(url, proxy=None, max_size=None) as one:
        if first is not None:
            await one.send(json.dumps(first))

        async def send(audio: bytes) -> None:
            message = wrap(audio)
            await one.send(message if isinstance(message, bytes) else json.dumps(message))

        async def heard() -> bool:
            message = await one.recv()
            if isinstance(message, bytes):
                return sound is bytes
            told = json.loads(message)
            return sound in (told.get("type"), told.get("event"))

        return await answered(said, rate, send, heard)


def mulaw(pcm: bytes) -> bytes:
    """16-bit samples as telephones have them."""
    return raw("mulaw", 8_000).feed(np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768))


async def audiosocket(port: int, said: Said) -> Figures:
    """Asterisk's AudioSocket"""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send(audio: bytes) -> None:
        writer.write(b"\x10" + len(audio).to_bytes(2, "big") + audio)

    async def heard() -> bool:
        head = await reader.readexactly(3)
        await reader.readexactly(int.from_bytes(head[1:], "big"))
        return head[0] == 0x10

    try:
        return await answered(said, 8_000, send, heard)
    finally:
        writer.close()


async def called(url: str, said: Said) -> Figures:
    """``/v1/realtime/calls``, by aiortc, whose own buffer would hold sound back; without it, there are no figures."""
    try:
        from bench.caller import Caller
    except ImportError:
        return {}
    async with Caller() as caller:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(f"{url}/v1/realtime/calls", content=await caller.offer())
        await caller.answered(answer.raise_for_status().text)
        return await answered(said, 48_000, caller.say, caller.heard)


def chat() -> ThreadingHTTPServer:
    """A chat endpoint that replies at once."""

    class Reply(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(_REPLY.encode())

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Reply)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def conversations(url: str, web: str, calls: int) -> dict[str, Callable[[Said], Awaitable[Figures]]]:
    """Every door at which speech is answered with speech."""
    shape = {"encoding": "linear16", "sample_rate": 24_000}
    settings = {"type": "Settings", "audio": {"input": shape, "output": {**shape, "container": "none"}}, "agent": {}}
    start: dict[str, Any] = {"event": "start", "streamSid": "x", "start": {}}

    def appended(audio: bytes) -> Any:
        return {"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()}

    def media(audio: bytes) -> Any:
        return {"event": "media", "streamSid": "x", "media": {"payload": base64.b64encode(mulaw(audio)).decode()}}

    delta = "response.output_audio.delta"
    return {
        "/v1/realtime, conversation": lambda said: conversed(
            f"{web}/v1/realtime?model=gpt-realtime", said, None, 24_000, appended, delta
        ),
        "/v1/realtime/calls": lambda said: called(url, said),
        "/v1/agent/converse": lambda said: conversed(
            f"{web}/v1/agent/converse", said, settings, 24_000, lambda audio: audio, bytes
        ),
        "/twilio/converse": lambda said: conversed(f"{web}/twilio/converse", said, start, 8_000, media, "media"),
        "audiosocket": lambda said: audiosocket(calls, said),
    }


def files(url: str, clip: bytes) -> dict[str, Callable[[Said], Awaitable[Figures]]]:
    """Every door that hears a file."""
    name = ("clip.wav", clip, "audio/wav")
    return {
        "/v1/audio/transcriptions": lambda _: posted(
            f"{url}/v1/audio/transcriptions", True, files={"file": name}, data={"model": "whisper-1"}
        ),
        "/v1/speech-to-text": lambda _: posted(
            f"{url}/v1/speech-to-text", True, files={"file": name}, data={"model_id": "scribe_v1"}
        ),
        "/asr": lambda _: posted(f"{url}/asr?output=json", True, files={"audio_file": name}),
        "/inference": lambda _: posted(f"{url}/inference", True, files={"file": name}),
    }


async def _all(url: str, port: int, calls: int, rounds: int, wanted: str) -> dict[str, dict[str, int]]:
    speech, web = timed_speech(CLIPS), url.replace("http", "ws", 1)
    clips = [Said(speech, place) for place in range(rounds)]
    text = f"{url}/v1/text-to-speech/default/stream?output_format=pcm_24000"
    spoken_words = {"input": TEXT, "response_format": "pcm", "stream": True}
    doors: dict[str, Callable[[Said], Awaitable[Figures]]] = {
        "/v1/listen": lambda said: listen(web, said),
        "/v2/listen": lambda said: turns(web, said),
        "/v1/realtime": lambda said: realtime(web, said),
        "wyoming, transcribe": lambda said: transcribed(port, said),
        "/v1/speak": lambda _: spoken(f"{web}/v1/speak"),
        "/v2/speak": lambda _: spoken(f"{web}/v2/speak?model=flux-alexis-en"),
        "/v1/audio/speech": lambda _: posted(f"{url}/v1/audio/speech", json={"input": TEXT, "response_format": "pcm"}),
        "wyoming, synthesize": lambda _: synthesized(port),
        "/vosk": lambda said: vosk(web, said),
        "/v1/text-to-speech, stream-input": lambda _: elevenlabs(web),
        "/v1/text-to-speech, stream": lambda _: posted(text, json={"text": TEXT}),
        "/dev/captioned_speech": lambda _: posted(f"{url}/dev/captioned_speech", json=spoken_words),
        **conversations(url, web, calls),
        **files(url, wav("linear16", RATE).feed(np.zeros(0, np.float32)) + clips[0].pcm),
    }
    doors = {name: door for name, door in doors.items() if wanted in name}
    for door in doors.values():
        await door(clips[0])  # The first call of each costs more.
    measured = [{name: await door(clip) for name, door in doors.items()} for clip in clips]
    found: dict[str, dict[str, int]] = {}
    for name in doors:
        figures = [one[name] for one in measured]
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
    parser.add_argument("--doors", default="", help="only those with this in their name")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, calls = int(one.getsockname()[1]), int(other.getsockname()[1])
    with chat() as server:
        replies = f"http://127.0.0.1:{server.server_address[1]}/v1"
        flags = ("--wyoming-port", str(port), "--audiosocket-port", str(calls), "--llm-url", replies)
        with served(flags) as daemon:
            found = asyncio.run(_all(daemon.url, port, calls, asked.rounds, asked.doors))
        server.shutdown()
    if asked.json is not None:
        asked.json.write_text(
            json.dumps({"machine": machine(budget()), "milliseconds": found}, indent=2), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
