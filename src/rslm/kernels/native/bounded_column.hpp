// The problem of one column, within the bounds of the rows found so far: soft ones by Newton's method, hard ones by a dual active set.
#pragma once
#include "dense.hpp"

namespace {
using rslm::Bounds;

constexpr int MOST_STEPS = 200, MOST_TRIALS = 40;
constexpr int STEPS_PER_RANK = 8; // additional Newton steps: many are needed if all rows are near a bound
constexpr int REBUILD = 16;       // Newton steps after which the Hessian is summed again, so that rounding errors of updates do not accumulate
constexpr double ENOUGH = 1e-22, SETTLED = 1e-14; // squares of relative steps: below the first, stop; below the second, stop unless they decrease
constexpr double UPHILL = 1e-3;                   // slope at the end of a step, relative to that at its start, up to which it is not too long
constexpr double NOISE = 1e-13;                   // relative violation of a bound that counts as rounding at each step
constexpr double ALIKE = 1e-7;                    // normals this close to the span of those of other faces count as linearly dependent
constexpr double STIFF = 1e8;                     // curvature of a hard bound relative to that of the quadratic function
constexpr double INF = std::numeric_limits<double>::infinity();

RSLM_INLINE bool over(rslm::Watch *watch) { return watch && watch->look(); }

struct Limits { // of one column
    const Bounds &b;
    int64_t t;
    double lower(int64_t j) const { return b.lower[j * b.lower_row + t * b.lower_column]; }
    double upper(int64_t j) const { return b.upper[j * b.upper_row + t * b.upper_column]; }
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

} // namespace
