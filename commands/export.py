"""``hearsay export``: official checkpoints become models that hearsay runs. The work is done in ``export.api``."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import Progress

from commands.console import FAILED, complain

app = typer.Typer(
    help="Turn checkpoints into models. Released sizes need no torch; others need the extra export.",
    epilog="Example: hearsay export run ./Qwen3-ASR-0.6B ./qwen3-asr-0.6b --encoder int8 --decoder q8_0",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Checkpoint = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint directory, or llama.cpp's GGUF beside its mmproj.")
]


@app.command(epilog="Example: hearsay export inspect ./Qwen3-ASR-0.6B")
def inspect(checkpoint: Checkpoint) -> None:
    """Print every dimension that is read from a checkpoint. Needs no torch."""
    from export import api

    print(api.inspect(checkpoint))


@app.command(epilog="Example: hearsay export run ./Qwen3-ASR-0.6B ./qwen3-asr-0.6b --encoder int8 --decoder q8_0")
def run(
    checkpoint: Checkpoint,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory to write.")],
    encoder: Annotated[
        Literal["fp32", "fp16", "int8"], typer.Option(help="Precision of the encoder, or of a codec.")
    ] = "int8",
    decoder: Annotated[
        Literal["f32", "f16", "q8_0", "q6_k", "q4_k_m"], typer.Option(help="Quantisation of the decoder.")
    ] = "q8_0",
    clip: Annotated[
        bool, typer.Option("--clip/--no-clip", help="Also write the whole-clip graph, for other hosts.")
    ] = True,
    name: Annotated[str | None, typer.Option(help="The model's name in its manifest.", show_default=False)] = None,
) -> None:
    """Export a checkpoint into a model directory."""
    from export import api

    if api.traces(checkpoint, encoder=encoder, decoder=decoder):
        complain("these dimensions are no released model's: torch traces the graphs, which takes minutes and memory")
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("exporting", total=None)
        made = api.run(
            checkpoint,
            directory,
            encoder=encoder,
            decoder=decoder,
            clip=clip,
            name=name,
            report=lambda at: bar.update(task, description=at.part, completed=at.done, total=at.total),
        )
    print(made)


@app.command(epilog="Example: hearsay export verify ./qwen3-asr-0.6b --against ./Qwen3-ASR-0.6B")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Exported model directory.")],
    against: Annotated[Path, typer.Option("--against", metavar="CHECKPOINT", help="The checkpoint it came from.")],
) -> None:
    """Compare an exported model with its checkpoint, stage by stage. Exit 1 where it fails."""
    from export import api

    table = api.verify(directory, against)
    print(table)
    if not table.passed:
        raise typer.Exit(FAILED)
