// Gram matrices of the rows of a factor at the entries of a column: sums of outer products of rows, held in registers tile by tile.
//
// Where one tile is not enough, the rows are gathered once, some hundred at a time, into a panel that stays in the first-level cache, and
// all tiles read them there.
#pragma once
#include "rows.hpp"
#include <type_traits>

namespace {

template <class T> struct Buffer {
    T *data;
    explicit Buffer(int64_t n) : data(n ? (T *)rslm::allocate(size_t(n) * sizeof(T)) : nullptr) {}
    ~Buffer() { rslm::release(data); }
    Buffer(const Buffer &) = delete;
    T &operator[](int64_t i) const { return data[i]; }
    T *operator+(int64_t i) const { return data + i; }
};

constexpr Values NO_VALUES = {nullptr, nullptr};
RSLM_INLINE void put_value(const Values &y, int64_t p, double value) {
    if (y.f64) y.f64[p] = value;
    else y.f32[p] = float(value);
}
RSLM_INLINE double value_at(const Values &y, int64_t p) { return y.f64 ? y.f64[p] : double(y.f32[p]); }

// The entries p … end of a column, with the rows of a padded factor at them; `weight` where the sum is weighted. Only the Gram matrix
// is weighted, unless `weigh_all`.
template <int Q> struct Column {
    const Pattern &c;
    const double *factor;
    const Values &y;
    int64_t p, end;
    const Values &weight;
    bool weigh_all = false;
};

// The tiles that cover the upper triangle of a Gram matrix of rank r: visit(first row, rows, first part, parts), where a part is as many
// columns as fit a register. The sums of a tile must fit the registers, so it has at most WIDTH rows and three parts; the last one covers
// the rest of the triangle, of two parts.
template <class V> constexpr void walk_tiles(int r, V &&visit) {
    const int parts = (r + WIDTH - 1) / WIDTH;
    for (int a = 0; a < r; a += WIDTH) {
        const int first = a / WIDTH, left = parts - first;
        if (left <= 2) return visit(a, r - a, first, left);
        // as equal as possible: sums of few parts wait for each other
        for (int v = first, tiles = (left + 2) / 3; v < parts; tiles--) {
            const int count = (parts - v + tiles - 1) / tiles;
            visit(a, WIDTH, v, count);
            v += count;
        }
    }
}
constexpr bool one_tile(int r) { return r <= 2 * WIDTH; }
// Whether rows of Q quadruples are gathered. With AVX-512 few tiles are needed, and up to rank 40 it is faster to read the rows where they are.
template <int Q> constexpr bool IN_PANELS = WIDTH < LANES ? !one_tile(4 * Q) : Q > 10;

// Whether the last tile can have so many rows, for a rank that is padded to Q quadruples, or to any number if Q is 0.
template <int Q> constexpr bool is_rest(int rows) {
    bool found = false;
    for (int r = Q == 0 ? 1 : Q <= 8 ? 4 * Q - 3 : 33; r <= (Q == 0 ? rslm::MOST_RANK : 4 * Q); r++)
        walk_tiles(r, [&](int, int count, int, int) { found = found || count == rows; });
    return found;
}
// Visits every element of the tiles in the order of their sums: visit(where, row, column); column r is the right-hand side, which comes last.
// Returns the number of sums. Elements left of the diagonal are not sums of anything.
template <class V> int walk_sums(int r, bool with_rhs, V &&visit) {
    int at = 0;
    walk_tiles(r, [&](int a, int rows, int v, int parts) {
        for (int i = a; i < a + rows; i++)
            for (int j = v * WIDTH; j < (v + parts) * WIDTH; j++, at++)
                if (i <= j && j < r) visit(at, i, j);
    });
    if (with_rhs)
        for (int i = 0; i < r; i++, at++) visit(at, i, r);
    return at;
}

// The rows that a tile reads: those of a panel,
struct PanelRows {
    const double *rows, *weights;
    int n, width;
    RSLM_INLINE int64_t begin() const { return 0; }
    RSLM_INLINE int64_t end() const { return n; }
    RSLM_INLINE const double *at(int64_t p) const { return rows + p * width; }
    RSLM_INLINE double weight(int64_t p) const { return weights[p]; }
};
// or those of the entries of a column.
template <int Q> struct EntryRows {
    const Column<Q> &column;
    const int64_t last; // entry of the data
    RSLM_INLINE int64_t begin() const { return column.p; }
    RSLM_INLINE int64_t end() const { return column.end; }
    RSLM_INLINE const double *at(int64_t p) const {
        prefetch_row<Q>(column.factor + int64_t(column.c.index[p + AHEAD < last ? p + AHEAD : last]) * (4 * Q));
        return column.factor + int64_t(column.c.index[p]) * (4 * Q);
    }
    RSLM_INLINE double weight(int64_t p) const { return value_at(column.weight, p); }
};

// Adds rows a … a + A − 1 of the Gram matrix, parts v … v + P − 1, to `out`, and if RHS the same parts of Xᵀy to `rhs`, of r numbers. The last
// part may reach into the next row, which does no harm: its columns beyond r are not used.
template <int A, int P, bool WEIGHTED, bool RHS, class Rows> void tile(const Rows &rows, int r, int a, int v, double *out, double *rhs) {
    reg acc[A + RHS][P] = {};
    for (int64_t p = rows.begin(), end = rows.end(); p < end; p++) {
        const double *u = rows.at(p);
        reg x[P];
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) x[j] = load<reg>(u + (v + j) * WIDTH);
        if constexpr (RHS) {
            double y = value_at(rows.column.y, p);
            if (WEIGHTED && rows.column.weigh_all) y *= rows.weight(p);
#pragma GCC unroll 4
            for (int j = 0; j < P; j++) acc[A][j] += y * x[j];
        }
        if constexpr (WEIGHTED) {
            const double weight = rows.weight(p);
            if (weight == 0) continue; // true of most entries if the loss is linear outside of a narrow band
#pragma GCC unroll 4
            for (int j = 0; j < P; j++) x[j] *= weight;
        }
#pragma GCC unroll 16
        for (int i = 0; i < A; i++)
#pragma GCC unroll 4
            for (int j = i / WIDTH; j < P; j++) acc[i][j] += u[a + i] * x[j]; // parts left of i / WIDTH are below the diagonal
    }
#pragma GCC unroll 17
    for (int i = 0; i < A; i++) // unrolled, else the sums would be kept in memory
#pragma GCC unroll 4
        for (int j = i / WIDTH; j < P; j++) store(out + (i * P + j) * WIDTH, load<reg>(out + (i * P + j) * WIDTH) + acc[i][j]);
    if constexpr (RHS) {
        double sums[P * WIDTH];
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) store(sums + j * WIDTH, acc[A][j]);
        for (int k = 0; k < P * WIDTH && v * WIDTH + k < r; k++) rhs[v * WIDTH + k] += sums[k];
    }
}

// Calls f with n, a number between FROM and TO, as a compile-time constant.
template <int FROM, int TO, class F> RSLM_INLINE void with_number(int n, F &&f) {
    if (n == FROM) return f(Int<FROM>{});
    if constexpr (FROM < TO) with_number<FROM + 1, TO>(n, f);
}

struct Gram {
    static constexpr int64_t CACHE = 24 << 10; // bytes, of the first-level cache
    static constexpr int LEAST = 32, MOST = 256; // rows of a panel
    int r, most;
    bool with_rhs;
    int sum_count;
    Buffer<double> panel, weights;

    static int rows_of_panel(int width) {
        const int64_t fit = CACHE / (8 * width);
        return int(fit < LEAST ? LEAST : fit > MOST ? MOST : fit);
    }
    static int full_width(int r) { return (padded_width(r) + LANES - 1) / LANES * LANES; }
    Gram(int r, bool with_rhs)
        : r(r), most(rows_of_panel(full_width(r))), with_rhs(with_rhs), sum_count(walk_sums(r, with_rhs, [](int, int, int) {})),
          panel(int64_t(most) * full_width(r)), weights(most) {}

    // Adds XᵀX of the entries of a column, or XᵀWX, and Xᵀy, to the sums.
    template <int Q> void add(const Column<Q> &column, double *out) {
        if (column.weight.f64 || column.weight.f32) add_some<true>(column, out);
        else add_some<false>(column, out);
    }

  private:
    template <bool WEIGHTED, int Q> void add_some(const Column<Q> &column, double *out) {
        double *const rhs = with_rhs ? out + sum_count - r : nullptr;
        if constexpr (!IN_PANELS<Q>) add_tiles<WEIGHTED, Q>(EntryRows<Q>{column, column.c.entries() - 1}, out, rhs);
        else
            for (int64_t p = column.p; p < column.end; p += most)
                add_tiles<WEIGHTED, 0>(gather<WEIGHTED>(column, p, p + most < column.end ? p + most : column.end, rhs), out, nullptr);
    }

    // The rows at the entries first … last − 1, one after the other; those of weight 0 are left out. Adds Xᵀy to `rhs`.
    template <bool WEIGHTED, int Q> PanelRows gather(const Column<Q> &column, int64_t first, int64_t last, double *rhs) {
        constexpr int width = 8 * Row<Q>::N;
        const int64_t final = column.c.entries() - 1;
        Row<Q> sum;
        sum.clear();
        int n = 0;
        for (int64_t p = first; p < last; p++) {
            prefetch_row<Q>(column.factor + int64_t(column.c.index[p + AHEAD < final ? p + AHEAD : final]) * (4 * Q));
            const Row<Q> row = Row<Q>::at(column.factor + int64_t(column.c.index[p]) * (4 * Q));
            const double weight = WEIGHTED ? value_at(column.weight, p) : 1.0;
            if (rhs) sum.add(value_at(column.y, p) * (column.weigh_all ? weight : 1.0), row);
            if (WEIGHTED && weight == 0) continue;
            if (WEIGHTED) weights[n] = weight;
#pragma GCC unroll 16
            for (int v = 0; v < Row<Q>::N; v++) store(panel + n * width + 8 * v, row.x[v]);
            n++;
        }
        if (rhs) {
            double row[width];
            sum.put(row);
            for (int k = 0; k < r; k++) rhs[k] += row[k];
        }
        return {panel.data, weights.data, n, width};
    }
    template <bool WEIGHTED, int Q, class Rows> void add_tiles(const Rows &rows, double *out, double *rhs) const {
        walk_tiles(r, [&](int a, int count, int v, int parts) {
            const auto add = [&](auto number, auto number_of_parts) {
                constexpr int A = decltype(number)::value, P = decltype(number_of_parts)::value;
                if constexpr (Q > 0)
                    if (rhs && a == 0) return tile<A, P, WEIGHTED, true>(rows, r, a, v, out, rhs);
                tile<A, P, WEIGHTED, false>(rows, r, a, v, out, rhs);
            };
            if (count == WIDTH) with_number<1, 3>(parts, [&](auto number) { add(Int<WIDTH>{}, number); });
            else
                with_number<1, 2 * WIDTH>(count, [&](auto number) {
                    constexpr int A = decltype(number)::value;
                    if constexpr (is_rest<Q>(A)) add(number, Int<(A + WIDTH - 1) / WIDTH>{});
                });
            out += count * parts * WIDTH;
        });
    }
};

} // namespace
