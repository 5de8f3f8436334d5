"""What export/api.py calls: importable without torch, onnx or gguf."""

from dataclasses import asdict, dataclass
from pathlib import Path

from export.directory import Precision, Quantization
from export.funasr.checkpoint import open_funasr
from export.funasr.dims import FunAsrDims, read_funasr_dims
from export.funasr.directory import longest_rows, write_funasr
from export.packages import NEEDED, require
from export.table import titled


@dataclass(frozen=True, slots=True)
class FunAsrReport:
    """What ``inspect`` found in a checkpoint."""

    directory: Path
    tensors: int
    parameters: int
    dims: FunAsrDims

    def __str__(self) -> str:
        dims = self.dims
        ctc = {} if dims.ctc is None else asdict(dims.ctc.adaptor) | {"classes": dims.ctc.classes}
        rows = longest_rows(dims)
        state = {
            "encoder": f"none: it sees whole clips of up to {rows} rows",
            "audio rows": f"the first of {2**dims.halvings} go into the decoder",
        }
        lines = [
            f"{self.directory}  (FunASR, {self.tensors} tensors, {self.parameters / 1e6:.2f} M parameters)",
            *titled("front end", asdict(dims.front)),
            *titled("audio encoder", asdict(dims.encoder)),
            *titled("adaptor", asdict(dims.adaptor)),
            *(titled("CTC head", ctc) if ctc else ()),
            *titled("text decoder", asdict(dims.decoder)),
            *titled("state", state),
        ]
        return "\n".join(lines)


def inspect(checkpoint: Path) -> FunAsrReport:
    """Every dimension. Needs no torch.

    Raises:
        CheckpointError: it cannot be read, or its tensors are not what its configuration says.
    """
    opened = open_funasr(checkpoint)
    sizes = [stored.size for stored in opened.whole.tensors.values()]
    return FunAsrReport(checkpoint, len(sizes), sum(sizes), read_funasr_dims(opened))


def run(checkpoint: Path, out: Path, *, encoder: Precision, decoder: Quantization, name: str | None) -> Path:
    """Export ``checkpoint`` into the model directory ``out`` and return it.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ExportUnavailable: torch, onnx or gguf is not installed.
    """
    opened = open_funasr(checkpoint)
    dims = read_funasr_dims(opened)
    require(*NEEDED, *(() if decoder in ("f32", "f16") else ("llama_cpp",)))
    return write_funasr(opened, dims, out, encoder=encoder, decoder=decoder, name=name)
