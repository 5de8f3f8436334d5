"""How the speaking model reads what is hard to read: acronyms, numbers, words that are not spelled as they sound, short
utterances, and questions, whose pitch rises.

What was said is judged by ears that are not ours, the peers. A word that is written otherwise and sounds the same
("queue" and "cue") is right.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from audio.pitch import rise
from bench.material import Material, progress
from bench.naturalness import Floats, opinions
from bench.peers import hear
from bench.row import NotMeasured, Row
from bench.sentences import Sentence
from bench.spoken import RATE, Spoken, say_all
from bench.wer import read
from codec.sounds.reader import Reader
from engines.manifest import read_tts

_ACRONYMS: Final = (
    "BBC NHS FBI CIA USB PDF HTML CPU GPU DVD MBA PhD CEO HR UK EU UN IBM BMW VIP "
    "ATM GPS LED DNA RNA MRI LCD AI TV FM IMF FAQ RSVP ETA DIY UFO SMS WWF HBO NBA"
).split()
_FRAMES: Final = ("Nobody told the {}.", "Ask about the {} today.", "We read about the {}.", "This is the {} again.")
_SHORT: Final = (
    "Too late. Wait here. Quite so. Sounds good. Many thanks! Hi there. Bye now. Not today. Step inside. Take a seat. "
    "Nicely done. Forget it. Fair point. Back soon. Hold tight. No idea. Almost there. Keep left. Be quick! Job done."
)
_QUESTIONS: Final = (
    "Are you joining us later? Is it raining outside? Did you see the new film? Can I help you? Do you like it here? "
    "Have you eaten yet? Was the train late? Will she call tomorrow? Could you open the window? "
    "Would you like more soup? Is this your coat? Are they still asleep? Did he pay the bill? Can we start now? "
    "Do they know about it? Has the rain stopped? Were you at home? Will it hurt? Should I call back? "
    "Is there any milk left? Are we lost? Did the parcel arrive? Can you read this? Does she speak French? "
    "Have you been to Rome? Was it expensive? Will you lend me yours? Could they be right? Would that be a problem? "
    "Is he your brother? Are the shops open? Did you lock the door? Can it be repaired? Do you have a minute? "
    "Has anyone called? Were there many people? Will the bus stop here? Is it far? Are you certain? Did I wake you?"
)
_STATEMENTS: Final = (
    "She is coming with us. It is raining outside. He saw the new film. They like it here. The train was late. "
    "The window is open. This is my coat. We can start now. The rain has stopped. The shops are open."
)
_MARKED: Final = re.compile(r"\*(\w+)\*")
RISES: Final = 1.5
"""From so many semitones on a question rises."""
MOST_WRONG: Final = {"acronyms": 4, "numbers": 3, "words": 10}
"""The goals: of 40 acronyms, of 100 numbers, of 200 words."""
NATURAL: Final = 3.8
"""The goal for the naturalness of short utterances by distillmos."""


def lines() -> list[Sentence]:
    """All that is said, 310 lines, kind by kind. The words that count in those of ``words`` stand between stars.
    Nothing of it is learnt: training never says it (training/prepare.py), and no drill has it."""
    words = (Path(__file__).parent / "reading.txt").read_text(encoding="utf-8").splitlines()
    texts = {
        "acronyms": [_FRAMES[i % len(_FRAMES)].format(one) for i, one in enumerate(_ACRONYMS)],
        "numbers": [f"The answer is {number}." for number in range(1, 101)],
        "words": words,
        "short": _parted(_SHORT),
        "questions": _parted(_QUESTIONS),
        "statements": _parted(_STATEMENTS),
    }
    return [Sentence(text, kind) for kind, found in texts.items() for text in found]


def reading_rows(material: Material) -> list[Row]:
    """Rows of acronyms, numbers and words, by each peer; of questions that rise; of how natural short utterances are.

    Raises:
        NotMeasured: no peer is there.
        ModelNotFound, ManifestError: no usable speaking model.
    """
    if not material.present:
        none = "no peers to listen: --peers moonshine, which make peers installs"
        raise NotMeasured("; ".join(material.absent) or none)
    asked = lines()
    plain = [Sentence(_MARKED.sub(r"\1", one.text), one.kind) for one in asked]
    spoken, voice = say_all(material, plain)
    parts = read_tts(material.speaking_model).text.sounds
    reader = Reader.load(parts, material.speaking_model) if parts is not None else None
    rows = list[Row]()
    judged = [i for i, one in enumerate(plain[: len(spoken)]) if one.kind in MOST_WRONG]
    for peer in material.present:
        with progress(f"{peer.name} on what is hard to read") as report:
            heard = [one.text for one in hear(peer, [spoken[i].wave for i in judged], report)]
        for kind, most in MOST_WRONG.items():
            told = [(asked[i].text, text) for i, text in zip(judged, heard, strict=True) if asked[i].kind == kind]
            wrong = [(text, mistakes(kind, line, text, reader)) for line, text in told]
            lost = [f"{word}: heard “{text}”" for text, words in wrong for word in words]
            of = sum(len(_counted(kind, line)) for line, _ in told)
            name = f"{kind} of {of} misread by {voice}, as {peer.name} hears"
            rows.append(Row(name, str(len(lost)), f"≤ {most}", len(lost) <= most, details={"wrong": lost}))
    return [*rows, question_row(spoken, voice), _short_row(spoken, voice)]


def mistakes(kind: str, line: str, heard: str, reader: Reader | None) -> list[str]:
    """What of ``line`` (of :func:`lines`) was heard otherwise.

    An acronym is right if its letters stand in what was heard; a number if the sentence was heard as it is and no
    more; a word if it was heard, or one that sounds the same.
    """
    words = read(heard)
    if kind == "acronyms":
        letters = "".join(words)
        return [one for one in _counted(kind, line) if one.lower() not in letters]
    if kind == "numbers":
        return [] if words == read(line) else _counted(kind, line)
    sounds = {_sound(word, reader) for word in words}
    return [
        one for one in _counted(kind, line) if one.lower() not in words and _sound(one.lower(), reader) not in sounds
    ]


def _counted(kind: str, line: str) -> list[str]:
    """What counts in ``line``."""
    if kind == "words":
        return _MARKED.findall(line)
    return [line.split()[-1]] if kind == "numbers" else [one for one in _ACRONYMS if one in line.rstrip(".").split()]


def _sound(word: str, reader: Reader | None) -> str:
    """How a word sounds, stress left out; the word, for a model that reads letters."""
    return word if reader is None else reader.read(word).translate({ord("ˈ"): None, ord("ˌ"): None})


def question_row(spoken: Sequence[Spoken], voice: str) -> Row:
    """How many questions rise, and how many statements do. One with too little voice to tell does not."""

    def rises(kind: str) -> list[float | None]:
        return [rise(one.wave, RATE) for one in spoken if one.sentence.kind == kind]

    questions, statements = rises("questions"), rises("statements")
    up, wrongly = (sum((semitones or 0.0) > RISES for semitones in found) for found in (questions, statements))
    told = [semitones for semitones in questions if semitones is not None]
    wanted = math.ceil(0.75 * len(questions))
    return Row(
        f"questions of {len(questions)} whose pitch rises, by {voice}",
        f"{up}; {wrongly} of {len(statements)} statements",
        f"≥ {wanted}",
        up >= wanted,
        (f"median of the end's pitch over the lowest before it: {np.median(told or [0.0]):.1f} semitones",),
        {"semitones": questions},
    )


def _short_row(spoken: Sequence[Spoken], voice: str) -> Row:
    waves: list[Floats] = [one.wave for one in spoken if one.sentence.kind == "short"]
    name = f"naturalness of {len(waves)} short utterances by {voice}"
    try:
        with progress("naturalness") as report:
            natural, overall = opinions(waves, report)
    except NotMeasured as reason:
        return Row(name, "not measured", f"≥ {NATURAL}", False, (str(reason),))
    return Row(name, f"{natural:.2f}", f"≥ {NATURAL}", natural >= NATURAL, (f"distillmos; DNSMOS {overall:.2f}",))


def _parted(text: str) -> list[str]:
    return re.findall(r"\S[^.?!]*[.?!]", text)


if __name__ == "__main__":
    print("\n".join(_MARKED.sub(r"\1", one.text) for one in lines()))
