"""A model tried on this machine: it hears the recording in the box, or says a sentence that is heard.

Official weights are first seen on a user's machine, so that machine looks whether they do what they should.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from commands.console import Failure, complain

if TYPE_CHECKING:
    from streaming.model import AsrModel

MOST_WRONG: Final = 0.3
"""Share of wrong words above which something is off with a model: the small one in the box has a third of that."""
MOST_APART: Final = 0.3
"""Seconds that the word times of an aligner and those of the small model may lie apart in the median."""
SENTENCE: Final = "Good evening. The people across the river had built a bridge of stone."
"""It takes five seconds to say: a model that takes four seconds of this machine for each is tried in twenty."""
MOST_SPOKEN: Final = 10.0
"""Seconds of speech after which a model has not found the sentence's end, which lies at five."""
PATIENCE: Final = 90.0
"""Seconds of this machine after which a voice is cut off, and what it said is judged."""
LEAST_WORDS: Final = 4
"""Words below which nothing can be told of a voice that was cut off."""
TELL_SECONDS: Final = 10.0
"""Seconds between two lines that tell how far the voice is."""
REFERENCE_SECONDS: Final = 5.0
"""Seconds of the recording that a model without a voice takes its voice from."""
MANNER: Final = "A calm and clear voice of a woman."


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it."""

    lines: tuple[str, ...]
    """For people."""
    sound: bool
    """Whether the model transcribes or speaks the trial's sentence as it should."""


def report(path: Path, threads: int | None = None) -> None:
    """Try the model of ``path`` and tell on stderr what came of it; its cost on this machine and its verdict are kept
    beside it.

    Raises:
        Failure: it does not do what it should; the message says what to send.
        ManifestError, GgufError, GraphError: it cannot be loaded.
    """
    name = path.name
    complain(f"{name} is being tried on this machine")
    found = attempt(path, threads)
    for line in found.lines:
        complain(line)
    if not found.sound:
        raise Failure(
            f"{name} does not do what it should: its weights, or what hearsay makes of them, are off. Send us the "
            f"lines above, {path / 'model.json'} and what hearsay doctor --json prints; hearsay models remove {name} "
            "deletes it"
        )


def attempt(path: Path, threads: int | None = None) -> Trial:
    """Try the model of ``path``.

    Raises:
        ManifestError, GgufError, GraphError: it cannot be loaded.
    """
    from engines import manifest as manifests

    manifest = manifests.read(path)
    if isinstance(manifest, manifests.TtsManifest):
        found = _speak(path, threads, seed=1)
        if not found.sound:  # A voice draws how it says something, and one that is sound now and then draws badly.
            complain(f"it was not understood ({found.lines[1]}), so it says the sentence once more")
            found = _speak(path, threads, seed=2)
        return found
    return _hear(path, threads) if manifest.aligner is None else _align(path, threads)


def _note(path: Path, cost: float, threads: int | None, sound: bool) -> None:
    """Keep what the model cost and whether it is sound, where it is one of those that are chosen from."""
    from engines import speed, store

    if path.parent == store.user_directory():
        speed.note(path, cost, threads, failed=not sound)


def _hear(path: Path, threads: int | None) -> Trial:
    from commands.samples import sample
    from engines import speed
    from streaming.model import AsrModel

    recording = sample("demo")
    model = AsrModel(path, sessions=1, threads=threads, warm=False)
    try:
        began = time.perf_counter()
        answer = _heard(model, recording.path)
        wall = time.perf_counter() - began
        model.measure()
        cost = model.cost
    finally:
        model.close()
    live = (
        "it keeps a live session" if cost <= speed.LIVE else "it is not live here: captions of a microphone fall behind"
    )
    lines, sound = _compared("heard", recording.text, answer["text"])
    _note(path, cost, threads, sound)
    told = f"speed: {answer['duration']:.0f} s of speech in {wall:.1f} s; a live session takes {cost:.2f} s a second"
    return Trial((*lines, f"{told}: {live}"), sound)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a voice said: samples float32 at ``rate``, in ``wall`` seconds of this machine; why it was cut off, empty
    where it came to the end; what a second of it costs, by the model's own measure."""

    samples: Any
    rate: int
    wall: float
    cut: str
    noted: float


def _speak(path: Path, threads: int | None, *, seed: int) -> Trial:
    from audio.encoder import wav_header
    from audio.pcm import linear16
    from engines import speed
    from engines.choice import choose
    from streaming.model import AsrModel

    with TemporaryDirectory(prefix="hearsay-trial-") as folder:
        said = _said(path, threads, Path(folder), seed)
        seconds = len(said.samples) / said.rate
        cut = (f"cut off {said.cut}",) if said.cut else ()
        if not seconds:
            _note(path, said.noted, threads, bool(cut))
            return Trial((f"said: {SENTENCE}", *cut, "heard: nothing, it made no sound"), bool(cut))
        file = Path(folder) / "said.wav"
        sound = linear16(said.samples)
        file.write_bytes(wav_header("linear16", said.rate, len(sound)) + sound)
        choice = choose("asr", threads)
        ear = AsrModel(choice.path, sessions=1, threads=threads)
        try:
            heard: str = _heard(ear, file)["text"]
        finally:
            ear.close()
    cost = said.wall / seconds
    speaks = "it speaks without a pause" if cost <= speed.LIVE else "it is not live here: it pauses while it speaks"
    told = f"speed: {seconds:.1f} s of speech in {said.wall:.1f} s, {cost:.2f} s a second: {speaks}"
    meant = begun(SENTENCE, heard) if said.cut and seconds < MOST_SPOKEN else SENTENCE
    lines, good = _compared(f"heard by {choice.name}", meant or SENTENCE, heard)
    if not meant:
        lines, good = (lines[0], "that is too little to tell whether it does what it should"), True
    _note(path, said.noted or cost, threads, good)
    return Trial((f"said: {SENTENCE}", *cut, *lines, told), good)


def begun(meant: str, heard: str) -> str:
    """The beginning of ``meant`` that is nearest to ``heard``; empty where that is too short to tell anything."""
    from bench.wer import distance, read

    words, found = meant.split(), read(heard)
    if len(found) < LEAST_WORDS:
        return ""
    beginnings = [" ".join(words[:count]) for count in range(LEAST_WORDS, len(words) + 1)]
    return min(beginnings, key=lambda beginning: distance(read(beginning), found))


def _said(path: Path, threads: int | None, folder: Path, seed: int) -> _Said:
    """The sentence in a voice that the model has, or that it is given. What the model took of memory is free again."""
    from contextlib import closing

    import numpy as np

    from audio.recording import samples
    from codec.events import AudioChunk
    from codec.model import TtsModel
    from codec.options import SpeakOptions
    from commands.samples import sample

    model = TtsModel(path, sessions=1, threads=threads, voices=folder)
    try:
        voice, rate = None, model.sample_rate
        if not model.manifest.voices and model.manifest.speaker_encoder is not None:
            speech = np.concatenate(list(samples(sample("demo").path, rate)))[: int(REFERENCE_SECONDS * rate)]
            voice = model.clone("trial", speech, rate).id
        manner = MANNER if model.manifest.variant == "voice_design" else None
        options = SpeakOptions(voice=voice, language="en", instructions=manner, seed=seed)
        made, count, cut = [np.empty(0, np.float32)], 0, ""
        began = told = time.perf_counter()
        with closing(model.speaker(options)) as speaker:
            speaker.say(SENTENCE)
            speaker.finish()
            for event in speaker.events():
                now = time.perf_counter()
                if isinstance(event, AudioChunk):
                    made.append(event.samples)
                    count += len(event.samples)
                if count >= MOST_SPOKEN * rate:
                    cut = (
                        f"after {MOST_SPOKEN:g} s of speech, twice what the sentence takes, it had not come to the end"
                    )
                elif now - began > PATIENCE:
                    cut = f"after {PATIENCE:g} s, this machine being slow for it"
                if cut:
                    break
                if now - told > TELL_SECONDS:
                    told = now
                    complain(f"{count / rate:.1f} s of speech so far, in {now - began:.0f} s")
        return _Said(np.concatenate(made), rate, time.perf_counter() - began, cut, model.cost)
    finally:
        model.close()


def _align(path: Path, threads: int | None) -> Trial:
    from commands.samples import sample
    from engines import store
    from streaming.model import AsrModel

    recording = sample("demo")

    def starts(aligner: Path | None) -> list[float]:
        model = AsrModel(store.find(store.default()), sessions=1, threads=threads, aligner=aligner)
        try:
            return [word["start"] for word in _heard(model, recording.path)["words"]]
        finally:
            model.close()

    own, told = starts(None), starts(path)
    apart = median(abs(a - b) for a, b in zip(own, told, strict=True)) if own else 0.0
    line = f"word times: {1000 * apart:.0f} ms from those of {store.default()} in the median, {len(own)} words"
    return Trial((line,), apart <= MOST_APART)


def _heard(model: "AsrModel", file: Path) -> dict[str, Any]:
    from commands.transcribe import hear_file
    from streaming.options import ListenOptions

    def untold(seconds: float) -> None:
        """The recording is short, so how far it is heard is told to nobody."""

    return hear_file(model, file, ListenOptions(interim=False), untold)


def _compared(verb: str, meant: str, heard: str) -> tuple[tuple[str, str], bool]:
    """What was meant beside what was heard, and whether that is near enough."""
    from bench.wer import distance, read

    expected, words = read(meant), read(heard)
    wrong = distance(expected, words)
    share = wrong / len(expected)
    shown = heard if len(heard) < 600 else f"{heard[:600]}…"
    count = (
        f"wrong words: {wrong} of {len(expected)} ({100 * share:.0f} %; more than {100 * MOST_WRONG:.0f} % is too many)"
    )
    return (f"{verb}: {shown or '(nothing)'}", count), share <= MOST_WRONG
