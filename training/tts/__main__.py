"""`python -m training.tts STAGE ...`: one command a stage (docs/training-tts.md walks through them)."""

import argparse
import lzma
import time
from itertools import islice
from pathlib import Path

from training.tts.arguments import parser
from training.tts.config import FRAMES_AN_HOUR, load_config


def _lines(path: Path) -> list[str]:
    data = lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text()
    return data.splitlines()


def _seconds(arguments: argparse.Namespace) -> float:
    return float(arguments.seconds) if arguments.until is None else max(arguments.until - time.time(), 1.0)


def main() -> None:
    """Parse the command line and run one stage."""
    a = parser(__doc__).parse_args()
    config = load_config(a.config)
    if a.stage == "tokenizer":
        from training.tts.text import sentences
        from training.tts.tokenizer import train_tokenizer

        texts = islice(sentences(_lines(a.text), config.talker_training.seed), 60_000)
        train_tokenizer(texts, config.talker.text_vocab_size, a.out)
    elif a.stage == "synth":
        from training.tts.slt import synthesise

        synthesise(
            a.root, config.voices.synthetic, _lines(a.text), a.out,
            hours=a.hours, workers=a.workers, seconds=a.seconds, seed=a.seed,
        )  # fmt: skip
    elif a.stage == "voice":
        from training.tts.voice import prepare

        clips, hours = prepare(a.tars, a.root, config.voices.synthetic, a.out, a.workers)
        print(f"{clips} clips, {hours:.2f} h")
    elif a.stage == "codec":
        from training.tts.codec_run import CodecRun, CodecTrainer, Part

        run = CodecRun(
            tuple(a.speech), a.out, _seconds(a), a.start, a.discriminators, a.hours, a.steps, a.device, not a.eager,
            part=Part(a.part), codes=a.codes, heard=a.heard,
        )  # fmt: skip
        CodecTrainer(config, run).train()
    elif a.stage == "encode":
        import torch

        from training.tts.codec import load_codec
        from training.tts.codes import encode, entropies
        from training.tts.speech import shards

        codec = load_codec(a.codec)
        codes = encode(codec, shards(a.speech), torch.device(a.device))
        codes.save(a.out)
        bits = entropies(codes.codes, codec.shape.codebook_size)
        shown = " ".join(f"{b:.2f}" for b in bits)
        rate = f"bits a book {shown}: {12.5 * sum(bits):.0f} bit/s"
        print(f"{len(codes.text)} utterances, {len(codes.codes) / FRAMES_AN_HOUR:.2f} h, {rate}")
    elif a.stage == "talker":
        from training.tts.talker_run import TalkerRun, TalkerTrainer

        settings = TalkerRun(
            tuple(a.codes),
            a.tokenizer,
            a.out,
            _seconds(a),
            a.start,
            a.voice,
            a.steps,
            a.evaluate_every,
            a.device,
            not a.eager,
            tuple(a.more),
            a.beside,
            tuple(a.read),
        )
        TalkerTrainer(config, settings).train()
    elif a.stage == "mean":
        from training.tts.mean import save_mean

        save_mean(a.first, a.second, a.share, a.out)
    elif a.stage == "judge":
        import torch

        from training.tts.judge import train_judge

        train_judge(a.speech, config.voices.synthetic, a.out, a.seconds, a.steps, torch.device(a.device))
    elif a.stage == "evaluate":
        from tokenizers import Tokenizer

        from training.tts.checkpoint import load_talker
        from training.tts.codec import load_codec
        from training.tts.evaluate import report
        from training.tts.judge import load_judge

        report(
            config, load_codec(a.codec), load_talker(a.talker, config) if a.talker else None,
            Tokenizer.from_file(str(a.tokenizer)) if a.tokenizer else None, load_judge(a.judge) if a.judge else None,
            a.speech, a.out, a.clips, a.sentences,
        )  # fmt: skip
    elif a.stage == "held-out":
        from training.tts.codec import load_codec
        from training.tts.held_out import encode_held_out
        from training.tts.search import Search

        codec = load_codec(a.codec).to(a.device)
        search = Search(codec, config.codec_training, a.search) if a.search else None
        print(f"{encode_held_out(codec, a.tars, a.voice, a.out, search)} recordings")
    elif a.stage == "search":
        from training.tts.codec import load_codec
        from training.tts.held_out import search_held_out
        from training.tts.search import Search

        search = Search(load_codec(a.codec, encoder=False).to(a.device), config.codec_training, a.steps)
        print(f"{search_held_out(search, a.codes, a.speech, a.out)} recordings")
    elif a.stage == "spoken":
        from tokenizers import Tokenizer

        from training.tts.checkpoint import load_talker
        from training.tts.spoken import say_all
        from training.tts.text import sentences

        talker = load_talker(a.talker, config).to(a.device)
        texts = sentences(_lines(a.text), config.talker_training.seed + 1)
        tokenizer = Tokenizer.from_file(str(a.tokenizer))
        say_all(config, talker, tokenizer, texts, a.hours, a.seconds, a.batch).save(a.out)
    elif a.stage == "takes":
        import torch
        from tokenizers import Tokenizer

        from training.asr.config import load_config as load_hearing
        from training.readers.judge import PhoneJudge
        from training.readers.script import load_script
        from training.tts.checkpoint import load_talker
        from training.tts.sound import Decoded, Shipped
        from training.tts.takes import Studio, record

        device = torch.device(a.device)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.manual_seed(config.talker_training.seed + a.part[0])
        talker = load_talker(a.talker, config).to(device).eval()
        studio = Studio(
            config, talker, Decoded(a.codec, device) if a.codec else Shipped(a.model),
            Tokenizer.from_file(str(a.tokenizer)), PhoneJudge(load_hearing(a.asr), a.judge, device),
        )  # fmt: skip
        lines = load_script(a.script)[a.part[0] :: a.part[1]]
        voices = a.voices or config.voices.speakers
        record(studio, lines, voices, a.temperature, a.takes, a.keep, a.seconds, a.out, a.together)
    elif a.stage == "pick":
        from training.tts.codes import concatenate, load_codes

        codes = concatenate([load_codes(path) for path in a.codes]).by(a.speaker)
        codes.save(a.out)
        print(f"{len(codes.text)} utterances, {len(codes.codes) / FRAMES_AN_HOUR:.2f} h")
    elif a.stage == "shipped":
        from training.tts.shipped import shipped

        shipped(a.model, config, a.out)
    elif a.stage == "chain":
        from training.tts.chain import Chain, run_chain

        run_chain(
            Chain(
                a.config, a.config.stem, tuple(a.speech), a.tokenizer, a.out, a.until, a.voice, a.start, a.codec_gpu,
                a.talker_gpu, a.hours, a.device,
            )
        )  # fmt: skip
    elif a.stage == "all":
        from training.tts.schedule import Schedule, run_all

        run_all(
            Schedule(
                a.config,
                tuple(a.tars),
                a.text,
                a.root,
                a.out,
                a.seconds,
                a.voice,
                a.tokenizer,
                a.start,
                a.hours,
                a.workers,
                a.device,
            )
        )
    elif a.stage == "checkpoint":
        from training.tts.checkpoint import load_talker, save_checkpoint
        from training.tts.codec import load_codec

        voices = tuple(a.voices or config.voices.speakers)
        save_checkpoint(
            config, load_codec(a.codec, encoder=False), load_talker(a.talker, config), a.tokenizer, voices, a.out
        )


if __name__ == "__main__":
    main()
