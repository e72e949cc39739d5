// The compiled kernels behind a C ABI: loaded with ctypes, no Python or torch headers.
//
//   longwave_spectrum, longwave_spectrum_backward    the kernel's spectrum by Algorithm 1, real and pole-free
//   longwave_truncate, longwave_truncate_backward    C~ = C (I - A_bar^L) by repeated squaring
//   longwave_power_sum, longwave_power_sum_backward  the kernel of a diagonal system, a sum of powers
//   longwave_convolve, longwave_convolve_backward    long convolution by FFT
//   longwave_krylov, _power, _collect, _spread, _scan, and each with _backward: states of whole sequences
//   longwave_step, longwave_model_step               one step of the recurrence: of a layer, of a stack of blocks
//   longwave_unet_step                               the same of a U-Net
//   longwave_linear                                  a linear layer, with weights in 32, 16 or 8 bits
//   longwave_activate, longwave_gate, _backward      what follows a convolution in a residual block, in float
//   longwave_gated_mix, longwave_gated_mix_backward  all of it in one pass, for narrow models
//   longwave_pathfinder                              images of Pathfinder
//   longwave_differ                                  whether parameters changed
//   longwave_abi                                     which signatures these are
//   longwave_vector_width, longwave_limit_vectors    what the dispatcher chose, for `longwave doctor`; its upper bound
//   longwave_allow_vnni                              whether products of bytes may use VNNI, for tests
//
// The loops stand in the native_*.inc files. They are compiled once for each vector width and each
// of float and double; the widest one that this CPU can run is chosen when the library is first called, so that a wheel
// built on one machine runs on another. docs/kernel.md derives every formula.

#define _USE_MATH_DEFINES  // M_PI on Windows
#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define LONGWAVE_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif
// Sums of products of bytes by one instruction: compilers older than these do not know it.
#if defined(LONGWAVE_X86) && (defined(__clang__) || __GNUC__ >= 8)
#define LONGWAVE_HAS_VNNI 1
#endif

#if defined(_WIN32)
#define LONGWAVE_API extern "C" __declspec(dllexport)
#else
#define LONGWAVE_API extern "C" __attribute__((visibility("default")))
#endif

// Keeps a large function from being copied into each of its callers, which costs the compiler more than the call costs.
#define LONGWAVE_NOINLINE __attribute__((noinline))

namespace {

using complex = std::complex<double>;

// Sizes of one call and its parameters, always in double; complex numbers are (re, im) pairs, as torch stores them.
struct System {
    int64_t H, M, L;         // features, stored pairs, length
    int64_t D, r;            // output maps (1, or 2 for a two-sided layer), rank of the correction
    const complex *Lambda;   // (H, M)
    const complex *P;        // (r, H, M)
    const complex *B;        // (H, M)
    const complex *C;        // (D, H, M)
    const double *dt;        // (H,)
    const uint8_t *wide;     // (H,) evaluate this feature in double
    int threads;
};

// Sizes of one convolution. Work is shared out as blocks of `together` vectors of features times `parts` of the batch.
struct Convolution {
    int64_t batch, L, H, sides, together, parts;
    int threads;
};

// A_bar x = x + change x - sum_i left_i Re(right_i . x), one of them a feature, in double.
struct Discrete {
    int64_t H, M, r;
    const complex *change;       // (H, M)
    const complex *left, *right; // (r, H, M)
    int threads;
};

// Signals (batch, L, H) in blocks of `size` steps; see native_states.inc.
struct Blocks {
    int64_t batch, L, H, N, size, count;
    const int64_t *lengths;      // (batch,)
    bool diagonal, started, whole;  // whole: what remains of a row after its last whole block is none of them
    int threads;
    int64_t steps(int64_t row, int64_t block) const {
        const int64_t left = lengths[row] - block * size;
        return left >= size ? size : whole || left < 0 ? 0 : left;
    }
    int64_t power_size() const { return diagonal ? N : N * N; }
};

struct Scan {
    int64_t batch, L, every;
    const int64_t *lengths;      // (batch,)
};

// What a step reads of a residual block; step_weights.py has the same fields in the same order. Weights come in panels of two
// vectors of columns, (in, 2, width): in float; in float16; in bfloat16, lane by lane both columns as the halves of 32 bits; or in
// int8, (in / 4, 2, width, 4).
enum Kind : int64_t { kFloat32, kBFloat16, kFloat16, kInt8 };
struct Norm {
    int64_t by_row;               // layer norm, or else the fixed scale and shift of a batch norm
    double eps, offset;           // of a layer norm: added to the variance, and to a row before its division
    const float *scale, *shift;   // (H,)
};
struct Linear {
    int64_t in, panels, kind;
    const void *weight;           // (panels, ...)
    const float *bias;            // (panels, 2, width), or none
    const float *scale;           // of int8, (panels, 2, width): what 1 stands for in a column
    const int32_t *totals;        // of int8, (panels, 2, width): the sum of a column's weights
};
struct Block {
    int64_t N, r;                 // states of a feature (0: no mixer), rank of the correction
    const float *constants, *D;   // see native_step.inc
    int64_t prenorm, glu, hidden; // hidden: width of the feed-forward sublayer, 0 without one
    Norm norm, wide_norm;
    Linear linear, widen, narrow;
};

// A level of a U-Net; the last one is the centre, which has no pools.
constexpr int kMostLevels = 64;
struct Level {
    int64_t H, size;              // features; steps that are pooled into one
    int64_t down, up, around;     // blocks on each way; a skip around all of them, or around each
    const Block *blocks;          // (down + up,)
    float *const *states;         // of the blocks: (batch, H, N)
    float *begun, *waiting;       // (batch, size - 1, H), (batch, size, H)
    Linear pool, unpool;          // (size, H) to the next level's H; from there to (size, H)
    int64_t room() const { return H * (1 + std::max(down, around)); }  // of a row: features, and what skips remember
};

// The gradient of Re(a conj(b)) flows this way: real inner product of two complex numbers seen as pairs.
inline double inner(complex a, complex b) { return a.real() * b.real() + a.imag() * b.imag(); }

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The items of a loop that threads share, each for the one that takes it: for loops that may run out of memory. An exception must
// not leave a parallel region, and a thread that has caught one could not leave a loop of OpenMP's own.
struct Items {
    const int64_t count;
    std::atomic<int64_t> next{0};
    int64_t take() { return next.fetch_add(1, std::memory_order_relaxed); }
};

bool may_vnni = true;  // false in tests of what CPUs without it run

bool can_vnni() {
#ifdef LONGWAVE_HAS_VNNI
    return may_vnni && __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

}  // namespace

// One copy of the loops for each vector width. GCC and clang spell "from here on, this target" differently.
#if defined(__clang__)
#define LONGWAVE_TARGET_BEGIN(clang_spec, gcc_spec) _Pragma(clang_spec)
#define LONGWAVE_TARGET_END _Pragma("clang attribute pop")
#else
#define LONGWAVE_TARGET_BEGIN(clang_spec, gcc_spec) _Pragma("GCC push_options") _Pragma(gcc_spec)
#define LONGWAVE_TARGET_END _Pragma("GCC pop_options")
#endif

namespace plain {
#define LONGWAVE_VECTOR_BYTES 16
#include "native_spectrum.inc"
#include "native_nodes.inc"
#include "native_truncate.inc"
#include "native_states.inc"
#include "native_powers.inc"
#include "native_conv.inc"
#include "native_block.inc"
#include "native_mix.inc"
#include "native_step.inc"
#include "native_int8.inc"
#include "native_linear.inc"
#include "native_model.inc"
#include "native_unet.inc"
#undef LONGWAVE_VECTOR_BYTES
}  // namespace plain

#ifdef LONGWAVE_X86
LONGWAVE_TARGET_BEGIN("clang attribute push(__attribute__((target(\"avx2,fma,f16c\"))), apply_to = function)",
                      "GCC target(\"avx2,fma,f16c\")")
namespace avx2 {
#define LONGWAVE_VECTOR_BYTES 32
#include "native_spectrum.inc"
#include "native_nodes.inc"
#include "native_truncate.inc"
#include "native_states.inc"
#include "native_powers.inc"
#include "native_conv.inc"
#include "native_block.inc"
#include "native_mix.inc"
#include "native_step.inc"
#include "native_int8.inc"
#include "native_linear.inc"
#include "native_model.inc"
#include "native_unet.inc"
#undef LONGWAVE_VECTOR_BYTES
}  // namespace avx2
LONGWAVE_TARGET_END

#ifdef LONGWAVE_HAS_VNNI
LONGWAVE_TARGET_BEGIN("clang attribute push(__attribute__((target(\"avx512f,avx512bw,avx512vnni\"))), apply_to = function)",
                      "GCC target(\"avx512f,avx512bw,avx512vnni\")")
namespace vnni {
#define LONGWAVE_VECTOR_BYTES 64
#define LONGWAVE_VNNI
#include "native_int8.inc"
#undef LONGWAVE_VNNI
#undef LONGWAVE_VECTOR_BYTES
}  // namespace vnni
LONGWAVE_TARGET_END
#endif

LONGWAVE_TARGET_BEGIN(
    "clang attribute push(__attribute__((target(\"avx512f,avx512dq,avx512vl,avx512bw,fma\"))), apply_to = function)",
    "GCC target(\"avx512f,avx512dq,avx512vl,avx512bw,fma,prefer-vector-width=512\")")
namespace avx512 {
#define LONGWAVE_VECTOR_BYTES 64
#include "native_spectrum.inc"
#include "native_nodes.inc"
#include "native_truncate.inc"
#include "native_states.inc"
#include "native_powers.inc"
#include "native_conv.inc"
#include "native_block.inc"
#include "native_mix.inc"
#include "native_step.inc"
#include "native_int8.inc"
#include "native_linear.inc"
#include "native_model.inc"
#include "native_unet.inc"
#undef LONGWAVE_VECTOR_BYTES
}  // namespace avx512
LONGWAVE_TARGET_END
#endif

namespace pathfinder {
#include "native_pathfinder.inc"
}  // namespace pathfinder

namespace {

int detect_vector_bytes() {
#ifdef LONGWAVE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return 64;
    // __builtin_cpu_supports does not know f16c in older compilers.
    unsigned a, b, c = 0, d;
    const bool halves = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (halves && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 32;
#endif
    return 16;
}

int most_vector_bytes = 64;  // set once, when the library is loaded

// `requested` is 0 for the widest that the CPU has and the limit allows; tests ask for the narrower ones.
int choose_vector_bytes(int requested) {
    static const int detected = detect_vector_bytes();
    const int widest = std::min(detected, most_vector_bytes);
    return (requested > 0 && requested < widest) ? requested : widest;
}

#ifdef LONGWAVE_X86
#define LONGWAVE_DISPATCH(requested, call)         \
    switch (choose_vector_bytes(requested)) {      \
        case 64: return avx512::call;              \
        case 32: return avx2::call;                \
        default: return plain::call;               \
    }
#else
#define LONGWAVE_DISPATCH(requested, call) return plain::call;
#endif

}  // namespace

// Counted up whenever a signature below changes: a library left over from an older build is then refused, not called.
LONGWAVE_API int longwave_abi() { return 11; }

LONGWAVE_API int longwave_vector_width() { return 8 * choose_vector_bytes(0); }

LONGWAVE_API void longwave_limit_vectors(int bits) { most_vector_bytes = bits / 8; }

// Whether products of bytes may use VNNI where there is one: for tests of what CPUs without it run.
LONGWAVE_API void longwave_allow_vnni(int yes) { may_vnni = yes; }

// Whether `count` blocks of memory are the same, byte by byte: 0 if they are.
LONGWAVE_API int longwave_differ(int64_t count, const void *const *a, const void *const *b, const int64_t *bytes) {
    for (int64_t i = 0; i < count; ++i)
        if (std::memcmp(a[i], b[i], bytes[i])) return 1;
    return 0;
}

// The images of `count` keys and what is on them; threads = 0: as many as OpenMP takes. 1 when memory ran out.
LONGWAVE_API int longwave_pathfinder(int64_t margins, int64_t count, int64_t record_size, const pathfinder::Tables *tables,
                                     const uint64_t *keys, int threads, uint8_t *pixels, int32_t *records) {
#ifdef _OPENMP
    if (threads < 1) threads = omp_get_max_threads();
#endif
    return pathfinder::draw_all(margins, count, record_size, tables, keys, threads, pixels, records);
}

// Every function below returns 0, or 1 when memory ran out (an exception must not cross the C ABI). Parameters and their
// gradients are double; f32 and f64 name the type of the long arrays.
LONGWAVE_API int longwave_truncate(int64_t H, int64_t M, int64_t L, int64_t D, int64_t r, const complex *Lambda,
                                   const complex *P, const complex *C, const double *dt, int threads, int vector_bytes,
                                   complex *C_tilde) {
    const System s{H, M, L, D, r, Lambda, P, nullptr, C, dt, nullptr, threads};
    LONGWAVE_DISPATCH(vector_bytes, truncate(s, C_tilde))
}

LONGWAVE_API int longwave_truncate_backward(int64_t H, int64_t M, int64_t L, int64_t D, int64_t r, const complex *Lambda,
                                            const complex *P, const complex *C, const double *dt, int threads,
                                            int vector_bytes, const complex *grad, complex *dLambda, complex *dP,
                                            complex *dC, double *ddt) {
    const System s{H, M, L, D, r, Lambda, P, nullptr, C, dt, nullptr, threads};
    LONGWAVE_DISPATCH(vector_bytes, truncate_backward(s, grad, dLambda, dP, dC, ddt))
}

LONGWAVE_API int longwave_krylov(int64_t H, int64_t M, int64_t r, int64_t count, const complex *change, const complex *left,
                                 const complex *right, const double *start, int transposed, int threads, int vector_bytes,
                                 double *out) {
    const Discrete s{H, M, r, change, left, right, threads};
    LONGWAVE_DISPATCH(vector_bytes, krylov(s, transposed != 0, count, start, out))
}

LONGWAVE_API int longwave_krylov_backward(int64_t H, int64_t M, int64_t r, int64_t count, const complex *change,
                                          const complex *left, const complex *right, const double *start, const double *grad,
                                          int transposed, int threads, int vector_bytes, complex *dchange, complex *dleft,
                                          complex *dright, double *dstart) {
    const Discrete s{H, M, r, change, left, right, threads};
    LONGWAVE_DISPATCH(vector_bytes, krylov_backward(s, transposed != 0, count, start, grad, dchange, dleft, dright, dstart))
}

LONGWAVE_API int longwave_power(int64_t H, int64_t M, int64_t r, int64_t count, const complex *change, const complex *left,
                                const complex *right, int threads, int vector_bytes, double *out) {
    const Discrete s{H, M, r, change, left, right, threads};
    LONGWAVE_DISPATCH(vector_bytes, power(s, count, out))
}

LONGWAVE_API int longwave_power_backward(int64_t H, int64_t M, int64_t r, int64_t count, const complex *change,
                                         const complex *left, const complex *right, const double *grad, int threads,
                                         int vector_bytes, complex *dchange, complex *dleft, complex *dright) {
    const Discrete s{H, M, r, change, left, right, threads};
    LONGWAVE_DISPATCH(vector_bytes, power_backward(s, count, grad, dchange, dleft, dright))
}

LONGWAVE_API int longwave_activate(int64_t batch, int64_t L, int64_t H, const float *z, const float *keep, int threads,
                                   int vector_bytes, float *y) {
    LONGWAVE_DISPATCH(vector_bytes, activate(batch, L, H, z, keep, threads, y))
}

LONGWAVE_API int longwave_activate_backward(int64_t batch, int64_t L, int64_t H, const float *dy, const float *z,
                                            const float *keep, int threads, int vector_bytes, float *dz, float *y) {
    LONGWAVE_DISPATCH(vector_bytes, activate_backward(batch, L, H, dy, z, keep, threads, dz, y))
}

LONGWAVE_API int longwave_model_step(int64_t batch, int64_t H, int64_t count, int64_t wide, const Block *blocks,
                                     float *const *states, int threads, int vector_bytes, float *x, float *scratch) {
    LONGWAVE_DISPATCH(vector_bytes, model_step(batch, H, count, wide, blocks, states, threads, x, scratch))
}

LONGWAVE_API int longwave_unet_step(int64_t batch, int64_t count, int64_t widest, int64_t wide, int64_t group,
                                    const Level *levels, int threads, int vector_bytes, int64_t *position, float *x,
                                    float *scratch) {
    LONGWAVE_DISPATCH(vector_bytes, unet_step(batch, count, widest, wide, group, levels, threads, position, x, scratch))
}

LONGWAVE_API int longwave_linear(int64_t batch, int64_t out, const Linear *linear, int threads, int vector_bytes, const float *x,
                                 float *y, float *scratch) {
    LONGWAVE_DISPATCH(vector_bytes, linear_rows(batch, out, *linear, threads, x, y, scratch))
}

LONGWAVE_API int longwave_gated_mix(int64_t batch, int64_t L, int64_t H, const float *x, const float *z, const float *keep,
                                    const float *weight, const float *bias, int threads, int vector_bytes, float *y) {
    LONGWAVE_DISPATCH(vector_bytes, gated_mix({batch, L, H, z, keep, weight, bias, threads}, x, y))
}

LONGWAVE_API int longwave_gated_mix_backward(int64_t batch, int64_t L, int64_t H, int64_t parts, const float *dy, const float *z,
                                             const float *keep, const float *weight, const float *bias, int threads,
                                             int vector_bytes, float *dz, float *dweight, float *dbias) {
    LONGWAVE_DISPATCH(vector_bytes,
                      gated_mix_backward({batch, L, H, z, keep, weight, bias, threads}, parts, dy, dz, dweight, dbias))
}

LONGWAVE_API int longwave_gate(int64_t rows, int64_t H, const float *x, const float *z, const float *bias, int threads,
                               int vector_bytes, float *y) {
    LONGWAVE_DISPATCH(vector_bytes, gate(rows, H, x, z, bias, threads, y))
}

LONGWAVE_API int longwave_gate_backward(int64_t rows, int64_t H, int64_t parts, const float *dy, const float *z,
                                        const float *bias, int threads, int vector_bytes, float *dz, float *dbias) {
    LONGWAVE_DISPATCH(vector_bytes, gate_backward(rows, H, parts, dy, z, bias, threads, dz, dbias))
}

#define LONGWAVE_INSTANCE(T, suffix)                                                                               \
    LONGWAVE_API int longwave_spectrum_##suffix(int64_t H, int64_t M, int64_t L, int64_t D, int64_t r,             \
                                                const complex *Lambda, const complex *P, const complex *B,         \
                                                const complex *C, const double *dt, const uint8_t *wide, int few,  \
                                                int threads, int vector_bytes, T *K_hat) {                         \
        const System s{H, M, L, D, r, Lambda, P, B, C, dt, wide, threads};                                         \
        LONGWAVE_DISPATCH(vector_bytes, spectrum<T>(s, few != 0, K_hat))                                           \
    }                                                                                                              \
    LONGWAVE_API int longwave_spectrum_backward_##suffix(                                                          \
        int64_t H, int64_t M, int64_t L, int64_t D, int64_t r, const complex *Lambda, const complex *P,            \
        const complex *B, const complex *C, const double *dt, const uint8_t *wide, int few, int threads,           \
        int vector_bytes, const T *grad, complex *dLambda, complex *dP, complex *dB, complex *dC, double *ddt) {   \
        const System s{H, M, L, D, r, Lambda, P, B, C, dt, wide, threads};                                         \
        LONGWAVE_DISPATCH(vector_bytes, spectrum_backward<T>(s, few != 0, grad, dLambda, dP, dB, dC, ddt))         \
    }                                                                                                              \
    LONGWAVE_API int longwave_power_sum_##suffix(int64_t H, int64_t M, int64_t L, int64_t D, const complex *Lambda, \
                                                 const complex *B, const complex *C, const double *dt, int hold,   \
                                                 int threads, int vector_bytes, T *K) {                            \
        const System s{H, M, L, D, 0, Lambda, nullptr, B, C, dt, nullptr, threads};                                \
        LONGWAVE_DISPATCH(vector_bytes, power_sum<T>(s, hold != 0, K))                                             \
    }                                                                                                              \
    LONGWAVE_API int longwave_power_sum_backward_##suffix(                                                         \
        int64_t H, int64_t M, int64_t L, int64_t D, const complex *Lambda, const complex *B, const complex *C,     \
        const double *dt, int hold, int threads, int vector_bytes, const T *grad, complex *dLambda, complex *dB,   \
        complex *dC, double *ddt) {                                                                                \
        const System s{H, M, L, D, 0, Lambda, nullptr, B, C, dt, nullptr, threads};                                \
        LONGWAVE_DISPATCH(vector_bytes, power_sum_backward<T>(s, hold != 0, grad, dLambda, dB, dC, ddt))           \
    }                                                                                                              \
    LONGWAVE_API int longwave_step_##suffix(int64_t batch, int64_t H, int64_t N, int64_t r, const T *constants,    \
                                            const T *D, const T *u, const T *state, int threads, int vector_bytes, \
                                            T *y, T *next) {                                                       \
        LONGWAVE_DISPATCH(vector_bytes, step<T>(batch, H, N, r, constants, D, u, state, threads, y, next))         \
    }                                                                                                              \
    LONGWAVE_API int longwave_collect_##suffix(                                                                    \
        int64_t batch, int64_t L, int64_t H, int64_t N, int64_t size, const int64_t *lengths, const double *columns, \
        const double *E, const T *u, const T *start, int diagonal, int threads, int vector_bytes, T *last, T *kept) { \
        const Blocks s{batch, L, H, N, size, L / size, lengths, diagonal != 0, start != nullptr, true, threads};   \
        LONGWAVE_DISPATCH(vector_bytes, collect<T>(s, columns, E, u, start, last, kept))                           \
    }                                                                                                              \
    LONGWAVE_API int longwave_collect_backward_##suffix(                                                           \
        int64_t batch, int64_t L, int64_t H, int64_t N, int64_t size, const int64_t *lengths, const double *columns, \
        const double *E, const T *u, const T *kept, const T *grad, int diagonal, int threads, int vector_bytes,    \
        double *dcolumns, double *dE, T *du, T *dstart) {                                                          \
        const Blocks s{batch, L, H, N, size, L / size, lengths, diagonal != 0, dstart != nullptr, true, threads};  \
        LONGWAVE_DISPATCH(vector_bytes, collect_backward<T>(s, columns, E, u, kept, grad, dcolumns, dE, du, dstart)) \
    }                                                                                                              \
    LONGWAVE_API int longwave_spread_##suffix(                                                                     \
        int64_t batch, int64_t L, int64_t H, int64_t N, int64_t size, const int64_t *lengths, const double *rows,  \
        const double *E, const T *start, int diagonal, int threads, int vector_bytes, T *y, T *kept) {             \
        const Blocks s{batch, L, H, N, size, ceil_div(L, size), lengths, diagonal != 0, true, false, threads};     \
        LONGWAVE_DISPATCH(vector_bytes, spread<T>(s, rows, E, start, y, kept))                                     \
    }                                                                                                              \
    LONGWAVE_API int longwave_spread_backward_##suffix(                                                            \
        int64_t batch, int64_t L, int64_t H, int64_t N, int64_t size, const int64_t *lengths, const double *rows,  \
        const double *E, const T *kept, const T *dy, int diagonal, int threads, int vector_bytes, double *drows,   \
        double *dE, T *dstart) {                                                                                   \
        const Blocks s{batch, L, H, N, size, ceil_div(L, size), lengths, diagonal != 0, true, false, threads};     \
        LONGWAVE_DISPATCH(vector_bytes, spread_backward<T>(s, rows, E, kept, dy, drows, dE, dstart))               \
    }                                                                                                              \
    LONGWAVE_API int longwave_scan_##suffix(                                                                       \
        int64_t batch, int64_t L, int64_t every, int64_t H, int64_t M, int64_t r, const int64_t *lengths,          \
        const complex *change, const complex *left, const complex *right, const double *B_bar, const T *u,         \
        const T *start, int threads, int vector_bytes, T *out) {                                                   \
        const Discrete d{H, M, r, change, left, right, threads};                                                   \
        LONGWAVE_DISPATCH(vector_bytes, scan<T>(d, {batch, L, every, lengths}, B_bar, u, start, out))              \
    }                                                                                                              \
    LONGWAVE_API int longwave_scan_backward_##suffix(                                                              \
        int64_t batch, int64_t L, int64_t every, int64_t H, int64_t M, int64_t r, const int64_t *lengths,          \
        const complex *change, const complex *left, const complex *right, const double *B_bar, const T *u,         \
        const T *start, const T *out, const T *grad, int threads, int vector_bytes, complex *dchange,              \
        complex *dleft, complex *dright, double *dB_bar, T *du, T *dstart) {                                       \
        const Discrete d{H, M, r, change, left, right, threads};                                                   \
        LONGWAVE_DISPATCH(vector_bytes, scan_backward<T>(d, {batch, L, every, lengths}, B_bar, u, start, out, grad, \
                                                         dchange, dleft, dright, dB_bar, du, dstart))              \
    }                                                                                                              \
    LONGWAVE_API int longwave_convolve_##suffix(int64_t batch, int64_t L, int64_t H, int64_t sides,                \
                                                int64_t together, int64_t parts, int64_t n, int64_t levels, const int64_t *radices, const T *roots, \
                                                const T *twist, const T *u, const T *K, const T *D, int threads,   \
                                                int vector_bytes, T *y) {                                          \
        const Convolution c{batch, L, H, sides, together, parts, threads};                                                   \
        LONGWAVE_DISPATCH(vector_bytes, convolve<T>(c, {n, levels, radices, roots, twist}, u, K, D, y))            \
    }                                                                                                              \
    LONGWAVE_API int longwave_convolve_backward_##suffix(                                                          \
        int64_t batch, int64_t L, int64_t H, int64_t sides, int64_t together, int64_t parts, int64_t n, int64_t levels, \
        const int64_t *radices, const T *roots, const T *twist, const T *dy, const T *u, const T *K, const T *D,   \
        int threads, int vector_bytes, T *du, T *dK) {                                                             \
        const Convolution c{batch, L, H, sides, together, parts, threads};                                                   \
        LONGWAVE_DISPATCH(vector_bytes,                                                                            \
                          convolve_backward<T>(c, {n, levels, radices, roots, twist}, dy, u, K, D, du, dK))        \
    }

LONGWAVE_INSTANCE(float, f32)
LONGWAVE_INSTANCE(double, f64)
