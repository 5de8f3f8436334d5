"""ONNX Runtime sessions: one per graph for all live sessions, few threads, no spinning.

Provider choice: DirectML on Windows, CUDA or CoreML where the installed build offers them, else the CPU. DirectML
compiles a graph anew for each shape it meets, so there every graph runs in fixed shapes (:attr:`Graph.fixed`): callers
pad to the window and to a batch of 1, 2, 4 or 8, each warmed once at load. CUDA looks for an algorithm at each new
shape, and the fewer shapes there are the more sessions share a call: it is driven likewise.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime

Array = npt.NDArray[Any]

ort: Any = onnxruntime  # ships no types

BATCHES: Final = (1, 2, 4, 8)
"""Batch sizes used where shapes must be fixed."""
CUDA_BATCHES: Final = (*BATCHES, 16, 32)
"""The same on CUDA, which takes 32 windows in little more time than one."""

_PROVIDERS: Final = {
    "dml": "DmlExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
_CUDA_OPTIONS: Final = {"cudnn_conv_algo_search": "HEURISTIC"}  # its default tries every algorithm at each new shape
CPU: Final = _PROVIDERS["cpu"]
"""Name of the provider that is always there."""


class ProviderError(ValueError):
    """The provider asked for is unknown or not in this build of ONNX Runtime."""


class GraphError(RuntimeError):
    """ONNX Runtime cannot load or run a graph; the message says which."""


def providers(choice: str = "auto") -> list[str]:
    """ONNX Runtime's names of the providers to try, in order, the CPU last.

    Raises:
        ProviderError: ``choice`` is neither auto nor offered by the installed build.
    """
    offered = ort.get_available_providers()
    if choice == "auto":
        return [name for name in _PROVIDERS.values() if name in offered]
    if choice not in _PROVIDERS:
        raise ProviderError(f"provider: {choice!r} is none of auto, {', '.join(_PROVIDERS)}")
    name = _PROVIDERS[choice]
    if name not in offered:
        raise ProviderError(f"provider: this ONNX Runtime offers {', '.join(offered)}, not {name}")
    return [name] if choice == "cpu" else [name, _PROVIDERS["cpu"]]


class Graph:
    """A loaded graph. :meth:`run` may be called from any thread; the lane sees to it that one does at a time."""

    def __init__(self, path: Path, *, threads: int, provider: str = "auto") -> None:
        """Load the graph ``path``, and the weights that lie beside it.

        Raises:
            ProviderError: there is no such provider.
            GraphError: ONNX Runtime cannot load it.
        """
        wanted = providers(provider)
        cuda = _PROVIDERS["cuda"]
        if cuda in wanted:
            ort.preload_dlls()  # those that pip brings lie where the loader does not look
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning threads would steal the cores from llama.cpp between calls.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        # A block planned for each shape costs 19 MB at 0.6B dimensions and saves next to no time; DirectML forbids it.
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        # Its own second try, without a GPU, is told on stdout; where there was none it would try the same again.
        again = int(wanted != [CPU])
        try:
            chosen = [(name, _CUDA_OPTIONS if name == cuda else {}) for name in wanted]
            self._session = ort.InferenceSession(str(path), options, providers=chosen, enable_fallback=again)
            inputs = self._session.get_inputs()
            self.inputs: tuple[str, ...] = tuple(i.name for i in inputs)
            self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())
        except Exception as error:  # ONNX Runtime's own have no common base
            raise GraphError(f"ONNX Runtime cannot load {path}: {error}") from error
        self.path = path
        self.provider: str = self._session.get_providers()[0]
        if provider != "auto" and self.provider != wanted[0]:
            raise ProviderError(f"provider: {wanted[0]} does not start here; ONNX Runtime took {self.provider}")
        self.fixed = self.provider in (_PROVIDERS["dml"], cuda)
        self.batches = CUDA_BATCHES if self.provider == cuda else BATCHES
        """Sizes of a batch, where they are fixed."""
        self._shapes: dict[str, list[int | str | None]] = {i.name: i.shape for i in inputs}
        self._half = {i.name for i in inputs if i.type == "tensor(float16)"}

    def is_dynamic(self, name: str, axis: int) -> bool:
        """Whether the graph leaves the length of an input's axis open."""
        return not isinstance(self._shapes[name][axis], int)

    def run(self, feeds: Mapping[str, Array], wanted: Sequence[str] | None = None) -> list[Array]:
        """The ``wanted`` outputs, all in the graph's order where none are named; what only others need is not computed.
        float16 outputs come back as float32, float16 inputs are cast.

        Raises:
            GraphError: ONNX Runtime failed.
        """
        cast = {
            name: value.astype(np.float16, copy=False) if name in self._half else value for name, value in feeds.items()
        }
        try:
            outputs: list[Array] = self._session.run(wanted, cast)
        except Exception as error:
            raise GraphError(f"ONNX Runtime cannot run {self.path}: {error}") from error
        return [o.astype(np.float32) if o.dtype == np.float16 else o for o in outputs]
