// The kernels for a matrix that is observed at some of its entries. Compiled once per instruction set;
// RSLM_ISA is the namespace that they are put into.
#include "coordinates.hpp"
#include "groups.hpp"

namespace {

using rslm::Part;

template <int Q>
double evaluate(Part part, const Pattern &c, Workspace &workspace, int threads, const Values &y, const Values &weight, const double *U, int rank,
                const rslm::Ridge &ridge, bool pinned, double *V, double *factors, const Values &residual, double *by_rows) {
    constexpr int width = 4 * Q, padded = 8 * Row<Q>::N;
    const bool weighted = weight.f64 || weight.f32;
    double *sums = workspace.reserve(size_t(c.sum_count() * c.rows) * width + 8 + size_t(c.rows + 1) * width);
    double *u = sums + c.sum_count() * c.rows * width;
    pad<Q>(U, c.rows, rank, u);
    Buffer<double> squares(c.shard_count);
    std::memset(squares.data, 0, sizeof(double) * size_t(c.shard_count));

    const auto make = [&] {
        // Everything else is captured by value, so that it stays in registers despite stores.
        return [=, squares = squares.data, systems = Systems(rank, true), rows = Buffer<double>(LANES * padded)](int64_t shard, const Group &group, double *sum) mutable {
            if (part != Part::FOLLOW) {
                for (int l = 0; l < group.lanes; l++) {
                    const int64_t t = group.column(l);
                    systems.collect(Column<Q>{c, u, y, c.indptr[t], c.indptr[t + 1], weight, true}, l);
                }
                systems.turn_and_factorise(group, ridge, pinned);
                systems.solve(pinned);
                const size_t size = size_t(triangle(rank)) * LANES;
                copy_out(factors + size_t(group.g) * size, systems.factors(), int64_t(size), int64_t(size) * c.groups() * 8 > MANY);
                lanes_to_rows(systems.rhs(), rank, rows.data, padded);
                for (int l = 0; l < group.lanes; l++) std::memcpy(V + group.column(l) * rank, rows + l * padded, sizeof(double) * size_t(rank));
            }
            if (part == Part::SOLVE) return;

            vec square = {};
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                const Row<Q> v = Row<Q>::of(V + t * rank, rank);
                for (int64_t p = c.indptr[t]; p < end; p += LANES) {
                    const Batch<Q> batch(c, p, end);
                    const vec e = load_values(y, p, batch.n) - batch.products(u, v);
                    vec s = e;
                    if (weighted) s *= load_values(weight, p, batch.n);
                    store_values(residual, p, batch.n, s);
                    square += s * e;
                    const Spilled each = Spilled::of(s);
                    add_to_rows(batch, each, v, sum);
                }
            }
            squares[shard] += ::sum(square);
        };
    };
    sum_over_shards<Q>(c, sums, rank, threads, by_rows, make);
    double total = 0;
    for (int64_t s = 0; s < c.shard_count; s++) total += squares[s];
    return total;
}

void solve_columns(bool half, int64_t columns, int threads, const double *factors, int rank, const double *rhs, double *solution) {
    each(threads, blocks_of(columns), even(blocks_of(columns), threads), [&] {
        return [&, b = Buffer<vec>(rank)](int64_t g) {
            const int64_t first = LANES * g;
            const int lanes = columns - first < LANES ? int(columns - first) : LANES;
            for (int k = 0; k < rank; k++)
                for (int l = 0; l < LANES; l++) b[k][l] = l < lanes ? rhs[(first + l) * rank + k] : 0.0;
            const double *factor = factors + size_t(g) * size_t(triangle(rank)) * LANES;
            if (half) ::back_substitute(rank, factor, b.data);
            else ::solve(rank, factor, b.data);
            for (int l = 0; l < lanes; l++)
                for (int k = 0; k < rank; k++) solution[(first + l) * rank + k] = b[k][l];
        };
    });
}

template <int Q>
void gram(const Pattern &c, Workspace &workspace, int threads, const Values &s, const double *X, int rank, double *Y, double *product) {
    constexpr int width = 4 * Q;
    double *x = workspace.reserve(size_t(c.rows + 1) * width + 8 + size_t(c.sum_count() * c.rows) * width);
    pad<Q>(X, c.rows, rank, x);
    const auto make = [&] {
        // captured by value, to stay in registers despite stores
        return [=](int64_t, const Group &group, double *sum) {
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l), end = c.indptr[t + 1];
                Row<Q> even, odd;
                even.clear(), odd.clear();
                for (int64_t p = c.indptr[t]; p < end; p += LANES) {
                    const Batch<Q> batch(c, p, end);
                    const Spilled e = Spilled::of(load_values(s, p, batch.n));
                    for (int i = 0; i < LANES; i += 2) {
                        even.add(e[i], x + batch.offset[i]);
                        odd.add(e[i + 1], x + batch.offset[i + 1]);
                    }
                }
                even.add(odd);
                if (Y) {
                    even.add(Row<Q>::of(Y + t * rank, rank));
                    double row[8 * Row<Q>::N];
                    even.put(row);
                    std::memcpy(Y + t * rank, row, sizeof(double) * size_t(rank));
                }
                for (int64_t p = c.indptr[t]; p < end; p += LANES) {
                    const Batch<Q> batch(c, p, end);
                    add_to_rows(batch, Spilled::of(load_values(s, p, batch.n)), even, sum);
                }
            }
        };
    };
    sum_over_shards<Q>(c, x + (c.rows + 1) * width, rank, threads, product, make);
}

RSLM_INLINE double dot(const double *a, const double *b, int n) {
    typedef double pair __attribute__((vector_size(16))); // a register of every instruction set
    pair s = {}, t = {};
    int k = 0;
    for (; k + 4 <= n; k += 4) s += load<pair>(a + k) * load<pair>(b + k), t += load<pair>(a + k + 2) * load<pair>(b + k + 2);
    double total = (s[0] + s[1]) + (t[0] + t[1]);
    for (; k < n; k++) total += a[k] * b[k];
    return total;
}

void predict(const Pattern &c, int threads, const double *U, const double *V, int rank, double *prediction) {
    each(threads, c.columns, 256, [&] {
        return [&](int64_t t) {
            for (int64_t p = c.indptr[t]; p < c.indptr[t + 1]; p++)
                prediction[p] = dot(U + int64_t(c.index[p]) * rank, V + t * rank, rank);
        };
    });
}

void predict_pairs(const int64_t *i, const int64_t *t, int64_t n, int threads, const double *U, const double *V, int rank,
                   double *prediction) {
    each(threads, n, even(n, threads), [&] { return [&](int64_t p) { prediction[p] = dot(U + i[p] * rank, V + t[p] * rank, rank); }; });
}

double run_evaluate(Part part, const Pattern &c, Workspace &w, int threads, const Values &y, const Values &weight, const double *U, int rank,
                    const rslm::Ridge &ridge, bool pinned, bool single, double *V, double *factors, const Values &residual, double *by_rows) {
    if (part != Part::FOLLOW && (single || rank <= MOST_BY_COORDINATES))
        return rslm::RSLM_ISA::evaluate_by_coordinates(part, c, w, threads, y, weight, U, rank, ridge, pinned, single, V, factors, residual, by_rows);
    double squares = 0;
    with_quads(rank, [&](auto q) {
        squares = evaluate<decltype(q)::value>(part, c, w, threads, y, weight, U, rank, ridge, pinned, V, factors, residual, by_rows);
    });
    return squares;
}
void run_gram(const Pattern &c, Workspace &w, int threads, const Values &s, const double *X, int rank, double *Y, double *product) {
    with_quads(rank, [&](auto q) { gram<decltype(q)::value>(c, w, threads, s, X, rank, Y, product); });
}

} // namespace

const rslm::Kernels *rslm::RSLM_ISA::kernels() {
    static const Kernels kernels = [] {
        Kernels k = {};
        k.name = RSLM_NAME;
        k.evaluate = run_evaluate, k.solve = solve_columns;
        k.gram = run_gram, k.predict = predict, k.predict_pairs = predict_pairs;
        add_derivative(k), add_weighted(k), add_box(k), add_bounds(k), add_tasks(k), add_high_rank(k);
        return k;
    }();
    return &kernels;
}
