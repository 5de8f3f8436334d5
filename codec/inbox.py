"""What other threads tell a session, and what they wait for: the script behind a lock, clears, flushes, the end.

Every method returns at once, but :meth:`Inbox.wait`. The stepping thread takes what is said through
:meth:`Inbox.current`, which lets go where a clear has come meanwhile.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from codec.script import Script
from engines.lane import Cancelled
from engines.sessions import OptionError

MAX_PENDING: Final = 65_536
"""How many characters may wait for the talker: about an hour of speech, and 256 KiB at most."""


class Overtaken(Exception):
    """A clear came while a group was made."""


class Inbox:
    """Thread-safe; only :meth:`settle`, :meth:`current` and :meth:`rest` belong to the stepping thread."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._changed = threading.Condition()
        self._clears: list[int] = []
        self._flush_count = self._clear_count = 0
        self._epoch = 0
        self._idle = self._closed = self._finishing = False
        self.finished = False
        """``Finished`` has been given out."""

    # ---------------------------------------------------------------- any thread

    def say(self, text: str) -> None:
        """Append text.

        Raises:
            OptionError: more than ``MAX_PENDING`` characters would wait; nothing is taken.
            Cancelled: the session is closed; ValueError: it was finished.
        """
        with self._changed:
            self._check_open()
            waiting = self._script.pending + len(text)
            if waiting > MAX_PENDING:
                raise OptionError("text", f"{waiting} characters would wait to be spoken, the limit is {MAX_PENDING}")
            self._script.say(text)
            self._stir()

    def flush(self) -> int:
        """What was said is complete; the number of that flush."""
        with self._changed:
            self._check_open()
            number, self._flush_count = self._flush_count, self._flush_count + 1
            self._script.mark(number)
            self._stir()
            return number

    def clear(self) -> int:
        """Forget everything said so far, flushes too; the number of that clear."""
        with self._changed:
            if self._closed:
                raise Cancelled
            number, self._clear_count = self._clear_count, self._clear_count + 1
            self._clears.append(number)
            self._epoch += 1
            self._script.clear()
            if self._finishing and not self.finished:
                self._script.finish()
            self._stir()
            return number

    def finish(self) -> None:
        """No more text follows. Idempotent: ``Finished`` comes once."""
        with self._changed:
            if not (self._closed or self._finishing):
                self._finishing = True
                self._script.finish()
                self._stir()

    def close(self) -> bool:
        """Nothing more is taken, and nobody waits any longer. Whether that was so before."""
        with self._changed:
            already, self._closed = self._closed, True
            self._changed.notify_all()
        return already

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def wait(self, timeout: float | None) -> bool:
        """Block until there is something to do, or the session is closed (True), or time has passed (False)."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._idle or self._closed, timeout)

    @property
    def pending(self) -> int:
        """How many characters were said and have not been handed to the talker."""
        with self._changed:
            return self._script.pending

    def _check_open(self) -> None:
        if self._closed:
            raise Cancelled
        if self._finishing:
            raise ValueError("the session was finished: no more text can follow")

    def _stir(self) -> None:
        self._idle = False
        self._changed.notify_all()

    # ---------------------------------------------------------------- the stepping thread

    def settle(self) -> tuple[list[int], int]:
        """Numbers of the clears that came, and the epoch that has begun with the last of them."""
        with self._changed:
            numbers, self._clears = self._clears, []
            self._idle = not numbers  # Methods such as say() unset it.
            return numbers, self._epoch

    @contextmanager
    def current(self, epoch: int) -> Generator[Script]:
        """The script, locked.

        Raises:
            Overtaken: a clear came since ``epoch``: it holds newer text then.
        """
        with self._changed:
            if self._epoch != epoch:
                raise Overtaken
            yield self._script

    def rest(self, epoch: int, *, busy: bool, finished: bool) -> None:
        """A step comes to its end: ``busy`` if it made a frame or an event, ``finished`` if that was the last of all.

        Raises:
            Overtaken: as :meth:`current`: what it made must be dropped.
        """
        with self.current(epoch) as script:
            self._idle = self._idle and not busy and not script.behind
            self.finished = self.finished or finished
