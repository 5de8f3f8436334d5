"""One llama.cpp context, many sequences: rows of embeddings in, logits (and hidden states) out.

Knows no tokenizer and no speech. A *row* is one position of one sequence: a float32 vector of the model's width, either
made elsewhere (audio) or read from the GGUF's own embedding table (:meth:`Decoder.embed`). Rows always go in as
embeddings, because a llama_batch holds tokens or embeddings, never both.

What decides the settings (measured, docs/engines.md): ``kv_unified=False`` and flash attention off, so that a
sequence's logits are bit-identical alone and beside others as long as its own rows come in the same partition into
calls. Another partition of the same rows rounds differently; so whoever needs reproducible text fixes the partition.

Not thread-safe: one thread at a time may call in (engines/batching.Lane is that thread).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from engines.embeddings import EmbeddingTable
from engines.llama import GgufError, llama, start_backend
from engines.sessions import Busy

Floats = npt.NDArray[np.float32]

CALL_ROWS: Final = 256
"""Most rows of one llama_decode call. A longer item is evaluated in several calls, cut at multiples of this."""

_KV_TYPES: Final = {"f16": 1, "f32": 0}  # ggml_type ids
SEQUENCES: Final = 256
"""Most sequences of a decoder: llama.cpp's LLAMA_MAX_SEQ."""
GAP: Final = 64
"""Most sequences between two steps that a card computes along to have both in one pass (:meth:`Decoder.evaluate`)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Work for one sequence: forget its positions from ``start`` on, then evaluate ``rows`` [n, width] there.

    ``logits_from``: index of the first row whose logits are wanted, n for none. Forgetting gives the cells back in
    order, so the cache looks, cell by cell, as if the forgotten rows had never been evaluated.
    """

    sequence: int
    start: int
    rows: Floats
    logits_from: int


@dataclass(frozen=True, slots=True)
class Output:
    """What the wanted rows of one item gave. Both are the caller's own copies."""

    logits: Floats
    """float32 [n, vocabulary]."""
    hidden: Floats
    """float32 [n, width]: the state after the last norm; [0, width] where the decoder was not asked to keep it."""


class Decoder:
    """A loaded GGUF with KV cache for ``sequences`` independent sequences of up to ``rows`` positions each."""

    def __init__(
        self,
        path: Path,
        *,
        sequences: int,
        rows: int,
        threads: int,
        kv: Literal["f16", "f32"] = "f16",
        card: bool = False,
        hidden: bool = False,
        shared_rows: int = 1,
    ) -> None:
        """Load ``path``.

        Args:
            sequences: independent sequences, 1…256.
            rows: positions of each.
            threads: of one call.
            kv: type of the KV cache.
            card: compute on a graphics card, where llama.cpp was built with one.
            hidden: keep the state after the last norm beside the logits (:meth:`outputs`).
            shared_rows: items of up to so many rows share calls with items of equally many (:meth:`evaluate`).

        Raises:
            GgufError: llama.cpp cannot load it or cannot make the context.
        """
        if not 1 <= sequences <= SEQUENCES:
            raise GgufError(f"sequences: {sequences} lies outside 1…{SEQUENCES}")
        start_backend()
        model_params = llama.llama_model_default_params()
        model_params.n_gpu_layers = 999 if card else 0  # all
        self.rows = -(-rows // 256) * 256  # llama.cpp pads a sequence's cells to 256
        params = llama.llama_context_default_params()
        params.n_ctx = self.rows * sequences
        params.n_batch = params.n_ubatch = max(CALL_ROWS, sequences)
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = _KV_TYPES[kv]
        attention = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED if card else llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.flash_attn_type, params.offload_kqv, params.op_offload = attention, card, card
        params.kv_unified = False
        params.no_perf = True
        params.embeddings = hidden
        with ExitStack() as resources:  # of a load that fails nothing stays
            model: Any = llama.llama_model_load_from_file(str(path).encode(), model_params)
            if not model:
                raise GgufError(f"llama.cpp could not load {path}")
            resources.callback(llama.llama_model_free, model)
            self._context: Any = llama.llama_init_from_model(model, params)
            if not self._context:
                raise GgufError(f"llama.cpp could not make a context of {sequences} × {self.rows} rows for {path}")
            resources.callback(llama.llama_free, self._context)
            self._table = EmbeddingTable(path)
            resources.callback(self._table.close)
            self.width: int = llama.llama_model_n_embd(model)
            self._batch: Any = llama.llama_batch_init(params.n_batch, self.width, 1)
            resources.callback(llama.llama_batch_free, self._batch)
            self._resources = resources.pop_all()
        self._memory: Any = llama.llama_get_memory(self._context)
        self.vocabulary: int = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        self.sequences = sequences
        self.hidden, self._shared_rows, self._card = hidden, shared_rows, card
        self._free = list(range(sequences - 1, -1, -1))
        self._lengths = [0] * sequences
        self._batch_rows: Floats = np.ctypeslib.as_array(self._batch.embd, (params.n_batch, self.width))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (params.n_batch,))
        self._wanted = np.ctypeslib.as_array(self._batch.logits, (params.n_batch,))
        self._capacity: int = params.n_batch
        self._nothing = np.zeros((1, self.width), np.float32)
        for i in range(self._capacity):
            self._batch.n_seq_id[i] = 1

    def close(self) -> None:
        """Free context and model. Idempotent."""
        self._resources.close()
        self._context = self._memory = None

    @property
    def taken(self) -> int:
        """Sequences in use."""
        return self.sequences - len(self._free)

    def acquire(self) -> int:
        """Take an empty sequence.

        Raises:
            Busy: none is free.
        """
        if not self._free:
            raise Busy(f"all {self.sequences} sequences are taken")
        return self._free.pop()

    def release(self, sequence: int) -> None:
        """Empty ``sequence`` and give it back.

        Raises:
            ValueError: it is not taken: given back twice, it would be two sessions' at once.
        """
        if sequence in self._free or not 0 <= sequence < self.sequences:
            raise ValueError(f"sequence {sequence} is not taken")
        self._trim(sequence, 0)
        self._free.append(sequence)

    def _trim(self, sequence: int, start: int) -> None:
        if start < self._lengths[sequence]:
            if not llama.llama_memory_seq_rm(self._memory, sequence, start, -1):
                raise GgufError(f"llama.cpp cannot forget the rows of sequence {sequence} from {start} on")
            self._lengths[sequence] = start

    def embed(self, tokens: Sequence[int]) -> Floats:
        """The table's rows for ``tokens``: float32 [n, width]. Thread-safe."""
        return self._table.rows(tokens)

    def evaluate(self, items: Sequence[Rows]) -> list[Floats]:
        """Evaluate every item; logits float32 [n - logits_from, vocabulary] of each.

        Items of one row each, of different sequences, share calls (up to ``shared_rows`` rows: items of equally many).
        Longer items take calls of their own, cut at multiples of :data:`CALL_ROWS`: so the partition of a sequence's
        rows never depends on its neighbours.

        Raises:
            GgufError: a position outside the sequence's cells, a row that holds NaN or infinity, or llama.cpp failed.
        """
        return [output.logits for output in self.outputs(items)]

    def outputs(self, items: Sequence[Rows]) -> list[Output]:
        """As :meth:`evaluate`, with the hidden states where the decoder keeps them."""
        results: list[Output | None] = [None] * len(items)
        for count in range(1, self._shared_rows + 1):
            alike = [i for i, item in enumerate(items) if len(item.rows) == count]
            if self._card:
                alike.sort(key=lambda i: items[i].sequence)
            most = self._capacity // count
            for first in range(0, len(alike), most):
                group = alike[first : first + most]
                rows = [items[i] for i in group]
                outputs = self._stepped(rows) if self._card and count == 1 else self._call(rows)
                for index, output in zip(group, outputs, strict=True):
                    results[index] = output
        for index, item in enumerate(items):
            if results[index] is None:
                results[index] = self._alone(item)
        return [output for output in results if output is not None]

    def _stepped(self, items: Sequence[Rows]) -> list[Output]:
        """``_call`` of single rows in the order of their sequences. llama.cpp has only neighbouring sequences in one
        pass, and a pass costs a card more than rows do: rows of those between are computed too, and forgotten."""
        wanted = {item.sequence: item for item in items}
        places, filled = list(wanted), dict[int, Rows]()
        for place, following in zip(places, [*places[1:], places[-1]], strict=True):
            filled[place] = wanted[place]
            between = range(place + 1, following)
            if len(between) <= GAP and all(self._lengths[i] < self.rows for i in between):
                filled |= {i: Rows(i, self._lengths[i], self._nothing, 1) for i in between}
        outputs = dict(zip(filled, self._call(list(filled.values())), strict=True))
        for sequence in filled.keys() - wanted.keys():
            self._trim(sequence, filled[sequence].start)
        return [outputs[item.sequence] for item in items]

    def _alone(self, item: Rows) -> Output:
        parts: list[Output] = []
        for cut in range(0, len(item.rows), CALL_ROWS):
            part = item.rows[cut : cut + CALL_ROWS]
            wanted = min(max(item.logits_from - cut, 0), len(part))
            parts += self._call([Rows(item.sequence, item.start + cut, part, wanted)])
        if len(parts) == 1:
            return parts[0]
        empty = np.empty((0, self.vocabulary), np.float32), np.empty((0, self.width), np.float32)
        return Output(
            np.concatenate([empty[0], *(part.logits for part in parts)]),
            np.concatenate([empty[1], *(part.hidden for part in parts)]),
        )

    def _call(self, items: Sequence[Rows]) -> list[Output]:
        batch = self._batch
        n = 0
        for item in items:
            count = len(item.rows)
            if not np.isfinite(item.rows).all():
                # In a cell that is given back it would stay a number to multiply by 0, for whoever has it next.
                raise GgufError(f"rows {item.start}…{item.start + count - 1} hold what is no number")
            if item.start + count > self.rows:
                raise GgufError(f"rows {item.start}…{item.start + count - 1} do not fit a sequence of {self.rows}")
            if item.start > self._lengths[item.sequence]:
                raise GgufError(f"row {item.start} would leave a gap after {self._lengths[item.sequence]}")
            self._trim(item.sequence, item.start)
            self._batch_rows[n : n + count] = item.rows
            self._positions[n : n + count] = np.arange(item.start, item.start + count, dtype=np.int32)
            self._wanted[n : n + count] = 0
            self._wanted[n + item.logits_from : n + count] = 1
            for i in range(n, n + count):
                batch.seq_id[i][0] = item.sequence
            n += count
        batch.n_tokens = n
        for item in items:  # before it is sure: what a call that fails leaves behind must be forgotten too
            self._lengths[item.sequence] = item.start + len(item.rows)
        code = llama.llama_decode(self._context, batch)
        if code != 0:
            raise GgufError(f"llama_decode returned {code} for {n} rows of {len(items)} sequences")
        results: list[Output] = []
        n = 0
        for item in items:
            wanted = range(n + item.logits_from, n + len(item.rows))
            logits = np.empty((len(wanted), self.vocabulary), np.float32)
            hidden = np.empty((len(wanted) if self.hidden else 0, self.width), np.float32)
            for k, i in enumerate(wanted):
                logits[k] = np.ctypeslib.as_array(llama.llama_get_logits_ith(self._context, i), (self.vocabulary,))
                if self.hidden:
                    hidden[k] = np.ctypeslib.as_array(llama.llama_get_embeddings_ith(self._context, i), (self.width,))
            results.append(Output(logits, hidden))
            n += len(item.rows)
        return results
