"""What export/api.py calls for a Fun-ASR-Nano checkpoint. The module can be imported without torch, onnx or gguf."""

from dataclasses import asdict, dataclass
from pathlib import Path

from export.funasr.checkpoint import open_funasr
from export.funasr.dims import FunAsrDims, longest_rows, read_funasr_dims
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
    """Read every dimension of a checkpoint, without torch.

    Raises:
        CheckpointError: it cannot be read, or a tensor is missing or has another shape than configured.
    """
    opened = open_funasr(checkpoint)
    sizes = [stored.size for stored in opened.whole.tensors.values()]
    return FunAsrReport(checkpoint, len(sizes), sum(sizes), read_funasr_dims(opened))
