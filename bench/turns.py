"""Whose turn it is: false ends a minute of speech against the wait at true ends.

Clips that nobody cut get a pause to think, of their own room's tone, between two words of a phrase, and a long one at
their end; spelled names and numbers get pauses between their groups; turns with fillers are said by the speaking model.
Each silence is looked at once, as a session does it, and every rule is then played through: silence alone, the
listener's, and Smart Turn v3 behind the same voice activity, where pipecat-ai is there. ``python -m bench.turns ROWS
PICTURE`` draws the curve of the rows that ``bench.eval --rows turns --json ROWS`` wrote; that needs matplotlib.
"""

import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import numpy as np

from audio.pcm import Samples
from bench.clips import Clip
from bench.ear import SESSIONS
from bench.material import SEED, Material, progress, samples
from bench.row import Row
from bench.sentences import Sentence
from bench.spoken import say
from clients.lag import percentile
from codec.model import TtsModel
from engines.lane import at_once
from engines.onnx import Graph
from streaming.endpoint import Continued, Endpointer, Silence
from streaming.events import Paused, Transcript, bare
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.prompt import SENTENCE_MARKS
from streaming.turn import DEFAULT, SECOND, Turn
from streaming.vad import FRAME, VoiceActivity

RATE: Final = 16_000
CLIPS: Final = 140
"""Clips with a pause to think, at most."""
PAUSE: Final = (0.3, 2.0)
"""The shortest and the longest pause in seconds; all between are as likely."""
GROUP_PAUSE: Final = (0.3, 1.5)
"""The same between the groups of a number."""
AFTER: Final = 3.0
"""Seconds of room tone behind a clip."""
COMPLETE: Final = ("common voice", "common_voice", "kathleen", "vctk", "speechocean")
"""How the names of corpora begin whose clips are whole sentences."""
SPELLED: Final = "CMU AN4"
"""How the name of the corpus begins of spelled names, addresses and numbers."""
COMMANDS: Final = frozenset("ENTER RUBOUT ERASE HELP REPEAT STOP START GO YES NO".split())
"""Words of that corpus that are neither."""
SILENCES: Final = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0)
THRESHOLDS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PEER: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97)
PEER_LOOK: Final = 0.2
"""Seconds of silence at which Smart Turn is asked (pipecat's stop_secs); where it says no, it waits for 3."""
PEER_WAIT: Final = 3.0
TURNS: Final = (
    "So I was thinking, um|that we could meet on Thursday, because|the other days are full.",
    "I would like to|order a large pizza with, uh|mushrooms and onions.",
    "Can you tell me|when the next train to|London leaves?",
    "My name is|Anna, and I live at|forty two|Garden Street.",
    "Well, the|problem is that|it does not start.",
    "Yes, my number is|five five five|two oh one|seven seven three four.",
    "The code is|four nine|eight one|three three.",
    "It's spelled|B R|O W|N E.",
    "You can reach me at|six one seven|five five five|zero one two three.",
    "I wanted to ask whether|you have any rooms for|the second of May.",
    "My card number is|four one two three|nine eight seven six|five five five five|one two three four.",
    "He said he would|call, but|he never did.",
)
"""Turns with pauses, which the speaking model says."""


@dataclass(frozen=True, slots=True)
class Look:
    """A silence of a recording and what was judged there.

    Attributes:
        length: its seconds; infinite at the end of the turn.
        said: how much the words before it speak for an end; None where none were heard.
        peer: Smart Turn's probability of an end; NaN without it.
        text: what was heard.
    """

    length: float
    said: float | None
    peer: float = math.nan
    text: str = ""


@dataclass
class Looks:
    """The looks into recordings that together last ``seconds``, their pauses left out."""

    seconds: float = 0.0
    found: list[Look] = field(default_factory=list[Look])

    def reached(self, wait: Callable[[Look], float]) -> "Reached":
        """What the rule ``wait`` does, which gives the seconds of silence after which it ends a turn."""
        false = [look for look in self.found if math.isfinite(look.length) and look.length >= wait(look)]
        ends = [wait(look) for look in self.found if not math.isfinite(look.length)]
        return Reached(
            len(false), 60 * len(false) / max(self.seconds, 1e-9), percentile(ends, 0.5), percentile(ends, 0.95)
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """How many turns were cut, and how many a minute; seconds of silence at true ends: median and 95th percentile."""

    false: int
    a_minute: float
    median: float
    p95: float

    def __str__(self) -> str:
        return f"{self.a_minute:.2f} a minute, waits {self.median:.2f} and {self.p95:.2f} s"


def turn_rows(material: Material) -> list[Row]:
    """The curve on each kind of recording, and what was promised of it."""
    peer = SmartTurn.found()
    with closing(AsrModel(material.hearing_model, sessions=SESSIONS, threads=material.threads)) as asr:
        kinds = {
            "thinking": _looks(asr, peer, _thinking(material, asr), "thinking"),
            "groups": _looks(asr, peer, _groups(material, asr), "groups"),
            "dialogue": _looks(asr, peer, _dialogue(material), "dialogue"),
        }
    notes = () if peer else ("Smart Turn: pip install --no-deps pipecat-ai",)
    rows = [row for kind, looks in kinds.items() for row in _curve(kind, looks, bool(peer))]
    rows += _goals(kinds["thinking"], kinds["groups"])
    rows[0].details["looks"] = {kind: asdict(looks) for kind, looks in kinds.items()}
    return [*rows[:-1], replace(rows[-1], notes=notes)]


def _silence(seconds: float) -> Callable[[Look], float]:
    return lambda look: seconds


def _ours(turn: Turn) -> Callable[[Look], float]:
    return lambda look: turn.wait(look.said)


def _theirs(threshold: float) -> Callable[[Look], float]:
    return lambda look: PEER_LOOK if look.peer > threshold else PEER_WAIT


def _curve(kind: str, looks: Looks, peer: bool) -> list[Row]:
    count = f"{sum(math.isfinite(x.length) for x in looks.found)} pauses, {looks.seconds / 60:.1f} minutes"
    rules = {f"silence of {s:g} s": _silence(s) for s in SILENCES}
    rules |= {f"threshold {t:g}": _ours(Turn(threshold=t)) for t in THRESHOLDS}
    rules |= {f"Smart Turn, p > {p:g}": _theirs(p) for p in PEER} if peer else {}
    rows = [Row(f"{kind}, {name}", str(looks.reached(rule))) for name, rule in rules.items()]
    return [Row(f"{kind}, false ends", count), *rows]


def _goals(thinking: Looks, groups: Looks) -> list[Row]:
    silent = thinking.reached(_silence(0.6))
    ours = [thinking.reached(_ours(Turn(threshold=t / 100))) for t in range(30, 100)]
    soon = min((o.median for o in ours if o.false <= silent.false), default=math.inf)
    later = min((o.false for o in ours if o.median <= 0.5), default=thinking.reached(_silence(0.5)).false)
    cut = groups.reached(_ours(Turn())).false
    pauses = sum(math.isfinite(look.length) for look in groups.found)
    return [
        Row("median wait at the false ends of 0.6 s of silence", f"{soon:.2f} s", "≤ 0.25 s", soon <= 0.25),
        Row(
            "false ends at a median of 0.5 s, of those of 0.6 s of silence",
            f"{later} of {silent.false}",
            "≤ 1/5",
            5 * later <= silent.false,
        ),
        Row("groups cut", f"{cut} of {pauses}", "0", cut == 0),
    ]


# ---------------------------------------------------------------- recordings


@dataclass(frozen=True, slots=True)
class _Recording:
    """A wave with pauses. ``ends``: whether its last silence is the end of a turn."""

    wave: Samples
    seconds: float
    ends: bool


def _thinking(material: Material, asr: AsrModel) -> list[_Recording]:
    whole = [c for c in material.clips if c.corpus.lower().startswith(COMPLETE) and 2.0 <= c.seconds <= 14]
    return _with_pauses(asr, material.sample(whole, CLIPS), 1, PAUSE, ends=True)


def _groups(material: Material, asr: AsrModel) -> list[_Recording]:
    known = [c for c in material.clips if c.corpus.startswith(SPELLED) and len(c.text.split()) >= 4]
    spelled = [c for c in known if not COMMANDS & set(c.text.split())]
    return _with_pauses(asr, material.sample(spelled, CLIPS), 2, GROUP_PAUSE, ends=False)


def _with_pauses(
    asr: AsrModel, clips: Sequence[Clip], count: int, bounds: tuple[float, float], *, ends: bool
) -> list[_Recording]:
    """Each clip with ``count`` pauses between two words, none behind a mark; those with too few words are left out."""

    def one(clip: Clip) -> _Recording | None:
        draw = random.Random(f"{SEED} {clip.file}")
        wave = samples(clip.mended())
        words = [word for final in _heard(asr, wave) for word in final.words]
        gaps = [
            (before.end + after.start) / 2
            for i, (before, after) in enumerate(zip(words, words[1:], strict=False))
            if 0 < i < len(words) - 2 and (not ends or before.text == bare(before.text))
        ]
        if len(gaps) < count or any(m in clip.text.strip()[:-1] for m in SENTENCE_MARKS):
            return None
        chosen = sorted(draw.sample(gaps, count))
        return _Recording(paused(wave, chosen, draw, bounds), len(wave) / RATE, ends)

    with ThreadPoolExecutor(SESSIONS) as pool:
        return [found for found in pool.map(one, clips) if found is not None]


def paused(wave: Samples, places: Sequence[float], draw: random.Random, bounds: tuple[float, float]) -> Samples:
    """``wave`` with a pause at each of ``places``, in seconds, and a long one behind it."""
    parts, begin = list[Samples](), 0
    for place in places:
        at = _quietest(wave, round(place * RATE), round(0.06 * RATE))
        parts += [wave[begin:at], _tone(wave, round(draw.uniform(*bounds) * RATE), draw)]
        begin = at
    return np.concatenate([*parts, wave[begin:], _tone(wave, round(AFTER * RATE), draw)]).astype(np.float32)


def _quietest(wave: Samples, near: int, reach: int) -> int:
    """The sample within ``reach`` of ``near`` around which 10 ms are quietest."""
    begin = max(near - reach, 0)
    energy = np.convolve(np.square(wave[begin : near + reach], dtype=np.float64), np.ones(RATE // 100), "same")
    return begin + int(energy.argmin()) if len(energy) else near


def _tone(wave: Samples, count: int, draw: random.Random) -> Samples:
    """``count`` samples of the wave's own room: noise with the spectrum of its quietest 0.1 s."""
    size = RATE // 10
    blocks = wave[: len(wave) // size * size].reshape(-1, size)
    energy = np.square(blocks, dtype=np.float64).sum(axis=1)
    quiet = blocks[int(energy.argmin())] if len(blocks) else np.zeros(size, np.float32)
    spectrum = np.interp(np.linspace(0, 1, count // 2 + 1), np.linspace(0, 1, size // 2 + 1), abs(np.fft.rfft(quiet)))
    noise = np.random.default_rng(draw.getrandbits(32)).normal(size=(2, count // 2 + 1))
    made = np.fft.irfft(spectrum * (noise[0] + 1j * noise[1]), count)
    level = float(np.sqrt(np.mean(np.square(quiet, dtype=np.float64))) / max(np.sqrt(np.mean(np.square(made))), 1e-12))
    return (made * level).astype(np.float32)


def _dialogue(material: Material) -> list[_Recording]:
    recordings = list[_Recording]()
    with closing(TtsModel(material.speaking_model, sessions=1, threads=material.threads)) as tts:
        for voice in [one.id for one in tts.voices.listed()][:4]:
            for number, turn in enumerate(TURNS):
                draw = random.Random(f"{SEED} {voice} {number}")
                said = [_trimmed(say(tts, voice, Sentence(part, "turn"), number).wave) for part in turn.split("|")]
                room = np.random.default_rng(number).normal(0, 2e-4, RATE).astype(np.float32)
                parts = [np.concatenate([part, _tone(room, round(draw.uniform(*PAUSE) * RATE), draw)]) for part in said]
                wave = np.concatenate([*parts, _tone(room, round(AFTER * RATE), draw)]).astype(np.float32)
                recordings.append(_Recording(wave, sum(map(len, said)) / RATE, True))
    return recordings


def _trimmed(wave: Samples) -> Samples:
    loud = np.flatnonzero(np.abs(wave) > 0.01)
    return wave[loud[0] : loud[-1]] if len(loud) else wave


# ---------------------------------------------------------------- looks


def _heard(asr: AsrModel, wave: Samples) -> list[Transcript]:
    with closing(asr.listener(ListenOptions(interim=False, endpointing=None))) as listener:
        listener.feed(wave)
        listener.finish()
        return [event for event in listener.drain() if isinstance(event, Transcript) and event.is_final]


def _looks(asr: AsrModel, peer: "SmartTurn | None", recordings: Sequence[_Recording], what: str) -> Looks:
    looks = Looks(sum(one.seconds for one in recordings))
    with ThreadPoolExecutor(SESSIONS) as pool, progress(what) as report:
        for i, found in enumerate(pool.map(partial(_look, asr, peer), recordings)):
            looks.found += found
            report((i + 1) / len(recordings))
    return looks


def _look(asr: AsrModel, peer: "SmartTurn | None", recording: _Recording) -> list[Look]:
    """What is judged in each silence of a recording that may end a turn."""
    wave, paused = recording.wave, dict[int, Paused]()
    turn = Turn(threshold=1.0, timeout=60.0, eager=0.0)
    with closing(asr.listener(ListenOptions(interim=False, endpointing=turn), live=True)) as listener:
        for start in range(0, len(wave), FRAME):
            listener.feed(wave[start : start + FRAME])
            for event in listener.drain():
                if isinstance(event, Paused):
                    paused[round(event.transcript.end * RATE)] = event
    looks, last = list[Look](), None
    for event in (*at_once(Endpointer(VoiceActivity(asr.engine.vad)).feed(wave)), None):
        if isinstance(event, Silence):
            last = event
        elif last is not None and (event is None or isinstance(event, Continued)):
            length = math.inf if event is None else (event.sample - last.sample) / RATE
            if event is not None or recording.ends:
                looks.append(_judged(wave, last, length, paused, peer))
            last = None
    return looks


def _judged(
    wave: Samples, silence: Silence, length: float, paused: dict[int, Paused], peer: "SmartTurn | None"
) -> Look:
    event = paused.get(max(silence.sample + round(0.096 * RATE), silence.decided))
    said = None
    if event is not None:
        looked = -(-round(0.2 * RATE) // FRAME) * FRAME / RATE
        said = math.log(event.sure / (1 - event.sure)) - SECOND * looked
    until = silence.sample + round(PEER_LOOK * RATE)
    theirs = peer.probability(wave[:until]) if peer is not None and length > PEER_LOOK else math.nan
    return Look(length, said, theirs, "" if event is None else event.transcript.text)


class SmartTurn:
    """Smart Turn v3 as pipecat-ai ships it: the last 8 s of sound → the probability of an end."""

    def __init__(self, folder: Path) -> None:
        spec = spec_from_file_location("smart_turn_features", folder / "_whisper_features.py")
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        self._features: Any = module.compute_whisper_log_mel_features
        self._graph = Graph(next((folder / "data").glob("smart-turn-v3*.onnx")), threads=1, provider="cpu")

    @classmethod
    def found(cls) -> "SmartTurn | None":
        """The model, where pipecat-ai is installed; its package is not imported."""
        spec = find_spec("pipecat")
        if spec is None or not spec.submodule_search_locations:
            print("Smart Turn: pipecat-ai is not installed", file=sys.stderr)
            return None
        return cls(Path(next(iter(spec.submodule_search_locations))) / "audio" / "turn" / "smart_turn")

    def probability(self, wave: Samples) -> float:
        """``wave``: float32 [n] at 16 kHz, which ends with the silence so far."""
        wave = wave[-8 * RATE :]
        features = self._features(np.pad(wave, (8 * RATE - len(wave), 0)), do_normalize=True)
        (found,) = self._graph.run({"input_features": features[None].astype(np.float32)})
        return float(found[0].item())


# ---------------------------------------------------------------- the curve


def draw(looks: Looks, picture: Path) -> None:
    """Draw false ends a minute against the mean wait at true ends, for each rule with all its settings."""
    figures: Any = import_module("matplotlib.figure")  # The extra `eval` has it, and the type check runs without.
    rules = {
        "silence alone": [_silence(s) for s in SILENCES],
        "hearsay": [_ours(Turn(threshold=t)) for t in THRESHOLDS],
        f"hearsay, at most {DEFAULT.timeout:g} s": [_ours(replace(DEFAULT, threshold=t)) for t in THRESHOLDS],
        "Smart Turn v3": [_theirs(p) for p in PEER] if any(not math.isnan(x.peer) for x in looks.found) else [],
    }
    figure = figures.Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, settings in rules.items():
        ends = [x for x in looks.found if not math.isfinite(x.length)]
        waits = [sum(map(rule, ends)) / len(ends) for rule in settings]
        axes.plot(waits, [looks.reached(rule).a_minute for rule in settings], "o-", label=name, markersize=4)
    axes.set(xlabel="mean wait at the end of a turn, s", ylabel="false ends a minute", ylim=0)
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Draw the curve of clips with a pause to think."""
    rows, picture = map(Path, sys.argv[1:])
    kinds = next(row["looks"] for row in json.loads(rows.read_text("utf-8")) if "looks" in row)
    thinking = kinds["thinking"]
    draw(Looks(thinking["seconds"], [Look(**look) for look in thinking["found"]]), picture)


if __name__ == "__main__":
    main()
