"""What stands between clients and a daemon: LiteLLM's proxy; and Vercel's SDK, which is one for many providers."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import openai
import pytest
from chat_endpoint import REPLY, chat_endpoint
from recipes import recipe
from support import Daemon, Speech, heard_as, took, words
from websockets.sync.client import connect

SAID = "The tide comes in at nine."


@pytest.fixture(scope="module")
def proxy(
    serve: Callable[..., AbstractContextManager[Daemon]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """LiteLLM's proxy in front of a daemon that answers; its address."""
    folder = tmp_path_factory.mktemp("proxy")
    with chat_endpoint() as (chat, _), serve("--llm-url", chat) as daemon, socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        (folder / "config.yaml").write_text(recipe("LiteLLM's proxy", daemon))
        command = [str(Path(sys.executable).parent / "litellm"), "--config", str(folder / "config.yaml")]
        log = (folder / "log").open("wb")
        running = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log, env=dict(os.environ)
        )
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                assert running.poll() is None, (folder / "log").read_text()[-2000:]
                try:
                    if httpx.get(f"{address}/health/liveliness", timeout=2, trust_env=False).status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.2)
            yield address
        finally:
            running.terminate()
            running.wait(30)
            log.close()


def test_litellm_proxy_files(proxy: str, speech: Speech) -> None:
    """By OpenAI's SDK through the proxy: a recording, a text."""
    with openai.OpenAI(api_key="sk-proxy", base_url=f"{proxy}/v1", max_retries=0) as client:
        began = time.monotonic()
        with speech.path.open("rb") as file:
            assert client.audio.transcriptions.create(model="ears", file=file).text == speech.text
        took("LiteLLM's proxy", f"a recording of {speech.seconds:.1f} s", time.monotonic() - began)
        assert len(client.audio.speech.create(model="mouth", voice="alloy", input=SAID).content) > 2000


def test_litellm_proxy_realtime(proxy: str) -> None:
    """A conversation through the proxy's socket."""
    address = f"{proxy.replace('http', 'ws', 1)}/v1/realtime?model=partner"
    with connect(address, additional_headers={"Authorization": "Bearer sk-proxy"}, proxy=None) as live:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "When?"}]}
        live.send(json.dumps({"type": "conversation.item.create", "item": item}))
        live.send(json.dumps({"type": "response.create"}))
        said = ""
        while (event := json.loads(live.recv(60)))["type"] != "response.done":
            assert event["type"] != "error", event
            if event["type"].endswith("audio_transcript.done"):
                said = event["transcript"]
    assert said == REPLY


def test_vercel_ai(daemon: Daemon, speech: Speech, node: Callable[..., str]) -> None:
    """gpt-4o-transcribe with the times of words, nova-3, gpt-4o-mini-tts."""
    told = json.loads(node("vercel_ai.mjs", daemon.url, daemon.key, str(speech.path)))
    assert words(told["text"]) == words(speech.text)
    assert [word for segment in told["segments"] for word in words(segment["text"])] == words(speech.text)
    assert heard_as(told["deepgram"], speech.text) == 1.0
    assert abs(told["seconds"] - speech.seconds) < 0.1 and told["sound"] > 2000
    took("Vercel's ai", f"a recording of {speech.seconds:.1f} s", told["took"] / 1000)
