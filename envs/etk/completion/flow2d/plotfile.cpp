// Output in AMReX's plotfile format: a text header, and one data file with a block of raw numbers for each box.
#include "flow.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace flow {

namespace {

struct Box {
    int x_low, y_low, x_high, y_high;  // cells, both ends included
};

class File {
  public:
    explicit File(const std::string& path) : name(path), handle(std::fopen(path.c_str(), "wb")) {
        if (handle == nullptr) throw std::runtime_error("cannot write " + name);
    }
    File(const File&) = delete;
    ~File() { std::fclose(handle); }

    template <typename... Values>
    void print(const char* format, Values... values) {
        std::fprintf(handle, format, values...);
    }
    void print(const Box& box) { print("((%d,%d) (%d,%d) (0,0))", box.x_low, box.y_low, box.x_high, box.y_high); }
    void raw(double value) { std::fwrite(&value, sizeof value, 1, handle); }
    long position() { return std::ftell(handle); }
    void finish() {
        if (std::fflush(handle) != 0 || std::ferror(handle) != 0) throw std::runtime_error("cannot write " + name);
    }

  private:
    std::string name;
    std::FILE* handle;
};

void make_folder(const std::string& name) {
    if (mkdir(name.c_str(), 0777) != 0 && errno != EEXIST) throw std::runtime_error("cannot make the folder " + name);
}

std::vector<Box> boxes_of(const Grid& state, int boxes) {
    const int size = state.n / boxes;
    std::vector<Box> found;
    for (int y = 0; y < state.n; y += size) {
        for (int x = 0; x < state.n; x += size) {
            found.push_back({x, y, x + size - 1, y + size - 1});
        }
    }
    return found;
}

template <typename Visit>
void for_each_cell(const Box& box, Visit visit) {
    for (int j = box.y_low; j <= box.y_high; ++j) {
        for (int i = box.x_low; i <= box.x_high; ++i) visit(i, j);
    }
}

void write_header(const std::string& name, const Grid& state, const std::vector<Box>& boxes, double time, int step) {
    File file(name);
    file.print("HyperCLaw-V1.1\n%d\ndensity\nxmom\nymom\nrho_E\n2\n%.17g\n0\n0 0 \n1 1 \n\n", components, time);
    file.print({0, 0, state.n - 1, state.n - 1});
    file.print(" \n%d \n%.17g %.17g \n0\n0\n", step, state.h, state.h);
    file.print("0 %d %.17g\n%d\n", static_cast<int>(boxes.size()), time, step);
    for (const Box& box : boxes) {
        file.print("%.17g %.17g\n", box.x_low * state.h, (box.x_high + 1) * state.h);
        file.print("%.17g %.17g\n", box.y_low * state.h, (box.y_high + 1) * state.h);
    }
    file.print("Level_0/Cell\n");
    file.finish();
}

// Smallest (sign 1) or largest (sign -1) value of each component in each box.
void print_extremes(File& file, const Grid& state, const std::vector<Box>& boxes, double sign) {
    file.print("\n%d,%d\n", static_cast<int>(boxes.size()), components);
    for (const Box& box : boxes) {
        for (int k = 0; k < components; ++k) {
            double least = sign * state(box.x_low, box.y_low)[k];
            for_each_cell(box, [&](int i, int j) { least = std::fmin(least, sign * state(i, j)[k]); });
            file.print("%.17e,", sign * least);
        }
        file.print("\n");
    }
}

// A box's numbers: x fastest, component slowest.
void write_fab(File& file, const Grid& state, const Box& box) {
    const std::uint16_t probe = 1;
    const bool little = *reinterpret_cast<const unsigned char*>(&probe) == 1;
    file.print("FAB ((8, (64 11 52 0 1 12 0 1023)),(8, (%s)))", little ? "8 7 6 5 4 3 2 1" : "1 2 3 4 5 6 7 8");
    file.print(box);
    file.print(" %d\n", components);
    for (int k = 0; k < components; ++k) {
        for_each_cell(box, [&](int i, int j) { file.raw(state(i, j)[k]); });
    }
}

}  // namespace

void write_plotfile(const char* name, const Grid& state, double time, int step, int boxes) {
    const std::string folder = name;
    const std::string level = folder + "/Level_0";
    const std::vector<Box> layout = boxes_of(state, boxes);
    const int count = static_cast<int>(layout.size());
    make_folder(folder);
    make_folder(level);
    File index(level + "/Cell_H");
    index.print("1\n1\n%d\n0\n(%d 0\n", components, count);
    for (const Box& box : layout) {
        index.print(box);
        index.print("\n");
    }
    index.print(")\n%d\n", count);
    File data(level + "/Cell_D_00000");
    for (const Box& box : layout) {
        index.print("FabOnDisk: Cell_D_00000 %ld\n", data.position());
        write_fab(data, state, box);
    }
    print_extremes(index, state, layout, 1.0);
    print_extremes(index, state, layout, -1.0);
    data.finish();
    index.finish();
    write_header(folder + "/Header", state, layout, time, step);  // last: a plotfile with a header is complete
}

}  // namespace flow
