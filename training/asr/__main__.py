"""`python -m training.asr STAGE ...`: one command a stage (docs/training.md walks through them)."""

from pathlib import Path

from training.asr.checkpoint import save_checkpoint
from training.asr.config import Config
from training.asr.labels import write_labels
from training.asr.train import HearingRun, HearingTrainer
from training.checkpoint import WEIGHTS, load_weights, save_weights
from training.shards import licence_table, pack
from training.stages import Share, asked


def licences(shards: tuple[Path, ...], /) -> None:
    """The licence table of shards."""
    print(licence_table(shards))


def label(
    *,
    teacher: Path,
    shards: tuple[Path, ...],
    out: Path,
    never: tuple[Path, ...] = (),
    share: Share = (0, 1),
    processes: int = 2,
    device: str = "cuda",
) -> None:
    """Texts of clips by a teacher: case, punctuation, and words where none are known. teacher: model folder of the
    package; never: index.jsonl files whose texts no label may be; share: every N-th clip, from the K-th on."""
    import torch
    from tokenizers import Tokenizer

    from training.asr import teacher as whisper

    where = torch.device(device)
    model, tokenizer = whisper.load_teacher(teacher, where), Tokenizer.from_file(str(teacher / "tokenizer.json"))
    write_labels(lambda clips: whisper.label(model, tokenizer, clips, where), shards, never, out, share, processes)


def shipped(model: Path, /, *, out: Path) -> None:
    """Weights to start from, out of a shipped model directory."""
    from training.asr.shipped import shipped_weights

    save_weights(shipped_weights(model, Config().shape), out / WEIGHTS)


def train(given: HearingRun) -> None:
    """Train for a number of seconds. text: a sentence a line, by which words are rare; labels: from `label`;
    teacher: model folder of the package, whose states are a target; synthetic: folder of `training.speech make
    --hearing`."""
    HearingTrainer(Config(), given).train()


def checkpoint(weights: Path, /, *, tokenizer: Path, out: Path) -> None:
    """Official-layout folder of a run's weights. tokenizer: a folder."""
    config = Config()
    save_checkpoint(config.name, config.shape, load_weights(weights / WEIGHTS), tokenizer, out)


STAGES = {
    "licences": licences,
    "pack": pack,
    "label": label,
    "shipped": shipped,
    "train": train,
    "checkpoint": checkpoint,
}

if __name__ == "__main__":
    asked("training.asr", __doc__, STAGES)()
