// What a core of this machine can do, with registers of BYTES bytes: arithmetic, memory, and rows of a table that is in a cache.
#include <cstdint>
#include <cstring>
#include <utility>

namespace {

// Enough sums that none waits for another, and few enough for the sixteen registers that most instruction sets have.
constexpr int SUMS = 12;

template <class F> F multiply_add(int64_t rounds) {
    typedef F reg __attribute__((vector_size(BYTES)));
    reg sum[SUMS], factor = reg{} + F(0.5), term = reg{} + F(1);
    for (int k = 0; k < SUMS; k++) sum[k] = reg{} + F(k);
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++) sum[k] = sum[k] * factor + term;
        asm volatile("" : "+x"(factor), "+x"(term)); // so that no round can be computed in advance
    }
    F total = 0;
    for (int k = 0; k < SUMS; k++) total += sum[k][0];
    return total;
}

// Copies the rows of a table at the entries to a panel that stays in the first-level cache.
template <class F, int WIDTH> void gather(const int32_t *index, int64_t n, const F *table, F *panel) {
    for (int64_t p = 0; p < n; p++) std::memcpy(panel + (p & 63) * WIDTH, table + int64_t(index[p]) * WIDTH, sizeof(F) * WIDTH);
}
// Adds a multiple of v to the rows of a table at the entries.
template <class F, int WIDTH> void update(const int32_t *index, int64_t n, F *table, const F *from) {
    F v[WIDTH];
    std::memcpy(v, from, sizeof v);
    for (int64_t p = 0; p < n; p++) {
        F *row = table + int64_t(index[p]) * WIDTH;
        const F factor = F(p & 1);
        for (int k = 0; k < WIDTH; k++) row[k] += factor * v[k];
    }
}

constexpr int MOST = 32; // quadruples of a row
template <class F, int... Q> void call(std::integer_sequence<int, Q...>, int width, bool updates, const int32_t *index, int64_t n, F *table, F *row) {
    ((width == 4 * (Q + 1) ? updates ? update<F, 4 * (Q + 1)>(index, n, table, row) : gather<F, 4 * (Q + 1)>(index, n, table, row) : void()), ...);
}
template <class F> void rows(int width, int updates, const int32_t *index, int64_t n, F *table, F *row) {
    call<F>(std::make_integer_sequence<int, MOST>{}, width, updates, index, n, table, row);
}

} // namespace

extern "C" {
int registers_per_round() { return SUMS; }
double multiply_add_f64(int64_t rounds) { return multiply_add<double>(rounds); }
float multiply_add_f32(int64_t rounds) { return multiply_add<float>(rounds); }
void triad(double *a, const double *b, const double *c, int64_t n) {
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + 0.5 * c[i];
}
void rows_f64(int width, int updates, const int32_t *index, int64_t n, double *table, double *row) { rows(width, updates, index, n, table, row); }
void rows_f32(int width, int updates, const int32_t *index, int64_t n, float *table, float *row) { rows(width, updates, index, n, table, row); }
}
