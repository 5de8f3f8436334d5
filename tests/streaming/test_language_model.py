"""Texts read without sound: the decoder's own numbers, in few rows, and finals that stay the same however they come."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streaming.decoding
import streaming.model
from engines import manifest as manifests
from engines.batching import Cancelled
from engines.gguf import Rows
from streaming.bias import KeytermBias
from streaming.doubt import CONTENDERS, Draft, Opinion, Read, best_of
from streaming.events import Transcript
from streaming.language_model import LanguageModel
from streaming.model import AsrModel
from streaming.options import ListenOptions, OptionError
from tests.clips import RATE, Clip

Floats = npt.NDArray[np.float32]
NO_TERMS = KeytermBias(())
OFFLINE, LIVE = ListenOptions(interim=False), ListenOptions(interim=True)

texts_of = st.lists(st.lists(st.integers(300, 304), max_size=12), min_size=1, max_size=6)
"""Few different tokens, so that texts begin alike, are equal, empty, or the beginning of another."""


@pytest.fixture(scope="module")
def reader(model_directory: Path) -> Iterator[AsrModel]:
    """The embedded model, which knows text without sound."""
    model = AsrModel(model_directory, sessions=16)
    yield model
    model.close()


@pytest.fixture(scope="module")
def untaught(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsrModel]:
    """The same one, whose manifest does not say so."""
    folder = tmp_path_factory.mktemp("untaught") / "model"
    shutil.copytree(model_directory, folder)
    path = folder / manifests.NAME
    content = json.loads(path.read_text())
    del content["decoder"]["language_model"]
    path.write_text(json.dumps(content))
    model = AsrModel(folder, sessions=16)
    yield model
    model.close()


@pytest.fixture
def language_model(reader: AsrModel) -> LanguageModel:
    assert reader.language_model is not None
    return reader.language_model


def plainly(
    model: AsrModel, text: Sequence[int], start: int = 0, language: str | None = "en", bias: KeytermBias = NO_TERMS
) -> float:
    """The text's logarithm from one evaluation of it alone, in a sequence of its own."""
    prompt = [*model.prompt.head(()), *model.prompt.suffix(language)]
    sequence = model.decoder.acquire()
    rows = Rows(sequence, 0, model.decoder.embed([*prompt, *text]), len(prompt) - 1)
    (logits,) = model.decoder.evaluate([rows])
    model.decoder.release(sequence)
    total = 0.0
    for k, token in enumerate([*text, model.prompt.end]):
        bias.apply(logits[k], text[:k])
        row = logits[k].astype(np.float64)
        total += float(row[token] - np.logaddexp.reduce(row)) if k >= start else 0.0
    return total


def near(expected: Sequence[float], texts: Sequence[Sequence[int]]) -> object:
    """Rows of one call and of several round apart, a little at each token."""
    return pytest.approx(expected, abs=0.03 * (1 + max(map(len, texts))))


def hear(model: AsrModel, samples: Floats, options: ListenOptions, cut: int) -> list[object]:
    """Of each final what may not depend on how the audio came, in pieces of ``cut`` samples."""
    listener = model.listener(options)
    events = [event for at in range(0, len(samples), cut) for event in listener.feed(samples[at : at + cut])]
    events += listener.finish()
    finals = [event for event in events if isinstance(event, Transcript) and event.is_final]
    return [(e.start, e.end, e.text, e.words, e.confidence, e.speech_final) for e in finals]


@given(texts_of)
def test_a_text_is_as_probable_as_token_by_token(reader: AsrModel, texts: list[list[int]]) -> None:
    assert reader.language_model is not None
    logs = reader.language_model.log_probabilities(texts, 0, "en", NO_TERMS)
    assert list(logs) == near([plainly(reader, text) for text in texts], texts)


@given(texts_of)
def test_what_texts_have_in_common_is_evaluated_once(reader: AsrModel, texts: list[list[int]]) -> None:
    assert reader.language_model is not None
    before = reader.language_model.rows
    reader.language_model.log_probabilities(texts, 0, "en", NO_TERMS)
    beginnings = {tuple(text[:k]) for text in texts for k in range(1, len(text) + 1)}
    assert reader.language_model.rows - before == len(beginnings)


@settings(max_examples=30)
@given(texts_of, texts_of, st.sampled_from(["en", None]))
def test_the_numbers_depend_on_the_texts_of_the_call_alone(
    reader: AsrModel, texts: list[list[int]], others: list[list[int]], language: str | None
) -> None:
    """Bit for bit, whatever was read before and in whichever language."""
    assert reader.language_model is not None
    first = reader.language_model.log_probabilities(texts, 0, "en", NO_TERMS)
    reader.language_model.log_probabilities(others, 0, language, NO_TERMS)
    assert np.array_equal(reader.language_model.log_probabilities(texts, 0, "en", NO_TERMS), first)


def test_a_given_beginning_does_not_count(reader: AsrModel, language_model: LanguageModel) -> None:
    """The language, where the model writes it itself: what follows is judged behind it."""
    head = reader.prompt.suffix("en")[len(reader.prompt.suffix(None)) :]
    (text,) = reader.prompt.terms(["good morning"])
    (with_head,) = language_model.log_probabilities([[*head, *text]], len(head), None, NO_TERMS)
    assert [with_head] == near([plainly(reader, [*head, *text], len(head), None)], [[*head, *text]])
    (forced,) = language_model.log_probabilities([text], 0, "en", NO_TERMS)
    assert with_head == pytest.approx(forced, abs=0.5)


def test_keyterms_are_not_held_against_a_text(reader: AsrModel, language_model: LanguageModel) -> None:
    """A term is raised here by what raises it in decoding."""
    terms = reader.prompt.terms(["Cholmondeley"])
    bias = KeytermBias(terms)
    plain, raised = (language_model.log_probabilities(terms, 0, "en", each)[0] for each in (NO_TERMS, bias))
    assert raised > plain + 3
    assert [raised] == near([plainly(reader, terms[0], bias=bias)], terms)


def test_a_model_that_was_not_trained_for_it_reads_nothing(
    untaught: AsrModel, reader: AsrModel, clips: list[Clip]
) -> None:
    """No sequence taken, no row evaluated; beside it the same model with the field in its manifest does both."""
    assert untaught.language_model is None and untaught.decoder.sequences == untaught.sessions
    assert reader.decoder.sequences == reader.sessions + 1 and reader.decoder.taken == 1
    for model, reads in ((untaught, False), (reader, True)):
        before = model.work
        hear(model, clips[0].samples, OFFLINE, len(clips[0].samples))
        after = model.work
        assert after.finals > before.finals
        assert (after.texts_read > before.texts_read) is reads
        assert (after.read_rows > before.read_rows) is reads
        assert (after.read_seconds > before.read_seconds) is reads


def test_a_model_with_one_text_has_nothing_to_choose(reader: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one follows no second thoughts, so it needs no sequence to read them in."""

    def never(decoder: manifests.Decoder) -> bool:
        del decoder
        return False

    monkeypatch.setattr(streaming.model, "affordable", never)
    large = AsrModel(reader.directory, sessions=1)
    try:
        assert large.language_model is None and large.decoder.sequences == 1
    finally:
        large.close()


def test_a_manifest_that_says_neither_yes_nor_no_is_refused(reader: AsrModel, tmp_path: Path) -> None:
    content = json.loads((reader.directory / manifests.NAME).read_text())
    content["decoder"]["language_model"] = "yes"
    (tmp_path / manifests.NAME).write_text(json.dumps(content))
    with pytest.raises(manifests.ManifestError, match=r"Expected `bool`, got `str` - at `\$\.decoder\.language_model`"):
        AsrModel(tmp_path)


@pytest.mark.parametrize("sessions", [0, 256])
def test_sessions_beyond_what_the_cache_has_are_refused(reader: AsrModel, sessions: int) -> None:
    with pytest.raises(OptionError, match=rf"sessions: {sessions} lies outside 1…255"):
        AsrModel(reader.directory, sessions=sessions)


def test_every_place_is_left_for_sessions(reader: AsrModel) -> None:
    listeners = [reader.listener(OFFLINE) for _ in range(reader.sessions)]
    speech = np.random.default_rng(0).standard_normal(RATE).astype(np.float32)
    for listener in listeners:
        listener.feed(speech)
    for listener in listeners:
        listener.close()
    assert reader.decoder.taken == 1


def test_the_chosen_text_has_the_best_score_of_those_read(
    reader: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was read changes some of the choices."""
    changed = 0

    def noted(drafts: Sequence[Draft], opinions: Sequence[Opinion], read: Read | None) -> Draft:
        nonlocal changed
        assert read is not None
        seen: list[int] = []

        def counted(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
            seen.append(len(texts))
            return read(texts)

        without = best_of(drafts, opinions)
        for draft in drafts:
            draft.score = None
        best = best_of(drafts, opinions, counted)
        scores = [draft.score for draft in drafts if draft.score is not None]
        assert best.score == max(scores) and seen == [len(scores)] and len(scores) <= CONTENDERS
        changed += best is not without
        return best

    monkeypatch.setattr(streaming.decoding, "best_of", noted)
    for clip in clips[:10]:
        hear(reader, clip.samples, OFFLINE, len(clip.samples))
    assert changed > 0


def test_all_hearings_of_a_clip_read_a_text_once(
    reader: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them come upon it; another session reads it anew."""
    read, asked = LanguageModel.log_probabilities, list[tuple[int, ...]]()
    calls: list[int] = []

    def noted(
        self: LanguageModel, texts: Sequence[Sequence[int]], start: int, language: str | None, bias: KeytermBias
    ) -> npt.NDArray[np.float64]:
        asked.extend(tuple(text) for text in texts)
        calls.append(len(texts))
        return read(self, texts, start, language, bias)

    monkeypatch.setattr(LanguageModel, "log_probabilities", noted)
    monkeypatch.setattr(reader, "unsure", 0.0)
    short = [clip for clip in clips if clip.seconds < 7][:6]
    for clip in short:
        asked.clear()
        hear(reader, clip.samples, OFFLINE, len(clip.samples))
        once = list(asked)
        assert len(once) == len(set(once)) > 0
        hear(reader, clip.samples, OFFLINE, len(clip.samples))
        assert asked == once * 2
    assert len(calls) > 2 * len(short), "other hearings and the panel have texts of their own to ask about"


@settings(max_examples=12)
@given(
    which=st.integers(0, 119),
    cuts=st.lists(st.integers(16, 40_000), min_size=1, max_size=2),
    keyterms=st.sampled_from([(), ("harbour", "signal")]),
)
def test_live_or_from_a_file_the_same_text_is_chosen(
    reader: AsrModel, clips: list[Clip], which: int, cuts: list[int], keyterms: tuple[str, ...]
) -> None:
    """Every final heard again, in pieces of any length with interims: bit for bit what the file gives."""
    clip, before = clips[which % len(clips)], reader.unsure
    reader.unsure = 0.0
    try:
        offline, live = (ListenOptions(interim=interim, keyterms=keyterms) for interim in (False, True))
        whole = hear(reader, clip.samples, offline, len(clip.samples))
        for cut in cuts:
            assert hear(reader, clip.samples, live, cut) == whole
    finally:
        reader.unsure = before


def test_a_crowd_chooses_what_one_chooses(reader: AsrModel, clips: list[Clip]) -> None:
    """All read in the one sequence that is the model's own, one after the other."""
    chosen = clips[:12]
    alone = [hear(reader, clip.samples, OFFLINE, len(clip.samples)) for clip in chosen]
    crowd: dict[int, list[object]] = {}

    def one(i: int) -> None:
        crowd[i] = hear(reader, chosen[i].samples, LIVE, 1600 + 37 * i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(chosen))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [crowd[i] for i in range(len(chosen))] == alone


def test_nothing_is_read_for_who_has_left(reader: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch) -> None:
    listener = reader.listener(OFFLINE)

    def leaving(drafts: Sequence[Draft], opinions: Sequence[Opinion], read: Read | None) -> Draft:
        listener._owner.cancel()  # pyright: ignore[reportPrivateUsage]
        return best_of(drafts, opinions, read)

    monkeypatch.setattr(streaming.decoding, "best_of", leaving)
    with pytest.raises(Cancelled):
        listener.feed(clips[0].samples)
        listener.finish()
    assert listener.work.texts_read == 0
    listener.close()
