"""`python -m training.asr STAGE ...`: one command a stage."""

import argparse
from dataclasses import fields
from pathlib import Path

from training.asr.config import RECIPE, load_config
from training.settings import lines_of, share


def main() -> None:
    """Parse the command line and run one stage."""
    parser = argparse.ArgumentParser(prog="python -m training.asr", description=__doc__)
    parser.add_argument("--config", type=Path, default=RECIPE)
    stages = parser.add_subparsers(dest="stage", required=True)

    licences = stages.add_parser("licences", help="print the licence table of shards")
    licences.add_argument("shards", type=Path, nargs="+")

    tokenizer = stages.add_parser("tokenizer", help="train the BPE on sentences and on the shards' transcripts")
    tokenizer.add_argument("--text", type=Path, required=True, help="a sentence a line; what follows a tab is left out")
    tokenizer.add_argument("--shards", type=Path, nargs="*", default=[])
    tokenizer.add_argument("--out", type=Path, required=True)

    train = stages.add_parser("train", help="train for a number of seconds")
    train.add_argument("--shards", type=Path, nargs="+", required=True)
    train.add_argument("--test", type=Path, nargs="*", default=[])
    train.add_argument("--text", type=Path, required=True, help="a sentence a line: which words are rare")
    train.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    train.add_argument("--synthetic", type=Path, help="folder of shards from `training.speech make --hearing`")
    train.add_argument("--labels", type=Path, help="texts of clips, from `label`")
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--seconds", type=float, default=1500.0)
    train.add_argument("--start", type=Path, help="begin from the weights of this folder")
    train.add_argument("--device", default="cuda")
    train.add_argument("--eager", action="store_false", dest="graphs", help="no CUDA graphs, nothing compiled")

    export = stages.add_parser("checkpoint", help="official-layout folder from a run's weights")
    export.add_argument("weights", type=Path)
    export.add_argument("--tokenizer", type=Path, required=True, help="folder")
    export.add_argument("--out", type=Path, required=True)

    shipped = stages.add_parser("shipped", help="weights to start from, out of a shipped model directory")
    shipped.add_argument("model", type=Path)
    shipped.add_argument("--out", type=Path, required=True)

    label = stages.add_parser(
        "label", help="text of clips by a teacher: case, punctuation, and words where none are known"
    )
    label.add_argument("--teacher", type=Path, required=True, help="model folder of the package")
    label.add_argument("--shards", type=Path, nargs="+", required=True)
    label.add_argument("--out", type=Path, required=True)
    label.add_argument(
        "--never", type=Path, nargs="*", default=[], help="index.jsonl files whose texts no label may be"
    )
    label.add_argument("--share", type=share, default="0/1", help="K/N: every N-th clip, from the K-th on")
    label.add_argument("--processes", type=int, default=2)
    label.add_argument("--device", default="cuda")

    _dispatch(parser.parse_args())


def _dispatch(a: argparse.Namespace) -> None:
    config = load_config(a.config)
    if a.stage == "licences":
        from training.shards import licence_table

        print(licence_table(a.shards))
    elif a.stage == "tokenizer":
        from training.asr.tokenizer import train_tokenizer
        from training.shards import read_shards

        texts = [c.text for c in read_shards(a.shards)] if a.shards else []
        lines = [line.split("\t")[0] for line in lines_of(a.text)]
        train_tokenizer(lines + texts * 4, config.shape.vocab, a.out)
    elif a.stage == "train":
        from training.asr.train import Run, Training

        given = {field.name: getattr(a, field.name) for field in fields(Run) if hasattr(a, field.name)}
        Training(config, Run(**given)).train()
    elif a.stage == "checkpoint":
        from training.asr.checkpoint import load_weights, save_checkpoint

        save_checkpoint(config.name, config.shape, load_weights(a.weights), a.tokenizer, a.out)
    elif a.stage == "label":
        from training.asr.labels import write_labels
        from training.asr.teacher import pinned_teacher

        write_labels(pinned_teacher(a.teacher, a.device), a.shards, a.never, a.out, a.share, a.processes)
    elif a.stage == "shipped":
        from training.asr.checkpoint import save_weights
        from training.asr.shipped import shipped_weights

        save_weights(shipped_weights(a.model), a.out)


if __name__ == "__main__":
    main()
