// Columns whose products with all rows must be within bounds.
//
// For column t, minimise the quadratic function ½(v − c)ᵀM(v − c) subject to lower ≤ x_j v ≤ upper for every row j. With a finite
// stiffness k the bounds are soft: ½ k · distance² is added instead. Few bounds are active at a solution. Violated rows are found by
// the products of all rows with sixteen columns at a time, and the problem is solved for the rows found so far, until there are no
// others.
#include "bounded_column.hpp"
#include "loops.hpp"
#include <atomic>

namespace {
using rslm::Active, rslm::Bounded;

constexpr int SIDE = 2 * LANES, BLOCK = 4 * SIDE; // columns checked together, and columns that a thread takes at a time
constexpr int SAMPLE = 16; // one block of columns in this many is counted first
constexpr int AT_ONCE = 16; // violated rows, in units of the rank, that are added to a column's problem in one round at first
constexpr int MOST_ROUNDS = 200;
constexpr double EXACT = 2e-11; // relative violation of a bound that counts as rounding at the end
constexpr double SMALL = 1e-2;  // columns smaller than this, relative to the largest, have the tolerance of one of this size

RSLM_INLINE vec smaller(vec a, vec b) { return pick(a < b, a, b); }
RSLM_INLINE vec same(double a) { return vec{} + a; }

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
