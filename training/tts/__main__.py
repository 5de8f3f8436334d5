"""`python -m training.tts STAGE ...`: one command a stage (docs/training.md walks through them)."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.stages import asked
from training.transcript import lines_of
from training.tts.checkpoint import load_talker, save_checkpoint, save_talker
from training.tts.codec import Codec, load_codec, save_codec
from training.tts.codec_run import CodecTrainer, DecoderRun, DecoderTrainer, SliceRun
from training.tts.codes import encode, own_codes
from training.tts.config import FRAMES_AN_HOUR, Config
from training.tts.recordings import read_recordings, write_codes
from training.tts.references import References
from training.tts.speech import load, shards
from training.tts.talker import Talker
from training.tts.talker_run import TalkerRun, TalkerTrainer
from training.tts.text import speakable
from training.tts.tokenizer import train_tokenizer

CONFIG = Config()


def train_words(*, text: Path, out: Path) -> None:
    """The BPE of the talker's text. text: one sentence a line, what is said behind a tab; .xz too."""
    texts = (speakable(line.rpartition("\t")[2]) for line in lines_of(text)[:60_000])
    train_tokenizer(filter(None, texts), CONFIG.talker.text_vocab_size, out)


def take_shipped(folder: Path, /, *, out: Path) -> None:
    """Weights of a shipped model directory, to begin from: codec.safetensors (its encoder has learnt nothing) and
    model.safetensors."""
    from training.tts.shipped import shipped_decoder, shipped_talker

    codec, talker = Codec(CONFIG.codec), Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker)
    codec.decoder.load_state_dict(shipped_decoder(folder, CONFIG.codec), strict=False)
    talker.load_state_dict(shipped_talker(folder, CONFIG), strict=False)
    save_codec(codec, out / "codec.safetensors")
    save_talker(talker, out / "model.safetensors")


def save_recordings(tar: Path, /, *, out: Path) -> None:
    """A tar of recordings as a shard, without phone labels."""
    read_recordings(tar).save(out)


def train_codec(given: SliceRun) -> None:
    """Train the codec for a number of seconds. ear: of `training.asr shipped`, by what it hears slices are compared."""
    CodecTrainer(CONFIG, given).train()


def save_codes(*, codec: Path, speech: tuple[Path, ...], out: Path, device: str = "cuda") -> None:
    """Codes (an .npz) of speech."""
    codes = encode(load_codec(codec), shards(speech), torch.device(device))
    codes.save(out)
    print(f"{len(codes.utterances)} utterances, {len(codes.arrays['codes']) / FRAMES_AN_HOUR:.2f} h")


def train_talker(given: TalkerRun) -> None:
    """Train talker and predictor on codes for a number of seconds."""
    TalkerTrainer(CONFIG, given).train()


def save_own_codes(
    *, codes: Path, talker: Path, tokenizer: Path, out: Path, speech: tuple[Path, ...] = (), device: str = "cuda"
) -> None:
    """The same codes with the predictor's own after the first book. tokenizer: tokenizer.json; speech: as for
    talker."""
    words, trained, where = Tokenizer.from_file(str(tokenizer)), load_talker(talker, CONFIG), torch.device(device)
    references = References(shards(speech), CONFIG.speakers, where)
    own_codes(trained, load(codes), CONFIG, words, references).save(out)


def train_decoder(given: DecoderRun) -> None:
    """Train the codec's decoder on fixed codes, against discriminators. ear: as for codec."""
    DecoderTrainer(CONFIG, given).train()


def checkpoint(*, codec: Path, talker: Path, tokenizer: Path, out: Path, voices: tuple[str, ...] = ()) -> None:
    """Official-layout folder of codec, talker and tokenizer (a folder). voices: who may be asked for (default: all)."""
    decoder, trained = load_codec(codec), load_talker(talker, CONFIG)
    save_checkpoint(CONFIG, decoder, trained, tokenizer, voices or CONFIG.speakers, out)


def save_held_out(tars: tuple[Path, ...], /, *, codec: Path, out: Path) -> None:
    """Codes (an .npz) of recordings that the evaluation compares with."""
    print(f"{write_codes(load_codec(codec), tars, out)} recordings")


STAGES = {
    "tokenizer": train_words, "shipped": take_shipped, "recordings": save_recordings, "codec": train_codec,
    "encode": save_codes, "talker": train_talker, "own-codes": save_own_codes, "decoder": train_decoder,
    "checkpoint": checkpoint, "held-out": save_held_out,
}  # fmt: skip

if __name__ == "__main__":
    asked("training.tts", __doc__, STAGES)()
