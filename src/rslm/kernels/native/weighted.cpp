// The kernels for losses of varying curvature. They are independent of the loss, whose derivatives are given for every entry.
#include "groups.hpp"
#include <cmath>

namespace {

template <int Q>
void newton(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const Values &z,
            const Values &weight, const double *V, const rslm::Ridge &ridge, double *factors, double *step, double *decrement) {
    constexpr int padded = 8 * Row<Q>::N;
    Systems systems(rank, true);
    Buffer<double> rows(LANES * padded);
    Buffer<vec> rhs(rank);
    for (int64_t g = first; g < last; g++) {
        if (!active[g - first]) continue;
        const Group group(c, g);
        for (int l = 0; l < group.lanes; l++) {
            const int64_t t = group.column(l);
            systems.collect(Column<Q>{c, x, z, c.indptr[t], c.indptr[t + 1], weight}, l);
        }
        systems.turn_and_factorise(group, ridge);
        for (int k = 0; k < rank; k++) {
            vec v = {};
            for (int l = 0; l < group.lanes; l++)
                if (systems.shifts[k][l] < HUGE_VAL) v[l] = V[group.column(l) * rank + k]; // else the coordinate stays where it is
                else v[l] = systems.shifts[k][l] = 0;
            rhs[k] = systems.rhs()[k] -= systems.shifts[k] * v;
        }
        systems.solve();
        const size_t size = size_t(triangle(rank)) * LANES;
        std::memcpy(factors + size_t(g) * size, systems.factors(), sizeof(double) * size);
        vec square = {};
        for (int k = 0; k < rank; k++) square += rhs[k] * systems.rhs()[k];
        lanes_to_rows(systems.rhs(), rank, rows.data, padded);
        for (int l = 0; l < group.lanes; l++) {
            const int64_t t = group.column(l);
            std::memcpy(step + t * rank, rows + l * padded, sizeof(double) * size_t(rank));
            decrement[t] = square[l];
        }
    }
}

template <int Q>
void products(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const double *R,
              double *product) {
    const int64_t base = c.indptr[LANES * first < c.columns ? LANES * first : c.columns];
    for (int64_t g = first; g < last; g++) {
        if (!active[g - first]) continue;
        const Group group(c, g);
        for (int l = 0; l < group.lanes; l++) {
            const int64_t t = group.column(l), end = c.indptr[t + 1];
            const Row<Q> row = Row<Q>::of(R + t * rank, rank);
            for (int64_t p = c.indptr[t]; p < end; p += LANES) {
                const Batch<Q> batch(c, p, end);
                store_values(Values{product, nullptr}, p - base, batch.n, batch.products(x, row));
            }
        }
    }
}

template <int Q>
void factorise(const Pattern &c, Workspace &workspace, int threads, const double *X, int rank, const Values &weight, const Pattern *more,
               const Values &more_weight, const rslm::Ridge &ridge, double *factors) {
    double *x = workspace.reserve(size_t(c.rows + 1) * 4 * Q);
    pad<Q>(X, c.rows, rank, x);
    each(threads, c.groups(), 16, [&] {
        return [&, systems = Systems(rank, false)](int64_t g) mutable {
            if (over(c)) return;
            const Group group(c, g);
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l);
                systems.collect(Column<Q>{c, x, NO_VALUES, c.indptr[t], c.indptr[t + 1], weight}, l);
                if (more && more->indptr[t] < more->indptr[t + 1])
                    systems.collect_more(Column<Q>{*more, x, NO_VALUES, more->indptr[t], more->indptr[t + 1], more_weight}, l);
            }
            systems.turn_and_factorise(group, ridge);
            const size_t size = size_t(triangle(rank)) * LANES;
            std::memcpy(factors + size_t(g) * size, systems.factors(), sizeof(double) * size);
        };
    });
}

template <int Q>
void scatter(const Pattern &c, Workspace &workspace, int threads, const Values &s, const double *V, int rank, double *by_rows) {
    double *sums = workspace.reserve(size_t(c.sum_count() * c.rows) * 4 * Q + 8);
    const auto make = [&] {
        return [&](int64_t, const Group &group, double *sum) {
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                const Row<Q> v = Row<Q>::of(V + t * rank, rank);
                for (int64_t p = c.indptr[t]; p < end; p += LANES) {
                    const Batch<Q> batch(c, p, end);
                    const Spilled each = Spilled::of(load_values(s, p, batch.n));
                    add_to_rows(batch, each, v, sum);
                }
            }
        };
    };
    sum_over_shards<Q>(c, sums, rank, threads, by_rows, make);
}

template <int Q> void gather(const Pattern &c, Workspace &workspace, int threads, const Values &s, const double *X, int rank, double *by_columns) {
    double *x = workspace.reserve(size_t(c.rows + 1) * 4 * Q + 8);
    pad<Q>(X, c.rows, rank, x);
    each(threads, c.groups(), 64, [&] {
        return [&](int64_t g) {
            const Group group(c, g);
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                Row<Q> even, odd; // two, so that additions do not wait for each other
                even.clear(), odd.clear();
                int64_t p = c.indptr[t];
                for (; p + 1 < end; p += 2) {
                    even.add(value_at(s, p), x + int64_t(c.index[p]) * (4 * Q));
                    odd.add(value_at(s, p + 1), x + int64_t(c.index[p + 1]) * (4 * Q));
                }
                if (p < end) even.add(value_at(s, p), x + int64_t(c.index[p]) * (4 * Q));
                even.add(odd);
                double row[8 * Row<Q>::N];
                even.put(row);
                std::memcpy(by_columns + t * rank, row, sizeof(double) * size_t(rank));
            }
        };
    });
}

template <int Q>
void grams(const Pattern &c, Workspace &workspace, int threads, const double *X, int rank, const Values &weight, double *grams) {
    double *x = workspace.reserve(size_t(c.rows + 1) * 4 * Q);
    pad<Q>(X, c.rows, rank, x);
    each(threads, c.groups(), 16, [&] {
        return [&, systems = Systems(rank, false)](int64_t g) mutable {
            if (over(c)) return;
            const Group group(c, g);
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l);
                systems.collect(Column<Q>{c, x, NO_VALUES, c.indptr[t], c.indptr[t + 1], weight}, l);
            }
            systems.turn();
            for (int l = 0; l < group.lanes; l++) {
                double *out = grams + group.column(l) * rank * rank;
                for (int i = 0; i < rank; i++)
                    for (int j = i; j < rank; j++) out[i * rank + j] = out[j * rank + i] = systems.lanes[packed(rank, i, j)][l];
            }
        };
    });
}

void run_newton(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const Values &z,
                const Values &weight, const double *V, const rslm::Ridge &ridge, double *factors, double *step, double *decrement) {
    with_quads(rank, [&](auto q) {
        newton<decltype(q)::value>(c, first, last, active, x, rank, z, weight, V, ridge, factors, step, decrement);
    });
}
void run_products(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const double *R,
                  double *product) {
    with_quads(rank, [&](auto q) { products<decltype(q)::value>(c, first, last, active, x, rank, R, product); });
}
void run_factorise(const Pattern &c, Workspace &w, int threads, const double *X, int rank, const Values &weight, const Pattern *more,
                   const Values &more_weight, const rslm::Ridge &ridge, double *factors) {
    with_quads(rank, [&](auto q) {
        factorise<decltype(q)::value>(c, w, threads, X, rank, weight, more, more_weight, ridge, factors);
    });
}
void run_scatter(const Pattern &c, Workspace &w, int threads, const Values &s, const double *V, int rank, double *by_rows) {
    with_quads(rank, [&](auto q) { scatter<decltype(q)::value>(c, w, threads, s, V, rank, by_rows); });
}
void run_gather(const Pattern &c, Workspace &w, int threads, const Values &s, const double *X, int rank, double *by_columns) {
    with_quads(rank, [&](auto q) { gather<decltype(q)::value>(c, w, threads, s, X, rank, by_columns); });
}
void run_grams(const Pattern &c, Workspace &w, int threads, const double *X, int rank, const Values &weight, double *out) {
    with_quads(rank, [&](auto q) {
        grams<decltype(q)::value>(c, w, threads, X, rank, weight, out);
    });
}
void run_padded(const double *U, int64_t rows, int rank, double *out) {
    with_quads(rank, [&](auto q) { pad<decltype(q)::value>(U, rows, rank, out); });
}

} // namespace

void rslm::RSLM_ISA::add_weighted(Kernels &k) {
    k.newton = run_newton, k.products = run_products, k.factorise = run_factorise, k.scatter = run_scatter;
    k.gather = run_gather, k.grams = run_grams;
    k.padded_width = padded_width, k.padded = run_padded;
}
