// Rows into their slots, back, and a decode step, on a GPU: the same steps as `codec.rs` and `attention.rs`.
// No header is included, so that NVRTC alone compiles it.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// `memory/device.rs` has the same structs.
struct Span {
    u64 offset, stride;
    u64 order;  // 0 by state, 1 heads outside, 2 states outside
};

struct Piece {
    u64 first, elements;
    Span span;
    u64 encoding;  // 0 float32, 1 bfloat16, 2 e4m3 by K's scale, 3 by V's, 4 by groups
    u64 group_elements;
    Span scales;
    u64 form;   // 0 UE8M0, 1 float32, 2 UE8M0 four times
    u64 floor;  // 0 of the largest, 1 of the scale
    u64 through_bfloat16;
};

struct Layer {
    u64 offset, block_stride, states_per_block;
    u64 heads, row_elements, kernel_states, kernel_block_bytes;
    u64 has_zero;
    Span zero;
    float k_scale, v_scale;
    u64 pieces;
    Piece piece[4];
};

#define LEAST 1e-4f
#define E4M3_MAX 448.0f
#define WARP 32

__device__ u8 e4m3(float value) {
    u32 sign = (__float_as_uint(value) >> 31) << 7;
    float size = fabsf(value);
    u32 code;
    if (size != size) {
        code = 0x7f;
    } else if (size >= E4M3_MAX) {
        code = 0x7e;
    } else if (size < 0.015625f) {
        // in steps of 2^-9; the sum's last bit is worth one, so it rounds
        code = __float_as_uint(__fadd_rn(__fmul_rn(size, 512.0f), 8388608.0f)) - __float_as_uint(8388608.0f);
    } else {
        u32 bits = __float_as_uint(size);
        code = ((bits + 0x7ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3);
        code = code < 0x7e ? code : 0x7e;
    }
    return (u8)(sign | code);
}

__device__ float from_e4m3(u8 code) {
    u32 size = code & 0x7f;
    float value;
    if (size == 0x7f) {
        value = __uint_as_float(0x7fc00000);
    } else if (size < 8) {
        value = __fmul_rn((float)size, 1.0f / 512.0f);
    } else {
        value = __uint_as_float((size << 20) + (120u << 23));
    }
    return __uint_as_float(__float_as_uint(value) | ((u32)(code >> 7) << 31));
}

__device__ u16 bfloat16(float value) {
    u32 bits = __float_as_uint(value);
    if (value != value) return (u16)((bits >> 16) | 0x40);
    return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

__device__ float from_bfloat16(u16 bits) { return __uint_as_float((u32)bits << 16); }

__device__ int ceil_log2(float value) {
    u32 bits = __float_as_uint(value);
    return (int)((bits >> 23) & 0xff) - 127 + ((bits & 0x7fffff) != 0);
}

__device__ float two_to(int exponent) {
    int biased = exponent + 127;
    biased = biased < 0 ? 0 : biased > 254 ? 254 : biased;
    return __uint_as_float((u32)biased << 23);
}

__device__ u8 ue8m0(int exponent) {
    int biased = exponent + 127;
    return (u8)(biased < 0 ? 0 : biased > 255 ? 255 : biased);
}

__device__ u64 at(const Layer &layer, const Span &span, u64 head, u64 state) {
    u64 block = state / layer.kernel_states;
    u64 within = state % layer.kernel_states;
    u64 cell = span.order == 1   ? head * layer.kernel_states + within
               : span.order == 2 ? within * layer.heads + head
                                 : within;
    return block * layer.kernel_block_bytes + span.offset + cell * span.stride;
}

__device__ u64 page_of(const Layer &layer, long long slot) {
    return layer.offset + (u64)slot / layer.states_per_block * layer.block_stride;
}

__device__ float first(const Piece &piece, float value) {
    return piece.through_bfloat16 ? from_bfloat16(bfloat16(value)) : value;
}

// One warp a group.
__device__ void store_groups(const Layer &layer, const Piece &piece, u8 *page, u64 head, u64 state,
                             const float *numbers) {
    u64 groups = piece.elements / piece.group_elements;
    u32 lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    u8 *codes = page + at(layer, piece.span, head, state);
    u8 *scales = page + at(layer, piece.scales, head, state);
    for (u64 group = threadIdx.x / WARP; group < groups; group += warps) {
        const float *values = numbers + group * piece.group_elements;
        float largest = 0.0f;
        for (u64 i = lane; i < piece.group_elements; i += WARP) {
            largest = fmaxf(largest, fabsf(first(piece, values[i])));
        }
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
        }
        float scale = piece.floor == 0 ? __fdiv_rn(fmaxf(largest, LEAST), E4M3_MAX)
                                       : fmaxf(__fdiv_rn(largest, E4M3_MAX), LEAST);
        int exponent = ceil_log2(scale);
        float inverse = two_to(-exponent);
        for (u64 i = lane; i < piece.group_elements; i += WARP) {
            codes[group * piece.group_elements + i] = e4m3(__fmul_rn(first(piece, values[i]), inverse));
        }
        if (lane == 0) {
            if (piece.form == 0) {
                scales[group] = ue8m0(exponent);
            } else if (piece.form == 1) {
                ((float *)scales)[group] = two_to(exponent);
            } else {
                ((u32 *)scales)[group] = ue8m0(exponent) * 0x01010101u;
            }
        }
    }
}

// Quantises a token's rows into its slot: a block a token and head.
extern "C" __global__ void store(u8 *pool, const Layer layer, const long long *slots, const float *rows) {
    u64 token = blockIdx.x, head = blockIdx.y;
    long long slot = slots[token];
    if (slot < 0) return;
    u8 *page = pool + page_of(layer, slot);
    u64 state = (u64)slot % layer.states_per_block;
    const float *row = rows + (token * layer.heads + head) * layer.row_elements;
    for (u64 p = 0; p < layer.pieces; p++) {
        const Piece &piece = layer.piece[p];
        const float *numbers = row + piece.first;
        u8 *to = page + at(layer, piece.span, head, state);
        if (piece.encoding == 4) {
            store_groups(layer, piece, page, head, state, numbers);
            continue;
        }
        float scale = piece.encoding == 2 ? layer.k_scale : layer.v_scale;
        for (u64 i = threadIdx.x; i < piece.elements; i += blockDim.x) {
            if (piece.encoding == 0) {
                ((float *)to)[i] = numbers[i];
            } else if (piece.encoding == 1) {
                ((u16 *)to)[i] = bfloat16(numbers[i]);
            } else {
                to[i] = e4m3(__fdiv_rn(numbers[i], scale));
            }
        }
    }
    if (layer.has_zero && threadIdx.x == 0) page[at(layer, layer.zero, head, state)] = 0;
}

__device__ float value_of(const Layer &layer, const u8 *page, u64 head, u64 state, u64 element) {
    for (u64 p = 0; p < layer.pieces; p++) {
        const Piece &piece = layer.piece[p];
        u64 i = element - piece.first;
        if (element < piece.first || i >= piece.elements) continue;
        const u8 *from = page + at(layer, piece.span, head, state);
        if (piece.encoding == 0) return ((const float *)from)[i];
        if (piece.encoding == 1) return from_bfloat16(((const u16 *)from)[i]);
        if (piece.encoding == 2) return __fmul_rn(from_e4m3(from[i]), layer.k_scale);
        if (piece.encoding == 3) return __fmul_rn(from_e4m3(from[i]), layer.v_scale);
        const u8 *scales = page + at(layer, piece.scales, head, state);
        u64 group = i / piece.group_elements;
        float scale = piece.form == 0   ? two_to((int)scales[group] - 127)
                      : piece.form == 1 ? ((const float *)scales)[group]
                                        : two_to((int)scales[4 * group] - 127);
        return __fmul_rn(from_e4m3(from[i]), scale);
    }
    return 0.0f;
}

// Reads slots and dequantises them: a block a token and head.
extern "C" __global__ void load(const u8 *pool, const Layer layer, const long long *slots, float *rows) {
    u64 token = blockIdx.x, head = blockIdx.y;
    long long slot = slots[token];
    float *row = rows + (token * layer.heads + head) * layer.row_elements;
    const u8 *page = pool + (slot < 0 ? 0 : page_of(layer, slot));
    for (u64 i = threadIdx.x; i < layer.row_elements; i += blockDim.x) {
        row[i] = slot < 0 ? 0.0f : value_of(layer, page, head, (u64)slot % layer.states_per_block, i);
    }
}

// The sum, or the largest, of a value of each thread.
__device__ float over_block(float value, float *shared, bool largest) {
    __syncthreads();
    shared[threadIdx.x] = value;
    for (u32 distance = blockDim.x / 2; distance > 0; distance /= 2) {
        __syncthreads();
        if (threadIdx.x < distance) {
            float other = shared[threadIdx.x + distance];
            shared[threadIdx.x] = largest ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
        }
    }
    __syncthreads();
    return shared[0];
}

#define THREADS 256

// A decode step: a block a token and head. `weights` has room for every block's scores.
extern "C" __global__ void __launch_bounds__(THREADS)
    attend(const u8 *pool, const Layer a, const long long *slots_a, u64 width_a, const Layer b,
           const long long *slots_b, u64 width_b, const float *queries, const float *sinks, float scale,
           u64 value_elements, float *weights, float *outputs) {
    __shared__ float shared[THREADS];
    u64 token = blockIdx.x, head = blockIdx.y, heads = gridDim.y;
    u64 width = width_a + width_b;
    const float *query = queries + (token * heads + head) * a.row_elements;
    float *weight = weights + (token * heads + head) * width;
    float *output = outputs + (token * heads + head) * value_elements;
    u32 lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    const float none = __uint_as_float(0xff800000);

    float highest = sinks ? sinks[head] : none;
    bool any = false;
    for (u64 i = threadIdx.x / WARP; i < width; i += warps) {
        bool is_a = i < width_a;
        const Layer &layer = is_a ? a : b;
        long long slot = is_a ? slots_a[token * width_a + i] : slots_b[token * width_b + i - width_a];
        float score = 0.0f;
        if (slot >= 0) {
            const u8 *page = pool + page_of(layer, slot);
            u64 state = (u64)slot % layer.states_per_block;
            for (u64 e = lane; e < layer.row_elements; e += WARP) {
                score += query[e] * value_of(layer, page, 0, state, e);
            }
        }
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            score += __shfl_xor_sync(0xffffffffu, score, distance);
        }
        score = slot < 0 ? none : score * scale;
        if (lane == 0) weight[i] = score;
        highest = fmaxf(highest, score);
        any = any || slot >= 0;
    }
    highest = over_block(highest, shared, true);
    any = over_block(any ? 1.0f : 0.0f, shared, true) > 0.0f;
    if (!any) {
        for (u64 e = threadIdx.x; e < value_elements; e += blockDim.x) output[e] = 0.0f;
        return;
    }

    float part = 0.0f;
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
        weight[i] = expf(weight[i] - highest);
        part += weight[i];
    }
    float sum = over_block(part, shared, false) + (sinks ? expf(sinks[head] - highest) : 0.0f);

    for (u64 e = threadIdx.x; e < value_elements; e += blockDim.x) {
        float total = 0.0f;
        for (u64 i = 0; i < width; i++) {
            bool is_a = i < width_a;
            const Layer &layer = is_a ? a : b;
            long long slot = is_a ? slots_a[token * width_a + i] : slots_b[token * width_b + i - width_a];
            if (slot < 0) continue;
            const u8 *page = pool + page_of(layer, slot);
            total += weight[i] / sum * value_of(layer, page, 0, (u64)slot % layer.states_per_block, e);
        }
        output[e] = total;
    }
}
