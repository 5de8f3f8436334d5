"""Finals of a model with a phone head: its rows, its say, its hearings."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

import streaming.decoding
import streaming.model
import streaming.opinions
from engines import manifest as manifests
from engines.batching import Owner, Urgency
from engines.manifest import ManifestError, Phones
from streaming.doubt import Draft, Opinion, Read, best_of
from streaming.encoder import AudioEncoder, Encoded
from streaming.events import Transcript
from streaming.hearings import SPEEDS, Hearings
from streaming.interims import Interims
from streaming.model import AsrModel
from streaming.opinions import by_phones
from streaming.options import ListenOptions
from streaming.windows import Windows
from streaming.work import Work
from tests.clips import RATE, Clip
from tests.golden_models import longer_chunks

Floats = npt.NDArray[np.float32]
FRAMES, CLASSES = 3, 27
OFFLINE, LIVE = ListenOptions(interim=False), ListenOptions(interim=True)


class PhoneEncoder(AudioEncoder):
    """An encoder with a phone head that hears phones at random, the same ones in the same rows."""

    def __init__(self, encoder: AudioEncoder) -> None:
        self.__dict__.update(encoder.__dict__)
        shape = (encoder.spec.width, FRAMES * (CLASSES + 1))
        self._weight = np.random.default_rng(5).standard_normal(shape).astype(np.float32)

    def bodies(
        self, windows: Sequence[Floats], owner: Owner | None = None, urgency: Urgency = Urgency.DUE
    ) -> list[Encoded]:
        """As ``AudioEncoder.bodies``."""
        found = super().bodies(windows, owner, urgency)
        return [replace(each, phones=self.phones(each.embeddings)) for each in found]

    def phones(self, embeddings: Floats) -> Floats:
        """Log-probabilities [rows * FRAMES, CLASSES + 1]."""
        scale = np.sqrt(np.mean(embeddings**2, axis=1, keepdims=True) * embeddings.shape[1])
        logits = (embeddings / scale @ self._weight).reshape(-1, CLASSES + 1)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def headed(model_directory: Path) -> Iterator[AsrModel]:
    """The embedded model, which has such a head."""
    model = AsrModel(model_directory, sessions=2)
    assert model.pronunciation is not None
    yield model
    model.close()


@pytest.fixture(scope="module")
def headless(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsrModel]:
    """The same one, whose manifest does not say so."""
    folder = with_phones(model_directory, tmp_path_factory.mktemp("headless"), None)
    model = AsrModel(folder, sessions=2)
    yield model
    model.close()


def hear(model: AsrModel, samples: Floats, options: ListenOptions, cut: int) -> tuple[list[object], Work]:
    """Of each final what may not depend on how the audio came, in pieces of ``cut`` samples; the session's work."""
    listener = model.listener(options)
    events = [event for at in range(0, len(samples), cut) for event in listener.feed(samples[at : at + cut])]
    events += listener.finish()
    finals = [event for event in events if isinstance(event, Transcript) and event.is_final]
    listener.close()
    return [(e.start, e.end, e.text, e.words, e.confidence, e.speech_final) for e in finals], listener.work


def whole(model: AsrModel, clip: Clip) -> tuple[list[object], Work]:
    return hear(model, clip.samples, OFFLINE, len(clip.samples))


def test_a_final_asks_both_heads_and_keeps_the_text_they_like_best(
    headed: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows and tail together, in every hearing its own; and the phone head changes some of the choices."""
    changed, frames, scored = 0, list[int](), 0
    rows: Floats | None = None

    def noted(log_probs: Floats, spoken: streaming.opinions.Spoken) -> Opinion:
        nonlocal rows
        rows = log_probs
        frames.append(len(log_probs))
        return by_phones(log_probs, spoken)

    def compared(drafts: Sequence[Draft], opinions: Sequence[Opinion], read: Read | None) -> Draft:
        nonlocal changed, scored
        assert len(opinions) == 2 and rows is not None and headed.pronunciation is not None
        net, prompt = headed.pronunciation, headed.prompt
        plain = by_phones(rows, lambda tokens: net.of(prompt.answer(tokens, "en").text.split(" ")))
        assert np.array_equal(opinions[1](drafts), plain(drafts))
        scored += len(drafts)
        without = best_of(drafts, opinions[:1], read)
        for draft in drafts:
            draft.score = None
        best = best_of(drafts, opinions, read)
        changed += best is not without
        return best

    monkeypatch.setattr(streaming.decoding, "by_phones", noted)
    monkeypatch.setattr(streaming.decoding, "best_of", compared)
    monkeypatch.setattr(headed, "unsure", 0.0)
    speech = np.concatenate([clip.samples for clip in clips[:12]])
    for samples in (*np.split(speech, (4 * RATE, 15 * RATE, 35 * RATE))[:3], *(clip.samples for clip in clips[12:24])):
        listener = headed.listener(ListenOptions(interim=False, endpointing=None))
        listener.feed(samples)
        segment = listener._segment  # pyright: ignore[reportPrivateUsage]
        assert segment is not None
        frames.clear()
        Hearings(headed, segment, segment.length, listener.work).settle()
        assert segment.ctc is not None and frames[0] == FRAMES * len(segment.ctc)
        assert listener.work.hearings > 0
        expected = [round(frames[0] / speed) for speed in SPEEDS]
        assert len(set(frames)) == 1 + listener.work.hearings
        assert all(min(abs(each - other) for other in expected) <= 4 * FRAMES for each in set(frames) - {frames[0]})
        listener.close()
    assert changed > 0 and scored > 20


def test_the_frames_are_those_of_the_rows(headed: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row in their order, over the window's end too, also after a look at a shorter clip."""
    seen: list[Floats] = []

    def noted(log_probs: Floats, spoken: streaming.opinions.Spoken) -> Opinion:
        seen.append(log_probs)
        return by_phones(log_probs, spoken)

    monkeypatch.setattr(streaming.decoding, "by_phones", noted)
    encoded: list[Encoded] = []
    bodies = AudioEncoder.bodies

    def kept(
        self: AudioEncoder, windows: Sequence[Floats], owner: Owner | None = None, urgency: Urgency = Urgency.DUE
    ) -> list[Encoded]:
        found = bodies(self, windows, owner, urgency)
        encoded.extend(found)
        return found

    monkeypatch.setattr(AudioEncoder, "bodies", kept)
    speech = np.concatenate([clip.samples for clip in clips[:6]])[: 13 * RATE]
    listener = headed.listener(ListenOptions(interim=False, endpointing=None))
    listener.feed(speech)
    segment = listener._segment  # pyright: ignore[reportPrivateUsage]
    assert segment is not None
    Interims(headed, segment, listener.work).tick()
    segment.final(12 * RATE)
    listener.close()
    window, tail = encoded[0], encoded[-1]
    assert len(encoded) == 3 and len(window.embeddings) == headed.manifest.encoder.window_rows
    assert window.phones is not None and tail.phones is not None
    assert len(tail.phones) == FRAMES * len(tail.embeddings)
    assert np.array_equal(seen[-1], np.concatenate([window.phones, tail.phones]))


def test_a_tail_of_several_windows_has_the_frames_of_all(tmp_path: Path, clips: list[Clip]) -> None:
    """Where windows are shorter than the stretch that a seam may cut."""
    directory = longer_chunks(tmp_path, 200)
    manifest = manifests.read_asr(directory)
    encoder = msgspec.structs.replace(manifest.encoder, window_rows=25)
    manifests.write(msgspec.structs.replace(manifest, encoder=encoder), directory)
    model = AsrModel(directory, sessions=1, threads=1)
    try:
        model.encoder = headed = PhoneEncoder(model.encoder)
        windows = Windows(model, Owner(), Work())
        windows.extend(np.concatenate([clip.samples for clip in clips[:4]])[: 5 * RATE])
        tail = windows.tail(windows.length)
        assert tail.phones is not None and len(tail.phones) == FRAMES * len(tail.embeddings) > FRAMES * 2 * 25
        np.testing.assert_allclose(tail.phones, headed.phones(tail.embeddings), atol=1e-4)
    finally:
        model.close()


def test_live_or_from_a_file_the_same_text_is_chosen(headed: AsrModel, clips: list[Clip]) -> None:
    """Every final heard again: bit for bit."""
    before, headed.unsure = headed.unsure, 0.0
    try:
        for clip, cut in zip(clips[:4], (1600, 7777, 333, 20_000), strict=True):
            assert hear(headed, clip.samples, LIVE, cut)[0] == whole(headed, clip)[0]
    finally:
        headed.unsure = before


def test_a_head_without_weight_changes_nothing(
    headed: AsrModel, headless: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the same model without one; only the one with a head takes time for it."""
    monkeypatch.setattr(streaming.opinions, "PHONES", 0.0)
    monkeypatch.setattr(streaming.opinions, "PER_PHONE", 0.0)
    for clip in clips[:6]:
        (with_head, some), (without, none) = whole(headed, clip), whole(headless, clip)
        assert with_head == without
        assert some.phone_seconds > 0 == none.phone_seconds


def with_phones(model_directory: Path, folder: Path, phones: Phones | None) -> Path:
    """A copy of the model whose manifest says ``phones``."""
    shutil.copytree(model_directory, folder, dirs_exist_ok=True)
    manifest = manifests.read_asr(folder)
    encoder = msgspec.structs.replace(manifest.encoder, phones=phones)
    manifests.write(msgspec.structs.replace(manifest, encoder=encoder), folder)
    return folder


def test_pronunciations_of_another_head_are_refused(model_directory: Path, tmp_path: Path) -> None:
    phones = manifests.read_asr(model_directory).encoder.phones
    assert phones is not None
    more = msgspec.structs.replace(phones, classes=phones.classes + 1)
    message = rf"pronunciation\.npz: names: {phones.classes} phones, the head has {phones.classes + 1}"
    with pytest.raises(ManifestError, match=message):
        AsrModel(with_phones(model_directory, tmp_path / "other", more), sessions=1)


def test_a_model_with_one_text_has_nothing_to_pronounce(
    headed: AsrModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pronunciations are not even read."""

    def never(decoder: manifests.Decoder) -> bool:
        del decoder
        return False

    phones = headed.manifest.encoder.phones
    assert phones is not None
    folder = with_phones(headed.directory, tmp_path / "large", phones)
    (folder / phones.pronunciation).unlink()
    monkeypatch.setattr(streaming.model, "affordable", never)
    large = AsrModel(folder, sessions=1)
    assert large.pronunciation is None
    large.close()


def test_the_shipped_pronunciations_tell_words_apart_by_their_sound(headed: AsrModel) -> None:
    net = headed.pronunciation
    assert net is not None
    for word, phones in (("knight", "n aI t"), ("through", "T r u"), ("lazy", "l eI z i"), ("isn't", "I s @ n t")):
        assert " ".join(net.names[phone] for phone in net.of([word])) == phones
