"""Recordings in every container, read as a file and as a stream: the same words come out at their right times.

``pytest -s`` prints the table: words that are heard, and the farthest that one of them is from its time. A container
whose sound is that of the plain one, at the place where it should be, is not heard again: its words follow.
"""

import io
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest
import soxr

from audio.recording import samples
from audio.sound import Wanted
from audio.wire import ContainerStream
from streaming.events import Word
from streaming.model import AsrModel
from tests.audio.containers import KINDS, Kind, several
from tests.clips import RATE, Clip
from tests.streaming.listening import OFFLINE, Floats, finals, listen

LATE, HOLE = 5.0, 10.0
NEAR = 0.1
"""Seconds that a word may be from its time."""
UNTOLD = {"mp3", "mp4", "aac", "3gp", "amr", "mpeg-ts", "mpeg-ts mp2", "avi", "wma"}
"""Kinds that do not tell how much an encoder put before the sound, 20 to 46 ms: half as much again is let pass."""

Case = Callable[[str, Kind, Floats, float], bytes]
Place = Callable[[float], float]
"""Where a moment of the recording is in the container, in seconds."""


def pcm(wave: Floats, kind: Kind) -> tuple[npt.NDArray[np.int16], int]:
    """The wave as int16 [n, 1] at the kind's sample rate, and that rate."""
    rate = kind.rate or 48_000
    return (np.clip(soxr.resample(wave, RATE, rate), -1, 1) * 32767).astype(np.int16)[:, None], rate


def case(name: str, kind: str, wave: Floats, pause: float, plain: bytes) -> tuple[bytes, Place] | None:
    """The recording in a container of one case, and where its moments lie there; None if the container has no such
    case.

    Args:
        pause: the second at which the recording is silent.
        plain: the recording in the same kind of container without anything special, where it is made already.
    """
    how = KINDS[kind]
    sound, rate = pcm(wave, how)
    same: Place = float
    match name:
        case "plain":
            return several(kind, [sound], rate), same
        case "late" if how.stamped and how.options.get("movflags", "").count("frag") == 0 and how.format != "mpegts":
            return several(kind, [sound], rate, late=lambda at: LATE), lambda at: at + LATE
        case "hole" if how.stamped:
            data = several(kind, [sound], rate, late=lambda at: HOLE if at > pause else 0.0)
            return data, lambda at: at + (HOLE if at > pause else 0.0)
        case "two tracks" if how.tracks:
            return several(kind, [np.zeros_like(sound), sound], rate), same
        case "5.1" if how.channels >= 6:
            six = np.zeros((len(sound), 6), np.int16)
            six[:, 2] = sound[:, 0]
            return several(kind, [six], rate, "5.1"), same
        case "inverted" if how.channels >= 2:
            return several(kind, [np.concatenate([sound, -sound], axis=1)], rate, "stereo"), same
        case "cut off" if how.live:
            return plain[: len(plain) * 3 // 4], same
        case "joined":
            return 2 * plain, same
        case _:
            return None


CASES = ("plain", "late", "hole", "two tracks", "5.1", "inverted", "cut off", "joined")


def by_file(data: bytes, model: AsrModel) -> Iterator[Floats]:
    yield from samples(io.BytesIO(data), Wanted(RATE, speaks=model.speaks))


def by_stream(data: bytes, model: AsrModel) -> Iterator[Floats]:
    stream = ContainerStream(Wanted(RATE, speaks=model.speaks))
    try:
        for at in range(0, len(data), 4_999):
            yield from stream.pieces(data[at : at + 4_999])
        yield from stream.pieces(b"", last=True)
    finally:
        stream.close()


def words(model: AsrModel, wave: Floats, known: dict[bytes, list[Word]]) -> list[Word]:
    """Of all finals; sound that is ``known``, as that of every lossless kind is, is not heard again."""
    sound = wave.tobytes()
    if sound not in known:
        known[sound] = [word for final in finals(listen(model, wave, OFFLINE, [RATE])) for word in final.words]
    return known[sound]


def placed(plain: Floats, place: Place) -> Floats:
    """The samples of the plain container, each 10 ms of them moved to their place."""
    whole = np.zeros(round(place(len(plain) / RATE) * RATE) + RATE, np.float32)
    for start in range(0, len(plain), RATE // 100):
        block, at = plain[start : start + RATE // 100], round(place(start / RATE) * RATE)
        whole[at : at + len(block)] = block
    return whole


def expected(name: str, plain: Floats, place: Place, size: int) -> Floats:
    """The samples that a case should give. ``size`` tells how many it has where only the container knows."""
    if name == "cut off":
        return plain[:size] if len(plain) / 2 < size else plain
    if name == "joined":  # not every kind of file tells that another one follows
        return np.concatenate([plain, plain]) if size > 1.5 * len(plain) else plain
    return placed(plain, place)


def follows(sound: Floats, expected: Floats) -> bool:
    """Whether ``sound`` is the ``expected`` one, at about the same level and displaced by no more than a fifth of
    ``NEAR``."""
    near = round(NEAR / 5 * RATE)
    size = max(len(sound), len(expected))
    here, there = np.zeros(size, np.float32), np.zeros(size + 2 * near, np.float32)
    here[: len(sound)], there[near : near + len(expected)] = sound, expected
    most = np.correlate(there, here, "valid").max()
    power, wanted = float(sound @ sound), float(expected @ expected)
    return most > 0.95 * np.sqrt(power * wanted) and 0.25 < power / wanted < 4


def off(found: list[Word], true: list[Word], place: Place) -> float:
    """By how many seconds the words that both lists share, from the first on, are apart at most."""
    spoken = iter(true)
    apart = [0.0]
    for word in found:
        match = next((one for one in spoken if one.text.lower().strip(".,") == word.text.lower().strip(".,")), None)
        if match is None:
            break
        apart.append(abs(word.start - place(match.start)))
    return max(apart)


@pytest.mark.slow
def test_words_are_heard_at_their_time_from_every_container(asr_model: AsrModel, clips: list[Clip]) -> None:
    known: dict[bytes, list[Word]] = {}
    short = (clip for clip in clips if clip.seconds < 2 and len(words(asr_model, clip.samples, known)) >= 3)
    first, second, quiet = next(short), next(short), np.zeros(RATE * 7 // 10, np.float32)
    wave = np.concatenate([first.samples, quiet, second.samples, quiet])
    true = words(asr_model, wave, known)
    pause = first.seconds + 0.35
    print(f"\n{'':18}" + "".join(f"{name:>22}" for name in CASES))
    wrong: list[str] = []
    plain = np.zeros(0, np.float32)
    for kind, how in KINDS.items():
        row, data = f"{kind:18}", b""
        for name in CASES:
            made = case(name, kind, wave, pause, data)
            data = made[0] if name == "plain" and made is not None else data
            cells, found = list[str](), list[Word]()
            heard: list[Floats] = []
            for door in (by_file, by_stream) if how.live and made else (by_file,) if made else ():
                assert made is not None
                heard.append(np.concatenate(list(door(made[0], asr_model))))
                if name == "plain" and len(heard) == 1:
                    plain = heard[0]
                elif follows(heard[-1], expected(name, plain, made[1], len(heard[-1]))):
                    cells.append("as plain")
                    continue
                if len(heard) == 1 or not same(heard):
                    found = words(asr_model, heard[-1], known)
                # Of the last word before a cut only a part is there.
                apart = off(found[:-1] if name == "cut off" else found, true, made[1])
                cells.append(f"{len(found)}/{len(true)} {apart:.2f}")
                if not found or apart > (1.5 * NEAR if kind in UNTOLD else NEAR):
                    wrong.append(f"{kind}, {name}, {door.__name__}: {len(found)} words, {apart:.2f} s off")
            if len(heard) == 2 and not same(heard):
                wrong.append(f"{kind}, {name}: the doors differ")
            row += f"  {' | '.join(cells) or '-':>20}"
        print(row)
    assert not wrong, "\n".join(wrong)


def same(heard: list[Floats]) -> bool:
    """Whether both doors gave the same samples, bit for bit."""
    return np.array_equal(heard[0], heard[-1])
