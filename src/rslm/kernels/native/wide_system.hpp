// The solver of (XᵀWX + ridge) v = b for one column; see wide.hpp for the ways.
#pragma once
#include "wide.hpp"

namespace {

RSLM_INLINE double scalar_product(const double *a, const double *b, int64_t padded) {
    vec s = {};
    for (int64_t k = 0; k < padded; k += LANES) s += load<vec>(a + k) * load<vec>(b + k);
    return sum(s);
}
RSLM_INLINE void add_multiple(double *a, double f, const double *b, int64_t padded) {
    for (int64_t k = 0; k < padded; k += LANES) store(a + k, load<vec>(a + k) + f * load<vec>(b + k));
}

// out = Zb for the padded vector b.
void times(const Panel &z, const double *b, double *out) {
    int64_t i = 0;
    const int64_t stride = z.stride();
    for (; i + 4 <= z.rows; i += 4) {
        const double *row = z.row(i);
        vec s[4] = {};
        for (int k = 0; k < z.columns; k += LANES) {
            const vec x = load<vec>(b + k);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) s[j] += x * load<vec>(row + j * stride + k);
        }
        for (int j = 0; j < 4; j++) out[i + j] = sum(s[j]);
    }
    for (; i < z.rows; i++) out[i] = scalar_product(z.row(i), b, z.columns);
}
// out += Zᵀb.
void add_transposed(const Panel &z, const double *b, double *out) {
    int64_t i = 0;
    const int64_t stride = z.stride();
    for (; i + 4 <= z.rows; i += 4) {
        const double *row = z.row(i);
        for (int k = 0; k < z.columns; k += LANES) {
            vec s = load<vec>(out + k);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) s += b[i + j] * load<vec>(row + j * stride + k);
            store(out + k, s);
        }
    }
    for (; i < z.rows; i++) add_multiple(out, b[i], z.row(i), z.columns);
}
// out += ZᵀZb, four rows at a time so that they are read once.
void add_gram_times(const Panel &z, const double *b, double *out) {
    int64_t i = 0;
    const int64_t stride = z.stride();
    for (; i + 4 <= z.rows; i += 4) {
        const double *row = z.row(i);
        vec s[4] = {};
        for (int k = 0; k < z.columns; k += LANES) {
            const vec x = load<vec>(b + k);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) s[j] += x * load<vec>(row + j * stride + k);
        }
        double f[4];
        for (int j = 0; j < 4; j++) f[j] = sum(s[j]);
        for (int k = 0; k < z.columns; k += LANES) {
            vec x = load<vec>(out + k);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) x += f[j] * load<vec>(row + j * stride + k);
            store(out + k, x);
        }
    }
    for (; i < z.rows; i++) add_multiple(out, scalar_product(z.row(i), b, z.columns), z.row(i), z.columns);
}

constexpr int REPEATED = 8;  // most steps with a factor
constexpr double SOON = 4;   // columns over which the expected number of steps is averaged
constexpr double FIRST = 8;  // steps expected of the first column: so few that conjugate gradients are tried

// The entries of a column whose weight is not 0, and the rows of X at them, `stride` numbers apart.
struct WideColumn {
    const Pattern &c;
    int64_t t;
    const double *X;
    int64_t stride;
    const Values &weight;
    const rslm::Ridge &ridge;
    int64_t start, end, n = 0;
    WideColumn(const Pattern &c, int64_t t, const double *X, int64_t stride, const Values &weight, const rslm::Ridge &ridge)
        : c(c), t(t), X(X), stride(stride), weight(weight), ridge(ridge), start(c.indptr[t]), end(c.indptr[t + 1]) {
        for (int64_t p = start; p < end; p++) n += weight_at(p) != 0;
    }
    double weight_at(int64_t p) const { return weight.f64 || weight.f32 ? value_at(weight, p) : 1.0; }
    const double *row_at(int64_t p) const { return X + int64_t(c.index[p]) * stride; }
};

// Memory for the factor of a column.
struct Room {
    double *data = nullptr;
    int64_t size = 0;
    bool known = false; // whether it has been written
};

struct WideSystem {
    enum class Way { GRADIENTS, PRIMAL, DUAL };
    const int rank;
    const int64_t padded;
    Panel panel; // √W X S of one column for a diagonal scaling S; transposed in the dual
    Triangle triangle;
    Buffer<double> scale, ridge, v, residual, step, direction, moved, small;
    double expected = FIRST; // steps of conjugate gradients, from the columns before

    WideSystem(int rank, int64_t most_entries)
        : rank(rank), padded(blocks_of(rank) * LANES), panel(std::max<int64_t>(most_entries, rank) * Panel::distance(rank)), triangle(rank),
          scale(padded), ridge(padded), v(padded), residual(padded), step(padded), direction(padded), moved(padded), small(padded) {
        for (Buffer<double> *list : {&scale, &ridge, &moved}) std::memset(list->data, 0, sizeof(double) * size_t(padded)); // also the padding
    }

    void forget() { expected = FIRST; }
    // Solves the system of a column; `out` has `rank` numbers. With room for its factor the system is factorised, unless that is known.
    void solve(const WideColumn &column, const double *b, double *out, const Room &room = {}) {
        bool positive = true;
        for (int k = 0; k < rank; k++) positive = positive && column.ridge.at(column.t, k) > 0;
        const Way other = positive && column.n < rank ? Way::DUAL : Way::PRIMAL;
        const bool keep = Triangle::stored(other == Way::DUAL ? column.n : rank) <= room.size;
        const double most = keep ? 0.0 : cost(other, column.n);
        if (most < expected || !attempt(Way::GRADIENTS, column, b, int(most)))
            if (!attempt(other, column, b, REPEATED, keep ? room : Room{}) && other == Way::DUAL) attempt(Way::PRIMAL, column, b, REPEATED);
        for (int k = 0; k < rank; k++) out[k] = v[k] * scale[k];
    }

    // Steps of conjugate gradients that take as long as a factorisation.
    double cost(Way way, int64_t n) const {
        const double r = rank, m = double(n), size = way == Way::DUAL ? m : r, rows = way == Way::DUAL ? r : m;
        return AROUND + (IN_TILE * rows * size * size / 2 + IN_FACTOR * size * size * size / 6) / (2 * m * r + 1);
    }

    // The leverages x(XᵀWX + ridge)⁻¹x of all entries of a column.
    void leverages(const WideColumn &column, double *out) {
        for (int k = 0; k < rank; k++) ridge[k] = column.ridge.at(column.t, k);
        find_scale(Way::PRIMAL, column);
        load_panel(Way::PRIMAL, column);
        triangle.sum(panel);
        triangle.factorise(ridge.data);
        std::memset(step.data, 0, sizeof(double) * size_t(padded));
        for (int64_t p = column.start; p < column.end; p++) {
            for (int k = 0; k < rank; k++) step[k] = column.row_at(p)[k] * scale[k];
            triangle.solve_transposed(step.data);
            out[p] = scalar_product(step.data, step.data, padded);
        }
    }

  private:
    // Conjugate gradients, with a factor as the preconditioner unless the way is without one. Returns whether they have converged.
    bool attempt(Way way, const WideColumn &column, const double *b, int most, const Room &room = {}) {
        for (int k = 0; k < rank; k++) ridge[k] = column.ridge.at(column.t, k);
        find_scale(way, column);
        load_panel(way, column);
        if (room.known) triangle.take(room.data, panel.columns);
        else if (way != Way::GRADIENTS) {
            triangle.sum(panel);
            for (int64_t i = 0; way == Way::DUAL && i < column.n; i++) small[i] = 1.0;
            triangle.factorise(way == Way::DUAL ? small.data : ridge.data);
            if (room.data) triangle.put(room.data);
        }
        for (Buffer<double> *list : {&v, &residual, &step, &direction}) std::memset(list->data, 0, sizeof(double) * size_t(padded));
        double largest = 0; // numbers of any size can be squared after division by it
        for (int k = 0; k < rank; k++) residual[k] = scale[k] * b[k], largest = std::max(largest, std::abs(residual[k]));
        if (largest == 0) return true;
        for (int k = 0; k < rank; k++) residual[k] /= largest;
        const double enough = ACCURATE * ACCURATE * scalar_product(residual.data, residual.data, padded);
        double before = 0;
        bool done = false;
        int count = 0;
        for (; count < most; count++) {
            precondition(way);
            const double product = scalar_product(residual.data, step.data, padded);
            for (int64_t k = 0; k < padded; k += LANES)
                store(direction + k, ::load<vec>(step + k) + (count ? product / before : 0.0) * ::load<vec>(direction + k));
            before = product;
            multiply(way);
            const double length = product / scalar_product(direction.data, moved.data, padded);
            add_multiple(v.data, length, direction.data, padded);
            add_multiple(residual.data, -length, moved.data, padded);
            const double square = scalar_product(residual.data, residual.data, padded);
            done = square <= enough;
            if (done || !(square < HUGE_VAL)) break;
        }
        if (way == Way::GRADIENTS) expected += (done ? count + 1 - expected : 2 * count - expected) / SOON;
        for (int k = 0; k < rank; k++) v[k] *= largest;
        return done;
    }
    // S such that the system has a diagonal of ones, or in the dual a ridge of one. A coordinate with an infinite ridge stays 0.
    void find_scale(Way way, const WideColumn &column) {
        if (way == Way::DUAL) std::memcpy(scale.data, ridge.data, sizeof(double) * size_t(rank));
        else {
            std::memset(moved.data, 0, sizeof(double) * size_t(padded));
            for (int64_t p = column.start; p < column.end; p++) {
                const double w = column.weight_at(p), *x = column.row_at(p);
                if (w == 0) continue;
                int k = 0;
                for (; k + LANES <= rank; k += LANES) {
                    const vec at = ::load<vec>(x + k);
                    store(moved + k, ::load<vec>(moved + k) + w * at * at);
                }
                for (; k < rank; k++) moved[k] += w * x[k] * x[k];
            }
            for (int k = 0; k < rank; k++) scale[k] = moved[k] + ridge[k];
        }
        for (int k = 0; k < rank; k++) {
            const double at = scale[k];
            scale[k] = at > 0 && at < HUGE_VAL ? 1.0 / std::sqrt(at) : 0.0;
            ridge[k] = scale[k] > 0 ? ridge[k] / at : 1.0;
        }
    }
    void load_panel(Way way, const WideColumn &column) {
        const int64_t n = column.n;
        if (way == Way::DUAL) panel.shape(rank, int(n));
        else panel.shape(n, rank);
        int64_t i = 0;
        for (int64_t p = column.start; p < column.end; p++) {
            const double w = column.weight_at(p), *x = column.row_at(p);
            if (w == 0) continue;
            const double root = std::sqrt(w);
            if (way == Way::DUAL)
                for (int k = 0; k < rank; k++) panel.row(k)[i] = root * x[k] * scale[k];
            else {
                double *row = panel.row(i);
                int k = 0;
                for (; k + LANES <= rank; k += LANES) store(row + k, root * ::load<vec>(x + k) * ::load<vec>(scale + k));
                for (; k < rank; k++) row[k] = root * x[k] * scale[k];
                for (; k < padded; k++) row[k] = 0.0;
            }
            i++;
        }
        if (way == Way::DUAL)
            for (int k = 0; k < rank; k++)
                for (i = n; i % LANES; i++) panel.row(k)[i] = 0.0;
    }
    void precondition(Way way) {
        std::memcpy(step.data, residual.data, sizeof(double) * size_t(padded));
        if (way == Way::PRIMAL) triangle.solve(step.data);
        if (way == Way::DUAL && panel.columns > 0) {
            std::memset(small.data, 0, sizeof(double) * size_t(padded));
            add_transposed(panel, residual.data, small.data);
            triangle.solve(small.data);
            times(panel, small.data, moved.data);
            add_multiple(step.data, -1.0, moved.data, padded);
        }
    }
    void multiply(Way way) { // moved = (PᵀP + ridge) direction
        if (way == Way::DUAL) {
            std::memset(small.data, 0, sizeof(double) * size_t(padded));
            add_transposed(panel, direction.data, small.data);
            times(panel, small.data, moved.data);
            add_multiple(moved.data, 1.0, direction.data, padded);
        } else {
            for (int64_t k = 0; k < padded; k += LANES) store(moved + k, ::load<vec>(ridge + k) * ::load<vec>(direction + k));
            add_gram_times(panel, direction.data, moved.data);
        }
    }
};

} // namespace
