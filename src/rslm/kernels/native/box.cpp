// Losses whose dual variables are in a box, ℓ(e) = max over lower ≤ s ≤ upper of s e − ε|s| − ½ δ s²: for every column
//
//     min over v of  Σ ℓ(y_i − x_i v) + |v|²/2c,     c = C/q,
//
// by coordinate ascent in the dual variables s, with v = c Σ s_i x_i kept up to date. Coordinate ascent alone is slow if rows
// are similar, so it alternates with an exact solution for the free variables (inside their box), the others fixed: a few
// passes identify the free ones, and then one exact solution is enough. Entries that are clearly at an end of their box are
// skipped until the others have converged.
#include "wide.hpp"
#include <algorithm>
#include <cmath>
#include <limits>

namespace {
using rslm::Box;

#define RSLM_APART __attribute__((noinline))
constexpr double EPS = std::numeric_limits<double>::epsilon(), INF = std::numeric_limits<double>::infinity();
constexpr int MOST_ROUNDS = 2000, NEWTON_AFTER = 20, LOOK_EVERY = 20, FACE_STEPS = 4, ACTIVE_PASSES = 3, MOST_NEWTON = 50, MOST_TRIALS = 20;
constexpr double PROXIMAL = 1e-8; // regularises the free variables if rows are similar, relative to their curvature
constexpr double SMALL_GAP = 1e-12, TINY = 1e-290;

RSLM_INLINE double shrunk(double a, double epsilon) { return a - std::min(std::max(a, -epsilon), epsilon); } // without a branch

RSLM_INLINE vec least(vec a, vec b) { return pick(a < b, a, b); }
RSLM_INLINE vec most(vec a, vec b) { return pick(a > b, a, b); }
RSLM_INLINE vec clamped(vec a, vec lower, vec upper) { return least(most(a, lower), upper); }
RSLM_INLINE vec size_of(vec a) { return pick(a < 0.0, -a, a); }
RSLM_INLINE vec shrunk(vec a, double epsilon) { return a - clamped(a, vec{} - epsilon, vec{} + epsilon); }
RSLM_INLINE double largest_of(vec a) {
    double m = a[0];
    for (int l = 1; l < LANES; l++) m = a[l] > m ? a[l] : m;
    return m;
}
RSLM_INLINE bool any(mask m) { return bits(m) != 0; }
RSLM_INLINE bool all(mask m) { return !any(~m); }

template <int Q> struct BoxColumn {
    static constexpr int width = 4 * Q;
    const Box &box;
    int rank, n = 0, padded = 0; // number of entries, and the same rounded up to a multiple of eight: the rest is always zero
    double c = 1;
    Buffer<double> x, y, s, lower, upper, h; // rows, targets, dual variables and their bounds, curvature c|x|² + δ
    Buffer<double> e;                        // errors y − x v at the last pass over all entries
    Buffer<double> gradient, step, kept;
    Buffer<int32_t> active, face;
    Gram gram; // of the rows of free entries, for the ranks that have tiles
    Buffer<double> collected;
    Panel panel; // and for the ranks above
    Triangle wide;
    Row<Q> v;
    int active_count = 0, face_count = 0;
    double largest_row = 0, largest_target = 0;

    BoxColumn(const Box &box, int rank, int64_t n)
        : box(box), rank(rank), x((n + LANES) * width), y(n + LANES), s(n + LANES), lower(n + LANES), upper(n + LANES), h(n + LANES),
          e(n + LANES), gradient(n + LANES), step(n + LANES), kept(n + LANES), active(n + LANES), face(n + LANES),
          gram(width > rslm::MOST_RANK ? 1 : rank, true), collected(gram.sum_count),
          panel(width > rslm::MOST_RANK ? CHUNK * Panel::distance(rank) : 0), wide(width > rslm::MOST_RANK ? rank : 0) {}

    RSLM_INLINE const double *row(int i) const { return x + int64_t(i) * width; }
    RSLM_INLINE double error(int i) const { return y[i] - sum(v.product(row(i))); }
    RSLM_INLINE vec errors(int i) const { // of eight consecutive entries
        reg products[LANES];
#pragma GCC unroll 8
        for (int l = 0; l < LANES; l++) products[l] = v.product(row(i + l));
        return load<vec>(y + i) - sums(products);
    }
    // The products of a row with those of some entries, eight at a time.
    void products(const Row<Q> &r, const int32_t *entries, int count, double *out) const {
        for (int k = 0; k < count; k += LANES) {
            reg products[LANES];
#pragma GCC unroll 8
            for (int l = 0; l < LANES; l++) products[l] = r.product(row(entries[k + l < count ? k + l : count - 1]));
            store(out + k, sums(products));
        }
    }

    RSLM_APART void begin(const Pattern &p, int64_t t, const double *factor, const double *squares, const Values &targets, const Values &dual, double c_) {
        c = c_, n = int(p.indptr[t + 1] - p.indptr[t]), padded = (n + LANES - 1) / LANES * LANES;
        double largest = 0;
        largest_target = 0;
        for (int i = 0; i < n; i++) {
            const int64_t at = p.indptr[t] + i, j = p.index[at];
            if (i + AHEAD < n) prefetch_row<Q>(factor + int64_t(p.index[at + AHEAD]) * width);
            Row<Q>::at(factor + j * width).put(x + int64_t(i) * width);
            y[i] = value_at(targets, at);
            const bool turned = box.mirrored && y[i] < 0;
            lower[i] = turned ? -box.upper : box.lower, upper[i] = turned ? -box.lower : box.upper;
            h[i] = c * squares[j] + box.smoothing;
            if (!(h[i] > TINY)) h[i] = TINY; // a row of zeros: its s depends on its error only
            s[i] = std::min(std::max(value_at(dual, at), lower[i]), upper[i]);
            largest = std::max(largest, squares[j]), largest_target = std::max(largest_target, std::abs(y[i]));
        }
        std::memset(x + int64_t(n) * width, 0, sizeof(double) * size_t((padded + 1 - n) * width));
        for (int i = n; i < padded; i++) y[i] = s[i] = lower[i] = upper[i] = 0, h[i] = 1;
        largest_row = std::sqrt(largest);
    }

    void all_active() {
        active_count = n;
        for (int i = 0; i < n; i++) active[i] = i;
    }

    // Computes v from the dual variables; returns the size of rounding errors in an error.
    RSLM_APART double refresh() {
        Row<Q> even, odd;
        even.clear(), odd.clear();
        double size = 0;
        for (int i = 0; i < padded; i += 2) {
            even.add(s[i], row(i)), odd.add(s[i + 1], row(i + 1));
            size += std::abs(s[i]) + std::abs(s[i + 1]);
        }
        even.add(odd);
        v.clear();
        v.add(c, even);
        return 4 * EPS * (largest_target + box.epsilon + c * size * largest_row * largest_row);
    }

    // The violation of the optimality condition of s_i, given its error: 0 at the optimum.
    RSLM_INLINE double violation(int i, double error) const {
        const double push = error - box.smoothing * s[i];
        const double up = s[i] < upper[i] ? push - (s[i] < 0 ? -box.epsilon : box.epsilon) : 0.0;
        const double down = s[i] > lower[i] ? -push - (s[i] > 0 ? -box.epsilon : box.epsilon) : 0.0;
        return std::max(std::max(up, down), 0.0);
    }
    // Sets s_i to its optimum with the others fixed, unless it would change only by rounding; returns the violation before.
    RSLM_INLINE double improve(int i, double noise) {
        const double e = error(i), before = violation(i, e);
        if (!(before > noise)) return 0;
        const double a = shrunk(s[i] * (h[i] - box.smoothing) + e, box.epsilon);
        const double to = std::min(std::max(a / h[i], lower[i]), upper[i]);
        v.add(c * (to - s[i]), row(i));
        s[i] = to;
        return before;
    }

    // One pass over all entries. Returns the largest violation. Afterwards, entries that are optimal at an end of their box (or at 0 if
    // there is an ε) are not active.
    RSLM_APART double pass_over_all(double noise) {
        const vec epsilon = vec{} + box.epsilon, margin = vec{} + noise;
        double largest = 0;
        active_count = 0;
        for (int i = 0; i < padded; i += LANES) {
            const vec now = load<vec>(s + i), low = load<vec>(lower + i), high = load<vec>(upper + i);
            const vec error = errors(i), push = error - box.smoothing * now;
            store(e + i, error);
            const vec up = push - pick(now < 0.0, -epsilon, epsilon), down = -push - pick(now > 0.0, -epsilon, epsilon);
            const auto moves = ((now < high) & (up > margin)) | ((now > low) & (down > margin));
            if (any(moves))
                for (int l = 0; l < LANES; l++)
                    if (moves[l]) largest = std::max(largest, improve(i + l, noise));
            const auto firm = ~moves & (((now == high) & (up > margin)) | ((now == low) & (down > margin)) |
                                        ((now == 0.0) & (up < -margin) & (down < -margin)));
            if (all(firm)) continue;
            for (int l = 0; l < LANES; l++) {
                active[active_count] = i + l;
                active_count += !firm[l] & (i + l < n);
            }
        }
        return largest;
    }
    RSLM_APART double pass_over_active(double noise) {
        double largest = 0;
        for (int k = 0; k < active_count; k++) largest = std::max(largest, improve(active[k], noise));
        return largest;
    }

    void find_face() {
        face_count = 0;
        for (int k = 0; k < active_count; k++) {
            const int i = active[k];
            face[face_count] = i;
            face_count += (s[i] > lower[i]) & (s[i] < upper[i]) & ((s[i] != 0) | (box.epsilon == 0)) & (h[i] > TINY);
        }
    }
    double face_lower(int i) const { return box.epsilon > 0 && s[i] > 0 ? 0.0 : lower[i]; }
    double face_upper(int i) const { return box.epsilon > 0 && s[i] < 0 ? 0.0 : upper[i]; }

    // (ridge I + Σ x xᵀ) dv = Σ g x + factor · more over the rows of the free entries
    RSLM_APART Row<Q> solve_face(double ridge, double factor, const Row<Q> &more) {
        if constexpr (4 * Q > rslm::MOST_RANK) return solve_wide_face(ridge, factor, more);
        else return solve_narrow_face(ridge, factor, more);
    }
    Row<Q> solve_wide_face(double ridge, double factor, const Row<Q> &more) {
        Row<Q> rhs;
        rhs.clear();
        rhs.add(factor, more);
        panel.shape(0, rank);
        wide.sum(panel);
        for (int i = 0; i < face_count; i++) {
            const double *row = x + int64_t(face[i]) * (4 * Q);
            rhs.add(gradient[i], row);
            std::memcpy(panel.row(panel.rows++), row, sizeof(double) * size_t(blocks_of(rank) * LANES));
            if (panel.rows == CHUNK || i + 1 == face_count) wide.add(panel), panel.rows = 0;
        }
        alignas(64) double b[8 * Row<Q>::N], ridges[4 * Q];
        rhs.put(b);
        for (int k = 0; k < rank; k++) ridges[k] = ridge;
        wide.factorise(ridges);
        wide.solve(b);
        return Row<Q>::of(b, rank);
    }
    Row<Q> solve_narrow_face(double ridge, double factor, const Row<Q> &more) {
        constexpr int parts = Row<Q>::N, stride = 8 * parts;
        const int64_t all[2] = {0, face_count};
        const Pattern pattern = {all, face.data, padded, 1, nullptr, 0, 0};
        const Values g = {gradient.data, nullptr};
        const Column<Q> column{pattern, x.data, g, 0, face_count, NO_VALUES};
        alignas(64) double flat[4 * Q * stride];
        alignas(64) double b[stride] = {};
        std::memset(flat, 0, sizeof(double) * size_t(rank * stride));
        const int used = (rank + 7) / 8; // parts that contain columns
        vec *const m = (vec *)flat;
        std::memset(collected.data, 0, sizeof(double) * size_t(gram.sum_count));
        gram.add(column, collected.data);
        walk_sums(rank, true, [&](int k, int i, int j) { (j < rank ? flat[i * stride + j] : b[i]) = collected[k]; });
        for (int p = 0; p < used; p++) store(b + 8 * p, load<vec>(b + 8 * p) + factor * more.x[p]);
        double lowest[4 * Q]; // of the pivots, as in systems.hpp
        for (int a = 0; a < rank; a++) lowest[a] = std::max(ridge, ROUNDED * (flat[a * stride + a] += ridge));
        for (int k = 0; k < rank; k++) { // = RᵀR, R in the upper triangle with its diagonal inverted
            double pivot = flat[k * stride + k];
            if (pivot < lowest[k]) {
                pivot = lowest[k];
                for (int j = k + 1; j < rank; j++)
                    pivot = std::max(pivot, flat[k * stride + j] * flat[k * stride + j] / std::max(flat[j * stride + j], lowest[j]));
            }
            const double inverse = 1.0 / std::sqrt(pivot);
            for (int p = k / 8; p < used; p++) m[k * parts + p] *= inverse;
            flat[k * stride + k] = inverse;
            b[k] *= inverse;
            for (int i = k + 1; i < rank; i++) {
                const double f = flat[k * stride + i];
                b[i] -= f * b[k];
                for (int p = i / 8; p < used; p++) m[i * parts + p] -= f * m[k * parts + p];
            }
        }
        for (int k = rank - 1; k >= 0; k--) {
            double value = b[k];
            for (int j = k + 1; j < rank; j++) value -= flat[k * stride + j] * b[j];
            b[k] = value * flat[k * stride + k];
        }
        return Row<Q>::of(b, rank);
    }

    // Optimal values of the free variables with the others fixed; stops where the first one reaches an end of its box, or continues
    // along the box if that is better. Returns whether there was anything to do.
    RSLM_APART bool face_step(double noise) {
        if (face_count == 0) return false;
        double largest = 0, curvature = 0;
        products(v, face.data, face_count, gradient.data);
        for (int k = 0; k < face_count; k++) {
            const int i = face[k];
            const double sign = s[i] > 0 ? box.epsilon : s[i] < 0 ? -box.epsilon : 0.0;
            gradient[k] = y[i] - gradient[k] - sign - box.smoothing * s[i];
            largest = std::max(largest, std::abs(gradient[k])), curvature += h[i];
        }
        if (largest <= noise) return false;
        // (δ̂/c I + Σ x xᵀ) dv = Σ g x,  ds = (g − x dv)/δ̂
        const double delta = std::max(box.smoothing, PROXIMAL * curvature / face_count);
        products(solve_face(delta / c, 0.0, v), face.data, face_count, step.data);
        double length = 1;
        for (int k = 0; k < face_count; k++) {
            const int i = face[k];
            step[k] = (gradient[k] - step[k]) / delta;
            const double room = (step[k] > 0 ? face_upper(i) : face_lower(i)) - s[i];
            if (std::abs(step[k]) > std::abs(room)) length = std::min(length, room / step[k]);
        }
        if (!(length >= 0)) return false; // not a number
        if (length < 1) {
            const double straight = gain([&](int k) { return length * step[k]; });
            const auto bent = [&](int k) {
                const int i = face[k];
                return std::min(std::max(s[i] + step[k], face_lower(i)), face_upper(i)) - s[i];
            };
            const bool bend = gain(bent) > straight;
            for (int k = 0; k < face_count; k++) step[k] = bend ? bent(k) : length * step[k];
        }
        for (int k = 0; k < face_count; k++) {
            const int i = face[k];
            const double before = s[i];
            s[i] = std::min(std::max(s[i] + step[k], face_lower(i)), face_upper(i));
            v.add(c * (s[i] - before), row(i));
        }
        if (length < 1) find_face();
        return true;
    }

    // What a step of the free variables adds to the dual objective.
    template <class F> double gain(F &&change) const {
        Row<Q> dv;
        dv.clear();
        double linear = 0;
        for (int k = 0; k < face_count; k++) {
            const double d = change(k);
            linear += d * (gradient[k] - 0.5 * box.smoothing * d);
            dv.add(d, row(face[k]));
        }
        return linear - 0.5 * c * square(dv);
    }
    static double scalar_product(const Row<Q> &a, const Row<Q> &b) {
        vec total = a.x[0] * b.x[0];
        for (int p = 1; p < Row<Q>::N; p++) total += a.x[p] * b.x[p];
        return sum(total);
    }
    static double square(const Row<Q> &r) { return scalar_product(r, r); }

    // Primal value Σ ℓ + |v|²/2c from the errors; `gap` is the difference to the dual one, a sum of terms that are not negative.
    RSLM_APART double primal(double &gap) const {
        vec loss = {}, apart = {};
        const double d = box.smoothing;
        for (int i = 0; i < padded; i += LANES) {
            const vec error = load<vec>(e + i), kept = load<vec>(s + i), low = load<vec>(lower + i), high = load<vec>(upper + i);
            const vec excess = shrunk(error, box.epsilon);
            const vec to = d > 0 ? clamped(excess / d, low, high) : pick(excess > 0.0, high, pick(excess < 0.0, low, vec{}));
            const vec cost = to * (error - 0.5 * d * to) - box.epsilon * size_of(to);
            loss += cost;
            const vec less = (to - kept) * (error - 0.5 * d * (to + kept)) - box.epsilon * (size_of(to) - size_of(kept));
            apart += most(less, vec{});
        }
        gap = sum(apart);
        return sum(loss) + 0.5 * square(v) / c;
    }

    // Of the dual variables, with v = c Σ s x.
    RSLM_APART double dual() const {
        vec total = {};
        for (int i = 0; i < padded; i += LANES) {
            const vec now = load<vec>(s + i);
            total += now * (load<vec>(y + i) - 0.5 * box.smoothing * now) - box.epsilon * size_of(now);
        }
        return sum(total) - 0.5 * square(v) / c;
    }

    RSLM_INLINE vec slopes(vec error, int i) const { // −ℓ' of eight consecutive entries, δ > 0
        return clamped(shrunk(error, box.epsilon) / box.smoothing, load<vec>(lower + i), load<vec>(upper + i));
    }

    // The derivative of the primal objective along dv at step `length`, where errors change by −length · change.
    double slope_along(const double *change, double length, double inward, double square) const {
        vec total = {};
        for (int i = 0; i < padded; i += LANES) {
            const vec a = load<vec>(change + i);
            total += slopes(load<vec>(e + i) - length * a, i) * a;
        }
        return inward + length * square - sum(total);
    }

    // Newton's method in v, for δ > 0: the objective is piecewise quadratic, so a step on the right piece finds the minimum. With exact
    // line search. Sets s = −ℓ' at the v that was found.
    RSLM_APART void newton(double noise) {
        for (int count = 0; count < MOST_NEWTON; count++) {
            Row<Q> fit; // Σ s x
            fit.clear();
            active_count = face_count = 0;
            for (int i = 0; i < padded; i += LANES) {
                const vec error = errors(i), slope = slopes(error, i);
                store(e + i, error), store(s + i, slope);
                const auto free = (slope > load<vec>(lower + i)) & (slope < load<vec>(upper + i)) & ((slope != 0.0) | (vec{} + box.epsilon == 0.0));
                for (int l = 0; l < LANES; l++) {
                    fit.add(s[i + l], row(i + l));
                    face[face_count] = i + l;
                    face_count += (free[l] != 0) & (i + l < n);
                }
            }
            // (δ/c I + Σ x xᵀ) dv = δ (Σ s x − v/c)
            Row<Q> rhs = fit;
            rhs.add(-1.0 / c, v);
            for (int k = 0; k < face_count; k++) gradient[k] = 0;
            const Row<Q> dv = solve_face(box.smoothing / c, box.smoothing, rhs);
            double largest = 0;
            for (int i = 0; i < padded; i += LANES) {
                reg products[LANES];
#pragma GCC unroll 8
                for (int l = 0; l < LANES; l++) products[l] = dv.product(row(i + l));
                const vec change = sums(products);
                store(step + i, change);
                largest = std::max(largest, largest_of(size_of(change)));
            }
            if (!(largest > noise)) break;
            const double inward = scalar_product(v, dv) / c, square_c = square(dv) / c, begin = slope_along(step.data, 0, inward, square_c);
            double length = 1, low = 0, high = INF, at_low = begin, at_high = INF;
            for (int k = 0; k < MOST_TRIALS; k++) {
                const double here = slope_along(step.data, length, inward, square_c);
                if (std::abs(here) <= 0.1 * std::abs(begin)) break;
                if (here < 0) low = length, at_low = here;
                else high = length, at_high = here;
                if (high == INF) {
                    length *= 4;
                    continue;
                }
                const double secant = low + (high - low) * at_low / (at_low - at_high), margin = 0.1 * (high - low);
                length = secant == secant ? std::min(std::max(secant, low + margin), high - margin) : 0.5 * (low + high);
            }
            v.add(length, dv);
        }
    }

    // Returns the primal value, its gap and the number of rounds.
    double solve(const Pattern &p, double &gap, int &rounds) {
        all_active();
        double noise = refresh();
        int next_newton = 1, pause = NEWTON_AFTER;
        for (rounds = 1;; rounds++) {
            find_face();
            for (int k = 0; k < FACE_STEPS && face_step(noise); k++) {}
            noise = refresh();
            double violation = pass_over_all(noise);
            if (violation <= noise) {
                const double value = primal(gap);
                if (gap <= SMALL_GAP * value + n * noise) return value;
            }
            // If c is large, rounding errors of v may change single errors by more than the noise forever, although the gap is closed.
            const bool ends = rounds >= MOST_ROUNDS || !(noise >= 0) || over(p); // also if a number is NaN: the gap shows the accuracy reached
            if (ends || rounds % LOOK_EVERY == 0) {
                refresh();
                for (int i = 0; i < padded; i += LANES) store(e + i, errors(i));
                const double value = primal(gap);
                if (ends || gap <= SMALL_GAP * value + n * noise) return value;
            }
            if (box.smoothing > 0 && rounds == next_newton) { // for use far from the solution; near it, coordinate ascent is more accurate
                const double before = dual();
                std::memcpy(kept.data, s.data, sizeof(double) * size_t(padded));
                newton(1e-6 * largest_target);
                noise = refresh();
                if (!(dual() > before)) { // with a tiny δ it may fail: restore the previous s
                    std::memcpy(s.data, kept.data, sizeof(double) * size_t(padded));
                    noise = refresh();
                    pause *= 4;
                }
                next_newton += pause;
                all_active();
                continue;
            }
            for (int k = 0; k < ACTIVE_PASSES && violation > noise; k++) {
                violation = pass_over_active(noise);
                find_face();
                face_step(noise);
            }
        }
    }
};

template <int Q>
void box_columns(const Pattern &p, Workspace &workspace, int threads, const Values &y, const double *U, int rank, const double *c,
                 const Box &box, const Values &dual, const Values &error, double *V, double *value, double *gap, int32_t *rounds) {
    double *u = workspace.reserve(size_t(p.rows + 1) * (4 * Q + 1)), *squares = u + (p.rows + 1) * 4 * Q;
    pad<Q>(U, p.rows, rank, u);
    for (int64_t j = 0; j < p.rows; j++) squares[j] = BoxColumn<Q>::square(Row<Q>::at(u + j * 4 * Q));
    int64_t most = 1;
    for (int64_t t = 0; t < p.columns; t++) most = std::max(most, p.indptr[t + 1] - p.indptr[t]);
    each(threads, p.columns, 16, [&] {
        return [&, column = BoxColumn<Q>(box, rank, most)](int64_t t) mutable {
            if (over(p)) return;
            column.begin(p, t, u, squares, y, dual, c[t]);
            int count = 0;
            value[t] = column.solve(p, gap[t], count);
            rounds[t] = count;
            double row[8 * Row<Q>::N];
            for (int k = 0; k < Row<Q>::N; k++) store(row + 8 * k, column.v.x[k]);
            std::memcpy(V + t * rank, row, sizeof(double) * size_t(rank));
            for (int i = 0; i < column.n; i++) {
                const int64_t at = p.indptr[t] + i;
                put_value(dual, at, column.s[i]);
                put_value(error, at, column.e[i]);
            }
        };
    });
}

void run_box(const Pattern &p, Workspace &w, int threads, const Values &y, const double *U, int rank, const double *c, const Box &box,
             const Values &dual, const Values &error, double *V, double *value, double *gap, int32_t *rounds) {
    const auto solve = [&](auto q) { box_columns<decltype(q)::value>(p, w, threads, y, U, rank, c, box, dual, error, V, value, gap, rounds); };
    if (rank <= rslm::MOST_RANK) with_quads(rank, solve);
    else if (rank <= 256) solve(Int<64>{});
    else solve(Int<rslm::MOST_BOX_RANK / 4>{});
}

void box_curvature(int64_t n, int threads, const Values &y, const Values &error, const int64_t *order, const Box &box, const Values &out) {
    const double stiff = 1 / box.smoothing;
    each(threads, n, even(n, threads), [&] {
        return [&](int64_t k) {
            const int64_t p = order ? order[k] : k;
            const bool turned = box.mirrored && value_at(y, p) < 0;
            const double excess = shrunk(value_at(error, p), box.epsilon) * (turned ? -stiff : stiff);
            const bool free = (excess > box.lower) & (excess < box.upper) & ((excess != 0) | (box.epsilon == 0));
            put_value(out, k, double(free) * stiff);
        };
    });
}

} // namespace

void rslm::RSLM_ISA::add_box(Kernels &kernels) { kernels.box = run_box, kernels.box_curvature = box_curvature; }
