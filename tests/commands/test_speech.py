"""Speech from here and from a daemon: the same shape, the same samples, text never further ahead than promised."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from clients.events import ListenError
from commands import local, remote
from commands.local import Local
from commands.remote import Remote, last_break
from commands.speech import Awaiting, Manner, Remark, Sound, Speech
from tests.clients.conftest import Daemon
from tests.commands.conftest import Run
from tests.daemon.support import eventually

pytestmark = pytest.mark.anyio

TEXT = "The museum opens at ten and closes at five."
SENTENCES = "The cat sat down. A dog came by and barked at it! Was that all? It was not quite all. " * 5


async def told(session: Speech, deltas: list[str]) -> tuple[bytes, list[str], int]:
    """Audio, remarks, and how often text was awaited, of a session that is told ``deltas`` one after another."""
    pcm, remarks, awaited = b"", list[str](), 0
    async with session, asyncio.TaskGroup() as tasks:

        async def tell() -> None:
            for delta in deltas:
                await session.say(delta)
            await session.finish()

        tasks.create_task(tell())
        async for heard in session.events(lambda: 1.0):
            match heard:
                case Sound():
                    pcm += heard.pcm
                case Remark():
                    remarks.append(heard.text)
                case Awaiting():
                    awaited += 1
    return pcm, remarks, awaited


def difference(one: bytes, other: bytes) -> int:
    """The largest, in steps of 16 bits."""
    return int(np.abs(np.frombuffer(one, "<i2").astype(int) - np.frombuffer(other, "<i2")).max())


async def test_here_and_there_sound_the_same(tts_directory: Path, talking_url: str):
    """The same model, text and seed; the seed that a daemon draws is told and gives the same again."""
    here, _, _ = await told(Local(tts_directory, Manner(seed=5)), [TEXT])
    there, _, _ = await told(Remote(talking_url, None, None, Manner(seed=5)), [TEXT])
    assert len(here) == len(there) > 48000 and difference(here, there) <= 1
    drawn = Remote(talking_url, None, None, Manner())
    first, _, _ = await told(drawn, [TEXT])
    assert drawn.seed is not None
    again, _, _ = await told(Local(tts_directory, Manner(seed=drawn.seed)), [TEXT])
    assert len(first) == len(again) and difference(first, again) <= 1


@pytest.mark.parametrize("where", ["here", "there"])
async def test_nobody_runs_far_ahead_of_the_voice(
    tts_directory: Path, talking_url: str, monkeypatch: pytest.MonkeyPatch, where: str
):
    """Text that is told at once waits at the teller, and all of it is spoken: as many sentences as it has."""
    monkeypatch.setattr(local, "MAX_AHEAD", 100)
    monkeypatch.setattr(remote, "MAX_AHEAD", 100)
    session: Speech
    if where == "here":
        session = Local(tts_directory, Manner(seed=1, speed=4))
        most, speaker = 0, session._speaker
        say = speaker.say

        def counted(text: str) -> None:
            nonlocal most
            say(text)
            most = max(most, speaker.pending)

        monkeypatch.setattr(speaker, "say", counted)
    else:
        session = Remote(talking_url, None, None, Manner(seed=1, speed=4))
        most, sent, answered = 0, list[int](), session
        send = session._speech.speak

        async def counted_there(text: str) -> None:
            nonlocal most
            sent.append(len(text))
            most = max(most, sum(sent[-3:]) if answered._flushes - answered._answered < 2 else 10_000)
            await send(text)

        monkeypatch.setattr(session._speech, "speak", counted_there)
    deltas = [SENTENCES[start : start + 40] for start in range(0, len(SENTENCES), 40)]
    pcm, remarks, _ = await told(session, deltas)
    assert not [remark for remark in remarks if "limit" in remark]
    assert 0 < most <= 300
    assert len(pcm) / 48000 > 1


async def test_a_silence_between_sentences_is_nobodys_fault(tts_directory: Path, talking_url: str):
    """Text is awaited after a sentence; in the middle of one, late text is late audio."""
    for session in (Local(tts_directory, Manner(seed=1)), Remote(talking_url, None, None, Manner(seed=1))):
        heard = list[str]()
        async with session:
            await session.say("The cat sat down here. ")
            async with asyncio.timeout(120):
                async for event in session.events(lambda: 0.0):
                    heard.append(type(event).__name__)
                    if heard[-1] == "Awaiting":
                        break
        assert "Sound" in heard


async def test_a_daemon_that_ends_leaves_a_valid_file(
    talking: Daemon, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    """Drained in the middle of a text: one line that says so, exit code 1, what was said is in the file."""
    path = tmp_path / "a.wav"
    with talking(drain_seconds=0) as background:
        process = start("say", "-", "--url", background.url, "-o", path, stdin=True)
        assert process.stdin is not None
        os.write(process.stdin.fileno(), f"{TEXT} ".encode() * 10)
        assert await asyncio.to_thread(eventually, lambda: path.exists() and path.stat().st_size > 20_000, 120)
    _, errors = await asyncio.to_thread(process.communicate, timeout=120)
    assert process.returncode == 1 and "connection closed with code 1012" in errors, errors
    samples, _ = soundfile.read(path, dtype="int16")
    assert samples.any() and 44 + samples.nbytes == path.stat().st_size


def test_say_through_a_daemon(hearsay: Run, talking_url: str, tmp_path: Path):
    """The verb itself: a file, its JSON, and what the daemon refuses."""
    done = hearsay("say", TEXT, "--url", talking_url, "-o", tmp_path / "a.flac", "--json", "--speed", 2)
    found = json.loads(done.stdout)
    assert found["seconds"] == pytest.approx(soundfile.info(tmp_path / "a.flac").duration, abs=1e-3)
    assert found["seed"] is not None and found["first_audio"] < found["wall"]
    for option, value in (("--voice", "nobody"), ("--tts-model", "no-such"), ("--language", "tlh")):
        done = hearsay("say", TEXT, "--url", talking_url, "-o", tmp_path / "b.wav", option, value)
        assert done.returncode == 2 and "HTTP 400" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "b.wav").exists()


async def test_a_key_is_asked_for(talking: Daemon):
    """With the right one it speaks, without it says who refused."""
    with talking(api_key=("correct-horse",)) as background:
        with pytest.raises(ListenError, match="HTTP 401"):
            await told(Remote(background.url, None, None, Manner()), [TEXT])
        pcm, _, _ = await told(Remote(background.url, "correct-horse", None, Manner()), [TEXT])
        assert pcm


@given(st.text(alphabet="ab .!?\n", max_size=60))
def test_a_break_is_after_a_sentence_or_a_word(text: str):
    """Both sides joined are the text; the first ends with white space wherever there is any."""
    cut = last_break(text)
    assert 0 <= cut <= len(text)
    if any(character.isspace() for character in text):
        assert text[cut - 1].isspace()
        assert cut == len(text) or not text[cut].isspace() or text[cut - 1] == "\n"
    else:
        assert cut == len(text)
