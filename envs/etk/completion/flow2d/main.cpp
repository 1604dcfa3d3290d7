// Reads the input file, advances the gas and writes it at fixed physical times.
// Exit status: 2 bad input, 3 an impossible or endless series of time steps, 4 a state that is not finite.
#include "flow.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace flow {

namespace {

// Lines `name = number`; # begins a comment.
Options read_options(const std::string& path) {
    Options options;
    const std::pair<const char*, int*> counts[] = {
        {"cells", &options.cells}, {"boxes", &options.boxes}, {"outputs", &options.outputs}, {"max_steps", &options.max_steps}};
    const std::pair<const char*, double*> numbers[] = {
        {"interval", &options.interval}, {"cfl", &options.cfl}, {"gamma", &options.gamma},
        {"background_density", &options.background_density}, {"background_pressure", &options.background_pressure}};
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::string line, name, equals;
    while (std::getline(file, line)) {
        std::istringstream words(line.substr(0, line.find('#')));
        double value = 0.0;
        if (!(words >> name)) continue;
        bool known = (words >> equals >> value) && equals == "=";
        if (known) {
            known = false;
            for (const auto& [key, place] : counts) {
                if (name == key) *place = static_cast<int>(value), known = true;
            }
            for (const auto& [key, place] : numbers) {
                if (name == key) *place = value, known = true;
            }
        }
        if (!known) throw std::runtime_error("not an option: " + line);
    }
    if (options.cells < 2 * ghosts || options.boxes < 1 || options.cells % options.boxes != 0) {
        throw std::runtime_error("cells must be a multiple of boxes");
    }
    return options;
}

double total(const Grid& state, int component) {
    double sum = 0.0;
    for (int j = 0; j < state.n; ++j) {
        for (int i = 0; i < state.n; ++i) sum += state(i, j)[component];
    }
    return sum * state.h * state.h;
}

bool is_finite(const Grid& state) {
    double sum = 0.0;
    for (int k = 0; k < components; ++k) sum += total(state, k);
    return std::isfinite(sum);
}

void write_output(const Grid& state, int output, double time, int step, const Options& options) {
    char name[16];
    std::snprintf(name, sizeof name, "plt%05d", output);
    write_plotfile(name, state, time, step, options.boxes);
    std::printf("%s: time %g, step %d, mass %.15g\n", name, time, step, total(state, Density));
}

int run(const Options& options) {
    Grid state(options.cells);
    double time = 0.0;
    int step = 0;
    initialize(state, options);
    write_output(state, 0, time, step, options);
    for (int output = 1; output <= options.outputs; ++output) {
        const double end = output * options.interval;
        while (time < end) {
            const double stable = time_step(state, options);
            if (!std::isfinite(stable) || stable <= 0.0 || ++step > options.max_steps) {
                std::fprintf(stderr, "stopped at step %d, time %g: the next step is %g\n", step, time, stable);
                return 3;
            }
            const bool last = time + stable >= end;
            advance(state, last ? end - time : stable, options);
            time = last ? end : time + stable;
            if (!is_finite(state)) {
                std::fprintf(stderr, "stopped at step %d, time %g: the state is not finite\n", step, time);
                return 4;
            }
        }
        write_output(state, output, time, step, options);
    }
    return 0;
}

}  // namespace

}  // namespace flow

int main(int count, char** arguments) {
    try {
        if (count != 2) throw std::runtime_error("usage: flow INPUTS");
        const int status = flow::run(flow::read_options(arguments[1]));
        if (status == 0) std::puts("finished");
        return status;
    } catch (const std::runtime_error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
