// The kernels for regressions on features: the rows of X U take the place of the rows of U in the kernels for entries.
//
// X_t U is computed task by task in memory of the thread, never for all rows at once. If tasks are centred, the mean over the task is
// subtracted, which has the effect of an intercept. Sums by features are computed from X_tᵀ e, one number per feature, so that X_t U is the
// only product whose cost is rank times the size of X.
#include "groups.hpp"

namespace {
using rslm::FeatureRows;

constexpr int64_t BETWEEN = 1 << 12; // rows of a task between two checks whether to stop

struct Features {
    const FeatureRows &x;
    int64_t d, padded; // number of features, and the same rounded up to a multiple of eight
    explicit Features(const FeatureRows &x) : x(x), d(x.features), padded(blocks_of(d) * LANES) {}

    // f = Σ_j x_ij u_j
    template <int Q> RSLM_INLINE void lift(int64_t i, const double *u, double *f) const {
        Row<Q> even, odd; // two, so that additions do not wait for each other
        even.clear(), odd.clear();
        if (x.indptr) {
            int64_t p = x.indptr[i];
            const int64_t end = x.indptr[i + 1];
            for (; p + 1 < end; p += 2) {
                even.add(value_at(x.values, p), u + int64_t(x.index[p]) * (4 * Q));
                odd.add(value_at(x.values, p + 1), u + int64_t(x.index[p + 1]) * (4 * Q));
            }
            if (p < end) even.add(value_at(x.values, p), u + int64_t(x.index[p]) * (4 * Q));
        } else {
            const double *row = x.values.f64 + i * x.features;
            int64_t j = 0;
            for (; j + 1 < x.features; j += 2) even.add(row[j], u + j * (4 * Q)), odd.add(row[j + 1], u + (j + 1) * (4 * Q));
            if (j < x.features) even.add(row[j], u + j * (4 * Q));
        }
        even.add(odd);
        even.put(f);
    }
    // Four dense rows at once: u is read from the cache once for all of them.
    template <int Q> RSLM_INLINE void lift_four(const int32_t *rows, const double *u, double *f) const {
        const double *row[4];
        Row<Q> sum[4];
        for (int k = 0; k < 4; k++) row[k] = x.values.f64 + int64_t(rows[k]) * x.features, sum[k].clear();
        for (int64_t j = 0; j < x.features; j++) {
            const Row<Q> at = Row<Q>::at(u + j * (4 * Q));
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) sum[k].add(row[k][j], at);
        }
        for (int k = 0; k < 4; k++) sum[k].put(f + k * (4 * Q));
    }
    // `lift` for all rows of task t; false if the call was stopped before all were done.
    template <int Q> bool lift_all(const Pattern &c, int64_t t, const double *u, double *f) const {
        const int32_t *rows = c.index + c.indptr[t];
        const int64_t n = c.indptr[t + 1] - c.indptr[t];
        int64_t i = 0;
        for (int64_t end = 0; end < n;) {
            if (over(c)) return false;
            end = n - i < BETWEEN ? n : i + BETWEEN;
            if (!x.indptr && Q <= 8)
                for (; i + 4 <= end; i += 4) lift_four<Q>(rows + i, u, f + i * (4 * Q));
            for (; i < end; i++) lift<Q>(rows[i], u, f + i * (4 * Q));
        }
        return true;
    }
    // Σ_j x_ij a_j
    RSLM_INLINE double product(int64_t i, const double *a) const {
        double total = 0;
        if (x.indptr) {
            double odd = 0;
            int64_t p = x.indptr[i];
            const int64_t end = x.indptr[i + 1];
            for (; p + 1 < end; p += 2) {
                total += value_at(x.values, p) * a[x.index[p]];
                odd += value_at(x.values, p + 1) * a[x.index[p + 1]];
            }
            if (p < end) total += value_at(x.values, p) * a[x.index[p]];
            return total + odd;
        }
        const double *row = x.values.f64 + i * x.features;
        vec s = {};
        int64_t j = 0;
        for (; j + LANES <= x.features; j += LANES) s += load<vec>(row + j) * load<vec>(a + j);
        for (; j < x.features; j++) total += row[j] * a[j];
        return total + sum(s);
    }
    // a_j += e x_ij
    RSLM_INLINE void add(int64_t i, double e, double *a) const {
        if (x.indptr)
            for (int64_t p = x.indptr[i]; p < x.indptr[i + 1]; p++) a[x.index[p]] += e * value_at(x.values, p);
        else {
            const double *row = x.values.f64 + i * x.features;
            int64_t j = 0;
            for (; j + LANES <= x.features; j += LANES) store(a + j, load<vec>(a + j) + e * load<vec>(row + j));
            for (; j < x.features; j++) a[j] += e * row[j];
        }
    }
    // a_j = u_j v for the rows of a padded factor
    template <int Q> RSLM_INLINE void products(const double *u, const Row<Q> &v, double *a) const {
        for (int64_t j = 0; j < padded; j += LANES) {
            reg s[LANES];
#pragma GCC unroll 8
            for (int i = 0; i < LANES; i++) s[i] = v.product(u + (j + i) * (4 * Q));
            store(a + j, sums(s));
        }
    }
    // A factor of d rows, padded with zeros on the right and below.
    template <int Q> void pad_factor(const double *from, int rank, double *to) const {
        pad<Q>(from, d, rank, to);
        std::memset(to + d * (4 * Q), 0, sizeof(double) * size_t(padded - d) * (4 * Q));
    }
};

// Subtracts the mean.
RSLM_INLINE void centre(double *m, int64_t n) {
    double mean = 0;
    for (int64_t p = 0; p < n; p++) mean += m[p];
    mean /= double(n);
    for (int64_t p = 0; p < n; p++) m[p] -= mean;
}
RSLM_INLINE Values shifted(const Values &y, int64_t p) { return {y.f64 ? y.f64 + p : nullptr, y.f32 ? y.f32 + p : nullptr}; }

template <int Q>
double evaluate_tasks(const Pattern &c, const FeatureRows &rows_of_x, bool centred, Workspace &workspace, int threads, const Values &y,
                      const double *U, int rank, const rslm::Ridge &ridge, bool pinned, double *V, double *factors, const Values &residual, double *by_features) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const Features x(rows_of_x);
    double *u = workspace.reserve(size_t(x.padded + 1) * width + 8 + size_t(c.shard_count * x.d) * width);
    x.pad_factor<Q>(U, rank, u);
    Buffer<double> squares(c.shard_count);
    std::memset(squares.data, 0, sizeof(double) * size_t(c.shard_count));
    Buffer<int32_t> counting(c.most_entries + LANES); // row numbers within a task
    for (int64_t i = 0; i < c.most_entries + LANES; i++) counting[i] = int32_t(i);

    const auto make = [&] {
        return [&, systems = Systems(rank, true), rows = Buffer<double>(LANES * padded), lifted = Buffer<double>((c.most_entries + LANES) * width),
                back = Buffer<double>(x.padded)](int64_t shard, const Group &group, double *sum) mutable {
            int64_t first[LANES + 1] = {0}; // where the rows of each task begin in `lifted`, with one zero row after each task
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), start = c.indptr[t], n = c.indptr[t + 1] - start;
                double *f = lifted + first[l] * width;
                if (!x.lift_all<Q>(c, t, u, f)) return;
                if (centred && n) {
                    Row<Q> mean;
                    mean.clear();
                    for (int64_t i = 0; i < n; i++) mean.add(1.0, f + i * width);
                    for (int64_t i = 0; i < n; i++) {
                        Row<Q> row = Row<Q>::at(f + i * width);
                        row.subtract(1.0 / double(n), mean);
                        row.put(f + i * width);
                    }
                }
                std::memset(f + n * width, 0, sizeof(double) * width);
                first[l + 1] = first[l] + n + 1;
                const int64_t ends[2] = {0, n};
                const Pattern own{ends, counting.data, n, 1, nullptr, 0, 0, false};
                systems.collect(Column<Q>{own, f, shifted(y, start), 0, n, NO_VALUES}, l);
            }
            systems.turn_and_factorise(group, ridge, pinned);
            systems.solve(pinned);
            const size_t size = size_t(triangle(rank)) * LANES;
            std::memcpy(factors + size_t(group.g) * size, systems.factors(), sizeof(double) * size);
            lanes_to_rows(systems.rhs(), rank, rows.data, padded);
            vec square = {};
            for (int l = 0; l < group.lanes; l++) {
                if (over(c)) return;
                const int64_t t = group.column(l), start = c.indptr[t], n = c.indptr[t + 1] - start;
                std::memcpy(V + t * rank, rows + l * padded, sizeof(double) * size_t(rank));
                const Row<Q> v = Row<Q>::at(rows + l * padded);
                const int64_t ends[2] = {0, n};
                const Pattern own{ends, counting.data, n, 1, nullptr, 0, 0, false};
                std::memset(back.data, 0, sizeof(double) * size_t(x.padded));
                for (int64_t p = 0; p < n; p += LANES) {
                    const Batch<Q> batch(own, p, n);
                    const vec e = load_values(y, start + p, batch.n) - batch.products(lifted + first[l] * width, v);
                    store_values(residual, start + p, batch.n, e);
                    square += e * e;
                    const Spilled each = Spilled::of(e);
                    for (int i = 0; i < batch.n; i++) x.add(c.index[start + p + i], each[i], back.data);
                }
                for (int64_t j = 0; j < x.d; j++) {
                    Row<Q> row = Row<Q>::at(sum + j * width);
                    row.add(back[j], v);
                    row.put(sum + j * width);
                }
            }
            squares[shard] += ::sum(square);
        };
    };
    sum_over_shards<Q>(c, x.d, false, u + (x.padded + 1) * width, rank, threads, by_features, make);
    double total = 0;
    for (int64_t s = 0; s < c.shard_count; s++) total += squares[s];
    return total;
}

template <int Q>
void derivative_tasks(const Pattern &c, const FeatureRows &rows_of_x, bool centred, Workspace &workspace, int threads,
                      const Values &residual, const double *U, int rank, const double *V, const double *factors, const double *dU, double *by_features) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const Features x(rows_of_x);
    double *u = workspace.reserve(2 * size_t(x.padded + 1) * width + 8 + size_t(c.shard_count * x.d) * width);
    double *du = u + (x.padded + 1) * width;
    x.pad_factor<Q>(U, rank, u);
    x.pad_factor<Q>(dU, rank, du);

    const auto make = [&] {
        // One number per feature: a = dU v, s = Xᵀ residual, q = Xᵀ X a, then change = Xᵀ X (a + U dv). One per row: moved = X a.
        return [&, rows = Buffer<double>(LANES * padded), lanes = Buffer<vec>(padded), moved = Buffer<double>(c.most_entries),
                a = Buffer<double>(x.padded), q = Buffer<double>(x.padded), s = Buffer<double>(LANES * x.padded)](
                   int64_t, const Group &group, double *sum) {
            double *m = moved.data;
            for (int l = 0; l < group.lanes; l++) {
                if (over(c)) return;
                const int64_t t = group.column(l), start = c.indptr[t], n = c.indptr[t + 1] - start;
                double *of_residual = s + l * x.padded;
                x.products<Q>(du, Row<Q>::of(V + t * rank, rank), a.data);
                std::memset(q.data, 0, sizeof(double) * size_t(x.padded));
                std::memset(of_residual, 0, sizeof(double) * size_t(x.padded));
                for (int64_t p = 0; p < n; p++) m[p] = x.product(c.index[start + p], a.data);
                if (centred) centre(m, n);
                for (int64_t p = 0; p < n; p++) {
                    x.add(c.index[start + p], m[p], q.data);
                    x.add(c.index[start + p], value_at(residual, start + p), of_residual);
                }
                m += n;
                Row<Q> plus, minus;
                plus.clear(), minus.clear();
                for (int64_t j = 0; j < x.d; j++) plus.add(of_residual[j], du + j * width), minus.subtract(q[j], u + j * width);
                plus.add(minus);
                plus.put(rows + l * padded);
            }
            const double *row[LANES];
            for (int k = 0; k < width; k += 4) {
                for (int l = 0; l < LANES; l++) row[l] = rows + (l < group.lanes ? l : 0) * padded + k;
                transpose(row, lanes + k);
            }
            ::solve(rank, factors + size_t(group.g) * size_t(triangle(rank)) * LANES, lanes.data);
            lanes_to_rows(lanes.data, rank, rows.data, padded);
            m = moved.data;
            for (int l = 0; l < group.lanes; l++) {
                if (over(c)) return;
                const int64_t t = group.column(l), start = c.indptr[t], n = c.indptr[t + 1] - start;
                const Row<Q> v = Row<Q>::of(V + t * rank, rank), dv = Row<Q>::at(rows + l * padded);
                x.products<Q>(u, dv, a.data);
                std::memset(q.data, 0, sizeof(double) * size_t(x.padded));
                for (int64_t p = 0; p < n; p++) m[p] += x.product(c.index[start + p], a.data);
                if (centred) centre(m, n);
                for (int64_t p = 0; p < n; p++) x.add(c.index[start + p], m[p], q.data);
                m += n;
                for (int64_t j = 0; j < x.d; j++) {
                    Row<Q> out = Row<Q>::at(sum + j * width);
                    out.add(q[j], v);
                    out.subtract(s[l * x.padded + j], dv);
                    out.put(sum + j * width);
                }
            }
        };
    };
    sum_over_shards<Q>(c, x.d, false, du + (x.padded + 1) * width, rank, threads, by_features, make);
}

// w_i = x_i (U v_t) at every entry (i, t)
template <int Q>
void predict_tasks(const Pattern &c, const FeatureRows &rows_of_x, Workspace &workspace, int threads, const double *U, int rank,
                   const double *V, double *prediction) {
    const Features x(rows_of_x);
    double *u = workspace.reserve(size_t(x.padded + 1) * (4 * Q));
    x.pad_factor<Q>(U, rank, u);
    each(threads, c.columns, 16, [&] {
        return [&, a = Buffer<double>(x.padded)](int64_t t) {
            if (over(c)) return;
            x.products<Q>(u, Row<Q>::of(V + t * rank, rank), a.data);
            for (int64_t p = c.indptr[t]; p < c.indptr[t + 1]; p++) prediction[p] = x.product(c.index[p], a.data);
        };
    });
}

// X_tᵀ z_t by tasks
void features_of_tasks(const Pattern &c, const FeatureRows &rows_of_x, int threads, const Values &z, double *out) {
    const Features x(rows_of_x);
    each(threads, c.columns, 16, [&] {
        return [&](int64_t t) {
            if (over(c)) return;
            std::memset(out + t * x.d, 0, sizeof(double) * size_t(x.d));
            for (int64_t p = c.indptr[t]; p < c.indptr[t + 1]; p++) x.add(c.index[p], value_at(z, p), out + t * x.d);
        };
    });
}

double run_evaluate_tasks(const Pattern &c, const FeatureRows &x, bool centred, Workspace &w, int threads, const Values &y, const double *U,
                          int rank, const rslm::Ridge &ridge, bool pinned, double *V, double *factors, const Values &residual, double *by_features) {
    double squares = 0;
    with_quads(rank, [&](auto q) {
        squares = evaluate_tasks<decltype(q)::value>(c, x, centred, w, threads, y, U, rank, ridge, pinned, V, factors, residual, by_features);
    });
    return squares;
}
void run_derivative_tasks(const Pattern &c, const FeatureRows &x, bool centred, Workspace &w, int threads, const Values &residual,
                          const double *U, int rank, const double *V, const double *factors, const double *dU, double *by_features) {
    with_quads(rank, [&](auto q) {
        derivative_tasks<decltype(q)::value>(c, x, centred, w, threads, residual, U, rank, V, factors, dU, by_features);
    });
}

void run_predict_tasks(const Pattern &c, const FeatureRows &x, Workspace &w, int threads, const double *U, int rank, const double *V,
                       double *prediction) {
    with_quads(rank, [&](auto q) { predict_tasks<decltype(q)::value>(c, x, w, threads, U, rank, V, prediction); });
}

} // namespace

void rslm::RSLM_ISA::add_tasks(Kernels &k) {
    k.evaluate_tasks = run_evaluate_tasks, k.derivative_tasks = run_derivative_tasks;
    k.predict_tasks = run_predict_tasks, k.features_of_tasks = features_of_tasks;
}
