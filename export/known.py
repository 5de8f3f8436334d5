"""The graphs of the released models, kept without weights, so that exporting such a model needs no torch.

The structure of a graph depends on dimensions alone. ``python -m export.trace.keep`` traces the parts of every released
model once and keeps them in ``export/graphs``: an archive for each model, with a folder for each part and precision. In
a folder lie the graphs as they will be in the model directory, and ``plan.json``, which tells where in the weight file
each tensor lies and by what recipe (export/transforms.py) it is made. ``make reference`` traces everything again and
compares graphs and weights.
"""

import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import Checkpoint, CheckpointError
from export.packages import NEEDED, require
from export.progress import SILENT, Meter
from export.transforms import HalfError, Maker, Recipe, leaves

GRAPHS = Path(__file__).parent / "graphs"
INDEX, PLAN, CONSTANTS = "index.json", "plan.json", "constants.npz"

CONSTANT = "="
"""The prefix of the name of a tensor that is kept beside the graphs, since NumPy would compute it with another last
bit than torch."""


@dataclass(frozen=True, slots=True)
class Part:
    """The key of graphs that share a weight file: all that their structure depends on."""

    kind: str
    """What the graphs are: encoder, fun-asr, codec, codec-encoder, speaker-encoder or frame."""
    values: str
    """The dimensions and the precision, as JSON with sorted keys."""


def part(kind: str, **values: Any) -> Part:
    """The part of ``kind`` with these dimensions."""
    return Part(kind, json.dumps({name: _plain(value) for name, value in values.items()}, sort_keys=True))


def _plain(value: Any) -> Any:
    """The value, a dataclass as a dictionary. Graphs were kept before an encoder could have positions of its own; one
    that has none is told as then."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    found: dict[str, Any] = asdict(value)
    return {name: one for name, one in found.items() if name != "placed" or one}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies in the weight file, and the recipe by which it is made."""

    offset: int
    kind: str
    """NumPy's name of the tensor's type."""
    shape: tuple[int, ...]
    recipe: Recipe

    @property
    def size(self) -> int:
        """How many bytes the tensor has."""
        return int(np.prod(self.shape)) * np.dtype(self.kind).itemsize


@dataclass(frozen=True, slots=True)
class Template:
    """The graphs of a part and the plan of their weight file."""

    model: str
    """The name of the model that the part was traced for, which is the archive's name."""
    weights: str
    graphs: Mapping[str, bytes]
    places: tuple[Place, ...]
    constants: Mapping[str, NDArray[Any]]
    tensors: Mapping[str, tuple[int, ...]]
    """The checkpoint's tensors that the weights are made of, with their shapes."""

    @property
    def size(self) -> int:
        """How many bytes the weight file has."""
        return max((place.offset + place.size for place in self.places), default=0)

    def fill(self, checkpoint: Checkpoint, out: Path, *, without: Collection[str] = (), meter: Meter = SILENT) -> None:
        """Write the weight file, a tensor at a time, and the graphs but for those in ``without`` into ``out``.

        Raises:
            CheckpointError: a weight is not finite, or too large for the precision.
        """
        with (out / self.weights).open("wb") as file:
            for place, values in self.made(checkpoint):
                file.write(b"\0" * (place.offset - file.tell()))
                file.write(np.ascontiguousarray(values).data)
                meter.wrote(place.size)
        for name, graph in self.graphs.items():
            if name not in without:
                (out / name).write_bytes(graph)

    def made(self, checkpoint: Checkpoint) -> Iterator[tuple[Place, NDArray[Any]]]:
        """Make every tensor of the weight file, in order."""

        def read(name: str) -> NDArray[Any]:
            if name.startswith(CONSTANT):
                return self.constants[name]
            values = checkpoint.tensors[name].read()
            if not np.isfinite(values).all():
                raise CheckpointError(
                    f"{checkpoint.directory}: tensor {checkpoint.published(name)} holds what is no number: the file "
                    "is damaged, download it again"
                )
            return values

        maker = Maker(read)
        for place in self.places:
            try:
                values = maker.make(place.recipe)
            except HalfError as error:
                names = ", ".join(checkpoint.published(name) for name in leaves(place.recipe))
                raise CheckpointError(f"{checkpoint.directory}: tensor {names} {error}") from None
            assert values.shape == place.shape and values.dtype == place.kind, f"{place.recipe}: {values.shape}"
            yield place, values


@cache
def index() -> Mapping[Part, tuple[str, str]]:
    """For each part that is kept the archive and the folder in it."""
    path = GRAPHS / INDEX
    if not path.exists():
        return {}
    return {
        Part(entry["kind"], json.dumps(entry["values"], sort_keys=True)): (entry["model"], entry["folder"])
        for entry in json.loads(path.read_text(encoding="utf-8"))
    }


def find(wanted: Part, checkpoint: Checkpoint) -> Template | None:
    """The graphs of a part, or None if no released model has it. None also if the checkpoint's tensors have other
    shapes than the released model's, where the dimensions do not determine them."""
    if wanted not in index():
        return None
    model, folder = index()[wanted]
    with tarfile.open(GRAPHS / f"{model}.tar.xz") as archive:
        files = {
            name.removeprefix(f"{folder}/"): found.read()
            for name in archive.getnames()
            if name.startswith(f"{folder}/") and (found := archive.extractfile(name)) is not None
        }
    template = unpack(model, files)
    fits = all(
        name in checkpoint.tensors and checkpoint.tensors[name].shape == shape
        for name, shape in template.tensors.items()
    )
    return template if fits else None


def unpack(model: str, files: Mapping[str, bytes]) -> Template:
    """The template that the files of a folder hold."""
    plan = json.loads(files[PLAN])
    constants: dict[str, NDArray[Any]] = {}
    if CONSTANTS in files:
        with np.load(io.BytesIO(files[CONSTANTS])) as held:
            constants = {f"{CONSTANT}{name}": held[name] for name in held.files}
    places = tuple(Place(offset, kind, tuple(shape), recipe) for offset, kind, shape, recipe in plan["places"])
    graphs = {name: files[name] for name in plan["graphs"]}
    tensors = {name: tuple(shape) for name, shape in plan["tensors"].items()}
    return Template(model, plan["weights"], graphs, places, constants, tensors)


def pack(template: Template) -> dict[str, bytes]:
    """The files of a folder that holds the template."""
    plan = {
        "weights": template.weights,
        "graphs": list(template.graphs),
        "tensors": dict(template.tensors),
        "places": [[each.offset, each.kind, each.shape, each.recipe] for each in template.places],
    }
    files = {PLAN: json.dumps(plan, separators=(",", ":")).encode(), **template.graphs}
    if template.constants:
        held = io.BytesIO()
        arrays: dict[str, Any] = {name.removeprefix(CONSTANT): values for name, values in template.constants.items()}
        np.savez(held, **arrays)
        files[CONSTANTS] = held.getvalue()
    return files


def write_part(
    wanted: Part,
    checkpoint: Checkpoint,
    out: Path,
    trace: Callable[[], None],
    *,
    without: Collection[str] = (),
    meter: Meter = SILENT,
) -> None:
    """Write the graphs of a part and their weights into ``out``: kept graphs if there are some, else by ``trace``.

    Raises:
        CheckpointError: a weight is not finite, or too large for the precision.
        ExportUnavailable: the graphs are not kept and torch is not installed.
    """
    template = find(wanted, checkpoint)
    if template is None:
        require(*NEEDED)
        trace()
    else:
        template.fill(checkpoint, out, without=without, meter=meter)
