// The initial state: a dense blob and a hot spot beside it, in a thin gas with a shear flow.
#include "flow.h"

namespace flow {

namespace {

// Distance of two coordinates on a circle of length 1.
double periodic_distance(double a, double b) {
    double distance = std::fabs(a - b);
    if (distance > 0.5) {
        distance = 1.0 - distance;
    }
    return distance;
}

// A smooth bump: 1 at its centre, below 0.02 beyond two widths.
double bump(double x, double y, double x0, double y0, double width) {
    double dx = periodic_distance(x, x0);
    double dy = periodic_distance(y, y0);
    double r2 = dx * dx + dy * dy;
    return std::exp(-r2 / (width * width));
}

Primitive gas_at(double x, double y, const Options& options) {
    const double blob = bump(x, y, 0.5, 0.5, 0.18);
    const double spot = bump(x, y, 0.3, 0.3, 0.04);
    Primitive gas;
    gas.density = options.background_density;
    gas.density += 1.0 * blob;
    gas.pressure = options.background_pressure + 5.0 * spot;
    gas.u = 0.3 + 0.15 * std::sin(2.0 * pi * y);
    gas.v = 0.3 * std::cos(2.0 * pi * x);
    return gas;
}

}  // namespace

void initialize(Grid& state, const Options& options) {
    for (int j = 0; j < state.n; ++j) {
        const double y = (j + 0.5) * state.h;
        for (int i = 0; i < state.n; ++i) {
            const double x = (i + 0.5) * state.h;
            const Primitive gas = gas_at(x, y, options);
            const double kinetic = 0.5 * gas.density * (gas.u * gas.u + gas.v * gas.v);
            const double internal = gas.pressure / (options.gamma - 1.0);
            State& cell = state(i, j);
            cell[Density] = gas.density;
            cell[MomentumX] = gas.density * gas.u;
            cell[MomentumY] = gas.density * gas.v;
            cell[Energy] = internal + kinetic;
        }
    }
}

}  // namespace flow
