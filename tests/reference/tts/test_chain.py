"""Talker and predictor of the export against the official model: prompt rows, greedy frames, quantised formats."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from export.tts.checkpoint import open_tts
from export.tts.dims import read_tts_dims
from export.tts.talker import write_predictor, write_tables, write_talker
from tests.reference.tts.chain import Chain, Prompt
from tests.reference.tts.conftest import Case

pytestmark = pytest.mark.reference

Codes = NDArray[np.int64]

TEXT = "The king is singing: 27 songs, one by one, until the morning."
INSTRUCTION = "Speak slowly, as if telling a secret."
FRAMES = 50


class Caught(Exception):
    """The official model's prompt, taken before it runs."""


def ask(case: Case, *, layout: str, voice: str | None, language: str | None, instruction: str | None) -> dict[str, Any]:
    """Arguments of the official ``generate`` for one text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(case.exported / "tokenizer.json"))

    def ids(text: str) -> torch.Tensor:
        return torch.tensor([tokenizer.encode(text, add_special_tokens=False).ids])

    names = {None: "auto", "en": "english", "zh": "chinese"}
    return {
        "input_ids": [ids(f"<|im_start|>assistant\n{TEXT}<|im_end|>\n<|im_start|>assistant\n")],
        "instruct_ids": [None if instruction is None else ids(f"<|im_start|>user\n{instruction}<|im_end|>\n")],
        "languages": [names[language]],
        "speakers": [voice],
        "non_streaming_mode": layout == "whole",
    }


def official_prompt(case: Case, asked: dict[str, Any], **more: Any) -> Prompt:
    """The rows that the official code makes, and its trailing text rows."""
    caught: dict[str, Any] = {}

    def take(**arguments: Any) -> None:
        caught.update(arguments)
        raise Caught

    own, case.model.talker.generate = case.model.talker.generate, take
    try:
        with pytest.raises(Caught):
            case.model.generate(**asked, **more)
    finally:
        case.model.talker.generate = own
    trailing = caught["trailing_text_hidden"][0]
    if trailing.shape[0] == 1 and asked["non_streaming_mode"]:
        trailing = trailing[:0]  # The padding row, which follows anyway.
    return Prompt(caught["inputs_embeds"][0].detach().numpy(), trailing.detach().numpy())


@pytest.fixture(scope="module")
def chains(tiny: Case, wide: Case) -> Iterator[dict[Path, Chain]]:
    made = {each.exported: Chain(each.exported) for each in (tiny, wide)}
    yield made
    for chain in made.values():
        chain.close()


PROMPTS = [
    ("stream", "ryan", "en", None),
    ("stream", "ryan", None, None),
    ("whole", "ryan", "en", INSTRUCTION),
    ("stream", None, None, None),
    ("whole", None, "zh", None),
    ("stream", None, "en", INSTRUCTION),
    ("stream", "dylan", None, None),
    ("whole", "dylan", "zh", None),
    ("stream", "dylan", "en", None),
]


@pytest.mark.parametrize(("layout", "voice", "language", "instruction"), PROMPTS)
def test_prompt_rows_are_the_official_ones(
    tiny: Case, chains: dict[Path, Chain], layout: str, voice: str | None, language: str | None, instruction: str | None
) -> None:
    """With and without speaker, dialect, language and instruction; both layouts."""
    asked = ask(tiny, layout=layout, voice=voice, language=language, instruction=instruction)
    theirs = official_prompt(tiny, asked)
    ours = chains[tiny.exported].prompt(TEXT, layout=layout, voice=voice, language=language, instruction=instruction)
    assert ours.rows.shape == theirs.rows.shape
    assert np.abs(ours.rows - theirs.rows).max() <= 1e-5
    assert ours.trailing.shape == theirs.trailing.shape
    assert not ours.trailing.size or np.abs(ours.trailing - theirs.trailing).max() <= 1e-5


def official_frames(case: Case, asked: dict[str, Any]) -> Codes:
    """Greedy frames of the official code [FRAMES, Q]."""
    with torch.no_grad():
        codes, _ = case.model.generate(**asked, do_sample=False, subtalker_dosample=False, max_new_tokens=FRAMES + 1)
    return codes[0].numpy()[:FRAMES]


def request_of(case: Case) -> dict[str, Any]:
    voiced = case.model.config.tts_model_type == "custom_voice"
    return {
        "layout": "stream" if voiced else "whole",
        "voice": "ryan" if voiced else None,
        "language": "en",
        "instruction": None if voiced else INSTRUCTION,
    }


@pytest.fixture(scope="module")
def spoken(tiny: Case, wide: Case) -> dict[Path, Codes]:
    """The official frames of both checkpoints."""
    return {each.exported: official_frames(each, ask(each, **request_of(each))) for each in (tiny, wide)}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_greedy_frames_are_the_official_ones(case: Case, chains: dict[Path, Chain], spoken: dict[Path, Codes]) -> None:
    """50 frames, every codebook, from f32 GGUFs with f32 KV."""
    theirs, chain = spoken[case.exported], chains[case.exported]
    assert theirs.shape == (FRAMES, chain.codebooks)
    assert len(set(theirs[:, 0].tolist())) >= 20, "the official frames repeat themselves: nothing is shown"
    ours, close = chain.frames(chain.prompt(TEXT, **request_of(case)), FRAMES)
    print(f"{case.exported.parent.name}: {len(set(theirs.flatten().tolist()))} distinct codes, {close.sum()} near ties")
    assert np.array_equal(ours, theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("quantization", "least"), [("f16", 0.98), ("q8_0", 0.9), ("q6_k", 0.8), ("q4_k_m", 0.5)])
def test_quantised_frames_stay_near(
    wide: Case, spoken: dict[Path, Codes], tmp_path: Path, quantization: str, least: float
) -> None:
    """First divergence and teacher-forced agreement of the other formats (random weights: no margin between codes)."""
    out = tmp_path / "model"
    shutil.copytree(wide.exported, out)
    opened = open_tts(wide.checkpoint)
    dims = read_tts_dims(opened)
    write_tables(opened.model, dims, out, half=True)
    write_talker(opened.model, dims, out, quantization, name="rounded")
    write_predictor(opened.model, dims, out, quantization, name="rounded")
    chain = Chain(out)
    try:
        theirs = spoken[wide.exported]
        prompt = chain.prompt(TEXT, **request_of(wide))
        ours, _ = chain.frames(prompt, FRAMES)
        agreed = (chain.frames(prompt, FRAMES, forced=theirs)[0] == theirs).mean()
    finally:
        chain.close()
    differs = np.flatnonzero((ours != theirs).any(1))
    first = int(differs[0]) if len(differs) else FRAMES
    print(f"{quantization}: first divergence at frame {first} of {FRAMES}, teacher-forced agreement {agreed:.3f}")
    assert agreed >= least
