"""One context, many sequences: the facts the streaming design rests on, on the embedded model."""

import gc
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engines import manifest as manifests
from engines.gguf import CALL_ROWS, Decoder, Rows
from engines.llama import GgufError, llama
from engines.sessions import Busy


@pytest.fixture(scope="module")
def decoder(asr_directory: Path) -> Iterator[Decoder]:
    """The embedded model's decoder with a few short sequences."""
    manifest = manifests.read(asr_directory)
    decoder = Decoder(asr_directory / manifest.decoder.file, sequences=6, rows=512, threads=2)
    yield decoder
    decoder.close()


def noise(decoder: Decoder, count: int, seed: int) -> np.ndarray:
    """Rows of the scale of real ones."""
    rows = np.random.default_rng(seed).standard_normal((count, decoder.width)).astype(np.float32)
    return rows * float(np.std(decoder.embed([5, 6, 7])))


def test_dimensions_agree_with_the_manifest(decoder: Decoder, asr_directory: Path) -> None:
    """What llama.cpp loaded is what model.json says."""
    spec = manifests.read(asr_directory).decoder
    assert (decoder.width, decoder.vocabulary) == (spec.width, spec.vocabulary)


def test_a_sequence_alone_and_in_a_crowd_is_bit_identical(decoder: Decoder) -> None:
    """Prefill and single steps of one sequence do not change by a bit when five others run beside it."""

    def run(crowd: bool) -> list[np.ndarray]:
        sequences = [decoder.acquire() for _ in range(6 if crowd else 1)]
        lengths = [104, 40, 13, 200, 7, 150]
        rows = [noise(decoder, n, i) for i, n in enumerate(lengths)]
        items = [Rows(s, 0, rows[i], len(rows[i]) - 1) for i, s in enumerate(sequences)]
        out = [decoder.evaluate(items)[0]]
        for step in range(5):
            single = [Rows(s, lengths[i] + step, noise(decoder, 1, 100 * i + step), 0) for i, s in enumerate(sequences)]
            out.append(decoder.evaluate(single)[0])
        for s in sequences:
            decoder.release(s)
        return out

    for alone, crowded in zip(run(False), run(True), strict=True):
        np.testing.assert_array_equal(alone, crowded)


def test_forgotten_rows_leave_no_trace(decoder: Decoder) -> None:
    """Evaluating over forgotten positions gives the bits of a cache that never held them."""
    sequence = decoder.acquire()
    head, tail = noise(decoder, 60, 1), noise(decoder, 30, 2)
    decoder.evaluate([Rows(sequence, 0, head, 60)])
    clean = decoder.evaluate([Rows(sequence, 60, tail, 29)])[0]
    decoder.evaluate([Rows(sequence, 60, noise(decoder, 100, 3), 100)])
    decoder.evaluate([Rows(sequence, 160, noise(decoder, 1, 4), 1)])
    again = decoder.evaluate([Rows(sequence, 60, tail, 29)])[0]
    decoder.release(sequence)
    np.testing.assert_array_equal(clean, again)


def test_another_content_gives_other_logits(decoder: Decoder) -> None:
    """The comparison above can fail: other rows, other logits."""
    sequence = decoder.acquire()
    first = decoder.evaluate([Rows(sequence, 0, noise(decoder, 20, 1), 19)])[0]
    second = decoder.evaluate([Rows(sequence, 0, noise(decoder, 20, 2), 19)])[0]
    decoder.release(sequence)
    assert np.abs(first - second).max() > 1e-3


def test_logits_come_for_the_rows_asked_for(decoder: Decoder) -> None:
    """``logits_from`` counts from the item's first row, across calls too."""
    sequence = decoder.acquire()
    rows = noise(decoder, CALL_ROWS + 20, 1)
    every = decoder.evaluate([Rows(sequence, 0, rows, 0)])[0]
    last = decoder.evaluate([Rows(sequence, 0, rows, CALL_ROWS + 10)])[0]
    decoder.release(sequence)
    assert every.shape == (CALL_ROWS + 20, decoder.vocabulary)
    np.testing.assert_array_equal(every[CALL_ROWS + 10 :], last)


def test_sequences_are_finite(decoder: Decoder) -> None:
    """One more than there are is refused; a released one can be taken again."""
    taken = [decoder.acquire() for _ in range(6)]
    with pytest.raises(Busy, match="6 sequences"):
        decoder.acquire()
    decoder.release(taken.pop())
    taken.append(decoder.acquire())
    for sequence in taken:
        decoder.release(sequence)
    assert decoder.taken == 0


def test_a_sequence_is_given_back_once(decoder: Decoder) -> None:
    """Twice would hand it to two sessions; so would one that nobody took."""
    sequence = decoder.acquire()
    decoder.release(sequence)
    for wrong in (sequence, 6, -1):
        with pytest.raises(ValueError, match=f"sequence {wrong} is not taken"):
            decoder.release(wrong)
    assert decoder.taken == 0
    taken = [decoder.acquire() for _ in range(6)]
    assert sorted(taken) == list(range(6))
    for sequence in taken:
        decoder.release(sequence)


def test_rows_that_llama_cpp_does_not_forget_are_no_free_rows(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses what this kind of cache never meets; the next session must not find another's rows all the same."""
    sequence = decoder.acquire()
    decoder.evaluate([Rows(sequence, 0, noise(decoder, 3, 1), 3)])
    with monkeypatch.context() as patch:
        patch.setattr(llama, "llama_memory_seq_rm", lambda *_: False)
        with pytest.raises(GgufError, match=f"cannot forget the rows of sequence {sequence} from 0 on"):
            decoder.release(sequence)
    assert decoder.taken == 1
    decoder.release(sequence)
    assert decoder.taken == 0


def test_rows_of_a_call_that_failed_reach_nobody(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp may have put them into the cache before it gave up."""
    sequence = decoder.acquire()
    rows = noise(decoder, 3, 1)
    expected = decoder.evaluate([Rows(sequence, 0, rows, 0)])[0]
    decoder.release(sequence)
    assert decoder.acquire() == sequence
    decode = llama.llama_decode
    with monkeypatch.context() as patch:
        patch.setattr(llama, "llama_decode", lambda *given: decode(*given) or 2)
        with pytest.raises(GgufError, match="llama_decode returned 2 for 5 rows"):
            decoder.evaluate([Rows(sequence, 0, noise(decoder, 5, 2), 5)])
    decoder.release(sequence)
    assert decoder.acquire() == sequence
    np.testing.assert_array_equal(decoder.evaluate([Rows(sequence, 0, rows, 0)])[0], expected)
    decoder.release(sequence)


def test_rows_beyond_the_cells_or_after_a_gap_are_refused(decoder: Decoder) -> None:
    """The error names the rows; the context stays usable."""
    sequence = decoder.acquire()
    with pytest.raises(GgufError, match="do not fit"):
        decoder.evaluate([Rows(sequence, 500, noise(decoder, 100, 1), 100)])
    with pytest.raises(GgufError, match="gap"):
        decoder.evaluate([Rows(sequence, 10, noise(decoder, 2, 1), 2)])
    assert decoder.evaluate([Rows(sequence, 0, noise(decoder, 2, 1), 1)])[0].shape == (1, decoder.vocabulary)
    decoder.release(sequence)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_rows_that_hold_no_number_reach_nobody(decoder: Decoder, wrong: float) -> None:
    """In a cell they would be there for whoever has the sequence next: llama.cpp masks cells by multiplying by 0."""
    for count in (3, 1):
        sequence = decoder.acquire()
        rows = noise(decoder, count, 1)
        before = decoder.evaluate([Rows(sequence, 0, rows, 0)])[0]
        broken = rows.copy()
        broken[-1, 7] = wrong
        with pytest.raises(GgufError, match=f"rows 0…{count - 1} hold what is no number"):
            decoder.evaluate([Rows(sequence, 0, broken, 0)])
        decoder.release(sequence)
        assert decoder.acquire() == sequence
        np.testing.assert_array_equal(decoder.evaluate([Rows(sequence, 0, rows, 0)])[0], before)
        decoder.release(sequence)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    path = tmp_path / "not.gguf"
    path.write_bytes(b"not a model at all")
    with pytest.raises(GgufError, match="not.gguf"):
        Decoder(path, sequences=1, rows=256, threads=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_load_that_fails_halfway_leaves_nothing(
    asr_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp has taken the file, the embedding table cannot be read: both are let go of."""

    def mapped() -> bool:
        return str(path.resolve()) in Path("/proc/self/maps").read_text()

    path = tmp_path / "whole.gguf"
    shutil.copyfile(asr_directory / manifests.read_asr(asr_directory).decoder.file, path)
    loaded = Decoder(path, sequences=1, rows=256, threads=1)
    assert mapped()
    loaded.close()
    loaded.close()
    gc.collect()
    assert not mapped()

    def fail(path: Path) -> None:
        assert mapped()
        raise GgufError(f"{path} holds no token_embd.weight")

    monkeypatch.setattr("engines.gguf.EmbeddingTable", fail)
    with pytest.raises(GgufError, match="token_embd"):
        Decoder(path, sequences=1, rows=256, threads=1)
    assert not mapped()


def test_steps_in_one_pass_leave_the_sequences_between_as_they_were(asr_directory: Path) -> None:
    """The order that a card wants, on the processor: rows of neighbours are computed along and forgotten."""
    manifest = manifests.read_asr(asr_directory)

    def loaded() -> Decoder:
        decoder = Decoder(asr_directory / manifest.decoder.file, sequences=4, rows=256, threads=1, kv="f32")
        for sequence in range(4):
            decoder.acquire()
            decoder.evaluate([Rows(sequence, 0, decoder.embed([5 + sequence, 9]), 2)])
        return decoder

    one, other = loaded(), loaded()
    steps = [Rows(sequence, 2, one.embed([7]), 0) for sequence in (3, 0)]
    plain = one.outputs(steps)
    other._card = True  # pyright: ignore[reportPrivateUsage]
    ordered = other.outputs(steps)
    for mine, theirs in zip(plain, ordered, strict=True):
        np.testing.assert_allclose(mine.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    after = [Rows(sequence, 2, one.embed([11]), 0) for sequence in (1, 2)]
    for mine, theirs in zip(one.outputs(after), other.outputs(after), strict=True):
        np.testing.assert_allclose(mine.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    one.close()
    other.close()
