// A small dense symmetric matrix and its triangular factor, for the problem of one column.
#pragma once
#include "systems.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

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
        List<double> top(size_t(padded), 0.0);
        for (int k = 0; k < r; k++) {
            if (k > 0) top[size_t(k - 1)] = 0.0;
            for (int j = k; j < r; j++) top[size_t(j)] = factors[packed(r, k, j) * LANES + lane];
            top[size_t(k)] = 1.0 / top[size_t(k)];
            least[size_t(k)] = std::max(top[size_t(k)] * top[size_t(k)], TINY); // later additions to A only increase them
            for (int i = k; i < r; i++)
                for (int j = i / LANES * LANES; j < padded; j += LANES) store(row(i) + j, load<vec>(row(i) + j) + top[size_t(i)] * load<vec>(top.data() + j));
        }
        for (int i = 0; i < r; i++)
            for (int j = 0; j < i; j++) row(i)[j] = row(j)[i];
    }
    void put(double *triangle) const {
        for (int i = 0; i < r; i++, triangle += r - i + 1) std::memcpy(triangle, row(i) + i, sizeof(double) * size_t(r - i));
    }
};

} // namespace
