"""A hearing model that listens to many recordings, several at a time, through the listener that the daemon uses."""

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from audio.recording import samples
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions

Floats = npt.NDArray[np.float32]
Sound = Callable[[int], Iterable[Floats]]
"""A function that opens a recording at the rate it is asked for: float32 mono, in pieces."""
Progress = Callable[[float], None]
"""A function that is told the share that is done, 0…1."""

SESSIONS: Final = 4
"""Recordings that are heard side by side, so that single rows share llama.cpp's calls. A text is the same alone and in
a crowd."""

_soxr: Any = soxr  # soxr's types are incomplete.


def no_progress(share: float) -> None:
    """Progress for callers that nobody watches."""
    del share


def file_sound(audio: bytes) -> Sound:
    """An encoded recording, read the way ``hearsay transcribe`` reads a file."""
    return lambda rate: samples(io.BytesIO(audio), rate)


def path_sound(path: Path) -> Sound:
    """A file on disk, read the same way."""
    return lambda rate: samples(path, rate)


def array_sound(wave: Floats, rate: int) -> Sound:
    """Samples float32 [n] at ``rate``."""

    def opened(wanted: int) -> Iterator[Floats]:
        yield wave if rate == wanted else np.asarray(_soxr.resample(wave, rate, wanted), dtype=np.float32)

    return opened


class Ear:
    """One loaded model. Close it when done.

    Args:
        directory: the model's.
        threads: thread budget of all model calls; None for the CPUs this process may use.

    Raises:
        ManifestError: no usable model there.
    """

    def __init__(self, directory: Path, threads: int | None = None) -> None:
        self.model = AsrModel(directory, sessions=SESSIONS, threads=threads)

    def __enter__(self) -> "Ear":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the weights back."""
        self.model.close()

    def texts(
        self,
        sounds: Sequence[Sound],
        keyterms: Sequence[Sequence[str]] | None = None,
        progress: Progress = no_progress,
    ) -> list[str]:
        """The final text of each recording, in order. ``keyterms``: those of each recording's session."""
        terms = keyterms if keyterms is not None else [()] * len(sounds)
        done, lock = [0], threading.Lock()

        def one(sound: Sound, own: Sequence[str]) -> str:
            text = self.text(sound, own)
            with lock:
                done[0] += 1
                progress(done[0] / len(sounds))
            return text

        with ThreadPoolExecutor(SESSIONS) as pool:
            return list(pool.map(one, sounds, terms))

    def text(self, sound: Sound, keyterms: Sequence[str] = ()) -> str:
        """The final text of one recording; exactly what ``hearsay transcribe`` prints."""
        texts = list[str]()
        with closing(self.model.listener(ListenOptions(interim=False, keyterms=tuple(keyterms)))) as listener:
            for part in sound(self.model.sample_rate):
                listener.feed(part)
                texts += finals(listener.drain())
            listener.finish()
            texts += finals(listener.drain())
        return " ".join(texts)


def finals(events: Iterable[object]) -> list[str]:
    """The texts of the finals among ``events``, empty ones left out."""
    return [event.text for event in events if isinstance(event, Transcript) and event.is_final and event.text]
