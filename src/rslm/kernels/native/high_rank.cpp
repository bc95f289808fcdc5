// The kernels for ranks above those that are known at compile time.
#include "wide_system.hpp"

namespace {
using rslm::Kernels;

constexpr int64_t TOGETHER = 64; // columns whose counts of steps predict those of the next ones; fixed, so that results do not depend on threads
Kernels narrow;                  // those for ranks that are known at compile time

int64_t most_entries(const Pattern &c, int64_t first, int64_t last) { // of a column
    int64_t most = 0;
    for (int64_t t = first; t < last; t++) most = std::max(most, c.indptr[t + 1] - c.indptr[t]);
    return most;
}

void solve_systems(const Pattern &c, int threads, const double *X, int rank, const Values &weight, const rslm::Ridge &ridge, const int64_t *rooms,
                   double *factors, bool known, const double *rhs, double *solution) {
    const int64_t most = most_entries(c, 0, c.columns);
    each(threads, (c.columns + TOGETHER - 1) / TOGETHER, 1, [&] {
        return [&, system = WideSystem(rank, most)](int64_t piece) mutable {
            system.forget();
            for (int64_t t = piece * TOGETHER; t < std::min(c.columns, (piece + 1) * TOGETHER) && !over(c); t++)
                system.solve(WideColumn(c, t, X, rank, weight, ridge), rhs + t * rank, solution + t * rank,
                             rooms ? Room{factors + rooms[t], rooms[t + 1] - rooms[t], known} : Room{});
        };
    });
}

void leverages(const Pattern &c, int threads, const double *X, int rank, const Values &weight, const rslm::Ridge &ridge, double *out) {
    const int64_t most = most_entries(c, 0, c.columns);
    each(threads, c.columns, 1, [&] {
        return [&, system = WideSystem(rank, most)](int64_t t) mutable {
            if (!over(c)) system.leverages(WideColumn(c, t, X, rank, weight, ridge), out);
        };
    });
}

int width_of(int rank) { return int(blocks_of(rank)) * LANES; }

// The weighted rows of a column, from which its Gram matrix is summed.
struct WideGrams {
    int rank;
    Panel panel;
    Triangle triangle;
    WideGrams(int rank) : rank(rank), panel(CHUNK * Panel::distance(rank)), triangle(rank) {}
    void begin() {
        panel.shape(0, rank);
        triangle.sum(panel);
    }
    void add(const WideColumn &column) {
        panel.shape(0, rank);
        for (int64_t p = column.start; p < column.end; p++) {
            const double w = column.weight_at(p), *x = column.row_at(p);
            if (w == 0) continue;
            const double root = std::sqrt(w);
            double *row = panel.row(panel.rows++);
            for (int k = 0; k < rank; k++) row[k] = root * x[k];
            for (int k = rank; k % LANES; k++) row[k] = 0.0;
            if (panel.rows == CHUNK) triangle.add(panel), panel.rows = 0;
        }
        triangle.add(panel);
    }
};

// The systems of a group of columns in the form of systems.hpp: eight columns interleaved.
struct WideFactors {
    int rank;
    WideGrams grams;
    Buffer<vec> lanes, shifts;
    WideFactors(int rank) : rank(rank), grams(rank), lanes(triangle(rank)), shifts(rank) {
        std::memset((void *)lanes.data, 0, sizeof(vec) * size_t(triangle(rank)));
    }
    void find(const Group &group, const Pattern &c, const double *X, int64_t stride, const Values &weight, const Pattern *more, const Values &more_weight,
              const rslm::Ridge &ridge, double *factors) {
        for (int l = 0; l < group.lanes; l++) {
            const int64_t t = group.column(l);
            grams.begin();
            grams.add(WideColumn(c, t, X, stride, weight, ridge));
            if (more) grams.add(WideColumn(*more, t, X, stride, more_weight, ridge));
            for (int i = 0; i < rank; i++)
                for (int j = i; j < rank; j++) ((double *)(lanes + packed(rank, i, j)))[l] = grams.triangle.a.row(i)[j];
        }
        for (int k = 0; k < rank; k++) lanes[packed(rank, k, k)] += shifts[k] = group.shifts(ridge, k);
        ::factorise(rank, lanes.data, shifts.data);
        std::memcpy(factors + size_t(group.g) * size_t(triangle(rank)) * LANES, lanes.data, sizeof(vec) * size_t(triangle(rank)));
    }
};

void factorise_wide(const Pattern &c, int threads, const double *X, int rank, const Values &weight, const Pattern *more, const Values &more_weight,
                    const rslm::Ridge &ridge, double *factors) {
    each(threads, c.groups(), 1, [&] {
        return [&, systems = WideFactors(rank)](int64_t g) mutable {
            if (!over(c)) systems.find(Group(c, g), c, X, rank, weight, more, more_weight, ridge, factors);
        };
    });
}

void grams_wide(const Pattern &c, int threads, const double *X, int rank, const Values &weight, double *out) {
    const rslm::Ridge none{nullptr, 1};
    each(threads, c.columns, 1, [&] {
        return [&, grams = WideGrams(rank)](int64_t t) mutable {
            if (over(c)) return;
            grams.begin();
            grams.add(WideColumn(c, t, X, rank, weight, none));
            double *to = out + t * rank * rank;
            for (int i = 0; i < rank; i++)
                for (int j = i; j < rank; j++) to[i * rank + j] = to[j * rank + i] = grams.triangle.a.row(i)[j];
        };
    });
}

// Without `factors` the systems are solved as in `solve_systems`.
void newton_wide(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const Values &z, const Values &weight,
                 const double *V, const rslm::Ridge &ridge, double *factors, double *step, double *decrement) {
    const int64_t width = width_of(rank);
    const auto newton = [&](auto &systems) {
        Buffer<double> rhs(LANES * width);
        Buffer<vec> b(rank);
        for (int64_t g = first; g < last; g++) {
            if (!active[g - first]) continue;
            const Group group(c, g);
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l);
                double *row = rhs + l * width;
                std::memset(row, 0, sizeof(double) * size_t(width));
                for (int64_t p = c.indptr[t]; p < c.indptr[t + 1]; p++) add_multiple(row, value_at(z, p), x + int64_t(c.index[p]) * width, width);
                for (int k = 0; k < rank; k++)
                    if (ridge.at(t, k) < HUGE_VAL) row[k] -= ridge.at(t, k) * V[t * rank + k]; // else the coordinate stays where it is
            }
            if constexpr (std::is_same_v<std::decay_t<decltype(systems)>, WideFactors>) {
                systems.find(group, c, x, width, weight, nullptr, NO_VALUES, ridge, factors);
                for (int k = 0; k < rank; k++)
                    for (int l = 0; l < LANES; l++) b[k][l] = l < group.lanes ? rhs[l * width + k] : 0.0;
                ::solve(rank, factors + size_t(g) * size_t(triangle(rank)) * LANES, b.data);
                for (int l = 0; l < group.lanes; l++)
                    for (int k = 0; k < rank; k++) step[group.column(l) * rank + k] = b[k][l];
            } else
                for (int l = 0; l < group.lanes; l++) {
                    const int64_t t = group.column(l);
                    systems.solve(WideColumn(c, t, x, width, weight, ridge), rhs + l * width, step + t * rank);
                }
            for (int l = 0; l < group.lanes; l++) {
                const int64_t t = group.column(l);
                double square = 0;
                for (int k = 0; k < rank; k++) square += rhs[l * width + k] * step[t * rank + k];
                decrement[t] = square;
            }
        }
    };
    if (factors) {
        WideFactors systems(rank);
        newton(systems);
    } else {
        WideSystem systems(rank, most_entries(c, LANES * first, std::min(c.columns, LANES * last)));
        newton(systems);
    }
}

void products_wide(const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const double *R, double *product) {
    const int64_t width = width_of(rank), base = c.indptr[std::min(LANES * first, c.columns)];
    Buffer<double> row(width);
    std::memset(row.data, 0, sizeof(double) * size_t(width));
    for (int64_t g = first; g < last; g++) {
        if (!active[g - first]) continue;
        const Group group(c, g);
        for (int l = 0; l < group.lanes; l++) {
            const int64_t t = group.column(l);
            std::memcpy(row.data, R + t * rank, sizeof(double) * size_t(rank));
            for (int64_t p = c.indptr[t]; p < c.indptr[t + 1]; p++) product[p - base] = scalar_product(x + int64_t(c.index[p]) * width, row.data, width);
        }
    }
}

} // namespace

// Ranks that are known at compile time keep the kernels that are in `k` already.
void rslm::RSLM_ISA::add_high_rank(Kernels &k) {
    narrow = k;
    k.solve_systems = solve_systems, k.leverages = leverages;
    k.factorise = [](const Pattern &c, Workspace &w, int threads, const double *X, int rank, const Values &weight, const Pattern *more,
                     const Values &more_weight, const Ridge &ridge, double *factors) {
        if (rank <= MOST_RANK) narrow.factorise(c, w, threads, X, rank, weight, more, more_weight, ridge, factors);
        else factorise_wide(c, threads, X, rank, weight, more, more_weight, ridge, factors);
    };
    k.grams = [](const Pattern &c, Workspace &w, int threads, const double *X, int rank, const Values &weight, double *grams) {
        if (rank <= MOST_RANK) narrow.grams(c, w, threads, X, rank, weight, grams);
        else grams_wide(c, threads, X, rank, weight, grams);
    };
    k.newton = [](const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const Values &z, const Values &weight,
                  const double *V, const Ridge &ridge, double *factors, double *step, double *decrement) {
        (rank <= MOST_RANK ? narrow.newton : newton_wide)(c, first, last, active, x, rank, z, weight, V, ridge, factors, step, decrement);
    };
    k.products = [](const Pattern &c, int64_t first, int64_t last, const uint8_t *active, const double *x, int rank, const double *R, double *product) {
        (rank <= MOST_RANK ? narrow.products : products_wide)(c, first, last, active, x, rank, R, product);
    };
    k.padded_width = [](int rank) { return rank <= MOST_RANK ? narrow.padded_width(rank) : width_of(rank); };
    k.padded = [](const double *U, int64_t rows, int rank, double *out) {
        if (rank <= MOST_RANK) return narrow.padded(U, rows, rank, out);
        const int width = width_of(rank);
        std::memset(out, 0, sizeof(double) * size_t((rows + 1) * width));
        for (int64_t i = 0; i < rows; i++) std::memcpy(out + i * width, U + i * rank, sizeof(double) * size_t(rank));
    };
}
