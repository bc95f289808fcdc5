// Iteration over the columns of a pattern: in groups of eight, shard by shard.
#pragma once
#include "loops.hpp"
#include "systems.hpp"

namespace {
using rslm::Workspace;

struct Group {
    int64_t g;
    int lanes;
    Group(const Pattern &c, int64_t g) : g(g), lanes(c.columns - LANES * g < LANES ? int(c.columns - LANES * g) : LANES) {}
    int64_t column(int lane) const { return LANES * g + lane; }
    vec shifts(const rslm::Ridge &ridge, int k) const { // of coordinate k; 1 for the unused lanes of the last group
        vec s;
        for (int l = 0; l < LANES; l++) s[l] = l < lanes ? ridge.at(column(l), k) : 1.0;
        return s;
    }
};

// Whether the current call should stop; checked by all threads that work on it.
RSLM_INLINE bool over(const Pattern &c) { return c.watch && c.watch->look(); }

constexpr int64_t FEW = 1 << 12; // groups up to this size are fast: only every sixteenth checks whether to stop

// make() builds the work function of a thread; work(shard, group, sum) adds to a rows × 4 Q array, one per shard unless `apart`. Writes the
// sum over all shards to `out`, in double precision, unless that is null.
template <int Q, class F, class Make>
void sum_over_shards(const Pattern &c, int64_t rows, bool apart, F *sums, int rank, int threads, double *out, Make &&make) {
    constexpr int width = 4 * Q;
    const int64_t size = rows * width, sum_count = apart ? 1 : c.shard_count;
    if (apart)
        each(threads, rows, even(rows, threads), [&] {
            return [&](int64_t i) { std::memset(sums + i * width, 0, sizeof(F) * size_t(width)); };
        });
    each(threads, c.shard_count, 1, [&] {
        return [&, work = make()](int64_t s) mutable {
            F *sum = apart ? sums : sums + s * size;
            if (!apart) std::memset(sum, 0, sizeof(F) * size_t(size));
            const int64_t between = c.most_entries > FEW ? 1 : 16;
            for (int64_t g = c.shards[s]; g < c.shards[s + 1] && !(g % between == 0 && over(c)); g++) work(s, Group(c, g), sum);
            fence();
        };
    });
    if (out)
        each(threads, rows, even(rows, threads), [&] {
            return [&](int64_t i) {
                Row<Q> total = Row<Q>::at(sums + i * width);
                for (int64_t s = 1; s < sum_count; s++) total.add(Row<Q>::at(sums + s * size + i * width));
                double row[8 * Row<Q>::N];
                total.put(row);
                std::memcpy(out + i * rank, row, sizeof(double) * size_t(rank));
            };
        });
}

// The same, for sums over the rows of the pattern.
template <int Q, class F, class Make> void sum_over_shards(const Pattern &c, F *sums, int rank, int threads, double *out, Make &&make) {
    sum_over_shards<Q>(c, c.rows, c.apart, sums, rank, threads, out, make);
}

} // namespace
