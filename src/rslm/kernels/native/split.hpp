// Eight doubles in several registers, for instruction sets with narrower registers. A vector type of 64 bytes would do the
// same in fewer lines, but compilers keep vectors wider than a register in memory, at a tenth of the speed.
#pragma once
#include "kernels.hpp"

#define RSLM_INLINE inline __attribute__((always_inline))

namespace {
using rslm::LANES;

#if defined(__AVX2__)
constexpr int WIDTH = 4; // doubles in a register
#else
constexpr int WIDTH = 2;
#endif
constexpr int REGISTERS = LANES / WIDTH;
typedef double reg __attribute__((vector_size(8 * WIDTH)));
typedef float reg32 __attribute__((vector_size(4 * WIDTH)));
typedef decltype(reg{} < reg{}) reg_mask;

#define RSLM_EACH(i)                                                                                                            \
    _Pragma("GCC unroll 4") for (int i = 0; i < REGISTERS; i++)

struct mask {
    reg_mask part[REGISTERS];
    RSLM_INLINE bool operator[](int l) const { return part[l / WIDTH][l % WIDTH] != 0; }
    RSLM_INLINE mask operator~() const {
        mask m;
        RSLM_EACH(i) m.part[i] = ~part[i];
        return m;
    }
#define RSLM_LOGICAL(op)                                                                                                        \
    friend RSLM_INLINE mask operator op(const mask &a, const mask &b) {                                                         \
        mask m;                                                                                                                 \
        RSLM_EACH(i) m.part[i] = a.part[i] op b.part[i];                                                                        \
        return m;                                                                                                               \
    }
    RSLM_LOGICAL(&)
    RSLM_LOGICAL(|)
#undef RSLM_LOGICAL
};

struct vec {
    reg part[REGISTERS];
    RSLM_INLINE double operator[](int l) const { return part[l / WIDTH][l % WIDTH]; }
    RSLM_INLINE double &operator[](int l) { return ((double *)part)[l]; }
    RSLM_INLINE vec operator-() const {
        vec v;
        RSLM_EACH(i) v.part[i] = -part[i];
        return v;
    }
#define RSLM_ARITHMETIC(op)                                                                                                     \
    friend RSLM_INLINE vec operator op(const vec &a, const vec &b) {                                                            \
        vec v;                                                                                                                  \
        RSLM_EACH(i) v.part[i] = a.part[i] op b.part[i];                                                                        \
        return v;                                                                                                               \
    }                                                                                                                           \
    friend RSLM_INLINE vec operator op(const vec &a, double b) {                                                                \
        vec v;                                                                                                                  \
        RSLM_EACH(i) v.part[i] = a.part[i] op b;                                                                                \
        return v;                                                                                                               \
    }                                                                                                                           \
    friend RSLM_INLINE vec operator op(double a, const vec &b) {                                                                \
        vec v;                                                                                                                  \
        RSLM_EACH(i) v.part[i] = a op b.part[i];                                                                                \
        return v;                                                                                                               \
    }                                                                                                                           \
    template <class B> RSLM_INLINE vec &operator op##=(const B &b) { return *this = *this op b; }
    RSLM_ARITHMETIC(+)
    RSLM_ARITHMETIC(-)
    RSLM_ARITHMETIC(*)
    RSLM_ARITHMETIC(/)
#undef RSLM_ARITHMETIC
#define RSLM_COMPARISON(op)                                                                                                     \
    friend RSLM_INLINE mask operator op(const vec &a, const vec &b) {                                                           \
        mask m;                                                                                                                 \
        RSLM_EACH(i) m.part[i] = a.part[i] op b.part[i];                                                                        \
        return m;                                                                                                               \
    }                                                                                                                           \
    friend RSLM_INLINE mask operator op(const vec &a, double b) {                                                               \
        mask m;                                                                                                                 \
        RSLM_EACH(i) m.part[i] = a.part[i] op b;                                                                                \
        return m;                                                                                                               \
    }
    RSLM_COMPARISON(<)
    RSLM_COMPARISON(>)
    RSLM_COMPARISON(==)
    RSLM_COMPARISON(!=)
#undef RSLM_COMPARISON
};

// a where m holds, else b.
RSLM_INLINE vec pick(const mask &m, const vec &a, const vec &b) {
    vec v;
    RSLM_EACH(i) v.part[i] = m.part[i] ? a.part[i] : b.part[i];
    return v;
}
} // namespace
