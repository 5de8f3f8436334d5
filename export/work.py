"""A checkpoint that is to be converted: its family, what the conversion needs, and the function that does it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export import directory
from export.checkpoint import Checkpoint, open_checkpoint
from export.decoder import decoder_size
from export.dims import encoder_shapes, read_dims
from export.funasr import directory as funasr
from export.funasr.checkpoint import is_funasr, open_funasr
from export.funasr.dims import encoder_shapes as funasr_shapes
from export.funasr.dims import read_funasr_dims
from export.known import Part, find
from export.names import CODEC_ENCODER, Precision, Quantization
from export.pair import find_pair, open_pair
from export.progress import Meter
from export.source import check_architecture, locate
from export.stored import suspecting
from export.tokenizer import require_tokenizer
from export.tts import description
from export.tts import directory as tts
from export.tts.checkpoint import open_tts
from export.tts.dims import read_tts_dims
from export.tts.talker import predictor_stub, table_size

Parts = Callable[[Precision, Quantization], Sequence[tuple[Part, Checkpoint]]]
"""A function that gives the parts of all graphs at a precision and format, with the checkpoints that hold their
weights."""

SIZES: Mapping[int, str] = {1024: "0.6b", 2048: "1.7b"}
"""The names of the released sizes by the width of their decoder."""

WIDTH: Mapping[str, int] = {"fp32": 4, "fp16": 2, "int8": 1}
"""How many bytes a weight of a graph has in each precision."""


@dataclass(frozen=True, slots=True)
class Work:
    """A checkpoint of some family and how it is converted."""

    family: str
    label: str
    """The name of the released size that the checkpoint has if its graphs are known."""
    parameters: int
    traced: int
    """How many bytes the weights of its graphs have in float32, which torch would hold while it traces."""
    parts: Parts
    rest: Callable[[Precision, Quantization], int]
    """Gives the size in bytes of everything but the graphs and their weights."""
    write_to: Callable[..., object]
    """Writes the model directory."""

    @property
    def size(self) -> str | None:
        """The released size, or None if the dimensions are those of no released model."""
        found = [find(*each) for each in self.parts("int8", "q8_0")]
        return None if any(each is None for each in found) else self.label

    def known(self, precision: Precision, quantization: Quantization) -> bool:
        """Whether all graphs are kept (export/known.py), so that no torch is needed."""
        return all(find(*each) is not None for each in self.parts(precision, quantization))

    def disk(self, precision: Precision, quantization: Quantization) -> int:
        """About how many bytes the model directory will have."""
        size = self.rest(precision, quantization)
        for part, checkpoint in self.parts(precision, quantization):
            template = find(part, checkpoint)
            if template is None:
                return self.rest(precision, quantization) + self.traced * WIDTH[precision] // 4
            size += template.size + sum(map(len, template.graphs.values()))
        return size

    def write(
        self,
        out: Path,
        precision: Precision,
        quantization: Quantization,
        *,
        clip: bool,
        name: str | None,
        meter: Meter,
    ) -> None:
        """Write the model directory ``out``.

        Raises:
            CheckpointError: the checkpoint cannot be converted so.
            ExportUnavailable: torch is needed and not installed.
        """
        self.write_to(out, precision, quantization, clip=clip, name=name, meter=meter)


def open_work(source: Path) -> Work:
    """Read what there is to convert.

    Raises:
        CheckpointError: nothing that can be.
    """
    if pair := find_pair(source):
        with suspecting(pair[0]):
            return asr_work(open_pair(*pair))
    source = locate(source)
    with suspecting(source):
        if is_funasr(source):
            return funasr_work(source)
        return tts_work(source) if check_architecture(source) == "qwen3_tts" else asr_work(open_checkpoint(source))


def count(*checkpoints: Checkpoint) -> int:
    """How many values the tensors of ``checkpoints`` have."""
    return sum(stored.size for each in checkpoints for stored in each.tensors.values())


def beside(folder: Path) -> int:
    """About how many bytes the tokenizer.json will have: as many as the checkpoint's, or twice those of the formats
    that it is made of."""
    whole, parts = folder / "tokenizer.json", (folder / "vocab.json", folder / "merges.txt")
    if whole.exists():
        return whole.stat().st_size
    return 2 * sum(path.stat().st_size for path in parts if path.exists())


def asr_work(opened: Checkpoint) -> Work:
    """The work of converting a Qwen3-ASR checkpoint, or a ForcedAligner."""
    dims = read_dims(opened)
    if opened.tokenizer is None:
        require_tokenizer(opened.directory)
    directory.check_described(opened, dims)
    encoder = sum(math.prod(shape) for _, shape in encoder_shapes(dims.encoder))

    def parts(precision: Precision, _quantization: Quantization) -> list[tuple[Part, Checkpoint]]:
        return [(directory.encoder_part(dims.encoder, precision), opened)]

    def rest(precision: Precision, quantization: Quantization) -> int:
        head = dims.aligner.classes * dims.decoder.width * WIDTH[precision] if dims.aligner else 0
        own = not dims.decoder.tied and dims.aligner is None
        return decoder_size(dims.decoder, quantization, head=own) + head + beside(opened.directory)

    def write(out: Path, precision: Precision, quantization: Quantization, *, clip: bool, **options: Any) -> None:
        directory.write_directory(opened, dims, out, encoder=precision, decoder=quantization, clip=clip, **options)

    family = "qwen3-forced-aligner" if dims.aligner else "qwen3-asr"
    size = SIZES.get(dims.decoder.width, "")
    return Work(family, size, count(opened), 4 * encoder, parts, rest, write)


def funasr_work(source: Path) -> Work:
    """The work of converting a Fun-ASR-Nano checkpoint."""
    opened = open_funasr(source)
    dims = read_funasr_dims(opened)
    require_tokenizer(opened.llm.directory)
    encoder = sum(math.prod(shape) for _, shape in funasr_shapes(dims))

    def parts(precision: Precision, _quantization: Quantization) -> list[tuple[Part, Checkpoint]]:
        return [(funasr.encoder_part(dims, precision), opened.whole)]

    def rest(_precision: Precision, quantization: Quantization) -> int:
        size = decoder_size(dims.decoder, quantization, head=not dims.decoder.tied)
        return size + beside(opened.llm.directory)

    def write(out: Path, precision: Precision, quantization: Quantization, *, clip: bool, **options: Any) -> None:
        funasr.write_funasr(opened, dims, out, encoder=precision, decoder=quantization, **options)

    return Work("fun-asr-nano", "0.8b", count(opened.whole), 4 * encoder, parts, rest, write)


def tts_work(source: Path) -> Work:
    """The work of converting a Qwen3-TTS-12Hz checkpoint."""
    opened = open_tts(source)
    dims = read_tts_dims(opened)
    require_tokenizer(source)
    description.check_described(opened, dims)

    def parts(precision: Precision, quantization: Quantization) -> list[tuple[Part, Checkpoint]]:
        found = [(tts.codec_part(dims.codec, precision), opened.codec)]
        for file, each in tts.cloning_parts(opened, dims).items():
            found.append((each, opened.codec if file == CODEC_ENCODER else opened.model))
        if (weights := description.frame_weights(precision, quantization)) is not None:
            found.append((tts.frame_part(dims, weights, half=True), opened.model))
        return found

    def rest(_precision: Precision, quantization: Quantization) -> int:
        stacks = (dims.talker, True), (predictor_stub(dims), False)
        size = sum(decoder_size(stack, quantization, head=head) for stack, head in stacks)
        return size + table_size(dims, half=quantization != "f32") + beside(source)

    def write(out: Path, precision: Precision, quantization: Quantization, *, clip: bool, **options: Any) -> None:
        tts.write_tts(opened, dims, out, codec=precision, decoder=quantization, **options)

    size = SIZES.get(dims.talker.width, "")
    return Work("qwen3-tts", size, count(opened.model, opened.codec), 4 * count(opened.codec), parts, rest, write)
