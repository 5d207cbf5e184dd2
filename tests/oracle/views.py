#!/usr/bin/env python3
"""views.py KVX: what `kvx layout --json` says of pages, held against the views that vLLM itself makes of them.

KVX is the built binary, for the release that is importable. Plain K and V in both orders, NVFP4 in split blocks, scales
per token and head, the states of a hybrid, and TurboQuant's slots; no GPU is needed.
"""
import json
import subprocess
import sys

import torch
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig
from vllm.v1.attention.backends.flashinfer import _nvfp4_kv_views
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheTensor, MambaSpec, create_kv_cache_views
from vllm.v1.kv_cache_layout import KVCacheLayout

QWEN, HYBRID = "Qwen/Qwen3-32B", "Qwen/Qwen3.5-35B-A3B"


def told(role, *arguments):
    """The first kind of layer of this role, and its fields by name."""
    out = subprocess.run([sys.argv[1], "layout", *arguments, "--json"], capture_output=True, text=True, check=True)
    kind = next(kind for kind in json.loads(out.stdout) if role in (kind["role"], kind["backend"]))
    return kind, {field["name"]: field for field in kind["fields"]}


def view(spec, kind, kernel_states=None):
    """vLLM's view of three blocks of one layer."""
    page, blocks = spec.page_size_bytes, 3
    assert page == kind["page_bytes"]
    tensor = KVCacheTensor(size=page * blocks, layers=["a"], layer_stride=page * blocks, block_stride=page)
    raw = torch.zeros(page * blocks, dtype=torch.int8)
    layout = KVCacheLayout[kind["kv_cache_layout"]]
    made = create_kv_cache_views(raw, spec, blocks, layout, tensor, kernel_states)[0]
    return made, lambda cell: cell.data_ptr() - raw.data_ptr()


def check(name, field, offset, **index):
    said = field["offset"] + eval(field["index"], {}, index) * field["stride"]  # noqa: S307
    assert said == offset, f"{name} {field['name']} {index}: {said}, but vLLM has {offset}"


def plain(order):
    kind, fields = told("attention", QWEN, "--gpu", "h200", "-tp", "2", "-e", f"VLLM_KV_CACHE_LAYOUT={order}")
    spec = FullAttentionSpec(block_size=16, num_kv_heads=4, head_size=128, dtype=torch.bfloat16)
    cache, at = view(spec, kind)
    for name, side in zip("kv", cache.transpose(1, 2).split(128, dim=-1)):
        check(order, fields[name], at(side[0, 7, 3]), states=16, heads=4, state=7, head=3)


def nvfp4():
    kind, fields = told("attention", HYBRID, "--gpu", "b200", "--kv-cache-dtype", "nvfp4")
    heads, states = kind["heads"], kind["states_in_kernel_block"]
    spec = FullAttentionSpec(
        block_size=kind["block_size"], num_kv_heads=heads, head_size=256, dtype=torch.uint8,
        num_head_slots=2 * heads, state_content_bytes=256 // 2 + 256 // 16,
    )
    cache, at = view(spec, kind, states)
    (k, v), (k_scales, v_scales), _ = _nvfp4_kv_views(cache, heads)
    for name, part in {"k": k, "v": v, "k_scales": k_scales, "v_scales": v_scales}.items():
        offset = at(part[1, 1, 5]) - kind["kernel_block_bytes"]
        check("nvfp4", fields[name], offset, states=states, heads=heads, state=5, head=1)


def per_token_head(dtype, element):
    kind, fields = told("attention", QWEN, "--gpu", "h200", "-tp", "2", "--kv-cache-dtype", dtype)
    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=4, head_size=128, dtype=element, state_content_bytes=kind["slot_bytes"],
    )
    cache, at = view(spec, kind)
    impl = type("Impl", (), {"_k_scale_cache": None, "_v_scale_cache": None})()
    TritonAttentionImpl._ensure_scale_caches(impl, cache)
    for name, part in {"k_scale": impl._k_scale_cache, "v_scale": impl._v_scale_cache}.items():
        check(dtype, fields[name], at(part[0, 7, 3]), states=16, heads=4, state=7, head=3)


def states():
    kind, fields = told("linear_state", HYBRID, "--gpu", "h200", "-tp", "2")
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(2, 16, 32, 128, 128, 4)
    dtypes = (torch.bfloat16, torch.float32)
    spec = MambaSpec(block_size=16, shapes=shapes, dtypes=dtypes, page_size_padded=kind["page_bytes"])
    cache, at = view(spec, kind)
    layer = type("Layer", (), {"get_state_shape": lambda _: shapes, "get_state_dtype": lambda _: dtypes})()
    MambaBase.bind_kv_cache(layer, cache)
    conv, recurrent = layer.kv_cache
    check("states", fields["conv_state"], at(conv[0, 2]), row=2)
    check("states", fields["recurrent_state"], at(recurrent[0, 5]), head=5)
    assert [len(conv[0]), len(recurrent[0])] == [field["count"] for field in fields.values()]


def turboquant(preset):
    kind, fields = told("TURBOQUANT", QWEN, "--gpu", "h200", "--kv-cache-dtype", preset)
    slot = TurboQuantConfig.from_cache_dtype(preset, 128)
    assert kind["slot_bytes"] == slot.slot_size_aligned
    assert fields["v"]["offset"] == slot.key_packed_size
    assert fields["v_scale"]["offset"] == slot.slot_size - 4


for order in ("NHD", "HND"):
    plain(order)
nvfp4()
per_token_head("int8_per_token_head", torch.int8)
per_token_head("int4_per_token_head", torch.uint8)
states()
for preset in ("k8v4", "4bit_nc", "k3v4_nc", "3bit_nc"):
    turboquant(f"turboquant_{preset}")
print("vLLM's views are as told")
