"""What the command line calls: inspect, run and verify. The module can be imported without torch, onnx or gguf."""

from dataclasses import asdict, dataclass
from pathlib import Path

from export import fill, progress
from export.checkpoint import CheckpointError, open_checkpoint, read_json
from export.dims import Dims, read_dims
from export.funasr import api as whole
from export.funasr.checkpoint import is_funasr
from export.names import precision_of, quantization_of
from export.packages import ExportUnavailable, require
from export.table import Table, titled
from export.tts import api as speaking

__all__ = ["CheckpointError", "ExportUnavailable", "Report", "Table", "inspect", "run", "verify"]


@dataclass(frozen=True, slots=True)
class Report:
    """What ``inspect`` found in a checkpoint."""

    directory: Path
    layout: str
    tensors: int
    parameters: int
    dims: Dims

    def __str__(self) -> str:
        encoder, decoder, aligner = self.dims.encoder, self.dims.decoder, self.dims.aligner
        kv = 2 * decoder.layers * decoder.kv_heads * decoder.head_dim * 2
        states = {
            "encoder state": f"none between windows; an open window holds up to {encoder.window_rows} stem rows "
            f"of {encoder.width} ({encoder.window_rows * encoder.width * 4 / 1024:.0f} KiB in float32)",
            "decoder state": f"KV {kv / 1024:g} KiB a row in float16, {kv * encoder.window_rows / 2**20:.1f} MiB "
            f"a window of {encoder.window_rows} rows",
        }
        lines = [
            f"{self.directory}  ({self.layout} layout, {self.tensors} tensors, "
            f"{self.parameters / 1e6:.2f} M parameters)",
            *titled("audio encoder", asdict(encoder)),
            *titled("text decoder", asdict(decoder)),
            *(titled("aligner", asdict(aligner)) if aligner else ()),
            *titled("state", states),
        ]
        return "\n".join(lines)


def speaks(checkpoint: Path) -> bool:
    """Whether the checkpoint is a Qwen3-TTS one.

    Raises:
        CheckpointError: it has no readable config.json.
    """
    return read_json(checkpoint / "config.json").get("model_type") == "qwen3_tts"


def inspect(checkpoint: Path) -> Report | whole.FunAsrReport | speaking.TtsReport:
    """Read every dimension, head, window and state of a checkpoint, hearing or speaking, without torch.

    Raises:
        CheckpointError: it is no such checkpoint, or a tensor is missing or has another shape than configured.
    """
    if is_funasr(checkpoint):
        return whole.inspect(checkpoint)
    if speaks(checkpoint):
        return speaking.inspect(checkpoint)
    opened = open_checkpoint(checkpoint)
    dims = read_dims(opened)
    sizes = [stored.size for stored in opened.tensors.values()]
    return Report(checkpoint, opened.layout, len(sizes), sum(sizes), dims)


def run(
    checkpoint: Path,
    out: Path,
    *,
    encoder: str,
    decoder: str,
    clip: bool,
    name: str | None,
    report: progress.Report | None = None,
) -> Path:
    """Export ``checkpoint`` into the model directory ``out`` and return it.

    Args:
        encoder: fp32, fp16 or int8, for the encoder of a hearing checkpoint or the codec of a speaking one.
        decoder: f32, f16, q8_0, q6_k or q4_k_m, for the decoder of a hearing checkpoint or the talker and code
            predictor of a speaking one.
        clip: whether to write the whole-clip graph too (hearing checkpoints only).
        name: the model's name in the manifest; by default the checkpoint's own, else that of ``out``.
        report: a function that is called after every tensor.

    Raises:
        CheckpointError: the checkpoint or an argument is unusable; the message names the field or tensor.
        ExportUnavailable: the dimensions are no released model's, and torch is not installed.
    """
    precision, quantization = precision_of(encoder), quantization_of(decoder)
    fill.convert(checkpoint, out, precision=precision, quantization=quantization, clip=clip, name=name, report=report)
    return out


def traces(checkpoint: Path, *, encoder: str, decoder: str) -> bool:
    """Whether this export needs torch, since the checkpoint's dimensions are those of no released model.

    Raises:
        CheckpointError: the checkpoint or an argument is unusable.
    """
    precision, quantization = precision_of(encoder), quantization_of(decoder)
    return fill.estimate(checkpoint, precision=precision, quantization=quantization).torch


def verify(model: Path, against: Path) -> Table:
    """The parity table of a model directory against the official code on its checkpoint.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ManifestError: the model directory is unusable.
        ExportUnavailable: torch or transformers is not installed.
    """
    if is_funasr(against) or speaks(against):
        raise CheckpointError(f"{against}: such models are compared with the official code by `make reference`")
    require("torch", "transformers")
    from export.verify import parity

    return parity.verify(model, against)
