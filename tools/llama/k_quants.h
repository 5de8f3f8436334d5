// Products of q4_K and q6_K weights with q8_K activations, the same bits with AVX-512 VNNI, AVX-VNNI and AVX2, for one
// column and for a hundred. q4_k_m is a mixture of both formats.
//
// A block has 256 values in runs of 32 (q4_K) or 16 (q6_K), and each run has a small whole scale. So the sum of a
// block's products is a whole number below 2³¹, and exact however it comes about:
//   q4_K: a value is d · scale · q − dmin · least, q 0 … 15: two whole numbers, each times its float scales, are added
//         by one fused multiply-add each;
//   q6_K: a value is d · scale · (q − 32), q 0 … 63: one whole number.
// Both kinds of q are unsigned, as products of bytes want one side to be.
//
// As in q8_0.h, few columns are multiplied where the weights lie, and for more a tile of weights is turned first.
// tests/engines/test_products.py compares the bits; notes/2026-11-processors.md has what it gains.

#pragma once

#include "q8_0.h"

#if defined(HEARSAY_Q8_0)

namespace hearsay {

constexpr int SUPER = 256;         // values of a block
constexpr int PARTS = SUPER / 32;  // vectors of 32 values that it has
constexpr int FOURS = SUPER / 4;   // words of 4 values

template <typename Weights> struct Kind;

template <> struct Kind<block_q4_K> {
    static constexpr int  RUNS  = 8;
    static constexpr bool APART = true;  // What is taken off has a float scale of its own.
};

template <> struct Kind<block_q6_K> {
    static constexpr int  RUNS  = 16;
    static constexpr bool APART = false;
};

// The values of a block in the order of the activations, one unsigned byte each.
static inline void unpack(const block_q4_K & a, __m256i value[PARTS]) {
    const __m256i low = _mm256_set1_epi8(15);
    for (int c = 0; c < PARTS / 2; c++) {
        const __m256i both = _mm256_loadu_si256((const __m256i *) a.qs + c);
        value[2 * c]       = _mm256_and_si256(both, low);
        value[2 * c + 1]   = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    }
}

static inline void unpack(const block_q6_K & a, __m256i value[PARTS]) {
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(48);
    for (int h = 0; h < 2; h++, value += 4) {
        const __m256i first  = _mm256_loadu_si256((const __m256i *) a.ql + 2 * h);
        const __m256i second = _mm256_loadu_si256((const __m256i *) a.ql + 2 * h + 1);
        const __m256i above  = _mm256_loadu_si256((const __m256i *) a.qh + h);
        const auto    with   = [&](__m256i below, __m256i bits) {
            return _mm256_or_si256(_mm256_and_si256(below, low), _mm256_and_si256(bits, high));
        };
        value[0] = with(first, _mm256_slli_epi16(above, 4));
        value[1] = with(second, _mm256_slli_epi16(above, 2));
        value[2] = with(_mm256_srli_epi16(first, 4), above);
        value[3] = with(_mm256_srli_epi16(second, 4), _mm256_srli_epi16(above, 2));
    }
}

// The scales of a block's runs, 16 bits each, and what is taken off for each unit of the sum of a run. q4_K has its 8 runs
// in both halves; of q6_K the even runs are in the low half and the odd ones in the high half, so that a place within the
// halves names the scales of 32 values.
struct Scales {
    __m256i scale, least;
};

static inline Scales scales_of(const block_q4_K & a) {
    // 12 bytes lie behind d and dmin: s0 … s3 and s4 … s7 end in the 6 bits of the first four scales and leasts, s8 … s11
    // are 4 bits of the last four of each, whose 2 bits above begin s0 … s7.
    const __m256i all   = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) &a));
    const __m128i below = _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i above = _mm_setr_epi8(4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11);
    const __m128i bits  = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i more  = _mm_setr_epi32(0, 0x30303030, 0, 0x30303030);
    const auto    both  = [](__m128i x) { return _mm256_broadcastsi128_si256(x); };
    const __m256i low   = _mm256_srlv_epi32(_mm256_shuffle_epi8(all, both(below)), both(_mm_setr_epi32(0, 0, 0, 4)));
    const __m256i high  = _mm256_srli_epi32(_mm256_shuffle_epi8(all, both(above)), 2);
    const __m256i bytes = _mm256_or_si256(_mm256_and_si256(low, both(bits)), _mm256_and_si256(high, both(more)));
    const __m256i zero  = _mm256_setzero_si256();
    return {_mm256_unpacklo_epi8(bytes, zero), _mm256_unpackhi_epi8(bytes, zero)};
}

static inline Scales scales_of(const block_q6_K & a) {
    const __m128i even  = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m256i scale = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) a.scales), even));
    return {scale, _mm256_slli_epi16(scale, 5)};
}

// The place in `Scales` of a run.
constexpr int place_of(int runs, int run) { return runs == 8 ? run : run / 2 + run % 2 * 8; }

static inline float scale_of(const block_q4_K & a) { return _cvtsh_ss(a.d); }

static inline float scale_of(const block_q6_K & a) { return _cvtsh_ss(a.d); }

static inline float least_scale_of(const block_q4_K & a) { return _cvtsh_ss(a.dmin); }

static inline float least_scale_of(const block_q6_K &) { return 0; }

static inline __m256i add_pairs(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

// n columns of k blocks, and of each block the sums of its runs, 16 bits each, in the places of their scales.
struct SuperColumns {
    const block_q8_K * block;
    int64_t            stride, k;
    const int16_t *    run;  // 16 a block
};

template <int RUNS> static inline void sum_runs(const block_q8_K & b, int16_t run[16]) {
    std::memset(run, 0, 32);
    if (b.d == 0) {
        return;  // llama.cpp leaves the sums of such a block as they were
    }
    for (int r = 0; r < 16; r++) {
        run[place_of(RUNS, r * RUNS / 16)] += b.bsums[r];
    }
    if (RUNS == 8) {
        std::memcpy(run + 8, run, 16);
    }
}

// 8 rows where they lie, times the columns j … j + N − 1.
template <int N, typename Weights>
static inline void multiply_few(const Weights * a, int64_t lda, SuperColumns y, int64_t j, float * c, int64_t ldc) {
    __m256 acc[N];
    for (int i = 0; i < N; i++) {
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t l = 0; l < y.k; l++) {
        fetch_ahead(a, lda, l);
        __m256i sum[N][ROWS], off[N][ROWS];
        alignas(32) float d[ROWS], dmin[ROWS];
        for (int r = 0; r < ROWS; r++) {
            const Weights & block = a[lda * r + l];
            __m256i         value[PARTS];
            unpack(block, value);
            const Scales scales = scales_of(block);
            d[r]    = scale_of(block);
            dmin[r] = least_scale_of(block);
            for (int i = 0; i < N; i++) {
                const __m256i runs = _mm256_loadu_si256((const __m256i *) (y.run + 16 * ((j + i) * y.k + l)));
                off[i][r]          = _mm256_madd_epi16(scales.least, runs);
                sum[i][r] = Kind<Weights>::APART ? _mm256_setzero_si256()
                                                 : _mm256_sub_epi32(_mm256_setzero_si256(), off[i][r]);
            }
            for (int p = 0; p < PARTS; p++) {
                const __m256i scale = _mm256_shuffle_epi8(scales.scale, _mm256_set1_epi16(short((2 * p + 1) << 8 | 2 * p)));
                for (int i = 0; i < N; i++) {
                    const __m256i other = _mm256_loadu_si256((const __m256i *) y.block[y.stride * (j + i) + l].qs + p);
                    sum[i][r] = add_pairs(sum[i][r], _mm256_maddubs_epi16(value[p], other), scale);
                }
            }
        }
        for (int i = 0; i < N; i++) {
            const __m256 scale = _mm256_set1_ps(y.block[y.stride * (j + i) + l].d);
            acc[i] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(d), scale), _mm256_cvtepi32_ps(across(sum[i])), acc[i]);
            if (Kind<Weights>::APART) {
                __m256i x[ROWS / 2];  // both halves of `off` are the same
                for (int r = 0; r < ROWS / 2; r++) {
                    x[r] = _mm256_blend_epi32(off[i][r], off[i][r + ROWS / 2], 0xF0);
                }
                const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
                acc[i] = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(dmin), scale), _mm256_cvtepi32_ps(all), acc[i]);
            }
        }
    }
    for (int i = 0; i < N; i++) {
        _mm256_storeu_ps(c + ldc * (j + i), acc[i]);
    }
}

template <typename Weights>
static inline void multiply_rows(const Weights * a, int64_t lda, SuperColumns y, int64_t n, float * c, int64_t ldc) {
    for (int64_t j = 0; j < n; j += 3) {
        switch (n - j) {
            case 1:  multiply_few<1>(a, lda, y, j, c, ldc); break;
            case 2:  multiply_few<2>(a, lda, y, j, c, ldc); break;
            default: multiply_few<3>(a, lda, y, j, c, ldc);
        }
    }
}

// These are there for both widths of vector. `half_of` gives the first or second 16 bits of each 32: with VNNI as one
// number of 32 bits, else twice.
#if defined(HEARSAY_WIDE)
static inline Whole half_of(Whole pairs, int which) {
    return _mm512_srai_epi32(which ? pairs : _mm512_slli_epi32(pairs, 16), 16);
}
static inline Whole none() { return _mm512_setzero_si512(); }
static inline Whole added_products(Whole sum, Whole a, Whole b) { return _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b)); }
static inline Whole added_pairs(Whole sum, Whole a, int32_t b) { return _mm512_dpwssd_epi32(sum, a, _mm512_set1_epi32(b)); }
static inline Whole less(Whole a, Whole b) { return _mm512_sub_epi32(a, b); }
static inline Float taken(Float sum, Float scales, float scale, Whole products) {
    return _mm512_fnmadd_ps(_mm512_mul_ps(scales, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(products), sum);
}
static inline Float floats(const float * from) { return _mm512_loadu_ps(from); }
#else
static inline Whole half_of(Whole pairs, int which) {
#if defined(HEARSAY_VNNI)
    return _mm256_srai_epi32(which ? pairs : _mm256_slli_epi32(pairs, 16), 16);
#else
    return which ? _mm256_blend_epi16(_mm256_srli_epi32(pairs, 16), pairs, 0xAA)
                 : _mm256_blend_epi16(pairs, _mm256_slli_epi32(pairs, 16), 0xAA);
#endif
}
static inline Whole none() { return _mm256_setzero_si256(); }
static inline Whole added_products(Whole sum, Whole a, Whole b) { return _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b)); }
static inline Whole added_pairs(Whole sum, Whole a, int32_t b) { return add_pairs(sum, a, _mm256_set1_epi32(b)); }
static inline Whole less(Whole a, Whole b) { return _mm256_sub_epi32(a, b); }
static inline Float taken(Float sum, Float scales, float scale, Whole products) {
    return _mm256_fnmadd_ps(_mm256_mul_ps(scales, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(products), sum);
}
static inline Float floats(const float * from) { return _mm256_loadu_ps(from); }
#endif

// A block of TILE rows, turned: each lane belongs to one row.
template <int RUNS> struct SuperPanel {
    Whole word[FOURS];      // 4 values
    Whole scale[RUNS];      // with VNNI 32 bits, else 16 bits twice
    Whole least[RUNS / 2];  // those of two places, 16 bits each
    Float d, dmin;
};

template <typename Weights>
static inline void turn(const Weights * a, int64_t lda, SuperPanel<Kind<Weights>::RUNS> & panel) {
    constexpr int RUNS = Kind<Weights>::RUNS;
    __m256i       value[PARTS][TILE], scale[TILE], least[TILE];
    float         d[TILE], dmin[TILE];
    for (int r = 0; r < TILE; r++) {
        __m256i of_row[PARTS];
        unpack(a[lda * r], of_row);
        for (int p = 0; p < PARTS; p++) {
            value[p][r] = of_row[p];
        }
        const Scales scales = scales_of(a[lda * r]);
        scale[r] = scales.scale;
        least[r] = scales.least;
        d[r]     = scale_of(a[lda * r]);
        dmin[r]  = least_scale_of(a[lda * r]);
    }
    for (int p = 0; p < PARTS; p++) {
        turn(value[p], panel.word + 8 * p);
    }
    panel.d    = floats(d);
    panel.dmin = floats(dmin);
    Whole pairs[8];  // of places
    turn(least, pairs);
    std::memcpy(panel.least, pairs, sizeof panel.least);
    turn(scale, pairs);
    for (int run = 0; run < RUNS; run++) {
        const int place  = place_of(RUNS, run);
        panel.scale[run] = half_of(pairs[place / 2], place % 2);
    }
}

// What a group of N columns is turned into: for each block the words, then the sums of the runs of two places at a time,
// then the scales, and of each the columns side by side.
constexpr int super_words(int runs) { return FOURS + runs / 2 + 1; }

template <int RUNS> static inline void turn_columns(const SuperColumns & y, int64_t j, int64_t n, int32_t * out) {
    for (int64_t l = 0; l < y.k; l++, out += n * super_words(RUNS)) {
        for (int64_t i = 0; i < n; i++) {
            const block_q8_K & b = y.block[y.stride * (j + i) + l];
            int32_t            word[super_words(RUNS)];
            std::memcpy(word, b.qs, SUPER);
            std::memcpy(word + FOURS, y.run + 16 * ((j + i) * y.k + l), RUNS * 2);
            std::memcpy(word + FOURS + RUNS / 2, &b.d, 4);
            for (int s = 0; s < super_words(RUNS); s++) {
                out[s * n + i] = word[s];
            }
        }
    }
}

// Adds the products of one run to the whole sums of N columns.
template <int RUNS, int N>
static inline void add_run(Whole whole[N], const Whole * word, Whole scale, const int32_t * y) {
    constexpr int COUNT = FOURS / RUNS;  // words of a run
#if defined(HEARSAY_VNNI)
    Whole sum[N];
    for (int i = 0; i < N; i++) {
        sum[i] = none();
    }
    for (int s = 0; s < COUNT; s++) {
        for (int i = 0; i < N; i++) {
            sum[i] = more(sum[i], word[s], y[s * N + i]);
        }
    }
    for (int i = 0; i < N; i++) {
        whole[i] = added_products(whole[i], sum[i], scale);
    }
#else
    // 8 words of values up to 15, or 2 of values up to 63, times ±127 stay within 16 bits.
    constexpr int TOGETHER = RUNS == 8 ? 8 : 2;
    for (int first = 0; first < COUNT; first += TOGETHER) {
        for (int i = 0; i < N; i++) {
            Whole sum = _mm256_maddubs_epi16(word[first], _mm256_set1_epi32(y[first * N + i]));
            for (int s = first + 1; s < first + TOGETHER; s++) {
                sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(word[s], _mm256_set1_epi32(y[s * N + i])));
            }
            whole[i] = _mm256_add_epi32(whole[i], _mm256_madd_epi16(sum, scale));
        }
    }
#endif
}

// A turned tile times a turned group of N columns. Meanwhile the cache lines from `next` to `last` are fetched.
template <int N, typename Weights>
static inline void multiply(const SuperPanel<Kind<Weights>::RUNS> * panel, int64_t k, const int32_t * y, float * c,
                            int64_t ldc, const char *& next, const char * last) {
    constexpr int RUNS = Kind<Weights>::RUNS;
    Float         acc[N];
    for (int i = 0; i < N; i++) {
        acc[i] = nothing();
    }
    for (int64_t l = 0; l < k; l++, y += N * super_words(RUNS)) {
        for (int line = 0; line < 8 * N && next < last; line++, next += 64) {
            _mm_prefetch(next, _MM_HINT_T0);
        }
        const int32_t * runs  = y + FOURS * N;
        const float *   scale = (const float *) (runs + RUNS / 2 * N);
        Whole           whole[N];
        const auto      take_off = [&] {  // what is taken off
            for (int i = 0; i < N; i++) {
                whole[i] = none();
            }
            for (int p = 0; p < RUNS / 2; p++) {
                for (int i = 0; i < N; i++) {
                    whole[i] = added_pairs(whole[i], panel[l].least[p], runs[p * N + i]);
                }
            }
        };
        if (Kind<Weights>::APART) {
            for (int i = 0; i < N; i++) {
                whole[i] = none();
            }
        } else {
            take_off();
            for (int i = 0; i < N; i++) {
                whole[i] = less(none(), whole[i]);
            }
        }
        for (int run = 0; run < RUNS; run++) {
            constexpr int COUNT = FOURS / RUNS;
            add_run<RUNS, N>(whole, panel[l].word + run * COUNT, panel[l].scale[run], y + run * COUNT * N);
        }
        for (int i = 0; i < N; i++) {
            acc[i] = added(acc[i], panel[l].d, scale[i], whole[i]);
        }
        if (Kind<Weights>::APART) {
            take_off();
            for (int i = 0; i < N; i++) {
                acc[i] = taken(acc[i], panel[l].dmin, scale[i], whole[i]);
            }
        }
    }
    for (int i = 0; i < N; i++) {
        store(c + ldc * i, acc[i]);
    }
}

template <int N, typename Weights>
static inline void multiply_group(int64_t n, const SuperPanel<Kind<Weights>::RUNS> * panel, int64_t k, const int32_t * y,
                                  float * c, int64_t ldc, const char *& next, const char * last) {
    if constexpr (N > 1) {
        if (n < N) {
            return multiply_group<N - 1, Weights>(n, panel, k, y, c, ldc, next, last);
        }
    }
    multiply<N, Weights>(panel, k, y, c, ldc, next, last);
}

// c[j, i] = a[i] · b[j] for m rows of weights and n columns of k blocks each: this thread's part of it.
// False: m is no multiple of 8, nothing was done.
template <typename Weights>
static bool k_quants(int64_t m, int64_t n, int64_t k, const Weights * a, int64_t lda, const block_q8_K * b, int64_t ldb,
                     float * c, int64_t ldc, int ith, int nth) {
    constexpr int RUNS = Kind<Weights>::RUNS;
    if (m % ROWS) {
        return false;
    }
    const Part part(m, n, ith, nth);
    if (part.begin >= part.end) {
        return true;
    }
    typedef SuperPanel<RUNS> Turned;
    Turned *  panels  = (Turned *) scratch(k * sizeof(Turned) + n * k * (super_words(RUNS) * 4 + 32));
    int32_t * columns = (int32_t *) (panels + k);
    int16_t * run     = (int16_t *) (columns + n * k * super_words(RUNS));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            sum_runs<RUNS>(b[ldb * j + l], run + 16 * (j * k + l));
        }
    }
    const SuperColumns y = {b, ldb, k, run};
    const int64_t groups = (n + COLUMNS - 1) / COLUMNS;
    const auto    first  = [&](int64_t group) { return n * group / groups; };
    const auto    place  = [&](int64_t group) { return columns + first(group) * k * super_words(RUNS); };
    if (n > FEW) {
        for (int64_t group = 0; group < groups; group++) {
            turn_columns<RUNS>(y, first(group), first(group + 1) - first(group), place(group));
        }
    }
    for (int64_t row = part.begin; row < part.end; row += part.rows) {
        const Weights * from = a + lda * row;
        float *         to   = c + row;
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
            multiply_group<COLUMNS, Weights>(first(group + 1) - j, panels, k, place(group), to + ldc * j, ldc, next, last);
        }
    }
    return true;
}

}  // namespace hearsay
#endif
