"""Who speaks: diarization error rate, speakers counted and words given to the right one, live and from a file.

The conversations are made from clips of speakers whom nothing was trained on (bench/conversations.py). What is heard is
what a client sees: the words of finals with their speakers. Errors are counted as NIST does: 0.25 s around each
boundary of the reference count for nothing, overlaps do; missed speech, false speech and the wrong speaker together,
divided by the speech, after the best assignment of speakers to people.
"""

import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from audio.pcm import Samples
from bench.clips import Clip
from bench.conversations import Conversation, Said, by_speaker, conversation
from bench.material import SEED, Material, progress
from bench.row import NotMeasured, Row, at_most
from streaming.events import SpeakerMerged, Transcript, Word
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.utterance import HANG_SECONDS

CONVERSATIONS: Final = 60
ENOUGH: Final = 4
"""Speakers that a corpus needs for conversations of its own."""
VOLUNTEERS: Final = "common"
"""The corpus whose speakers were not recorded alike."""
PAIRED: Final = "librispeech"
"""The corpus whose readers talk in pairs too: audiobooks, recorded alike."""
PAIRS: Final = 6
"""How many pairs talk."""
STEP: Final = 0.01
"""Seconds of a frame that is scored."""
COLLAR: Final = 0.25
"""Seconds on both sides of a boundary of the reference that are not scored."""
GAP: Final = 0.5
"""Seconds between a speaker's words in two utterances up to which they are one stretch, as in the reference."""

Frames = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Errors:
    """Frames of speech, counted once for each who speaks, and what went wrong in them."""

    speech: int
    missed: int
    false: int
    wrong: int

    @property
    def rate(self) -> float:
        """The diarization error rate."""
        return (self.missed + self.false + self.wrong) / max(self.speech, 1)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one conversation: its errors, how many speakers were found, and of how many words how many have
    the right one."""

    errors: Errors
    found: int
    words: int
    right: int


def speaker_rows(material: Material) -> list[Row]:
    """The rows of both judgements, and what the speakers cost."""
    people = by_speaker(material.clips)
    if len(people) < 5:
        raise NotMeasured("needs clips of five speakers, by an index with speaker")
    count = material.limit or CONVERSATIONS
    mixed = [conversation(people, f"{SEED} {i}", 2 + i % 4) for i in range(count)]
    of = alike(people)
    near = [
        conversation(some, f"{SEED} {name} {i}", min(2 + i % 4, len(some)))
        for i in range(-(-count // 10))
        for name, some in of.items()
    ]
    names = sorted(of.get(PAIRED, {}))
    pairs = [
        conversation({one: people[one] for one in pair}, f"{SEED} {pair}", 2)
        for pair in list(combinations(names, 2))[: material.limit or PAIRS]
    ]
    kinds = [("", mixed), ("recorded alike, ", near), ("pairs", pairs)]
    rows, done, whole = list[Row](), 0, len(mixed) + len(near) + len(pairs)
    with closing(AsrModel(material.hearing_model, sessions=1, threads=1)) as asr, progress("speakers") as report:
        for kind, talks in kinds:
            live, settled = list[Judged](), list[Judged]()
            for talk in talks:
                once, again, merged = heard(asr, talk.wave)
                live.append(judged(talk, once, merged))
                settled.append(judged(talk, again, {}))
                done += 1
                report(done / whole)
            if not talks:
                continue
            if kind == "pairs":
                rows += [_pairs("from a file", settled), _pairs("live", live)]
            else:
                rows += _rows(f"{kind}from a file", talks, settled, 0.12)
                rows += _rows(f"{kind}live", talks, live, 0.18)
        cost = _cost(asr, mixed[:6])
    return [*rows, cost]


def alike(people: dict[str, list[Clip]]) -> dict[str, dict[str, list[Clip]]]:
    """The speakers of each corpus that has ``ENOUGH`` of them, by the first word of its name: those of one corpus were
    recorded alike, so their microphones tell nothing. Volunteers each have a microphone of their own."""
    found: dict[str, dict[str, list[Clip]]] = {}
    for name, clips in people.items():
        word = re.match(r"[a-z]*", clips[0].corpus.lower())
        found.setdefault(word.group() if word else "", {})[name] = clips
    return {name: some for name, some in sorted(found.items()) if len(some) >= ENOUGH and name != VOLUNTEERS}


def _pairs(what: str, found: Sequence[Judged]) -> Row:
    """How many conversations of two are told as those of two, most of whose words have the right speaker."""
    told = sum(one.found >= 2 and one.right >= 0.9 * one.words for one in found)
    details = {"pairs": [[one.errors.rate, one.found, one.right, one.words] for one in found]}
    name = f"pairs of {PAIRED} told apart, {what}"
    return Row(name, f"{told} of {len(found)}", "all", told == len(found), details=details)


def heard(asr: AsrModel, wave: Samples) -> tuple[list[Transcript], list[Transcript], dict[int, int]]:
    """The finals of a recording as they are said live, the same after the second judgement, and who turned out to be
    whom."""
    finals, merged = list[Transcript](), dict[int, int]()
    with closing(asr.listener(ListenOptions(interim=False, speakers=True), live=False)) as listener:
        for start in range(0, len(wave), asr.sample_rate):
            listener.feed(wave[start : start + asr.sample_rate])
            _take(listener.drain(), finals, merged)
        listener.finish()
        _take(listener.drain(), finals, merged)
        return finals, listener.settled(finals), merged


def _take(events: Sequence[object], finals: list[Transcript], merged: dict[int, int]) -> None:
    for event in events:
        if isinstance(event, Transcript) and event.is_final and event.words:
            finals.append(event)
        elif isinstance(event, SpeakerMerged):
            merged[event.speaker] = event.into


def judged(talk: Conversation, finals: Sequence[Transcript], merged: dict[int, int]) -> Judged:
    """Score ``finals``, whose speakers may be ``merged``."""
    finals = [
        replace(one, words=tuple(replace(word, speaker=_into(word.speaker or 0, merged)) for word in one.words))
        for one in finals
    ]
    words = [word for final in finals for word in final.words]
    errors, names = score(talk.said, stretched(finals))
    right = sum(_is_right(word, talk.said, names) for word in words)
    return Judged(errors, len({word.speaker for word in words}), len(words), right)


def _into(speaker: int, merged: dict[int, int]) -> int:
    while speaker in merged:
        speaker = merged[speaker]
    return speaker


def stretched(finals: Sequence[Transcript]) -> list[Said]:
    """The stretches of speech of ``finals``. An utterance is speech from its onset to the silence that ends it, and
    words of one speaker that follow each other in it are one stretch; from one utterance to the next they are where the
    silence is short."""
    found: list[Said] = []
    for final in finals:
        onset, end = final.start + ListenOptions().preroll, final.end - HANG_SECONDS
        for number, word in enumerate(final.words):
            name, last = str(word.speaker), found[-1] if found else None
            begins = word.start if number else min(word.start, onset)
            ends = word.end if number + 1 < len(final.words) else max(word.end, end)
            if last is not None and last.speaker == name and (number or begins - last.end <= GAP):
                found[-1] = Said(last.start, max(ends, last.end), name)
            else:
                found.append(Said(begins, ends, name))
    return found


def _is_right(word: Word, said: Sequence[Said], names: dict[str, str]) -> bool:
    """Whether who is speaking in the middle of ``word``, or nearest to it, is its speaker."""
    at = (word.start + word.end) / 2
    far = [max(one.start - at, at - one.end, 0.0) for one in said]
    near = min(far)
    return any(names.get(str(word.speaker)) == one.speaker for one, d in zip(said, far, strict=True) if d <= near)


def score(reference: Sequence[Said], found: Sequence[Said]) -> tuple[Errors, dict[str, str]]:
    """The errors of ``found``, and who each of its speakers is, by the assignment that leaves the fewest."""
    frames = int(max(one.end for one in (*reference, *found)) / STEP) + 2
    people, truth = _lines(reference, frames)
    speakers, told = _lines(found, frames)
    scored = np.ones(frames, np.bool_)
    for one in reference:
        for edge in (one.start, one.end):
            scored[max(0, round((edge - COLLAR) / STEP)) : round((edge + COLLAR) / STEP)] = False
    truth, told = truth & scored, told & scored
    together = told.astype(np.int64) @ truth.T.astype(np.int64)
    chosen = assigned(together)
    names = {speakers[a]: people[b] for a, b in chosen.items()}
    hit = np.zeros(frames, np.int64)
    for a, b in chosen.items():
        hit += told[a] & truth[b]
    are, said = truth.sum(axis=0), told.sum(axis=0)
    missed, false = np.maximum(are - said, 0), np.maximum(said - are, 0)
    wrong = np.minimum(are, said) - hit
    return Errors(int(are.sum()), int(missed.sum()), int(false.sum()), int(wrong.sum())), names


def _lines(said: Sequence[Said], frames: int) -> tuple[list[str], Frames]:
    """The names, and for each the frames in which they speak: [names, frames]."""
    names = list(dict.fromkeys(one.speaker for one in said))
    lines = np.zeros((len(names), frames), np.bool_)
    for one in said:
        lines[names.index(one.speaker), round(one.start / STEP) : round(one.end / STEP)] = True
    return names, lines


def assigned(gains: npt.NDArray[np.int64]) -> dict[int, int]:
    """Which of a few columns each row gets, none twice, so that the sum of the gains is greatest: [rows, columns]. It
    tries all sets of columns, of which there are 2^5 with five people."""
    rows, columns = gains.shape

    @cache
    def best(row: int, used: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        if row == rows:
            return 0, ()
        found = best(row + 1, used)
        for column in range(columns):
            if not used >> column & 1 and gains[row, column] > 0:
                gain, pairs = best(row + 1, used | 1 << column)
                found = max(found, (gain + int(gains[row, column]), ((row, column), *pairs)))
        return found

    return dict(best(0, 0)[1])


def _rows(what: str, talks: Sequence[Conversation], found: Sequence[Judged], limit: float) -> list[Row]:
    total = Errors(
        *(sum(getattr(one.errors, name) for one in found) for name in ("speech", "missed", "false", "wrong"))
    )
    near = sum(abs(one.found - talk.speakers) <= 1 for one, talk in zip(found, talks, strict=True)) / len(talks)
    exact = sum(one.found == talk.speakers for one, talk in zip(found, talks, strict=True))
    words, right = sum(one.words for one in found), sum(one.right for one in found)
    parts = ", ".join(
        f"{name} {100 * value / max(total.speech, 1):.1f}"
        for name, value in (("missed", total.missed), ("false", total.false), ("wrong speaker", total.wrong))
    )
    details = {
        "conversations": [[one.errors.rate, one.found, talk.speakers] for one, talk in zip(found, talks, strict=True)]
    }
    share = right / max(words, 1)
    return [
        at_most(f"diarization error, {what}", total.rate, limit, notes=(parts,), details=details),
        Row(
            f"speakers counted within one, {what}",
            f"{100 * near:.0f} % ({exact} of {len(talks)} exactly)",
            "≥ 90 %",
            near >= 0.9,
        ),
        Row(f"words with the right speaker, {what}", f"{100 * share:.1f} %", "≥ 95 %", share >= 0.95),
    ]


def _cost(asr: AsrModel, talks: Sequence[Conversation]) -> Row:
    """The share of a core that speakers take: the processor's seconds with them less those without, over the
    recordings' seconds."""
    seconds = sum(len(talk.wave) for talk in talks) / asr.sample_rate
    spent = dict[bool, float]()
    for speakers in (False, True):
        began = time.process_time()
        for talk in talks:
            with closing(asr.listener(ListenOptions(interim=False, speakers=speakers), live=False)) as listener:
                listener.feed(talk.wave)
                listener.finish()
                listener.drain()
        spent[speakers] = time.process_time() - began
    return at_most("share of a core for speakers", (spent[True] - spent[False]) / seconds, 0.03)
