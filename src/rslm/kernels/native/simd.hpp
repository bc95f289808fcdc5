// Eight doubles at a time on any instruction set: the compiler splits `vec` where registers are narrower.
// Everything here has internal linkage, because the kernels are compiled once per instruction set and a linker that
// merged two versions of a function could leave the wider one for a machine that lacks it.
#pragma once
#include "kernels.hpp"
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define RSLM_INLINE inline __attribute__((always_inline))

namespace {
using rslm::LANES;
using rslm::Values;

typedef double vec __attribute__((vector_size(64)));
typedef double quad __attribute__((vector_size(32)));
typedef float vec32 __attribute__((vector_size(32)));

template <class V> RSLM_INLINE V load(const void *p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class V> RSLM_INLINE void store(void *p, V v) { std::memcpy(p, &v, sizeof v); }

// n ≥ 0 numbers, at most eight of them used; the rest is zero and not read.
RSLM_INLINE vec load_some(const double *p, int n) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_pd(__mmask8(n < LANES ? (1 << n) - 1 : 255), p);
#else
    vec v = {};
    for (int i = 0; i < n && i < LANES; i++) v[i] = p[i];
    return v;
#endif
}

// A quad with four zeros behind it, and back.
RSLM_INLINE vec widen(quad q) {
#if defined(__AVX512F__)
    return (vec)_mm512_zextpd256_pd512((__m256d)q);
#else
    return vec{q[0], q[1], q[2], q[3]};
#endif
}
RSLM_INLINE quad narrow(vec v) {
#if defined(__AVX512F__)
    return (quad)_mm512_castpd512_pd256((__m512d)v);
#else
    return quad{v[0], v[1], v[2], v[3]};
#endif
}

RSLM_INLINE vec square_root(vec v) {
    for (int l = 0; l < LANES; l++) v[l] = __builtin_sqrt(v[l]);
    return v;
}

// n ≤ 8 values from position p on; the rest is zero.
RSLM_INLINE vec load_values(const Values &y, int64_t p, int n) {
    if (n == LANES) return y.f64 ? load<vec>(y.f64 + p) : __builtin_convertvector(load<vec32>(y.f32 + p), vec);
    vec v = {};
    for (int i = 0; i < n; i++) v[i] = y.f64 ? y.f64[p + i] : double(y.f32[p + i]);
    return v;
}
RSLM_INLINE void store_values(const Values &y, int64_t p, int n, vec v) {
    if (n == LANES) {
        if (y.f64) store(y.f64 + p, v);
        else store(y.f32 + p, __builtin_convertvector(v, vec32));
    } else
        for (int i = 0; i < n; i++)
            if (y.f64) y.f64[p + i] = v[i];
            else y.f32[p + i] = float(v[i]);
}

// Eight numbers that are used one by one. They go through memory, because a broadcast from there is a plain load,
// while one from a register takes the port that the shuffles need.
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
    double *p = (double *)out;
    for (int h = 0; h < LANES; h += 4) {
        const __m256d a = _mm256_loadu_pd(row[h]), b = _mm256_loadu_pd(row[h + 1]);
        const __m256d c = _mm256_loadu_pd(row[h + 2]), d = _mm256_loadu_pd(row[h + 3]);
        const __m256d ab0 = _mm256_unpacklo_pd(a, b), ab1 = _mm256_unpackhi_pd(a, b);
        const __m256d cd0 = _mm256_unpacklo_pd(c, d), cd1 = _mm256_unpackhi_pd(c, d);
        _mm256_storeu_pd(p + h, _mm256_permute2f128_pd(ab0, cd0, 0x20));
        _mm256_storeu_pd(p + 8 + h, _mm256_permute2f128_pd(ab1, cd1, 0x20));
        _mm256_storeu_pd(p + 16 + h, _mm256_permute2f128_pd(ab0, cd0, 0x31));
        _mm256_storeu_pd(p + 24 + h, _mm256_permute2f128_pd(ab1, cd1, 0x31));
    }
#else
    double *p = (double *)out;
    for (int l = 0; l < LANES; l++)
        for (int k = 0; k < 4; k++) p[k * LANES + l] = row[l][k];
#endif
}

RSLM_INLINE double sum(vec a) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_pd((__m512d)a);
#else
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
#endif
}

// Lane k of the result is the sum over the lanes of a[k].
RSLM_INLINE vec sums(const vec a[LANES]) {
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
    const auto half = [&](int i) { // the two halves of a[i] added
        const double *p = (const double *)(a + i);
        return _mm256_add_pd(_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4));
    };
    vec s;
    for (int h = 0; h < LANES; h += 4) {
        const __m256d ab = _mm256_hadd_pd(half(h), half(h + 1)), cd = _mm256_hadd_pd(half(h + 2), half(h + 3));
        const __m256d total = _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20), _mm256_permute2f128_pd(ab, cd, 0x31));
        _mm256_storeu_pd((double *)&s + h, total);
    }
    return s;
#else
    vec s;
    for (int k = 0; k < LANES; k++) s[k] = sum(a[k]);
    return s;
#endif
}

} // namespace
