"""Steps of all runs read nothing back from their device and take nothing from another one, because what does so cannot
be captured.

The device here is PyTorch's "meta". Its tensors have no values, so that they can be neither read nor mixed with others.
"""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.asr import shapes as hearing
from tests.training.tts.shapes import CONFIG, tokenizer
from training.asr import plan
from training.asr.model import PocketASR
from training.asr.optimizer import Optimizer
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.asr.step import Step
from training.asr.teacher import WhisperEncoder
from training.tts.codec import Codec
from training.tts.codec_run import CodecStep
from training.tts.config import FRAME
from training.tts.crops import Store
from training.tts.references import References
from training.tts.rows import Layout
from training.tts.speech import Speech, Utterance, join, shards
from training.tts.talker import Talker
from training.tts.talker_step import TalkerStep

META = torch.device("meta")
RANKS: Any = SimpleNamespace(share=(0, 1), device=META, first=True, mean=lambda _: None, copy=list)
FRAMES = 60
WAVE = np.zeros(FRAMES * FRAME, np.int16)


@pytest.fixture(autouse=True)
def of_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what PyTorch lacks for this device: half precision, and an AdamW that keeps its rate there."""
    for module in ("codec_run", "talker_run"):
        monkeypatch.setattr(f"training.tts.{module}.autocast", lambda _: nullcontext())
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda _: None)


@pytest.mark.parametrize("free", [True, False])
def test_a_codecs_step_stays_on_its_device(free: bool) -> None:
    codec, labels = Codec(CONFIG.codec).to(META).train(), np.zeros(4 * FRAMES, np.uint8)
    CodecStep(codec, CONFIG.codec_training, Store(WAVE, labels, META), None, RANKS).begin(free=free)()


def test_a_talkers_step_stays_on_its_device(tmp_path: Path) -> None:
    """Half of the rows are of a speaker who is heard."""
    said = [Utterance(text, name, 45, False) for name in ("ada", "eve") for text in (" one.", " two.", " three.")]
    join((one, np.zeros(45 * FRAME, np.int16), np.zeros(4 * 45, np.uint8)) for one in said).save(tmp_path / "x.npz")
    layout = Layout(CONFIG, tokenizer(tmp_path), References(shards([tmp_path]), CONFIG.speakers, META))
    codes = np.arange(len(said) * 45 * 3, dtype=np.int16).reshape(-1, 3) % 32
    rows = layout.rows(Speech(said, {"codes": codes}), range(len(said)))
    [bucket] = layout.buckets(list(rows.values()))
    talker = Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker).to(META).train()
    step = TalkerStep(talker, CONFIG.talker_training, RANKS)
    step.begin([bucket])
    step.run(bucket)
    assert len(step.buffers[-1]) == 1, "of two rows"


@pytest.mark.parametrize("free", [0, 1])
def test_hearings_step_stays_on_its_device(tmp_path: Path, free: int) -> None:
    """Only CTC, which stands between the graphs, wants its lengths on the processor."""
    model = PocketASR(hearing.CONFIG.shape)
    model.add_taught(32, 2 - free)
    model.to(META).train()
    known = {"librispeech": [plan.Utterance(0, 32000, "a letter", True, [])]}
    planner = plan.Planner(hearing.CONFIG, Prompt(hearing.tiny_tokenizer(tmp_path)), {"letter": 2}, known, 1)
    audio = torch.zeros(32000, dtype=torch.int16, device=META)
    teacher = WhisperEncoder(hearing.teacher_weights()).to(META)
    optimizer = Optimizer(model, hearing.CONFIG.optimisation, 0.0)
    step = Step(hearing.CONFIG, model, LogMel().to(META), optimizer, audio, teacher)
    out = step._forward(step._inputs(planner.plan(1)))  # pyright: ignore[reportPrivateUsage]
    step._backward(out, torch.zeros_like(out.ctc))  # pyright: ignore[reportPrivateUsage]
    step.update()
