// The derivative of the gradient along a direction, for losses of constant and of varying curvature.
#include "groups.hpp"

namespace {

template <int Q>
void derivative(const Pattern &c, Workspace &workspace, int threads, const Values &residual, const Values &weight, const double *U,
                int rank, const double *V, const double *factors, const double *dU, double *dV, double *by_rows) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const bool weighted = weight.f64 || weight.f32;
    double *u = workspace.reserve(2 * size_t(c.rows + 1) * width + size_t(c.sum_count() * c.rows) * width);
    double *du = u + width; // the rows of U and dU are interleaved, as they are used together
    pad<Q>(U, c.rows, rank, u, 2 * width);
    pad<Q>(dU, c.rows, rank, du, 2 * width);

    const auto make = [&] {
        // change = dX v for the entries of a group
        // Everything else is captured by value, so that it stays in registers despite stores.
        return [=, change = Buffer<double>(c.most_entries), rows = Buffer<double>(LANES * padded), lanes = Buffer<vec>(padded)](
                   int64_t, const Group &group, double *sum) {
            double *a = change.data;
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                const Row<Q> v = Row<Q>::of(V + t * rank, rank);
                Row<Q> plus[2], minus[2]; // two of each, so that additions do not wait for each other
                for (int i = 0; i < 2; i++) plus[i].clear(), minus[i].clear();
                for (int64_t p = c.indptr[t]; p < end; p += LANES, a += LANES) {
                    const Batch<Q> batch(c, p, end);
                    vec products = batch.template products<2>(du, v);
                    store(a, products);
                    if (weighted) products *= load_values(weight, p, batch.n);
                    const Spilled e = Spilled::of(load_values(residual, p, batch.n)), b = Spilled::of(products);
#pragma GCC unroll 8
                    for (int i = 0; i < LANES; i++) {
                        plus[i % 2].add(e[i], du + 2 * batch.offset[i]);
                        minus[i % 2].subtract(b[i], u + 2 * batch.offset[i]);
                    }
                }
                plus[0].add(plus[1]), minus[0].add(minus[1]), plus[0].add(minus[0]);
                if (dV) plus[0].add(Row<Q>::of(dV + t * rank, rank));
                plus[0].put(rows + l * padded);
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
                const Row<Q> v = Row<Q>::of(V + t * rank, rank), dv = Row<Q>::at(rows + l * padded);
                if (dV) std::memcpy(dV + t * rank, rows + l * padded, sizeof(double) * size_t(rank));
                for (int64_t p = c.indptr[t]; p < end; p += LANES, a += LANES) {
                    const Batch<Q> batch(c, p, end);
                    vec products = load<vec>(a) + batch.template products<2>(u, dv);
                    if (weighted) products *= load_values(weight, p, batch.n);
                    const Spilled b = Spilled::of(products);
                    const Spilled e = Spilled::of(load_values(residual, p, batch.n));
                    for (int i = 0; i < batch.n; i++) {
                        Row<Q> row = Row<Q>::at(sum + batch.offset[i]);
                        row.add(b[i], v);
                        row.subtract(e[i], dv);
                        row.put(sum + batch.offset[i]);
                    }
                }
            }
        };
    };
    sum_over_shards<Q>(c, u + 2 * (c.rows + 1) * width, rank, threads, by_rows, make);
}

void run_derivative(const Pattern &c, Workspace &w, int threads, const Values &residual, const Values &weight, const double *U, int rank,
                    bool single, const double *V, const double *factors, const double *dU, double *dV, double *by_rows) {
#if defined(__AVX2__)
    if (single) return rslm::RSLM_ISA::derivative_in_single(c, w, threads, residual, weight, U, rank, V, factors, dU, dV, by_rows);
#else
    (void)single; // without wide registers there is nothing to gain
#endif
    with_quads(rank, [&](auto q) {
        derivative<decltype(q)::value>(c, w, threads, residual, weight, U, rank, V, factors, dU, dV, by_rows);
    });
}

} // namespace

void rslm::RSLM_ISA::add_derivative(Kernels &kernels) { kernels.derivative = run_derivative; }
