"""Barge-in on ``/v1/speak``: what a ``Clear`` stops, and that nothing of the old text comes after it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from codec.model import TtsModel
from codec.speaker import Speaker
from codec.talker import TalkerStep
from daemon.serve import Background
from engines.lane import Steps
from tests.daemon.support import LONG, SHORT, Voice, same, taken, tell, until
from tests.lanes import held, until_waiting

Start = Callable[..., AbstractContextManager[Background]]


def test_after_cleared_no_old_audio_comes(voice: Voice, offline: Callable[..., bytes]) -> None:
    """What comes after ``Cleared`` is the new text alone, as it sounds in a new session; at random moments."""
    wanted = offline(SHORT)
    with voice.open() as socket:
        socket.recv()
        for i in range(8):
            tell(socket, "Speak", text=LONG)
            for _ in range(i):
                socket.recv(120)
            tell(socket, "Clear")
            _, messages = until(socket, "Cleared")
            assert messages[-1]["sequence_id"] == i
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Flush")
            audio, _ = until(socket, "Flushed")
            assert same(audio, wanted)


def test_clear_takes_waiting_flushes_with_it(voice: Voice, tts_model: TtsModel) -> None:
    with voice.open() as socket:
        with held(tts_model.engine.lane):  # the flush waits, however late the clear comes
            tell(socket, "Speak", text=LONG)
            until_waiting(tts_model.engine.lane, 1)
            tell(socket, "Flush")
            tell(socket, "Clear")
            tell(socket, "Clear")
            tell(socket, "Close")
        _, messages = taken(socket)
        assert [m["type"] for m in messages] == ["Metadata", "Cleared", "Cleared"]
        assert socket.close_code == 1000


def test_clear_ends_what_close_would_speak(voice: Voice, tts_model: TtsModel) -> None:
    """The model stands until the daemon has taken every message, so that it does not close before the last."""
    with voice.open() as socket:
        with held(tts_model.engine.lane):
            tell(socket, "Speak", text=LONG)
            until_waiting(tts_model.engine.lane, 1)
            tell(socket, "Close")
            tell(socket, "Clear")
            tell(socket, "Speak", text=SHORT)  # too late
            tell(socket, "Flush")
            socket.send(b"")  # answered at once, so all before it has been taken
            before, messages = until(socket, "Warning")
        audio, rest = taken(socket)
        assert [m["type"] for m in messages + rest] == ["Metadata", "Warning", "Cleared"]
        assert before + audio == b""
        assert socket.close_code == 1000


def test_flushes_that_wait_are_bounded(voice: Voice, tts_model: TtsModel) -> None:
    with voice.open() as socket:
        with held(tts_model.engine.lane):  # none is answered before the last has come
            tell(socket, "Speak", text=LONG)
            for _ in range(1001):
                tell(socket, "Flush")
            _, messages = until(socket, "Warning")
        assert messages[-1]["code"] == "FLUSH_LIMIT"
        tell(socket, "Clear")
        until(socket, "Cleared")
        tell(socket, "Flush")
        assert until(socket, "Flushed")[1][-1]["sequence_id"] == 1000


def test_clear_frees_the_engine(voice: Voice, tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """From ``Clear`` to ``Cleared`` in the middle of a long text: a frame's work, not the group's or the text's."""
    begun, at_clear = 0, list[int]()
    frame, clear = tts_model.engine.frame, Speaker.clear

    def counted(step: TalkerStep) -> Steps[list[int] | None]:
        nonlocal begun
        begun += 1
        return (yield from frame(step))

    def noted(speaker: Speaker) -> int:
        number = clear(speaker)
        at_clear.append(begun)
        return number

    monkeypatch.setattr(tts_model.engine, "frame", counted)
    monkeypatch.setattr(Speaker, "clear", noted)
    with voice.open() as socket:
        for _ in range(20):
            tell(socket, "Speak", text=LONG)
            while not isinstance(socket.recv(120), bytes):
                pass
            tell(socket, "Clear")
            until(socket, "Cleared")
            assert begun - at_clear[-1] <= 1
    assert len(at_clear) == 20
