// Compressible flow of an ideal gas on a periodic square: what the source files share.
#ifndef FLOW_H
#define FLOW_H

#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace flow {

constexpr double pi = 3.14159265358979323846;
constexpr int ghosts = 2;

enum Component { Density, MomentumX, MomentumY, Energy };
constexpr int components = 4;

// Conserved quantities of one cell, by component; also a flux of them.
class State {
  public:
    double& operator[](int k) { return value[checked(k)]; }
    double operator[](int k) const { return value[checked(k)]; }

  private:
    static int checked(int k) {
        if (k < 0 || k >= components) std::abort();
        return k;
    }
    double value[components] = {};
};

struct Primitive {
    double density = 0.0;
    double u = 0.0;
    double v = 0.0;
    double pressure = 0.0;
};

// What the input file sets.
struct Options {
    int cells = 64;          // in each direction
    int boxes = 2;           // of the output, in each direction
    int outputs = 5;         // after the initial one
    int max_steps = 2000;
    double interval = 0.02;  // time between outputs
    double cfl = 0.4;
    double gamma = 1.4;      // ratio of specific heats
    double background_density = 0.2;
    double background_pressure = 0.1;
};

// Cell averages on the unit square, with ghost cells around it: i and j run from -ghosts to n + ghosts - 1.
class Grid {
  public:
    explicit Grid(int cells) : n(cells), h(1.0 / cells), cell((n + 2 * ghosts) * (n + 2 * ghosts)) {}

    State& operator()(int i, int j) { return cell[place(i, j)]; }
    const State& operator()(int i, int j) const { return cell[place(i, j)]; }

    const int n;
    const double h;  // width of a cell

  private:
    int place(int i, int j) const {
        if (i < -ghosts || i >= n + ghosts || j < -ghosts || j >= n + ghosts) std::abort();
        return (j + ghosts) * (n + 2 * ghosts) + i + ghosts;
    }
    std::vector<State> cell;
};

// init.cpp
void initialize(Grid& state, const Options& options);

// hydro.cpp
Primitive to_primitive(const State& cell, double gamma);
State to_conserved(const Primitive& gas, double gamma);
double time_step(const Grid& state, const Options& options);
void advance(Grid& state, double dt, const Options& options);

// plotfile.cpp
void write_plotfile(const char* name, const Grid& state, double time, int step, int boxes);

}  // namespace flow

#endif
