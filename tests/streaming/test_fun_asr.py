"""The family Fun-ASR-Nano, compared with the official classes without torch, and live with the same listener.

The arrays come from funasr and transformers alone (tests/reference/funasr/golden.py).
"""

import statistics
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.gguf import Decoder, Rows
from engines.onnx import Graph
from export.sound import sound
from streaming.engine import SEGMENT_SECONDS
from streaming.families.fun_asr_nano import NAMES, Fbank, WholeClip
from streaming.model import AsrModel
from streaming.options import ListenOptions, OptionError
from streaming.prompt import LANGUAGES
from streaming.segment import Segment
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.golden_models import GOLDEN
from tests.streaming.listening import LIVE, OFFLINE, continuous, finals, finish, hear, listen

Floats = npt.NDArray[np.float32]

NANO = GOLDEN.parent / "funasr" / "nano"
OFFICIAL = np.load(GOLDEN.parent / "funasr" / "official.npz")
CLIPS = ((0.3, 0), (2.0, 1), (9.7, 2))
PROMPTS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ()),
    ("zh", ()),
    (None, ("hearsay", "Qwen3 ASR")),
    ("en", ("fox",)),
)


@pytest.fixture(scope="module")
def nano() -> Iterator[AsrModel]:
    """A model of the family with random weights, whose texts are noise."""
    model = AsrModel(NANO, sessions=6, threads=2)
    yield model
    model.close()


def front(model: AsrModel) -> Fbank:
    """The model's front end."""
    assert isinstance(model.engine.log_mel, Fbank)
    return model.engine.log_mel


def rows_of(model: AsrModel, samples: Floats) -> Floats:
    """The stacked rows of a clip."""
    fbank = front(model)
    return fbank.rows(fbank.frames(samples, fbank.count(len(samples))))


# ---------------------------------------------------------------- official


@pytest.mark.parametrize("number", range(3))
def test_front_end(nano: AsrModel, number: int) -> None:
    """Frames, stacking at both edges, mean and variance are official; the official transform is in float32."""
    ours = rows_of(nano, sound(*CLIPS[number]))
    assert ours.shape == (len(OFFICIAL[f"embeddings{number}"]), 560)
    assert np.abs(ours[::8, ::4] - OFFICIAL[f"features{number}"]).max() < 1e-3


@pytest.mark.parametrize("number", range(3))
def test_encoder(nano: AsrModel, number: int) -> None:
    """From samples to embeddings and the CTC head the numbers are those of the official code."""
    rows = rows_of(nano, sound(*CLIPS[number]))
    theirs = OFFICIAL[f"embeddings{number}"]
    graph = Graph(NANO / nano.manifest.encoder.body, threads=1, provider="cpu")
    ours, ctc = graph.run({"rows": rows[None], "valid_rows": np.array([len(rows)])})
    assert np.abs(ours[0] - theirs).max() / np.sqrt((theirs**2).mean()) < 1e-3
    cosines = (ours[0] * theirs).sum(1) / np.linalg.norm(ours[0], axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.999999
    assert np.abs(ctc[0, ::8] - OFFICIAL[f"ctc{number}"]).max() < 5e-3
    assert nano.manifest.fun_asr is not None and nano.manifest.fun_asr.ctc == ctc.shape[2]


@pytest.mark.parametrize("number", range(4))
def test_prompts(nano: AsrModel, number: int) -> None:
    """The ids of prompts, with and without language and keyterms, are the official ones; 0 stands for audio."""
    language, terms = PROMPTS[number]
    prompt = nano.engine.prompt
    ids = OFFICIAL[f"asked{number}"].tolist()
    rows = ids.count(0)
    assert rows == 3  # 98 frames, 17 stacked rows
    assert [*prompt.head(terms, language), *rows * [0], *prompt.suffix(language)] == ids


@pytest.mark.parametrize("number", range(3))
def test_greedy_tokens(nano: AsrModel, number: int) -> None:
    """The 64 tokens that the runtime's own parts decode from samples are those of the official model."""
    ids, tokens = OFFICIAL[f"prompt{number}"], OFFICIAL[f"tokens{number}"].tolist()
    assert len(set(tokens)) >= 15
    samples = sound(*CLIPS[number])
    clip = WholeClip(nano.engine.encoder, front(nano), Work())
    clip.extend(samples)
    audio = nano.engine.lane.run(clip.tail(len(samples))).embeddings
    decoder = Decoder(NANO / nano.manifest.decoder.file, sequences=1, rows=512, threads=1, kv="f32")
    try:
        rows = decoder.embed(ids.tolist())
        rows[ids == 0] = audio
        sequence = decoder.acquire()
        logits = decoder.evaluate([Rows(sequence, 0, rows, len(rows) - 1)])[0][-1]
        said: list[int] = []
        for step in range(len(tokens)):
            if step % 16 == 0:
                official = OFFICIAL[f"logits{number}"][step // 16]
                assert np.abs(logits - official).max() < 2e-3 * official.std()
            said.append(int(logits.argmax()))
            logits = decoder.evaluate([Rows(sequence, len(rows) + step, decoder.embed(said[-1:]), 0)])[0][-1]
    finally:
        decoder.close()
    assert said == tokens


def test_other_audio_gives_other_text() -> None:
    """Other audio gives other tokens, so the golden ones are not constant."""
    assert len({tuple(OFFICIAL[f"tokens{number}"].tolist()) for number in range(3)}) == 3


# ---------------------------------------------------------------- a clip's rows


@settings(max_examples=25)
@given(length=st.integers(1, 3 * RATE), cuts=st.lists(st.integers(1, 9000), max_size=4).map(lambda cuts: [*cuts, 4000]))
def test_rows_do_not_depend_on_cuts_or_looks(nano: AsrModel, length: int, cuts: list[int]) -> None:
    """Samples in any pieces, with a hypothesis after each, give the same rows, bit for bit, as the whole clip at
    once."""
    samples = sound(3.0, 4)[:length]
    clips = [WholeClip(nano.engine.encoder, front(nano), Work()) for _ in range(2)]
    clips[0].extend(samples)
    at = turn = 0
    while at < length:
        clips[1].extend(samples[at : at + cuts[turn % len(cuts)]])
        at, turn = min(at + cuts[turn % len(cuts)], length), turn + 1
        nano.engine.lane.run(clips[1].tail(at))
    once, pieces = (nano.engine.lane.run(clip.tail(length)).embeddings for clip in clips)
    assert once.shape == (-(-max(1, -(-front(nano).count(length) // 6)) // 8), 48)
    np.testing.assert_array_equal(once, pieces)


def test_the_same_clip_in_any_container(nano: AsrModel) -> None:
    """A clip of 5 s has the same rows in inputs of 5, 30 and 60 s that end with noise."""
    graph = Graph(NANO / nano.manifest.encoder.body, threads=2, provider="cpu")
    rows = rows_of(nano, sound(5.0, 3))
    found: list[Floats] = []
    for seconds in (5, 30, 60):
        held = np.random.default_rng(0).standard_normal((1, round(seconds / 0.06), 560), np.float32)
        held[0, : len(rows)] = rows
        found.append(graph.run({"rows": held, "valid_rows": np.array([len(rows)])})[0][0, : len(rows)])
    assert len(found[0]) == len(rows) == 83
    for other in found[1:]:
        assert np.abs(other - found[0]).max() <= 1e-5
        norms = np.linalg.norm(other, axis=1) * np.linalg.norm(found[0], axis=1)
        assert ((other * found[0]).sum(1) / norms).min() >= 0.999999


def test_the_first_call_after_warming_costs_what_later_ones_cost() -> None:
    """Once the shape is warm, the first call of a new session takes no longer than later ones, by the best of eight."""
    rows = np.zeros((1, 500, 560), np.float32)
    ratios: list[float] = []
    for _ in range(8):
        graph = Graph(NANO / "body.onnx", threads=1, provider="cpu")
        spent: list[float] = []
        for _ in range(12):
            began = time.thread_time()
            graph.run({"rows": rows, "valid_rows": np.array([400])})
            spent.append(time.thread_time() - began)
        ratios.append(spent[1] / statistics.median(spent[2:]))
    assert min(ratios) <= 1.5


# ---------------------------------------------------------------- live


@settings(max_examples=10)
@given(which=st.integers(0, 119), cuts=st.lists(st.integers(16, 80_000), min_size=1, max_size=6))
def test_the_final_text_does_not_depend_on_the_cuts(
    nano: AsrModel, clips: list[Clip], which: int, cuts: list[int]
) -> None:
    """A live session, in any pieces and with interims, gives bit for bit what the file gives."""
    clip = clips[which % len(clips)]
    live = listen(nano, clip.samples, LIVE, cuts)
    assert finals(live) == finals(listen(nano, clip.samples, OFFLINE, [len(clip.samples)]))


def test_alone_and_in_a_crowd(nano: AsrModel, clips: list[Clip]) -> None:
    """Each of six sessions that take turns gets what it gets alone."""
    chosen = [clip.samples[: 8 * RATE] for clip in clips[:60:10]]
    listeners = [nano.listener(LIVE) for _ in chosen]
    events: list[list[object]] = [[] for _ in chosen]
    for at in range(0, max(map(len, chosen)), 4000):
        for listener, samples, heard in zip(listeners, chosen, events, strict=True):
            heard += hear(listener, samples[at : at + 4000]) if at < len(samples) else []
    for listener, heard in zip(listeners, events, strict=True):
        heard += finish(listener)
    for samples, heard in zip(chosen, events, strict=True):
        alone = finals(listen(nano, samples, OFFLINE, [len(samples)]))
        assert finals(heard) == alone  # pyright: ignore[reportArgumentType]
        assert alone


def test_a_full_segment_is_split_and_looked_at(nano: AsrModel, clips: list[Clip]) -> None:
    """In speech without a pause, clips never exceed the longest segment, and each frame is computed once."""
    samples = continuous(clips, 30)
    options = ListenOptions(endpointing=None)
    listener = nano.listener(options)
    for at in range(0, len(samples), 8000):
        hear(listener, samples[at : at + 8000])
    work = listener.work
    assert work.windows == work.stem_chunks == 0
    assert work.ticks > 20
    assert work.mel_frames <= len(samples) // 160 + 400 * 1.5
    assert work.tail_rows <= (work.ticks + work.finals) * -(-int(SEGMENT_SECONDS / 0.06) // 8)
    assert [final.text for final in finals(finish(listener))]


def test_languages(nano: AsrModel) -> None:
    """A language may be forced before the audio, is told by the script of the text otherwise, and is refused if the
    model lacks it."""
    engine = nano.engine
    assert NAMES.keys() <= LANGUAGES.keys()
    assert engine.language("zh-CN") == "zh"
    with pytest.raises(OptionError, match="golden-nano hears zh, en, ja"):
        engine.language("fr")
    prompt = engine.prompt
    assert prompt.head((), "zh") != prompt.head((), None)
    for text, language in (("今天天气", "zh"), ("こんにちは世界", "ja"), ("good evening", None)):
        tokens = prompt._tokenizer.encode(text).ids  # pyright: ignore[reportPrivateUsage]
        answer = prompt.answer(tokens, None)
        assert (answer.text, answer.language, list(answer.body)) == (text, language, tokens)


def test_keyterms_are_heard_about(nano: AsrModel) -> None:
    """Keyterms stand in the prompt before the audio, and a list that is too long is refused."""
    head = nano.engine.head(("hearsay", "fox"), None)
    assert len(head.rows) > len(nano.engine.head((), None).rows)
    with pytest.raises(OptionError, match="keyterms"):
        nano.check(ListenOptions(keyterms=tuple(f"word{number}" for number in range(200))))


def test_a_segment_of_a_few_samples(nano: AsrModel) -> None:
    """A segment shorter than a frame gives one row and a text, and no error."""
    engine = nano.engine
    sequence = engine.lane.run(engine.acquire())
    try:
        head = engine.head((), "en")
        engine.lane.run(engine.evaluate(Rows(sequence, 0, head.rows, len(head.rows))))
        segment = Segment(engine, sequence, head, "en", Work())
        segment.extend(np.zeros(5, np.float32))
        assert engine.lane.run(segment.final(5)).answer.language == "en"
    finally:
        engine.release(sequence)
