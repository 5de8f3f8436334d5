"""Who speaks: voices gathered and parted, numbers that stay, and the same labels for any cut."""

import json
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.lane import at_once
from streaming.events import SpeakerMerged, Transcript, Word, letter, speaker_called
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.speakers import (
    HOP,
    LEAST,
    MOST_SPEAKERS,
    TOGETHER,
    WINDOW,
    Prints,
    SpeakerModel,
    Speakers,
    gathered,
    parted,
)
from tests import clips as clips_of
from tests.clips import DATA, RATE, Clip
from tests.streaming.listening import Floats, finals, finish, hear, listen

WIDTH = 192
TOLD = ListenOptions(interim=False, speakers=True)


@pytest.fixture(scope="module")
def encoder() -> SpeakerModel:
    """The bundled speaker encoder."""
    return SpeakerModel.load()


@pytest.fixture(scope="module")
def voices(clips: list[Clip]) -> dict[str, list[Clip]]:
    """The clips of each speaker who has four and more."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text().splitlines()]
    of = {row["file"].split("/")[-1]: row["speaker"] for row in rows if row["speaker"] != "None"}
    found: dict[str, list[Clip]] = {}
    for clip in clips:
        if clip.name in of and clip.seconds > 2:
            found.setdefault(of[clip.name], []).append(clip)
    return {name: some for name, some in found.items() if len(some) >= 4}


@pytest.fixture(scope="module")
def dialogue() -> Floats:
    """Two people in turns, once without a pause between them."""
    return clips_of.dialogue()


def quiet(seconds: float) -> Floats:
    """Digital silence."""
    return np.zeros(int(seconds * RATE), np.float32)


def drawn(count: int, seed: int = 0) -> Floats:
    """Voice prints that resemble each other no more than chance has it: [count, WIDTH]."""
    prints = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return prints / np.linalg.norm(prints, axis=1, keepdims=True)


def near(voice: Floats, seed: int, much: float = 0.5) -> Floats:
    """A print of the same voice."""
    other = drawn(1, seed + 1000)[0]
    mixed = voice + much * other
    return mixed / np.linalg.norm(mixed)


def spoken(start: float, end: float, count: int) -> tuple[Word, ...]:
    """``count`` words that share the time."""
    edges = np.linspace(start, end, count + 1).tolist()
    return tuple(Word(f"w{i}", a, b, 1.0) for i, (a, b) in enumerate(pairwise(edges)))


def said(speakers: Speakers, prints: Sequence[Floats], start: float = 0.0) -> tuple[Transcript, list[SpeakerMerged]]:
    """The final of an utterance that has just these windows, a word in every half second."""
    samples = np.zeros(WINDOW + HOP * (len(prints) - 1), np.float32)
    words = spoken(start, start + len(samples) / RATE, len(prints) + 2)
    final = Transcript(start, start + len(samples) / RATE, "", words, len(words), None, is_final=True)
    return at_once(speakers.tell(samples, Prints(list(prints)), final))


def numbers(final: Transcript) -> list[int | None]:
    """The speaker of each word."""
    return [word.speaker for word in final.words]


@pytest.mark.parametrize("length", [LEAST, WINDOW, WINDOW + HOP, WINDOW + HOP + LEAST])
def test_who_falls_silent_is_told_without_more_work(encoder: SpeakerModel, clips: list[Clip], length: int) -> None:
    """All prints are made in advance, once the end that an utterance may have is heard; they are the same ones."""
    samples = clips[0].samples[: length + HOP]
    words = spoken(0.0, length / RATE, 3)
    final = Transcript(0.0, length / RATE, "", words, len(words), None, is_final=True)
    prints = Prints()
    assert prints.due(length - 1, length) == (length > WINDOW)
    one, other = (Speakers(encoder, keep=False) for _ in range(2))
    while prints.due(length, length):
        at_once(one.add(prints, samples[:length], length))
    with pytest.raises(StopIteration) as ready:
        next(one.tell(samples[:length], prints, final))
    assert ready.value.value == at_once(other.tell(samples[:length], Prints(), final))


def test_prints_are_made_while_the_end_of_a_turn_is_awaited(asr_model: AsrModel, clips: list[Clip]) -> None:
    """No final by silence waits for a print."""
    missing: list[bool] = []
    tell = Speakers.tell

    def seen(speakers: Speakers, samples: Floats, prints: Prints, event: Transcript) -> Any:
        missing.append(prints.due(len(samples), len(samples)))
        return (yield from tell(speakers, samples, prints, event))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Speakers, "tell", seen)
        listener = asr_model.listener(TOLD, live=True)
        heard = np.concatenate([clips[0].samples, quiet(1.0)])
        events = [
            event for start in range(0, len(heard), 1600) for event in hear(listener, heard[start : start + 1600])
        ]
        said = finals(events)
        finish(listener)
    assert said and missing == [False] * len(said)


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_prints_of_a_voice_are_gathered(sizes: list[int], seed: int) -> None:
    """Whatever their order, and the largest gathering comes first."""
    order = np.random.default_rng(seed).permutation(sum(sizes)).tolist()
    owners = [i for i, size in enumerate(sizes) for _ in range(size)]
    base = drawn(len(sizes), seed)
    prints = np.stack([near(base[owners[i]], 7 * i + seed) for i in order])
    found = gathered(prints, 0.45)
    assert sorted(len(group) for group in found) == sorted(sizes)
    assert all(len({owners[order[i]] for i in group}) == 1 for group in found)
    assert [len(group) for group in found] == sorted(sizes, reverse=True)
    assert len(gathered(prints, 0.45, most=1)) == 1


def test_words_go_to_the_voice_that_is_heard_at_their_time() -> None:
    """Where the speaker changes inside an utterance; a single window that resembles nobody makes no turn."""
    a, b, c = drawn(3)
    prints = np.stack([*(near(a, i) for i in range(4)), c, *(near(b, i) for i in range(4))])
    middles = 0.75 + 0.5 * np.arange(9)
    places = parted(prints, middles, spoken(0.0, 5.5, 11))
    assert len(set(places)) == 2
    change = next(i for i, (one, after) in enumerate(pairwise(places)) if one != after)
    assert places == [places[0]] * (change + 1) + [places[-1]] * (10 - change) and 4 <= change <= 6


def test_numbers_count_from_nought_and_stay(encoder: SpeakerModel) -> None:
    """In the order in which people are first heard; who comes back has the number from before."""
    a, b, c = drawn(3)
    speakers = Speakers(encoder, keep=False)
    order = [a, b, a, c, b, a, c]
    found = [said(speakers, [near(voice, 10 * i + j) for j in range(4)])[0] for i, voice in enumerate(order)]
    assert [set(numbers(final)) for final in found] == [{0}, {1}, {0}, {2}, {1}, {0}, {2}]
    assert all(0.5 < (word.speaker_confidence or 0) <= 1 for final in found for word in final.words)


def test_a_short_turn_makes_no_new_speaker(encoder: SpeakerModel) -> None:
    """It is the nearest's, and tells that this is not sure."""
    a, b = drawn(2)
    speakers = Speakers(encoder, keep=False)
    said(speakers, [near(a, i) for i in range(4)])
    short = Transcript(9.0, 10.5, "", (Word("yes", 9.6, 9.9, 1.0),), 1, None, is_final=True)
    final, _ = at_once(speakers.tell(np.zeros(WINDOW, np.float32), Prints([b]), short))
    assert numbers(final) == [0] and (final.words[0].speaker_confidence or 1) < 0.3


def test_two_who_turn_out_to_be_one_are_merged_aloud(encoder: SpeakerModel) -> None:
    """The lower number stays, and nobody is called by the other one any more."""
    a, b = drawn(2)
    speakers = Speakers(encoder, keep=False)
    told, merged = list[int | None](), list[SpeakerMerged]()
    # The second one's voice comes nearer to the first one's from turn to turn, until they sound alike.
    for voice in (a, *(b + much * a for much in (0.0, 0.3, 0.6, 0.9, 1.2, 1.5)), *[a] * 16):
        final, some = said(speakers, [near(voice, len(told) + i, 0.1) for i in range(4)])
        told.append(numbers(final)[0])
        merged += some
    assert told[:2] == [0, 1] and merged == [SpeakerMerged(1, 0)]
    after = said(speakers, [near(b, i, 0.1) for i in range(4)])[0]
    assert 1 not in numbers(after)


@settings(max_examples=20)
@given(order=st.lists(st.integers(0, 4), min_size=1, max_size=12), seed=st.integers(0, 50))
def test_labels_are_only_appended(encoder: SpeakerModel, order: list[int], seed: int) -> None:
    """What follows changes nothing that was said, and a new number is the next one."""
    base = drawn(5, seed)
    said_so_far: list[list[int | None]] = []
    speakers = Speakers(encoder, keep=True)
    for i, who in enumerate(order):
        said_so_far.append(numbers(said(speakers, [near(base[who], 31 * i + j) for j in range(3)])[0]))
    again = Speakers(encoder, keep=False)
    for i, who in enumerate(order[: len(order) // 2]):
        prints = [near(base[who], 31 * i + j) for j in range(3)]
        assert numbers(said(again, prints)[0]) == said_so_far[i]
    known: list[int | None] = []
    for one in (n for line in said_so_far for n in line):
        if one not in known:
            assert one == len(known)
            known.append(one)


def test_many_speakers_are_told_apart_up_to_a_bound(encoder: SpeakerModel) -> None:
    """A further voice is given to whom it resembles most."""
    speakers = Speakers(encoder, keep=True)
    base = drawn(MOST_SPEAKERS + 8)
    found = [numbers(said(speakers, [near(voice, i + j) for j in range(3)])[0])[0] for i, voice in enumerate(base)]
    assert found[:MOST_SPEAKERS] == list(range(MOST_SPEAKERS)) and max(n or 0 for n in found) < MOST_SPEAKERS


def test_hours_of_talk_take_bounded_memory(encoder: SpeakerModel) -> None:
    """A live session keeps no more after three times as many turns; who was silent for long has their number still."""
    base, speakers, sizes = drawn(5), Speakers(encoder, keep=False), list[int]()
    found = [numbers(said(speakers, [near(base[4], j) for j in range(3)])[0])[0]]
    for i in range(240):
        found.append(numbers(said(speakers, [near(base[i % 4], i + j) for j in range(3)], 10.0 * i)[0])[0])
        if i in (79, 239):
            sizes.append(len(pickle.dumps([kept for name, kept in vars(speakers).items() if name != "_model"])))
    assert sizes[1] <= sizes[0] * 1.01
    assert numbers(said(speakers, [near(base[4], 7 + j) for j in range(3)])[0])[0] == 0
    assert set(found) == set(range(5))


def test_a_file_is_judged_again_when_all_is_known(encoder: SpeakerModel) -> None:
    """Numbers count in the order of speech, every final keeps its words, and one without words stays as it is."""
    a, b = drawn(2)
    speakers = Speakers(encoder, keep=True)
    heard = [said(speakers, [near(v, 10 * i + j) for j in range(4)])[0] for i, v in enumerate((b, a, b, b, a))]
    silent = Transcript(0, 0, "", (), 0, None, is_final=True)
    settled = speakers.settled([*heard[:2], silent, *heard[2:]])
    assert settled[2] == silent
    assert [set(numbers(final)) for final in settled if final.words] == [{0}, {1}, {0}, {0}, {1}]
    assert [[w.text for w in final.words] for final in settled if final.words] == [
        [w.text for w in final.words] for final in heard
    ]


def test_turns_beyond_what_is_kept_stay_with_their_speaker(
    encoder: SpeakerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of many hours has one number for one person from its beginning to its end."""
    monkeypatch.setattr("streaming.speakers.MOST_TURNS", 4)
    a, b, c = drawn(3)
    speakers = Speakers(encoder, keep=True)
    heard = [said(speakers, [near(v, 10 * i + j) for j in range(4)])[0] for i, v in enumerate((b, a, b, a, a, b, c))]
    assert [set(numbers(final)) for final in speakers.settled(heard)] == [{0}, {1}, {0}, {1}, {1}, {0}, {2}]


def test_a_letter_for_everyone() -> None:
    """And the number back from it."""
    some = (0, 1, 25, 26, 27, 51, 52, 701, 702)
    assert [letter(n) for n in some] == [*"ABZ", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]
    assert [speaker_called(letter(n)) for n in some] == [*some] and speaker_called(None) is speaker_called("") is None


# ---------------------------------------------------------------- with the models


def test_two_people_are_told_apart(asr_model: AsrModel, dialogue: Floats) -> None:
    """Also where one follows the other without a pause."""
    found = finals(listen(asr_model, dialogue, TOLD, [len(dialogue)]))
    firsts = [final.words[0].speaker for final in found]
    assert firsts[:4] == [0, 1, 0, 1]
    assert {word.speaker for word in found[-1].words} == {0, 1} and {w.speaker for f in found for w in f.words} == {
        0,
        1,
    }


@pytest.fixture(scope="module")
def whole(asr_model: AsrModel, dialogue: Floats) -> list[Transcript]:
    """Its finals, where it is fed at once."""
    return finals(listen(asr_model, dialogue, TOLD, [len(dialogue)]))


@settings(max_examples=4)
@given(cuts=st.lists(st.integers(400, 3 * RATE), min_size=1, max_size=6), interim=st.booleans())
def test_speakers_are_the_same_for_any_cut(
    asr_model: AsrModel, dialogue: Floats, whole: list[Transcript], cuts: list[int], interim: bool
) -> None:
    """Numbers and confidences, live and late, and the words are those without speakers."""
    options = ListenOptions(interim=interim, speakers=True)
    assert finals(listen(asr_model, dialogue, options, cuts)) == whole
    assert all(word.speaker is not None for final in whole for word in final.words)


def test_interims_tell_no_speaker_and_finals_the_same_text(
    asr_model: AsrModel, dialogue: Floats, whole: list[Transcript]
) -> None:
    """The text and the times with speakers are those without."""
    events = listen(asr_model, dialogue, ListenOptions(speakers=True), [3200])
    interims = [e for e in events if isinstance(e, Transcript) and not e.is_final]
    assert interims and all(word.speaker is None for e in interims for word in e.words)
    plain = finals(listen(asr_model, dialogue, ListenOptions(interim=False), [len(dialogue)]))
    assert [(f.text, f.start, f.end) for f in plain] == [(f.text, f.start, f.end) for f in whole]
    assert all(word.speaker is None for final in plain for word in final.words)


def test_readers_who_are_recorded_alike_are_told_apart(encoder: SpeakerModel, voices: dict[str, list[Clip]]) -> None:
    """Four of LibriSpeech, loud and quiet: what they have in common is their microphones."""
    prints, owners = list[Floats](), list[str]()
    for name in ("ls174", "ls652", "ls777", "ls1919"):
        for number, clip in enumerate([clip for clip in voices[name] if 4 < clip.seconds < 30][:3]):
            samples = clip.samples * np.float32(0.03 if number == 1 else 1)
            windows = [samples[at : at + WINDOW] for at in range(0, len(samples) - WINDOW + 1, HOP)]
            heard = np.stack(encoder.prints(windows)).sum(axis=0)
            prints.append(heard / np.linalg.norm(heard))
            owners.append(name)
    found = gathered(np.stack(prints), TOGETHER)
    assert sorted(len(group) for group in found) == sorted(owners.count(name) for name in set(owners))
    assert all(len({owners[i] for i in group}) == 1 for group in found)


def test_one_person_is_one_speaker(asr_model: AsrModel, voices: dict[str, list[Clip]]) -> None:
    """Loud and as quiet as a whisper."""
    for name in ("kathleen", "ls777"):
        parts = [np.concatenate([clip.samples, quiet(0.8)]) for clip in voices[name][:5]]
        parts[2] *= np.float32(0.03)
        found = finals(listen(asr_model, np.concatenate(parts), TOLD, [RATE]))
        assert {word.speaker for final in found for word in final.words} == {0}, name


def test_silence_and_tones_have_no_speaker(asr_model: AsrModel, encoder: SpeakerModel) -> None:
    """Nor has a final without words, of however little audio."""
    wordless = Transcript(0, 0, "", (), 0, None, is_final=True, from_finalize=True)
    speakers = Speakers(encoder, keep=True)
    assert at_once(speakers.tell(quiet(0), Prints(), wordless)) == (wordless, []) and speakers.settled([wordless]) == [
        wordless
    ]
    time = np.arange(6 * RATE) / RATE
    chords = sum(np.sin(2 * np.pi * hertz * time) for hertz in (220, 277, 330)) * 0.1
    for sound in (quiet(5), chords.astype(np.float32)):
        assert not [w for f in finals(listen(asr_model, sound, TOLD, [RATE])) for w in f.words]


def test_without_speakers_no_encoder_is_loaded(asr_directory: Path, clips: list[Clip]) -> None:
    """A session that does not ask for them costs nothing."""
    model = AsrModel(asr_directory, sessions=2, warm=False)
    try:
        listen(model, clips[0].samples, ListenOptions(), [RATE])
        assert not model.engine.knows_speakers
        listener = model.listener(TOLD)
        assert model.engine.knows_speakers
        listener.close()
    finally:
        model.close()


def test_a_file_has_its_speakers_settled(asr_model: AsrModel, dialogue: Floats) -> None:
    """A file's listener judges again; a live one keeps what it said."""
    for live in (False, True):
        listener = asr_model.listener(TOLD, live=live)
        heard = [e for e in hear(listener, dialogue) + finish(listener) if isinstance(e, Transcript) and e.is_final]
        settled = listener.settled(heard)
        assert [f.text for f in settled] == [f.text for f in heard] and (settled == heard or not live)
        assert {w.speaker for f in settled for w in f.words} == {0, 1}
