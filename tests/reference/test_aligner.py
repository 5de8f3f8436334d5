"""Word times from a ForcedAligner: the runtime against the official processor and model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3ASRProcessor
from transformers.models.qwen3_asr import processing_qwen3_asr as official_code

from engines.lane import Lane
from export import api
from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.sound import sound
from export.verify.reference import Reference
from streaming.forced_aligner import ForcedAligner, mend, units_of
from tests.reference.official import TINY, write_checkpoint

pytestmark = pytest.mark.reference

TEMPLATE = """\
{%- for part in messages[0].content -%}
  {%- if part.type == 'audio' -%}{{- '<|audio_start|><|audio_pad|><|audio_end|>' -}}
  {%- else -%}{{- part.text + '<timestamp><timestamp>' -}}{%- endif -%}
{%- endfor -%}
"""
"""The prompt of QwenLM/Qwen3-ASR's encode_timestamp: the audio, then each word and two marks."""

TEXT = "The quick, brown fox jumps; over 42 lazy dogs — it's 中文 really the quick brown fox jumps over dogs."


class Pair:
    """The runtime's aligner and the official one on the same random weights."""

    def __init__(self, root: Path) -> None:
        checkpoint = write_checkpoint(root / "checkpoint", TINY, layout="original", seed=5, aligner=60)
        model = api.run(checkpoint, root / "model", encoder="fp32", decoder="f32", clip=False, name="aligner")
        opened = open_checkpoint(checkpoint)
        self.reference = Reference(opened, read_dims(opened))
        plain = self.reference.processor(model / "tokenizer.json")
        self.processor = Qwen3ASRProcessor(plain.feature_extractor, plain.tokenizer, chat_template=TEMPLATE)
        self.lane = Lane("aligner")
        self.aligner = ForcedAligner(model, sessions=1, threads=2, seconds=24.0)

    def official(self, samples: np.ndarray, text: str) -> list[tuple[str, float, float]]:
        """Words and times as the official code gives them."""
        inputs, words = self.processor.prepare_forced_aligner_inputs(samples, text, "English")
        mark = self.processor.tokenizer.convert_tokens_to_ids("<timestamp>")
        with torch.no_grad():
            logits = self.reference.model(**inputs).logits
        found = self.processor.decode_forced_alignment(logits, inputs["input_ids"], words, mark)[0]
        return [(each["text"], each["start_time"], each["end_time"]) for each in found]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Loaded once."""
    made = Pair(tmp_path_factory.mktemp("aligner"))
    yield made
    made.lane.close()
    made.aligner.close()


@pytest.mark.parametrize("seconds", [0.3, 5.0, 8.01, 23.7])
def test_times_are_the_official_ones(pair: Pair, seconds: float) -> None:
    """From samples and text to seconds, punctuation and ideographs included."""
    samples = sound(seconds, 7)
    theirs = pair.official(samples, TEXT)
    words = TEXT.split()
    ours = pair.lane.run(pair.aligner.times(samples, words, "en"))
    assert ours is not None and len(ours) == len(words)
    assert [unit for word in words for unit in units_of(word)] == [text for text, _, _ in theirs]
    expected: list[tuple[float, float]] = []
    at, before = 0, 0.0
    for word in words:
        count = len(units_of(word))
        start, end = (theirs[at][1], theirs[at + count - 1][2]) if count else (before, before)
        # Beyond the official code: nothing reaches out of the clip.
        before = min(end, seconds)
        expected.append((min(start, seconds), before))
        at += count
    np.testing.assert_allclose(ours, expected, atol=1e-9)
    if seconds in (5.0, 8.01):
        assert len({start for start, _ in ours}) > 3  # the weights do tell words apart


def test_what_an_aligner_was_not_trained_on_is_left_alone(pair: Pair) -> None:
    """Another language, nothing to align, or more text than there is room for."""
    samples = sound(2.0, 1)
    assert pair.lane.run(pair.aligner.times(samples, ["hyvää", "huomenta"], "fi")) is None
    assert pair.lane.run(pair.aligner.times(samples, ["—", "!"], "en")) is None
    assert pair.lane.run(pair.aligner.times(samples, ["fox"] * 600, "en")) is None
    assert pair.lane.run(pair.aligner.times(samples, ["fox"], None)) is not None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 300).map(lambda step: 80 * step), min_size=1, max_size=24))
def test_marks_are_mended_as_the_official_code_mends_them(marks: list[int]) -> None:
    """Any order of marks."""
    assert mend(marks) == official_code._fix_timestamps(np.array(marks, np.float32))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_units_are_the_official_ones(text: str) -> None:
    """Any text."""
    assert units_of(text.strip()) == Qwen3ASRProcessor.split_words_for_alignment(Any, text)
