"""Graphs run by ONNX Runtime, each loaded once for all live sessions, with few threads that do not spin.

The provider is DirectML on Windows, CUDA or CoreML if the installed build offers them, else the CPU. DirectML compiles
a graph anew for each shape it meets, so there every graph runs in fixed shapes (:attr:`Graph.fixed`): callers pad to
the window and to a batch of 1, 2, 4 or 8, and each is warmed once after loading. With fewer shapes more sessions share
a call, so CUDA gets fixed shapes too; and a graph of convolutions gets one, because ONNX Runtime plans a convolution
anew whenever its shape is not that of the call before (its issue 23006).
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime

Array = npt.NDArray[Any]

ort: Any = onnxruntime
"""ONNX Runtime, which ships no types."""
EP_FAIL: Final[type[Exception]] = ort.capi.onnxruntime_pybind11_state.EPFail
"""What ONNX Runtime raises when a provider fails in a run."""

_MOST_TOLD: Final = 300
"""How many characters of ONNX Runtime's own words an error has."""

_LOG: Final = logging.getLogger(__name__)

BATCHES: Final = (1, 2, 4, 8)
"""The batch sizes where shapes are fixed: powers of two, so that padding at most doubles the work."""
CUDA_BATCHES: Final = (*BATCHES, 16, 32)
"""The batch sizes on CUDA: a window alone takes 8 ms on an H100, 32 take 32 ms (notes/2026-11-card.md)."""
CUDA_CONVOLVED: Final = (8,)
"""The batch size on CUDA of a graph of convolutions: a stem takes 2.2 ms with eight chunks in each call, and 6.2 if
their number changes from call to call (notes/2026-11-card.md)."""

_PROVIDERS: Final = {
    "dml": "DmlExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
_CUDA_OPTIONS: Final = {"cudnn_conv_algo_search": "HEURISTIC", "sdpa_kernel": "3"}
"""By default every algorithm of a convolution is tried at each new shape, and cuDNN plans attention at each. That costs
more than it brings where shapes change from call to call. 3 stands for flash attention and CUTLASS (ONNX Runtime's
``AttentionBackend``)."""
CPU: Final = _PROVIDERS["cpu"]
"""The name of the provider that is always there."""
CUDA: Final = _PROVIDERS["cuda"]


class ProviderError(ValueError):
    """The provider or device asked for is unknown, or not available here."""


class GraphError(RuntimeError):
    """ONNX Runtime cannot load or run a graph; the message says which."""


def providers(choice: str = "auto") -> list[str]:
    """The providers to try, by ONNX Runtime's names and in order, the CPU last.

    Args:
        choice: auto, dml, cuda, coreml or cpu.

    Raises:
        ProviderError: ``choice`` is another word, or the installed build does not offer it.
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


@cache
def _share_memory() -> None:
    """Give graphs on the CPU one store of memory, which grows by what is asked for. Each with its own, which doubles,
    would hold some 7 MB more for the small models."""
    kind = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    no_limit, as_asked, default = 0, 1, -1
    ort.create_and_register_allocator(kind, ort.OrtArenaCfg(no_limit, as_asked, default, default))


class Graph:
    """A loaded graph. Thread-safe."""

    def __init__(self, path: Path, *, threads: int, provider: str = "auto", convolves: bool = False) -> None:
        """Load the graph ``path``, and the weights that lie beside it.

        Args:
            threads: how many threads one call uses.
            provider: see :func:`providers`.
            convolves: whether the graph has convolutions, so that CUDA wants one shape.

        Raises:
            ProviderError: there is no such provider, or it does not start here.
            GraphError: ONNX Runtime cannot load it.
        """
        wanted = providers(provider)
        if CUDA in wanted:
            ort.preload_dlls()  # CUDA's libraries from pip lie where the system's loader does not look.
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        if wanted == [CPU]:
            _share_memory()
            options.add_session_config_entry("session.use_env_allocators", "1")
        # Spinning threads would steal the cores from llama.cpp between calls.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        # Memory planned for each shape would cost 19 MB at 0.6B dimensions and save next to no time. DirectML forbids
        # it.
        options.enable_mem_pattern = False
        # Planning which value may take another's place compares each value with all: at 0.6B dimensions it is two
        # thirds of the time that loading takes, and a run then takes no less memory or time.
        options.enable_mem_reuse = wanted != [CPU]
        options.log_severity_level = 3
        self.path = path
        self._retreats = provider == "auto" and wanted != [CPU]
        """Whether the CPU takes over if the provider fails, as nobody has asked for that provider."""
        # ONNX Runtime's own way to the CPU prints to stdout and tells the caller nothing.
        make = partial(ort.InferenceSession, str(path), options, enable_fallback=0)
        try:
            try:
                self._session = make(providers=[(name, _CUDA_OPTIONS if name == CUDA else {}) for name in wanted])
            except Exception as error:
                if not self._retreats:
                    raise
                self._tell(error)
                self._session = make(providers=[CPU])
            inputs = self._session.get_inputs()
            self.inputs: tuple[str, ...] = tuple(i.name for i in inputs)
            self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())
        except Exception as error:  # ONNX Runtime's exceptions have no common base class.
            raise GraphError(f"ONNX Runtime cannot load {path}: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        if provider != "auto" and self.provider != wanted[0]:
            raise ProviderError(f"provider: {wanted[0]} does not start here; ONNX Runtime took {self.provider}")
        self.fixed = self.provider in (_PROVIDERS["dml"], CUDA)
        card = CUDA_CONVOLVED if convolves else CUDA_BATCHES
        self.batches = card if self.provider == CUDA else BATCHES
        """The batch sizes to pad to, if ``fixed``."""
        self._shapes: dict[str, list[int | str | None]] = {i.name: i.shape for i in inputs}
        self._half = {i.name for i in inputs if i.type == "tensor(float16)"}
        self._held: dict[str, Array] = {}
        self._placed: dict[str, Any] = {}
        """Inputs that lie where the graph runs."""
        self._written: dict[str, Any] = {}
        """Those of them that a run overwrites, by the output that does."""

    def is_half(self, name: str) -> bool:
        """Whether an input is float16."""
        return name in self._half

    def is_dynamic(self, name: str, axis: int) -> bool:
        """Whether an input's axis may have any length."""
        return not isinstance(self._shapes[name][axis], int)

    def hold(self, name: str, value: Array) -> None:
        """Give an input its value for all runs to come. A card keeps it, so that it is copied there once."""
        self._held[name] = value
        if self.provider == CUDA:
            self._placed[name] = self._moved(value)

    def keep(self, name: str, output: str, shape: Sequence[int]) -> None:
        """Keep a tensor between runs where the graph runs: zeros of ``shape`` at first, which every run reads as the
        input ``name`` and overwrites with the ``output``. It is never returned, and runs must not overlap."""
        zeros = np.zeros(shape, np.float16 if name in self._half else np.float32)
        self._retreats = False  # The processor would not find what the card keeps.
        self._placed[name] = self._written[output] = self._moved(zeros)

    def _moved(self, value: Array) -> Any:
        return ort.OrtValue.ortvalue_from_numpy(value, "cuda" if self.provider == CUDA else "cpu", 0)

    def run(
        self, feeds: Mapping[str, Array], wanted: Sequence[str] | None = None, *, half: bool = False
    ) -> list[Array]:
        """Run the graph and return the outputs that ``wanted`` names, or all of them in the graph's order. What only
        other outputs need is not computed. Inputs are cast to float16 if the graph wants that, and float16 outputs are
        returned as float32, unless ``half`` says that they stay as they are.

        Raises:
            GraphError: ONNX Runtime failed.
        """
        cast = {
            name: value.astype(np.float16, copy=False) if name in self._half else value for name, value in feeds.items()
        }
        try:
            outputs: list[Array] = self._run(wanted, cast)
        except Exception as error:
            hint = "; with --device cpu it runs on the processor" if isinstance(error, EP_FAIL) else ""
            raise GraphError(f"ONNX Runtime cannot run {self.path}: {_short(error)}{hint}") from error
        return [o.astype(np.float32) if o.dtype == np.float16 and not half else o for o in outputs]

    def _run(self, wanted: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        try:
            return self._ran(wanted, feeds)
        except EP_FAIL as error:
            if not self._retreats:
                raise
            self._tell(error)
            self._retreats = False
            self._session.set_providers([CPU])
            self.provider = CPU
            self._placed.clear()
            return self._ran(wanted, feeds)

    def _ran(self, wanted: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        if not self._placed:
            return self._session.run(wanted, {**feeds, **self._held})
        binding = self._session.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name, value in self._placed.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in self._written.items():
            binding.bind_ortvalue_output(name, value)
        returned = [name for name in wanted or self.outputs if name not in self._written]
        for name in returned:
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        return [value.numpy() for value in binding.get_outputs()[len(self._written) :]]

    def _tell(self, error: Exception) -> None:
        _LOG.warning("%s runs on the processor, because the card cannot run it: %s", self.path, _short(error))


def _short(error: Exception) -> str:
    """The beginning of an error that may be pages of a library's own notes."""
    line = str(error).strip().partition("\n")[0]
    return line if len(line) <= _MOST_TOLD else f"{line[:_MOST_TOLD]}…"
