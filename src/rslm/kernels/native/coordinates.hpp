// Panels by coordinates: the rows of a factor at the entries of a column, transposed, so that a register holds one coordinate of several
// entries.
//
// Every product of two coordinates is then one multiplication for a whole register of entries, without padding, and a residual needs no sum
// across a register. Transposing pays at small ranks, where rows are short, and in single precision, where a register holds twice as many.
#pragma once
#include "panels.hpp"

namespace {

constexpr int BYTES = 8 * WIDTH; // of a register

template <class F> struct Lane {
    // With more than eight entries at a time, the addresses of their rows would not fit the registers.
    static constexpr int N = BYTES / int(sizeof(F)) < 8 ? BYTES / int(sizeof(F)) : 8; // entries in a register
    typedef F reg __attribute__((vector_size(N * sizeof(F))));
};
template <class F> using lane = typename Lane<F>::reg;
typedef float narrow __attribute__((vector_size(4 * WIDTH))); // as many numbers as a register of doubles has
constexpr int NARROW = Lane<float>::N / WIDTH;                // parts of a register of floats that have this size

// Quadruples of a padded row in single precision: 32 bytes or a multiple, so that few rows cross a cache line.
constexpr int in_single(int quads) { return quads + quads % 2; }

// Ranks up to this are evaluated by coordinates in double precision.
constexpr int MOST_BY_COORDINATES = WIDTH > 2 ? 24 : 0;

// ---- tiles --------------------------------------------------------------------------------------------------------

// The products of rows i … i + A − 1 with columns j … j + B − 1 of the upper triangle; on the diagonal, j = i, only those with i ≤ j. The
// sums of a tile, A registers and one more must fit the registers of the processor.
constexpr int HIGH = WIDTH == 8 ? 4 : 3, WIDE = WIDTH == 8 ? 6 : 4, WIDE_ON_DIAGONAL = WIDE + 1;

// The tiles of an upper triangle of n coordinates: visit(i, A, j, B, diagonal). The last coordinate is y, whose square is not needed.
template <class V> void walk_blocks(int n, V &&visit) {
    for (int i = 0; i < n - 1; i += HIGH) {
        const int A = n - i < HIGH ? n - i : HIGH;
        int left = n - i, tiles = 1;
        while (WIDE_ON_DIAGONAL + WIDE * (tiles - 1) < left) tiles++;
        for (int j = i; left > 0; tiles--) {
            const bool diagonal = j == i;
            int B = left;
            if (tiles > 1) B = diagonal ? WIDE_ON_DIAGONAL : (left + tiles - 1) / tiles;
            visit(i, A, j, B, diagonal);
            j += B, left -= B;
        }
    }
}

// The lanes of a register of partial sums in double precision.
RSLM_INLINE reg partial(const lane<double> &a) { return (reg)a; }
RSLM_INLINE reg partial(const lane<float> &a) {
    narrow part[NARROW];
    std::memcpy(part, &a, sizeof part);
    reg sum = __builtin_convertvector(part[0], reg);
#pragma GCC unroll 2
    for (int k = 1; k < NARROW; k++) sum += __builtin_convertvector(part[k], reg);
    return sum;
}

// Adds the sums of a tile over some blocks of a panel to `out`, or writes them if they are the `first`: one register per product.
template <class F, int A, int B, bool DIAGONAL> void block(const F *panel, int blocks, int stride, int i, int j, double *out, bool first) {
    constexpr int N = Lane<F>::N;
    lane<F> sum[A][B] = {};
    const F *x = panel + i * N, *y = panel + j * N;
    for (int b = 0; b < blocks; b++, x += int64_t(stride) * N, y += int64_t(stride) * N) {
        lane<F> row[A];
#pragma GCC unroll 8
        for (int k = 0; k < A; k++) row[k] = load<lane<F>>(x + k * N);
#pragma GCC unroll 8
        for (int l = 0; l < B; l++) {
            const lane<F> column = DIAGONAL && l < A ? row[l] : load<lane<F>>(y + l * N);
#pragma GCC unroll 8
            for (int k = 0; k < A; k++)
                if (!DIAGONAL || k <= l) sum[k][l] += row[k] * column;
        }
    }
#pragma GCC unroll 8
    for (int k = 0; k < A; k++)
#pragma GCC unroll 8
        for (int l = 0; l < B; l++)
            if (!DIAGONAL || k <= l) {
                reg s = partial(sum[k][l]);
                if (!first) s += load<reg>(out);
                store(out, s);
                out += WIDTH;
            }
}
template <class F> using Block = void (*)(const F *, int, int, int, int, double *, bool);
// The function of a tile, found among those with at most A rows and B columns.
template <class F, bool DIAGONAL, int A = HIGH, int B = DIAGONAL ? WIDE_ON_DIAGONAL : WIDE> Block<F> block_of(int a, int b) {
    if (a == A && b == B) return block<F, A, B, DIAGONAL>;
    if constexpr (B > 1)
        if (b < B) return block_of<F, DIAGONAL, A, B - 1>(a, b);
    if constexpr (A > 1) return block_of<F, DIAGONAL, A - 1>(a, b);
    return nullptr;
}

// ---- gathering ----------------------------------------------------------------------------------------------------

// out[k] = coordinate k of one row per lane, for four coordinates.
RSLM_INLINE void transpose_four(const double *const row[], double *out) {
#if defined(__AVX512F__)
    vec four[4];
    transpose(row, four);
    for (int k = 0; k < 4; k++) store(out + 8 * k, four[k]);
#elif defined(__AVX2__)
    // Halves of rows are joined while they are loaded, which needs half of the shuffles.
    const auto pair = [&](int a, int b, int k) {
        return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(row[a] + k)), _mm_loadu_pd(row[b] + k), 1);
    };
    const __m256d a = pair(0, 2, 0), b = pair(1, 3, 0), c = pair(0, 2, 2), d = pair(1, 3, 2);
    _mm256_storeu_pd(out, _mm256_unpacklo_pd(a, b)), _mm256_storeu_pd(out + 4, _mm256_unpackhi_pd(a, b));
    _mm256_storeu_pd(out + 8, _mm256_unpacklo_pd(c, d)), _mm256_storeu_pd(out + 12, _mm256_unpackhi_pd(c, d));
#else
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < Lane<double>::N; l++) out[k * Lane<double>::N + l] = row[l][k];
#endif
}
RSLM_INLINE void transpose_four(const float *const row[], float *out) {
#if defined(__AVX2__)
    const auto join = [&](int k) {
        return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row[k])), _mm_loadu_ps(row[k + 4]), 1);
    };
    const __m256 a = join(0), b = join(1), c = join(2), d = join(3);
    const __m256d ab0 = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), ab1 = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    const __m256d cd0 = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)), cd1 = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    const auto put = [out](int k, __m256d v) { _mm256_storeu_ps(out + 8 * k, _mm256_castpd_ps(v)); };
    put(0, _mm256_unpacklo_pd(ab0, cd0)), put(1, _mm256_unpackhi_pd(ab0, cd0));
    put(2, _mm256_unpacklo_pd(ab1, cd1)), put(3, _mm256_unpackhi_pd(ab1, cd1));
#else
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < Lane<float>::N; l++) out[k * Lane<float>::N + l] = row[l][k];
#endif
}

// A full register of values from position p on.
template <class F> lane<F> lane_of(const Values &y, int64_t p);
template <> RSLM_INLINE lane<double> lane_of<double>(const Values &y, int64_t p) {
    return y.f64 ? load<reg>(y.f64 + p) : __builtin_convertvector(load<narrow>(y.f32 + p), reg);
}
template <> RSLM_INLINE lane<float> lane_of<float>(const Values &y, int64_t p) {
    if (y.f32) return load<lane<float>>(y.f32 + p);
    narrow part[NARROW];
    for (int k = 0; k < NARROW; k++) part[k] = __builtin_convertvector(load<reg>(y.f64 + p + k * WIDTH), narrow);
    return load<lane<float>>(part);
}
RSLM_INLINE lane<double> root(const lane<double> &a) {
    lane<double> b;
    for (int l = 0; l < Lane<double>::N; l++) b[l] = __builtin_sqrt(a[l]);
    return b;
}
RSLM_INLINE lane<float> root(const lane<float> &a) {
    lane<float> b;
    for (int l = 0; l < Lane<float>::N; l++) b[l] = __builtin_sqrtf(a[l]);
    return b;
}

// ---- rows in registers --------------------------------------------------------------------------------------------

// K numbers, a multiple of four, in as few registers as possible.
template <class F, int K> struct Pieces {
    static constexpr int FIT = BYTES / int(sizeof(F)), N = K >= FIT ? FIT : K >= 8 && FIT > 8 ? 8 : FIT < 4 ? FIT : 4;
    typedef F part __attribute__((vector_size(N * sizeof(F))));
    part head;
    Pieces<F, K - N> rest;

    static RSLM_INLINE Pieces of(const F *p) { return {load<part>(p), Pieces<F, K - N>::of(p + N)}; }
    RSLM_INLINE void add_to(F *p, F factor) const {
        store(p, load<part>(p) + factor * head);
        rest.add_to(p + N, factor);
    }
};
template <class F> struct Pieces<F, 0> {
    static RSLM_INLINE Pieces of(const F *) { return {}; }
    RSLM_INLINE void add_to(F *, F) const {}
};
// Adds factor_i v to row index_i of the sums, of K numbers each. Not inlined, so that v stays in registers.
template <class F, int K> __attribute__((noinline)) void add_multiples(const F *v, const F *factor, const int32_t *index, int64_t n, F *sum) {
    const Pieces<F, K> pieces = Pieces<F, K>::of(v);
    for (int64_t i = 0; i < n; i++) pieces.add_to(sum + int64_t(index[i]) * K, factor[i]);
}

// ---- panels -------------------------------------------------------------------------------------------------------

// The panels of a group of columns. A block of a panel has the coordinates of a register of entries: those of their rows, y at r, and if
// the entries are weighted √weight at r + 1, by which all others are multiplied. What is missing from the last block of a column is zero.
template <class F> struct Panels {
    static constexpr int N = Lane<F>::N;
    static constexpr int64_t FIRST_LEVEL = 24 << 10, SECOND_LEVEL = 256 << 10; // bytes of the caches
    struct Tile {
        Block<F> add;
        int i, j;
        int64_t at;
    };
    int r;
    bool weighted;
    int stride;    // coordinates of a block
    int64_t piece; // entries whose panel fits the first-level cache
    int64_t kept;  // entries whose panels fit the second-level cache
    int tile_count = 0, sum_count = 0;
    Buffer<Tile> tiles;
    Buffer<int> places; // of every sum: its element of the packed triangle, followed by the right-hand side
    Buffer<double> collected;
    Buffer<F> panel;

    static int most_tiles(int r) {
        int count = 0;
        walk_blocks(r + 1, [&](int, int, int, int, bool) { count++; });
        return count;
    }
    Panels(int r, int width, bool weighted, int64_t most_entries)
        : r(r), weighted(weighted), stride(width > r + 1 + weighted ? width : r + 1 + weighted), piece(room(FIRST_LEVEL, 32)),
          kept(room(SECOND_LEVEL, 0)), tiles(most_tiles(r)), places((r + 2) * (r + 2)), collected(int64_t(LANES) * (r + 2) * (r + 2) * WIDTH),
          panel(((kept < most_entries + LANES * N ? kept : most_entries + LANES * N) + piece + N) * stride) {
        walk_blocks(r + 1, [&](int i, int A, int j, int B, bool diagonal) {
            tiles[tile_count++] = {diagonal ? block_of<F, true>(A, B) : block_of<F, false>(A, B), i, j, int64_t(sum_count) * WIDTH};
            for (int a = i; a < i + A; a++)
                for (int b = j; b < j + B; b++)
                    if (a <= b) places[sum_count++] = b < r ? a * r - a * (a - 1) / 2 + (b - a) : r * (r + 1) / 2 + a;
        });
    }
    // The entries of as many whole blocks as fit the bytes, and at least `least`.
    int64_t room(int64_t bytes, int64_t least) const {
        const int64_t n = bytes / (int64_t(stride) * int64_t(sizeof(F))) / N * N;
        return n < least ? least : n;
    }
    static int64_t blocks(int64_t n) { return (n + N - 1) / N; }

    // Gathers the rows of a padded factor at the n entries from p on.
    template <int Q> __attribute__((noinline)) void gather(const Pattern &c, const F *factor, const Values &y, const Values &weight, int64_t p, int64_t n, F *x) const {
        int64_t offset[N];
        const int64_t step = int64_t(stride) * N;
        for (; n >= N; n -= N, p += N, x += step) {
#pragma GCC unroll 16
            for (int l = 0; l < N; l++) offset[l] = int64_t(c.index[p + l]) * (4 * Q);
            put<Q>(factor, offset, lane_of<F>(y, p), x);
            if (weighted) weigh(root(lane_of<F>(weight, p)), x);
        }
        if (n == 0) return;
        lane<F> some = {}, weights = {};
        for (int l = 0; l < N; l++) offset[l] = (l < n ? int64_t(c.index[p + l]) : c.rows) * (4 * Q);
        for (int l = 0; l < n; l++) some[l] = F(value_at(y, p + l));
        put<Q>(factor, offset, some, x);
        if (!weighted) return;
        for (int l = 0; l < n; l++) weights[l] = F(value_at(weight, p + l));
        weigh(root(weights), x);
    }
    // Adds the products of a panel of n entries to the sums of a lane of the group.
    void collect(const F *x, int64_t n, int l, bool first) const {
        double *out = collected + int64_t(l) * sum_count * WIDTH;
        for (int t = 0; t < tile_count; t++) tiles[t].add(x, int(blocks(n)), stride, tiles[t].i, tiles[t].j, out + tiles[t].at, first);
    }
    void clear(int l) const { std::memset(collected + int64_t(l) * sum_count * WIDTH, 0, sizeof(double) * size_t(sum_count) * WIDTH); }
    // The sums of all lanes, as packed triangles and right-hand sides.
    void turn(vec *lanes) const {
        for (int k = 0; k < sum_count; k++) {
            reg sum[LANES];
#pragma GCC unroll 8
            for (int l = 0; l < LANES; l++) sum[l] = load<reg>(collected + (int64_t(l) * sum_count + k) * WIDTH);
            lanes[places[k]] = sums(sum);
        }
    }
    // y − X v of the n entries of a panel, times √weight; writes them times √weight again, in whole blocks. Returns the sum of their squares.
    __attribute__((noinline)) double residuals(const F *x, int64_t n, const F *v, F *out) const {
        lane<F> square = {};
        const int64_t step = int64_t(stride) * N;
        const auto some = [&](auto number) {
            constexpr int B = decltype(number)::value;
            lane<F> e[B];
#pragma GCC unroll 4
            for (int b = 0; b < B; b++) e[b] = load<lane<F>>(x + b * step + r * N);
            for (int k = 0; k < r; k++) {
                const F factor = v[k];
#pragma GCC unroll 4
                for (int b = 0; b < B; b++) e[b] -= factor * load<lane<F>>(x + b * step + k * N);
            }
#pragma GCC unroll 4
            for (int b = 0; b < B; b++) {
                square += e[b] * e[b];
                if (weighted) e[b] *= load<lane<F>>(x + b * step + (r + 1) * N);
                store(out + b * N, e[b]);
            }
            x += B * step, out += B * N;
        };
        int64_t left = blocks(n);
        for (; left >= 4; left -= 4) some(Int<4>{});
        for (; left > 0; left--) some(Int<1>{});
        double total = 0;
        for (int l = 0; l < N; l++) total += double(square[l]);
        return total;
    }

  private:
    template <int Q> RSLM_INLINE void put(const F *factor, const int64_t *offset, const lane<F> &y, F *x) const {
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) {
            if (4 * q >= r) break; // padding
            const F *row[N];
#pragma GCC unroll 16
            for (int l = 0; l < N; l++) row[l] = factor + offset[l] + 4 * q;
            transpose_four(row, x + 4 * q * N);
        }
        store(x + r * N, y);
    }
    RSLM_INLINE void weigh(const lane<F> &roots, F *x) const {
        for (int k = 0; k <= r; k++) store(x + k * N, load<lane<F>>(x + k * N) * roots);
        store(x + (r + 1) * N, roots);
    }
};

} // namespace
