// The ridge regressions of all columns by panels of coordinates, in double or single precision.
#include "coordinates.hpp"
#include "groups.hpp"

namespace {
using rslm::Part;

// The residuals of a group, to where they belong. In another precision than they were computed in, they are converted in place.
RSLM_INLINE void put_values(const Values &to, int64_t p, double *from, int64_t n, bool many) {
    if (to.f64) return copy_out(to.f64 + p, from, n, many);
    float *short_from = (float *)from;
    for (int64_t i = 0; i < n; i++) {
        const float value = float(from[i]);
        std::memcpy(short_from + i, &value, sizeof value); // never ahead of what is still to be read
    }
    copy_out(to.f32 + p, short_from, n, many);
}
RSLM_INLINE void put_values(const Values &to, int64_t p, float *from, int64_t n, bool many) {
    if (to.f32) return copy_out(to.f32 + p, from, n, many);
    for (int64_t i = 0; i < n; i++) to.f64[p + i] = double(from[i]);
}

template <class F, int Q>
double evaluate(Part part, const Pattern &c, Workspace &workspace, int threads, const Values &y, const Values &weight, const double *U, int rank,
                const rslm::Ridge &ridge, bool pinned, double *V, double *factors, const Values &residual, double *by_rows) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const bool weighted = weight.f64 || weight.f32;
    const int64_t sum_size = c.sum_count() * c.rows * width;
    F *sums = (F *)workspace.reserve(size_t(sum_size + (c.rows + 1) * width + 16));
    F *u = sums + (sum_size + 15) / 16 * 16;
    pad<Q>(U, c.rows, rank, u);
    const size_t factor_size = size_t(triangle(rank)) * LANES;
    const bool many_factors = int64_t(factor_size) * c.groups() * 8 > MANY, many_residuals = c.entries() * int64_t(sizeof(F)) > MANY;
    Buffer<double> squares(c.shard_count);
    std::memset(squares.data, 0, sizeof(double) * size_t(c.shard_count));

    const auto make = [&] {
        // Everything else is captured by value, so that it stays in registers despite stores.
        return [=, squares = squares.data, systems = Lanes(rank), panels = Panels<F>(rank, width, weighted, c.most_entries),
                rows = Buffer<double>(LANES * padded), errors = Buffer<F>(part == Part::ALL ? c.most_entries + Lane<F>::N : 0)](
                   int64_t shard, const Group &group, F *sum) mutable {
            const int64_t begin = c.indptr[group.column(0)], end = c.indptr[group.column(0) + group.lanes];
            const bool keep = end - begin + LANES * Lane<F>::N <= panels.kept;
            // Calls f(x, p, n, first) for the panels of a column, where x is the memory of the panel of the n entries from p on.
            const auto each_panel = [&](int lane, F *x, auto &&f) {
                const int64_t first = c.indptr[group.column(lane)], last = c.indptr[group.column(lane) + 1];
                for (int64_t p = first; p < last; p += panels.piece) {
                    const int64_t n = last - p < panels.piece ? last - p : panels.piece;
                    f(x, p, n, p == first);
                    if (keep) x += panels.blocks(n) * Lane<F>::N * panels.stride;
                }
                return x;
            };
            F *x = panels.panel.data;
            for (int l = 0; l < LANES; l++) {
                if (l >= group.lanes || c.indptr[group.column(l)] == c.indptr[group.column(l) + 1]) panels.clear(l);
                else
                    x = each_panel(l, x, [&](F *x, int64_t p, int64_t n, bool first) {
                        panels.template gather<Q>(c, u, y, weight, p, n, x);
                        panels.collect(x, n, l, first);
                    });
            }
            panels.turn(systems.lanes.data);
            systems.shift_and_factorise(group, ridge, pinned);
            systems.solve(pinned);
            copy_out(factors + size_t(group.g) * factor_size, systems.factors(), int64_t(factor_size), many_factors);
            lanes_to_rows(systems.rhs(), rank, rows.data, padded);
            for (int l = 0; l < group.lanes; l++) std::memcpy(V + group.column(l) * rank, rows + l * padded, sizeof(double) * size_t(rank));
            if (part == Part::SOLVE) return;

            x = panels.panel.data;
            F *e = errors.data;
            for (int l = 0; l < group.lanes; l++) {
                F v[width] = {};
                for (int k = 0; k < rank; k++) v[k] = F(rows[l * padded + k]);
                x = each_panel(l, x, [&](F *x, int64_t p, int64_t n, bool) {
                    if (!keep) panels.template gather<Q>(c, u, y, weight, p, n, x);
                    squares[shard] += panels.residuals(x, n, v, e);
                    add_multiples<F, width>(v, e, c.index + p, n, sum);
                    e += n;
                });
            }
            put_values(residual, begin, errors.data, end - begin, many_residuals);
        };
    };
    sum_over_shards<Q>(c, sums, rank, threads, part == Part::ALL ? by_rows : nullptr, make);
    double total = 0;
    for (int64_t s = 0; s < c.shard_count; s++) total += squares[s];
    return total;
}

} // namespace

double rslm::RSLM_ISA::evaluate_by_coordinates(Part part, const Pattern &c, Workspace &w, int threads, const Values &y, const Values &weight,
                                               const double *U, int rank, const Ridge &ridge, bool pinned, bool single, double *V,
                                               double *factors, const Values &residual, double *by_rows) {
    double squares = 0;
    with_quads(rank, [&](auto q) {
        constexpr int Q = decltype(q)::value;
        if (single) squares = evaluate<float, in_single(Q)>(part, c, w, threads, y, weight, U, rank, ridge, pinned, V, factors, residual, by_rows);
        else if constexpr (4 * Q <= MOST_BY_COORDINATES)
            squares = evaluate<double, Q>(part, c, w, threads, y, weight, U, rank, ridge, pinned, V, factors, residual, by_rows);
    });
    return squares;
}
