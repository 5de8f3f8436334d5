"""The q8_0 kernel that is compiled into llama.cpp, compared bit for bit with its arithmetic restated in NumPy.

An output is the sum over blocks, in their order, of a whole number, which the products of a block's bytes make, times
the product of both scales, added by one fused multiply-add.
"""

import ctypes
import subprocess
from pathlib import Path

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
BLOCK = np.dtype([("scale", "<f2"), ("values", "i1", 32)])
GLUE = """
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <cstdint>
struct block_q8_0 { uint16_t d; int8_t qs[32]; };
#include "q8_0.h"
extern "C" int available() {
#ifdef HEARSAY_Q8_0
    return 1;
#else
    return 0;
#endif
}
extern "C" int product(int64_t m, int64_t n, int64_t k, const block_q8_0 * a, const block_q8_0 * b, float * c,
                       int nth) {
#ifdef HEARSAY_Q8_0
    for (int ith = 0; ith < nth; ith++)
        if (!hearsay::q8_0(m, n, k, a, k, b, k, c, m, ith, nth)) return 0;
    return 1;
#else
    return 0;
#endif
}
"""


def features() -> set[str]:
    """This processor's instruction sets."""
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.exists() else set()


HERE = [name for name, (_, wanted) in KERNELS.items() if name == "native" or features().issuperset(wanted)]
"""What this processor can run."""


@pytest.fixture(scope="module", params=HERE)
def kernel(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The header compiled by itself: for this processor, as in llama.cpp, and for simpler ones."""
    told, _ = KERNELS[request.param]
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "glue.cpp").write_text(GLUE)
    library = folder / "kernel.so"
    flags = ["-O3", *told, "-std=c++17", "-shared", "-fPIC", f"-I{SOURCE}"]
    subprocess.run(["g++", *flags, "-o", str(library), str(folder / "glue.cpp")], check=True)
    return ctypes.CDLL(str(library))


def blocks(rng: np.random.Generator, rows: int, k: int) -> npt.NDArray[np.void]:
    """Random q8_0 rows [rows, k], with extreme bytes and scales of every size. ±127 is the largest value there is."""
    made = np.zeros((rows, k), BLOCK)
    made["values"] = rng.integers(-127, 128, (rows, k, 32))
    made["values"][rng.random((rows, k)) < 0.2] = rng.choice([-127, 127])
    made["scale"] = (rng.normal(size=(rows, k)) * 10.0 ** rng.integers(-4, 2, (rows, k))).astype(np.float16)
    return made


def restated(a: npt.NDArray[np.void], b: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """The product c[j, i] = a[i] · b[j], summed in the kernel's order."""
    whole = np.einsum("ikx,jkx->kji", a["values"].astype(np.int64), b["values"].astype(np.int64))
    made = np.zeros((len(b), len(a)), np.float32)
    for block, products in enumerate(whole):
        scale = a["scale"][None, :, block].astype(np.float32) * b["scale"][:, None, block].astype(np.float32)
        # The product is exact in a long double, and so, but for one case in millions, is the sum: one rounding.
        made = (scale.astype(np.longdouble) * products + made).astype(np.float32)
    return made


def multiply(
    kernel: ctypes.CDLL, a: npt.NDArray[np.void], b: npt.NDArray[np.void], threads: int
) -> npt.NDArray[np.float32] | None:
    """The kernel's c[j, i], or None if it leaves the product to llama.cpp."""
    c = np.full((len(b), len(a)), np.nan, np.float32)
    sizes = [ctypes.c_int64(x) for x in (len(a), len(b), a.shape[1])]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    return c if kernel.product(*sizes, *pointers, ctypes.c_int(threads)) else None


def test_it_is_there_where_the_processor_has_what_it_wants(kernel: ctypes.CDLL) -> None:
    """The kernel is compiled where the processor has its instructions, and tells which those are. Elsewhere none of it
    is."""
    assert bool(kernel.available()) == features().issuperset(KERNELS["native"][1])
    if kernel.available():
        told = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(kernel, "hearsay_q8_0")))
        assert told in (b"AVX-512 VNNI", b"AVX-VNNI", b"AVX2")


@settings(max_examples=40)
@given(
    tiles=st.integers(1, 5), n=st.integers(1, 30), k=st.integers(1, 6), threads=st.integers(1, 3), seed=st.integers(0)
)
def test_every_output_has_the_bits_of_its_arithmetic(
    kernel: ctypes.CDLL, tiles: int, n: int, k: int, threads: int, seed: int
) -> None:
    """Whatever the instruction set, however many columns there are and however rows are split between threads."""
    rng = np.random.default_rng(seed)
    a, b = blocks(rng, 8 * tiles, k), blocks(rng, n, k)
    c = multiply(kernel, a, b, threads)
    assert (c is not None) == bool(kernel.available())
    if c is not None:
        assert np.array_equal(c.view(np.int32), restated(a, b).view(np.int32))
        alone = multiply(kernel, a, b[:1], 1)
        assert alone is not None and np.array_equal(c[:1], alone)


def test_rows_that_make_no_whole_tile_are_left_to_llama_cpp(kernel: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    assert multiply(kernel, blocks(rng, 12, 2), blocks(rng, 3, 2), 1) is None
