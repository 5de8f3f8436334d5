"""`python -m training.readers STAGE ...`: one command a stage."""

import argparse
import time
from pathlib import Path

import torch

from training.asr.checkpoint import begin_with, load_weights
from training.asr.config import Config, load_config
from training.asr.material import split, vocabulary
from training.asr.model import PocketASR
from training.readers.config import load_reading
from training.readers.corpus import Corpus
from training.readers.judge import Judge
from training.readers.learn import learn
from training.readers.model import Reader, compile_layers
from training.readers.reading import Casting, Manner, read_aloud
from training.readers.script import load_script, write_script
from training.readers.timing import load_timings, save_timings, time_phones
from training.shards import Clip, read_shards

_CONFIG = Path(__file__).parent / "readers.toml"
_ASR = Path(__file__).parents[1] / "asr" / "pocket-asr-en-7.toml"


def main() -> None:
    """Parse the command line and run one stage."""
    parser = argparse.ArgumentParser(prog="python -m training.readers", description=__doc__)
    parser.add_argument("--config", type=Path, default=_CONFIG)
    parser.add_argument("--asr", type=Path, default=_ASR, help="configuration of the hearing model: who is held out")
    parser.add_argument("--device", default="cuda")
    stages = parser.add_subparsers(dest="stage", required=True)

    timings = stages.add_parser("timings", help="when each phone of the recordings is said, by a hearing model")
    timings.add_argument("weights", type=Path, help="of the hearing model, with its phone head")

    script = stages.add_parser("script", help="what is to be read")
    script.add_argument("--sentences", type=int, default=200_000)
    script.add_argument("--seed", type=int, default=1)
    for stage in (timings, script):
        stage.add_argument("--shards", type=Path, nargs="+", required=True)
        stage.add_argument("--text", type=Path, required=True)
        stage.add_argument("--root", type=Path, default=Path("/"), help="where espeak-ng is unpacked")
        stage.add_argument("--out", type=Path, required=True)

    train = stages.add_parser("train", help="train the reader model for a number of seconds; then read, if asked to")
    train.add_argument("--seconds", type=float, default=600.0, help="of painting; 0: time phones anew, no more")
    train.add_argument("--weights", type=Path, help="begin with those of this folder")
    train.add_argument("--as-is", action="store_true", help="learn nothing, read with these weights")
    train.add_argument("--no-compile", action="store_true", help="layers as they are")
    train.add_argument("--script", type=Path)
    train.add_argument("--hours", type=float, default=200.0)
    train.add_argument(
        "--synthetic", type=Path, nargs="+", help="where the shards go, one folder for each run that takes them"
    )
    train.add_argument("--steps", type=int, default=Manner.steps, help="of a painting")
    train.add_argument("--between", type=float, default=Manner.between, help="share of voices between two")
    train.add_argument("--apart", type=float, default=Manner.apart, help="how far voices are moved at random")
    train.add_argument(
        "--part", type=int, nargs=2, default=(0, 1), help="K N: every Nth round of the script from the Kth on"
    )
    train.add_argument("--judge", type=Path, help="weights of a hearing model that listens first")
    train.add_argument("--tokenizer", type=Path, help="tokenizer.json of the hearing model")
    train.add_argument("--shards", type=Path, nargs="+", required=True)
    train.add_argument("--timings", type=Path, required=True)
    train.add_argument("--processes", type=int, default=2)
    train.add_argument("--out", type=Path, required=True)

    args = parser.parse_args()
    asr = load_config(args.asr)
    held_out, kept = split(read_shards(args.shards, getattr(args, "processes", 2)), asr.batches.dev_every)
    if args.stage == "train":
        _train(args, asr, held_out, kept)
        return
    phones = vocabulary(args.root, args.text, kept)
    if args.stage == "script":
        write_script(args.text.read_text().splitlines(), phones, args.sentences, args.seed, args.out)
        return
    model = PocketASR(asr.shape, asr.regularisation, len(phones)).eval()
    if begin_with(model, args.weights):
        raise SystemExit(f"{args.weights}: no head for these {len(phones)} phones")
    device = torch.device(args.device)
    found = list(time_phones(model.to(device), [*kept, *held_out], phones, device))
    save_timings(found, args.out)
    print(f"{len(found)} of {len(kept) + len(held_out)} clips")


def _train(args: argparse.Namespace, asr: Config, held_out: list[Clip], kept: list[Clip]) -> None:
    reading, device = load_reading(args.config), torch.device(args.device)
    widths = reading.batches.slots
    timings = load_timings(args.timings)
    silent = 1 + max(int(t.phones.max()) for t in timings)
    corpus = Corpus(kept, timings, silent, reading.batches, device)
    others = Corpus(held_out, timings, silent, reading.batches, device, corpus.normal)
    print(f"{corpus.hours:.1f} h, {len(corpus.voices)} clips; held out {others.hours:.2f} h", flush=True)
    torch.manual_seed(reading.optimisation.seed)
    model = Reader(reading.shape, silent).to(device)
    if args.weights is not None:
        model.load_state_dict(load_weights(args.weights))
    if not args.no_compile:
        compile_layers(model)
    if not args.as_is:
        learn(model, corpus, others, reading, args.seconds, args.out)
    if args.script is None:
        return
    model.eval()
    script, casting = load_script(args.script), Casting(corpus, asr.sources, reading.optimisation.seed)
    if args.judge is not None:
        judge = Judge(asr, args.judge, args.tokenizer, silent, device)
        for manner in (Manner(), Manner(guidance=0.0), Manner(guidance=1.0), Manner(steps=8)):
            found = judge.score(model, corpus, casting, script[-256:], widths, manner)
            print(f"{manner}: WER {found.rate:.1%}, CTC alone {found.ctc_rate:.1%}", flush=True)
    began = time.monotonic()
    manner = Manner(steps=args.steps, between=args.between, apart=args.apart)
    part = (args.part[0], args.part[1])
    hours = read_aloud(model, corpus, casting, script, widths, manner, args.synthetic, args.hours, part)
    print(f"{hours:.1f} h read in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
