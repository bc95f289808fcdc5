// Arrays that come from Python, and checks of their types and shapes.
#pragma once
#include "kernels.hpp"
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <optional>
#include <stdexcept>

namespace nb = nanobind;

namespace {
using rslm::LANES, rslm::Values;

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
int64_t factor_size(int64_t columns, int64_t rank) { return (columns + LANES - 1) / LANES * rank * (rank + 1) / 2 * LANES; }
int any_rank_of(size_t rank) {
    require(rank >= 1, "the rank must be at least 1");
    return int(rank);
}
int rank_of(size_t rank) { // of a kernel whose width is known at compile time
    require(rank >= 1 && rank <= rslm::MOST_RANK, "the rank must be between 1 and 128");
    return int(rank);
}
template <class A> void require_shape(const A &a, int64_t rows, int rank) {
    require(int64_t(a.shape(0)) == rows && int64_t(a.shape(1)) == rank, "a factor has the wrong shape");
}

} // namespace
