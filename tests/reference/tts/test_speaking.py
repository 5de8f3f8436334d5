"""The speaking runtime (codec/) against the official code: prompts, greedy frames through a session, cloned voices."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from tokenizers import Tokenizer

from codec.clone import PAUSE_SECONDS
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.talker import TalkerStep
from codec.voices import Reference, StoredVoice
from engines.lane import Steps
from tests.reference.tts.conftest import Case
from tests.reference.tts.test_chain import FRAMES, INSTRUCTION, TEXT, ask, official_prompt
from tests.reference.tts.test_cloning import base, clip

pytestmark = pytest.mark.reference

__all__ = ["base"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Model directories behind the runtime, float32 throughout; each loaded once."""
    models: dict[Path, TtsModel] = {}

    def load(directory: Path) -> TtsModel:
        if directory not in models:
            voices = tmp_path_factory.mktemp("voices")
            models[directory] = TtsModel(directory, sessions=2, threads=1, kv="f32", voices=voices)
        return models[directory]

    yield load
    for model in models.values():
        model.close()


def session_frames(model: TtsModel, options: SpeakOptions, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The first frames of a session that says TEXT in deltas of three characters."""
    frame, frames = model.engine.frame, list[list[int]]()

    def watched(step: TalkerStep) -> Steps[list[int] | None]:
        codes = yield from frame(step)
        frames.append(codes or [])
        return codes

    monkeypatch.setattr(model.engine, "frame", watched)
    speaker = model.speaker(options)
    for at in range(0, len(TEXT), 3):
        speaker.say(TEXT[at : at + 3])
        while speaker.step(buffered=0.5):
            pass
    speaker.finish()
    while len(frames) < FRAMES and not speaker.finished:
        speaker.step(buffered=0.5)
    speaker.close()
    return np.array(frames[:FRAMES])


@pytest.mark.parametrize(
    ("kind", "voice", "language", "instruction"),
    [("tiny", "ryan", "en", None), ("tiny", "dylan", "zh", None), ("tiny", "dylan", None, INSTRUCTION),
     ("wide", None, None, None), ("wide", None, "en", INSTRUCTION)],
)  # fmt: skip
def test_prompts_and_greedy_frames_are_the_official_ones(
    loaded: Any,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    voice: str | None,
    language: str | None,
    instruction: str | None,
) -> None:
    """Rows to 1e-5; 50 frames, every codebook, with the text arriving in deltas."""
    case: Case = request.getfixturevalue(kind)
    model: TtsModel = loaded(case.exported)
    asked = ask(case, layout="stream", voice=voice, language=language, instruction=instruction)
    theirs = official_prompt(case, asked)
    greedy = replace(model.sampling, greedy=True)
    options = SpeakOptions(
        voice=voice, language=language, instructions=instruction, sampling=greedy, normalise=False, seed=0
    )
    speaker = model.speaker(options)
    prompt, ids = model.engine.prompt, model.engine.prompt.encode(TEXT)
    head = speaker._voicing.head  # pyright: ignore[reportPrivateUsage]
    rows = np.concatenate([head, prompt.text_rows(ids[:1]) + prompt.codec_bos])
    speaker.close()
    assert rows.shape == theirs.rows.shape
    assert np.abs(rows - theirs.rows).max() <= 1e-5
    with torch.no_grad():
        frames, _ = case.model.generate(**asked, do_sample=False, subtalker_dosample=False, max_new_tokens=FRAMES + 1)
    expected = frames[0].numpy()[:FRAMES]
    assert len(np.unique(expected[:, 0])) >= 20
    np.testing.assert_array_equal(session_frames(model, options, monkeypatch)[: len(expected)], expected)


@pytest.mark.parametrize("rate", [24_000, 48_000])
def test_a_clone_is_made_of_the_official_numbers(loaded: Any, base: Case, rate: int) -> None:
    """Embedding and codes of a recording, also at another rate; stored and found again."""
    model: TtsModel = loaded(base.exported)
    heard = clip(3.0, 3)
    samples = heard if rate == 24_000 else np.repeat(heard, 2)
    voice = model.clone("friend", samples, rate, "That is what was said.")
    found = model.voices.find("friend")
    assert isinstance(found, StoredVoice) and voice.reference is not None and found.reference is not None
    np.testing.assert_array_equal(found.embedding, voice.embedding)
    np.testing.assert_array_equal(found.reference.codes, voice.reference.codes)
    assert found.reference.text == "That is what was said."
    if rate != 24_000:
        assert found.reference.codes.shape[1] == model.manifest.codec.codebooks
        return
    theirs = base.model.extract_speaker_embedding(heard, 24_000).numpy()
    assert np.abs(voice.embedding - theirs).max() <= 1e-4 * np.abs(theirs).max()
    size = -(-(len(heard) + int(PAUSE_SECONDS * 24_000)) // 1920) * 1920
    audio = np.zeros((1, size), np.float32)
    audio[0, : len(heard)] = heard
    with torch.no_grad():
        codes = base.codec.encode(torch.from_numpy(audio), torch.ones(audio.shape, dtype=torch.int64)).audio_codes[0]
    np.testing.assert_array_equal(found.reference.codes, codes.numpy())


@pytest.mark.parametrize("frames", [4, 12, 150])
def test_a_references_prompt_is_the_official_one(loaded: Any, base: Case, frames: int) -> None:
    """Fewer frames than text, and more."""
    model: TtsModel = loaded(base.exported)
    prompt, width = model.engine.prompt, model.manifest.talker.width
    embedding = np.random.default_rng(0).standard_normal(width).astype(np.float32)
    said = "That is what was said."
    codes = np.random.default_rng(1).integers(0, model.manifest.codec.entries, (frames, model.manifest.codec.codebooks))
    asked = ask(base, layout="stream", voice=None, language="en", instruction=None)
    clone = {
        "ref_spk_embedding": [torch.from_numpy(embedding)],
        "x_vector_only_mode": [False],
        "icl_mode": [True],
        "ref_code": [torch.from_numpy(codes)],
    }
    tokenizer = Tokenizer.from_file(str(base.exported / "tokenizer.json"))
    turn = tokenizer.encode(f"<|im_start|>assistant\n{said}<|im_end|>\n", add_special_tokens=False).ids
    ids = torch.tensor([turn])
    theirs = official_prompt(base, asked, voice_clone_prompt=clone, ref_ids=[ids])
    reference = Reference(said, codes)
    head = prompt.head(StoredVoice("x", embedding, reference), "en", None)
    body = prompt.cloned(prompt.encode(TEXT), reference)
    rows = np.concatenate([head, body.rows, (body.row + body.rest[0])[None]])
    assert rows.shape == theirs.rows.shape
    assert np.abs(rows - theirs.rows).max() <= 1e-5
    rest = body.rest[1:]
    assert len(theirs.trailing) == max(1, len(rest))
    assert not len(rest) or np.abs(rest - theirs.trailing).max() <= 1e-5
