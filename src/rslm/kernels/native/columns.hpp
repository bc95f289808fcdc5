// Observed positions, column by column, and features: classes of the Python module, which check the arguments of the kernels.
#pragma once
#include "running.hpp"
#include <cmath>

namespace {
using rslm::Part, rslm::Workspace;

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
    double evaluate(const Numbers &y, const std::optional<Numbers> &weight, const Matrix &U, const Coefficients &ridge, bool pinned, bool single,
                    const MatrixOut &V, const VectorOut &factors, const NumbersOut &residual, const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * rank);
        const Values in = values_of(y, entries()), w = values_or_none(weight, entries()), out = values_of(residual, entries());
        require_shape(U, rows(), rank), require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        return chosen->evaluate(Part::ALL, pattern, workspace, threads, in, w, U.data(), rank, r, pinned, single, V.data(), factors.data(),
                                out, by_rows.data());
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
        chosen->evaluate(Part::SOLVE, pattern, workspace, threads, in, w, U.data(), rank, r, pinned, false, V.data(), factors.data(), {}, nullptr);
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
        return chosen->evaluate(Part::FOLLOW, pattern, workspace, threads, in, w, U.data(), rank, {nullptr, 1}, false, false, v, nullptr, out, by_rows.data());
    }
    void derivative(const Numbers &residual, const std::optional<Numbers> &weight, const Matrix &U, bool single, const Matrix &V,
                    const Vector &factors, const Matrix &dU, const std::optional<MatrixOut> &dV, const MatrixOut &by_rows, int threads) {
        const int rank = rank_of(U.shape(1));
        threads = useful_threads(threads, entries() * rank * 5);
        const Values in = values_of(residual, entries()), w = values_or_none(weight, entries());
        require_shape(U, rows(), rank), require_shape(dU, rows(), rank), require_shape(V, columns(), rank), require_shape(by_rows, rows(), rank);
        if (dV) require_shape(*dV, columns(), rank);
        require(int64_t(factors.shape(0)) >= factor_size(columns(), rank), "the array of the factors is too small");
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->derivative(pattern, workspace, threads, in, w, U.data(), rank, single, V.data(), factors.data(), dU.data(),
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
        const int rank = any_rank_of(X.shape(1));
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
    void solve_systems(const Matrix &X, const std::optional<Numbers> &weight, const Coefficients &ridge, const std::optional<Indptr> &rooms,
                       const std::optional<VectorOut> &factors, bool known, const Matrix &rhs, const MatrixOut &solution, int threads) {
        const int rank = any_rank_of(X.shape(1));
        threads = useful_threads(threads, entries() * rank * 20);
        const Values w = values_or_none(weight, entries());
        require_shape(X, rows(), rank), require_shape(rhs, columns(), rank), require_shape(solution, columns(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(bool(rooms) == bool(factors), "rooms and factors belong together");
        if (rooms) {
            require(int64_t(rooms->shape(0)) == columns() + 1, "rooms must have one number more than there are columns");
            for (int64_t t = 0; t < columns(); t++) require(rooms->data()[t] <= rooms->data()[t + 1], "rooms must not decrease");
            require(rooms->data()[0] >= 0 && rooms->data()[columns()] <= int64_t(factors->shape(0)), "the array for the factors is too small");
        }
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->solve_systems(pattern, threads, X.data(), rank, w, r, rooms ? rooms->data() : nullptr, factors ? factors->data() : nullptr, known, rhs.data(),
                              solution.data());
    }
    void leverages(const Matrix &X, const std::optional<Numbers> &weight, const Coefficients &ridge, const VectorOut &out, int threads) {
        const int rank = any_rank_of(X.shape(1));
        threads = useful_threads(threads, entries() * rank * rank);
        const Values w = values_or_none(weight, entries());
        require_shape(X, rows(), rank);
        require(int64_t(out.shape(0)) == entries(), "one number for every entry of the pattern is needed");
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        nb::gil_scoped_release release;
        const Alone alone(busy, pattern);
        chosen->leverages(pattern, threads, X.data(), rank, w, r, out.data());
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
        const int rank = any_rank_of(X.shape(1));
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
        const int rank = any_rank_of(U.shape(1));
        require(rank <= rslm::MOST_BOX_RANK, "the rank must be at most 1024 with a loss that is not smooth: round its kinks, or choose another loss");
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
                const Coefficients &ridge, const std::optional<VectorOut> &factors, const MatrixOut &step, const VectorOut &decrement) {
        const int rank = any_rank_of(V.shape(1));
        require_groups(first, last, active, x, rank);
        const Values in = values_of(z, entries()), w = values_of(weight, entries());
        require_shape(V, columns(), rank), require_shape(step, columns(), rank);
        const rslm::Ridge r = ridge_of(ridge, columns(), rank);
        require(int64_t(decrement.shape(0)) == columns(), "one number for every column is needed");
        require(factors || rank > rslm::MOST_RANK, "an array for the factors is needed");
        require(!factors || int64_t(factors->shape(0)) >= factor_size(columns(), rank), "the array for the factors is too small");
        nb::gil_scoped_release release;
        chosen->newton(pattern, first, last, active.data(), x.data(), rank, in, w, V.data(), r, factors ? factors->data() : nullptr, step.data(),
                       decrement.data());
    }
    void products(int64_t first, int64_t last, const Flags &active, const Matrix &x, const Matrix &R, const VectorOut &product) {
        const int rank = any_rank_of(R.shape(1));
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

} // namespace
