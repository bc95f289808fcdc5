// The normal equations of eight columns at a time.
//
// The Gram matrix of a column is a sum of outer products of rows, held in registers tile by tile. The matrices of eight
// columns are then transposed, so that a lane is a column, and factorised together: the steps of a single factorisation
// depend on each other, those of eight columns do not.
#pragma once
#include "rows.hpp"

namespace {

RSLM_INLINE int64_t blocks_of(int64_t n) { return (n + LANES - 1) / LANES; }
RSLM_INLINE int triangle(int r) { return r * (r + 1) / 2; }
// Position of (i, j), j ≥ i, in an upper triangle packed by rows.
RSLM_INLINE int packed(int r, int i, int j) { return i * r - i * (i - 1) / 2 + (j - i); }

template <class T> struct Buffer {
    T *data;
    explicit Buffer(int64_t n) : data(n ? (T *)rslm::allocate(size_t(n) * sizeof(T)) : nullptr) {}
    ~Buffer() { rslm::release(data); }
    Buffer(const Buffer &) = delete;
    T &operator[](int64_t i) const { return data[i]; }
    T *operator+(int64_t i) const { return data + i; }
};

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
constexpr Values NO_VALUES = {nullptr, nullptr};
RSLM_INLINE void put_value(const Values &y, int64_t p, double value) {
    if (y.f64) y.f64[p] = value;
    else y.f32[p] = float(value);
}
RSLM_INLINE double value_at(const Values &y, int64_t p) { return y.f64 ? y.f64[p] : double(y.f32[p]); }

// The tiles that cover the upper triangle of a Gram matrix of rank r: visit(first row, rows, first part, parts), where a
// part is eight columns. The accumulators of a tile must fit the registers.
template <class V> constexpr void walk_tiles(int r, V &&visit) {
    const int parts = (r + 7) / 8;
#if defined(__AVX512F__)
    for (int a = 0; a < r; a += 8) {
        if (parts - a / 8 <= 2) {
            visit(a, r - a, a / 8, parts - a / 8);
            break;
        }
        for (int v = a / 8; v < parts; v += 3) visit(a, 8, v, parts - v < 3 ? parts - v : 3);
    }
#else
    for (int a = 0; a < r; a += 4)
        for (int v = a / 8; v < parts; v++) visit(a, r - a < 4 ? r - a : 4, v, 1);
#endif
}
constexpr int MOST_TILE_ROWS = 16, MOST_TILE_PARTS = 3;

// Whether a factor with Q quadruples a row can have a tile of this shape.
template <int Q> constexpr bool has_tile(int rows, int parts) {
    bool found = false;
    for (int r = Q <= 8 ? 4 * Q - 3 : 33; r <= 4 * Q; r++)
        walk_tiles(r, [&](int, int a, int, int p) { found = found || (a == rows && p == parts); });
    return found;
}

// Rows a … a + A − 1 of the Gram matrix, parts v … v + P − 1, followed by those of Xᵀy if RHS.
// With `add`, the result is added to `out`.
template <int Q, int A, int P, bool RHS, bool WEIGHTED> void tile(const Column<Q> &column, int a, int v, double *out, bool add) {
    vec acc[A + RHS][P] = {};
    const int64_t last = column.c.entries() - 1;
    for (int64_t p = column.p; p < column.end; p++) {
        const double *u = column.factor + int64_t(column.c.index[p]) * (4 * Q);
        prefetch_row<Q>(column.factor + int64_t(column.c.index[p + AHEAD < last ? p + AHEAD : last]) * (4 * Q));
        vec x[P];
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) x[j] = Row<Q>::part(u, v + j);
        if constexpr (RHS) {
            double y = value_at(column.y, p);
            if (WEIGHTED && column.weigh_all) y *= value_at(column.weight, p);
#pragma GCC unroll 4
            for (int j = 0; j < P; j++) acc[A][j] += y * x[j];
        }
        if constexpr (WEIGHTED) {
            const double weight = value_at(column.weight, p);
            if (weight == 0) continue; // true of most entries if the loss is linear outside of a narrow band
#pragma GCC unroll 4
            for (int j = 0; j < P; j++) x[j] *= weight;
        }
#pragma GCC unroll 16
        for (int i = 0; i < A; i++)
#pragma GCC unroll 4
            for (int j = i / 8; j < P; j++) acc[i][j] += u[a + i] * x[j]; // parts left of i / 8 are below the diagonal
    }
#pragma GCC unroll 17
    for (int i = 0; i < A + RHS; i++) // unrolled, else the sums would be kept in memory
#pragma GCC unroll 4
        for (int j = 0; j < P; j++) {
            double *to = out + (i * P + j) * 8;
            store(to, add ? load<vec>(to) + acc[i][j] : acc[i][j]);
        }
}

template <bool WEIGHTED, int Q, int A = MOST_TILE_ROWS, int P = MOST_TILE_PARTS>
RSLM_INLINE void run_tile(const Column<Q> &column, int a, int rows, int v, int parts, bool rhs, double *out, bool add = false) {
    if constexpr (has_tile<Q>(A, P))
        if (rows == A && parts == P) {
            if (rhs) tile<Q, A, P, true, WEIGHTED>(column, a, v, out, add);
            else tile<Q, A, P, false, WEIGHTED>(column, a, v, out, add);
            return;
        }
    if constexpr (P > 1) run_tile<WEIGHTED, Q, A, P - 1>(column, a, rows, v, parts, rhs, out, add);
    else if constexpr (A > 1) run_tile<WEIGHTED, Q, A - 1, MOST_TILE_PARTS>(column, a, rows, v, parts, rhs, out, add);
}

constexpr double ROUNDED = 0x1p-50; // relative size of the rounding errors in a pivot

// M = RᵀR in place for eight systems; lane l of m[packed(i, j)] belongs to system l. The diagonal of R is inverted. M is a positive
// semidefinite matrix plus the diagonal `least`, so no pivot may be below it. A pivot that is smaller, or lost in rounding errors, is
// set to the smallest value that keeps the rest of the matrix positive: r²/d for an r in its row and d on the diagonal below. With an
// infinite number on the diagonal, the inverse of M is zero in that row and column.
RSLM_INLINE void factorise(int r, vec *m, const vec *least) {
    vec few[rslm::MOST_RANK];
    const Buffer<vec> many(r > rslm::MOST_RANK ? r : 0);
    vec *lowest = r > rslm::MOST_RANK ? many.data : few;
    for (int k = 0; k < r; k++) {
        const vec noise = ROUNDED * m[packed(r, k, k)];
        lowest[k] = pick(noise > least[k], noise, least[k]);
    }
    for (int k = 0; k < r; k++) {
        vec *row = m + packed(r, k, k);
        const mask lost = row[0] < lowest[k];
        if (bits(lost)) {
            vec pivot = lowest[k];
            for (int j = 1; j < r - k; j++) {
                const vec d = m[packed(r, k + j, k + j)], needed = row[j] * row[j] / pick(d < lowest[k + j], lowest[k + j], d);
                pivot = pick(needed > pivot, needed, pivot);
            }
            row[0] = pick(lost, pivot, row[0]);
        }
        const vec inverse = 1.0 / square_root(row[0]);
        row[0] = inverse;
        for (int j = 1; j < r - k; j++) row[j] *= inverse;
        for (int i = 1; i < r - k; i++) {
            const vec f = row[i];
            vec *target = m + packed(r, k + i, k + i);
            for (int j = i; j < r - k; j++) target[j - i] -= f * row[j];
        }
    }
}

// b ← (RᵀR)⁻¹ b
RSLM_INLINE void solve(int r, const double *factors, vec *b) {
    const auto at = [factors](int i) { return load<vec>(factors + LANES * i); };
    for (int k = 0; k < r; k++) {
        const int row = packed(r, k, k);
        const vec x = b[k] *= at(row);
        for (int j = 1; j < r - k; j++) b[k + j] -= at(row + j) * x;
    }
    for (int k = r - 1; k >= 0; k--) {
        const int row = packed(r, k, k);
        vec x = b[k];
        for (int j = 1; j < r - k; j++) x -= at(row + j) * b[k + j];
        b[k] = x * at(row);
    }
}

// The systems of one group of columns: computed column by column, then transposed so that a lane is a column.
struct Systems {
    struct Four { // four adjacent numbers of a tile, and their destinations
        int from, to[4];
    };
    int r, collected_size = 0, fours_count = 0;
    bool with_rhs;
    Buffer<double> collected;
    Buffer<vec> lanes;  // packed triangle, right-hand side, padding (whose first element receives unused numbers)
    Buffer<vec> shifts; // of the diagonal
    Buffer<Four> fours;

    static int size(int r, bool with_rhs) {
        int n = 0;
        walk_tiles(r, [&](int a, int rows, int, int parts) { n += (rows + (with_rhs && a == 0)) * parts * 8; });
        return n;
    }
    Systems(int r, bool with_rhs)
        : r(r), collected_size(size(r, with_rhs)), with_rhs(with_rhs), collected(LANES * collected_size), lanes(triangle(r) + r + LANES),
          shifts(r), fours(collected_size / 4) {
        int at = 0;
        walk_tiles(r, [&](int a, int rows, int v, int parts) {
            for (int i = 0; i < rows + (with_rhs && a == 0); i++)
                for (int k = 8 * v; k < 8 * (v + parts); k += 4, at += 4) {
                    Four four{at, {}};
                    bool used = false;
                    for (int j = 0; j < 4; j++) {
                        const bool rhs = i == rows, wanted = k + j < r && (rhs || k + j >= a + i);
                        four.to[j] = !wanted ? triangle(r) + r : rhs ? triangle(r) + k + j : packed(r, a + i, k + j);
                        used = used || wanted;
                    }
                    if (used) fours[fours_count++] = four;
                }
        });
    }
    vec *rhs() { return lanes + triangle(r); }
    const double *factors() { return (const double *)lanes.data; }

    template <bool WEIGHTED, int Q> RSLM_INLINE void collect(const Column<Q> &column, int lane, bool add = false) {
        double *out = collected + int64_t(lane) * collected_size;
        walk_tiles(r, [&](int a, int rows, int v, int parts) {
            const bool rhs = with_rhs && a == 0;
            run_tile<WEIGHTED>(column, a, rows, v, parts, rhs, out, add);
            out += (rows + rhs) * parts * 8;
        });
    }
    void turn() {
        const double *row[LANES];
        vec four[4];
        for (int f = 0; f < fours_count; f++) {
            for (int l = 0; l < LANES; l++) row[l] = collected + int64_t(l) * collected_size + fours[f].from;
            transpose(row, four);
            for (int k = 0; k < 4; k++) lanes[fours[f].to[k]] = four[k];
        }
    }
    // Adds the ridge of the columns of a group to the diagonals. If the last coordinate is `pinned`, it is 1: its part of the
    // right-hand side is moved to the other side.
    template <class Group> void turn_and_factorise(const Group &group, const rslm::Ridge &ridge, bool pinned = false) {
        turn();
        for (int k = 0; k < r; k++) lanes[packed(r, k, k)] += shifts[k] = group.shifts(ridge, k);
        if (pinned)
            for (int k = 0; k < r - 1; k++) rhs()[k] -= lanes[packed(r, k, r - 1)];
        factorise(r, lanes.data, shifts.data);
    }
    // The solution of the systems, in the place of the right-hand side.
    void solve(bool pinned = false) {
        ::solve(r, factors(), rhs());
        if (pinned) rhs()[r - 1] = vec{} + 1.0;
    }
};

// rows[l] = lane l of lanes[0 … r), padded with zeros up to `width`; `lanes` has room up to the next multiple of eight.
RSLM_INLINE void lanes_to_rows(vec *lanes, int r, double *rows, int width) {
    for (int k = r; k % LANES; k++) lanes[k] = vec{};
    const double *row[LANES];
    vec four[4];
    for (int k = 0; k < r; k += LANES)
        for (int l = 0; l < LANES; l += 4) {
            for (int i = 0; i < LANES; i++) row[i] = (const double *)(lanes + k + i) + l;
            transpose(row, four);
            for (int i = 0; i < 4; i++) store(rows + (l + i) * width + k, four[i]);
        }
    for (int k = (r + LANES - 1) / LANES * LANES; k < width; k += LANES)
        for (int l = 0; l < LANES; l++) store(rows + l * width + k, vec{});
}

} // namespace
