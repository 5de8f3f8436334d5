// Products of q8_0 weights and q8_0 activations in tiles of 8 rows of weights, with AVX-512 VNNI or AVX2.
//
// Bit for bit what llama.cpp's own kernels give (tinyBLAS_Q0_AVX, ggml_vec_dot_q8_0_q8_0): the same 8 partial sums of
// each output, the same float operations in the same order. Sums of bytes are whole numbers, so it does not matter how
// they come about. What those kernels do again for every output is done once for many here: magnitudes, scales,
// conversions. Products of bytes want one side unsigned. With AVX-512 the weights go in as a + 128, and 128 times the
// sum of the activations, the same for every row, is taken off beforehand; with AVX2 they go in as magnitudes, and
// their signs go to the activations. Activations are never −128: llama.cpp scales the largest of a block to ±127.
// notes/2026-11-processors.md has what it gains; tests/engines/test_q8_kernel.py compares the bits. On ARM llama.cpp
// repacks q8_0 itself.

#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HEARSAY_Q8_0 1

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearsay {

constexpr int ROWS    = 8;  // of weights in a tile
constexpr int COLUMNS = 4;  // of activations that are multiplied at once, at most
constexpr int AHEAD   = 2;  // tiles that are fetched before they are due

// At least `bytes` of this thread's own, aligned to 64; kept for the next call.
static inline char * scratch(size_t bytes) {
    static thread_local std::vector<char> memory;
    if (memory.size() < bytes + 64) {
        memory.resize(bytes + 64);
    }
    return (char *) (((uintptr_t) memory.data() + 63) & ~(uintptr_t) 63);
}

static inline __m256i values_of(const block_q8_0 & block) {
    return _mm256_loadu_si256((const __m256i *) block.qs);
}

// The scales of a block of 8 rows.
static inline __m256 scales_of(const block_q8_0 * a, int64_t lda) {
    return _mm256_cvtph_ps(_mm_setr_epi16(a[0].d, a[lda].d, a[lda * 2].d, a[lda * 3].d, a[lda * 4].d, a[lda * 5].d,
                                          a[lda * 6].d, a[lda * 7].d));
}

// Weights are read once, so the memory decides, and a tile is too many short streams for the processor to foresee.
// The rows of the tiles to come lie behind this one's: fetch them, as much for each block as a block of 8 rows takes.
// Where several columns take their time (LINES), the next tile is fetched while this one is multiplied instead.
static inline void fetch_ahead(const block_q8_0 * rows, int64_t lda, int64_t l) {
    const char * next = (const char *) (rows + lda * ROWS * AHEAD + l * ROWS);
    for (size_t byte = 0; byte < ROWS * sizeof(block_q8_0); byte += 64) {
        _mm_prefetch(next + byte, _MM_HINT_T0);
    }
}

static inline float sum(__m256 x) {
    __m128 res = _mm_add_ps(_mm256_extractf128_ps(x, 1), _mm256_castps256_ps128(x));
    res = _mm_add_ps(res, _mm_movehl_ps(res, res));
    return _mm_cvtss_f32(_mm_add_ss(res, _mm_movehdup_ps(res)));
}

// n columns of k blocks, the scale of each block, and room for as many of what a kernel makes of them.
template <typename Extra> struct Columns {
    const block_q8_0 * block;
    int64_t            stride;
    const float *      scale;  // [n, k]
    Extra *            extra;
};

// Below, once for each instruction set: a Panel is one block (32 values) of 8 rows of weights; prepare is for a column's
// k blocks of `extra`; multiply is a tile times the columns j … j + N − 1, where panel(l) is the tile's block l.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__)

#define HEARSAY_SET "AVX-512 VNNI"

constexpr int LINES = 0;  // of the next tile, fetched with each block that is multiplied

struct Panel {
    __m512i pair[ROWS / 2];  // rows 2p and 2p + 1, each value + 128
    __m256  scale;
};

static inline Panel panel_of(const block_q8_0 * a, int64_t lda) {
    Panel panel;
    for (int p = 0; p < ROWS / 2; p++) {
        const __m512i even = _mm512_castsi256_si512(values_of(a[lda * (2 * p)]));
        const __m512i both = _mm512_inserti64x4(even, values_of(a[lda * (2 * p + 1)]), 1);
        panel.pair[p] = _mm512_xor_si512(both, _mm512_set1_epi8(-128));
    }
    panel.scale = scales_of(a, lda);
    return panel;
}

typedef __m256i Extra;  // of a block of activations: −128 · the sum of the 4 bytes of each lane

static inline void prepare(const block_q8_0 * b, int64_t k, Extra * extra) {
    const __m256i zero = _mm256_setzero_si256();
    for (int64_t l = 0; l < k; l++) {
        extra[l] = _mm256_sub_epi32(zero, _mm256_dpbusd_epi32(zero, _mm256_set1_epi8(-128), values_of(b[l])));
    }
}

template <int N, typename Source>
static inline void multiply(Source panel, Columns<Extra> y, int64_t from, int64_t k, float * c, int64_t ldc) {
    const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i which[ROWS / 2];  // whose scale, for each pair
    __m512  acc[N][ROWS / 2];
    for (int p = 0; p < ROWS / 2; p++) {
        which[p] = _mm512_add_epi32(first, _mm512_set1_epi32(2 * p));
        for (int j = 0; j < N; j++) {
            acc[j][p] = _mm512_setzero_ps();
        }
    }
    for (int64_t l = 0; l < k; l++) {
        const Panel & a = panel(l);
        for (int j = 0; j < N; j++) {
            const int64_t at     = (from + j) * k + l;
            const __m512i values = _mm512_broadcast_i64x4(values_of(y.block[y.stride * (from + j) + l]));
            const __m512i minus  = _mm512_broadcast_i64x4(y.extra[at]);
            const __m512  both   = _mm512_castps256_ps512(_mm256_mul_ps(a.scale, _mm256_set1_ps(y.scale[at])));
            for (int p = 0; p < ROWS / 2; p++) {
                const __m512 product = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(minus, a.pair[p], values));
                acc[j][p] = _mm512_fmadd_ps(_mm512_permutexvar_ps(which[p], both), product, acc[j][p]);
            }
        }
    }
    for (int j = 0; j < N; j++) {
        for (int p = 0; p < ROWS / 2; p++) {
            c[ldc * j + 2 * p]     = sum(_mm512_castps512_ps256(acc[j][p]));
            c[ldc * j + 2 * p + 1] = sum(_mm512_extractf32x8_ps(acc[j][p], 1));
        }
    }
}

#else

#if defined(__AVXVNNI__)
#define HEARSAY_SET "AVX-VNNI"
#else
#define HEARSAY_SET "AVX2"
#endif

constexpr int LINES = 2;

struct Panel {
    __m256i row[ROWS];
    __m256  scale;
};

static inline Panel panel_of(const block_q8_0 * a, int64_t lda) {
    Panel panel;
    for (int r = 0; r < ROWS; r++) {
        panel.row[r] = values_of(a[lda * r]);
    }
    panel.scale = scales_of(a, lda);
    return panel;
}

typedef __m256 Extra;  // [k, N] of the columns at work: the products of both scales, by the first pass over a tile

static inline void prepare(const block_q8_0 *, int64_t, Extra *) {}

// Sums of 4 products of bytes, unsigned and signed.
static inline __m256i products(__m256i magnitude, __m256i values) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), magnitude, values);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, values), _mm256_set1_epi16(1));
#endif
}

template <int N, typename Source>
static inline void multiply(Source panel, Columns<Extra> y, int64_t from, int64_t k, float * c, int64_t ldc) {
    constexpr int R = N == 1 ? ROWS : N == 2 ? 4 : 2;  // rows of a pass: the sums of their outputs stay in registers
    const block_q8_0 * block = y.block + y.stride * from;
    for (int first = 0; first < ROWS; first += R) {
        __m256 acc[N][R];
        for (int j = 0; j < N; j++) {
            for (int r = 0; r < R; r++) {
                acc[j][r] = _mm256_setzero_ps();
            }
        }
        for (int64_t l = 0; l < k; l++) {
            const Panel & a    = panel(l);
            Extra *       both = y.extra + l * N;
            if (first == 0) {
                for (int j = 0; j < N; j++) {
                    both[j] = _mm256_mul_ps(a.scale, _mm256_set1_ps(y.scale[(from + j) * k + l]));
                }
            }
            for (int r = 0; r < R; r++) {
                const __m256i row       = a.row[first + r];
                const __m256i magnitude = _mm256_abs_epi8(row);
                for (int j = 0; j < N; j++) {
                    const __m256i values = _mm256_sign_epi8(values_of(block[y.stride * j + l]), row);
                    const __m256  scale  = _mm256_broadcast_ss((const float *) (both + j) + first + r);
                    acc[j][r] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(products(magnitude, values)), acc[j][r]);
                }
            }
        }
        for (int j = 0; j < N; j++) {
            for (int r = 0; r < R; r++) {
                c[ldc * j + first + r] = sum(acc[j][r]);
            }
        }
    }
}

#endif

// What is compiled, for engines/llama.py.
extern "C" {
extern const char hearsay_q8_0[];
const char hearsay_q8_0[] = HEARSAY_SET;
}

// c[j, i] = a[i] · b[j] for m rows of weights and n columns of k blocks each: this thread's part of it.
// False: m is no multiple of 8, nothing was done.
static bool q8_0(int64_t m, int64_t n, int64_t k, const block_q8_0 * a, int64_t lda, const block_q8_0 * b, int64_t ldb,
                 float * c, int64_t ldc, int ith, int nth) {
    if (m % ROWS) {
        return false;
    }
    const int64_t duty  = (m / ROWS + nth - 1) / nth;
    const int64_t begin = duty * ith;
    const int64_t end   = begin + duty < m / ROWS ? begin + duty : m / ROWS;
    if (begin >= end) {
        return true;
    }
    Panel * panels = (Panel *) scratch(k * sizeof(Panel) + n * k * (sizeof(Extra) + sizeof(float)));
    Extra * extra  = (Extra *) (panels + k);
    float * scale  = (float *) (extra + n * k);
    for (int64_t j = 0; j < n; j++) {
        prepare(b + ldb * j, k, extra + j * k);
        for (int64_t l = 0; l < k; l++) {
            scale[j * k + l] = _cvtsh_ss(b[ldb * j + l].d);
        }
    }
    const Columns<Extra> y = {b, ldb, scale, extra};
    for (int64_t t = begin; t < end; t++) {
        const block_q8_0 * rows = a + lda * ROWS * t;
        float *            out  = c + ROWS * t;
        if (n == 1) {
            Panel panel;
            multiply<1>([&](int64_t l) -> const Panel & {
                fetch_ahead(rows, lda, l);
                return panel = panel_of(rows + l, lda);
            }, y, 0, k, out, ldc);
            continue;
        }
        for (int64_t l = 0; l < k; l++) {
            if (LINES == 0) {
                fetch_ahead(rows, lda, l);
            }
            panels[l] = panel_of(rows + l, lda);
        }
        const char * next = (const char *) (rows + lda * ROWS);
        const char * last = (const char *) (rows + lda * ROWS * 2);
        const auto   made = [&](int64_t l) -> const Panel & {
            for (int line = 0; line < LINES && next < last; line++, next += 64) {
                _mm_prefetch(next, _MM_HINT_T0);
            }
            return panels[l];
        };
        for (int64_t j = 0; j < n; j += COLUMNS) {
            float * to = out + ldc * j;
            switch (n - j) {
                case 1:  multiply<1>(made, y, j, k, to, ldc); break;
                case 2:  multiply<2>(made, y, j, k, to, ldc); break;
                case 3:  multiply<3>(made, y, j, k, to, ldc); break;
                default: multiply<COLUMNS>(made, y, j, k, to, ldc);
            }
        }
    }
    return true;
}

}  // namespace hearsay
#endif
