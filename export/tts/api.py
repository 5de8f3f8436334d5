"""What the command line calls for a speaking model: inspect and run. The module can be imported without torch, onnx or
gguf."""

from dataclasses import asdict, dataclass
from pathlib import Path

from export.names import Precision, Quantization
from export.table import titled
from export.tts.checkpoint import open_tts
from export.tts.dims import TtsDims, read_tts_dims
from export.tts.directory import write_tts
from export.tts.state import states


@dataclass(frozen=True, slots=True)
class TtsReport:
    """What ``inspect`` found in a checkpoint."""

    directory: Path
    variant: str
    tensors: int
    parameters: int
    dims: TtsDims

    def __str__(self) -> str:
        dims = self.dims
        sizes = {state.name: " x ".join(map(str, state.shape)) for state in states(dims.codec)}
        size = sum(4 * _product(state.shape) for state in states(dims.codec))
        kv = 2 * dims.talker.layers * dims.talker.kv_heads * dims.talker.head_dim * 2
        lines = [
            f"{self.directory}  ({self.variant}, {self.tensors} tensors, {self.parameters / 1e6:.2f} M parameters)",
            *titled("talker", asdict(dims.talker)),
            *titled("code predictor", asdict(dims.predictor)),
            *titled("codec decoder", asdict(dims.codec)),
            *titled("text", {"vocabulary": dims.text_vocabulary, "width": dims.text_width}),
            *titled(f"codec state, {size / 1024:.0f} KiB in float32", sizes),
            *titled("talker state", {"KV": f"{kv / 1024:.0f} KiB a row in float16"}),
        ]
        return "\n".join(lines)


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def inspect(checkpoint: Path) -> TtsReport:
    """Read every dimension and state of a checkpoint, without torch.

    Raises:
        CheckpointError: it is no Qwen3-TTS-12Hz checkpoint, or a tensor is missing or has another shape than
            configured.
    """
    opened = open_tts(checkpoint)
    dims = read_tts_dims(opened)
    sizes = [stored.size for part in (opened.model, opened.codec) for stored in part.tensors.values()]
    return TtsReport(checkpoint, str(opened.model.config.get("tts_model_type")), len(sizes), sum(sizes), dims)


def run(checkpoint: Path, out: Path, *, codec: Precision, decoder: Quantization, name: str | None = None) -> Path:
    """Export ``checkpoint`` into the model directory ``out`` and return it.

    Args:
        codec: the precision of the codec's graph.
        decoder: the format of talker and code predictor. With f32 the tables of rows are float32 too, else float16.
        name: the model's name in the manifest; by default the checkpoint's own, else that of ``out``.

    Raises:
        CheckpointError: the checkpoint is unusable; the message names the field or tensor.
        ExportUnavailable: the dimensions are no released model's, and torch is not installed.
    """
    opened = open_tts(checkpoint)
    return write_tts(opened, read_tts_dims(opened), out, codec=codec, decoder=decoder, name=name)
