// Products of q8_0 weights and q8_0 activations with AVX-512 VNNI: tiles of 8 rows of weights, two to a register.
//
// Bit for bit what llama.cpp's own kernels give (tinyBLAS_Q0_AVX, ggml_vec_dot_q8_0_q8_0): the same 8 partial sums of
// each output, the same float operations in the same order. Sums of bytes are whole numbers, so it does not matter how
// they come about. What those kernels do again for every output is done once here: signs, scales, conversions. VNNI
// wants one side unsigned, so weights go in as a + 128, and 128 times the sum of the activations, the same for every
// row, is taken off beforehand. docs/engines.md has what it gains; tests/engines/test_q8_kernel.py compares the bits.

#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__) && defined(__F16C__)
#define HEARSAY_Q8_0 1

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearsay {

constexpr int ROWS = 8;   // of weights in a tile
constexpr int AHEAD = 2;  // tiles that are fetched before they are due

// One block (32 values) of 8 rows of weights.
struct Panel {
    __m512i pair[ROWS / 2];  // rows 2p and 2p + 1, each value + 128
    __m256  scale;
};

// The activations' blocks, [columns, k]: −128 · the sum of the 4 bytes of each lane, and the scale.
struct Activations {
    const __m256i * minus;
    const float *   scale;
};

// At least `bytes` of this thread's own, aligned to 64; kept for the next call.
static inline char * scratch(size_t bytes) {
    static thread_local std::vector<char> memory;
    if (memory.size() < bytes + 64) {
        memory.resize(bytes + 64);
    }
    return (char *) (((uintptr_t) memory.data() + 63) & ~(uintptr_t) 63);
}

static inline Panel panel_of(const block_q8_0 * a, int64_t lda) {
    Panel panel;
    for (int p = 0; p < ROWS / 2; p++) {
        const __m256i even = _mm256_loadu_si256((const __m256i *) a[lda * (2 * p)].qs);
        const __m256i odd  = _mm256_loadu_si256((const __m256i *) a[lda * (2 * p + 1)].qs);
        const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1);
        panel.pair[p] = _mm512_xor_si512(both, _mm512_set1_epi8(-128));
    }
    panel.scale = _mm256_cvtph_ps(_mm_setr_epi16(a[0].d, a[lda].d, a[lda * 2].d, a[lda * 3].d, a[lda * 4].d,
                                                 a[lda * 5].d, a[lda * 6].d, a[lda * 7].d));
    return panel;
}

// Weights are read once, so the memory decides, and a tile is too many short streams for the processor to foresee.
// The rows of the tiles to come lie behind this one's: fetch them, as much for each block as a block of 8 rows takes.
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

// A tile times N columns; panel(l) is the tile's block l.
template <int N, typename Source>
static inline void multiply(Source panel, const block_q8_0 * b, int64_t ldb, Activations y, int64_t k, float * c,
                            int64_t ldc) {
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
            const __m512i values = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) b[ldb * j + l].qs));
            const __m512i minus  = _mm512_broadcast_i64x4(y.minus[j * k + l]);
            const __m512  scale  = _mm512_castps256_ps512(_mm256_mul_ps(a.scale, _mm256_set1_ps(y.scale[j * k + l])));
            for (int p = 0; p < ROWS / 2; p++) {
                const __m512 product = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(minus, a.pair[p], values));
                acc[j][p] = _mm512_fmadd_ps(_mm512_permutexvar_ps(which[p], scale), product, acc[j][p]);
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
    Panel *   panels = (Panel *) scratch(k * sizeof(Panel) + n * k * (sizeof(__m256i) + sizeof(float)));
    __m256i * minus  = (__m256i *) (panels + k);
    float *   scale  = (float *) (minus + n * k);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            const block_q8_0 & block = b[ldb * j + l];
            const __m256i      zero  = _mm256_setzero_si256();
            const __m256i      plus  = _mm256_dpbusd_epi32(zero, _mm256_set1_epi8(-128),
                                                           _mm256_loadu_si256((const __m256i *) block.qs));
            minus[j * k + l] = _mm256_sub_epi32(zero, plus);
            scale[j * k + l] = _cvtsh_ss(block.d);
        }
    }
    const Activations y = {minus, scale};
    for (int64_t t = begin; t < end; t++) {
        const block_q8_0 * rows = a + lda * ROWS * t;
        float *            out  = c + ROWS * t;
        if (n == 1) {
            Panel panel;
            multiply<1>([&](int64_t l) -> const Panel & {
                fetch_ahead(rows, lda, l);
                return panel = panel_of(rows + l, lda);
            }, b, ldb, y, k, out, ldc);
            continue;
        }
        for (int64_t l = 0; l < k; l++) {
            fetch_ahead(rows, lda, l);
            panels[l] = panel_of(rows + l, lda);
        }
        const auto made = [panels](int64_t l) -> const Panel & { return panels[l]; };
        for (int64_t j = 0; j < n; j += 4) {
            const block_q8_0 * column = b + ldb * j;
            const Activations  from   = {minus + j * k, scale + j * k};
            float *            to     = out + ldc * j;
            switch (n - j) {
                case 1:  multiply<1>(made, column, ldb, from, k, to, ldc); break;
                case 2:  multiply<2>(made, column, ldb, from, k, to, ldc); break;
                case 3:  multiply<3>(made, column, ldb, from, k, to, ldc); break;
                default: multiply<4>(made, column, ldb, from, k, to, ldc);
            }
        }
    }
    return true;
}

}  // namespace hearsay
#endif
