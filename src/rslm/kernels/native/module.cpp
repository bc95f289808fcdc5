// The Python module. Its functions check their arguments and release the interpreter lock.
#include "columns.hpp"
#include <exception>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <new>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

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

void *rslm::allocate(size_t bytes) {
    bytes = (bytes / 64 + 1) * 64; // whole cache lines, as rows are read by whole vectors
    void *p = ::operator new(bytes, CACHE_LINE);
#if defined(__linux__) // rows are read in no order: with large pages, their addresses are translated faster
    constexpr uintptr_t PAGE = 1 << 12, LARGE = 1 << 21;
    const uintptr_t first = (uintptr_t(p) + PAGE - 1) / PAGE * PAGE, last = (uintptr_t(p) + bytes) / PAGE * PAGE;
    if (bytes >= 2 * LARGE) madvise((void *)first, last - first, MADV_HUGEPAGE);
#endif
    return p;
}
void rslm::release(void *p) { ::operator delete(p, CACHE_LINE); }
void rslm::out_of_memory() { throw std::bad_alloc(); }

namespace {

void solve(bool half, const Vector &factors, const Matrix &rhs, const MatrixOut &solution, int threads) {
    const int rank = any_rank_of(rhs.shape(1));
    threads = useful_threads(threads, int64_t(rhs.shape(0)) * rank * rank);
    require_shape(solution, int64_t(rhs.shape(0)), rank);
    require(int64_t(factors.shape(0)) >= factor_size(int64_t(rhs.shape(0)), rank), "the array of the factors is too small");
    nb::gil_scoped_release release;
    chosen->solve(half, int64_t(rhs.shape(0)), threads, factors.data(), rank, rhs.data(), solution.data());
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
    const int rank = any_rank_of(X.shape(1));
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
    const int rank = any_rank_of(U.shape(1));
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
    m.def("padded_width", [](int rank) { return chosen->padded_width(any_rank_of(size_t(rank))); }, nb::arg("rank"));
    m.def("padded", &padded, IN, OUT);
    m.def("box_curvature", &box_curvature, IN, IN, nb::arg().none(), IN, IN, IN, IN, IN, OUT, IN);
    m.def("solve", &solve, IN, IN, IN, OUT, IN);
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
        .def("evaluate", watched(&Columns::evaluate), IN, nb::arg().none(), IN, IN, IN, IN, OUT, OUT, OUT, OUT, IN)
        .def("regress", watched(&Columns::regress), IN, nb::arg().none(), IN, IN, IN, OUT, OUT, IN)
        .def("residuals", watched(&Columns::residuals), IN, nb::arg().none(), IN, IN, OUT, OUT, IN)
        .def("derivative", watched(&Columns::derivative), IN, nb::arg().none(), IN, IN, IN, IN, IN, nb::arg().none().noconvert(), OUT, IN)
        .def("evaluate_tasks", watched(&Columns::evaluate_tasks), IN, IN, IN, IN, IN, IN, OUT, OUT, OUT, OUT, IN)
        .def("derivative_tasks", watched(&Columns::derivative_tasks), IN, IN, IN, IN, IN, IN, IN, OUT, IN)
        .def("predict_tasks", watched(&Columns::predict_tasks), IN, IN, IN, OUT, IN)
        .def("features_of_tasks", watched(&Columns::features_of_tasks), IN, IN, OUT, IN)
        .def("factorise", watched(&Columns::factorise), IN, nb::arg().none(), nb::arg().none(), nb::arg().none(), IN, OUT, IN)
        .def("solve_systems", watched(&Columns::solve_systems), IN, nb::arg().none(), IN, nb::arg().none(), nb::arg().none().noconvert(), IN, IN,
             OUT, IN)
        .def("leverages", watched(&Columns::leverages), IN, nb::arg().none(), IN, OUT, IN)
        .def("scatter", watched(&Columns::scatter), IN, IN, OUT, IN)
        .def("gather", watched(&Columns::gather), IN, IN, OUT, IN)
        .def("grams", watched(&Columns::grams), IN, nb::arg().none(), OUT, IN)
        .def("box", watched(&Columns::box), IN, IN, IN, IN, IN, IN, IN, IN, OUT, OUT, OUT, OUT, OUT, OUT, IN)
        .def("newton", &Columns::newton, IN, IN, IN, IN, IN, IN, IN, IN, nb::arg().none().noconvert(), OUT, OUT)
        .def("products", &Columns::products, IN, IN, IN, IN, IN, OUT)
        .def("gram", watched(&Columns::gram), IN, IN, nb::arg().none().noconvert(), OUT, IN)
        .def("predict", &Columns::predict, IN, IN, OUT, IN);
}
