"""Pages written by vLLM's own kernels, on a CPU: crates/native/tests/golden/.

    LD_LIBRARY_PATH=$V/stub $V/venv/bin/python tests/oracle/golden_pages.py [--check] [--csrc DIR]

Triton's interpreter runs vLLM's insert kernels. Its conversions of floats cut off or round half up, where a GPU rounds
half to even and saturates (PTX `cvt.rn.satfinite`), so torch's take their place here; everything else is as it is.
`--csrc DIR`, the folder `csrc` of vLLM's source distribution, adds the pages of its C++ kernels for CPUs (they want
AVX-512; a minute to compile). `--check` compares with what is checked in and writes nothing.

Kernels that normalise and rotate before they store are given numbers with which that is exact in any order of
summation: equal scores, whole numbers whose mean square is a power of four. So the row that reaches the cache is known
without any kernel, and is kept as the input. Pages begin as 0xA5, so that bytes which are not written show.
"""

import argparse
import json
import pathlib
import sys
import tempfile

# first: it sets up Triton's interpreter
from golden_rows import GOLDEN, UNTOUCHED, Pages, angles, plain_rows, rotate, untouched, weights, whole_numbers

import torch
import vllm.models.deepseek_v32.common.kernels as v32
from vllm.triton_utils import tl, triton

V4_OPS = "vllm/models/deepseek_v4/common/ops"
V32_KERNELS = "vllm/models/deepseek_v32/common/kernels.py"


def insert_rows(rows, slots, cache):
    """Given as float32, since the interpreter keeps bfloat16 as bits and cannot reckon with them."""
    from vllm.models.deepseek_v4.common.ops.cache_utils import quantize_and_insert_k_kernel

    quantize_and_insert_k_kernel[(len(slots),)](
        rows,
        slots,
        cache,
        len(slots),
        input_dim=512,
        fp8_dim=448,
        bf16_dim=64,
        scale_dim=8,
        quant_block=64,
        cache_block_size=64,
        token_data_size=576,
        block_stride=cache.stride(0),
        fp8_max=448.0,
        n_quant_blocks=8,
    )


def v4_window(pages, generator):
    slots = [0, 1, 63, 64 + 17, 64 + 40]
    rows = plain_rows(generator, len(slots), 512, 64)
    cache = untouched(2, 37_440)
    insert_rows(rows, torch.tensor(slots), cache)
    pages.add(
        "v4_window",
        f"{V4_OPS}/cache_utils.py quantize_and_insert_k_kernel",
        rows,
        slots,
        cache,
    )
    read_back(pages, "v4_window", cache, 64, slots)


def read_back(pages, name, cache, block_states, slots):
    """What vLLM's own gather makes of pages, in bfloat16."""
    from vllm.models.deepseek_v4.common.ops.cache_utils import DequantizeAndGatherKCacheKernel

    states = cache.shape[0] * block_states
    out = torch.zeros(1, states, 512, dtype=torch.bfloat16)
    DequantizeAndGatherKCacheKernel.kernel[(1, 128)](
        out,
        out.stride(0),
        out.stride(1),
        cache,
        torch.tensor([states], dtype=torch.int32),
        torch.arange(cache.shape[0], dtype=torch.int32).unsqueeze(0),
        0,
        None,
        max_blocks_per_seq=cache.shape[0],
        fp8_dim=448,
        bf16_dim=64,
        scale_dim=8,
        quant_block=64,
        cache_block_size=block_states,
        token_data_size=576,
        block_stride=cache.stride(0),
        output_dim=512,
        fp8_max=448.0,
        n_quant_blocks=7,
    )
    pages.files[f"{name}.read"] = out[0, slots].view(torch.uint16).numpy().tobytes()


def compressed(pages, generator, name, ratio, width, block_states, page_bytes, counts, kernel, more):
    """States of a compressor's kernel, of tokens that end a state."""
    overlap = ratio == 4
    reach = (2 if overlap else 1) * ratio
    state_width = width * (2 if overlap else 1)
    state_block = 4 if overlap else 8
    ends = [reach * (1 + 2 * index) - 1 for index in range(len(counts))]
    tokens = ends[-1] + 1
    blocks = -(-tokens // state_block)
    states = torch.zeros(blocks, state_block, 2 * state_width)
    norm = weights(generator, width, min(64, width))
    if width == 128:
        # the whole key has one scale
        norm = torch.exp2(-6.0 * torch.rand(width, generator=generator)) * 3.0
    table = angles(generator, tokens + 1, 64)
    rows = []
    for end in ends:
        mean = whole_numbers(generator, width, 1024)
        away = torch.randint(-40, 40, (reach // 2, width), generator=generator).float()
        parts = torch.cat([mean + away, mean - away])
        for index in range(reach):
            position = end - reach + 1 + index
            head = width if overlap and index >= ratio else 0
            row = states[position // state_block, position % state_block]
            row[head : head + width] = parts[index]
        # 1024 is 32 squared
        rows.append(rotate((mean * 0.03125) * norm, table, end // ratio * ratio, 64))
    cache = untouched(1 + max(counts) // block_states, page_bytes)
    kernel[(len(ends),)](
        states,
        states.stride(0),
        states.stride(1),
        torch.zeros(len(ends), dtype=torch.int32),
        torch.tensor(ends),
        torch.tensor(ends),
        torch.arange(blocks, dtype=torch.int32).unsqueeze(0),
        blocks,
        state_block,
        norm,
        0.0,
        table,
        table.stride(0),
        cache,
        torch.tensor(counts),
        block_states,
        HEAD_SIZE=width,
        TRITON_BLOCK_SIZE=width,
        STATE_WIDTH=state_width,
        COMPRESS_RATIO=ratio,
        OVERLAP=overlap,
        ROPE_HEAD_DIM=64,
        FP8_MAX=448.0,
        KV_BLOCK_STRIDE=cache.stride(0),
        **more,
    )
    pages.add(
        name,
        f"{V4_OPS}/fused_compress_quant_cache.py {kernel.fn.__name__}",
        torch.stack(rows),
        counts,
        cache,
    )


def v4_compressed(pages, generator):
    import vllm.models.deepseek_v4.common.ops.fused_compress_quant_cache as module

    main = module._fused_kv_compress_norm_rope_insert_sparse_attn
    packed = dict(QUANT_BLOCK=64, TOKEN_STRIDE=576, SCALE_DIM=8, SANITIZE_CACHE_NANS=False)
    compressed(pages, generator, "v4_c4", 4, 512, 64, 37_440, [0, 37, 63, 64], main, packed)
    compressed(pages, generator, "v4_c128", 128, 512, 2, 1_728, [0, 1, 3], main, packed)
    key = module._fused_kv_compress_norm_rope_insert_indexer_attn
    for name, repeats in (("v4_indexer", False), ("v4_indexer_mx", True)):
        more = dict(QUANT_BLOCK=128, TOKEN_STRIDE=128, SCALE_DIM=4, MX_SCALE=repeats)
        compressed(pages, generator, name, 4, 128, 64, 8_640, [2, 63, 70], key, more)


def v4_states(pages, generator):
    from vllm.models.deepseek_v4.common.ops.save_partial_states import SavePartialStatesKernel

    slots = [0, 3, 6]
    kv, score = (torch.randn(3, 1024, generator=generator) for _ in range(2))
    ape = torch.randn(4, 1024, generator=generator)
    positions = torch.tensor([4, 7, 10])
    cache = untouched(2, 32_832)
    states = cache.view(torch.float32)
    SavePartialStatesKernel.kernel[(3,)](
        kv,
        kv.stride(0),
        score,
        score.stride(0),
        ape,
        ape.stride(0),
        positions,
        states,
        states.stride(0),
        2048,
        torch.tensor(slots),
        4,
        HEAD_SIZE=1024,
        TRITON_BLOCK_SIZE=1024,
        STATE_WIDTH=1024,
        COMPRESS_RATIO=4,
    )
    rows = torch.cat([kv, score + ape[positions % 4]], dim=1)
    pages.add(
        "v4_c4_state",
        f"{V4_OPS}/save_partial_states.py SavePartialStatesKernel.kernel",
        rows,
        slots,
        cache,
    )


def v32_mla(pages, generator):
    count = 4
    table = angles(generator, 100, 64)
    positions = torch.tensor([3, 17, 64, 99])
    norm = weights(generator, 512, 128)
    latent = torch.stack([whole_numbers(generator, 512, 1024) for _ in range(count)])
    key = torch.randn(count, 64, generator=generator)
    rows = torch.stack(
        [
            rotate(torch.cat([(latent[i] * 0.03125) * norm, key[i]]), table, int(positions[i]), 64)
            for i in range(count)
        ]
    )
    scale = torch.tensor([0.03])
    for name, block, cache, dtype in (
        ("v32_mla", 64, untouched(2, 64 * 656).view(2, 64, 656), "fp8_ds_mla"),
        ("mla_bf16", 16, untouched(2, 16 * 1152).view(torch.bfloat16).view(2, 16, 576), "auto"),
        ("mla_fp8", 64, untouched(2, 64 * 576).view(2, 64, 576), "fp8"),
    ):
        slots = [0, 5, block - 1, block + 9]
        v32.fused_norm_rope(
            positions,
            torch.ones(count, 128),
            torch.ones(128),
            1e-6,
            latent,
            norm,
            0.0,
            key,
            table,
            None,
            None,
            None,
            0.0,
            None,
            torch.zeros(count, 16, dtype=torch.int32),
            slot_mapping=torch.tensor(slots),
            mla_kv_cache=cache,
            mla_kv_cache_dtype=dtype,
            mla_k_scale=scale,
            has_indexer=False,
        )
        more = {"scale": float(scale[0])} if dtype == "fp8" else {}
        pages.add(
            name,
            f"{V32_KERNELS} _fused_norm_rope_kernel",
            rows,
            slots,
            cache.view(2, -1),
            **more,
        )


@triton.jit
def write_keys(rows, slots, cache, scales, stride, REPEATS: tl.constexpr):
    """Hands vLLM's function the keys that its own kernel would hand it."""
    token = tl.program_id(0)
    offsets = tl.arange(0, 128)
    values = tl.load(rows + token * 128 + offsets)
    slot = tl.load(slots + token)
    v32._fp8_quant_and_cache_write(
        values, offsets < 128, slot, cache, scales, 64, stride, offsets, 128, False, 16, 16, REPEATS, 448.0, False
    )


def v32_indexer(pages, generator):
    slots = [0, 62, 65]
    for name, repeats in (("v32_indexer", False), ("v32_indexer_mx", True)):
        rows = plain_rows(generator, len(slots), 128, 64) * 1.37
        cache = untouched(2, 8_448)
        scales = cache.view(torch.int32 if repeats else torch.float32)
        as_fp8 = cache.view(torch.float8_e4m3fn)
        write_keys[(len(slots),)](rows, torch.tensor(slots), as_fp8, scales, cache.stride(0), repeats)
        pages.add(name, f"{V32_KERNELS} _fp8_quant_and_cache_write", rows, slots, cache)


def attention(pages, generator):
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import reshape_and_cache_kernel_flash

    slots, heads, size = [0, 7, 15, 16 + 3], 2, 128
    key, value = (torch.randn(len(slots), heads, size, generator=generator) * 5 for _ in range(2))
    key[0, 0, 0], value[1, 0, 0] = 100.0, -100.0
    for name, element, heads_first in (
        ("attention_bf16", torch.bfloat16, False),
        ("attention_fp8", torch.float8_e4m3fn, True),
    ):
        cache = untouched(2, 16 * heads * 2 * size * element.itemsize)
        # K and V of a head side by side
        view = cache.view(element)
        if heads_first:
            view = view.view(2, heads, 16, 2 * size).transpose(1, 2)
        else:
            view = view.view(2, 16, heads, 2 * size)
        scales = (torch.tensor([0.05]), torch.tensor([0.07]))
        reshape_and_cache_kernel_flash[(len(slots), 1)](
            key,
            value,
            view[..., :size],
            view[..., size:],
            torch.tensor(slots),
            *scales,
            key.stride(0),
            value.stride(0),
            view.stride(0),
            view.stride(2),
            0,
            0,
            view.stride(1),
            num_heads=heads,
            head_size=size,
            block_size=16,
            x=1,
            USE_HEAD_MAJOR_LAYOUT=False,
            INTERLEAVED_V_PACK_FACTOR=0,
            FP8_KV_CACHE=element.itemsize == 1,
            TILE_SIZE=heads * size,
        )
        rows = torch.cat([key, value], dim=2).reshape(len(slots), -1)
        more = {"scale": scales[0].item(), "scale_v": scales[1].item()} if element.itemsize == 1 else {}
        source = "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py reshape_and_cache_kernel_flash"
        pages.add(name, source, rows, slots, cache, **more)


def decode(pages, generator):
    """A decode step over a window's and compressed rows, by vLLM's Triton decode for XPUs, which reads the same pages. Its
    products are given float32, since the interpreter cannot multiply bfloat16; its outputs are rounded to that."""
    from vllm.models.deepseek_v4.xpu.xpu_sparse_decode_fp8 import dequant_gather_slots
    from vllm.v1.attention.ops.xpu_mla_sparse import triton_bf16_mla_sparse_interface

    tokens, heads, scale = 2, 4, 0.044194173
    rows = [torch.randn(count, 512, generator=generator).to(torch.bfloat16) for count in (24, 16)]
    workspace = []
    for of_layer in rows:
        cache = untouched(1, 37_440)
        slots = torch.arange(len(of_layer))
        as_float = of_layer.to(torch.float32)
        insert_rows(as_float, slots, cache)
        gathered = torch.zeros(len(of_layer), 512, dtype=torch.bfloat16)
        # [blocks, states of a block, …], of which the stride and the second are read
        dequant_gather_slots(gathered, cache, slots.to(torch.int32), 64)
        workspace.append(gathered)
    # of the window's rows and of the compressed ones, which come after them; the second token has one less
    chosen = torch.stack([torch.randperm(40, generator=generator)[:32] for _ in range(tokens)])
    chosen[1, -1] = -1
    queries = torch.randn(tokens, heads, 512, generator=generator).to(torch.bfloat16)
    outputs, _, lse = triton_bf16_mla_sparse_interface(
        q=queries.to(torch.float32),
        kv=torch.cat(workspace).to(torch.float32).unsqueeze(1),
        indices=chosen.to(torch.int32).unsqueeze(1),
        sm_scale=scale,
        block_dpe=0,
    )
    bits = lambda tensor: tensor.to(torch.bfloat16).contiguous().view(torch.uint16).numpy().tobytes()
    pages.files["decode.window"], pages.files["decode.compressed"] = map(bits, rows)
    pages.files["decode.queries"] = bits(queries)
    pages.files["decode.outputs"] = bits(outputs)
    pages.decode = {
        "source": "vllm/v1/attention/ops/xpu_mla_sparse.py _bf16_mla_sparse_kernel",
        "tokens": tokens,
        "heads": heads,
        "scale": scale,
        "chosen": chosen.tolist(),
        "lse": lse.flatten().tolist(),
    }


# --- vLLM's C++ kernels for CPUs -----------------------------------------------------------------

BINDINGS = r"""
#include <torch/extension.h>
at::Tensor fused_qnorm_rope_kv_insert_cpu(at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&,
                                          at::Tensor&, int64_t, double, int64_t);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("insert", &fused_qnorm_rope_kv_insert_cpu); }
"""


def cpu_window(pages, generator, csrc):
    """Live window writes, by vLLM's CPU counterpart of the CUDA op. It flushes subnormal codes and has another least
    scale, so its rows have neither."""
    from torch.utils.cpp_extension import load

    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "bindings.cpp").write_text(BINDINGS)
    kernels = pathlib.Path(csrc) / "cpu/sgl-kernels"
    flags = ["-O2", "-DCPU_CAPABILITY_AVX512", "-DCPU_CAPABILITY=AVX512", "-include", "ATen/cpu/vec/vec.h"]
    flags += [f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "bf16", "vnni")] + ["-mfma", "-mf16c"]
    module = load(
        "kvx_golden",
        [str(folder / "bindings.cpp"), str(kernels / "store_cache.cpp")],
        extra_cflags=flags,
        extra_include_paths=[str(kernels), str(pathlib.Path(csrc) / "cpu")],
        build_directory=str(folder),
    )
    slots = [0, 33, 63, 64]
    rows = torch.randn(len(slots), 512, generator=generator)
    rows = rows.sign() * rows.abs().clamp(0.1, 4.0)
    exponents = torch.randint(-1, 12, (len(slots), 8), generator=generator).float()
    rows = (rows * torch.exp2(exponents).repeat_interleave(64, dim=1)).to(torch.bfloat16)
    cache = untouched(2, 37_440)
    table = torch.cat([torch.ones(1, 32), torch.zeros(1, 32)], dim=1)
    module.insert(
        torch.zeros(len(slots), 1, 512, dtype=torch.bfloat16),
        rows,
        torch.zeros(len(slots), dtype=torch.int64),
        cache,
        torch.tensor(slots),
        table,
        1,
        1e-6,
        64,
    )
    source = "csrc/cpu/sgl-kernels/store_cache.cpp fused_qnorm_rope_kv_insert_cpu"
    pages.add("v4_window_cpu", source, rows, slots, cache)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--csrc", help="`csrc` of vLLM's source distribution")
    options = parser.parse_args()
    import vllm

    pages = Pages()
    for seed, make in enumerate((v4_window, v4_compressed, v4_states, v32_mla, v32_indexer, attention, decode)):
        make(pages, torch.Generator().manual_seed(seed))
    if options.csrc:
        cpu_window(pages, torch.Generator().manual_seed(100), options.csrc)
    else:
        known = json.loads((GOLDEN / "index.json").read_text())["pages"]
        pages.index += [one for one in known if one["name"] == "v4_window_cpu"]
    index = {"release": vllm.__version__, "untouched": UNTOUCHED, "pages": pages.index, "decode": pages.decode}
    pages.files["index.json"] = (json.dumps(index, indent=1) + "\n").encode()
    differ = []
    for name, data in pages.files.items():
        path = GOLDEN / name
        if options.check:
            if not path.exists() or path.read_bytes() != data:
                differ.append(name)
        else:
            path.write_bytes(data)
    print(f"{len(pages.index)} sets of pages, {sum(map(len, pages.files.values())):,} bytes")
    if differ:
        sys.exit(f"not as checked in: {', '.join(differ)}")


if __name__ == "__main__":
    main()
