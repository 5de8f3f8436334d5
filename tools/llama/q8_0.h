// Products of q8_0 weights and q8_0 activations, with AVX-512 VNNI, AVX-VNNI or AVX2, the same bits with each.
//
// An output is the sum over blocks of 32 values, in their order: the block's sum of products of bytes, which is a whole
// number below 2²⁴ and so exact, times the product of both scales, added by one fused multiply-add. It does not matter
// how the whole number comes about, so the bits of an output depend neither on the instruction set nor on how many
// columns there are. (llama.cpp's own kernels keep 8 partial sums of an output, which costs several times the float
// operations; their results differ in the last bits.)
//
// Few columns are multiplied where the weights lie, for the memory decides then. For more, a tile of weights is turned
// first, once for all columns: each lane of a vector then belongs to one row, and nothing need be summed across lanes.
// Products of bytes want one side unsigned: with VNNI the weights go in as a + 128, and 128 times the sum of the
// activations, the same for every row, is taken off beforehand; with AVX2 both sides are widened to 16 bits instead, or,
// for few columns, the weights go in as magnitudes and their signs go to the activations. Activations are never −128:
// llama.cpp scales the largest of a block to ±127.
// notes/2026-11-processors.md has what it gains; tests/engines/test_products.py compares the bits. On ARM llama.cpp
// repacks q8_0 itself.

#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HEARSAY_Q8_0 1

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hearsay {

constexpr int ROWS  = 8;  // of weights in a tile that is multiplied where it lies
constexpr int AHEAD = 2;  // tiles that are fetched before they are due

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
template <typename Block> static inline void fetch_ahead(const Block * rows, int64_t lda, int64_t l) {
    const char * next = (const char *) (rows + lda * ROWS * AHEAD + l * ROWS);
    for (size_t byte = 0; byte < ROWS * sizeof(Block); byte += 64) {
        _mm_prefetch(next + byte, _MM_HINT_T0);
    }
}

// The sums of the lanes of 8 vectors.
static inline __m256i across(const __m256i x[8]) {
    const __m256i y = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    const __m256i z = _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(y, z, 0x20), _mm256_permute2x128_si256(y, z, 0x31));
}

// Below, once for each instruction set: a Panel is one block of TILE rows of weights, turned. `prepare` makes what a
// block of activations needs beside its bytes, and `widen` the words that are multiplied; `begun` is what a sum of
// products begins with, and `more` adds those of one word. `sums` are those of 8 rows where they lie.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__)

#define HEARSAY_SET "AVX-512 VNNI"
#define HEARSAY_WIDE 1
#define HEARSAY_VNNI 1

constexpr int TILE    = 16;
constexpr int FEW     = 3;   // columns, at most, that are multiplied where the weights lie
constexpr int COLUMNS = 12;  // that are multiplied at once, at most: their sums stay in registers
constexpr int WORDS   = 8;   // of a block of activations

typedef __m512i Whole;
typedef __m512  Float;

struct Panel {
    Whole word[WORDS];  // each value + 128
    Float scale;
};

// Turn 16 rows of 32 bytes: word[s] has bytes 4s … 4s + 3 of each row.
static inline void turn(const __m256i row[TILE], Whole word[8]) {
    __m512i x[8], y[8];  // rows r and r + 8, one in each half
    for (int r = 0; r < 8; r++) {
        x[r] = _mm512_inserti64x4(_mm512_castsi256_si512(row[r]), row[r + 8], 1);
    }
    for (int r = 0; r < 8; r += 2) {
        y[r]     = _mm512_unpacklo_epi32(x[r], x[r + 1]);
        y[r + 1] = _mm512_unpackhi_epi32(x[r], x[r + 1]);
    }
    for (int r = 0; r < 8; r += 4) {
        x[r]     = _mm512_unpacklo_epi64(y[r], y[r + 2]);
        x[r + 1] = _mm512_unpackhi_epi64(y[r], y[r + 2]);
        x[r + 2] = _mm512_unpacklo_epi64(y[r + 1], y[r + 3]);
        x[r + 3] = _mm512_unpackhi_epi64(y[r + 1], y[r + 3]);
    }
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd  = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    for (int s = 0; s < 4; s++) {
        word[s]     = _mm512_permutex2var_epi64(x[s], even, x[s + 4]);
        word[s + 4] = _mm512_permutex2var_epi64(x[s], odd, x[s + 4]);
    }
}

static inline void turn(const block_q8_0 * a, int64_t lda, Panel & panel) {
    __m256i row[TILE];
    for (int r = 0; r < TILE; r++) {
        row[r] = _mm256_xor_si256(values_of(a[lda * r]), _mm256_set1_epi8(-128));
    }
    turn(row, panel.word);
    panel.scale = _mm512_insertf32x8(_mm512_castps256_ps512(scales_of(a, lda)), scales_of(a + lda * 8, lda), 1);
}

struct Extra {
    int32_t lane[8];  // −128 · the sum of 4 bytes
    int32_t all;      // −128 · the sum of all
};

static inline void prepare(const block_q8_0 & b, Extra & extra) {
    const __m256i zero  = _mm256_setzero_si256();
    const __m256i lanes = _mm256_sub_epi32(zero, _mm256_dpbusd_epi32(zero, _mm256_set1_epi8(-128), values_of(b)));
    _mm256_storeu_si256((__m256i *) extra.lane, lanes);
    extra.all = 0;
    for (int i = 0; i < 8; i++) {
        extra.all += extra.lane[i];
    }
}

static inline void widen(const block_q8_0 & b, int32_t word[WORDS]) { std::memcpy(word, b.qs, 32); }

static inline Whole begun(int32_t all) { return _mm512_set1_epi32(all); }

static inline Whole more(Whole sum, Whole weights, int32_t word) {
    return _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(word));
}

static inline Float added(Float sum, Float scales, float scale, Whole products) {
    return _mm512_fmadd_ps(_mm512_mul_ps(scales, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(products), sum);
}

static inline Float nothing() { return _mm512_setzero_ps(); }

static inline void store(float * to, Float sum) { _mm512_storeu_ps(to, sum); }

struct Rows {
    __m512i pair[ROWS / 2];  // rows 2p and 2p + 1, each value + 128
};

static inline void take(const block_q8_0 * a, int64_t lda, Rows & rows) {
    for (int p = 0; p < ROWS / 2; p++) {
        const __m512i even = _mm512_castsi256_si512(values_of(a[lda * (2 * p)]));
        const __m512i both = _mm512_inserti64x4(even, values_of(a[lda * (2 * p + 1)]), 1);
        rows.pair[p]       = _mm512_xor_si512(both, _mm512_set1_epi8(-128));
    }
}

static inline __m256i sums(const Rows & rows, const block_q8_0 & b, const Extra & extra) {
    const __m512i values = _mm512_broadcast_i64x4(values_of(b));
    const __m512i minus  = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) extra.lane));
    __m512i       x[ROWS / 2];
    for (int p = 0; p < ROWS / 2; p++) {
        x[p] = _mm512_dpbusd_epi32(minus, rows.pair[p], values);
    }
    const __m512i y = _mm512_add_epi32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    const __m512i z = _mm512_add_epi32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    const __m512i u = _mm512_add_epi32(_mm512_unpacklo_epi64(y, z), _mm512_unpackhi_epi64(y, z));
    const __m512i v = _mm512_add_epi32(u, _mm512_shuffle_i32x4(u, u, 0xB1));
    const __m512i places = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi32(places, v));
}

#else

constexpr int TILE    = 8;
constexpr int COLUMNS = 6;

typedef __m256i Whole;
typedef __m256  Float;

static inline Float added(Float sum, Float scales, float scale, Whole products) {
    return _mm256_fmadd_ps(_mm256_mul_ps(scales, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(products), sum);
}

static inline Float nothing() { return _mm256_setzero_ps(); }

static inline void store(float * to, Float sum) { _mm256_storeu_ps(to, sum); }

#if defined(__AVXVNNI__)
#define HEARSAY_SET "AVX-VNNI"
#define HEARSAY_VNNI 1

constexpr int WORDS = 8;
constexpr int FEW   = 3;

struct Extra {
    int32_t all;  // −128 · the sum of all
};

static inline void prepare(const block_q8_0 & b, Extra & extra) {
    extra.all = 0;
    for (int i = 0; i < 32; i++) {
        extra.all -= 128 * b.qs[i];
    }
}

static inline void widen(const block_q8_0 & b, int32_t word[WORDS]) { std::memcpy(word, b.qs, 32); }

static inline Whole begun(int32_t all) { return _mm256_set1_epi32(all); }

static inline Whole more(Whole sum, Whole weights, int32_t word) {
    return _mm256_dpbusd_avx_epi32(sum, weights, _mm256_set1_epi32(word));
}

static inline __m256i products(__m256i magnitude, __m256i values) {
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), magnitude, values);
}
#else
#define HEARSAY_SET "AVX2"

constexpr int WORDS = 16;
constexpr int FEW   = 4;

struct Extra {
    int32_t all;  // nothing
};

static inline void prepare(const block_q8_0 &, Extra & extra) { extra.all = 0; }

static inline void widen(const block_q8_0 & b, int32_t word[WORDS]) {
    const __m256i values = values_of(b);
    _mm256_storeu_si256((__m256i *) word, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(values)));
    _mm256_storeu_si256((__m256i *) word + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(values, 1)));
}

static inline Whole begun(int32_t) { return _mm256_setzero_si256(); }

static inline Whole more(Whole sum, Whole weights, int32_t word) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(weights, _mm256_set1_epi32(word)));
}

static inline __m256i products(__m256i magnitude, __m256i values) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, values), _mm256_set1_epi16(1));
}
#endif

// Turn 8 rows of 32 bytes: word[s] has bytes 4s … 4s + 3 of each row.
static inline void turn(const __m256i row[TILE], Whole word[8]) {
    __m256i x[8], y[8];
    for (int r = 0; r < 8; r += 2) {
        y[r]     = _mm256_unpacklo_epi32(row[r], row[r + 1]);
        y[r + 1] = _mm256_unpackhi_epi32(row[r], row[r + 1]);
    }
    for (int r = 0; r < 8; r += 4) {
        x[r]     = _mm256_unpacklo_epi64(y[r], y[r + 2]);
        x[r + 1] = _mm256_unpackhi_epi64(y[r], y[r + 2]);
        x[r + 2] = _mm256_unpacklo_epi64(y[r + 1], y[r + 3]);
        x[r + 3] = _mm256_unpackhi_epi64(y[r + 1], y[r + 3]);
    }
    for (int s = 0; s < 4; s++) {
        word[s]     = _mm256_permute2x128_si256(x[s], x[s + 4], 0x20);
        word[s + 4] = _mm256_permute2x128_si256(x[s], x[s + 4], 0x31);
    }
}

struct Panel {
    Whole word[WORDS];  // with VNNI each value + 128, else widened to 16 bits
    Float scale;
};

static inline void turn(const block_q8_0 * a, int64_t lda, Panel & panel) {
    __m256i row[TILE], bytes[8];
    for (int r = 0; r < TILE; r++) {
        row[r] = values_of(a[lda * r]);
    }
    turn(row, bytes);
    for (int s = 0; s < 8; s++) {
#if defined(__AVXVNNI__)
        panel.word[s] = _mm256_xor_si256(bytes[s], _mm256_set1_epi8(-128));
#else
        const __m256i first = _mm256_slli_epi16(bytes[s], 8);  // bytes 0 and 2 of each row, those beside them below
        const __m256i even  = _mm256_srai_epi16(first, 8);
        const __m256i odd   = _mm256_srai_epi16(bytes[s], 8);
        panel.word[2 * s]     = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
        panel.word[2 * s + 1] = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xAA);
#endif
    }
    panel.scale = scales_of(a, lda);
}

struct Rows {
    __m256i row[ROWS];
};

static inline void take(const block_q8_0 * a, int64_t lda, Rows & rows) {
    for (int r = 0; r < ROWS; r++) {
        rows.row[r] = values_of(a[lda * r]);
    }
}

static inline __m256i sums(const Rows & rows, const block_q8_0 & b, const Extra &) {
    const __m256i values = values_of(b);
    __m256i       x[ROWS];
    for (int r = 0; r < ROWS; r++) {
        x[r] = products(_mm256_abs_epi8(rows.row[r]), _mm256_sign_epi8(values, rows.row[r]));
    }
    return across(x);
}

#endif

// What is compiled, for engines/llama.py.
extern "C" {
extern const char hearsay_products[];
const char hearsay_products[] = HEARSAY_SET;
}

// n columns of k blocks, the scale of each block, and what `prepare` made of it.
struct Columns {
    const block_q8_0 * block;
    int64_t            stride, k;
    const float *      scale;
    const Extra *      extra;
};

// 8 rows where they lie, times the columns j … j + N − 1.
template <int N>
static inline void multiply_few(const block_q8_0 * a, int64_t lda, Columns y, int64_t j, float * c, int64_t ldc) {
    __m256 acc[N];
    for (int i = 0; i < N; i++) {
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t l = 0; l < y.k; l++) {
        fetch_ahead(a, lda, l);
        Rows rows;
        take(a + l, lda, rows);
        const __m256 scales = scales_of(a + l, lda);
        for (int i = 0; i < N; i++) {
            const int64_t at    = (j + i) * y.k + l;
            const __m256i whole = sums(rows, y.block[y.stride * (j + i) + l], y.extra[at]);
            const __m256  scale = _mm256_mul_ps(scales, _mm256_set1_ps(y.scale[at]));
            acc[i]              = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(whole), acc[i]);
        }
    }
    for (int i = 0; i < N; i++) {
        _mm256_storeu_ps(c + ldc * (j + i), acc[i]);
    }
}

static inline void multiply_rows(const block_q8_0 * a, int64_t lda, Columns y, int64_t n, float * c, int64_t ldc) {
    for (int64_t j = 0; j < n; j += 4) {
        switch (n - j) {
            case 1:  multiply_few<1>(a, lda, y, j, c, ldc); break;
            case 2:  multiply_few<2>(a, lda, y, j, c, ldc); break;
            case 3:  multiply_few<3>(a, lda, y, j, c, ldc); break;
            default: multiply_few<4>(a, lda, y, j, c, ldc);
        }
    }
}

// What a group of N columns is turned into: for each block the words, then what sums begin with, then the scales, and of
// each the columns side by side.
constexpr size_t column_bytes(int64_t k) { return k * (WORDS + 2) * 4; }

static inline void turn_columns(const Columns & y, int64_t j, int64_t n, char * to) {
    int32_t * out = (int32_t *) to;
    for (int64_t l = 0; l < y.k; l++, out += n * (WORDS + 2)) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (j + i) * y.k + l;
            int32_t       word[WORDS];
            widen(y.block[y.stride * (j + i) + l], word);
            for (int s = 0; s < WORDS; s++) {
                out[s * n + i] = word[s];
            }
            out[WORDS * n + i] = y.extra[at].all;
            std::memcpy(out + (WORDS + 1) * n + i, y.scale + at, 4);
        }
    }
}

// A turned tile times a turned group of N columns. Meanwhile the cache lines from `next` to `last` are fetched.
template <int N>
static inline void multiply(const Panel * panel, int64_t k, const char * columns, float * c, int64_t ldc,
                            const char *& next, const char * last) {
    Float acc[N];
    for (int i = 0; i < N; i++) {
        acc[i] = nothing();
    }
    const int32_t * y = (const int32_t *) columns;
    for (int64_t l = 0; l < k; l++, y += N * (WORDS + 2)) {
        for (int line = 0; line < N && next < last; line++, next += 64) {
            _mm_prefetch(next, _MM_HINT_T0);
        }
        Whole sum[N];
        for (int i = 0; i < N; i++) {
            sum[i] = begun(y[WORDS * N + i]);
        }
        for (int s = 0; s < WORDS; s++) {
            for (int i = 0; i < N; i++) {
                sum[i] = more(sum[i], panel[l].word[s], y[s * N + i]);
            }
        }
        const float * scale = (const float *) (y + (WORDS + 1) * N);
        for (int i = 0; i < N; i++) {
            acc[i] = added(acc[i], panel[l].scale, scale[i], sum[i]);
        }
    }
    for (int i = 0; i < N; i++) {
        store(c + ldc * i, acc[i]);
    }
}

template <int N>
static inline void multiply_group(int64_t n, const Panel * panel, int64_t k, const char * columns, float * c,
                                  int64_t ldc, const char *& next, const char * last) {
    if constexpr (N > 1) {
        if (n < N) {
            return multiply_group<N - 1>(n, panel, k, columns, c, ldc, next, last);
        }
    }
    multiply<N>(panel, k, columns, c, ldc, next, last);
}

// A thread's part of m rows of weights, which go by `rows` at a time where there are n columns.
struct Part {
    int64_t rows, begin, end;

    Part(int64_t m, int64_t n, int ith, int nth) : rows(n > FEW ? TILE : ROWS) {
        const int64_t tiles = (m + rows - 1) / rows;
        const int64_t duty  = (tiles + nth - 1) / nth;
        begin               = duty * ith * rows;
        end                 = begin + duty * rows < m ? begin + duty * rows : m;
    }
};

// c[j, i] = a[i] · b[j] for m rows of weights and n columns of k blocks each: this thread's part of it.
// False: m is no multiple of 8, nothing was done.
static bool q8_0(int64_t m, int64_t n, int64_t k, const block_q8_0 * a, int64_t lda, const block_q8_0 * b, int64_t ldb,
                 float * c, int64_t ldc, int ith, int nth) {
    if (m % ROWS) {
        return false;
    }
    const Part part(m, n, ith, nth);
    if (part.begin >= part.end) {
        return true;
    }
    Panel * panels  = (Panel *) scratch(k * sizeof(Panel) + n * k * (sizeof(Extra) + 4) + n * column_bytes(k));
    char *  columns = (char *) (panels + k);
    Extra * extra   = (Extra *) (columns + n * column_bytes(k));
    float * scale   = (float *) (extra + n * k);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            prepare(b[ldb * j + l], extra[j * k + l]);
            scale[j * k + l] = _cvtsh_ss(b[ldb * j + l].d);
        }
    }
    const Columns y = {b, ldb, k, scale, extra};
    // Groups of about the same size: a small one at the end would take nearly as long as a large one.
    const int64_t groups = (n + COLUMNS - 1) / COLUMNS;
    const auto    first  = [&](int64_t group) { return n * group / groups; };
    if (n > FEW) {
        for (int64_t group = 0; group < groups; group++) {
            turn_columns(y, first(group), first(group + 1) - first(group), columns + first(group) * column_bytes(k));
        }
    }
    for (int64_t row = part.begin; row < part.end; row += part.rows) {
        const block_q8_0 * from = a + lda * row;
        float *            to   = c + row;
        if (n <= FEW || row + part.rows > part.end) {
            multiply_rows(from, lda, y, n, to, ldc);
            continue;
        }
        for (int64_t l = 0; l < k; l++) {
            turn(from + l, lda, panels[l]);
        }
        const char * next = (const char *) (from + lda * TILE);
        const char * last = (const char *) (from + lda * TILE * 2);
        for (int64_t group = 0; group < groups; group++) {
            const int64_t j = first(group);
            multiply_group<COLUMNS>(first(group + 1) - j, panels, k, columns + j * column_bytes(k), to + ldc * j, ldc,
                                    next, last);
        }
    }
    return true;
}

}  // namespace hearsay
#endif
