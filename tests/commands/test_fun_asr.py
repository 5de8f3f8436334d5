"""A model of the second family by the same commands: a file here, the same file and a stream through a daemon."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import soundfile
from websockets.asyncio.client import connect

from tests.clients.conftest import pcm
from tests.clips import Clip
from tests.commands.conftest import Run
from tests.commands.test_serve import address
from tests.daemon.support import PATIENT

NANO = Path(__file__).parents[1] / "golden" / "funasr" / "nano"


def test_transcribe_and_serve(
    hearsay: Run, start: Callable[..., Popen[str]], clips: list[Clip], tmp_path: Path
) -> None:
    """Weights are random and the words noise, but the same noise at every door."""
    clip = next(clip for clip in clips if 2 < clip.seconds < 5)
    file = tmp_path / "clip.wav"
    soundfile.write(file, clip.samples, 16_000, subtype="PCM_16")
    done = hearsay("transcribe", "--json", "--model", NANO, file)
    assert done.returncode == 0, done.stderr
    here = json.loads(done.stdout)
    assert here["text"] and here["words"]
    process = start("serve", "--port", "0", "--asr-model", NANO, "--tts-model", "none", "--sessions", "2")
    url = address(process)

    async def live() -> str:
        texts: list[str] = []
        address = url.replace("http", "ws") + "/v1/listen?encoding=linear16&sample_rate=16000"
        async with connect(address, max_size=None, **PATIENT) as socket:
            audio = pcm(clip.samples)
            for at in range(0, len(audio), 3000):
                await socket.send(audio[at : at + 3000])
            await socket.send('{"type":"CloseStream"}')
            async for message in socket:
                event = json.loads(message)
                if event["type"] == "Results" and event["is_final"]:
                    texts.append(event["channel"]["alternatives"][0]["transcript"])
        return " ".join(text for text in texts if text)

    assert asyncio.run(live()) == here["text"]
    there = hearsay("transcribe", "--json", "--url", url, file)
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout)["text"] == here["text"]
