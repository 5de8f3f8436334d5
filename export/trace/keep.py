"""Tracing the graphs of the released models and keeping them without weights in ``export/graphs``, or checking those
that are kept.

This needs torch and up to 10 GB of memory, since each part is traced by itself.

usage: python -m export.trace.keep [--check] [--only MODEL[/FOLDER] …]
"""

import argparse
import json
import lzma
import resource
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from export import known
from export.known import CONSTANT, Place, Template
from export.names import Precision
from export.trace import parts
from export.trace.graphs import WeightFile
from export.trace.releases import Kept, released

SEED = 1
"""The seed of the random weights that graphs are traced with. A check takes another, so that a recipe that only fits
these weights would be found."""
SINE = 1e-6
"""By how much a constant may differ: PyTorch's sines of an Intel and of an AMD processor differ by up to 4.8e-7, in the
table of positions."""


class KeepError(RuntimeError):
    """A weight's recipe makes something else than the traced graph has."""


def templates(kept: Kept, seed: int, *, quick: bool) -> dict[Precision, Template]:
    """Trace the part's graphs, and follow every recipe to see that it makes what the graph has.

    If ``quick``, only some of many equal layers are traced, and the others copied.

    Raises:
        KeepError: a recipe makes something else.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        drafts: dict[Precision, Draft] = {}
        options = {"quick": quick} if kept.layered else {}
        for made in kept.trace(kept.checkpoint(seed), **options):
            if made.precision not in drafts:
                out = Path(folder) / made.precision
                out.mkdir()
                drafts[made.precision] = Draft(out, stack.enter_context(WeightFile(out / kept.weights)))
            drafts[made.precision].add(made)
        stack.close()
        finished = {precision: draft.template(kept) for precision, draft in drafts.items()}
        for precision, template in finished.items():
            compare(template, kept, seed, Path(folder) / precision / kept.weights)
    return finished


class Draft:
    """The graphs of one precision, as they are traced."""

    def __init__(self, out: Path, weights: WeightFile) -> None:
        self._out, self._weights = out, weights
        self._graphs: dict[str, bytes] = {}
        self._places: dict[int, Place] = {}
        self._constants: dict[str, NDArray[Any]] = {}

    def add(self, made: parts.Made) -> None:
        """Keep a graph, and where its weights lie."""
        path = self._out / made.file
        self._weights.save(made.graph, path)
        self._graphs[made.file] = path.read_bytes()
        values = {tensor.name: tensor for tensor in made.graph.model.graph.initializer}
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            offset = next(int(each.value) for each in tensor.external_data if each.key == "offset")
            recipe = made.graph.recipes.get(tensor.name)
            if recipe is None:
                recipe = f"{CONSTANT}{tensor.name}"
                self._constants[recipe] = onnx.numpy_helper.to_array(values[tensor.name])
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            self._places.setdefault(offset, Place(offset, kind.name, tuple(tensor.dims), recipe))

    def template(self, kept: Kept) -> Template:
        """The template of all graphs that were added."""
        places = tuple(self._places[offset] for offset in sorted(self._places))
        read = {name for place in places for name in known.leaves(place.recipe)} - self._constants.keys()
        tensors = {name: kept.shapes[name] for name in sorted(read)}
        # A constant that no place refers to equals a tensor that lies in the file under another name.
        used = {place.recipe for place in places if isinstance(place.recipe, str)}
        constants = {name: values for name, values in self._constants.items() if name in used}
        return Template(kept.model, kept.weights, self._graphs, places, constants, tensors)


def compare(made: Template, kept: Kept, seed: int, weights: Path) -> None:
    """Follow every recipe of ``made`` on the random checkpoint and compare with the traced ``weights``, byte for byte.

    Raises:
        KeepError: a recipe makes something else; the message has it.
    """
    with weights.open("rb") as file:
        for place, values in made.made(kept.checkpoint(seed)):
            file.seek(place.offset)
            if file.read(place.size) != np.ascontiguousarray(values).tobytes():
                raise KeepError(f"{kept.model}: {json.dumps(place.recipe)} is not what the graph has")


def difference(stored: Template | None, anew: Template) -> str | None:
    """What differs between the graphs that are kept and those traced anew from other weights, or None."""
    if stored is None:
        return "is not kept"
    if stored.graphs != anew.graphs:
        differ = [name for name, graph in anew.graphs.items() if stored.graphs.get(name) != graph]
        return f"other graphs: {', '.join(differ)}"
    if (stored.places, stored.tensors) != (anew.places, anew.tensors):
        return "another plan"
    if stored.constants.keys() != anew.constants.keys() or any(
        not _alike(values, anew.constants[name]) for name, values in stored.constants.items()
    ):
        return "other constants"
    return None


def _alike(stored: NDArray[Any], anew: NDArray[Any]) -> bool:
    """Whether two constants are the same, but for what PyTorch's sines differ by on processors of different makers."""
    same = stored.shape == anew.shape and stored.dtype == anew.dtype
    return same and np.allclose(stored.astype(np.float64), anew.astype(np.float64), rtol=0.0, atol=SINE)


def write(folder: Path, files: dict[str, dict[str, bytes]], model: str) -> None:
    """Write a model's archive; ``files`` has the files of each folder in it. The same contents give the same bytes."""
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        # Files of the same name stand together, since those of different precisions have much in common to compress.
        members = sorted((name, inner) for inner, found in files.items() for name in found)
        for name, inner in members:
            entry = tarfile.TarInfo(f"{inner}/{name}")
            entry.size = len(files[inner][name])
            archive.addfile(entry, BytesIO(files[inner][name]))
    packed = lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    (folder / f"{model}.tar.xz").write_bytes(packed)


def read(folder: Path, model: str) -> dict[str, dict[str, bytes]]:
    """Read what ``write`` wrote; empty if there is no archive."""
    path = folder / f"{model}.tar.xz"
    found: dict[str, dict[str, bytes]] = {}
    if path.exists():
        with tarfile.open(path) as archive:
            for member in archive:
                inner, _, name = member.name.partition("/")
                stream = archive.extractfile(member)
                assert stream is not None
                found.setdefault(inner, {})[name] = stream.read()
    return found


def main() -> int:
    """Trace and keep the graphs, or check them. Returns 1 if a check finds a difference, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="trace anew with other weights, compare, write nothing")
    parser.add_argument("--only", nargs="+", default=[], metavar="MODEL[/FOLDER]")
    arguments = parser.parse_args()
    failed = False
    known.GRAPHS.mkdir(exist_ok=True)
    for kept in released():
        paths = [f"{kept.model}/{folder}" for folder, _ in kept.folders.values()]
        if arguments.only and not {kept.model, *paths} & set(arguments.only):
            continue
        began = time.process_time()
        for precision, template in templates(kept, SEED + arguments.check, quick=not arguments.check).items():
            folder, part = kept.folders[precision]
            said = f"{len(template.places)} tensors, {template.size / 1e6:.0f} MB when filled"
            if arguments.check:
                found = difference(known.find(part, kept.checkpoint(SEED)), template)
                failed |= found is not None
                said = found or f"the same graphs, the same bytes: {said}"
            else:
                files = read(known.GRAPHS, kept.model)
                write(known.GRAPHS, files | {folder: known.pack(template)}, kept.model)
                enter(kept.model, folder, part)
            print(f"{kept.model}/{folder}: {said}", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{time.process_time() - began:.0f} CPU s, peak {peak:.1f} GiB", flush=True)
    total = sum(path.stat().st_size for path in known.GRAPHS.iterdir())
    print(f"{total / 1e3:.0f} kB in {known.GRAPHS}")
    return int(failed)


def enter(model: str, folder: str, part: known.Part) -> None:
    """Enter a part into the index."""
    path = known.GRAPHS / known.INDEX
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    entries = [each for each in entries if (each["model"], each["folder"]) != (model, folder)]
    entries.append({"model": model, "folder": folder, "kind": part.kind, "values": json.loads(part.values)})
    entries.sort(key=lambda each: (each["model"], each["folder"]))
    path.write_text("[\n" + ",\n".join(json.dumps(each) for each in entries) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
