"""The products that are compiled into llama.cpp, compared bit for bit with their arithmetic restated in NumPy.

An output is a sum over blocks, in their order. What a block adds is a whole number, which is exact however it is
summed, times the scales of both sides, by one fused multiply-add; a block of q4_k adds two.
"""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = Path(__file__).parents[2] / "tools" / "llama"
KERNELS = {
    "native": (["-march=native"], ("avx2", "fma", "f16c")),
    "avx2": (["-mavx2", "-mfma", "-mf16c"], ("avx2", "fma", "f16c")),
    "avxvnni": (["-mavx2", "-mfma", "-mf16c", "-mavxvnni"], ("avx2", "fma", "f16c", "avx_vnni")),
}
"""Name → what the compiler is told, and the features of a processor that the result wants."""

Q8_0 = np.dtype([("scale", "<f2"), ("values", "i1", 32)])
Q4_K = np.dtype([("scale", "<f2"), ("least", "<f2"), ("scales", "u1", 12), ("values", "u1", 128)])
Q6_K = np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", "<f2")])
Q8_K = np.dtype([("scale", "<f4"), ("values", "i1", 256), ("sums", "<i2", 16)])
"""The formats of ggml-common.h."""

GLUE = """
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <cstdint>
struct block_q8_0 { uint16_t d; int8_t qs[32]; };
struct block_q4_K { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
struct block_q6_K { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
struct block_q8_K { float d; int8_t qs[256]; int16_t bsums[16]; };
#include "k_quants.h"
#ifdef HEARSAY_Q8_0
#define PRODUCT(name, function, A, B) \
    extern "C" int name(int64_t m, int64_t n, int64_t k, const A * a, const B * b, float * c, int nth) { \
        for (int ith = 0; ith < nth; ith++) { \
            if (!hearsay::function(m, n, k, a, k, b, k, c, m, ith, nth)) return 0; \
        } \
        return 1; \
    }
extern "C" int available() { return 1; }
#else
#define PRODUCT(name, function, A, B) \
    extern "C" int name(int64_t, int64_t, int64_t, const A *, const B *, float *, int) { return 0; }
extern "C" int available() { return 0; }
#endif
PRODUCT(q8_0, q8_0, block_q8_0, block_q8_0)
PRODUCT(q4_k, k_quants, block_q4_K, block_q8_K)
PRODUCT(q6_k, k_quants, block_q6_K, block_q8_K)
"""

Blocks = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


def features() -> set[str]:
    """This processor's instruction sets."""
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.exists() else set()


HERE = [name for name, (_, wanted) in KERNELS.items() if name == "native" or features().issuperset(wanted)]
"""What this processor can run."""


@pytest.fixture(scope="module", params=HERE)
def kernel(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The headers compiled by themselves: for this processor, as in llama.cpp, and for simpler ones."""
    told, _ = KERNELS[request.param]
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "glue.cpp").write_text(GLUE)
    library = folder / "kernel.so"
    flags = ["-O3", *told, "-std=c++17", "-shared", "-fPIC", f"-I{SOURCE}"]
    subprocess.run(["g++", *flags, "-o", str(library), str(folder / "glue.cpp")], check=True)
    return ctypes.CDLL(str(library))


def scales(rng: np.random.Generator, rows: int, k: int) -> Floats:
    """Scales of every size."""
    made: Floats = (rng.normal(size=(rows, k)) * 10.0 ** rng.integers(-4, 2, (rows, k))).astype(np.float32)
    return made


def bytes_of(rng: np.random.Generator, rows: int, k: int, count: int) -> npt.NDArray[np.int8]:
    """Activations, among them many of the largest there are, ±127."""
    made = rng.integers(-127, 128, (rows, k, count))
    extreme = rng.random((rows, k)) < 0.2
    made[extreme] = rng.choice([-127, 127], (int(extreme.sum()), 1))
    return made.astype(np.int8)


def q8_0(rng: np.random.Generator, rows: int, k: int) -> Blocks:
    made = np.zeros((rows, k), Q8_0)
    made["values"], made["scale"] = bytes_of(rng, rows, k, 32), scales(rng, rows, k)
    return made


def q8_k(rng: np.random.Generator, rows: int, k: int) -> Blocks:
    """As llama.cpp makes them: a block of zeros has a scale of 0, and whatever was in memory for the sums of runs."""
    made = np.zeros((rows, k), Q8_K)
    made["values"], made["scale"] = bytes_of(rng, rows, k, 256), scales(rng, rows, k)
    made["sums"] = made["values"].reshape(rows, k, 16, 16).sum(-1)
    empty = rng.random((rows, k)) < 0.1
    made["values"][empty], made["scale"][empty], made["sums"][empty] = 0, 0, rng.integers(-32768, 32768, 16)
    return made


def filled(rng: np.random.Generator, rows: int, k: int, kind: np.dtype[np.void]) -> Blocks:
    """Blocks of any bytes, every tenth of the largest values, with scales that are numbers."""
    made = rng.integers(0, 256, (rows, k, kind.itemsize), np.uint8)
    made[rng.random((rows, k)) < 0.1] = 255
    blocks = made.view(kind)[..., 0]
    for name in ("scale", "least"):
        if name in (kind.names or ()):
            blocks[name] = scales(rng, rows, k)
    return blocks


def q4_k(rng: np.random.Generator, rows: int, k: int) -> Blocks:
    return filled(rng, rows, k, Q4_K)


def q6_k(rng: np.random.Generator, rows: int, k: int) -> Blocks:
    return filled(rng, rows, k, Q6_K)


def fused(a: Floats, b: npt.NDArray[np.int64], c: Floats) -> Floats:
    """a · b + c with one rounding, after b's own to float32. A long double holds the product, and so, but for one case
    in millions, the sum."""
    return (a.astype(np.longdouble) * b.astype(np.float32) + c).astype(np.float32)


def summed(a: Blocks, b: Blocks, whole: Callable[[int], list[tuple[str, npt.NDArray[np.int64]]]]) -> Floats:
    """c[j, i] of a[i] · b[j]: for each block the whole numbers [j, i] that ``whole`` gives, each with the name of the
    weights' scale that goes with it."""
    made = np.zeros((len(b), len(a)), np.float32)
    for block in range(a.shape[1]):
        for name, number in whole(block):
            scale = a[name][None, :, block].astype(np.float32) * b["scale"][:, None, block].astype(np.float32)
            made = fused(scale, number, made)
    return made


def restated_q8_0(a: Blocks, b: Blocks) -> Floats:
    whole = np.einsum("ikx,jkx->kji", a["values"].astype(np.int64), b["values"].astype(np.int64))
    return summed(a, b, lambda block: [("scale", whole[block])])


def restated_q4_k(a: Blocks, b: Blocks) -> Floats:
    packed = a["scales"].astype(np.int64)
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], -1)
    least = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], -1)
    pairs = a["values"].astype(np.int64).reshape(*a.shape, 4, 1, 32)
    values = np.concatenate([pairs & 15, pairs >> 4], -2).reshape(*a.shape, 8, 32)
    others = b["values"].astype(np.int64).reshape(*b.shape, 8, 32)
    products = np.einsum("ikrx,jkrx,ikr->kji", values, others, scale)
    off = np.einsum("jkrx,ikr->kji", others, least)
    return summed(a, b, lambda block: [("scale", products[block]), ("least", -off[block])])


def restated_q6_k(a: Blocks, b: Blocks) -> Floats:
    low = a["low"].astype(np.int64).reshape(*a.shape, 2, 1, 64)
    high = a["high"].astype(np.int64).reshape(*a.shape, 2, 1, 32)
    four = np.concatenate([low & 15, low >> 4], -2).reshape(*a.shape, 2, 4, 32)
    two = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], -2)
    values = (four + two * 16 - 32).reshape(*a.shape, 16, 16)
    others = b["values"].astype(np.int64).reshape(*b.shape, 16, 16)
    products = np.einsum("ikrx,jkrx,ikr->kji", values, others, a["scales"].astype(np.int64))
    return summed(a, b, lambda block: [("scale", products[block])])


@dataclass(frozen=True, slots=True)
class Format:
    """A format of weights: how random ones and their activations are made, and their product restated."""

    name: str
    weights: Callable[[np.random.Generator, int, int], Blocks]
    activations: Callable[[np.random.Generator, int, int], Blocks]
    restated: Callable[[Blocks, Blocks], Floats]


FORMATS = [
    Format("q8_0", q8_0, q8_0, restated_q8_0),
    Format("q4_k", q4_k, q8_k, restated_q4_k),
    Format("q6_k", q6_k, q8_k, restated_q6_k),
]


def multiply(kernel: ctypes.CDLL, form: Format, a: Blocks, b: Blocks, threads: int) -> Floats | None:
    """The kernel's c[j, i], or None if it leaves the product to llama.cpp."""
    c = np.full((len(b), len(a)), np.nan, np.float32)
    sizes = [ctypes.c_int64(x) for x in (len(a), len(b), a.shape[1])]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    return c if getattr(kernel, form.name)(*sizes, *pointers, ctypes.c_int(threads)) else None


def test_it_is_there_where_the_processor_has_what_it_wants(kernel: ctypes.CDLL) -> None:
    """The kernel is compiled where the processor has its instructions, and tells which those are. Elsewhere none of it
    is."""
    assert bool(kernel.available()) == features().issuperset(KERNELS["native"][1])
    if kernel.available():
        told = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(kernel, "hearsay_products")))
        assert told in (b"AVX-512 VNNI", b"AVX-VNNI", b"AVX2")


@settings(max_examples=100)
@given(
    form=st.sampled_from(FORMATS),
    tiles=st.integers(1, 5),
    n=st.integers(1, 30),
    k=st.integers(1, 4),
    threads=st.integers(1, 3),
    seed=st.integers(0),
)
def test_every_output_has_the_bits_of_its_arithmetic(
    kernel: ctypes.CDLL, form: Format, tiles: int, n: int, k: int, threads: int, seed: int
) -> None:
    """Whatever the instruction set, however many columns there are and however rows are split between threads."""
    rng = np.random.default_rng(seed)
    a, b = form.weights(rng, 8 * tiles, k), form.activations(rng, n, k)
    c = multiply(kernel, form, a, b, threads)
    assert (c is not None) == bool(kernel.available())
    if c is not None:
        assert np.array_equal(c.view(np.int32), form.restated(a, b).view(np.int32))
        alone = multiply(kernel, form, a, b[:1], 1)
        assert alone is not None and np.array_equal(c[:1], alone)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_rows_that_make_no_whole_tile_are_left_to_llama_cpp(kernel: ctypes.CDLL, form: Format) -> None:
    rng = np.random.default_rng(1)
    assert multiply(kernel, form, form.weights(rng, 12, 2), form.activations(rng, 3, 2), 1) is None
