// The kernels' own source by a C++ compiler: what they reckon, where they write, and how threads of a block and lanes
// of a warp wait for each other, without a GPU. `cargo xtask test native` builds it, and runs the whole suite on it
// (tests/emulated.rs).
//
// A thread is a coroutine that runs until it waits: at a shuffle for its warp, at a barrier for its block. Threads are
// taken forwards or backwards, so that what is right in one order alone shows.

#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <vector>

struct Dim {
    unsigned x, y, z;
};
static Dim blockIdx, threadIdx, blockDim, gridDim;

static void wait_for_block();
static float exchange(float value, int distance);

#define __global__
#define __device__ static inline
#define __shared__ static
#define __launch_bounds__(threads)

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
static inline float __shfl_xor_sync(unsigned, float value, int distance) { return exchange(value, distance); }
static inline void __syncthreads() { wait_for_block(); }

#include "cache.cu"

enum class State { Ready, AtBarrier, Done };

struct Thread {
    ucontext_t context;
    State state;
    std::vector<char> stack;
};

static const unsigned MOST_THREADS = 256;
static const unsigned STACK_BYTES = 64 << 10;
static Thread threads[MOST_THREADS];
static ucontext_t scheduler;
static float lanes[MOST_THREADS];
static bool backwards;
static void (*body)(const void *);
static const void *arguments;

static void yield() { swapcontext(&threads[threadIdx.x].context, &scheduler); }

static void wait_for_block() {
    threads[threadIdx.x].state = State::AtBarrier;
    yield();
}

// All lanes of a warp come to each shuffle, so a turn later all have left their values.
static float exchange(float value, int distance) {
    lanes[threadIdx.x] = value;
    yield();
    float other = lanes[threadIdx.x ^ (unsigned)distance];
    yield();
    return other;
}

static void enter() {
    body(arguments);
    threads[threadIdx.x].state = State::Done;
}

// One block, from start to end.
static void run_block() {
    for (unsigned t = 0; t < blockDim.x; t++) {
        Thread &thread = threads[t];
        thread.stack.resize(STACK_BYTES);
        thread.state = State::Ready;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = &scheduler;
        makecontext(&thread.context, enter, 0);
    }
    for (bool any = true; any;) {
        bool ran = false;
        any = false;
        for (unsigned turn = 0; turn < blockDim.x; turn++) {
            unsigned t = backwards ? blockDim.x - 1 - turn : turn;
            if (threads[t].state == State::Ready) {
                threadIdx.x = t;
                swapcontext(&scheduler, &threads[t].context);
                ran = true;
            }
            any = any || threads[t].state != State::Done;
        }
        if (ran) continue;
        // all that are left are at the barrier
        for (unsigned t = 0; t < blockDim.x; t++) {
            if (threads[t].state == State::AtBarrier) threads[t].state = State::Ready;
        }
    }
}

template <typename Kernel>
static void over_grid(u64 rows, u64 heads, unsigned of_threads, const Kernel &kernel) {
    gridDim = {(unsigned)rows, (unsigned)heads, 1};
    blockDim = {of_threads, 1, 1};
    body = [](const void *of) { (*static_cast<const Kernel *>(of))(); };
    arguments = &kernel;
    for (unsigned x = 0; x < gridDim.x; x++) {
        for (unsigned y = 0; y < gridDim.y; y++) {
            blockIdx = {x, y, 0};
            run_block();
        }
    }
    arguments = nullptr;
}

// As many threads as `memory/cuda.rs` launches.
static const unsigned ROW_THREADS = 128;

extern "C" void emulate_order(bool is_backwards) { backwards = is_backwards; }

extern "C" void emulate_store(u8 *pool, const Layer *layer, const long long *slots, const float *rows, u64 count) {
    over_grid(count, layer->heads, ROW_THREADS, [=] { store(pool, *layer, slots, rows); });
}

extern "C" void emulate_load(const u8 *pool, const Layer *layer, const long long *slots, float *rows, u64 count) {
    over_grid(count, layer->heads, ROW_THREADS, [=] { load(pool, *layer, slots, rows); });
}

extern "C" void emulate_attend(const u8 *pool, const Layer *a, const long long *slots_a, u64 width_a, const Layer *b,
                               const long long *slots_b, u64 width_b, const float *queries, const float *sinks,
                               float scale, u64 value_elements, float *weights, float *outputs, u64 tokens, u64 heads) {
    over_grid(tokens, heads, THREADS, [=] {
        attend(pool, *a, slots_a, width_a, *b, slots_b, width_b, queries, sinks, scale, value_elements, weights,
               outputs);
    });
}
