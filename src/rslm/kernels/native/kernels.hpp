// The interface between the Python module and the code compiled once per instruction set.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace rslm {

constexpr int LANES = 8; // columns that are factorised together, entries that are processed together
constexpr int MOST_RANK = 128; // of the kernels whose width is known at compile time
constexpr int MOST_BOX_RANK = 1024; // of `box`, which has more widths

// Numbers in single or double precision; arithmetic is in double precision either way.
struct Values {
    double *f64;
    float *f32;
};

// Scratch memory kept between calls, so that the operating system need not clear new pages each time.
struct Workspace {
    double *data = nullptr;
    size_t size = 0;
    double *reserve(size_t n); // at least n numbers, aligned to a cache line; the previous content is lost
    ~Workspace();
};

// Whether the kernel should stop. While a kernel runs, Python's signal handlers wait for the thread that called it. So that thread
// asks Python at intervals, and all threads check its answer. The output of a kernel that was stopped is undefined.
class Watch {
    std::atomic<bool> over{false};
    std::thread::id caller{};
    std::chrono::steady_clock::time_point next{};
    bool ask(); // only in the calling thread; asks Python if enough time has passed

  public:
    void begin();
    bool ended() const { return over.load(std::memory_order_relaxed); }
    // To be called between pieces of work that take at most some hundredths of a second.
    bool look() { return ended() || (std::this_thread::get_id() == caller && ask()); }
};

// A sparsity pattern by columns. Groups of eight columns are the unit of work, and shard s owns the groups
// shards[s] … shards[s + 1] − 1. The split is fixed by the data, each shard sums into its own memory, and the shards are
// added in order: results do not depend on the number of threads.
struct Pattern {
    const int64_t *indptr; // columns + 1
    const int32_t *index;
    int64_t rows, columns;
    const int64_t *shards; // shard_count + 1
    int64_t shard_count;
    int64_t most_entries; // of a group, each column rounded up to eight
    bool apart;           // no row is in two columns, so that all shards may sum into the same memory
    Watch *watch = nullptr; // of the call that uses it

    __attribute__((always_inline)) int64_t groups() const { return (columns + LANES - 1) / LANES; }
    __attribute__((always_inline)) int64_t entries() const { return indptr[columns]; }
    __attribute__((always_inline)) int64_t sum_count() const { return apart ? 1 : shard_count; }
};

// The rows of a matrix of features, sparse or dense.
struct FeatureRows {
    const int64_t *indptr; // rows + 1; nullptr where the matrix is dense
    const int32_t *index;
    Values values;
    int64_t rows, features;
};

// One ridge per column, or one per column and coordinate. An infinite one keeps a coordinate at 0.
struct Ridge {
    const double *data;
    int64_t each; // numbers per column
    double at(int64_t column, int k) const { return data[each == 1 ? column : column * each + k]; }
};

// A loss in its dual form: ℓ(e) = max over lower ≤ s ≤ upper of s e − ε|s| − ½ δ s²; if `mirrored`, the interval is
// −upper ≤ s ≤ −lower for negative targets.
struct Box {
    double lower, upper;
    bool mirrored;
    double epsilon, smoothing;
};

// Bounds of every entry of a rows × columns matrix; a stride is 0 where they do not vary.
struct Bounds {
    const double *lower;
    int64_t lower_row, lower_column;
    const double *upper;
    int64_t upper_row, upper_column;
};
// Input and output of `bound`. `margin` is the smallest distance of rows to their bounds when v was `before`, relative to their
// norms, not counting violated bounds. Since then no row has moved by more than `unrest` of its norm, except the restless ones. A
// margin of −∞ means unknown.
struct Bounded {
    double *V, *factors; // in: the minimiser without bounds, and the factors of M; out: with bounds
    const int64_t *warm_indptr; // warm start: the rows with active bounds before
    const int32_t *warm_rows;
    const int64_t *shift_indptr; // the rows whose soft bounds are shifted, and by how much
    const int32_t *shift_rows;
    const double *shift;
    const double *before;
    double *margin;
    double unrest;
    const int32_t *restless;
    int64_t restless_count;
    double *excess; // out: the violation of hard bounds where no v satisfies them; ∞ if unknown
    int64_t most;   // maximum number of violated entries: with more, the kernel ends, and all columns are unknown
    Watch *watch;
};
// The entries with active bounds, by columns: v minimises ½(v − c)ᵀM(v − c) − Σ s x_j v, and s changes by weight · distance.
struct Active {
    int64_t *indptr;       // columns + 1 numbers, given by the caller; the others are allocated with `allocate`
    int32_t *row = nullptr;
    double *s = nullptr, *weight = nullptr;
    ~Active(); // releases them
};
void *allocate(size_t bytes); // aligned to a cache line
void release(void *);         // memory from `allocate`
[[noreturn]] void out_of_memory();

// Runs body(context) in this thread and, at the same time, in up to threads − 1 others: in fewer if the system cannot start more.
// Returns when all have returned, and rethrows the first exception.
void in_team(int threads, void (*body)(void *), void *context);

// Factors: an upper triangle of rank × rank for every column, eight columns interleaved:
// groups × rank (rank + 1) / 2 × 8 numbers, with the diagonal inverted.
enum class Part { ALL, SOLVE, FOLLOW };

struct Kernels {
    const char *name;
    // For every column t, with x the rows of U at its entries: v minimises (y − X v)ᵀ W (y − X v) + ridge_t |v|², with a weight W of
    // every entry, or W = 1 if there is none; if `pinned`, the last coordinate of v is 1 instead. Writes v, the factors of
    // XᵀWX + ridge, s = W (y − X v), and Σ_t s_i v by rows i; returns Σ (y − X v)ᵀ W (y − X v).
    // Part SOLVE computes only v and the factors, part FOLLOW the rest for a given v. If `single`, all but the systems and their solution is in
    // single precision, which is not supported for part FOLLOW.
    double (*evaluate)(Part, const Pattern &, Workspace &, int threads, const Values &y, const Values &weight, const double *U, int rank,
                       const Ridge &, bool pinned, bool single, double *V, double *factors, const Values &residual, double *by_rows);
    // The derivative of the above along dU: v̇ = factor⁻¹(dXᵀ residual − Xᵀ W dX v), rows Σ_t W (dX v + X v̇)_i v − residual_i v̇,
    // with a weight W of every entry, or W = 1 if there is none. If `dV` is given, its content is added to the right-hand side of v̇,
    // and it is overwritten by v̇. If `single`, all but the solution of the systems is in single precision.
    void (*derivative)(const Pattern &, Workspace &, int threads, const Values &residual, const Values &weight, const double *U,
                       int rank, bool single, const double *V, const double *factors, const double *dU, double *dV, double *by_rows);
    // Factors of XᵀWX + ridge for every column, with a weight W of every entry, or W = 1 if there is none. `more`, if given, are
    // further entries of the same columns, with weights.
    void (*factorise)(const Pattern &, Workspace &, int threads, const double *X, int rank, const Values &weight, const Pattern *more,
                      const Values &more_weight, const Ridge &, double *factors);
    // One Newton step for every column of the active groups among first … last − 1: factors of XᵀWX + ridge, step =
    // factor⁻¹(Xᵀz − ridge v), decrement = step · (Xᵀz − ridge v). `x` is padded. Runs in the calling thread.
    void (*newton)(const Pattern &, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const Values &z,
                   const Values &weight, const double *V, const Ridge &, double *factors, double *step, double *decrement);
    // x_i r_t at the entries of the groups first … last − 1, where r_t is row t of R. `x` is padded. Runs in the calling thread.
    void (*products)(const Pattern &, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const double *R,
                     double *product);
    // Σ_t s_it v_t by rows i.
    void (*scatter)(const Pattern &, Workspace &, int threads, const Values &s, const double *V, int rank, double *by_rows);
    // Σ_i s_it x_i by columns t.
    void (*gather)(const Pattern &, Workspace &, int threads, const Values &s, const double *X, int rank, double *by_columns);
    // XᵀWX of every column, rank × rank numbers each, with a weight W of every entry, or W = 1 if there is none.
    void (*grams)(const Pattern &, Workspace &, int threads, const double *X, int rank, const Values &weight, double *grams);
    // For every column, the minimiser v of Σ ℓ(y − X v) + |v|²/2c for a loss in its dual form. `dual` is the warm start of s and
    // its result; also writes y − X v, the value, its distance to the dual value, and the number of rounds.
    void (*box)(const Pattern &, Workspace &, int threads, const Values &y, const double *U, int rank, const double *c, const Box &,
                const Values &dual, const Values &error, double *V, double *value, double *gap, int32_t *rounds);
    // ℓ'' of a loss in its dual form, δ > 0, at the given errors. Element k of the result is that of entry order[k], or of entry k
    // if there is no order.
    void (*box_curvature)(int64_t n, int threads, const Values &y, const Values &error, const int64_t *order, const Box &, const Values &out);
    // For every column, the minimiser of ½(v − c)ᵀM(v − c) with x_j v within bounds for all rows j; with a finite stiffness k, the
    // minimiser of that plus ½ k Σ distance² instead.
    void (*bound)(int64_t rows, int64_t columns, int threads, const double *X, int rank, const Bounds &, double stiffness, const Bounded &,
                  Active &);
    // The number of elements of a padded row, and the padding of rows × rank numbers, with a zero row after the last.
    int (*padded_width)(int rank);
    void (*padded)(const double *U, int64_t rows, int rank, double *out);
    // One right-hand side and solution of `rank` numbers for every column; if `half`, of the upper triangle R alone, where RᵀR is the system.
    void (*solve)(bool half, int64_t columns, int threads, const double *factors, int rank, const double *rhs, double *solution);
    // (XᵀWX + ridge)⁻¹ times the right-hand side of every column, for any rank. The residuals are at most 1e-13 of the right-hand sides,
    // in the scale of the diagonal. Column t has room for a factor from factors[rooms[t]] to factors[rooms[t + 1]]: if that is enough, it
    // is written, or read if it is `known`; the other columns, or all if `rooms` is null, are solved anew.
    void (*solve_systems)(const Pattern &, int threads, const double *X, int rank, const Values &weight, const Ridge &, const int64_t *rooms,
                          double *factors, bool known, const double *rhs, double *solution);
    // x(XᵀWX + ridge)⁻¹x of every entry, for any rank.
    void (*leverages)(const Pattern &, int threads, const double *X, int rank, const Values &weight, const Ridge &, double *out);
    // S (Sᵀ X + Y) for the sparse matrix S with these values; Y is overwritten by Sᵀ X + Y, and may be null.
    void (*gram)(const Pattern &, Workspace &, int threads, const Values &s, const double *X, int rank, double *Y, double *product);
    // u_iᵀ v_t at the entries of the pattern.
    void (*predict)(const Pattern &, int threads, const double *U, const double *V, int rank, double *prediction);
    // `evaluate` and `derivative` with X_t U instead of the rows of U, for tasks whose rows are those of X at the entries of a column.
    // The sums are by features: Xᵀ times those by rows. If tasks are centred, the mean of X_t U is subtracted from it.
    double (*evaluate_tasks)(const Pattern &, const FeatureRows &, bool centred, Workspace &, int threads, const Values &y, const double *U, int rank,
                             const Ridge &, bool pinned, double *V, double *factors, const Values &residual, double *by_features);
    void (*derivative_tasks)(const Pattern &, const FeatureRows &, bool centred, Workspace &, int threads, const Values &residual, const double *U, int rank,
                             const double *V, const double *factors, const double *dU, double *by_features);
    // x_iᵀ U v_t at every entry, and X_tᵀ z_t by columns.
    void (*predict_tasks)(const Pattern &, const FeatureRows &, Workspace &, int threads, const double *U, int rank, const double *V,
                          double *prediction);
    void (*features_of_tasks)(const Pattern &, const FeatureRows &, int threads, const Values &z, double *by_columns);
    // u_iᵀ v_t at n pairs.
    void (*predict_pairs)(const int64_t *i, const int64_t *t, int64_t n, int threads, const double *U, const double *V, int rank,
                          double *prediction);
};

// Every instruction set has its own namespace, into which each file puts its kernels.
#define RSLM_DECLARE(isa)                                                                                                             \
    namespace isa {                                                                                                                   \
    const Kernels *kernels();                                                                                                         \
    double evaluate_by_coordinates(Part, const Pattern &, Workspace &, int threads, const Values &y, const Values &weight,            \
                                   const double *U, int rank, const Ridge &, bool pinned, bool single, double *V, double *factors,    \
                                   const Values &residual, double *by_rows);                                                          \
    void derivative_in_single(const Pattern &, Workspace &, int threads, const Values &residual, const Values &weight,                \
                              const double *U, int rank, const double *V, const double *factors, const double *dU, double *dV,        \
                              double *by_rows);                                                                                       \
    void add_derivative(Kernels &);                                                                                                   \
    void add_weighted(Kernels &);                                                                                                     \
    void add_box(Kernels &);                                                                                                          \
    void add_bounds(Kernels &);                                                                                                       \
    void add_tasks(Kernels &);                                                                                                        \
    void add_high_rank(Kernels &);                                                                                                    \
    }
RSLM_DECLARE(baseline)
RSLM_DECLARE(avx2)
RSLM_DECLARE(avx512)

} // namespace rslm
