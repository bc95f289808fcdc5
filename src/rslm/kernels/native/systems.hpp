// The normal equations of eight columns at a time.
//
// The Gram matrix of a column is a sum of outer products of rows, held in registers tile by tile. The matrices of eight
// columns are then transposed, so that a lane is a column, and factorised together: the steps of a single factorisation
// depend on each other, those of eight columns do not.
#pragma once
#include "panels.hpp"

namespace {

RSLM_INLINE int64_t blocks_of(int64_t n) { return (n + LANES - 1) / LANES; }
RSLM_INLINE int triangle(int r) { return r * (r + 1) / 2; }
// Position of (i, j), j ≥ i, in an upper triangle packed by rows.
RSLM_INLINE int packed(int r, int i, int j) { return i * r - i * (i - 1) / 2 + (j - i); }

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
    // Scales row k of R. `above`, if given, is the row before, which has not been subtracted from the rows below yet.
    const auto scale = [&](int k, const vec *above) {
        vec *row = m + packed(r, k, k);
        const mask lost = row[0] < lowest[k];
        if (bits(lost)) {
            vec pivot = lowest[k];
            for (int j = 1; j < r - k; j++) {
                vec d = m[packed(r, k + j, k + j)];
                if (above) d -= above[j] * above[j];
                const vec needed = row[j] * row[j] / pick(d < lowest[k + j], lowest[k + j], d);
                pivot = pick(needed > pivot, needed, pivot);
            }
            row[0] = pick(lost, pivot, row[0]);
        }
        const vec inverse = 1.0 / square_root(row[0]);
        row[0] = inverse;
        for (int j = 1; j < r - k; j++) row[j] *= inverse;
        return row;
    };
    // Two rows at a time, so that what is below them is read and written half as often.
    for (int k = 0; k < r; k += 2) {
        const vec *a = scale(k, nullptr);
        if (k + 1 == r) return;
        vec *next = m + packed(r, k + 1, k + 1);
        for (int j = 1; j < r - k; j++) next[j - 1] -= a[1] * a[j];
        const vec *b = scale(k + 1, a + 1) - 1;
        for (int i = 2; i < r - k; i++) {
            const vec f = a[i], g = b[i];
            vec *target = m + packed(r, k + i, k + i) - i;
            for (int j = i; j < r - k; j++) target[j] = target[j] - f * a[j] - g * b[j];
        }
    }
}

// b ← R⁻¹ b
RSLM_INLINE void back_substitute(int r, const double *factors, vec *b) {
    const auto at = [factors](int i) { return load<vec>(factors + LANES * i); };
    for (int k = r - 1; k >= 0; k--) {
        const int row = packed(r, k, k);
        vec x = b[k];
        for (int j = 1; j < r - k; j++) x -= at(row + j) * b[k + j];
        b[k] = x * at(row);
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
    back_substitute(r, factors, b);
}

// The systems of one group of columns, a lane of a register each: a packed triangle, followed by the right-hand side.
struct Lanes {
    int r;
    Buffer<vec> lanes;  // and padding, whose first element receives unused numbers
    Buffer<vec> shifts; // of the diagonal

    explicit Lanes(int r) : r(r), lanes(triangle(r) + r + LANES), shifts(r) {}
    vec *rhs() { return lanes + triangle(r); }
    const double *factors() { return (const double *)lanes.data; }

    // Adds the ridge of the columns of a group to the diagonals and factorises. If the last coordinate is `pinned`, it is 1: its part of the
    // right-hand side is moved to the other side.
    template <class Group> void shift_and_factorise(const Group &group, const rslm::Ridge &ridge, bool pinned = false) {
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

// The systems of a group from rows of a factor: computed column by column, then transposed so that a lane is a column.
struct Systems : Lanes {
    struct Four { // destinations of four adjacent sums
        int to[4];
    };
    Gram gram;
    int stride;
    Buffer<double> collected;
    Buffer<Four> fours;

    Systems(int r, bool with_rhs)
        : Lanes(r), gram(r, with_rhs), stride((gram.sum_count + 3) / 4 * 4), collected(int64_t(LANES) * stride), fours(stride / 4) {
        for (int k = 0; k < stride; k++) fours[k / 4].to[k % 4] = triangle(r) + r;
        walk_sums(r, with_rhs, [&](int k, int i, int j) { fours[k / 4].to[k % 4] = j == r ? triangle(r) + i : packed(r, i, j); });
    }

    template <int Q> void collect(const Column<Q> &column, int lane) {
        double *out = collected + int64_t(lane) * stride;
        std::memset(out, 0, sizeof(double) * size_t(stride));
        gram.add(column, out);
    }
    // Adds further entries of the same column.
    template <int Q> void collect_more(const Column<Q> &column, int lane) { gram.add(column, collected + int64_t(lane) * stride); }
    void turn() {
        const double *row[LANES];
        vec four[4];
        for (int f = 0; f < stride / 4; f++) {
            for (int l = 0; l < LANES; l++) row[l] = collected + int64_t(l) * stride + 4 * f;
            transpose(row, four);
            for (int k = 0; k < 4; k++) lanes[fours[f].to[k]] = four[k];
        }
    }
    template <class Group> void turn_and_factorise(const Group &group, const rslm::Ridge &ridge, bool pinned = false) {
        turn();
        shift_and_factorise(group, ridge, pinned);
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
