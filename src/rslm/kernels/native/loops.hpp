// Parallel loops.
#pragma once
#include "kernels.hpp"
#include <atomic>
#include <new>

namespace {

// Calls work(i) for i = 0 … n − 1; a free thread takes the next `chunk` indices. Each thread has its own work = make(). A thread that has no
// memory for it leaves the work to the others; if none has memory, or if work throws, this throws.
template <class Make> void each(int threads, int64_t n, int64_t chunk, Make &&make) {
    std::atomic<int64_t> next{0};
    const auto body = [&] {
        bool made = false;
        try {
            int64_t first = next; // allocate nothing if no work is left
            if (first >= n) return;
            auto work = make();
            made = true;
            while ((first = next.fetch_add(chunk)) < n)
                for (int64_t i = first, last = n - first < chunk ? n : first + chunk; i < last; i++) work(i);
        } catch (const std::bad_alloc &) {
            if (made) throw;
        }
    };
    const int64_t chunks = n / chunk + (n % chunk != 0);
    rslm::in_team(chunks < threads ? int(chunks) : threads, [](void *b) { (*static_cast<decltype(body) *>(b))(); }, (void *)&body);
    if (next < n) rslm::out_of_memory();
}

// The chunk size for iterations that all take equally long.
inline int64_t even(int64_t n, int threads) { return n < 4 * threads ? 1 : n / (4 * threads); }

} // namespace
