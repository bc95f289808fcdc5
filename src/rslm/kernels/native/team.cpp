// A pool of threads. Compiled once.
//
// OpenMP is not used: its library aborts the process if it cannot get a thread or memory, and an exception must not leave a
// parallel region. Here fewer threads do the same work, and an exception in one of them reaches the caller.
#include "kernels.hpp"
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace {

constexpr int SPINS = 1000; // checks of a flag before a thread sleeps: some microseconds, about as long as waking up takes

template <class F> void spin_until(F &&over) {
    for (int i = 0; i < SPINS && !over(); i++) {
#if defined(RSLM_X86)
        __builtin_ia32_pause();
#endif
    }
}

// One call of `in_team`.
struct Job {
    void (*body)(void *);
    void *context;
    std::atomic<int> helpers{0}; // number of helpers that have not finished
    std::mutex mutex{};
    std::condition_variable done{};
    std::exception_ptr failure{}; // the first

    void run() noexcept {
        try {
            body(context);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex);
            if (!failure) failure = std::current_exception();
        }
    }
    // The caller takes the lock before it destroys the job, so the job still exists when this returns.
    void leave() {
        const std::lock_guard<std::mutex> lock(mutex);
        if (--helpers == 0) done.notify_one();
    }
    void wait() {
        spin_until([&] { return helpers == 0; });
        std::unique_lock<std::mutex> lock(mutex);
        done.wait(lock, [&] { return helpers == 0; });
    }
};

struct Helper {
    std::atomic<Job *> job{nullptr}; // owned by the thread that takes it out: the helper or the caller
    std::mutex mutex{};
    std::condition_variable wake{};
    Helper *next = nullptr;

    void serve() {
        for (;;) {
            spin_until([&] { return job != nullptr; });
            {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return job != nullptr; });
            }
            if (Job *mine = job.exchange(nullptr)) mine->run(), mine->leave();
        }
    }
    void begin(Job &work) {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            job = &work;
        }
        wake.notify_one();
    }
    // Withdraws the job from a helper that has not woken up when all work is done.
    void dismiss() {
        if (Job *untouched = job.exchange(nullptr)) untouched->leave();
    }
};

// The helpers that are idle. They live as long as the process.
class Idle {
    Helper *first = nullptr;
    std::mutex mutex;

    static Helper *made() {
        Helper *helper = nullptr;
        try {
            helper = new Helper;
            std::thread(&Helper::serve, helper).detach();
            return helper;
        } catch (const std::system_error &) { // no more threads
        } catch (const std::bad_alloc &) {
        }
        delete helper;
        return nullptr;
    }

  public:
    // A linked list of at most `count` helpers.
    Helper *take(int count) {
        const std::lock_guard<std::mutex> lock(mutex);
        Helper *chain = nullptr;
        for (int i = 0; i < count; i++) {
            Helper *helper = first;
            if (helper) first = helper->next;
            else if (!(helper = made())) break;
            helper->next = chain, chain = helper;
        }
        return chain;
    }
    void give(Helper *chain) {
        const std::lock_guard<std::mutex> lock(mutex);
        while (chain) {
            Helper *helper = chain;
            chain = helper->next;
            helper->next = first, first = helper;
        }
    }
};

Idle &idle() {
    static Idle *all = new Idle; // never deleted: helpers outlive the objects of this file
    return *all;
}

} // namespace

void rslm::in_team(int threads, void (*body)(void *), void *context) {
    if (threads <= 1) return body(context);
    Job job{body, context};
    Helper *chain = idle().take(threads - 1);
    for (Helper *h = chain; h; h = h->next) job.helpers++;
    for (Helper *h = chain; h; h = h->next) h->begin(job);
    job.run();
    for (Helper *h = chain; h; h = h->next) h->dismiss();
    job.wait();
    idle().give(chain);
    if (job.failure) std::rethrow_exception(job.failure);
}
