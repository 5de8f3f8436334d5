"""OpenAI's own SDK on /v1/realtime, as it is published."""

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile

from daemon.serve import Background
from tests.clips import RATE
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import alike, at_24_khz
from tests.daemon.support import Speech

# This SDK's way into websockets 17.
pytestmark = pytest.mark.filterwarnings(r"ignore:connect\(\) must be used as a context manager:DeprecationWarning")


@pytest.fixture(scope="module")
def partner(talk: Callable[..., AbstractContextManager[Background]]) -> Iterator[Background]:
    """A daemon that hears, answers and speaks, with a key."""
    with ChatServer() as server, talk(llm_url=server.url, llm_model="small", api_key=("correct-horse",)) as background:
        yield background


@pytest.fixture
def client(partner: Background) -> Iterator[openai.OpenAI]:
    """The SDK, pointed at it."""
    with openai.OpenAI(api_key="correct-horse", base_url=partner.url + "/v1", max_retries=0) as made:
        yield made


def test_the_documented_example_runs(
    daemon: Background, speech: Speech, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """It prints the words as they come, then all of them."""
    page = (Path(__file__).parents[3] / "docs" / "realtime.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    soundfile.write(tmp_path / "speech.flac", np.frombuffer(speech.pcm, "<i2"), RATE)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example.replace("127.0.0.1:8750", daemon.url.removeprefix("http://")), names)
    names["client"].close()
    told, whole = capsys.readouterr().out.splitlines()
    assert whole and alike(told, whole)


def test_a_conversation_by_the_sdk(client: openai.OpenAI, speech: Speech) -> None:
    """Said aloud, answered aloud; every event is of the SDK's own types."""
    pcm = at_24_khz(speech.pcm) + b"\0" * 48_000
    kinds: list[str] = []
    sound = b""
    with client.realtime.connect(model="gpt-realtime") as live:
        live.session.update(session={"type": "realtime", "instructions": "Be brief.", "audio": {
            "input": {"transcription": {"model": "whisper-1"}}, "output": {"voice": "marin"},
        }})  # fmt: skip
        for start in range(0, len(pcm), 4800):
            live.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 4800]).decode())
        for event in live:
            kinds.append(event.type)
            if event.type == "response.output_audio.delta":
                sound += base64.b64decode(event.delta)
            elif event.type == "conversation.item.input_audio_transcription.completed":
                assert event.transcript and event.usage.type == "duration"
            elif event.type == "response.done":
                assert event.response.status == "completed" and event.response.usage is not None
                break
            assert event.type != "error"
    assert len(sound) > 24_000 and "response.output_audio_transcript.delta" in kinds


def test_a_client_secret_by_the_sdk(client: openai.OpenAI, partner: Background) -> None:
    """Issued with the key, used without it."""
    secret = client.realtime.client_secrets.create(
        session={"type": "transcription"}, expires_after={"anchor": "created_at", "seconds": 60}
    )
    assert secret.session.type == "transcription" and secret.expires_at
    with openai.OpenAI(api_key=secret.value, base_url=partner.url + "/v1", max_retries=0) as page:
        with page.realtime.connect() as live:
            assert live.recv().type == "session.created"
        with pytest.raises(openai.AuthenticationError):
            page.models.list()
