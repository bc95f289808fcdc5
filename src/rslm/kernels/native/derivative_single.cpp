// The derivative of the gradient along a direction, in single precision: for steps that need few digits of it. Rows take half of the memory,
// so twice as many stay in the caches.
#include "coordinates.hpp"
#include "groups.hpp"

#if defined(__AVX2__)
namespace {

typedef float eight __attribute__((vector_size(32)));

constexpr int64_t PIECE = 512; // entries of a column whose sums are in single precision

// Lane k of the result is the sum over the lanes of a[k].
RSLM_INLINE eight sums(const eight a[LANES]) {
    const auto add = [&](int i, int j) { return _mm256_hadd_ps((__m256)a[i], (__m256)a[j]); };
    const __m256 low = _mm256_hadd_ps(add(0, 1), add(2, 3)), high = _mm256_hadd_ps(add(4, 5), add(6, 7));
    return (eight)_mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

RSLM_INLINE eight eight_of(const Values &y, int64_t p, int n) {
    eight some = {};
    if (n < LANES)
        for (int i = 0; i < n; i++) some[i] = float(value_at(y, p + i));
    else if (y.f32) some = load<eight>(y.f32 + p);
    else some = (eight)_mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(y.f64 + p + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(y.f64 + p)));
    return some;
}

// Kept in memory, as `Spilled`.
struct SpilledFloats {
    float x[LANES];
    explicit RSLM_INLINE SpilledFloats(eight v) {
        store(x, v);
        asm volatile("" : "+m"(x));
    }
    RSLM_INLINE float operator[](int i) const { return x[i]; }
};

// A padded row in registers, as `Row`; Q is even.
template <int Q> struct SingleRow {
    static constexpr int N = Q / 2;
    eight x[N];

    static RSLM_INLINE eight part(const float *p, int v) { return load<eight>(p + 8 * v); }
    static RSLM_INLINE SingleRow of(const double *p, int rank) { // from a row that is not padded
        float row[8 * N] = {};
        for (int k = 0; k < rank; k++) row[k] = float(p[k]);
        SingleRow out;
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) out.x[v] = load<eight>(row + 8 * v);
        return out;
    }
    RSLM_INLINE void clear() {
        for (int v = 0; v < N; v++) x[v] = eight{};
    }
    RSLM_INLINE void add(const SingleRow &other) {
        for (int v = 0; v < N; v++) x[v] += other.x[v];
    }
    RSLM_INLINE void add(float a, const float *p) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] += a * part(p, v);
    }
    RSLM_INLINE void subtract(float a, const float *p) {
#pragma GCC unroll 16
        for (int v = 0; v < N; v++) x[v] -= a * part(p, v);
    }
    RSLM_INLINE eight product(const float *p) const {
        eight s = x[0] * part(p, 0);
#pragma GCC unroll 16
        for (int v = 1; v < N; v++) s += x[v] * part(p, v);
        return s;
    }
    // Adds a v − b w to the row at p.
    static RSLM_INLINE void add_to(float *p, float a, const SingleRow &v, float b, const SingleRow &w) {
#pragma GCC unroll 16
        for (int k = 0; k < N; k++) store(p + 8 * k, part(p, k) + a * v.x[k] - b * w.x[k]);
    }
};
template <int Q> RSLM_INLINE eight products(const Batch<Q> &batch, const float *rows, const SingleRow<Q> &row) {
    eight s[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) s[i] = row.product(rows + 2 * batch.offset[i]);
    return sums(s);
}

template <int Q>
void derivative(const Pattern &c, Workspace &workspace, int threads, const Values &residual, const Values &weight, const double *U,
                int rank, const double *V, const double *factors, const double *dU, double *dV, double *by_rows) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const bool weighted = weight.f64 || weight.f32;
    float *u = (float *)workspace.reserve(2 * size_t(c.rows + 1) * width + size_t(c.sum_count() * c.rows) * width);
    float *du = u + width; // the rows of U and dU are interleaved, as they are used together
    pad<Q>(U, c.rows, rank, u, 2 * width);
    pad<Q>(dU, c.rows, rank, du, 2 * width);

    const auto make = [&] {
        // change = dX v for the entries of a group
        // Everything else is captured by value, so that it stays in registers despite stores.
        return [=, change = Buffer<float>(c.most_entries), rows = Buffer<double>(LANES * padded), lanes = Buffer<vec>(padded)](
                   int64_t, const Group &group, float *sum) {
            float *a = change.data;
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                const SingleRow<Q> v = SingleRow<Q>::of(V + t * rank, rank);
                double *const rhs = rows + l * padded;
                for (int k = 0; k < padded; k++) rhs[k] = dV && k < rank ? dV[t * rank + k] : 0.0;
                for (int64_t p = c.indptr[t]; p < end;) { // sums of many numbers are in double precision
                    SingleRow<Q> plus[2], minus[2];       // two of each, so that additions do not wait for each other
                    for (int i = 0; i < 2; i++) plus[i].clear(), minus[i].clear();
                    for (const int64_t stop = end - p < PIECE ? end : p + PIECE; p < stop; p += LANES, a += LANES) {
                        const Batch<Q> batch(c, p, end);
                        eight moved = products(batch, du, v);
                        store(a, moved);
                        if (weighted) moved *= eight_of(weight, p, batch.n);
                        const SpilledFloats e(eight_of(residual, p, batch.n)), b(moved);
#pragma GCC unroll 8
                        for (int i = 0; i < LANES; i++) {
                            plus[i % 2].add(e[i], du + 2 * batch.offset[i]);
                            minus[i % 2].subtract(b[i], u + 2 * batch.offset[i]);
                        }
                    }
                    plus[0].add(plus[1]), minus[0].add(minus[1]), plus[0].add(minus[0]);
                    float sum[padded];
                    std::memcpy(sum, plus[0].x, sizeof plus[0].x);
                    for (int k = 0; k < width; k++) rhs[k] += double(sum[k]);
                }
            }
            const double *row[LANES];
            for (int k = 0; k < width; k += 4) {
                for (int l = 0; l < LANES; l++) row[l] = rows + (l < group.lanes ? l : 0) * padded + k;
                transpose(row, lanes + k);
            }
            ::solve(rank, factors + size_t(group.g) * size_t(triangle(rank)) * LANES, lanes.data);
            lanes_to_rows(lanes.data, rank, rows.data, padded);
            a = change.data;
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                const SingleRow<Q> v = SingleRow<Q>::of(V + t * rank, rank), dv = SingleRow<Q>::of(rows + l * padded, rank);
                if (dV) std::memcpy(dV + t * rank, rows + l * padded, sizeof(double) * size_t(rank));
                for (int64_t p = c.indptr[t]; p < end; p += LANES, a += LANES) {
                    const Batch<Q> batch(c, p, end);
                    eight moved = load<eight>(a) + products(batch, u, dv);
                    if (weighted) moved *= eight_of(weight, p, batch.n);
                    const SpilledFloats b(moved), e(eight_of(residual, p, batch.n));
                    for (int i = 0; i < batch.n; i++) SingleRow<Q>::add_to(sum + batch.offset[i], b[i], v, e[i], dv);
                }
            }
        };
    };
    sum_over_shards<Q>(c, u + 2 * (c.rows + 1) * width, rank, threads, by_rows, make);
}

} // namespace

void rslm::RSLM_ISA::derivative_in_single(const Pattern &c, Workspace &w, int threads, const Values &residual, const Values &weight,
                                          const double *U, int rank, const double *V, const double *factors, const double *dU, double *dV,
                                          double *by_rows) {
    with_quads(rank, [&](auto q) {
        derivative<in_single(decltype(q)::value)>(c, w, threads, residual, weight, U, rank, V, factors, dU, dV, by_rows);
    });
}
#endif
