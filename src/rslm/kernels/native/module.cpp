// The Python module: checks the arguments, chooses the instruction set, releases the interpreter lock.
#include "kernels.hpp"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

constexpr std::align_val_t CACHE_LINE{64};

double *rslm::Workspace::reserve(size_t n) {
    if (n > size) {
        release(data);
        data = nullptr, size = 0;
        data = static_cast<double *>(allocate(n * sizeof(double)));
        size = n;
    }
    return data;
}
rslm::Workspace::~Workspace() { release(data); }
rslm::Active::~Active() { release(row), release(s), release(weight); }

void *rslm::allocate(size_t bytes) { return ::operator new((bytes / 64 + 1) * 64, CACHE_LINE); } // whole cache lines, as rows are read by whole vectors
void rslm::release(void *p) { ::operator delete(p, CACHE_LINE); }
void rslm::out_of_memory() { throw std::bad_alloc(); }

namespace {
using rslm::Kernels, rslm::LANES, rslm::Part, rslm::Pattern, rslm::Values, rslm::Workspace;

// ---- instruction sets -----------------------------------------------------------------------------------------

std::vector<const Kernels *> available() { // the best one last
    std::vector<const Kernels *> all = {rslm::baseline::kernels()};
#if defined(RSLM_X86)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return all;
    all.push_back(rslm::avx2::kernels());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        all.push_back(rslm::avx512::kernels());
#endif
    return all;
}

const Kernels *chosen = nullptr;
int most_threads = 256;

// ---- stopping a kernel ------------------------------------------------------------------------------------------

struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("the time is over, or somebody has pressed Ctrl-C") {}
};
constexpr std::chrono::milliseconds BETWEEN{50}; // between two calls of `asked`
thread_local rslm::Watch watch;                  // of the current call in this thread
PyObject *asked = nullptr;                       // a Python function that returns whether to stop

// Raises a Python exception if the kernel was stopped.
void raise_if_ended() {
    if (!watch.ended()) return;
    watch.begin();
    if (PyErr_Occurred()) throw nb::python_error(); // raised by a signal handler
    throw Stopped();
}
template <class C, class R, class... A> auto watched(R (C::*call)(A...)) {
    return [call](C &self, A... given) -> R {
        if constexpr (std::is_void_v<R>) {
            (self.*call)(given...);
            raise_if_ended();
        } else {
            R result = (self.*call)(given...);
            raise_if_ended();
            return result;
        }
    };
}
// Only one call at a time may use the workspace of a pattern and its watch.
struct Alone {
    std::lock_guard<std::mutex> lock;
    Pattern &pattern;
    Alone(std::mutex &busy, Pattern &pattern) : lock(busy), pattern(pattern) { watch.begin(), pattern.watch = &watch; }
    ~Alone() { pattern.watch = nullptr; }
};

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels *k : available()) names.push_back(k->name);
    return names;
}
void use_instruction_set(const std::string &name) {
    for (const Kernels *k : available())
        if (name == k->name) {
            chosen = k;
            return;
        }
    std::string all;
    for (const std::string &other : instruction_sets()) all += (all.empty() ? "" : ", ") + other;
    throw std::invalid_argument("instruction set '" + name + "' is not available on this machine, which has " + all);
}

// ---- arrays ---------------------------------------------------------------------------------------------------

template <class T, int N> using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Indptr = Array<const int64_t, 1>;
using Index = Array<const int32_t, 1>;
using Pairs = Array<const int64_t, 1>;
using Vector = Array<const double, 1>;
using Matrix = Array<const double, 2>;
using Coefficients = nb::ndarray<const double, nb::c_contig, nb::device::cpu>; // one per column, or one per column and coordinate
using Flags = Array<const uint8_t, 1>;
using CountsOut = Array<int32_t, 1>;
using VectorOut = Array<double, 1>;
using MatrixOut = Array<double, 2>;
// float64 or float32
using Numbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NumbersOut = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}
template <class A> Values values_of(const A &a, int64_t n) {
    require(int64_t(a.shape(0)) == n, "one value for every entry of the pattern is needed");
    void *data = const_cast<void *>(static_cast<const void *>(a.data())); // written to only where A is an output
    if (a.dtype() == nb::dtype<double>()) return {static_cast<double *>(data), nullptr};
    if (a.dtype() == nb::dtype<float>()) return {nullptr, static_cast<float *>(data)};
    throw std::invalid_argument("values must be float64 or float32");
}
// An optional array.
template <class A> Values values_or_none(const std::optional<A> &a, int64_t n) { return a ? values_of(*a, n) : Values{nullptr, nullptr}; }
// The number of threads worth using: waking one costs some microseconds, and results do not depend on it.
int useful_threads(int threads, int64_t multiplications) {
    require(threads >= 1, "the number of threads must be at least 1");
    return int(std::clamp<int64_t>(multiplications / 500'000, 1, std::min(threads, most_threads)));
}
int64_t factor_size(int64_t columns, int64_t rank) { return (columns + LANES - 1) / LANES * rank * (rank + 1) / 2 * LANES; }
int rank_of(size_t rank) {
    require(rank >= 1 && rank <= rslm::MOST_RANK, "the rank must be between 1 and 128");
    return int(rank);
}
template <class A> void require_shape(const A &a, int64_t rows, int rank) {
    require(int64_t(a.shape(0)) == rows && int64_t(a.shape(1)) == rank, "a factor has the wrong shape");
}

// ---- the pattern and its kernels --------------------------------------------------------------------------------

// The rows of a matrix of features; it keeps the arrays alive.
class Features {
    std::optional<Indptr> indptr;
    std::optional<Index> index;
    Numbers values;

  public:
    rslm::FeatureRows rows;

    Features(std::optional<Indptr> indptr_, std::optional<Index> index_, Numbers values_, int64_t n, int64_t features)
        : indptr(indptr_), index(index_), values(values_) {
        const bool small = features >= 0 && features < (int64_t(1) << 31) && n < (int64_t(1) << 62) / std::max(features, int64_t(1));
        require(n >= 0 && small, "the shape is out of range");
        require(bool(indptr) == bool(index), "indptr and index belong together");
        rows = {indptr ? indptr->data() : nullptr, index ? index->data() : nullptr, {}, n, features};
        if (!indptr) {
            rows.values = values_of(values, n * features);
            require(rows.values.f64, "dense features must be float64");
            return;
        }
        require(int64_t(indptr->shape(0)) == n + 1, "indptr must have one number more than there are rows");
        rows.values = values_of(values, int64_t(index->shape(0)));
        require(rows.indptr[0] == 0 && rows.indptr[n] == int64_t(index->shape(0)), "indptr must run from 0 to the number of entries");
        for (int64_t i = 0; i < n; i++) require(rows.indptr[i] <= rows.indptr[i + 1], "indptr must not decrease");
        for (int64_t p = 0; p < rows.indptr[n]; p++) require(rows.index[p] >= 0 && rows.index[p] < features, "a feature is out of range");
    }
    int64_t size() const { return rows.features; }
    int64_t stored() const { return int64_t(values.shape(0)); }
};

class Columns {
    Indptr indptr;
    Index index;
    std::vector<int64_t> shards;
    Pattern pattern;
    Workspace workspace;
    std::mutex busy; // only one call at a time may use the workspace

    bool no_row_twice() const {
        if (pattern.entries() > pattern.rows) return false;
        std::vector<bool> seen(size_t(pattern.rows), false);
        for (int64_t p = 0; p < pattern.entries(); p++) {
            if (seen[size_t(pattern.index[p])]) return false;
            seen[size_t(pattern.index[p])] = true;
        }
        return true;
    }
    // As many shards as can be added at negligible cost, a multiple of four so that few threads share them evenly, balanced by
    // entries and also by columns, as a column has a cost of its own. All this depends on the data, never on the number of
    // threads.
    void split() {
        const int64_t few = pattern.apart ? 32 : pattern.entries() < pattern.rows ? 1 : 4; // every shard needs memory for sums over all rows
        const int64_t groups = pattern.groups(), wanted = pattern.entries() / (256 * std::max<int64_t>(pattern.rows, 1)) * 4;
        const int64_t count = std::max<int64_t>(1, std::min(std::clamp<int64_t>(wanted, few, 32), groups));
        const auto cost = [&](int64_t g) {
            const int64_t t = std::min(g * LANES, pattern.columns);
            return double(pattern.indptr[t]) + 8.0 * double(t);
        };
        shards.assign(1, 0);
        for (int64_t s = 1; s < count; s++) {
            int64_t low = shards.back(), high = groups;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (cost(middle) < cost(groups) * double(s) / double(count)) low = middle + 1;
                else high = middle;
            }
            shards.push_back(low);
        }
        shards.push_back(groups);
        pattern.shards = shards.data();
        pattern.shard_count = count;
        pattern.most_entries = LANES;
        for (int64_t g = 0; g < groups; g++) {
            int64_t n = 0;
            for (int64_t t = g * LANES; t < std::min((g + 1) * LANES, pattern.columns); t++)
                n += (pattern.indptr[t + 1] - pattern.indptr[t] + LANES - 1) / LANES * LANES;
            pattern.most_entries = std::max(pattern.most_entries, n);
        }
    }

  public:
    Columns(Indptr indptr_, Index index_, int64_t rows) : indptr(indptr_), index(index_) {
        require(indptr.shape(0) >= 1, "indptr must have one number more than there are columns");
        pattern = {indptr.data(), index.data(), rows, int64_t(indptr.shape(0)) - 1, nullptr, 0, 0, false};
        require(rows >= 0 && rows < (int64_t(1) << 31), "the number of rows must be below 2³¹");
        require(pattern.indptr[0] == 0 && pattern.entries() == int64_t(index.shape(0)), "indptr must run from 0 to the number of entries");
        for (int64_t t = 0; t < pattern.columns; t++) require(pattern.indptr[t] <= pattern.indptr[t + 1], "indptr must not decrease");
        for (int64_t p = 0; p < pattern.entries(); p++)
            require(pattern.index[p] >= 0 && pattern.index[p] < rows, "a row index is out of range");
        pattern.apart = no_row_twice();
        split();
    }
    Columns(const Columns &) = delete;

    int64_t rows() const { return pattern.rows; }
    int64_t columns() const { return pattern.columns; }
    int64_t entries() const { return pattern.entries(); }
    int64_t shard_count() const { return pattern.shard_count; }

    rslm::Ridge ridge_of(const Coefficients &ridge, int64_t count, int rank) const {
        const bool each = ridge.ndim() == 2;
        require((ridge.ndim() == 1 || each) && int64_t(ridge.shape(0)) == count, "one ridge for every column is needed");
        require(!each || int64_t(ridge.shape(1)) == rank, "one ridge for every coordinate is needed");
        return {ridge.data(), each ? rank : 1};
    }
    double evaluate(const Numbers &y, const std::optional<Numbers> &weight, const Matrix &U, const Coefficients &ridge, bool pinned,
                    const MatrixOut &V, const VectorOut &factors, const NumbersOut &residual, const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * rank);
        const Values in = values_of(y, entries()), w = values_or_none(weight, entries()), out = values_of(residual, entries());
        require_shape(U, rows(), rank), require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        return chosen->evaluate(Part::ALL, pattern, workspace, threads, in, w, U.data(), rank, r, pinned, V.data(), factors.data(), out,
                                by_rows.data());
    }
    void regress(const Numbers &y, const std::optional<Numbers> &weight, const Matrix &U, const Coefficients &ridge, bool pinned,
                 const MatrixOut &V, const VectorOut &factors, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * rank);
        const Values in = values_of(y, entries()), w = values_or_none(weight, entries());
        require_shape(U, rows(), rank), require_shape(V, columns(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->evaluate(Part::SOLVE, pattern, workspace, threads, in, w, U.data(), rank, r, pinned, V.data(), factors.data(), {}, nullptr);
    }
    double residuals(const Numbers &y, const std::optional<Numbers> &weight, const Matrix &U, const Matrix &V, const NumbersOut &residual,
                     const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * 2);
        const Values in = values_of(y, entries()), w = values_or_none(weight, entries()), out = values_of(residual, entries());
        require_shape(U, rows(), rank), require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        double *v = const_cast<double *>(V.data()); // only read in this part
        return chosen->evaluate(Part::FOLLOW, pattern, workspace, threads, in, w, U.data(), rank, {nullptr, 1}, false, v, nullptr, out, by_rows.data());
    }
    void derivative(const Numbers &residual, const std::optional<Numbers> &weight, const Matrix &U, const Matrix &V, const Vector &factors,
                    const Matrix &dU, const std::optional<MatrixOut> &dV, const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * 5);
        const Values in = values_of(residual, entries()), w = values_or_none(weight, entries());
        require_shape(U, rows(), rank), require_shape(dU, rows(), rank), require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        if (dV) require_shape(*dV, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array of the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->derivative(pattern, workspace, threads, in, w, U.data(), rank, V.data(), factors.data(), dU.data(),
                           dV ? dV->data() : nullptr, by_rows.data());
    }
    double evaluate_tasks(const Features &x, bool centred, const Numbers &y, const Matrix &U, const Coefficients &ridge, bool pinned,
                          const MatrixOut &V, const VectorOut &factors, const NumbersOut &residual, const MatrixOut &by_features, int threads) {
        const int rank = rank_of(U.shape(1));
        require(x.rows.rows == rows(), "there must be features of every row");
        threads = useful_threads(threads, (entries() * rank + x.stored()) * rank);
        const Values in = values_of(y, entries()), out = values_of(residual, entries());
        require_shape(U, x.size(), rank), require_shape(V, columns(), rank), require_shape(by_features, x.size(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        return chosen->evaluate_tasks(pattern, x.rows, centred, workspace, threads, in, U.data(), rank, r, pinned, V.data(), factors.data(), out,
                                      by_features.data());
    }
    void derivative_tasks(const Features &x, bool centred, const Numbers &residual, const Matrix &U, const Matrix &V, const Vector &factors,
                          const Matrix &dU, const MatrixOut &by_features, int threads) {
        const int rank = rank_of(U.shape(1));
        require(x.rows.rows == rows(), "there must be features of every row");
        threads = useful_threads(threads, 5 * x.stored() + 6 * columns() * x.size() * rank);
        const Values in = values_of(residual, entries());
        require_shape(U, x.size(), rank), require_shape(dU, x.size(), rank), require_shape(V, columns(), rank);
        require_shape(by_features, x.size(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array of the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->derivative_tasks(pattern, x.rows, centred, workspace, threads, in, U.data(), rank, V.data(), factors.data(), dU.data(), by_features.data());
    }
    void predict_tasks(const Features &x, const Matrix &U, const Matrix &V, const VectorOut &prediction, int threads) {
        const int rank = rank_of(U.shape(1));
        require(x.rows.rows == rows(), "there must be features of every row");
        threads = useful_threads(threads, x.stored() + columns() * x.size() * rank);
        require_shape(U, x.size(), rank), require_shape(V, columns(), rank);
        require(int64_t(prediction.shape(0)) == entries(), "one prediction for every entry of the pattern is needed");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->predict_tasks(pattern, x.rows, workspace, threads, U.data(), rank, V.data(), prediction.data());
    }
    void features_of_tasks(const Features &x, const Numbers &z, const MatrixOut &by_columns, int threads) {
        require(x.rows.rows == rows(), "there must be features of every row");
        const Values in = values_of(z, entries());
        require_shape(by_columns, columns(), int(x.size()));
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->features_of_tasks(pattern, x.rows, useful_threads(threads, x.stored()), in, by_columns.data());
    }
    void factorise(const Matrix &X, const std::optional<Numbers> &weight, const Columns *more, const std::optional<Numbers> &more_weight,
                   const Coefficients &ridge, const VectorOut &factors, int threads) {
        const int rank = rank_of(X.shape(1));
        require(!more || (more->rows() == rows() && more->columns() == columns() && more_weight), "more entries must be of the same shape, with weights");
        const Values more_w = more ? values_of(*more_weight, more->entries()) : Values{nullptr, nullptr};
        threads = useful_threads(threads, (entries() + columns() * rank) * rank * rank);
        const Values w = values_or_none(weight, entries());
        require_shape(X, rows(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->factorise(pattern, workspace, threads, X.data(), rank, w, more ? &more->pattern : nullptr, more_w, r, factors.data());
    }
    void scatter(const Numbers &s, const Matrix &V, const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(V.shape(1));
        threads = useful_threads(threads, entries() * rank);
        const Values in = values_of(s, entries());
        require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->scatter(pattern, workspace, threads, in, V.data(), rank, by_rows.data());
    }
    void gather(const Numbers &s, const Matrix &X, const MatrixOut &by_columns, int threads) {
        const int rank = rank_of(X.shape(1));
        threads = useful_threads(threads, entries() * rank);
        const Values in = values_of(s, entries());
        require_shape(X, rows(), rank), require_shape(by_columns, columns(), rank);
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->gather(pattern, workspace, threads, in, X.data(), rank, by_columns.data());
    }
    void grams(const Matrix &X, const std::optional<Numbers> &weight, const Array<double, 3> &grams, int threads) {
        const int rank = rank_of(X.shape(1));
        threads = useful_threads(threads, entries() * rank * rank);
        const Values w = values_or_none(weight, entries());
        require_shape(X, rows(), rank), require_shape(grams, columns(), rank);
        require(int64_t(grams.shape(2)) == rank, "a Gram matrix has the wrong shape");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->grams(pattern, workspace, threads, X.data(), rank, w, grams.data());
    }
    void box(const Numbers &y, const Matrix &U, const Vector &c, double lower, double upper, bool mirrored, double epsilon, double smoothing,
             const NumbersOut &dual, const NumbersOut &error, const MatrixOut &V, const VectorOut &value, const VectorOut &gap, const CountsOut &rounds, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * 20);
        const Values in = values_of(y, entries()), inout = values_of(dual, entries()), out = values_of(error, entries());
        require_shape(U, rows(), rank), require_shape(V, columns(), rank);
        for (int64_t length : {int64_t(c.shape(0)), int64_t(value.shape(0)), int64_t(gap.shape(0)), int64_t(rounds.shape(0))})
            require(length == columns(), "one number for every column is needed");
        require(lower <= 0 && upper >= 0, "the interval must contain 0");
        require(epsilon >= 0 && smoothing >= 0, "ε and δ must not be negative");
        require(smoothing == 0 || 1 / smoothing < HUGE_VAL, "δ must be 0 or so large that 1/δ is a number");
        require(smoothing > 0 || (lower > -HUGE_VAL && upper < HUGE_VAL), "an interval without end needs δ > 0");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->box(pattern, workspace, threads, in, U.data(), rank, c.data(), {lower, upper, mirrored, epsilon, smoothing}, inout, out, V.data(),
                    value.data(), gap.data(), rounds.data());
    }

    // ---- these two run in the calling thread, on the groups first … last − 1, and may run concurrently ------------

    void require_groups(int64_t first, int64_t last, const Flags &active, const Matrix &x, int rank) const {
        require(0 <= first && first <= last && last <= pattern.groups(), "the groups are out of range");
        require(int64_t(active.shape(0)) == last - first, "one flag for every group is needed");
        require_shape(x, rows() + 1, chosen->padded_width(rank));
    }
    void newton(int64_t first, int64_t last, const Flags &active, const Matrix &x, const Numbers &z, const Numbers &weight, const Matrix &V,
                const Coefficients &ridge, const VectorOut &factors, const MatrixOut &step, const VectorOut &decrement) {
        const int rank = rank_of(V.shape(1));
        require_groups(first, last, active, x, rank);
        const Values in = values_of(z, entries()), w = values_of(weight, entries());
        require_shape(V, columns(), rank), require_shape(step, columns(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(decrement.shape(0)) == columns(), "one number for every column is needed");
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        chosen->newton(pattern, first, last, active.data(), x.data(), rank, in, w, V.data(), r, factors.data(), step.data(),
                       decrement.data());
    }
    void products(int64_t first, int64_t last, const Flags &active, const Matrix &x, const Matrix &R, const VectorOut &product) {
        const int rank = rank_of(R.shape(1));
        require_groups(first, last, active, x, rank);
        require_shape(R, columns(), rank);
        const auto at = [&](int64_t group) { return pattern.indptr[std::min(group * LANES, pattern.columns)]; };
        require(int64_t(product.shape(0)) == at(last) - at(first), "one product for every entry of the groups is needed");
        nb::gil_scoped_release release;
        chosen->products(pattern, first, last, active.data(), x.data(), rank, R.data(), product.data());
    }
    void gram(const Numbers &s, const Matrix &X, const std::optional<MatrixOut> &Y, const MatrixOut &product, int threads) {
        const int rank = rank_of(X.shape(1));
        threads = useful_threads(threads, entries() * rank * 2);
        const Values in = values_of(s, entries());
        require_shape(X, rows(), rank), require_shape(product, rows(), rank);
        if (Y) require_shape(*Y, columns(), rank);
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->gram(pattern, workspace, threads, in, X.data(), rank, Y ? Y->data() : nullptr, product.data());
    }
    void predict(const Matrix &U, const Matrix &V, const VectorOut &prediction, int threads) {
        const int rank = int(U.shape(1));
        threads = useful_threads(threads, entries() * rank);
        require_shape(U, rows(), rank), require_shape(V, columns(), rank);
        require(int64_t(prediction.shape(0)) == entries(), "one prediction for every entry of the pattern is needed");
        nb::gil_scoped_release release;
        chosen->predict(pattern, threads, U.data(), V.data(), rank, prediction.data());
    }
};

void solve(const Vector &factors, const Matrix &rhs, const MatrixOut &solution, int threads) {
    const int rank = rank_of(rhs.shape(1));
    threads = useful_threads(threads, int64_t(rhs.shape(0)) * rank * rank);
    require_shape(solution, int64_t(rhs.shape(0)), rank);
    require(int64_t(factors.shape(0)) >= factor_size(int64_t(rhs.shape(0)), rank), "the array of the factors is too small");
    nb::gil_scoped_release release;
    chosen->solve(int64_t(rhs.shape(0)), threads, factors.data(), rank, rhs.data(), solution.data());
}

// A scalar, a row, a column or a matrix of bounds, by its strides.
using Plane = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;
template <class T> auto owned(T *&data, size_t n) { // takes ownership
    nb::capsule owner(data, [](void *p) noexcept { rslm::release(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(std::exchange(data, nullptr), {n}, owner);
}

nb::tuple bound(const Matrix &X, const MatrixOut &V, const VectorOut &factors, const Plane &lower, const Plane &upper, double stiffness,
                const Indptr &warm_indptr, const Index &warm_rows, const Indptr &shift_indptr, const Index &shift_rows, const Vector &shift, const Matrix &before, const VectorOut &margin, double unrest,
                const Index &restless, const VectorOut &excess, const Array<int64_t, 1> &indptr, int64_t most, int threads) {
    const int rank = rank_of(X.shape(1));
    const int64_t rows = int64_t(X.shape(0)), columns = int64_t(V.shape(0));
    threads = useful_threads(threads, rows * columns * rank);
    require_shape(V, columns, rank), require_shape(before, columns, rank);
    for (const Plane *plane : {&lower, &upper})
        require(int64_t(plane->shape(0)) == rows && int64_t(plane->shape(1)) == columns, "bounds of every entry are needed");
    require(int64_t(factors.shape(0)) >= factor_size(columns, rank), "the array of the factors is too small");
    require(int64_t(margin.shape(0)) == columns && int64_t(excess.shape(0)) == columns, "one number for every column is needed");
    require(int64_t(indptr.shape(0)) == columns + 1, "indptr must have one number more than there are columns");
    require(stiffness > 0, "the stiffness must be positive");
    const auto require_lists = [&](const Indptr &starts, const Index &list) {
        require(int64_t(starts.shape(0)) == columns + 1, "indptr must have one number more than there are columns");
        require(starts.data()[0] == 0 && starts.data()[columns] == int64_t(list.shape(0)), "indptr must run from 0 to the number of entries");
        for (int64_t t = 0; t < columns; t++) require(starts.data()[t] <= starts.data()[t + 1], "indptr must not decrease");
    };
    require_lists(warm_indptr, warm_rows), require_lists(shift_indptr, shift_rows);
    require(shift.shape(0) == shift_rows.shape(0), "one shift for every entry is needed");
    for (const Index *list : {&warm_rows, &shift_rows, &restless})
        for (size_t p = 0; p < list->shape(0); p++) require(list->data()[p] >= 0 && list->data()[p] < rows, "a row index is out of range");
    const rslm::Bounds bounds{lower.data(), lower.stride(0), lower.stride(1), upper.data(), upper.stride(0), upper.stride(1)};
    const rslm::Bounded out{V.data(), factors.data(), warm_indptr.data(), warm_rows.data(), shift_indptr.data(), shift_rows.data(), shift.data(), before.data(), margin.data(), unrest, restless.data(), int64_t(restless.shape(0)), excess.data(), most, &watch};
    rslm::Active active{indptr.data()};
    {
        nb::gil_scoped_release release;
        watch.begin();
        chosen->bound(rows, columns, threads, X.data(), rank, bounds, stiffness, out, active);
    }
    raise_if_ended(); // before any array is created, which Python cannot do while an exception is pending
    const size_t n = size_t(active.indptr[columns]);
    return nb::make_tuple(owned(active.row, n), owned(active.s, n), owned(active.weight, n));
}

void predict_pairs(const Pairs &i, const Pairs &t, const Matrix &U, const Matrix &V, const VectorOut &prediction, int threads) {
    const int64_t n = int64_t(i.shape(0));
    threads = useful_threads(threads, n * int64_t(U.shape(1)));
    require(int64_t(t.shape(0)) == n && int64_t(prediction.shape(0)) == n, "the pairs and the predictions must have one length");
    require(U.shape(1) == V.shape(1), "the factors must have one rank");
    for (int64_t p = 0; p < n; p++)
        require(i.data()[p] >= 0 && i.data()[p] < int64_t(U.shape(0)) && t.data()[p] >= 0 && t.data()[p] < int64_t(V.shape(0)),
                "a pair is out of range");
    nb::gil_scoped_release release;
    chosen->predict_pairs(i.data(), t.data(), n, threads, U.data(), V.data(), int(U.shape(1)), prediction.data());
}

void box_curvature(const Numbers &y, const Numbers &error, const std::optional<Pairs> &order, double lower, double upper, bool mirrored,
                   double epsilon, double smoothing, const NumbersOut &curvature, int threads) {
    const int64_t n = int64_t(y.shape(0));
    const Values targets = values_of(y, n), errors = values_of(error, n), out = values_of(curvature, n);
    require(!order || int64_t(order->shape(0)) == n, "the order must name every entry");
    if (order)
        for (int64_t k = 0; k < n; k++) require(order->data()[k] >= 0 && order->data()[k] < n, "an entry of the order is out of range");
    require(smoothing > 0, "a curvature needs δ > 0");
    nb::gil_scoped_release release;
    chosen->box_curvature(n, useful_threads(threads, 10 * n), targets, errors, order ? order->data() : nullptr,
                          {lower, upper, mirrored, epsilon, smoothing}, out);
}

void padded(const Matrix &U, const MatrixOut &out) {
    const int rank = rank_of(U.shape(1));
    require_shape(out, int64_t(U.shape(0)) + 1, chosen->padded_width(rank));
    chosen->padded(U.data(), int64_t(U.shape(0)), rank, out.data());
}

} // namespace

void rslm::Watch::begin() { over = false, caller = std::this_thread::get_id(), next = std::chrono::steady_clock::now() + BETWEEN; }
bool rslm::Watch::ask() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next) return false;
    nb::gil_scoped_acquire acquire;
    bool end = PyErr_CheckSignals() != 0; // an exception raised by a handler stays pending until the kernel has returned
    if (!end && asked) {
        PyObject *answer = PyObject_CallNoArgs(asked);
        end = !answer || PyObject_IsTrue(answer) != 0;
        Py_XDECREF(answer);
    }
    if (end) over = true;
    next = std::chrono::steady_clock::now() + BETWEEN;
    return end;
}

NB_MODULE(_native, m) {
    nb::register_exception_translator([](const std::exception_ptr &p, void *) {
        try {
            std::rethrow_exception(p);
        } catch (const std::bad_alloc &) {
            PyErr_SetString(PyExc_MemoryError, "there is not enough memory for the kernels: a smaller rank, fewer threads or less data need less");
        }
    });
    nb::set_leak_warnings(false);  // some objects live until the interpreter ends: not a leak
    const auto IN = nb::arg();
    const auto OUT = nb::arg().noconvert();
    chosen = available().back();
    nb::exception<Stopped>(m, "Stopped");
    m.def("ask", [](nb::object function) { asked = function.release().ptr(); }, nb::arg("function"));
    m.def("instruction_set", [] { return std::string(chosen->name); });
    m.def("instruction_sets", &instruction_sets);
    m.def("limit_threads", [](int most) { most_threads = std::clamp(most, 1, 256); }, nb::arg("most"));
    m.def("use_instruction_set", &use_instruction_set, nb::arg("name"));
    m.def("padded_width", [](int rank) { return chosen->padded_width(rank_of(size_t(rank))); }, nb::arg("rank"));
    m.def("padded", &padded, IN, OUT);
    m.def("box_curvature", &box_curvature, IN, IN, nb::arg().none(), IN, IN, IN, IN, IN, OUT, IN);
    m.def("solve", &solve, IN, IN, OUT, IN);
    m.def("bound", &bound, IN, OUT, OUT, IN, IN, IN, IN, IN, IN, IN, IN, IN, OUT, IN, IN, OUT, OUT, IN, IN);
    m.def("predict_pairs", &predict_pairs, IN, IN, IN, IN, OUT, IN);
    nb::class_<Features>(m, "Features")
        .def(nb::init<std::optional<Indptr>, std::optional<Index>, Numbers, int64_t, int64_t>(), nb::arg("indptr").none(),
             nb::arg("index").none(), nb::arg("values"), nb::arg("rows"), nb::arg("features"));
    nb::class_<Columns>(m, "Columns")
        .def(nb::init<Indptr, Index, int64_t>(), nb::arg("indptr"), nb::arg("index"), nb::arg("rows"))
        .def_prop_ro("rows", &Columns::rows)
        .def_prop_ro("columns", &Columns::columns)
        .def_prop_ro("entries", &Columns::entries)
        .def_prop_ro("shard_count", &Columns::shard_count)
        // Outputs are not converted: the results would be written to a copy and lost.
        .def("evaluate", watched(&Columns::evaluate), IN, nb::arg().none(), IN, IN, IN, OUT, OUT, OUT, OUT, IN)
        .def("regress", watched(&Columns::regress), IN, nb::arg().none(), IN, IN, IN, OUT, OUT, IN)
        .def("residuals", watched(&Columns::residuals), IN, nb::arg().none(), IN, IN, OUT, OUT, IN)
        .def("derivative", watched(&Columns::derivative), IN, nb::arg().none(), IN, IN, IN, IN, nb::arg().none().noconvert(), OUT, IN)
        .def("evaluate_tasks", watched(&Columns::evaluate_tasks), IN, IN, IN, IN, IN, IN, OUT, OUT, OUT, OUT, IN)
        .def("derivative_tasks", watched(&Columns::derivative_tasks), IN, IN, IN, IN, IN, IN, IN, OUT, IN)
        .def("predict_tasks", watched(&Columns::predict_tasks), IN, IN, IN, OUT, IN)
        .def("features_of_tasks", watched(&Columns::features_of_tasks), IN, IN, OUT, IN)
        .def("factorise", watched(&Columns::factorise), IN, nb::arg().none(), nb::arg().none(), nb::arg().none(), IN, OUT, IN)
        .def("scatter", watched(&Columns::scatter), IN, IN, OUT, IN)
        .def("gather", watched(&Columns::gather), IN, IN, OUT, IN)
        .def("grams", watched(&Columns::grams), IN, nb::arg().none(), OUT, IN)
        .def("box", watched(&Columns::box), IN, IN, IN, IN, IN, IN, IN, IN, OUT, OUT, OUT, OUT, OUT, OUT, IN)
        .def("newton", &Columns::newton, IN, IN, IN, IN, IN, IN, IN, IN, OUT, OUT, OUT)
        .def("products", &Columns::products, IN, IN, IN, IN, IN, OUT)
        .def("gram", watched(&Columns::gram), IN, IN, nb::arg().none().noconvert(), OUT, IN)
        .def("predict", &Columns::predict, IN, IN, OUT, IN);
}
