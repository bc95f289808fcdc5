// Eight doubles at a time on any instruction set: in one register, or in several (split.hpp).
// Everything here has internal linkage, because the kernels are compiled once per instruction set and a linker that
// merged two versions of a function could leave the wider one for a machine that lacks it.
#pragma once
#include "kernels.hpp"
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(__AVX512F__)
#include "split.hpp"
#endif

#define RSLM_INLINE inline __attribute__((always_inline))

namespace {
using rslm::LANES;
using rslm::Values;

#if defined(__AVX512F__)
typedef double vec __attribute__((vector_size(64)));
typedef float vec32 __attribute__((vector_size(32)));
typedef decltype(vec{} < vec{}) mask;
typedef vec reg;
constexpr int WIDTH = 8;
RSLM_INLINE vec pick(mask m, vec a, vec b) { return m ? a : b; } // a where m holds, else b
#endif

// Bit l is lane l.
RSLM_INLINE unsigned bits(const mask &m) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)m);
#elif defined(__AVX2__)
    return unsigned(_mm256_movemask_pd((__m256d)m.part[0])) | unsigned(_mm256_movemask_pd((__m256d)m.part[1])) << 4;
#else
    unsigned out = 0;
    for (int l = 0; l < LANES; l++) out |= unsigned(m[l]) << l;
    return out;
#endif
}

template <class V> RSLM_INLINE V load(const void *p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class V> RSLM_INLINE void store(void *p, V v) { std::memcpy(p, &v, sizeof v); }
#if !defined(__AVX512F__) // register by register: compilers copy 64 bytes through memory, in pieces of another size
template <> RSLM_INLINE vec load<vec>(const void *p) {
    vec v;
    RSLM_EACH(i) v.part[i] = load<reg>((const double *)p + WIDTH * i);
    return v;
}
template <> RSLM_INLINE void store<vec>(void *p, vec v) {
    RSLM_EACH(i) store((double *)p + WIDTH * i, v.part[i]);
}
#endif

// n ≥ 0 numbers, at most eight of them used; the rest is zero and not read.
RSLM_INLINE vec load_some(const double *p, int n) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_pd(__mmask8(n < LANES ? (1 << n) - 1 : 255), p);
#else
    double some[LANES] = {};
    for (int i = 0; i < n && i < LANES; i++) some[i] = p[i];
    return load<vec>(some);
#endif
}

// Loads four numbers, followed by four zeros, and stores them.
RSLM_INLINE vec load_half(const double *p) {
#if defined(__AVX512F__)
    return (vec)_mm512_zextpd256_pd512(_mm256_loadu_pd(p));
#else
    vec v = {};
    RSLM_EACH(i) if (i < REGISTERS / 2) v.part[i] = load<reg>(p + WIDTH * i);
    return v;
#endif
}
RSLM_INLINE void store_half(double *p, const vec &v) {
#if defined(__AVX512F__)
    _mm256_storeu_pd(p, _mm512_castpd512_pd256((__m512d)v));
#else
    RSLM_EACH(i) if (i < REGISTERS / 2) store(p + WIDTH * i, v.part[i]);
#endif
}

RSLM_INLINE vec square_root(vec v) {
#if defined(__AVX512F__)
    return (vec)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX2__)
    RSLM_EACH(i) v.part[i] = (reg)_mm256_sqrt_pd((__m256d)v.part[i]);
    return v;
#else
    RSLM_EACH(i) for (int l = 0; l < WIDTH; l++) v.part[i][l] = __builtin_sqrt(v.part[i][l]);
    return v;
#endif
}

RSLM_INLINE vec load_floats(const float *p) {
#if defined(__AVX512F__)
    return __builtin_convertvector(load<vec32>(p), vec);
#else
    vec v;
    RSLM_EACH(i) v.part[i] = __builtin_convertvector(load<reg32>(p + WIDTH * i), reg);
    return v;
#endif
}
RSLM_INLINE vec load_half_floats(const float *p) {
    const float some[LANES] = {p[0], p[1], p[2], p[3], 0, 0, 0, 0};
    return load_floats(some);
}
RSLM_INLINE void store_floats(float *p, const vec &v) {
#if defined(__AVX512F__)
    store(p, __builtin_convertvector(v, vec32));
#else
    RSLM_EACH(i) store(p + WIDTH * i, __builtin_convertvector(v.part[i], reg32));
#endif
}

// n ≤ 8 values from position p on; the rest is zero.
RSLM_INLINE vec load_values(const Values &y, int64_t p, int n) {
    if (n == LANES) return y.f64 ? load<vec>(y.f64 + p) : load_floats(y.f32 + p);
    double some[LANES] = {};
    for (int i = 0; i < n; i++) some[i] = y.f64 ? y.f64[p + i] : double(y.f32[p + i]);
    return load<vec>(some);
}
RSLM_INLINE void store_values(const Values &y, int64_t p, int n, const vec &v) {
    if (n == LANES) {
        if (y.f64) store(y.f64 + p, v);
        else store_floats(y.f32 + p, v);
    } else {
        double some[LANES];
        store(some, v);
        for (int i = 0; i < n; i++)
            if (y.f64) y.f64[p + i] = some[i];
            else y.f32[p + i] = float(some[i]);
    }
}

// Copies n numbers. If they are `many`, whole lines bypass the caches: they are not needed soon, and a line that is overwritten need not be
// read first. They are visible to other threads after a `fence`.
template <class F> RSLM_INLINE void copy_out(F *to, const F *from, int64_t n, bool many) {
    int64_t i = 0;
#if defined(__AVX2__)
    constexpr int64_t LINE = 64 / int64_t(sizeof(F));
    if (many) {
        for (; i < n && (uintptr_t(to + i) & 63); i++) to[i] = from[i];
        for (; i + LINE <= n; i += LINE) {
            const __m256i *line = (const __m256i *)(from + i);
            const __m256i low = _mm256_loadu_si256(line), high = _mm256_loadu_si256(line + 1);
            _mm256_stream_si256((__m256i *)(to + i), low);
            _mm256_stream_si256((__m256i *)(to + i) + 1, high);
        }
    }
#endif
    std::memcpy(to + i, from + i, sizeof(F) * size_t(n - i));
}
constexpr int64_t MANY = 8 << 20; // bytes of output that do not stay in a cache
RSLM_INLINE void fence() {
#if defined(__AVX2__)
    _mm_sfence();
#endif
}

// Eight numbers that are used one by one. They are kept in memory, because a broadcast from memory is a plain load, while
// one from a register uses the port that the shuffles need.
struct Spilled {
    double x[LANES];
    static RSLM_INLINE Spilled of(vec v) {
        Spilled s;
        store(s.x, v);
        asm volatile("" : "+m"(s.x));
        return s;
    }
    RSLM_INLINE double operator[](int i) const { return x[i]; }
};

// out[k][l] = row[l][k] for four columns k of eight rows l.
RSLM_INLINE void transpose(const double *const row[LANES], vec *out) {
#if defined(__AVX512F__)
    const auto pair = [&](int i, int j) {
        return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(row[i])), _mm256_loadu_pd(row[j]), 1);
    };
    const __m512d a = pair(0, 2), b = pair(1, 3), c = pair(4, 6), d = pair(5, 7);
    const __m512d ab0 = _mm512_unpacklo_pd(a, b), ab1 = _mm512_unpackhi_pd(a, b);
    const __m512d cd0 = _mm512_unpacklo_pd(c, d), cd1 = _mm512_unpackhi_pd(c, d);
    out[0] = (vec)_mm512_shuffle_f64x2(ab0, cd0, 0x88);
    out[1] = (vec)_mm512_shuffle_f64x2(ab1, cd1, 0x88);
    out[2] = (vec)_mm512_shuffle_f64x2(ab0, cd0, 0xDD);
    out[3] = (vec)_mm512_shuffle_f64x2(ab1, cd1, 0xDD);
#elif defined(__AVX2__)
    RSLM_EACH(i) {
        const double *const *r = row + 4 * i;
        const __m256d a = _mm256_loadu_pd(r[0]), b = _mm256_loadu_pd(r[1]), c = _mm256_loadu_pd(r[2]), d = _mm256_loadu_pd(r[3]);
        const __m256d ab0 = _mm256_unpacklo_pd(a, b), ab1 = _mm256_unpackhi_pd(a, b);
        const __m256d cd0 = _mm256_unpacklo_pd(c, d), cd1 = _mm256_unpackhi_pd(c, d);
        out[0].part[i] = (reg)_mm256_permute2f128_pd(ab0, cd0, 0x20);
        out[1].part[i] = (reg)_mm256_permute2f128_pd(ab1, cd1, 0x20);
        out[2].part[i] = (reg)_mm256_permute2f128_pd(ab0, cd0, 0x31);
        out[3].part[i] = (reg)_mm256_permute2f128_pd(ab1, cd1, 0x31);
    }
#else
    RSLM_EACH(i) for (int k = 0; k < 4; k++) out[k].part[i] = reg{row[2 * i][k], row[2 * i + 1][k]};
#endif
}

#if defined(__AVX512F__)
RSLM_INLINE double sum(const vec &a) { return _mm512_reduce_add_pd((__m512d)a); }
#else
RSLM_INLINE double sum(const reg &a) {
#if defined(__AVX2__)
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128((__m256d)a), _mm256_extractf128_pd((__m256d)a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
#else
    return a[0] + a[1];
#endif
}
RSLM_INLINE double sum(const vec &a) {
    reg s = a.part[0];
#pragma GCC unroll 4
    for (int i = 1; i < REGISTERS; i++) s += a.part[i];
    return sum(s);
}
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
RSLM_INLINE reg sums_of_four(const reg *a) {
    const __m256d ab = _mm256_hadd_pd((__m256d)a[0], (__m256d)a[1]), cd = _mm256_hadd_pd((__m256d)a[2], (__m256d)a[3]);
    return (reg)_mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20), _mm256_permute2f128_pd(ab, cd, 0x31));
}
#endif
// Lane k of the result is the sum over the lanes of a[k].
RSLM_INLINE vec sums(const reg a[LANES]) {
#if defined(__AVX512F__)
    const auto zip = [&](int i) {
        const __m512d x = (__m512d)a[i], y = (__m512d)a[i + 1];
        return _mm512_add_pd(_mm512_unpacklo_pd(x, y), _mm512_unpackhi_pd(x, y));
    };
    const auto fold = [](__m512d x, __m512d y) {
        return _mm512_add_pd(_mm512_shuffle_f64x2(x, y, 0x88), _mm512_shuffle_f64x2(x, y, 0xDD));
    };
    return (vec)fold(fold(zip(0), zip(2)), fold(zip(4), zip(6)));
#elif defined(__AVX2__)
    vec s;
    RSLM_EACH(i) s.part[i] = sums_of_four(a + 4 * i);
    return s;
#else
    vec s;
    RSLM_EACH(i) s.part[i] = reg{sum(a[2 * i]), sum(a[2 * i + 1])};
    return s;
#endif
}

} // namespace
