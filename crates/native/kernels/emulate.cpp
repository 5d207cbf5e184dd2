// The kernels' own source by a C++ compiler, a thread a block: what they reckon and where they write, without a GPU.
// `cargo xtask test native` builds it, and runs the whole suite on it (tests/emulated.rs).

#include <cmath>
#include <cstring>

struct Dim {
    unsigned x, y, z;
};
static thread_local Dim blockIdx, gridDim;
static const Dim threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};

#define __global__
#define __device__ static inline
#define __shared__ static thread_local
#define __launch_bounds__(threads)
#define WARP 1
#define THREADS 1

static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __shfl_xor_sync(unsigned, float value, int) { return value; }
static inline void __syncthreads() {}

#include "cache.cu"

template <typename Kernel>
static void over_grid(u64 rows, u64 heads, Kernel kernel) {
    gridDim = {(unsigned)rows, (unsigned)heads, 1};
    for (unsigned x = 0; x < gridDim.x; x++) {
        for (unsigned y = 0; y < gridDim.y; y++) {
            blockIdx = {x, y, 0};
            kernel();
        }
    }
}

extern "C" void emulate_store(u8 *pool, const Layer *layer, const long long *slots, const float *rows, u64 count) {
    over_grid(count, layer->heads, [=] { store(pool, *layer, slots, rows); });
}

extern "C" void emulate_load(const u8 *pool, const Layer *layer, const long long *slots, float *rows, u64 count) {
    over_grid(count, layer->heads, [=] { load(pool, *layer, slots, rows); });
}

extern "C" void emulate_attend(const u8 *pool, const Layer *a, const long long *slots_a, u64 width_a, const Layer *b,
                               const long long *slots_b, u64 width_b, const float *queries, const float *sinks,
                               float scale, u64 value_elements, float *weights, float *outputs, u64 tokens, u64 heads) {
    over_grid(tokens, heads, [=] {
        attend(pool, *a, slots_a, width_a, *b, slots_b, width_b, queries, sinks, scale, value_elements, weights,
               outputs);
    });
}
