// Heat in a rod: writes heat_000.txt (the initial state), heat_001.txt and heat_002.txt, then "finished".
#include <cmath>
#include <cstdio>
#include <vector>

#include "heat.h"

static void write(int number, double time, const std::vector<double>& u) {
    char name[32];
    std::snprintf(name, sizeof name, "heat_%03d.txt", number);
    std::FILE* file = std::fopen(name, "w");
    std::fprintf(file, "# time %.6f\n# x u\n", time);
    for (std::size_t i = 0; i < u.size(); ++i) std::fprintf(file, "%.6f %.12e\n", i / 63.0, u[i]);
    std::fclose(file);
}

int main() {
    const double dt = 1e-4, dx = 1.0 / 63.0;
    std::vector<double> u(64);
    for (int i = 0; i < 64; ++i) u[i] = std::sin(3.14159265358979 * i * dx) + 0.3 * std::sin(9.42477796076938 * i * dx);
    write(0, 0.0, u);
    for (int number = 1; number <= 2; ++number) {
        for (int step = 0; step < 200; ++step) advance(u, dt, dx);
        write(number, 200 * number * dt, u);
    }
    std::puts("finished");
}
