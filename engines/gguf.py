"""A decoder run by llama.cpp: one context with many sequences takes rows of embeddings and gives logits and hidden
states.

This module knows no tokenizer and no speech. A *row* is one position of one sequence: a float32 vector of the model's
width, either made elsewhere (audio) or read from the GGUF's own embedding table (:meth:`Decoder.embed`). Rows always go
in as embeddings, because a llama_batch holds tokens or embeddings, never both.

The KV cache grows with the sequences that are taken, and shrinks when the last is given back. llama.cpp fixes a
context's size when it is made, so a larger context takes the place of the old one, whose cells are copied bit by bit.
The cells of 32 sessions at 0.6B dimensions would take 2.7 GB, those of the first session take 84 MB.

The settings were chosen by measurement (docs/engines.md). With ``kv_unified=False`` and without flash attention a
sequence's logits are bit-identical alone and beside others, as long as its own rows are split into the same calls.
Other calls with the same rows round differently, so callers that need reproducible text always split rows alike.

Not thread-safe: one thread at a time may call (``engines.lane.Lane`` sees to that).
"""

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from engines.embeddings import EmbeddingTable
from engines.llama import GgufError, llama, rearranges, start_backend
from engines.memory import available
from engines.sessions import Busy

Floats = npt.NDArray[np.float32]

CALL_ROWS: Final = 256
"""How many rows one call of llama_decode takes at most. A longer item is split into several calls, at multiples of
this. llama.cpp's buffers grow with it, and a call cannot be interrupted; a window of released models has 104 rows."""

_KV_TYPES: Final = {"f16": 1, "f32": 0}
"""ggml's numbers of the types (``ggml_type``)."""
SEQUENCES: Final = 256
"""How many sequences a decoder has at most: llama.cpp's LLAMA_MAX_SEQ."""
LEAST_BYTES: Final = 16 << 20
"""The cache never shrinks below the sequences that fit into so many bytes, six of the bundled model, and never below
one. It is a choice of what an idle daemon may hold: with fewer the cache grows more often."""
_STREAMS: Final = 2
"""The index, in words of four bytes, at which a saved sequence tells how many streams its context has."""
GAP: Final = 64
"""How many unused sequences between two steps a card computes along at most, to take both in one pass
(:meth:`Decoder.outputs`). It is a choice: a pass costs a card about as much as many rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One sequence's work: its positions from ``start`` on are forgotten, then ``rows``, float32 [n, width], are
    evaluated there.

    ``logits_from`` is the index of the first row whose logits are wanted, n for none. Forgotten cells are given back in
    order, so that the cache is, cell by cell, as if the forgotten rows had never been evaluated.
    """

    sequence: int
    start: int
    rows: Floats
    logits_from: int


@dataclass(frozen=True, slots=True)
class Output:
    """What the wanted rows of one item gave. Both arrays are copies that belong to the caller."""

    logits: Floats
    """float32 [n, vocabulary]."""
    hidden: Floats
    """float32 [n, width]: the state after the last norm; [0, width] unless the decoder was loaded with ``hidden``."""


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
        least_bytes: int = LEAST_BYTES,
        beside: "Decoder | None" = None,
    ) -> None:
        """Load ``path``.

        Args:
            sequences: how many independent sequences there are, 1…256.
            rows: how many positions each has.
            threads: how many threads one call uses.
            kv: the type of the KV cache's values.
            card: whether to compute on a graphics card; llama.cpp must be built for it.
            hidden: whether :meth:`outputs` gives the state after the last norm too.
            shared_rows: up to how many rows an item may have to share a call with others of equally many.
            least_bytes: the cache never shrinks below the sequences that fit into so many bytes, nor below one.
            beside: another decoder of ``path``, whose weights this one uses, so it must be closed before that one.

        Raises:
            GgufError: llama.cpp cannot load the file or make the context.
        """
        if not 1 <= sequences <= SEQUENCES:
            raise GgufError(f"sequences: {sequences} lies outside 1…{SEQUENCES}")
        start_backend()
        model_params = llama.llama_model_default_params()
        model_params.n_gpu_layers = 999 if card else 0  # More than any model has: all layers.
        model_params.use_extra_bufts = rearranges()
        self.rows = -(-rows // 256) * 256  # llama.cpp pads a sequence's cells to a multiple of 256 anyway.
        self._path = path
        self._params = params = llama.llama_context_default_params()
        params.n_batch = params.n_ubatch = max(CALL_ROWS, sequences)
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = _KV_TYPES[kv]
        attention = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED if card else llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.flash_attn_type, params.offload_kqv, params.op_offload = attention, card, card
        params.kv_unified = False
        params.no_perf = True
        params.embeddings = hidden
        self.sequences = sequences
        self.held = 0
        """How many sequences the cache has room for now."""
        self._lengths = [0] * sequences
        """How many rows of each sequence are in the cache."""
        with ExitStack() as resources:  # If loading fails on its way, what was loaded is freed.
            if beside is None:
                self._model: Any = llama.llama_model_load_from_file(str(path).encode(), model_params)
                if not self._model:
                    raise GgufError(f"llama.cpp could not load {path}")
                resources.callback(llama.llama_model_free, self._model)
            else:
                self._model = beside._model
            # On a card the whole cache is made at once, since its memory serves nothing else.
            self._least = sequences if card else min(sequences, max(1, least_bytes // self._bytes(1)))
            self._context: Any = None
            resources.callback(self._free_context)
            self._resize(self._least)
            self._table = EmbeddingTable(path) if beside is None else beside._table
            if beside is None:
                resources.callback(self._table.close)
            self.width: int = llama.llama_model_n_embd(self._model)
            self._batch: Any = llama.llama_batch_init(params.n_batch, self.width, 1)
            resources.callback(llama.llama_batch_free, self._batch)
            self._resources = resources.pop_all()
        self.vocabulary: int = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self.hidden, self._shared_rows, self._card = hidden, shared_rows, card
        self._free = list(range(sequences - 1, -1, -1))
        self._batch_rows: Floats = np.ctypeslib.as_array(self._batch.embd, (params.n_batch, self.width))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (params.n_batch,))
        self._wanted = np.ctypeslib.as_array(self._batch.logits, (params.n_batch,))
        self._capacity: int = params.n_batch
        self._nothing = np.zeros((1, self.width), np.float32)
        for i in range(self._capacity):
            self._batch.n_seq_id[i] = 1

    def _bytes(self, held: int) -> int:
        """How many bytes the cache of ``held`` sequences takes."""
        value = ctypes.create_string_buffer(32)
        llama.llama_model_meta_val_str(self._model, b"qwen3.attention.key_length", value, len(value))
        head = int(value.value or 0) or llama.llama_model_n_embd(self._model) // llama.llama_model_n_head(self._model)
        a_row = 2 * llama.llama_model_n_layer(self._model) * llama.llama_model_n_head_kv(self._model) * head
        return held * self.rows * a_row * (4 if self._params.type_k == _KV_TYPES["f32"] else 2)

    def _resize(self, held: int) -> None:
        """Make a cache with room for the first ``held`` sequences; what is in the old one is copied bit by bit.

        Raises:
            GgufError: llama.cpp cannot make the new cache or cannot fill it; the old one stays.
        """
        self._params.n_ctx, self._params.n_seq_max = self.rows * held, held
        context: Any = llama.llama_init_from_model(self._model, self._params)
        if not context:
            raise GgufError(f"llama.cpp could not make a context of {held} × {self.rows} rows for {self._path}")
        try:
            for sequence, length in enumerate(self._lengths):
                if length and not _moved(self._context, context, sequence, self.held, held):
                    raise GgufError(f"llama.cpp could not move the {length} rows of sequence {sequence}")
        except BaseException:
            llama.llama_free(context)
            raise
        self._free_context()
        self._context, self.held = context, held
        self._memory: Any = llama.llama_get_memory(context)

    def _free_context(self) -> None:
        if self._context:
            llama.llama_free(self._context)
        self._context = self._memory = None

    def close(self) -> None:
        """Free context and model. Idempotent."""
        self._resources.close()

    @property
    def taken(self) -> int:
        """How many sequences are in use."""
        return self.sequences - len(self._free)

    def acquire(self) -> int:
        """Take the first free sequence, which is empty. A cache without room for it grows to twice its size.

        Raises:
            Busy: no sequence is free, or this machine has no memory for a larger cache.
            GgufError: llama.cpp cannot make the larger cache.
        """
        if not self._free:
            raise Busy(f"all {self.sequences} sequences are taken")
        if self._free[-1] >= self.held:
            held = min(2 * self.held, self.sequences)
            room = available()
            if room is not None and self._bytes(held) > room:
                raise Busy(f"{self.held} sequences are taken, and there is no memory for more")
            self._resize(held)
        return self._free.pop()

    def release(self, sequence: int) -> None:
        """Empty ``sequence`` and give it back.

        Raises:
            ValueError: the sequence is not taken. If it could be given back twice, two sessions would get it.
        """
        if sequence in self._free or not 0 <= sequence < self.sequences:
            raise ValueError(f"sequence {sequence} is not taken")
        self._trim(sequence, 0)
        self._free.append(sequence)
        self._free.sort(reverse=True)  # Lower numbers are taken first, so that the cache stays small.
        if not self.taken and self.held > self._least:
            self._resize(self._least)

    def _trim(self, sequence: int, start: int) -> None:
        if start < self._lengths[sequence]:
            if not llama.llama_memory_seq_rm(self._memory, sequence, start, -1):
                raise GgufError(f"llama.cpp cannot forget the rows of sequence {sequence} from {start} on")
            self._lengths[sequence] = start

    def embed(self, tokens: Sequence[int]) -> Floats:
        """The embeddings of ``tokens``: float32 [n, width]. Thread-safe."""
        return self._table.rows(tokens)

    def evaluate(self, items: Sequence[Rows]) -> list[Floats]:
        """Evaluate every item; returns the wanted logits of each, float32 [n - logits_from, vocabulary].

        Items of up to ``shared_rows`` rows (one by default) share a call with others of equally many. Longer items take
        calls of their own, split at multiples of :data:`CALL_ROWS`. So how a sequence's rows are split into calls never
        depends on other sequences.

        Raises:
            GgufError: a position lies outside the sequence, a row holds NaN or infinity, or llama.cpp failed.
        """
        return [output.logits for output in self.outputs(items)]

    def outputs(self, items: Sequence[Rows]) -> list[Output]:
        """As :meth:`evaluate`, with the hidden states if the decoder was loaded with ``hidden``."""
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
        """``_call`` for single rows on a card, in the order of their sequences. llama.cpp computes only neighbouring
        sequences in one pass, and a pass costs a card more than a few rows. So rows of the sequences in between are
        computed too, and forgotten afterwards."""
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
        """Evaluate one item in calls of its own."""
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
        """Evaluate ``items``, of different sequences, in one call of llama_decode."""
        batch = self._batch
        n = 0
        for item in items:
            count = len(item.rows)
            if not np.isfinite(item.rows).all():
                # NaN would stay in its cell after it is given back: llama.cpp masks cells by multiplying with 0, which
                # leaves NaN, so the next session there would get NaN too.
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
        for item in items:  # This comes before the call, since rows of a call that fails must be forgotten too.
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


def _moved(old: Any, new: Any, sequence: int, streams: int, more: int) -> bool:
    """Copy a sequence from a context of ``streams`` sequences into one of ``more``. Returns whether llama.cpp took it
    whole.

    llama.cpp restores a state only into a context with as many streams. In a state (of llama-cpp-python 0.3.36, which
    is pinned) two words of uint32 precede the number of streams, then every stream follows, an empty one as a count of
    0. So the number is replaced by the larger one, after a check that it is where it should be, and zeros are appended
    for the streams that the larger context has in addition.
    """
    size: int = llama.llama_state_seq_get_size(old, sequence)
    state = np.zeros((size + 3) // 4 + more - streams, np.uint32)
    at = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    if llama.llama_state_seq_get_data(old, at, size, sequence) != size or state[_STREAMS] != streams:
        return False
    state[_STREAMS] = more
    whole = size + 4 * (more - streams)
    return bool(llama.llama_state_seq_set_data(new, at, whole, sequence) == whole)
