// Rows of a factor: padding, loading into registers, and access from the entries of a column.
#pragma once
#include "simd.hpp"
#include <cstdlib>

namespace {
using rslm::Pattern;

constexpr int AHEAD = 16; // entries between a prefetch and its use

template <int N> struct Int { static constexpr int value = N; };

// Calls f with the number of quadruples that a padded row of this rank has, as a compile-time constant.
template <class F> void with_quads(int rank, F &&f) {
    if (rank <= 4) return f(Int<1>{});
    if (rank <= 8) return f(Int<2>{});
    if (rank <= 12) return f(Int<3>{});
    if (rank <= 16) return f(Int<4>{});
    if (rank <= 20) return f(Int<5>{});
    if (rank <= 24) return f(Int<6>{});
    if (rank <= 28) return f(Int<7>{});
    if (rank <= 32) return f(Int<8>{});
    if (rank <= 40) return f(Int<10>{});
    if (rank <= 48) return f(Int<12>{});
    if (rank <= 64) return f(Int<16>{});
    if (rank <= 96) return f(Int<24>{});
    return f(Int<32>{});
}

RSLM_INLINE int padded_width(int rank) {
    int width = 0;
    with_quads(rank, [&](auto q) { width = 4 * decltype(q)::value; });
    return width;
}

// Copies rows × rank numbers to rows of 4 Q numbers at distances of `stride` numbers, padded with zeros, and adds one zero
// row after the last.
template <int Q, class F> void pad(const double *from, int64_t rows, int rank, F *to, int stride = 4 * Q) {
    for (int64_t i = 0; i <= rows; i++) {
        const int filled = i < rows ? rank : 0;
        for (int k = 0; k < filled; k++) to[i * stride + k] = F(from[i * rank + k]);
        for (int k = filled; k < 4 * Q; k++) to[i * stride + k] = 0;
    }
}

template <int Q> RSLM_INLINE void prefetch_row(const double *row) {
#pragma GCC unroll 8
    for (int k = 0; k < 4 * Q && k < 64; k += 8) __builtin_prefetch(row + k);
    if (Q % 2) __builtin_prefetch(row + 4 * Q - 1);
}

// A padded row in registers: vectors of eight, the odd quadruple widened with zeros.
template <int Q> struct Row {
    static constexpr int N = (Q + 1) / 2;
    vec x[N];

    static RSLM_INLINE vec part(const double *p, int v) {
        return 2 * v + 1 < Q ? load<vec>(p + 8 * v) : load_half(p + 8 * v);
    }
    static RSLM_INLINE Row at(const double *p) {
        Row row;
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) row.x[v] = part(p, v);
        return row;
    }
    static RSLM_INLINE Row at(const float *p) {
        Row row;
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) row.x[v] = 2 * v + 1 < Q ? load_floats(p + 8 * v) : load_half_floats(p + 8 * v);
        return row;
    }
    static RSLM_INLINE Row of(const double *p, int rank) { // from a row that is not padded
        Row row;
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) row.x[v] = load_some(p + 8 * v, rank > 8 * v ? rank - 8 * v : 0);
        return row;
    }
    RSLM_INLINE void put(double *p) const {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++)
            if (2 * v + 1 < Q) store(p + 8 * v, x[v]);
            else store_half(p + 8 * v, x[v]);
    }
    RSLM_INLINE void clear() {
        for (int v = 0; v < N; v++) x[v] = vec{};
    }
    RSLM_INLINE void add(const Row &other) {
        for (int v = 0; v < N; v++) x[v] += other.x[v];
    }
    RSLM_INLINE void add(double a, const double *p) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] += a * part(p, v);
    }
    RSLM_INLINE void add(double a, const Row &other) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] += a * other.x[v];
    }
    RSLM_INLINE void subtract(double a, const double *p) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] -= a * part(p, v);
    }
    RSLM_INLINE void subtract(double a, const Row &other) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] -= a * other.x[v];
    }
    // The sum over the lanes of the result is the scalar product with the row at p.
    RSLM_INLINE reg product(const double *p) const {
#if defined(__AVX512F__)
        vec s = x[0] * part(p, 0);
#pragma GCC unroll 16
        for (int v = 1; v < N; v++) s += x[v] * part(p, v);
#else
        reg s = x[0].part[0] * load<reg>(p);
#pragma GCC unroll 16
        for (int k = 1; k < 4 * Q / WIDTH; k++) s += x[k / REGISTERS].part[k % REGISTERS] * load<reg>(p + WIDTH * k);
#endif
        return s;
    }
};

// The offsets of the rows of up to eight consecutive entries of a column; the zero row after the last entry.
template <int Q> struct Batch {
    int n;
    int64_t offset[LANES];
    const int32_t *next; // nullptr near the end of the data

    RSLM_INLINE Batch(const Pattern &c, int64_t p, int64_t end)
        : n(end - p < LANES ? int(end - p) : LANES), next(p + AHEAD + LANES <= c.entries() ? c.index + p + AHEAD : nullptr) {
        const int32_t *index = c.index + p;
        if (n == LANES)
            for (int i = 0; i < LANES; i++) offset[i] = int64_t(index[i]) * (4 * Q);
        else
            for (int i = 0; i < LANES; i++) offset[i] = (i < n ? int64_t(index[i]) : c.rows) * (4 * Q);
    }
    // Prefetches the rows needed next. It pays for rows of one cache line only.
    RSLM_INLINE void prefetch(const double *rows) const {
        if (Q <= 2 && next)
            for (int i = 0; i < LANES; i++) prefetch_row<Q>(rows + int64_t(next[i]) * (4 * Q));
    }
    // Lane i is the scalar product of the i-th row with `row`.
    template <int FACTORS = 1> RSLM_INLINE vec products(const double *rows, const Row<Q> &row) const {
        reg s[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) s[i] = row.product(rows + FACTORS * offset[i]);
        return sums(s);
    }
};

// Adds s v to the rows of the entries of a batch, with one s for each.
template <int Q> RSLM_INLINE void add_to_rows(const Batch<Q> &batch, const Spilled &s, const Row<Q> &v, double *sum) {
    batch.prefetch(sum);
    const auto add = [&](int i) __attribute__((always_inline)) {
        Row<Q> row = Row<Q>::at(sum + batch.offset[i]);
        row.add(s[i], v);
        row.put(sum + batch.offset[i]);
    };
    if (batch.n == LANES) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) add(i);
    } else
        for (int i = 0; i < batch.n; i++) add(i);
}

} // namespace
