"""`python -m training.tts STAGE ...` runs one stage (training/README.md lists them in their order)."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from training.speech.script import load_scripts
from training.stages import asked
from training.transcript import lines_of
from training.tts.checkpoint import load_talker, mix, save_checkpoint, save_talker
from training.tts.codec import Codec, load_codec, save_codec
from training.tts.codec_run import CodecRun, CodecTrainer, DecoderRun, DecoderTrainer
from training.tts.codes import encode, own_codes
from training.tts.config import FRAMES_AN_HOUR, Config
from training.tts.practice import PracticeRun, PracticeTrainer
from training.tts.recordings import READERS, read_recordings, write_codes
from training.tts.references import References
from training.tts.speech import load, shards
from training.tts.talker import Talker
from training.tts.talker_run import TalkerRun, TalkerTrainer
from training.tts.tokenizer import train_tokenizer

CONFIG = Config()


def train_words(*, script: tuple[Path, ...], out: Path) -> None:
    """Learn the BPE of the talker's text. script: of `training.speech prepare`."""
    lines = load_scripts(script)
    chosen = np.random.default_rng(CONFIG.talker_training.seed).permutation(len(lines.texts))
    texts = (f" {lines.sounds(i)}" for i in chosen[: CONFIG.tokenizer_lines].tolist())
    train_tokenizer(texts, CONFIG.talker.text_vocab_size, out)


def take_shipped(folder: Path, /, *, out: Path, tokenizer: Path | None = None) -> None:
    """Write the weights of a shipped model directory, to begin from: into the folder `codec`, whose encoder has learnt
    nothing, and into `talker`. tokenizer: tokenizer.json of another text than the shipped one's, whose rows begin
    anew."""
    from training.tts.shipped import shipped_decoder, shipped_talker

    codec = Codec(CONFIG.codec)
    codec.decoder.load_state_dict(shipped_decoder(folder, CONFIG.codec), strict=False)
    weights = shipped_talker(folder, CONFIG, tokenizer)
    shape = replace(CONFIG.talker, text_vocab_size=len(weights["model.text_embedding.weight"]))
    talker = Talker(shape, CONFIG.codec, CONFIG.speaker)
    talker.load_state_dict(weights, strict=False)
    save_codec(codec, out / "codec")
    save_talker(talker, out / "talker")


def save_recordings(tars: tuple[Path, ...], /, *, sounds: Path, out: Path, sources: tuple[str, ...] = READERS) -> None:
    """Write tars of recordings as shards in a folder, without phone labels. sounds: of their texts, `text<TAB>sounds` a
    line; sources: whose readers are taken."""
    said = {text: line for text, _, line in (row.partition("\t") for row in lines_of(sounds))}
    with ProcessPoolExecutor(len(tars)) as pool:
        for tar, made in zip(tars, pool.map(read_recordings, tars, repeat(said), repeat(sources)), strict=True):
            if made.utterances:
                made.save(out / f"{tar.stem}.npz")


def train_codec(given: CodecRun) -> None:
    """Train the codec's encoder for a number of seconds. ear: of `training.asr shipped`; slices are compared by what it
    hears."""
    CodecTrainer(CONFIG, given).train()


def save_codes(*, codec: Path, speech: tuple[Path, ...], out: Path, device: str = "cuda") -> None:
    """Write the codes (an .npz) of speech."""
    codes = encode(load_codec(codec), shards(speech), torch.device(device))
    codes.save(out)
    print(f"{len(codes.utterances)} utterances, {len(codes.arrays['codes']) / FRAMES_AN_HOUR:.2f} h")


def save_own_codes(
    *, talker: Path, codes: Path, speech: tuple[Path, ...], tokenizer: Path, out: Path, device: str = "cuda"
) -> None:
    """Write a file of codes as a talker makes them. speech: folders of the shards that the codes stand for."""
    references = References(shards(speech), CONFIG.speakers, torch.device(device))
    words = Tokenizer.from_file(str(tokenizer))
    own_codes(load_talker(talker, CONFIG), load(codes), CONFIG, words, references).save(out)


def train_decoder(given: DecoderRun) -> None:
    """Train the codec's decoder against discriminators for a number of seconds, on codes that stay. alone: only the
    discriminators learn, for a run that is given them as judges."""
    DecoderTrainer(CONFIG, given).train()


def train_talker(given: TalkerRun) -> None:
    """Train talker and predictor on codes for a number of seconds."""
    TalkerTrainer(CONFIG, given).train()


def practise(given: PracticeRun) -> None:
    """Let the talker say lines for a number of seconds and learn those of its takes that judges choose. It needs
    distillmos (the extra `natural`)."""
    PracticeTrainer(CONFIG, given).train()


def checkpoint(
    *, codec: Path, talker: Path, tokenizer: Path, out: Path, voices: tuple[str, ...] = (), sounds: Path | None = None,
    before: Path | None = None, share: float = 0.35,
) -> None:  # fmt: skip
    """Write the official-layout folder of codec, talker and tokenizer (a folder). voices: who may be asked for
    (default: all); sounds: folder with the files that tell how words sound (training/sounds); before: a talker that
    this one began from, of whose weights it is given a share: after practice fewer sentences fail so."""
    decoder, trained = load_codec(codec), load_talker(talker, CONFIG)
    if before is not None:
        mix(trained, load_talker(before, CONFIG), share)
    save_checkpoint(CONFIG, decoder, trained, tokenizer, voices or CONFIG.speakers, out, sounds)


def save_held_out(tars: tuple[Path, ...], /, *, codec: Path, out: Path) -> None:
    """Write the codes (an .npz) of the recordings that the evaluation compares with."""
    print(f"{write_codes(load_codec(codec), tars, out)} recordings")


STAGES = {
    "tokenizer": train_words, "shipped": take_shipped, "recordings": save_recordings, "codec": train_codec,
    "encode": save_codes, "talker": train_talker, "practise": practise, "own-codes": save_own_codes,
    "decoder": train_decoder, "checkpoint": checkpoint, "held-out": save_held_out,
}  # fmt: skip

if __name__ == "__main__":
    asked("training.tts", __doc__, STAGES)()
