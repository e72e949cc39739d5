// Replays recorded calls of the compiled library on another machine: replay LIBRARY CALLS (tests/portable.py).
//
// A call is a function's name (and, after a space, what else to call it), memory, where in memory there are pointers to other
// memory, and its arguments by the C ABI of native.cpp: numbers or pointers. Memory is recorded before and after the call; what
// the library here leaves in it must equal what it left there, to a bound. Integers are passed as int64 whatever the function
// declares, which these ABIs allow.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#ifdef _WIN32
#include <windows.h>
static void *open_library(const char *path) { return reinterpret_cast<void *>(LoadLibraryA(path)); }
static void *find(void *library, const char *name) {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}
#else
#include <dlfcn.h>
static void *open_library(const char *path) { return dlopen(path, RTLD_NOW); }
static void *find(void *library, const char *name) { return dlsym(library, name); }
#endif

constexpr int MOST_ARGUMENTS = 40;

enum Kind : int64_t { OTHER_T = 0, EXACT_T = 1, SINGLE_T = 4, DOUBLE_T = 8 };  // OTHER_T is not compared; wtypes.h has DOUBLE

struct Memory {
    int64_t kind;
    double bound;  // of the largest value
    std::vector<double> storage;  // aligned for every type
    std::vector<char> after;
    char *at(int64_t offset) { return reinterpret_cast<char *>(storage.data()) + offset; }
};

template <class T> static double difference(const Memory &memory) {
    const size_t n = memory.after.size() / sizeof(T);
    const T *here = reinterpret_cast<const T *>(memory.storage.data());
    const T *there = reinterpret_cast<const T *>(memory.after.data());
    double largest = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        if (!std::isfinite(double(there[i]))) continue;  // memory that the library leaves as it was
        largest = std::fmax(largest, std::fabs(double(there[i])));
        if (!std::isfinite(double(here[i]))) return INFINITY;
        worst = std::fmax(worst, std::fabs(double(here[i]) - double(there[i])));
    }
    return largest > 0 ? worst / largest : worst;
}

int main(int count, char **arguments) {
    if (count != 3) return std::fprintf(stderr, "usage: replay LIBRARY CALLS\n"), 2;
    void *library = open_library(arguments[1]);
    if (!library) return std::fprintf(stderr, "%s does not load\n", arguments[1]), 1;
    std::ifstream file(arguments[2], std::ios::binary);
    const auto number = [&] {
        int64_t value = 0;
        file.read(reinterpret_cast<char *>(&value), sizeof value);
        return value;
    };
    std::map<std::string, std::pair<int, double>> found;  // function -> calls and worst difference over its bound
    const int64_t calls = number();
    for (int64_t call = 0; call < calls; call++) {
        std::string name(size_t(number()), ' ');
        file.read(&name[0], std::streamsize(name.size()));
        const int64_t regions = number();
        std::vector<Memory> memories(static_cast<size_t>(regions));
        for (Memory &memory : memories) {
            memory.kind = number();
            const size_t bytes = size_t(number());
            file.read(reinterpret_cast<char *>(&memory.bound), sizeof memory.bound);
            memory.storage.resize(bytes / sizeof(double) + 1);
            memory.after.resize(bytes);
            file.read(memory.at(0), std::streamsize(bytes));
            file.read(memory.after.data(), std::streamsize(bytes));
        }
        for (int64_t left = number(); left > 0; left--) {  // memory, place in it, the memory and the place it points to
            const int64_t where = number(), place = number(), target = number(), offset = number();
            char *const pointer = memories[size_t(target)].at(offset);
            std::memcpy(memories[size_t(where)].at(place), &pointer, sizeof pointer);
        }
        int64_t passed[MOST_ARGUMENTS] = {};
        const int64_t length = number();
        if (length > MOST_ARGUMENTS) return std::fprintf(stderr, "%s has too many arguments\n", name.c_str()), 1;
        for (int64_t i = 0; i < length; i++) {
            const int64_t target = number(), value = number();
            passed[i] = target < 0 ? value : int64_t(memories[size_t(target)].at(value));
        }
        if (!file) return std::fprintf(stderr, "%s is cut short\n", arguments[2]), 1;
        void *address = find(library, ("longwave_" + name.substr(0, name.find(' '))).c_str());
        if (!address) return std::fprintf(stderr, "there is no longwave_%s\n", name.c_str()), 1;
        using I = int64_t;
        const auto function = reinterpret_cast<int (*)(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I,
                                                       I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I)>(address);
        const I *p = passed;
        if (function(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15],
                     p[16], p[17], p[18], p[19], p[20], p[21], p[22], p[23], p[24], p[25], p[26], p[27], p[28], p[29],
                     p[30], p[31], p[32], p[33], p[34], p[35], p[36], p[37], p[38], p[39]))
            return std::fprintf(stderr, "longwave_%s failed\n", name.c_str()), 1;
        auto &[times, worst] = found[name];
        times++;
        for (const Memory &memory : memories) {
            double off = 0;
            if (memory.kind == SINGLE_T) off = difference<float>(memory) / memory.bound;
            else if (memory.kind == DOUBLE_T) off = difference<double>(memory) / memory.bound;
            else if (memory.kind == EXACT_T && std::memcmp(memory.storage.data(), memory.after.data(), memory.after.size()))
                off = INFINITY;
            worst = std::fmax(worst, off);
        }
    }
    bool good = !found.empty();
    for (const auto &[name, result] : found) {
        std::printf("%-28s %3d calls, largest difference %.1e of the bound\n", name.c_str(), result.first, result.second);
        good = good && result.second <= 1;
    }
    std::printf(good ? "all agree\n" : "DIFFERENT\n");
    return good ? 0 : 1;
}
