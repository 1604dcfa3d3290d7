// The Euler equations by finite volumes: limited linear reconstruction, HLL fluxes, Heun's method in time.
#include "flow.h"

namespace flow {

Primitive to_primitive(const State& cell, double gamma) {
    Primitive gas;
    gas.density = cell[Density];
    gas.u = cell[MomentumX] / gas.density;
    gas.v = cell[MomentumY] / gas.density;
    const double kinetic = 0.5 * gas.density * (gas.u * gas.u + gas.v * gas.v);
    gas.pressure = (gamma - 1.0) * (cell[Energy] - kinetic);
    return gas;
}

State to_conserved(const Primitive& gas, double gamma) {
    const double kinetic = 0.5 * gas.density * (gas.u * gas.u + gas.v * gas.v);
    State cell{};
    cell[Density] = gas.density;
    cell[MomentumX] = gas.density * gas.u;
    cell[MomentumY] = gas.density * gas.v;
    cell[Energy] = gas.pressure / (gamma - 1.0) + kinetic;
    return cell;
}

namespace {

double sound_speed(const Primitive& gas, double gamma) {
    return std::sqrt(gamma * gas.pressure / gas.density);
}

// The smaller slope where both have the same sign, else none.
double minmod(double a, double b) {
    if (a * b <= 0.0) {
        return 0.0;
    }
    if (std::fabs(a) < std::fabs(b)) {
        return a;
    }
    return b;
}

Primitive limited_slope(const Primitive& left, const Primitive& centre, const Primitive& right) {
    Primitive slope;
    slope.density = minmod(centre.density - left.density, right.density - centre.density);
    slope.u = minmod(centre.u - left.u, right.u - centre.u);
    slope.v = minmod(centre.v - left.v, right.v - centre.v);
    slope.pressure = minmod(centre.pressure - left.pressure, right.pressure - centre.pressure);
    return slope;
}

// The value at a face: `side` is +0.5 for the cell's upper face, -0.5 for its lower one.
Primitive at_face(const Primitive& centre, const Primitive& slope, double side) {
    Primitive face;
    face.density = centre.density + side * slope.density;
    face.u = centre.u + side * slope.u;
    face.v = centre.v + side * slope.v;
    face.pressure = centre.pressure + side * slope.pressure;
    return face;
}

// Flux along x of the conserved quantities.
State physical_flux(const Primitive& gas, double gamma) {
    const State cell = to_conserved(gas, gamma);
    State flux{};
    flux[Density] = cell[MomentumX];
    flux[MomentumX] = cell[MomentumX] * gas.u + gas.pressure;
    flux[MomentumY] = cell[MomentumY] * gas.u;
    flux[Energy] = (cell[Energy] + gas.pressure) * gas.u;
    return flux;
}

// Harten, Lax and van Leer's flux along x between two states.
State hll_flux(const Primitive& left, const Primitive& right, double gamma) {
    const double c_left = sound_speed(left, gamma);
    const double c_right = sound_speed(right, gamma);
    const double slowest = std::fmin(left.u - c_left, right.u - c_right);
    const double fastest = std::fmax(left.u + c_left, right.u + c_right);
    const State flux_left = physical_flux(left, gamma);
    const State flux_right = physical_flux(right, gamma);
    if (slowest >= 0.0) {
        return flux_left;
    }
    if (fastest <= 0.0) {
        return flux_right;
    }
    const State cell_left = to_conserved(left, gamma);
    const State cell_right = to_conserved(right, gamma);
    const double width = fastest - slowest;
    State flux{};
    for (int k = 0; k < components; ++k) {
        const double mean = fastest * flux_left[k] - slowest * flux_right[k];
        const double jump = cell_right[k] - cell_left[k];
        flux[k] = (mean + fastest * slowest * jump) / width;
    }
    return flux;
}

// Exchange the roles of x and y.
Primitive turned(Primitive gas) {
    std::swap(gas.u, gas.v);
    return gas;
}

State turned(State flux) {
    std::swap(flux[MomentumX], flux[MomentumY]);
    return flux;
}

// Ghost cells from the opposite side of the square: columns first, then whole rows with their corners.
void fill_ghosts(Grid& state) {
    const int n = state.n;
    for (int j = 0; j < n; ++j) {
        for (int g = 1; g <= ghosts; ++g) {
            state(-g, j) = state(n - g, j);
            state(n - 1 + g, j) = state(g - 1, j);
        }
    }
    for (int i = -ghosts; i < n + ghosts; ++i) {
        for (int g = 1; g <= ghosts; ++g) {
            state(i, -g) = state(i, n - g);
            state(i, n - 1 + g) = state(i, g - 1);
        }
    }
}

// Fluxes through the n + 1 faces of one row of n cells along x; the row has `ghosts` cells more at either end.
std::vector<State> row_fluxes(const std::vector<Primitive>& row, double gamma) {
    const int faces = static_cast<int>(row.size()) - 2 * ghosts + 1;
    std::vector<State> fluxes(faces);
    for (int f = 0; f < faces; ++f) {
        const int cell = f + ghosts;
        const Primitive slope_left = limited_slope(row[cell - 2], row[cell - 1], row[cell]);
        const Primitive slope_right = limited_slope(row[cell - 1], row[cell], row[cell + 1]);
        const Primitive left = at_face(row[cell - 1], slope_left, 0.5);
        const Primitive right = at_face(row[cell], slope_right, -0.5);
        fluxes[f] = hll_flux(left, right, gamma);
    }
    return fluxes;
}

// Add `scale` times the difference of a row's fluxes to its cells.
void add_differences(State& cell, const State& lower, const State& upper, double scale) {
    for (int k = 0; k < components; ++k) {
        cell[k] -= scale * (upper[k] - lower[k]);
    }
}

// One forward Euler step: what flows into each cell in time dt.
Grid euler_step(Grid& state, double dt, double gamma) {
    fill_ghosts(state);
    Grid result = state;
    const int n = state.n;
    const double scale = dt / state.h;
    std::vector<Primitive> row(n + 2 * ghosts);
    for (int j = 0; j < n; ++j) {
        for (int i = -ghosts; i < n + ghosts; ++i) {
            row[i + ghosts] = to_primitive(state(i, j), gamma);
        }
        const std::vector<State> fluxes = row_fluxes(row, gamma);
        for (int i = 0; i < n; ++i) {
            add_differences(result(i, j), fluxes[i], fluxes[i + 1], scale);
        }
    }
    for (int i = 0; i < n; ++i) {
        for (int j = -ghosts; j < n + ghosts; ++j) {
            row[j + ghosts] = turned(to_primitive(state(i, j), gamma));
        }
        const std::vector<State> fluxes = row_fluxes(row, gamma);
        for (int j = 0; j < n; ++j) {
            add_differences(result(i, j), turned(fluxes[j]), turned(fluxes[j + 1]), scale);
        }
    }
    return result;
}

}  // namespace

// The longest stable step: no wave crosses more than a share `cfl` of a cell.
double time_step(const Grid& state, const Options& options) {
    double fastest = 0.0;
    for (int j = 0; j < state.n; ++j) {
        for (int i = 0; i < state.n; ++i) {
            const Primitive gas = to_primitive(state(i, j), options.gamma);
            const double c = sound_speed(gas, options.gamma);
            fastest = std::fmax(fastest, std::fabs(gas.u) + c);
            fastest = std::fmax(fastest, std::fabs(gas.v) + c);
        }
    }
    return options.cfl * state.h / fastest;
}

// Heun's method: the mean of the state and of what two Euler steps make of it.
void advance(Grid& state, double dt, const Options& options) {
    Grid first = euler_step(state, dt, options.gamma);
    const Grid second = euler_step(first, dt, options.gamma);
    for (int j = 0; j < state.n; ++j) {
        for (int i = 0; i < state.n; ++i) {
            for (int k = 0; k < components; ++k) {
                state(i, j)[k] = 0.5 * (state(i, j)[k] + second(i, j)[k]);
            }
        }
    }
}

}  // namespace flow
