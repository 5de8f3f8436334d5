"""From a script to shards of one voice that the codec encodes, and recordings by way of bands."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from tests.training.asr.shapes import CONFIG
from tests.training.readers.test_reading import SMALL, recordings
from training.asr.checkpoint import save_weights
from training.asr.model import PocketASR
from training.readers.bands import Bands
from training.readers.corpus import Corpus
from training.readers.judge import PhoneJudge
from training.readers.model import Reader
from training.readers.narration import Narrator, by_bands, by_bands_all, narrate
from training.readers.reading import Casting, Manner, Spoken
from training.readers.script import Line
from training.shards import RATE as ASR_RATE
from training.tts.config import FRAME, LABEL, RATE
from training.tts.phones import UNKNOWN
from training.tts.speech import LEVEL, Shard, Utterance, load_shard, shards

CPU = torch.device("cpu")
SILENT = 3


class Fussy(PhoneJudge):
    """Likes lines of few phones; cannot hear those of one word at all."""

    def __init__(self) -> None:
        pass

    def losses(self, read: list[Spoken]) -> np.ndarray:  # pyright: ignore
        found = [np.inf if one.line.first.sum() == 1 else float(len(one.line.phones)) for one in read]
        return np.array(found, np.float32)


def test_a_voice_reads_what_its_judge_hears(tmp_path: Path) -> None:
    torch.manual_seed(1)
    corpus = Corpus(*recordings(24), SILENT, SMALL.batches, CPU)
    model = Reader(SMALL.shape, SILENT).eval()
    draw = np.random.default_rng(1)
    script: list[Line] = []
    for i in range(40):
        words = 1 if i % 4 == 0 else int(draw.integers(2, 6))
        ids = draw.integers(0, SILENT, 2 * words).astype(np.uint8)
        script.append(Line(" " + " ".join(f"ab{i}" for _ in range(words)) + ".", ids, np.arange(2 * words) % 2 == 0))
    manner = Manner(2, 0.5, between=0.0, rounds=2, even=True, slots_per_batch=4800)
    casting = Casting(corpus, {"librispeech": 1.0}, 1)
    narrator = Narrator(model, corpus, casting, (400, 1200), manner, Fussy(), 0.5)
    hours = narrate(narrator, script, "ann", 9.0, tmp_path)
    (path,) = shards([tmp_path])
    shard = load_shard(path)
    kept = [u.text for u in shard.utterances]
    liked = sorted((len(line.phones), line.text) for line in script if line.first.sum() > 1)[:20]
    # All words of a line are alike and have two phones: those of fewest phones are those of fewest words.
    assert sorted(len(text.split()) for text in kept) == sorted(len(text.split()) for _, text in liked)
    assert len(kept) == 20 and all(len(text.split()) > 1 for text in kept)
    assert {u.speaker for u in shard.utterances} == {"ann"} and not any(u.held_out for u in shard.utterances)
    assert (shard.labels == UNKNOWN).all() and len(shard.labels) == len(shard.wave) // LABEL
    assert hours == pytest.approx(len(shard.wave) / RATE / 3600)
    for u, wave, _ in shard.pieces():
        loud = float(np.sqrt(np.mean(np.square(wave / 32768))))
        assert u.frames * FRAME == len(wave) and 0.5 * LEVEL < loud < 1.5 * LEVEL


def test_bands_keep_time_and_loudness(tmp_path: Path) -> None:
    time = np.arange(20 * FRAME) / RATE
    pitch = np.where(time < 0.8, 220.0, 500.0)
    wave = (6000 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) * (np.sin(9 * time) > 0)).astype(np.int16)
    labels = np.zeros(len(wave) // LABEL, np.uint8)
    Shard(wave, labels, [Utterance("a.", "ann", 20, (1,), False)]).save(tmp_path / "in/voice-000.npz")
    torch.manual_seed(1)
    assert by_bands_all(tmp_path / "in", tmp_path / "out", Bands()) == 1
    shard = load_shard(tmp_path / "out/voice-000.npz")
    assert shard.utterances == load_shard(tmp_path / "in/voice-000.npz").utterances

    def level(samples: np.ndarray) -> np.ndarray:
        return np.sqrt(np.mean(np.square(samples.reshape(-1, FRAME // 4).astype(float)), 1))

    assert shard.wave.shape == wave.shape
    assert np.corrcoef(level(shard.wave), level(wave))[0, 1] > 0.95
    assert level(shard.wave).mean() == pytest.approx(level(wave).mean(), rel=0.1)
    assert not by_bands(np.zeros(FRAME, np.int16), Bands()).any()


def test_phones_are_judged_clip_by_clip(tmp_path: Path) -> None:
    """Clips are heard in the order of their lengths; what is heard of each goes to its own row, and too many phones
    are inf.
    """
    torch.manual_seed(4)
    save_weights(PocketASR(CONFIG.shape, phones=3).state_dict(), tmp_path)
    judge = PhoneJudge(CONFIG, tmp_path, CPU)
    draw = np.random.default_rng(1)
    said = (((0, 1), 3.0), ((2, 1) * 60, 1.0), ((1,), 2.0))
    read = [
        Spoken(
            Line(" a.", np.array(ids, np.uint8), np.arange(len(ids)) == 0),
            draw.normal(0, 3000, int(seconds * ASR_RATE)).astype(np.int16),
            [],
        )
        for ids, seconds in said
    ]
    found = judge.losses(read)
    assert np.isinf(found).tolist() == [False, True, False] and abs(found[0] - found[2]) > 1
    assert found == pytest.approx(np.concatenate([judge.losses([one]) for one in read]), rel=0.02)


def test_a_judge_needs_a_phone_head(tmp_path: Path) -> None:
    save_file({"other": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="no phone head"):
        PhoneJudge(CONFIG, tmp_path, CPU)
