"""`python -m training.readers STAGE ...`: one command a stage."""

import argparse
import time
from pathlib import Path

import torch

from training.asr.checkpoint import begin_with, load_weights
from training.asr.config import Config, load_config
from training.asr.material import split, vocabulary
from training.asr.model import PocketASR
from training.readers.bands import Bands
from training.readers.config import load_reading
from training.readers.corpus import Corpus
from training.readers.judge import Judge, PhoneJudge
from training.readers.learn import learn
from training.readers.model import Reader, compile_layers
from training.readers.narration import Narrator, by_bands_all, narrate
from training.readers.reading import Casting, Manner, read_aloud
from training.readers.script import load_script, transcripts, unsaid, write_script
from training.readers.timing import load_timings, save_timings, silence, time_phones
from training.shards import Clip, read_shards
from training.tts.text import sentences
from training.tts.voice import held_out_prompts

_CONFIG = Path(__file__).parent / "readers.toml"
_PACE = 0.03  # of a narrator: nearly always the same
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
    script.add_argument("--marks", action="store_true", help="sentences with marks, as a speaking model learns them")
    script.add_argument("--never", type=Path, help="sentences, one a line, that are not to be read: a test's")
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

    narrate = stages.add_parser("narrate", help="read a script in one voice, for a speaking model")
    narrate.add_argument("--weights", type=Path, required=True, help="folder of the reader model")
    narrate.add_argument("--judge", type=Path, required=True, help="weights of a hearing model with a phone head")
    narrate.add_argument("--shards", type=Path, nargs="+", required=True, help="with recordings of the voice")
    narrate.add_argument("--timings", type=Path, required=True)
    narrate.add_argument("--script", type=Path, required=True, help="with marks")
    narrate.add_argument("--voice", required=True)
    narrate.add_argument("--hours", type=float, default=50.0)
    narrate.add_argument("--steps", type=int, default=Manner.steps, help="of a painting")
    narrate.add_argument("--guidance", type=float, default=1.0)
    narrate.add_argument("--alike", type=float, default=0.7, help="how near all takes are to the mean of the voice")
    narrate.add_argument("--keep", type=float, default=0.7, help="share of the lines that is kept")
    narrate.add_argument("--processes", type=int, default=2)
    narrate.add_argument("--no-compile", action="store_true", help="layers as they are")
    narrate.add_argument("--out", type=Path, required=True)

    again = stages.add_parser("bands", help="shards of `training.tts` as what is read would sound")
    again.add_argument("speech", type=Path)
    again.add_argument("--out", type=Path, required=True)

    args = parser.parse_args()
    if args.stage == "bands":
        torch.manual_seed(load_reading(args.config).optimisation.seed)
        print(f"{by_bands_all(args.speech, args.out, Bands().to(args.device))} shards")
        return
    asr = load_config(args.asr)
    if args.stage == "narrate":
        _narrate(args, asr)
        return
    held_out, kept = split(read_shards(args.shards, getattr(args, "processes", 2)), asr.batches.dev_every)
    if args.stage == "train":
        _train(args, asr, held_out, kept)
        return
    phones = vocabulary(args.root, args.text, kept)
    if args.stage == "script":
        fiction = args.text.read_text().splitlines()
        texts = sentences(fiction, args.seed) if args.marks else transcripts(fiction, args.seed)
        if args.never:
            texts = unsaid(texts, args.never.read_text(encoding="utf-8").splitlines())
        write_script(texts, phones, args.sentences, args.out)
        return
    model = PocketASR(asr.shape, asr.regularisation, len(phones)).eval()
    if begin_with(model, args.weights):
        raise SystemExit(f"{args.weights}: no head for these {len(phones)} phones")
    device = torch.device(args.device)
    found = list(time_phones(model.to(device), [*kept, *held_out], phones, device))
    save_timings(found, args.out)
    print(f"{len(found)} of {len(kept) + len(held_out)} clips")


def _narrate(args: argparse.Namespace, asr: Config) -> None:
    reading, device = load_reading(args.config), torch.device(args.device)
    timings = load_timings(args.timings)
    silent = silence(timings)
    model = Reader(reading.shape, silent).to(device)
    model.load_state_dict(load_weights(args.weights))
    clips = read_shards(args.shards, args.processes)
    never = held_out_prompts([{"text": clip.text} for clip in clips if clip.source == args.voice])
    takes = [clip for clip in clips if clip.source == args.voice and clip.text not in never]
    corpus = Corpus(takes, timings, silent, reading.batches, device, (model.mean, model.spread))
    if not args.no_compile:
        compile_layers(model)
    narrator = Narrator(
        model.eval(),
        corpus,
        Casting(corpus, {args.voice: 1.0}, reading.optimisation.seed),
        reading.batches.slots,
        Manner(args.steps, args.guidance, between=0.0, alike=args.alike, pace=_PACE, even=True),
        PhoneJudge(asr, args.judge, device),
        args.keep,
    )
    torch.manual_seed(reading.optimisation.seed)
    began = time.monotonic()
    hours = narrate(narrator, load_script(args.script), args.voice, args.hours, args.out)
    print(f"{hours:.1f} h read in {time.monotonic() - began:.0f} s", flush=True)


def _train(args: argparse.Namespace, asr: Config, held_out: list[Clip], kept: list[Clip]) -> None:
    reading, device = load_reading(args.config), torch.device(args.device)
    widths = reading.batches.slots
    timings = load_timings(args.timings)
    silent = silence(timings)
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
