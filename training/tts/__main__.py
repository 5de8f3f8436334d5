"""`python -m training.tts STAGE ...`: one command a stage (docs/training.md walks through them)."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from training.settings import lines_of
from training.tts.config import FRAMES_AN_HOUR, load_config

_CONFIG = Path(__file__).parent / "pocket-tts-en.toml"


def _parser(description: str | None) -> argparse.ArgumentParser:
    """The parser of all stages; the one chosen stands in `stage`."""
    parser = argparse.ArgumentParser(prog="python -m training.tts", description=description)
    parser.add_argument("--config", type=Path, default=_CONFIG)
    stages = parser.add_subparsers(dest="stage", required=True)

    tokenizer = stages.add_parser("tokenizer", help="train the BPE of the talker's text")
    tokenizer.add_argument(
        "--text", type=Path, required=True, help="one sentence a line, what is said behind a tab; .xz too"
    )
    tokenizer.add_argument("--out", type=Path, required=True)

    codec = stages.add_parser("codec", help="train the codec for a number of seconds")
    codec.add_argument("--speech", type=Path, nargs="+", required=True, help="folders of the voices' shards")
    codec.add_argument("--out", type=Path, required=True)
    codec.add_argument("--seconds", type=float, required=True)
    codec.add_argument("--start", type=Path, help="codec.safetensors to begin from")
    codec.add_argument("--ear", type=Path, help="folder of `training.asr shipped`: what it hears is compared too")
    codec.add_argument("--hours", type=float, default=40.0, help="of speech at most")
    codec.add_argument("--steps", type=int, default=10**9)
    codec.add_argument("--device", default="cuda")
    codec.add_argument("--eager", action="store_false", dest="graphs", help="no CUDA graphs, nothing compiled")

    decoder = stages.add_parser("decoder", help="train the codec's decoder on fixed codes, against discriminators")
    decoder.add_argument("--start", type=Path, required=True, help="codec.safetensors")
    decoder.add_argument("--speech", type=Path, nargs="+", required=True)
    decoder.add_argument("--codes", type=Path, nargs="+", required=True, help="of that speech, and the talker's own")
    decoder.add_argument("--out", type=Path, required=True)
    decoder.add_argument("--ear", type=Path, help="as for codec")
    decoder.add_argument("--seconds", type=float, required=True)
    decoder.add_argument("--steps", type=int, default=10**9)
    decoder.add_argument("--device", default="cuda")
    decoder.add_argument("--eager", action="store_false", dest="graphs")

    encode = stages.add_parser("encode", help="speech -> codes")
    encode.add_argument("--codec", type=Path, required=True)
    encode.add_argument("--speech", type=Path, nargs="+", required=True)
    encode.add_argument("--out", type=Path, required=True, help="codes.npz")
    encode.add_argument("--device", default="cuda")

    held_out = stages.add_parser("held-out", help="codes of recordings that the evaluation compares with")
    held_out.add_argument("tars", type=Path, nargs="+")
    held_out.add_argument("--codec", type=Path, required=True)
    held_out.add_argument("--out", type=Path, required=True, help="held-out.npz")

    talker = stages.add_parser("talker", help="train talker and predictor on codes for a number of seconds")
    talker.add_argument("--codes", type=Path, nargs="+", required=True)
    talker.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    talker.add_argument("--out", type=Path, required=True)
    talker.add_argument("--seconds", type=float, required=True)
    talker.add_argument("--start", type=Path, help="model.safetensors to begin from")
    talker.add_argument("--spoken", type=Path, help="lines written<TAB>spoken, for texts that hold numbers")
    talker.add_argument("--steps", type=int, default=10**9)
    talker.add_argument("--evaluate-every", type=int, default=1500)
    talker.add_argument("--device", default="cuda")
    talker.add_argument("--eager", action="store_false", dest="graphs")

    own = stages.add_parser("own-codes", help="the same codes with the predictor's own after the first book")
    own.add_argument("--codes", type=Path, required=True)
    own.add_argument("--talker", type=Path, required=True)
    own.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    own.add_argument("--spoken", type=Path, help="lines written<TAB>spoken, for texts that hold numbers")
    own.add_argument("--out", type=Path, required=True)
    own.add_argument("--device", default="cuda")

    recordings = stages.add_parser("recordings", help="a tar of recordings as a shard, without phone labels")
    recordings.add_argument("tar", type=Path)
    recordings.add_argument("--speaker", required=True)
    recordings.add_argument("--out", type=Path, required=True, help="the shard's file")

    checkpoint = stages.add_parser("checkpoint", help="official-layout folder of codec, talker and tokenizer")
    checkpoint.add_argument("--codec", type=Path, required=True)
    checkpoint.add_argument("--talker", type=Path, required=True)
    checkpoint.add_argument("--tokenizer", type=Path, required=True, help="folder")
    checkpoint.add_argument("--voices", nargs="+", help="speakers that may be asked for (default: all)")
    checkpoint.add_argument("--out", type=Path, required=True)

    return parser


def _of(run: type[Any], given: argparse.Namespace) -> dict[str, Any]:
    """What a run is given, of the command line."""
    return {field.name: getattr(given, field.name) for field in fields(run) if hasattr(given, field.name)}


def main() -> None:
    """Parse the command line and run one stage."""
    a = _parser(__doc__).parse_args()
    config = load_config(a.config)
    if a.stage == "tokenizer":
        from training.tts.text import speakable
        from training.tts.tokenizer import train_tokenizer

        texts = (speakable(line.rpartition("\t")[2]) for line in lines_of(a.text)[:60_000])
        train_tokenizer(filter(None, texts), config.talker.text_vocab_size, a.out)
    elif a.stage == "codec":
        from training.tts.codec_run import CodecRun, CodecTrainer

        run = CodecRun(**_of(CodecRun, a))
        CodecTrainer(config, run).train()
    elif a.stage == "decoder":
        from training.tts.decoder_run import DecoderRun, DecoderTrainer

        run = DecoderRun(**_of(DecoderRun, a))
        DecoderTrainer(config, run).train()
    elif a.stage == "own-codes":
        import torch
        from tokenizers import Tokenizer

        from training.tts.checkpoint import load_talker
        from training.tts.codes import load_codes
        from training.tts.own_codes import own_codes
        from training.tts.text import read_spoken

        spoken = read_spoken(a.spoken) if a.spoken else {}
        device, tokenizer = torch.device(a.device), Tokenizer.from_file(str(a.tokenizer))
        own_codes(load_talker(a.talker, config), load_codes(a.codes), config, tokenizer, device, spoken).save(a.out)
    elif a.stage == "recordings":
        from training.tts.recordings import read_recordings

        read_recordings(a.tar, a.speaker).save(a.out)
    elif a.stage == "encode":
        import torch

        from training.tts.codec import load_codec
        from training.tts.codes import encode
        from training.tts.speech import shards

        codes = encode(load_codec(a.codec), shards(a.speech), torch.device(a.device))
        codes.save(a.out)
        print(f"{len(codes.text)} utterances, {len(codes.codes) / FRAMES_AN_HOUR:.2f} h")
    elif a.stage == "held-out":
        from training.tts.codec import load_codec
        from training.tts.recordings import write_codes

        print(f"{write_codes(load_codec(a.codec), a.tars, a.out)} recordings")
    elif a.stage == "talker":
        from training.tts.talker_run import TalkerRun, TalkerTrainer

        run = TalkerRun(**_of(TalkerRun, a))
        TalkerTrainer(config, run).train()
    elif a.stage == "checkpoint":
        from training.tts.checkpoint import load_talker, save_checkpoint
        from training.tts.codec import load_codec

        voices = tuple(a.voices or config.speakers)
        save_checkpoint(
            config, load_codec(a.codec, encoder=False), load_talker(a.talker, config), a.tokenizer, voices, a.out
        )


if __name__ == "__main__":
    main()
