"""The client of ``/v1/audio/voices``: which voices a daemon has, one more, one less."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .handshake import Refused
from .options import sendable
from .request import Form, request, unreadable

PATH = "/v1/audio/voices"


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice. ``kind``: preset or cloned."""

    id: str
    name: str
    kind: str


def voices(url: str, *, key: str | None = None) -> list[Voice]:
    """The voices of the daemon at ``url``.

    Raises:
        Refused: no daemon there, or it does not speak.
        ListenError, ProtocolError: as ``clients.request.request``.
    """
    answer = request(url, "GET", PATH, key=key)
    try:
        return [_voice(entry) for entry in answer["voices"]]
    except (KeyError, TypeError) as error:
        raise unreadable(answer) from error


def add_voice(url: str, name: str, recording: Path | str, text: str | None = None, *, key: str | None = None) -> Voice:
    """Have the daemon make a voice from ``recording``; with ``text``, what is said in it, it follows it more closely.

    Raises:
        Refused: no daemon there, or its model cannot do that, or the recording is no good.
        ListenError, ProtocolError, OSError: as ``clients.request.request``.
    """
    fields = [("name", name), *([("text", text)] if text is not None else [])]
    answer = request(url, "POST", PATH, key=key, form=Form(fields, "audio_sample", Path(recording)))
    try:
        return _voice(answer)
    except (KeyError, TypeError) as error:
        raise unreadable(answer) from error


def remove_voice(url: str, voice: str, *, key: str | None = None) -> None:
    """Have the daemon forget a cloned voice.

    Raises:
        Refused: no daemon there, no such voice, or it is a preset.
        ListenError, ProtocolError: as ``clients.request.request``.
    """
    if not voice:  # Without a name the path would be that of all voices.
        raise Refused("voice: the name is empty", 400)
    request(url, "DELETE", f"{PATH}/{quote(sendable('voice', voice), safe='')}", key=key)


def _voice(entry: Any) -> Voice:
    return Voice(str(entry["id"]), str(entry["name"]), str(entry["kind"]))
