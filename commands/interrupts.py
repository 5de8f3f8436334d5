"""Ctrl-C while files are heard in this process."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

Progress = Callable[[float], None]
"""A function that is told how many seconds of the file were heard."""
Hear = Callable[[Path, Progress], dict[str, Any]]
"""A function that makes OpenAI's ``verbose_json`` of a recording."""


class Interrupts:
    """Whether Ctrl-C was pressed while this context lasts. Python raises KeyboardInterrupt wherever it is; but where
    FFmpeg calls back to read a file PyAV would lose it, so there it is raised by :meth:`check` only."""

    def __init__(self) -> None:
        from audio.ffmpeg import CALLED_BACK

        self._called_back, self._pressed = CALLED_BACK, False
        # Whoever started this process may have told it to ignore the key.
        self._replaces = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> Self:
        if self._replaces:
            signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._replaces:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        while frame is not None:
            if frame.f_code in self._called_back:
                return
            frame = frame.f_back
        signal.default_int_handler(number, frame)

    def check(self) -> None:
        """
        Raises:
            KeyboardInterrupt: it was pressed.
        """
        if self._pressed:
            raise KeyboardInterrupt

    def heeded(self, hear: Hear) -> Hear:
        """``hear``, which ends with KeyboardInterrupt if the key was pressed, also where the file could not be read for
        that reason."""

        def heard(file: Path, progress: Progress) -> dict[str, Any]:
            def told(seconds: float) -> None:
                self.check()
                progress(seconds)

            try:
                return hear(file, told)
            finally:
                self.check()

        return heard
