"""Sentences said by the speaking model, and how it ended each."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from audio.recording import RecordingError
from bench.ear import path_sound
from bench.material import Material, progress
from bench.recordings import VOICE
from bench.row import NotMeasured
from bench.sentences import Sentence, read, sentences
from bench.wer import normalize
from codec.events import AudioChunk, PieceMark
from codec.model import TtsModel
from codec.options import SpeakOptions

Floats = npt.NDArray[np.float32]
_soxr: Any = soxr  # soxr's types are incomplete.

RATE: Final = 16_000
"""Hertz: the rate that both ears are given."""
SPEAKERS: Final = 4
"""Sentences that are spoken side by side."""
LENGTHS: Final = (0.6, 1.67)
"""The least and the most of the usual length for so many letters. Outside, something was left out or went on."""
OVERHEAD: Final = 8
"""Every sentence takes the time of so many letters beside its own: silence, and its lengthened end."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One sentence as it was said.

    Attributes:
        text: what was spoken: numbers as words.
        wave: float32 [n] at :data:`RATE`.
        guards: why pieces ended that did not end by themselves.
    """

    sentence: Sentence
    text: str
    wave: Floats
    guards: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Length of the audio."""
        return len(self.wave) / RATE

    @property
    def pace(self) -> float:
        """How many seconds a letter takes."""
        return self.seconds / (OVERHEAD + sum(len(word) for word in normalize(self.text)))


def say_all(material: Material, asked: Sequence[Sentence] = ()) -> tuple[list[Spoken], str]:
    """All sentences, said by one voice, each with its own seed; and that voice's name.

    Args:
        asked: other sentences than those of the material.

    Raises:
        ModelNotFound, ManifestError: no usable speaking model.
        NotMeasured: a file of sentences that cannot be read or holds none.
    """
    texts = (asked or (read(material.sentences) if material.sentences else sentences()))[: material.limit]
    model = TtsModel(material.speaking_model, sessions=SPEAKERS, threads=material.threads)
    try:
        names = [one.id for one in model.voices.listed()]
        voice = material.voice or (VOICE if VOICE in names else names[0])
        done = list[Spoken]()
        with ThreadPoolExecutor(SPEAKERS) as pool, progress("speaking") as report:
            for one in pool.map(partial(say, model, voice), texts, range(len(texts))):
                done.append(one)
                report(len(done) / len(texts))
    finally:
        model.close()
    if material.spoken is not None:
        _keep(done, material.spoken)
    return done, voice


def say(model: TtsModel, voice: str, sentence: Sentence, seed: int) -> Spoken:
    """Say one sentence."""
    chunks, texts, guards = list[Floats](), list[str](), list[str]()
    with closing(model.speaker(SpeakOptions(voice=voice, seed=seed))) as speaker:
        speaker.say(sentence.text)
        speaker.finish()
        for event in speaker.events():
            if isinstance(event, AudioChunk):
                chunks.append(event.samples)
            elif isinstance(event, PieceMark):
                texts.append(event.text)
                if event.reason != "end":
                    guards.append(event.reason)
        rate = speaker.sample_rate
    wave = np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
    if len(wave) and rate != RATE:
        wave = np.asarray(_soxr.resample(wave, rate, RATE), dtype=np.float32)
    return Spoken(sentence, " ".join(texts), wave, tuple(guards))


def odd_lengths(spoken: list[Spoken]) -> set[int]:
    """Places of those far from the median pace."""
    middle = float(np.median([one.pace for one in spoken])) if spoken else 0.0
    low, high = LENGTHS
    return {i for i, one in enumerate(spoken) if not low * middle <= one.pace <= high * middle}


def _keep(spoken: list[Spoken], folder: Path) -> None:
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    for i, one in enumerate(spoken):
        soundfile.write(str(folder / f"{i:03d}-{one.sentence.kind}.wav"), one.wave, RATE)  # pyright: ignore[reportUnknownMemberType]


def beside(material: Material) -> dict[int, Floats]:
    """The sentences that another says, by their places: float32 [n] at :data:`RATE`.

    Raises:
        NotMeasured: none is there, or one cannot be read.
    """
    if material.beside is None:
        return {}
    paths = sorted(material.beside.glob("[0-9][0-9][0-9]*.wav"))
    if not paths:
        raise NotMeasured(f"--beside {material.beside}: no 000.wav …")
    try:
        return {int(path.name[:3]): np.concatenate([*path_sound(path)(RATE)]) for path in paths}
    except RecordingError as error:
        raise NotMeasured(f"--beside {material.beside}: {error}") from error
