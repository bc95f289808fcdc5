// Which kernels run and with how many threads, and how a call is stopped.
#pragma once
#include "arrays.hpp"
#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

namespace {
using rslm::Kernels, rslm::Pattern;

// ---- instruction sets and threads -----------------------------------------------------------------------------

std::vector<const Kernels *> available() { // of those that were compiled, what this machine has; the best one last
    std::vector<const Kernels *> all;
#if defined(RSLM_HAS_baseline)
    all.push_back(rslm::baseline::kernels());
#endif
#if defined(RSLM_X86)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
#if defined(RSLM_HAS_avx2)
    if (avx2) all.push_back(rslm::avx2::kernels());
#endif
#if defined(RSLM_HAS_avx512)
    if (avx512) all.push_back(rslm::avx512::kernels());
#endif
    (void)avx512;
#endif
    if (all.empty()) throw std::runtime_error("rslm was compiled for another processor than this one; install it again, here");
    return all;
}

const Kernels *chosen = nullptr;
int most_threads = 256;

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels *k : available()) names.push_back(k->name);
    return names;
}
void use_instruction_set(const std::string &name) {
    for (const Kernels *k : available())
        if (name == k->name) {
            chosen = k;
            return;
        }
    std::string all;
    for (const std::string &other : instruction_sets()) all += (all.empty() ? "" : ", ") + other;
    throw std::invalid_argument("instruction set '" + name + "' is not available here; there is " + all);
}

// The number of threads worth using: waking one costs some microseconds, and results do not depend on it.
int useful_threads(int threads, int64_t multiplications) {
    require(threads >= 1, "the number of threads must be at least 1");
    return int(std::clamp<int64_t>(multiplications / 500'000, 1, std::min(threads, most_threads)));
}

// ---- stopping a kernel ------------------------------------------------------------------------------------------

struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("the time is over, or somebody has pressed Ctrl-C") {}
};
constexpr std::chrono::milliseconds BETWEEN{50}; // between two calls of `asked`
thread_local rslm::Watch watch;                  // of the current call in this thread
PyObject *asked = nullptr;                       // a Python function that returns whether to stop

// Raises a Python exception if the kernel was stopped.
void raise_if_ended() {
    if (!watch.ended()) return;
    watch.begin();
    if (PyErr_Occurred()) throw nb::python_error(); // raised by a signal handler
    throw Stopped();
}
template <class C, class R, class... A> auto watched(R (C::*call)(A...)) {
    return [call](C &self, A... given) -> R {
        if constexpr (std::is_void_v<R>) {
            (self.*call)(given...);
            raise_if_ended();
        } else {
            R result = (self.*call)(given...);
            raise_if_ended();
            return result;
        }
    };
}
// Only one call at a time may use the workspace of a pattern and its watch.
struct Alone {
    std::lock_guard<std::mutex> lock;
    Pattern &pattern;
    Alone(std::mutex &busy, Pattern &pattern) : lock(busy), pattern(pattern) { watch.begin(), pattern.watch = &watch; }
    ~Alone() { pattern.watch = nullptr; }
};

} // namespace
