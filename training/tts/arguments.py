"""The command line of `python -m training.tts`: stages and their options.

Contract: says what may be given, and reads nothing; what a stage does with it stands in `__main__`.
"""

import argparse
from pathlib import Path

_CONFIG = Path(__file__).parent / "pocket-tts-en.toml"
_ASR = Path(__file__).parents[1] / "asr" / "pocket-asr-en-7.toml"


def _ending(stage: argparse.ArgumentParser) -> None:
    """When a training stage ends: after a number of seconds or at a moment."""
    end = stage.add_mutually_exclusive_group(required=True)
    end.add_argument("--seconds", type=float)
    end.add_argument("--until", type=float, help="seconds since the epoch")


def parser(description: str | None) -> argparse.ArgumentParser:
    """The parser of all stages; the one chosen stands in `stage`."""
    parser = argparse.ArgumentParser(prog="python -m training.tts", description=description)
    parser.add_argument("--config", type=Path, default=_CONFIG)
    stages = parser.add_subparsers(dest="stage", required=True)

    tokenizer = stages.add_parser("tokenizer", help="train the BPE of the talker's text")
    tokenizer.add_argument("--text", type=Path, required=True, help="one sentence a line, .xz or plain")
    tokenizer.add_argument("--out", type=Path, required=True)

    synth = stages.add_parser("synth", help="make synthetic speech with phone labels")
    synth.add_argument("--root", type=Path, default=Path("/"), help="where flite is unpacked")
    synth.add_argument("--text", type=Path, required=True)
    synth.add_argument("--out", type=Path, required=True)
    synth.add_argument("--hours", type=float, required=True)
    synth.add_argument("--seconds", type=float, default=3600.0, help="stop then, whatever is done")
    synth.add_argument("--workers", type=int, default=2)
    synth.add_argument("--seed", type=int, default=1)

    voice = stages.add_parser("voice", help="prepare the recorded voice: level, trim, label")
    voice.add_argument("tars", type=Path, nargs="+")
    voice.add_argument("--root", type=Path, default=Path("/"))
    voice.add_argument("--out", type=Path, required=True)
    voice.add_argument("--workers", type=int, default=2)

    codec = stages.add_parser("codec", help="train the codec for a number of seconds")
    codec.add_argument("--speech", type=Path, nargs="+", required=True, help="folders of shards")
    codec.add_argument("--out", type=Path, required=True)
    _ending(codec)
    codec.add_argument("--part", choices=["all", "codes", "decoder", "encoder"], default="all", help="what is trained")
    codec.add_argument("--start", type=Path, help="codec.safetensors to begin from")
    codec.add_argument("--codes", type=Path, help="codes.npz (spoken) that teach a new encoder")
    codec.add_argument("--heard", type=Path, help="folder of the recordings' shards as the encoder hears half of them")
    codec.add_argument("--discriminators", type=Path, help="discriminators.safetensors to begin from")
    codec.add_argument("--hours", type=float, default=12.0, help="of synthetic speech at most")
    codec.add_argument("--steps", type=int, default=10**9)
    codec.add_argument("--device", default="cuda")
    codec.add_argument("--eager", action="store_true", help="no CUDA graphs, nothing compiled")

    encode = stages.add_parser("encode", help="speech -> codes")
    encode.add_argument("--codec", type=Path, required=True)
    encode.add_argument("--speech", type=Path, nargs="+", required=True)
    encode.add_argument("--out", type=Path, required=True, help="codes.npz")
    encode.add_argument("--device", default="cuda")

    talker = stages.add_parser("talker", help="train talker and predictor on codes for a number of seconds")
    talker.add_argument("--codes", type=Path, nargs="+", required=True)
    talker.add_argument("--more", type=Path, nargs="*", default=[], help="codes that appear while it trains")
    talker.add_argument(
        "--read",
        type=Path,
        nargs="*",
        default=[],
        help="codes of speech made in any voice, drawn with the synthetic one's",
    )
    talker.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    talker.add_argument("--out", type=Path, required=True)
    _ending(talker)
    talker.add_argument("--start", type=Path, help="model.safetensors to begin from")
    talker.add_argument("--voice", help="fine-tune to this speaker")
    talker.add_argument("--beside", help="train on this speaker's rows with the synthetic voice's")
    talker.add_argument("--steps", type=int, default=10**9)
    talker.add_argument("--evaluate-every", type=int, default=1500)
    talker.add_argument("--device", default="cuda")
    talker.add_argument("--eager", action="store_true")

    mean = stages.add_parser("mean", help="weighted mean of two talkers' weights")
    mean.add_argument("first", type=Path, help="model.safetensors")
    mean.add_argument("second", type=Path)
    mean.add_argument("--share", type=float, default=0.5, help="of the second one's weights")
    mean.add_argument("--out", type=Path, required=True)

    judge = stages.add_parser("judge", help="train the phone recogniser that evaluation asks")
    judge.add_argument("--speech", type=Path, nargs="+", required=True)
    judge.add_argument("--out", type=Path, required=True, help="judge.safetensors")
    judge.add_argument("--seconds", type=float, default=600.0)
    judge.add_argument("--steps", type=int, default=4000)
    judge.add_argument("--device", default="cuda")

    evaluate = stages.add_parser("evaluate", help="quality on held-out speech: eval.json")
    evaluate.add_argument("--codec", type=Path, required=True)
    evaluate.add_argument("--talker", type=Path, help="model.safetensors")
    evaluate.add_argument("--tokenizer", type=Path, help="tokenizer.json")
    evaluate.add_argument("--judge", type=Path, help="judge.safetensors")
    evaluate.add_argument("--speech", type=Path, nargs="+", required=True)
    evaluate.add_argument("--out", type=Path, required=True)
    evaluate.add_argument("--clips", type=int, default=24, help="through the codec, a voice")
    evaluate.add_argument("--sentences", type=int, default=60, help="by the talker, a voice")

    held = stages.add_parser("held-out", help="codes of the held-out recordings, for measuring a shipped codec")
    held.add_argument("tars", type=Path, nargs="+", help="the recorded voice")
    held.add_argument("--codec", type=Path, required=True)
    held.add_argument("--voice", required=True)
    held.add_argument("--out", type=Path, required=True, help="held-out.npz")
    held.add_argument("--search", type=int, default=0, help="steps, each 0.02 core seconds a frame (0: no search)")
    held.add_argument("--device", default="cpu")

    search = stages.add_parser("search", help="nearer codes for a held-out.npz; the codec may be without encoder")
    search.add_argument("codes", type=Path, help="held-out.npz to begin from")
    search.add_argument("--codec", type=Path, required=True)
    search.add_argument("--speech", type=Path, nargs="+", required=True, help="tars of the recorded voice")
    search.add_argument("--steps", type=int, default=40, help="each 0.02 core seconds a frame")
    search.add_argument("--out", type=Path, required=True, help="held-out.npz")
    search.add_argument("--device", default="cpu")

    checkpoint = stages.add_parser("checkpoint", help="official-layout folder of codec, talker and tokenizer")
    checkpoint.add_argument("--codec", type=Path, required=True)
    checkpoint.add_argument("--talker", type=Path, required=True)
    checkpoint.add_argument("--tokenizer", type=Path, required=True, help="folder")
    checkpoint.add_argument("--voices", nargs="+", help="speakers that may be asked for (default: all)")
    checkpoint.add_argument("--out", type=Path, required=True)

    shipped = stages.add_parser("shipped", help="weights to begin from out of a shipped model directory")
    shipped.add_argument("model", type=Path)
    shipped.add_argument("--out", type=Path, required=True)

    spoken = stages.add_parser("spoken", help="codes that a talker makes of texts, for codec --codes")
    spoken.add_argument("--talker", type=Path, required=True, help="model.safetensors")
    spoken.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    spoken.add_argument("--text", type=Path, required=True)
    spoken.add_argument("--out", type=Path, required=True, help="codes.npz")
    spoken.add_argument("--hours", type=float, default=5.0)
    spoken.add_argument("--seconds", type=float, default=600.0, help="stop then, whatever is done")
    spoken.add_argument("--batch", type=int, default=192, help="texts at a time")
    spoken.add_argument("--device", default="cuda")

    takes = stages.add_parser("takes", help="the best of several takes of every line, to train their talker on")
    takes.add_argument("--talker", type=Path, required=True, help="model.safetensors")
    decodes = takes.add_mutually_exclusive_group(required=True)
    decodes.add_argument("--model", type=Path, help="directory of the shipped model that decodes: for a processor")
    decodes.add_argument("--codec", type=Path, help="codec.safetensors that decodes: for a GPU")
    takes.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    takes.add_argument("--judge", type=Path, required=True, help="weights of a hearing model with a phone head")
    takes.add_argument("--asr", type=Path, default=_ASR, help="its configuration")
    takes.add_argument("--script", type=Path, required=True, help="of `training.readers script --marks`")
    takes.add_argument("--part", type=int, nargs=2, default=(0, 1), help="K N: every Nth line from the Kth on")
    takes.add_argument("--voices", nargs="+", help="by turns (default: all)")
    takes.add_argument("--temperature", type=float, default=0.6)
    takes.add_argument("--takes", type=int, default=6, help="of every line")
    takes.add_argument("--together", type=int, default=80, help="lines: with their takes they are one batch")
    takes.add_argument("--keep", type=float, default=0.8, help="share of the lines that is kept")
    takes.add_argument("--seconds", type=float, default=1800.0)
    takes.add_argument("--out", type=Path, required=True, help="codes.npz")
    takes.add_argument("--device", default="cuda")

    pick = stages.add_parser("pick", help="the utterances of one speaker")
    pick.add_argument("codes", type=Path, nargs="+", help="codes.npz")
    pick.add_argument("--speaker", required=True)
    pick.add_argument("--out", type=Path, required=True, help="codes.npz")

    chain = stages.add_parser("chain", help="codec, talker and fine-tuning of one variant up to a moment")
    chain.add_argument("--speech", type=Path, nargs="+", required=True)
    chain.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    chain.add_argument("--out", type=Path, required=True)
    chain.add_argument("--until", type=float, required=True, help="seconds since the epoch")
    chain.add_argument("--voice", required=True, help="speaker to fine-tune to")
    chain.add_argument("--start", type=Path, help="codec.safetensors to begin from")
    chain.add_argument("--codec-gpu", type=int)
    chain.add_argument("--talker-gpu", type=int)
    chain.add_argument("--hours", type=float, default=12.0, help="of synthetic speech at most, for the codec")
    chain.add_argument("--device", default="cuda")

    every = stages.add_parser("all", help="every stage up to the judge within a number of seconds")
    every.add_argument("tars", type=Path, nargs="+", help="the recorded voice")
    every.add_argument("--text", type=Path, required=True)
    every.add_argument("--root", type=Path, default=Path("/"))
    every.add_argument("--out", type=Path, required=True)
    every.add_argument("--seconds", type=float, required=True)
    every.add_argument("--voice", required=True, help="speaker to fine-tune to")
    every.add_argument("--tokenizer", type=Path, help="folder (default: train one)")
    every.add_argument("--start", type=Path, help="codec.safetensors to begin from")
    every.add_argument("--hours", type=float, default=60.0, help="of synthetic speech")
    every.add_argument("--workers", type=int, default=12)
    every.add_argument("--device", default="cuda")
    return parser
