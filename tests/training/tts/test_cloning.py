"""Voices out of recordings: what the talker hears of a speaker and learns of it, and what an exported model clones."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch

from codec.clone import VoiceEncoder
from codec.events import AudioChunk
from codec.model import TtsModel
from codec.options import SpeakOptions
from engines.lane import Lane
from engines.manifest import read_tts
from export.tts import api
from tests.training.tts.shapes import CONFIG, FICTION, by_steps, layout, rows, sounds, tokenizer
from training.ranks import Ranks
from training.tts.checkpoint import save_checkpoint
from training.tts.codec import Codec
from training.tts.references import LONGEST, SHORTEST, References
from training.tts.speech import Speech, Utterance, join, shards
from training.tts.talker import Talker
from training.tts.talker_run import CLONED, TalkerRun, TalkerTrainer
from training.tts.talker_step import TalkerStep, embed, heard_voices

CPU = torch.device("cpu")
HIGH, LOW = 400.0, 130.0  # Hz


def tone(pitch: float, frames: int) -> NDArray[np.int16]:
    at = np.arange(frames * 1920) * 2 * np.pi * pitch / 24000
    return (4000 * np.sum([np.sin(n * at) / n for n in range(1, 9)], 0)).astype(np.int16)


def speech(folder: Path) -> Speech:
    """Write shards into `folder` and give their codes. Beside ada and ben there are six speakers who are high or low
    and say their pitch's codes whatever the text; the last two are held out."""
    chance = np.random.default_rng(2)
    size, books = CONFIG.codec.codebook_size, CONFIG.codec.num_quantizers
    said = {pitch: chance.integers(0, size, (24, books)).astype(np.int16) for pitch in (HIGH, LOW)}
    pieces, codes = list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]](), list[NDArray[np.int16]]()
    for number, speaker in enumerate(("ada", "ben", "s0", "s1", "s2", "s3", "s4", "s5")):
        pitch = (HIGH, LOW)[number % 2]
        for text in FICTION[:3]:
            made = Utterance(sounds(text), speaker, 24, number > 5)
            pieces.append((made, tone(pitch * (0.9 + 0.02 * number), 24), np.zeros(96, np.uint8)))
            codes.append(said[pitch])
    join(pieces).save(folder / "speech-00-0000.npz")
    return Speech([u for u, _, _ in pieces], {"codes": np.concatenate(codes)})


def small() -> Talker:
    torch.manual_seed(0)
    return Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker).eval()


def test_a_speaker_is_heard_in_other_utterances_of_its_own(tmp_path: Path) -> None:
    """Every sample tells which utterance it is of."""
    pieces = []
    for number, (speaker, frames, held_out) in enumerate(
        [("a", 20, False), ("b", 300, False), ("a", 40, False), ("a", 5, False), ("a", 60, True), ("c", 90, False)]
    ):
        wave = np.full(frames * 1920, 100 + number, np.int16)
        pieces.append((Utterance(str(number), speaker, frames, held_out), wave, np.zeros(frames * 4, np.uint8)))
    join(pieces).save(tmp_path / "x.npz")
    references = References(shards([tmp_path]), ["b"], CPU)
    found = {i: references.place(u) for i, (u, _, _) in enumerate(pieces)}
    assert [i for i, place in found.items() if place] == [0, 3], "of 40 frames and more beside the utterance"
    heard = references.draw(torch.tensor([found[0], found[3]] * 50))
    assert heard.shape == (100, LONGEST * 1920)
    numbers = (heard * 32768).round().long() - 100
    assert set(numbers[::2].flatten().tolist()) == {2, 3} and set(numbers[1::2].flatten().tolist()) == {0, 2}
    assert SHORTEST == 38


def test_no_take_of_a_text_is_heard_beside_another(tmp_path: Path) -> None:
    pieces = []
    for number, text in enumerate(("one", "two", "one")):
        wave = np.full(50 * 1920, 100 + number, np.int16)
        pieces.append((Utterance(text, "a", 50, False), wave, np.zeros(200, np.uint8)))
    join(pieces).save(tmp_path / "x.npz")
    references = References(shards([tmp_path]), [], CPU)
    places = [references.place(u) for u, _, _ in pieces[:2]]
    heard = (references.draw(torch.tensor(places * 50)) * 32768).round().long() - 100
    assert set(heard[::2].flatten().tolist()) == {1} and set(heard[1::2].flatten().tolist()) == {0, 2}


def test_a_batch_has_both_kinds_and_hears_the_right_ones(tmp_path: Path) -> None:
    codes, made = speech(tmp_path), layout(tmp_path, tmp_path)
    found = rows(made, codes, held_out=False)
    assert len(found) == 18 and sum(row.place is not None for row in found) == 12
    [bucket] = made.buckets(found)
    batch = bucket.draw(replace(CONFIG.talker_training, cloned_rows=0.75))
    at = torch.arange(len(batch.text))
    assert len(at) == 4 and len(batch.cloned) == 3
    by_id = batch.codes[at, batch.slot, 0] >= 0
    assert by_id.sum() == 1 and not by_id[batch.cloned].any()
    spectra = torch.fft.rfft(batch.heard[:, :24000]).abs()
    high = spectra[:, 300:450].amax(1) > spectra[:, 90:180].amax(1)
    first = codes.of("codes", 0)[0, 0]  # This is one of a high speaker's codes.
    assert torch.equal(high, batch.label[batch.cloned, batch.span[batch.cloned, 0].long()] == int(first))
    assert (batch.heard.square().mean(1).sqrt().log10().diff().abs() > 1e-3).all(), "at levels of their own"
    # Of twelve who are heard and one who has an id, the latter is drawn three times as often as chance would have it.
    few = [row for row in found if row.place is not None] + [r for r in found if r.place is None][:1]
    [bucket] = made.buckets(few)
    assert len(bucket.draw(replace(CONFIG.talker_training, cloned_rows=0.25)).cloned) == 3


@pytest.mark.slow
def test_the_talker_learns_to_follow_who_it_hears(tmp_path: Path) -> None:
    """Half of the speakers say other codes for the same texts: who does not listen is right in half of the rows. Those
    held out are followed too.
    """
    codes, made = speech(tmp_path), layout(tmp_path, tmp_path)
    training = replace(
        CONFIG.talker_training, dropout=0.0, code_noise=0.0, own_rows=0.1, cloned_rows=0.75, positions=480
    )
    buckets = made.buckets(rows(made, codes, held_out=False))
    talker = small().train()
    step = TalkerStep(talker, training, Ranks("cpu"))
    step.begin(buckets)
    step.rate(3e-3)
    for _ in range(130):
        step.run(buckets[0])
    talker.eval()
    [bucket] = made.buckets(rows(made, codes, held_out=True))
    batch = bucket.batch(torch.arange(bucket.rows), None)
    voices = heard_voices(talker, batch)
    assert voices is not None and voices.shape == (6, CONFIG.talker.hidden_size)
    # Codebook 0 of the first frame is said here, where nothing but the voice tells it.
    begin = batch.span[:, 0].long()
    at = torch.arange(bucket.rows)
    for shown, right in ((voices, 1.0), (voices.flip(0), 0.0)):
        logits = talker.codec_head(talker.model(embed(talker, batch, batch.codes, shown)))
        assert (logits[at, begin].argmax(-1) == batch.label[at, begin]).float().mean() == right


@pytest.mark.slow
def test_a_trained_model_is_exported_and_clones(tmp_path: Path) -> None:
    """A run becomes a model directory, in which a voice is stored and a sentence said; presets speak as before."""
    bpe = tokenizer(tmp_path / "tokenizer")
    speech(tmp_path / "speech").save(tmp_path / "codes.npz")
    run = TalkerRun(
        codes=(tmp_path / "codes.npz",), tokenizer=tmp_path / "tokenizer/tokenizer.json", out=tmp_path / "out",
        speech=(tmp_path / "speech",), seconds=4, device="cpu",
    )  # fmt: skip
    trainer = by_steps(TalkerTrainer(CONFIG, run))
    trainer.train()
    assert CLONED in trainer.scores[-1]["scores"] and bpe
    save_checkpoint(CONFIG, Codec(CONFIG.codec), trainer.talker, tmp_path / "tokenizer", ("ada",), tmp_path / "made")
    directory = api.run(tmp_path / "made", tmp_path / "model", codec="fp32", decoder="f32")
    manifest = read_tts(directory)
    assert manifest.speaker_encoder is not None and manifest.codec_encoder is None

    wave = tone(HIGH, 60).astype(np.float32) / 32768
    with torch.no_grad():
        mels = trainer.talker.log_mel(torch.from_numpy(wave)[None])
        ours = trainer.talker.eval().voices(torch.from_numpy(wave)[None])[0].numpy()
    with closing(Lane("encoders")) as lane:
        encoder = VoiceEncoder(manifest, directory, lane, threads=1, provider="cpu")
        assert np.abs(encoder.mels(wave) - mels[0].numpy()).max() < 1e-3
        assert np.abs(encoder.embedding(wave, 24000) - ours).max() < 5e-3 * np.abs(ours).max()

    with closing(TtsModel(directory, threads=1, voices=tmp_path / "voices")) as model:
        model.clone("aunt", wave, 24000)
        said = {}
        for voice in ("ada", "aunt"):
            with closing(model.speaker(SpeakOptions(voice=voice, seed=1))) as speaker:
                speaker.say("Nobody had lit the lamp.")
                speaker.finish()
                said[voice] = np.concatenate([e.samples for e in speaker.events() if isinstance(e, AudioChunk)])
    assert all(np.isfinite(w).all() and len(w) > 1920 for w in said.values())
