// Columns whose products with all rows must be within bounds.
//
// For column t, minimise the quadratic function ½(v − c)ᵀM(v − c) subject to lower ≤ x_j v ≤ upper for every row j. With a finite
// stiffness k the bounds are soft: ½ k · distance² is added instead. Few bounds are active at a solution. Violated rows are found by
// the products of all rows with sixteen columns at a time, and the problem is solved for the rows found so far, until there are no
// others.
#include "loops.hpp"
#include "systems.hpp"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

namespace {
using rslm::Active, rslm::Bounded, rslm::Bounds;

constexpr int SIDE = 2 * LANES, BLOCK = 4 * SIDE; // columns checked together, and columns that a thread takes at a time
constexpr int SAMPLE = 16; // one block of columns in this many is counted first
constexpr int AT_ONCE = 16; // violated rows, in units of the rank, that are added to a column's problem in one round at first
constexpr int MOST_ROUNDS = 200, MOST_STEPS = 200, MOST_TRIALS = 40;
constexpr int STEPS_PER_RANK = 8; // additional Newton steps: many are needed if all rows are near a bound
constexpr int REBUILD = 16;       // Newton steps after which the Hessian is summed again, so that rounding errors of updates do not accumulate
constexpr double ENOUGH = 1e-22, SETTLED = 1e-14; // squares of relative steps: below the first, stop; below the second, stop unless they decrease
constexpr double UPHILL = 1e-3;                   // slope at the end of a step, relative to that at its start, up to which it is not too long
constexpr double EXACT = 2e-11, NOISE = 1e-13;    // relative violation of a bound that counts as rounding: at the end, at each step
constexpr double SMALL = 1e-2;                    // columns smaller than this, relative to the largest, have the tolerance of one of this size
constexpr double ALIKE = 1e-7;                    // normals this close to the span of those of other faces count as linearly dependent
constexpr double STIFF = 1e8;                     // curvature of a hard bound relative to that of the quadratic function
constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double TINY = std::numeric_limits<double>::min();

// A vector with internal linkage: the linker must not merge those of two instruction sets.
template <class T> struct Local {
    using value_type = T;
    Local() = default;
    template <class S> Local(const Local<S> &) {}
    T *allocate(size_t n) { return static_cast<T *>(rslm::allocate(n * sizeof(T))); }
    void deallocate(T *p, size_t) { rslm::release(p); }
    template <class S> bool operator==(const Local<S> &) const { return true; }
    template <class S> bool operator!=(const Local<S> &) const { return false; }
};
template <class T> using List = std::vector<T, Local<T>>;

RSLM_INLINE bool over(rslm::Watch *watch) { return watch && watch->look(); }

struct Limits { // of one column
    const Bounds &b;
    int64_t t;
    double lower(int64_t j) const { return b.lower[j * b.lower_row + t * b.lower_column]; }
    double upper(int64_t j) const { return b.upper[j * b.upper_row + t * b.upper_column]; }
};

RSLM_INLINE vec smaller(vec a, vec b) { return pick(a < b, a, b); }
RSLM_INLINE vec same(double a) { return vec{} + a; }

double dot(const double *a, const double *b, int padded) {
    vec s = load<vec>(a) * load<vec>(b);
    for (int k = LANES; k < padded; k += LANES) s += load<vec>(a + k) * load<vec>(b + k);
    return sum(s);
}
void add(double *a, double f, const double *b, int padded) {
    for (int k = 0; k < padded; k += LANES) store(a + k, load<vec>(a + k) + f * load<vec>(b + k));
}

// A symmetric matrix of r rows, each padded with zeros, and its triangular factor.
struct Dense {
    int r, padded;
    List<double> a, least; // least: lower bounds of the pivots, up to rounding errors
    explicit Dense(int r) : r(r), padded((r + LANES - 1) / LANES * LANES), a(size_t(r) * size_t(padded)), least(size_t(r), TINY) {}
    double *row(int i) { return a.data() + size_t(i) * size_t(padded); }
    const double *row(int i) const { return a.data() + size_t(i) * size_t(padded); }
    void add_outer(double f, const double *x) {
        for (int i = 0; i < r; i++) add(row(i), f * x[i], x, padded);
    }
    // Overwrites A by R with A = RᵀR and its diagonal inverted; the part left of the diagonal is not read again.
    void factorise() {
        for (int k = 0; k < r; k++) least[size_t(k)] = std::max(least[size_t(k)], ROUNDED * row(k)[k]);
        for (int k = 0; k < r; k++) {
            double *top = row(k);
            if (top[k] < least[size_t(k)]) { // lost in rounding errors, as in systems.hpp
                top[k] = least[size_t(k)];
                for (int j = k + 1; j < r; j++) top[k] = std::max(top[k], top[j] * top[j] / std::max(row(j)[j], least[size_t(j)]));
            }
            const double inverse = 1.0 / std::sqrt(top[k]);
            for (int j = k + 1; j < r; j++) top[j] *= inverse;
            top[k] = inverse;
            for (int i = k + 1; i < r; i++) {
                double *target = row(i);
                const double f = top[i];
                for (int j = i / LANES * LANES; j < padded; j += LANES) store(target + j, load<vec>(target + j) - f * load<vec>(top + j));
            }
        }
    }
    // With the first n rows, or all of them: b ← R⁻ᵀ b, R⁻¹ b, A⁻¹ b.
    void solve_transposed(double *b, int n) const {
        for (int k = 0; k < n; k++) {
            const double x = b[k] *= row(k)[k];
            for (int j = k + 1; j < n; j++) b[j] -= row(k)[j] * x;
        }
    }
    void solve_upper(double *b, int n) const {
        for (int k = n - 1; k >= 0; k--) {
            double x = b[k];
            for (int j = k + 1; j < n; j++) x -= row(k)[j] * b[j];
            b[k] = x * row(k)[k];
        }
    }
    void solve(double *b, int n) const { solve_transposed(b, n), solve_upper(b, n); }
    // Reads A = RᵀR from one of eight interleaved factors, and writes a factor back.
    void take(const double *factors, int lane) {
        std::fill(a.begin(), a.end(), 0.0);
        alignas(64) double top[rslm::MOST_RANK] = {};
        for (int k = 0; k < r; k++) {
            if (k > 0) top[k - 1] = 0.0;
            for (int j = k; j < r; j++) top[j] = factors[packed(r, k, j) * LANES + lane];
            top[k] = 1.0 / top[k];
            least[size_t(k)] = std::max(top[k] * top[k], TINY); // later additions to A only increase them
            for (int i = k; i < r; i++)
                for (int j = i / LANES * LANES; j < padded; j += LANES) store(row(i) + j, load<vec>(row(i) + j) + top[i] * load<vec>(top + j));
        }
        for (int i = 0; i < r; i++)
            for (int j = 0; j < i; j++) row(i)[j] = row(j)[i];
    }
    void put(double *triangle) const {
        for (int i = 0; i < r; i++, triangle += r - i + 1) std::memcpy(triangle, row(i) + i, sizeof(double) * size_t(r - i));
    }
};

// A row that may violate a bound of a column.
struct Contact {
    int32_t row;
    int8_t side; // −1 below the lower bound, 1 above the upper one, 0 between them
    double s;      // multiplier of the bound: it contributes s x_j to M(v − c)
    double weight; // how s grows with the distance
    double shift;  // added to both bounds
};

// The problem of one column, restricted to the rows found so far.
struct Solver {
    int r, padded;
    double stiffness;
    const double *X;
    Dense M, system, hessian, R; // RᵀR: inner products of the normals of the active faces
    List<double> v, c, from, step, slope, inward;
    List<double> x, w, change, low, high; // of the rows found so far
    double reach = 0; // the norm of c in that of M
    struct Face {
        size_t contact;
        double sign, size, distance, noise; // noise: rounding error of the distance
        double lambda;
        bool active;
    };
    List<Face> faces; // of hard bounds, with their normals, and the active ones
    List<double> normals;
    List<size_t> on;
    rslm::Watch *watch;

    Solver(int r, double stiffness, const double *X, rslm::Watch *watch)
        : r(r), padded((r + LANES - 1) / LANES * LANES), stiffness(stiffness), X(X), M(r), system(r), hessian(r), R(r), v(size_t(padded)), c(size_t(padded)),
          step(size_t(padded)), slope(size_t(padded)), watch(watch) {}

    void begin(const double *centre, const double *factors, int lane, const double *from) {
        std::copy(centre, centre + r, c.begin());
        std::copy(from, from + r, v.begin());
        M.take(factors, lane);
        reach = 0;
        for (int k = 0; k < r; k++) reach += c[size_t(k)] * dot(M.row(k), c.data(), padded);
        reach = std::sqrt(reach);
    }
    const double *found(size_t i) const { return x.data() + i * size_t(padded); }

    void solve(List<Contact> &contacts, const Limits &limits) {
        const size_t n = contacts.size();
        from = v;
        if (n == 0 || stiffness == INF) v = c;
        x.assign(n * size_t(padded), 0.0);
        for (List<double> *list : {&w, &change, &low, &high}) list->resize(n);
        for (size_t i = 0; i < n; i++) {
            const int64_t j = contacts[i].row;
            std::copy(X + j * r, X + (j + 1) * r, x.begin() + int64_t(i) * padded);
            low[i] = limits.lower(j) + contacts[i].shift, high[i] = limits.upper(j) + contacts[i].shift;
            w[i] = dot(found(i), v.data(), padded);
        }
        system = M;
        if (n == 0) system.factorise();
        else if (stiffness < INF) soft(contacts);
        else hard(contacts);
    }

    // ½(v − c)ᵀM(v − c) + ½ k Σ distance² is convex and, while the set of active bounds stays the same, quadratic: Newton's method with
    // a line search ends after finitely many steps.
    void soft(List<Contact> &contacts) {
        const size_t n = contacts.size();
        const auto beyond = [&](size_t i, double w) { return w < low[i] ? w - low[i] : w > high[i] ? w - high[i] : 0.0; };
        bool whole = false, updated = false, rounded = false; // rounded: whether the factor comes from an updated Hessian
        double before = INF;
        for (int count = 0; count < MOST_STEPS + STEPS_PER_RANK * r; count++) {
            const bool sum = count % REBUILD == 0;
            bool moved = count == 0;
            if (sum) hessian = M, updated = false;
            for (size_t i = 0; i < n; i++) {
                const int8_t side = w[i] < low[i] ? -1 : w[i] > high[i] ? 1 : 0;
                const int active = (side != 0) - (!sum && contacts[i].side != 0);
                if (active) hessian.add_outer(active * stiffness, found(i)), updated = updated || !sum;
                moved = moved || side != contacts[i].side;
                contacts[i].side = side;
            }
            if (!moved && whole) break; // the minimiser of this quadratic function
            system = hessian, rounded = updated;
            for (int k = 0; k < r; k++) step[size_t(k)] = v[size_t(k)] - c[size_t(k)];
            for (int k = 0; k < r; k++) slope[size_t(k)] = dot(M.row(k), step.data(), padded);
            inward = slope; // M(v − c)
            for (size_t i = 0; i < n; i++)
                if (contacts[i].side) add(slope.data(), stiffness * beyond(i, w[i]), found(i), padded);
            system.factorise();
            for (int k = 0; k < r; k++) step[size_t(k)] = -slope[size_t(k)];
            system.solve(step.data(), r);
            const double start = dot(slope.data(), step.data(), padded);
            double square = 0, size = 0;
            for (int k = 0; k < r; k++) {
                square += step[size_t(k)] * dot(M.row(k), step.data(), padded);
                size += v[size_t(k)] * dot(M.row(k), v.data(), padded);
            }
            for (size_t i = 0; i < n; i++)
                if (contacts[i].side) size += stiffness * w[i] * w[i];
            if (!(-start > ENOUGH * size) || (-start <= SETTLED * size && -start >= before)) break;
            before = -start;
            for (size_t i = 0; i < n; i++) change[i] = dot(found(i), step.data(), padded);
            const double along = dot(inward.data(), step.data(), padded);
            const auto slope_at = [&](double length) {
                double total = 0;
                for (size_t i = 0; i < n; i++) total += beyond(i, w[i] + length * change[i]) * change[i];
                return along + length * square + stiffness * total;
            };
            double length = 1, end = slope_at(1);
            if (end > -UPHILL * start) { // the minimum is in between: false position, at least a tenth away from both ends
                double a = 0, b = 1, at_a = start, at_b = end;
                for (int trial = 0; trial < MOST_TRIALS && std::abs(end) > -UPHILL * start; trial++) {
                    const double guess = at_a / (at_a - at_b);
                    length = a + (b - a) * std::min(std::max(guess == guess ? guess : 0.5, 0.1), 0.9);
                    end = slope_at(length);
                    if (end > 0) b = length, at_b = end;
                    else a = length, at_a = end;
                }
            }
            whole = length == 1;
            add(v.data(), length, step.data(), padded);
            for (size_t i = 0; i < n; i++) w[i] = dot(found(i), v.data(), padded);
        }
        if (rounded) {
            system = M;
            for (size_t i = 0; i < n; i++)
                if (contacts[i].side) system.add_outer(stiffness, found(i));
            system.factorise();
        }
        for (size_t i = 0; i < n; i++)
            contacts[i].s = -stiffness * beyond(i, w[i]), contacts[i].weight = stiffness, contacts[i].side = w[i] < low[i] ? -1 : w[i] > high[i] ? 1 : 0;
    }

    // No v was found within the bounds: v stays where it was, and the violation that remains tells the caller.
    void give_up(List<Contact> &contacts) {
        v = from;
        for (Contact &contact : contacts) contact.side = 0, contact.s = 0;
        system = M, system.factorise();
    }

    // With y = R(v − c), find the point of a polyhedron closest to 0: y = Σ λ_f n_f with λ ≥ 0 for unit normals n_f of the active faces f. The
    // dual method of Goldfarb and Idnani: violated faces are added one by one, and faces whose multiplier reaches 0 are dropped.
    void hard(List<Contact> &contacts) {
        system.factorise();
        faces.clear(), normals.clear(), on.clear();
        for (size_t i = 0; i < contacts.size(); i++)
            for (const double sign : {1.0, -1.0}) {
                const double bound = sign > 0 ? low[i] : high[i];
                if (std::isinf(bound)) continue;
                std::copy(found(i), found(i) + padded, step.begin());
                system.solve_transposed(step.data(), r);
                const double size = std::sqrt(dot(step.data(), step.data(), padded));
                if (size == 0) { // a row of zeros stays at 0
                    if (sign * bound > 0) return give_up(contacts);
                    continue;
                }
                for (double &a : step) a *= sign / size;
                faces.push_back({i, sign, size, sign * (bound - w[i]) / size, NOISE * (std::abs(bound) / size + reach), 0.0, false});
                normals.insert(normals.end(), step.begin(), step.end());
            }
        std::fill(slope.begin(), slope.end(), 0.0); // y
        for (size_t count = 0; count < 20 * (faces.size() + size_t(r)); count++) {
            size_t worst = faces.size();
            for (size_t f = 0; f < faces.size(); f++)
                if (!faces[f].active && missing(f) > std::max(faces[f].noise, worst < faces.size() ? missing(worst) : 0.0))
                    worst = f;
            if (worst == faces.size() || over(watch) || !go_to(worst)) break;
        }
        for (int again = 0; again < 3 && !on.empty(); again++) { // remove the remaining rounding errors
            change.assign(on.size(), 0.0);
            for (size_t i = 0; i < on.size(); i++) change[i] = missing(on[i]);
            R.solve(change.data(), int(on.size()));
            for (size_t i = 0; i < on.size(); i++) faces[on[i]].lambda = std::max(faces[on[i]].lambda + change[i], 0.0);
            collect();
        }
        for (size_t f = 0; f < faces.size(); f++)
            if (!(missing(f) <= 100 * faces[f].noise)) return give_up(contacts);
        system.solve_upper(slope.data(), r);
        for (int k = 0; k < r; k++) v[size_t(k)] = c[size_t(k)] + slope[size_t(k)];
        for (Contact &contact : contacts) contact.side = 0, contact.s = 0;
        system = M;
        for (size_t f : on) {
            Contact &contact = contacts[faces[f].contact];
            contact.side = faces[f].sign > 0 ? -1 : 1;
            contact.s += faces[f].sign * faces[f].lambda / faces[f].size;
            contact.weight = STIFF / (faces[f].size * faces[f].size);
            system.add_outer(contact.weight, found(faces[f].contact));
        }
        system.factorise();
    }
    const double *normal(size_t f) const { return normals.data() + f * size_t(padded); }
    double missing(size_t f) const { return faces[f].distance - dot(normal(f), slope.data(), padded); }
    void collect() {
        std::fill(slope.begin(), slope.end(), 0.0);
        for (size_t f : on) add(slope.data(), faces[f].lambda, normal(f), padded);
    }
    // Appends a face: `column` has the products of its normal with the others, `rest` is its distance from their span.
    void put_on(size_t f, double *column, double rest) {
        const int last = int(on.size());
        R.solve_transposed(column, last);
        for (int i = 0; i < last; i++) R.row(i)[last] = column[i];
        std::fill(R.row(last), R.row(last) + R.padded, 0.0);
        R.row(last)[last] = 1.0 / rest;
        on.push_back(f), faces[f].active = true;
    }
    // Removes a face: its column is deleted from R, and rotations of adjacent rows make the rest triangular again.
    void take_off(int i) {
        const int left = int(on.size()) - 1;
        faces[on[size_t(i)]].active = false, faces[on[size_t(i)]].lambda = 0, on.erase(on.begin() + i);
        for (int k = 0; k <= left; k++) {
            double *row = R.row(k);
            if (k > i) row[k] = 1.0 / row[k];
            std::copy(row + std::max(i + 1, k), row + left + 1, row + std::max(i + 1, k) - 1);
            row[left] = 0.0;
        }
        for (int k = i; k < left; k++) {
            double *a = R.row(k), *b = R.row(k + 1);
            const double size = std::hypot(a[k], b[k]), cosine = a[k] / size, sine = b[k] / size;
            for (int j = k + 1; j < left; j++) {
                const double above = a[j];
                a[j] = cosine * above + sine * b[j], b[j] = cosine * b[j] - sine * above;
            }
            a[k] = 1.0 / size;
        }
    }
    // Moves y to a face, along the active ones; false if that is impossible.
    bool go_to(size_t f) {
        for (size_t count = 0; count <= 2 * (faces.size() + size_t(r)); count++) {
            List<double> along(on.size(), 0.0), rest(normal(f), normal(f) + padded), products(on.size()), part;
            for (size_t i = 0; i < on.size(); i++) products[i] = dot(normal(on[i]), rest.data(), padded);
            part = products;
            for (int again = 0; again < 2; again++) { // twice is enough to be orthogonal
                if (again)
                    for (size_t i = 0; i < on.size(); i++) part[i] = dot(normal(on[i]), rest.data(), padded);
                R.solve(part.data(), int(on.size()));
                for (size_t i = 0; i < on.size(); i++) along[i] += part[i], add(rest.data(), -part[i], normal(on[i]), padded);
            }
            const double square = dot(rest.data(), rest.data(), padded);
            const bool dependent = !(square > ALIKE * ALIKE) || int(on.size()) >= r;
            double length = dependent ? INF : missing(f) / square;
            size_t first = on.size(); // the face whose multiplier becomes 0 first
            for (size_t i = 0; i < on.size(); i++)
                if (along[i] > 1e-14 && faces[on[i]].lambda < length * along[i]) length = faces[on[i]].lambda / along[i], first = i;
            if (length == INF) return false;
            if (!dependent) add(slope.data(), length, rest.data(), padded);
            for (size_t i = 0; i < on.size(); i++) faces[on[i]].lambda = std::max(faces[on[i]].lambda - length * along[i], 0.0);
            faces[f].lambda += length;
            if (first == on.size()) {
                put_on(f, products.data(), std::sqrt(square));
                collect();
                return true;
            }
            take_off(int(first));
        }
        return false;
    }
};

// Some rows, or all of them: their numbers and positions.
struct Rows {
    const double *x;
    const int32_t *number; // nullptr for all
    int64_t count;
    int64_t at(int64_t i) const { return number ? number[i] : i; }
};

// Up to sixteen columns that are checked together.
struct Sweep {
    const Bounds &bounds;
    const double *inverse_norm; // of every row
    int r;
    double exact; // violation that counts as rounding, relative to the bound and the products
    List<vec> v;
    vec tolerance[2], margin[2]; // violation that counts, and the smallest distance of other rows to their bounds relative to their norms
    int64_t column[SIDE];
    List<int32_t> *beyond[SIDE];
    vec worst[2];

    Sweep(const Bounds &bounds, const double *inverse_norm, int r, double exact)
        : bounds(bounds), inverse_norm(inverse_norm), r(r), exact(exact), v(size_t(2 * r)) {}

    vec bound(const double *b, int64_t row_stride, int64_t column_stride, int64_t j, int h) const {
        if (column_stride == 0) return same(b[j * row_stride]);
        vec out;
        for (int l = 0; l < LANES; l++) out[l] = b[j * row_stride + column[h * LANES + l] * column_stride];
        return out;
    }
    template <int N> RSLM_INLINE void rows(const Rows &rows, int64_t first) {
        vec w[N][2] = {};
        const double *x = rows.x + first * r;
        for (int k = 0; k < r; k++) {
            const vec a = v[size_t(2 * k)], b = v[size_t(2 * k + 1)];
#pragma GCC unroll 4
            for (int i = 0; i < N; i++) w[i][0] += x[i * r + k] * a, w[i][1] += x[i * r + k] * b;
        }
#pragma GCC unroll 4
        for (int i = 0; i < N; i++) {
            const int64_t j = rows.at(first + i);
            const double inverse = inverse_norm[j];
            for (int h = 0; h < 2; h++) {
                const vec low = bound(bounds.lower, bounds.lower_row, bounds.lower_column, j, h);
                const vec high = bound(bounds.upper, bounds.upper_row, bounds.upper_column, j, h);
                const vec room = smaller(w[i][h] - low, high - w[i][h]);
                const vec relative = room * inverse; // NaN if a row of zeros is exactly at its bound, where it stays
                const vec near = pick(w[i][h] - low < high - w[i][h], low, high);
                if (unsigned out = bits(room < (exact > 0 ? tolerance[h] - exact * pick(near < 0.0, -near, near) : vec{}))) {
                    for (int l = 0; l < LANES; l++)
                        if (out >> l & 1) {
                            if (beyond[h * LANES + l]) beyond[h * LANES + l]->push_back(int32_t(j));
                            worst[h][l] = std::min(worst[h][l], room[l]);
                        } else if (relative[l] < margin[h][l]) margin[h][l] = relative[l];
                } else margin[h] = smaller(relative, margin[h]);
            }
        }
    }
    void all(const Rows &which) {
        int64_t i = 0;
        for (; i + 4 <= which.count; i += 4) rows<4>(which, i);
        for (; i < which.count; i++) rows<1>(which, i);
    }
};

// All columns of one call, and the data shared by the threads.
struct Job {
    int64_t rows, columns;
    const double *X;
    int rank;
    const Bounds &bounds;
    double stiffness;
    const Bounded &out;
    List<double> inverse_norm{}, restless{}; // of every row; the rows that have moved far, stored consecutively
    double longest = 0, scale = 0; // of the rows; of the products without bounds
    List<List<Contact>> found{};
    std::atomic<int64_t> met{0}; // number of contacts so far; whether it is too many in the end does not depend on the order

    bool too_many() const { return met > out.most; }
    bool over() const { return ::over(out.watch); }
    bool no_more() const { return too_many() || over(); }
    void measure_rows() {
        inverse_norm.resize(size_t(rows)), found.resize(size_t(columns));
        for (int64_t j = 0; j < rows; j++) {
            double square = 0;
            for (int k = 0; k < rank; k++) square += X[j * rank + k] * X[j * rank + k];
            inverse_norm[size_t(j)] = 1.0 / std::sqrt(square), longest = std::max(longest, std::sqrt(square));
        }
        for (int64_t t = 0; t < columns; t++) {
            double square = 0;
            for (int k = 0; k < rank; k++) square += out.V[t * rank + k] * out.V[t * rank + k];
            scale = std::max(scale, longest * std::sqrt(square));
        }
        for (int64_t i = 0; i < out.restless_count; i++) restless.insert(restless.end(), X + out.restless[i] * rank, X + (out.restless[i] + 1) * rank);
    }
    // A lower bound on the distance of all rows except the restless ones to their bounds, relative to their norms: the previous
    // one minus the movement of the column and of the rows since then.
    double margin_left(int64_t t) const {
        double square = 0, moved = 0;
        for (int k = 0; k < rank; k++) {
            const double v = out.V[t * rank + k], d = v - out.before[t * rank + k];
            square += v * v, moved += d * d;
        }
        return std::max(out.margin[t] - std::sqrt(moved), 0.0) * std::max(1 - out.unrest, 0.0) - out.unrest * std::sqrt(square);
    }
};

struct Worker {
    Job &job;
    int rank;
    Solver solver;
    Sweep sweep;
    List<int32_t> beyond[SIDE];
    List<double> centre, systems; // of a block: the minimisers without bounds; the factors with them
    List<int64_t> busy, next;
    List<int64_t> seen; // for every row, the last `question` for which it was marked
    int64_t question = 0;

    explicit Worker(Job &job)
        : job(job), rank(job.rank), solver(rank, job.stiffness, job.X, job.out.watch), sweep(job.bounds, job.inverse_norm.data(), rank, job.stiffness < INF ? 0.0 : EXACT),
          centre(size_t(BLOCK) * size_t(rank)), systems(size_t(BLOCK) * size_t(triangle(rank))), seen(size_t(job.rows), 0) {}

    // Solves the problem of a column for the rows found so far, starting at `from`.
    void improve(int64_t t, const double *from) {
        solver.begin(centre.data() + t % BLOCK * rank, job.out.factors + t / LANES * triangle(rank) * LANES, int(t % LANES), from);
        solver.solve(job.found[size_t(t)], Limits{job.bounds, t});
        std::copy(solver.v.begin(), solver.v.begin() + rank, job.out.V + t * rank);
        solver.system.put(systems.data() + t % BLOCK * triangle(rank));
    }
    void block(int64_t first, int64_t last) {
        if (job.no_more()) return;
        const Bounded &out = job.out;
        busy.clear();
        for (int64_t t = first; t < last; t++) {
            std::copy(out.V + t * rank, out.V + (t + 1) * rank, centre.begin() + (t - first) * rank);
            List<Contact> &contacts = job.found[size_t(t)];
            for (int64_t p = out.shift_indptr[t]; p < out.shift_indptr[t + 1]; p++) contacts.push_back({out.shift_rows[p], 0, 0.0, 0.0, out.shift[p]});
            mark(contacts);
            for (int64_t p = out.warm_indptr[t]; p < out.warm_indptr[t + 1]; p++)
                if (!known(out.warm_rows[p])) contacts.push_back({out.warm_rows[p], 0, 0.0, 0.0, 0.0});
            if (!contacts.empty() && !job.over()) improve(t, out.before + t * rank);
            busy.push_back(t);
        }
        for (int round = 0; round < MOST_ROUNDS && !busy.empty() && !job.no_more(); round++) {
            const auto proved = std::partition(busy.begin(), busy.end(), [&](int64_t t) { return job.margin_left(t) > 0; });
            next.clear();
            check(busy.data(), proved - busy.begin(), true);
            check(busy.data() + (proved - busy.begin()), busy.end() - proved, false);
            busy.swap(next);
        }
        for (int64_t t : busy) out.excess[t] = INF, out.margin[t] = -INF; // not converged
        if (job.no_more()) return;
        for (int64_t t = first; t < last; t++) {
            List<Contact> &contacts = job.found[size_t(t)];
            if (contacts.empty()) continue;
            const double *system = systems.data() + t % BLOCK * triangle(rank);
            double *factors = out.factors + t / LANES * triangle(rank) * LANES + t % LANES;
            for (int k = 0; k < triangle(rank); k++) factors[k * LANES] = system[k];
            for (const Contact &contact : contacts) // not included in the margin so far
                if (contact.side == 0) out.margin[t] = std::min(out.margin[t], room(contact, t) * job.inverse_norm[size_t(contact.row)]);
            contacts.erase(std::remove_if(contacts.begin(), contacts.end(), [](const Contact &c) { return c.side == 0; }), contacts.end());
            std::sort(contacts.begin(), contacts.end(), [](const Contact &a, const Contact &b) { return a.row < b.row; });
            contacts.shrink_to_fit(); // most of the rows found may have been dropped
        }
    }
    double room(const Contact &contact, int64_t t) const {
        double w = 0; // without shifts, as these may differ next time
        for (int k = 0; k < rank; k++) w += job.X[contact.row * rank + k] * job.out.V[t * rank + k];
        const Limits limits{job.bounds, t};
        return std::min(w - limits.lower(contact.row), limits.upper(contact.row) - w);
    }
    // The number of entries of some columns that violate their bounds at the previous v. Not at the minimiser without bounds, which means
    // little for columns with few entries.
    int64_t count(int64_t first, int64_t last) {
        int64_t total = 0;
        for (int64_t start = first; start < last && !job.over(); start += SIDE) {
            const int n = int(std::min<int64_t>(SIDE, last - start));
            for (int l = 0; l < SIDE; l++) load_column(l, start + std::min(l, n - 1), l < n, job.out.before);
            sweep.all(Rows{job.X, nullptr, job.rows});
            for (int l = 0; l < n; l++) total += int64_t(beyond[l].size());
        }
        return total;
    }
    // Afterwards `known` tells whether a row is among these.
    void mark(const List<Contact> &contacts) {
        question++;
        for (const Contact &contact : contacts) seen[size_t(contact.row)] = question;
    }
    bool known(int32_t row) const { return seen[size_t(row)] == question; }
    // Finds violated rows; checks only the restless ones if the margins of the columns prove that the others are within their bounds.
    void check(const int64_t *list, int64_t count, bool proved) {
        const Rows rows = proved ? Rows{job.restless.data(), job.out.restless, job.out.restless_count} : Rows{job.X, nullptr, job.rows};
        for (int64_t start = 0; start < count && !job.over(); start += SIDE) {
            const int n = int(std::min<int64_t>(SIDE, count - start));
            for (int l = 0; l < SIDE; l++) load_column(l, list[start + std::min(l, n - 1)], l < n, job.out.V); // repeat the last one if there are fewer
            sweep.all(rows);
            for (int l = 0; l < n; l++) conclude(list[start + l], l, proved);
        }
    }
    void load_column(int l, int64_t t, bool wanted, const double *V) {
        for (int k = 0; k < rank; k++) sweep.v[size_t(2 * k + l / LANES)][l % LANES] = V[t * rank + k];
        sweep.column[l] = t;
        double square = 0;
        for (int k = 0; k < rank; k++) square += V[t * rank + k] * V[t * rank + k];
        sweep.tolerance[l / LANES][l % LANES] = -sweep.exact * std::max(job.longest * std::sqrt(square), SMALL * job.scale);
        sweep.margin[l / LANES][l % LANES] = INF, sweep.worst[l / LANES][l % LANES] = 0;
        beyond[l].clear();
        sweep.beyond[l] = wanted ? &beyond[l] : nullptr;
    }
    void conclude(int64_t t, int l, bool proved) {
        List<Contact> &contacts = job.found[size_t(t)];
        const size_t before = contacts.size();
        if (!beyond[l].empty()) {
            mark(contacts);
            beyond[l].erase(std::remove_if(beyond[l].begin(), beyond[l].end(), [&](int32_t j) { return known(j); }), beyond[l].end());
            // If there are many, adding some of them usually brings most of the others back within their bounds.
            const size_t n = beyond[l].size(), enough = std::max(size_t(AT_ONCE) * size_t(rank + 4), before), taken = std::min(n, enough);
            for (size_t i = 0; i < taken; i++) contacts.push_back({beyond[l][i * n / taken], 0, 0.0, 0.0, 0.0});
        }
        job.met += int64_t(contacts.size() - before);
        if (contacts.size() > before) {
            improve(t, (job.stiffness < INF ? job.out.V : job.out.before) + t * rank), next.push_back(t);
            return;
        }
        const double seen = sweep.margin[l / LANES][l % LANES];
        job.out.excess[t] = job.stiffness < INF ? 0.0 : -sweep.worst[l / LANES][l % LANES];
        job.out.margin[t] = job.out.excess[t] > 0 ? -INF : proved ? std::min(job.margin_left(t), seen) : seen;
    }
};

void bound(int64_t rows, int64_t columns, int threads, const double *X, int rank, const Bounds &bounds, double stiffness,
           const Bounded &out, Active &active) {
    Job job{rows, columns, X, rank, bounds, stiffness, out};
    job.measure_rows();
    std::atomic<int64_t> counted{0}, columns_counted{0};
    if (out.most < std::numeric_limits<int64_t>::max()) { // count a sample of the columns: if far too many entries are violated, nothing is solved
        each(threads, (columns + SAMPLE * BLOCK - 1) / (SAMPLE * BLOCK), 1, [&] {
            return [&, worker = Worker(job)](int64_t sample) mutable {
                const int64_t first = sample * SAMPLE * BLOCK, last = std::min(columns, first + BLOCK);
                counted += worker.count(first, last), columns_counted += last - first;
            };
        });
        if (double(counted) / double(columns_counted) * double(columns) > double(out.most)) job.met = std::numeric_limits<int64_t>::max();
    }
    each(threads, (columns + BLOCK - 1) / BLOCK, 1, [&] {
        return [&, worker = Worker(job)](int64_t b) mutable { worker.block(b * BLOCK, std::min(columns, (b + 1) * BLOCK)); };
    });
    if (job.too_many() || (out.watch && out.watch->ended()))
        for (int64_t t = 0; t < columns; t++) out.excess[t] = INF, out.margin[t] = -INF, job.found[size_t(t)].clear();
    active.indptr[0] = 0;
    for (int64_t t = 0; t < columns; t++) active.indptr[t + 1] = active.indptr[t] + int64_t(job.found[size_t(t)].size());
    const size_t n = size_t(active.indptr[columns]);
    active.row = static_cast<int32_t *>(rslm::allocate(n * sizeof(int32_t)));
    active.s = static_cast<double *>(rslm::allocate(n * sizeof(double)));
    active.weight = static_cast<double *>(rslm::allocate(n * sizeof(double)));
    size_t p = 0;
    for (const List<Contact> &contacts : job.found)
        for (const Contact &c : contacts) active.row[p] = c.row, active.s[p] = c.s, active.weight[p] = c.weight, p++;
}

} // namespace

void rslm::RSLM_ISA::add_bounds(Kernels &kernels) { kernels.bound = bound; }
