"""From timed recordings to shards that a training run takes."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from training.asr.align import viterbi
from training.asr.config import Optimisation
from training.readers.config import Batches, Reading, Shape, load_reading
from training.readers.corpus import Corpus, said_in
from training.readers.learn import learn, painting_loss, timing_loss
from training.readers.model import LONGEST_GAP, NEAR, SLOT, Reader
from training.readers.reading import Casting, Line, Manner, read_aloud, read_lines, styles, times
from training.readers.script import load_script, transcripts, unsaid, write_script
from training.readers.timing import Timing, load_timings, save_timings
from training.shards import RATE, Clip
from training.tts.text import ENDS, MARKS, sentences

SILENT = 3
SMALL = Reading(
    shape=Shape(width=32, layers=2, heads=2, ffn=64, style=8, timing_width=32, timing_layers=1),
    batches=Batches(slots=(48, 96), slots_per_step=192, timed_clips=4, style_slots=20),
    timing_steps=40,
    optimisation=Optimisation(warmup_steps=4, average=0.8, clip=1.0),
)
CPU = torch.device("cpu")


def recordings(count: int) -> tuple[list[Clip], list[Timing]]:
    """Clips of tones, a phone of three a tone, by two readers."""
    draw = np.random.default_rng(1)
    clips: list[Clip] = []
    timings: list[Timing] = []
    for i in range(count):
        phones = draw.integers(0, SILENT, draw.integers(4, 12))
        at = 10 + np.cumsum(draw.integers(6, 14, len(phones)))
        time = np.arange((int(at[-1]) + 12) * 160) / RATE
        which = np.searchsorted(at * 0.01, time, side="right")
        pitch = np.array([0, *(300 * (1 + phones))])[which]
        samples = (8000 * np.sin(2 * np.pi * pitch * time) + draw.normal(0, 30, len(time))).astype(np.int16)
        first = draw.random(len(phones)) < 0.5
        first[0] = True
        text = " ".join("ab"[i % 2] for _ in range(int(first.sum())))
        clips.append(Clip(samples, text, f"reader{i % 2}", "LibriSpeech", "librispeech", f"{i}.ogg"))
        timings.append(Timing(f"{i}.ogg", text, phones.astype(np.uint8), first, at.astype(np.uint16)))
    return clips, timings


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(*recordings(24), SILENT, SMALL.batches, CPU)


@pytest.fixture
def model(corpus: Corpus) -> Reader:
    torch.manual_seed(0)
    model = Reader(SMALL.shape, SILENT).eval()
    model.mean.copy_(corpus.normal[0])
    model.spread.copy_(corpus.normal[1])
    return model


LINES = [Line("ab ba", np.array([0, 1, 1, 0], np.uint8), np.array([True, False, True, False])) for _ in range(6)]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 30))
def test_a_slot_knows_the_phones_around_it(gaps: list[int], rest: int) -> None:
    at = np.cumsum(gaps)
    phones, first = np.arange(len(at)) % SILENT, np.zeros(len(at), bool)
    first[0] = True
    said = said_in(phones, first, at, int(at[-1]) + rest, SILENT).astype(int)
    assert (said[: at[0], 0] == 2 * SILENT).all() and (said[at[-1] :, 1] == 2 * SILENT).all()
    for k, begin in enumerate(at):
        assert said[begin, 0] == 2 * phones[k] + first[k] and said[begin, 2] == 0
        assert said[begin - 1, 1] == said[begin, 0] and said[begin - 1, 3] == 1
    assert said[:, 2:].max() < NEAR


def test_timings_come_back(tmp_path: Path) -> None:
    timings = recordings(5)[1]
    save_timings(timings, tmp_path / "t.npz")
    for a, b in zip(timings, load_timings(tmp_path / "t.npz"), strict=True):
        assert (a.file, a.text) == (b.file, b.text)
        assert all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("phones", "first", "at"))


def test_the_best_path_says_when_a_phone_begins() -> None:
    scores = torch.full((1, 12, 4), -9.0)
    scores[..., 3] = 0.0
    for frame, phone in ((2, 0), (5, 1), (9, 0)):
        scores[0, frame, phone] = 3.0
    found = viterbi(scores, torch.tensor([[0, 1, 0]]), torch.tensor([12]), torch.tensor([3]), 3)
    assert found.tolist() == [[2, 5, 9]]


def test_batches_are_of_the_corpus(corpus: Corpus) -> None:
    painted, timed = corpus.painted(), corpus.timed()
    rows, width = painted.mask.shape
    assert width in SMALL.batches.slots and rows == 192 // width
    assert painted.slots.shape == (rows, width, SLOT) and painted.said.shape == (rows, width, 4)
    assert painted.heard.shape == (rows, 20, SLOT) and torch.isfinite(painted.heard).all()
    assert timed.gaps.shape == timed.phones.shape == timed.mask.shape and int(timed.gaps.max()) < LONGEST_GAP
    assert float(corpus.normal[1].min()) > 0


def test_clips_without_timings_are_an_error() -> None:
    with pytest.raises(ValueError, match="none of the 2 clips"):
        Corpus(recordings(2)[0], [], SILENT, SMALL.batches, CPU)


def test_what_is_past_the_end_of_a_row_does_not_count(corpus: Corpus, model: Reader) -> None:
    torch.manual_seed(1)
    mask = torch.arange(48)[None] < torch.tensor([[30]])
    said = corpus.painted().said[:1, :48]
    said = torch.nn.functional.pad(said, (0, 0, 0, 48 - said.shape[1]))
    style, x, time = torch.randn(1, 8), torch.randn(1, 48, SLOT), torch.tensor([0.4])
    torch.nn.init.normal_(model.leave.weight)
    with torch.no_grad():
        one = model(x, time, model.spoken(said), style, mask)
        x[:, 30:], said = 7.0, torch.cat([said[:, :30], said[:, 30:] * 0], 1)
        other = model(x, time, model.spoken(said), style, mask)
    assert torch.allclose(one[:, :30], other[:, :30], atol=1e-4)


def test_both_networks_learn(corpus: Corpus, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Reader(SMALL.shape, SILENT)

    def losses() -> list[float]:
        torch.manual_seed(5)
        with torch.no_grad():
            painted = [float(painting_loss(model, corpus.painted(), 0.0)) for _ in range(8)]
            timed = [float(timing_loss(model, corpus.timed())) for _ in range(8)]
        return [float(np.mean(painted)), float(np.mean(timed))]

    before = losses()
    ticks = itertools.count()
    learn(model, corpus, corpus, SMALL, 60.0, tmp_path, lambda: float(next(ticks)))
    after = losses()
    assert after[0] < 0.95 * before[0] and after[1] < before[1]
    assert list(tmp_path.glob("model-*.safetensors"))


def test_phones_never_begin_together(corpus: Corpus, model: Reader) -> None:
    casting = Casting(corpus, {"librispeech": 1.0}, 1)
    assert casting.pairs(5).shape == (5, 2)
    style = torch.randn(len(LINES), 8)
    for edges in times(model, LINES, style, 0.3):
        assert len(edges) == 5 and (np.diff(edges) >= 1).all() and edges[0] >= 1


def test_voices_are_moved_by_their_own_spread(corpus: Corpus, model: Reader) -> None:
    def drawn(apart: float, alike: float = 0.0) -> torch.Tensor:
        torch.manual_seed(2)
        manner = Manner(between=0.0, apart=apart, alike=alike)
        return styles(model, corpus, Casting(corpus, {"librispeech": 1.0}, 1), 64, manner)

    there, far = drawn(0.0), drawn(3.0)
    torch.testing.assert_close(far.norm(dim=-1), there.norm(dim=-1))
    assert float(far.mean(0).norm()) < 0.8 * float(there.mean(0).norm())
    nearer = drawn(3.0, 0.7)
    assert float(nearer.std(0).mean()) < 0.8 * float(far.std(0).mean())
    torch.testing.assert_close(nearer.norm(dim=-1), there.norm(dim=-1))
    last = [layer for layer in model.hear if isinstance(layer, torch.nn.Conv1d)][-1]
    torch.nn.init.zeros_(last.weight)
    same = drawn(3.0)
    torch.testing.assert_close(same, same[:1].expand(64, -1))


def test_even_times_pause_at_marks_alone(corpus: Corpus, model: Reader) -> None:
    ids, first = np.array([0, 1, 2, 0, 1], np.uint8), np.array([True, False, True, False, True])
    plain, marked = Line(" ab ab b.", ids, first), Line(" ab, ab b.", ids, first)
    style = torch.randn(1, 8).expand(3, -1)
    one, again, paused = (np.diff(t) for t in times(model, [plain, plain, marked], style, 0.0, even=True))
    assert (one == again).all()
    assert (paused - one).tolist() == [0, 9, 0, 0, 0]


def test_shards_are_those_of_synth(corpus: Corpus, model: Reader, tmp_path: Path) -> None:
    casting = Casting(corpus, {"librispeech": 1.0}, 1)
    manner = Manner(steps=2, rounds=2, slots_per_batch=192)
    wide = (96, 600)
    hours = read_aloud(model, corpus, casting, LINES, wide, manner, [tmp_path], 1.0)
    (words,) = tmp_path.glob("w*.json")
    items = json.loads(words.read_text())
    samples = np.fromfile(words.with_suffix(".pcm"), np.int16)
    assert len(items) == len(LINES) and hours == pytest.approx(len(samples) / RATE / 3600)
    again = read_aloud(model, corpus, casting, LINES, wide, manner, [tmp_path / "a", tmp_path / "b"], 1.0, (0, 2))
    assert again > 0 and read_aloud(model, corpus, casting, LINES, wide, manner, [tmp_path / "a"], 1.0, (1, 2)) == 0
    assert {f.name for f in (tmp_path / "a").iterdir()} == {f.name for f in (tmp_path / "b").iterdir()}
    end = 0
    for start, length, text, engine, cuts in items:
        assert start == end and text == "ab ba" and engine == "readers"
        assert len(cuts) == 1 and 0 < cuts[0][0] < length and cuts[0][1] == 1
        assert np.abs(samples[start : start + length]).max() > 1000
        end = start + length
    assert end == len(samples)


def test_a_line_too_long_for_every_row_is_left_out(corpus: Corpus, model: Reader) -> None:
    casting = Casting(corpus, {"librispeech": 1.0}, 1)
    long = Line("a", np.zeros(60, np.uint8), np.arange(60) == 0)
    manner = Manner(steps=1, rounds=0, slots_per_batch=96)
    assert not list(read_lines(model, corpus, casting, [long], (48,), manner))


class Spelt:
    """A phone a letter."""

    def of(self, words: list[str]) -> list[int]:
        return [ord(c) % 60 for w in words for c in w]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 99))
def test_a_script_comes_back(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("script") / "s.npz"
    fiction = ["The Dean's ways were not sybaritic.", "Isn't Kate coming to lunch?", "He came in 1902."]
    for marked, texts in ((False, transcripts(fiction, seed)), (True, sentences(fiction, seed))):
        said = write_script(texts, Spelt(), 12, path)  # pyright: ignore[reportArgumentType]
        lines = load_script(path)
        assert len(lines) == 12 and sum(len(line.phones) for line in lines) == said
        for line in lines:
            assert (line.text[0] == " " and line.text[-1] in ENDS) is marked
            words = [word.strip(MARKS) for word in line.text.split()]
            assert line.first.sum() == len(words) and len(line.phones) == sum(map(len, words))


@given(st.lists(st.integers(0, 30)))
def test_what_is_never_to_be_read_is_left_out_whatever_its_marks(never: list[int]) -> None:
    """And nothing else, in the order that it came in; and whether its numbers have an "and" or not."""
    assert not list(unsaid(iter([" two hundred and four, he said."]), ["Two hundred four he said"]))
    lines = [text for _, text in zip(range(30), sentences(["He came; isn't it so?"], 1), strict=False)]
    told = [lines[i].upper().replace(",", "").replace(".", "!") for i in never if i < len(lines)]
    left = list(unsaid(iter(lines), told))
    plain = (text.translate(str.maketrans("", "", MARKS)).split() for text in lines)
    words = [[word for word in its if word != "and"] for its in plain]
    refused = [words[i] for i in never if i < len(lines)]
    assert left == [text for text, its in zip(lines, words, strict=True) if its not in refused]


def test_the_recipe_is_readable() -> None:
    reading = load_reading(Path("training/readers/readers.toml"))
    assert all(n % 8 == 0 for n in reading.batches.slots)
    assert all(reading.batches.slots_per_step // n >= 1 for n in reading.batches.slots)
