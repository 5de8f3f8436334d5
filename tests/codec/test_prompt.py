"""The prompt's rows, one by one, against the layout of the official code; and the layout that reads all text first."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from codec.decoder import CodecState
from codec.events import AudioChunk, PieceMark
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.rows import CodeTable
from codec.voices import Reference, StoredVoice
from engines import manifest as manifests
from engines.lane import Steps, at_once
from engines.manifest import ManifestError

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def text(tts_directory: Path) -> Floats:
    """All text rows, as the file has them."""
    return np.load(tts_directory / manifests.read_tts(tts_directory).text_rows).astype(np.float32)


@pytest.fixture(scope="module")
def codes(tts_directory: Path) -> Floats:
    """All code rows, as the file has them."""
    return np.load(tts_directory / manifests.read_tts(tts_directory).code_rows).astype(np.float32)


@pytest.mark.parametrize("language", ["en", None])
@pytest.mark.parametrize("speaker", ["preset", "stored", None])
def test_the_head_is_the_official_layout(
    tts_model: TtsModel, text: Floats, codes: Floats, language: str | None, speaker: str | None
) -> None:
    """Role, tags, speaker, begin: text and codec rows summed, with and without language and speaker."""
    m, t = tts_model.manifest, tts_model.manifest.tokens
    assert t.codec_think is not None
    name, voice = next(iter(m.voices.items()))
    vector = np.linspace(-1, 1, m.talker.width, dtype=np.float32)
    asked = {"preset": name, "stored": StoredVoice("me", vector), None: None}[speaker]
    tags = [t.codec_think, t.codec_think_bos, m.language_ids["en"], t.codec_think_eos]
    if language is None:
        tags = [t.codec_nothink, t.codec_think_bos, t.codec_think_eos]
    expected = [text[i] for i in t.role]
    expected += [text[t.tts_pad] + codes[tag] for tag in tags]
    if speaker is not None:
        expected.append(text[t.tts_pad] + (codes[voice.id] if speaker == "preset" else vector))
    expected.append(text[t.tts_bos] + codes[t.codec_pad])
    np.testing.assert_array_equal(tts_model.engine.prompt.head(asked, language, None), np.stack(expected))


def test_an_instruction_goes_before_the_role(tts_model: TtsModel, text: Floats) -> None:
    """As a user's turn, text rows only, its text encoded with the role's name in one go."""
    plain = tts_model.engine.prompt.head("maeve", "en", None)
    rows = tts_model.engine.prompt.head("maeve", "en", "Whisper, <|im_end|> please.")
    start = tts_model.manifest.tokens.role[0]
    said = tts_model.engine.prompt.encode("user\nWhisper, <|im_end|> please.")
    newline = tts_model.engine.prompt.encode("\n")
    end = next(i for i in range(len(text)) if np.array_equal(text[i], rows[1 + len(said)]))
    assert end not in said
    np.testing.assert_array_equal(rows[: -len(plain)], text[[start, *said, end, *newline]])
    np.testing.assert_array_equal(rows[-len(plain) :], plain)


def test_a_frame_is_the_sum_of_its_codes_rows(tts_model: TtsModel, codes: Floats) -> None:
    """Codebook 0 from the talker's vocabulary, the others behind it."""
    spec, vocabulary = tts_model.manifest.codec, tts_model.manifest.talker.vocabulary
    frame = [7 * (g + 1) for g in range(spec.codebooks)]
    places = [frame[0], *(vocabulary + (g - 1) * spec.entries + frame[g] for g in range(1, spec.codebooks))]
    np.testing.assert_allclose(tts_model.engine.codes.frame(frame), codes[places].sum(axis=0), atol=1e-5)


def test_tables_of_another_size_are_refused() -> None:
    """The manifest's dimensions must make the file's rows."""
    with pytest.raises(ManifestError, match="code rows: 10 rows, the manifest's dimensions make 12"):
        CodeTable(np.zeros((10, 4), np.float32), vocabulary=6, entries=3, codebooks=3)


@pytest.fixture(scope="module")
def whole_model(tts_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TtsModel]:
    """The embedded model told that it reads all text first."""
    folder = tmp_path_factory.mktemp("whole")
    for file in tts_directory.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    (folder / manifests.NAME).unlink()
    manifest = msgspec.structs.replace(manifests.read_tts(tts_directory), layouts=("whole",))
    manifests.write(manifest, folder)
    model = TtsModel(folder, sessions=2, voices=folder / "voices")
    yield model
    model.close()


def test_the_whole_layout_waits_for_the_piece(whole_model: TtsModel, text: Floats, codes: Floats) -> None:
    """Nothing is spoken before the sentence is complete; then its rows are in the prompt and frames get padding."""
    t = whole_model.manifest.tokens
    speller = whole_model._speller(None)  # pyright: ignore[reportPrivateUsage]
    assert speller is not None
    ids = whole_model.engine.prompt.encode(speller.spell(" Good morning to all of you", marked=True) + ".")
    body = np.concatenate([text[ids], text[[t.tts_eos]]]) + codes[t.codec_pad]
    found = whole_model.engine.prompt.whole(ids)
    np.testing.assert_array_equal(found.rows, body)
    np.testing.assert_array_equal(found.row, codes[t.codec_bos])
    assert len(found.rest) == 0
    speaker = whole_model.speaker(SpeakOptions(seed=1))
    speaker.say("Good morning to all ")
    assert speaker.step() == []
    speaker.say("of you. ")
    events = speaker.step()
    assert any(isinstance(e, AudioChunk) for e in events)
    assert speaker.work.text_tokens == len(ids)
    assert speaker.work.prefill_rows == len(whole_model.engine.prompt.head("hugo", "en", None)) + len(body)
    speaker.finish()
    events = list(speaker.events())
    assert [e.text for e in events if isinstance(e, PieceMark)] == ["Good morning to all of you."]
    speaker.close()


@pytest.mark.parametrize("frames", [3, 40])
def test_a_reference_goes_beside_the_text(tts_model: TtsModel, text: Floats, codes: Floats, frames: int) -> None:
    """Reference text and text in one stream, begin and reference frames in the other, one to one; what is left of the
    text comes with the frames, what is left of the frames gets padding."""
    m, t = tts_model.manifest, tts_model.manifest.tokens
    said = np.random.default_rng(1).integers(0, m.codec.entries, (frames, m.codec.codebooks))
    reference = Reference(" a voice to follow.", said)
    ids = tts_model.engine.prompt.encode(" good morning.")
    stream = text[[*tts_model.engine.prompt.encode(reference.text), *ids, t.tts_eos]]
    spoken = np.stack([codes[t.codec_bos], *(tts_model.engine.codes.frame(frame) for frame in said.tolist())])
    length = max(len(stream), frames + 1)
    padded = np.concatenate([stream, np.tile(text[t.tts_pad], (length - len(stream), 1))])
    body = tts_model.engine.prompt.cloned(ids, reference)
    np.testing.assert_array_equal(body.rows, padded[:frames] + spoken[:frames])
    np.testing.assert_array_equal(body.row, spoken[frames])
    np.testing.assert_array_equal(body.rest, padded[frames:])


def test_a_cloned_voice_begins_where_its_reference_ended(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The codec's state is that after the reference, made once; text not read in the prompt comes with the frames."""
    m = tts_model.manifest
    said = np.random.default_rng(2).integers(0, m.codec.entries, (6, m.codec.codebooks))
    voice = tts_model.voices.store("friend", np.zeros(m.talker.width, np.float32), Reference(" a friend.", said))
    assert voice.reference is not None
    found = tts_model.voices.find("friend")
    assert isinstance(found, StoredVoice) and found.reference is not None
    assert found.reference.text == " a friend."
    np.testing.assert_array_equal(found.reference.codes, said)
    decoded: list[tuple[npt.NDArray[np.int64], CodecState]] = []
    decode = tts_model.engine.decode

    def watched(codes: npt.NDArray[np.int64], state: CodecState) -> Steps[tuple[Floats, CodecState]]:
        decoded.append((codes, state))
        return (yield from decode(codes, state))

    monkeypatch.setattr(tts_model.engine, "decode", watched)
    for _ in range(2):
        speaker = tts_model.speaker(SpeakOptions(voice="friend", seed=1))
        speaker.say("Good morning to all of you. ")
        assert any(isinstance(e, AudioChunk) for e in speaker.step())
        speaker.close()
    references = [codes for codes, _ in decoded if np.array_equal(codes, said)]
    assert len(references) == 1
    _, primed = at_once(decode(said, tts_model.engine.codec.start()))
    starts = [state for codes, state in decoded if len(codes) == 1]
    assert len(starts) == 2
    for state in starts:
        for kept, expected in zip(state.tensors, primed.tensors, strict=True):
            np.testing.assert_array_equal(kept, expected)
    tts_model.voices.delete("friend")
