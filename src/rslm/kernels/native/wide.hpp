// The system (XᵀWX + ridge) v = b of one column, of a rank that is known only at run time.
//
// Three ways, of which the cheapest is taken: conjugate gradients with products by X only; a factorisation of the rank × rank system; or,
// with few entries, one of the n × n system of the dual, since (I + PᵀP)⁻¹ = I − Pᵀ(I + PPᵀ)⁻¹P. A factorisation is used as the
// preconditioner of conjugate gradients, which then take one or two steps: the second removes the rounding errors of the first.
#pragma once
#include "groups.hpp"
#include <algorithm>
#include <cmath>

namespace {

#if defined(__AVX512F__)
constexpr int TILE = 8, PARTS = 3; // rows and parts of eight columns whose sums fit the registers
#else
constexpr int TILE = 4, PARTS = 1;
#endif
constexpr int64_t CHUNK = 128;           // rows that stay in the cache while all tiles read them
constexpr double ACCURATE = 1e-13;       // norm of the residual relative to that of the right-hand side
constexpr double ROUNDED_PIVOT = 1e-14;  // pivots below this, relative to the diagonal, are rounding errors
// Costs of a multiplication relative to one in a step of conjugate gradients, which reads a number for every two of them: measured
// with 1e6 entries and ranks from 64 to 384. Conjugate gradients win where they take fewer than about 20 steps at rank 128, 30 at 256.
constexpr double IN_TILE = 0.3, IN_FACTOR = 0.6;
constexpr double AROUND = 5; // steps of conjugate gradients that take as long as the rest of the work with a factor

// A matrix of rows padded with zeros to whole vectors. The distance between rows is an odd number of cache lines, as at a power of
// two all rows of a column of tiles would compete for the same places in the cache.
struct Panel {
    int64_t rows = 0;
    int columns = 0;
    Buffer<double> data;
    explicit Panel(int64_t size) : data(size) {}
    static int64_t distance(int columns) { return LANES * (blocks_of(columns) | 1); }
    int64_t stride() const { return distance(columns); }
    int parts() const { return int(blocks_of(columns)); }
    void shape(int64_t n, int m) { rows = n, columns = m; }
    double *row(int64_t i) const { return data + i * stride(); }
};

// Σ a_k b_kᵀ over rows of a panel: columns first … first + TILE − 1, and P parts from part v on; `out` has the distance of rows `stride`.
template <int P> void add_tile(const double *row, int64_t count, int64_t distance, int first, int v, double sign, double *out, int64_t stride) {
    vec total[TILE][P] = {};
    for (int64_t k = 0; k < count; k++, row += distance) {
        vec x[P];
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) x[j] = load<vec>(row + 8 * (v + j));
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++)
#pragma GCC unroll 4
            for (int j = 0; j < P; j++) total[i][j] += row[first + i] * x[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < TILE; i++)
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) {
            double *to = out + i * stride + 8 * (v + j);
            store(to, load<vec>(to) + sign * total[i][j]);
        }
}
// The same for parts v … last − 1.
void add_tiles(const double *row, int64_t count, int64_t distance, int first, int v, int last, double sign, double *out, int64_t stride) {
    for (; v + PARTS <= last; v += PARTS) add_tile<PARTS>(row, count, distance, first, v, sign, out, stride);
    for (; v < last; v++) add_tile<1>(row, count, distance, first, v, sign, out, stride);
}

// The upper triangle of ZᵀZ, and its triangular factor.
struct Triangle {
    int n = 0;
    Panel a;
    Buffer<double> inverse; // of the diagonal of the factor
    explicit Triangle(int most) : a((most + LANES) * Panel::distance(most)), inverse(most + LANES) {}

    void sum(const Panel &z) { // rows up to the next multiple of eight are written, too
        n = z.columns, a.shape(n, n);
        std::memset(a.data.data, 0, sizeof(double) * size_t(blocks_of(n) * LANES * a.stride()));
        add(z);
    }
    void add(const Panel &z) {
        for (int64_t k = 0; k < z.rows; k += CHUNK)
            for (int i = 0; i < n; i += TILE)
                add_tiles(z.row(k), std::min(CHUNK, z.rows - k), z.stride(), i, i / LANES, z.parts(), 1.0, a.row(i), a.stride());
    }
    // A + diagonal = RᵀR. Rows are processed in blocks: those above are subtracted by tiles, as in the sums.
    void factorise(const double *diagonal) {
        for (int first = 0; first < n; first += LANES) {
            const int last = std::min(first + LANES, n);
            double largest[LANES];
            for (int k = first; k < last; k++) largest[k - first] = a.row(k)[k] += diagonal[k];
            for (int i = first; i < last; i += TILE)
                add_tiles(a.row(0), first, a.stride(), i, first / LANES, a.parts(), -1.0, a.row(i), a.stride());
            for (int k = first; k < last; k++) {
                double *top = a.row(k);
                for (int j = first; j < k; j++) top[j] = 0.0; // so that whole vectors can be used
                // In exact arithmetic no pivot is below the diagonal that was added.
                const double pivot = std::max({top[k], diagonal[k], ROUNDED_PIVOT * largest[k - first], std::numeric_limits<double>::min()});
                inverse[k] = 1.0 / std::sqrt(pivot);
                top[k] = pivot;
                for (int j = first; j < a.stride(); j += LANES) store(top + j, inverse[k] * load<vec>(top + j));
                for (int i = k + 1; i < last; i++)
                    for (int j = first; j < a.stride(); j += LANES) store(a.row(i) + j, load<vec>(a.row(i) + j) - top[i] * load<vec>(top + j));
            }
        }
        for (int k = 0; k < n; k++) a.row(k)[k] = 0.0;
    }
    // Numbers of a factor outside: whole vectors from the diagonal on, and the inverse of the diagonal.
    static int64_t stored(int64_t n) { return 4 * LANES * blocks_of(n) * (blocks_of(n) + 1) + LANES * blocks_of(n); }
    void put(double *out) const {
        std::memcpy(out, inverse.data, sizeof(double) * size_t(n));
        out += blocks_of(n) * LANES;
        for (int k = 0; k < n; k++) {
            const int first = k / LANES * LANES, length = a.parts() * LANES - first;
            std::memcpy(out, a.row(k) + first, sizeof(double) * size_t(length));
            out += length;
        }
    }
    void take(const double *from, int size) {
        n = size, a.shape(n, n);
        std::memcpy(inverse.data, from, sizeof(double) * size_t(n));
        from += blocks_of(n) * LANES;
        for (int k = 0; k < n; k++) {
            const int first = k / LANES * LANES, length = a.parts() * LANES - first;
            std::memcpy(a.row(k) + first, from, sizeof(double) * size_t(length));
            from += length;
        }
    }
    // b, padded with zeros, becomes R⁻ᵀb, or the solution of the system.
    void solve_transposed(double *b) const {
        for (int k = 0; k < n; k++) {
            const double x = b[k] * inverse[k];
            for (int j = k / LANES * LANES; j < n; j += LANES) store(b + j, load<vec>(b + j) - x * load<vec>(a.row(k) + j));
            b[k] = x;
        }
    }
    void solve(double *b) const {
        solve_transposed(b);
        for (int k = n - 1; k >= 0; k--) {
            vec s = {};
            for (int j = k / LANES * LANES; j < n; j += LANES) s += load<vec>(a.row(k) + j) * load<vec>(b + j);
            b[k] = (b[k] - ::sum(s)) * inverse[k];
        }
    }
};

} // namespace
