"""People who are told by their names: a voice print of each, made of recordings of theirs and kept on this machine.

Contract: a print is stored only by :meth:`People.store`, which is called for nothing but ``hearsay voices add
--listen``; its file can be read by its owner alone and is named by a hash, so that no listing of a directory tells who
is known. Prints of another encoder mean nothing, so they are not used. Recordings are judged as a whole: how much
speech there is in them, and whether it is one person's.
"""

import hashlib
import logging
import os
import re
import tempfile
import unicodedata
import zipfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from engines.lane import Steps, call
from engines.sessions import OptionError
from engines.store import user_directory
from streaming.speakers import HOP, WINDOW, Floats, Person, SpeakerModel, gathered, unit
from streaming.vad import FRAME, SAMPLE_RATE, Voice, VoiceActivity, VoiceModel

log: Final = logging.getLogger("hearsay.people")

LEAST_SECONDS: Final = WINDOW / SAMPLE_RATE
"""Seconds of speech that a print needs: one window."""
MOST_SECONDS: Final = 30.0
"""Seconds of a recording that are heard: more changes a mean voice no more."""
MOST_PEOPLE: Final = 64
"""How many prints are stored: each is one more voice that a stranger's may resemble."""
ALIKE: Final = 0.35
"""The mean cosine from which on windows of a recording are gathered."""
ONE_VOICE: Final = 0.8
"""The least share of the windows that the largest gathering has where one person speaks (notes/2026-11-speakers.md)."""
EDGE: Final = 2
"""Frames on both sides of speech that belong to it: its judge answers late, and consonants are quiet."""
LONGEST_NAME: Final = 64
"""Characters of a name."""
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that nobody sees; they are left out of names."""
_JOINERS: Final = re.compile(r"(?<=\w)[\u200c\u200d](?=\w)")
"""What parts or joins letters within a word, as Persian and Indian names are written."""


def checked(field: str, name: str) -> str:
    """``name`` as it is told.

    Raises:
        OptionError: of ``field``: nothing that a person can be called here.
    """
    name = _plain(name)
    bare = _bare(_JOINERS.sub("", name))
    readable = all(one.isalnum() or one in " .'’_-" for one in bare) and any(map(str.isalnum, bare))
    if len(name) > LONGEST_NAME or not readable:
        told = f"1 to {LONGEST_NAME} letters, digits, spaces and . ' _ -"
        raise OptionError(field, f"{name[:80]!r} cannot be told: a name has {told}")
    if re.fullmatch("[A-Z]{1,2}", unicodedata.normalize("NFKC", name)):
        raise OptionError(
            field, f"{name!r} is what a speaker without a name is called; write another, or {name.lower()!r}"
        )
    return name


def _plain(name: str) -> str:
    """``name`` as it is written, whatever nobody sees of it left out."""
    return " ".join(_UNSEEN.sub("", unicodedata.normalize("NFC", name)).split())


def _bare(name: str) -> str:
    """``name`` without the marks that stand above and below letters."""
    return "".join(one for one in name if not unicodedata.category(one).startswith("M"))


def voice_print(encoder: SpeakerModel, vad: VoiceModel, recordings: Sequence[Floats]) -> Steps[Floats]:
    """The voice print, float32 [width] of length 1, of who speaks in ``recordings``, float32 mono at 16 kHz each.

    Raises:
        OptionError: of ``recording``: too little speech, or more than one voice.
    """
    parts = [np.zeros(0, np.float32)]
    for samples in recordings:
        parts.append((yield from _speech(vad, samples)))
    spoken = np.concatenate(parts)
    if len(spoken) < WINDOW:
        raise OptionError(
            "recording",
            f"{len(spoken) / SAMPLE_RATE:.1f} s of speech in it, at least {LEAST_SECONDS:g} s is needed: "
            "record one person who speaks for some ten seconds, without music",
        )
    windows = [spoken[at : at + WINDOW] for at in range(0, len(spoken) - WINDOW + 1, HOP)]
    prints = list[Floats]()
    for window in windows:
        prints.append((yield from call(encoder.prints, window)))
    share = len(gathered(np.stack(prints), ALIKE)[0]) / len(prints)
    if share < ONE_VOICE:
        told = f"{100 * share:.0f} % of it sound like one person, at least {100 * ONE_VOICE:g} % must"
        raise OptionError("recording", f"more than one voice in it, or music: {told}: record one person alone")
    return unit(np.sum(prints, axis=0))


def _speech(vad: VoiceModel, samples: Floats) -> Steps[Floats]:
    """What is said in ``samples``, without the silence."""
    samples = np.append(samples[: int(MOST_SECONDS * SAMPLE_RATE)], np.zeros(FRAME, np.float32))  # the last frame too
    turns = yield from VoiceActivity(vad).feed(samples)
    voiced = np.pad([turn.voice is Voice.SPEECH for turn in turns], EDGE)
    near = np.lib.stride_tricks.sliding_window_view(voiced, 2 * EDGE + 1).any(axis=1)
    return samples[: len(turns) * FRAME].reshape(-1, FRAME)[near].reshape(-1)


class People:
    """The people whose prints are stored. Thread-safe: files appear and disappear whole."""

    def __init__(self, directory: Path | None = None) -> None:
        """``directory``: where prints lie; None for ``people`` beside the user's models."""
        self._directory = directory

    @property
    def directory(self) -> Path:
        """Where prints lie; it need not exist."""
        return self._directory or user_directory().parent / "people"

    def all(self) -> list[Person]:
        """Everyone whose print can be used, by name. Of a file that cannot, the log has its name, a hash."""
        found = list[Person]()
        for path in sorted(self._files()):
            try:
                found.append(_read(path))
            except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
                log.warning("a stored voice print, %s, is of no use (%s): add it again", path.name, error)
        return sorted(found, key=lambda one: one.name.casefold())

    def store(self, person: Person) -> None:
        """Keep a print; one of that name is replaced.

        Raises:
            OptionError: of ``name``: too many are stored.
            OSError: the disk takes none.
        """
        path = self._path(person.name)
        if not path.exists() and len(self._files()) >= MOST_PEOPLE:
            raise OptionError("name", f"{MOST_PEOPLE} people are stored, which is the limit; remove one first")
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(prefix=".person-", dir=self.directory)  # Nobody else can read it: 0600.
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, name=np.array(person.name), print=person.print, encoder=np.array(_encoder()))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Forget a print, also one that is of no use.

        Raises:
            OptionError: of ``name``: nobody of that name is stored.
        """
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            known = ", ".join(one.name for one in self.all())
            told = f"known are: {known}" if known else "none is"
            raise OptionError("name", f"no voice print of {name[:80]!r} is stored; {told}") from None

    def _files(self) -> list[Path]:
        """The files that may hold prints. A pipe or a device that lies there would be waited for for ever."""
        return [path for path in self.directory.glob("*.npz") if path.is_file()]

    def _path(self, name: str) -> Path:
        return self.directory / f"{hashlib.sha256(_plain(name).casefold().encode()).hexdigest()[:32]}.npz"


def _read(path: Path) -> Person:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        name, voice, encoder = str(stored["name"]), np.asarray(stored["print"], np.float32), str(stored["encoder"])
    if encoder != _encoder():
        raise ValueError("made by another encoder")
    if voice.ndim != 1 or not np.isfinite(voice).all() or not 0.99 < float(np.linalg.norm(voice)) < 1.01:
        raise ValueError("no print")
    return Person(checked("name", name), voice)


@cache
def _encoder() -> str:
    """What tells this encoder's prints from another's: the checksum of its file."""
    return (files("models") / "pocket-speakers" / "SHA256SUMS").read_text().split()[0]
