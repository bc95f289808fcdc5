// What a core of this machine can do, with registers of BYTES bytes: arithmetic, memory, and rows of a table that is in a cache.
#include <cstdint>
#include <cstring>
#include <utility>

// A vector register in an assembly statement.
#if defined(__x86_64__)
#define REGISTER(value) "x"(value)
#else
#define REGISTER(value) "w"(value)
#endif
#define INLINE inline __attribute__((always_inline))

namespace {

constexpr int SUMS = 12;    // enough that none waits for another, and few enough for sixteen registers
constexpr int AHEAD = 16;   // entries
constexpr size_t LINE = 64; // bytes of a cache line
constexpr int PANEL = 64;   // rows

template <class F> F multiply_add(int64_t rounds) {
    typedef F reg __attribute__((vector_size(BYTES)));
    reg sum[SUMS], factor = reg{} + F(0.5), term = reg{} + F(1);
    for (int k = 0; k < SUMS; k++) sum[k] = reg{} + F(k);
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++) sum[k] = sum[k] * factor + term;
        // The compiler must not know the factors, else it could compute several rounds at once.
        asm volatile("" : "+" REGISTER(factor), "+" REGISTER(term));
    }
    F total = 0;
    for (int k = 0; k < SUMS; k++) total += sum[k][0];
    return total;
}

// A part of a row, in the largest register that divides the row.
template <class F, int WIDTH> struct Part {
    static constexpr int fitting(int n) { return WIDTH % n == 0 ? n : fitting(n / 2); }
    static constexpr int N = fitting(BYTES / int(sizeof(F)));
    typedef F reg __attribute__((vector_size(N * sizeof(F))));
    static INLINE reg load(const F *p) {
        reg x;
        std::memcpy(&x, p, sizeof x);
        return x;
    }
    static INLINE void store(F *p, reg x) { std::memcpy(p, &x, sizeof x); }
};

// Asks for a row some entries before it is needed: not the time to reach a cache is measured, but its rate.
template <class F, int WIDTH> INLINE void prefetch(const int32_t *index, int64_t p, int64_t n, const F *table) {
    const char *row = (const char *)(table + int64_t(index[p + AHEAD < n ? p + AHEAD : n - 1]) * WIDTH);
#pragma GCC unroll 16
    for (size_t at = 0; at < sizeof(F) * WIDTH; at += LINE) __builtin_prefetch(row + at);
}
// Copies the rows of a table at the entries to a panel that stays in the first-level cache.
template <class F, int WIDTH> void gather(const int32_t *index, int64_t n, const F *table, F *panel) {
    typedef Part<F, WIDTH> P;
    for (int64_t p = 0; p < n; p++) {
        prefetch<F, WIDTH>(index, p, n, table);
        const F *row = table + int64_t(index[p]) * WIDTH;
        F *to = panel + p % PANEL * WIDTH;
#pragma GCC unroll 32
        for (int k = 0; k < WIDTH; k += P::N) P::store(to + k, P::load(row + k));
    }
}
// Adds multiples of v to the rows of a table at the entries.
template <class F, int WIDTH> void update(const int32_t *index, int64_t n, F *table, const F *v) {
    typedef Part<F, WIDTH> P;
    for (int64_t p = 0; p < n; p++) {
        prefetch<F, WIDTH>(index, p, n, table);
        F *row = table + int64_t(index[p]) * WIDTH;
        const F factor = F(p & 1);
#pragma GCC unroll 32
        for (int k = 0; k < WIDTH; k += P::N) P::store(row + k, P::load(row + k) + factor * P::load(v + k));
    }
}

// Widths are multiples of four up to 4 MOST, known to the compiler.
constexpr int MOST = 32;
template <class F, int... Q> void choose(std::integer_sequence<int, Q...>, int width, bool updates, const int32_t *index, int64_t n, F *table, F *row) {
    constexpr decltype(&update<F, 4>) updating[] = {update<F, 4 * Q + 4>...};
    constexpr decltype(&gather<F, 4>) gathering[] = {gather<F, 4 * Q + 4>...};
    if (updates) updating[width / 4 - 1](index, n, table, row);
    else gathering[width / 4 - 1](index, n, table, row);
}
template <class F> void rows(int width, bool updates, const int32_t *index, int64_t n, F *table, F *row) {
    choose<F>(std::make_integer_sequence<int, MOST>{}, width, updates, index, n, table, row);
}

} // namespace

extern "C" {
int registers_per_round() { return SUMS; }
double multiply_add_f64(int64_t rounds) { return multiply_add<double>(rounds); }
float multiply_add_f32(int64_t rounds) { return multiply_add<float>(rounds); }
void triad(double *a, const double *b, const double *c, int64_t n) {
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + 0.5 * c[i];
}
// `row` is a row to add, or a panel.
void rows_f64(int width, int updates, const int32_t *index, int64_t n, double *table, double *row) { rows(width, updates, index, n, table, row); }
void rows_f32(int width, int updates, const int32_t *index, int64_t n, float *table, float *row) { rows(width, updates, index, n, table, row); }
}
