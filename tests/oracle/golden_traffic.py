"""Which blocks vLLM's own KVCacheManager hands out under random traffic: crates/native/tests/golden/traffic.json.

    LD_LIBRARY_PATH=$V/stub $V/venv/bin/python tests/oracle/golden_traffic.py [--check]

The groups are DeepSeek V4 Flash's in fp8, as vLLM 0.33.0 makes them; prefix caching is off, nothing is in flight. A step is
`[request, computed tokens, tokens]`, and its answer the new blocks of each group and how many blocks the window left behind, or
null where the pool is full; `[request]` ends a request. After each step: free blocks, and those used next.
"""

import json
import os
import pathlib
import random
import sys
from types import SimpleNamespace

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
import vllm
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import (
    KVCacheConfig,
    KVCacheGroupSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
)
from vllm.v1.request import RequestStatus

FILE = pathlib.Path(__file__).parents[2] / "crates/native/tests/golden/traffic.json"
BLOCKS = 200
STEPS = 160


def groups():
    row = dict(num_kv_heads=1, head_size=512, dtype=torch.uint8, model_version="deepseek_v4")
    window = SlidingWindowMLASpec(block_size=64, sliding_window=128, **row)
    full = MLAAttentionSpec(block_size=256, tokens_per_state=4, **row)
    c4_state = SlidingWindowMLASpec(block_size=4, sliding_window=8, **row)
    c128_state = SlidingWindowMLASpec(block_size=8, sliding_window=128, **row)
    specs = [window, window, full, c4_state, c128_state]
    return [KVCacheGroupSpec([f"layer.{number}"], spec) for number, spec in enumerate(specs)]


def main():
    config = KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups())
    manager = KVCacheManager(config, 4096, 256, 256, enable_caching=False)
    pool = manager.block_pool
    null = pool.null_block
    chance = random.Random(0)
    lengths = {}
    steps = []
    for _ in range(STEPS):
        name = chance.randrange(6)
        request = SimpleNamespace(
            request_id=str(name),
            num_computed_tokens=lengths.get(name, 0),
            num_prompt_tokens=1,
            num_in_flight_tokens=0,
            status=RequestStatus.RUNNING,
        )
        if name in lengths and chance.random() < 0.2:
            manager.free(request)
            del lengths[name]
            step = {"step": [name]}
        else:
            computed = request.num_computed_tokens
            request.num_tokens = computed + chance.choice([1, 1, 3, 17, 60, 130])
            new = manager.allocate_slots(request, request.num_tokens - computed)
            answer = None
            if new is not None:
                lengths[name] = request.num_tokens
                tables = manager.get_blocks(request.request_id).blocks
                answer = {
                    "new": [[block.block_id for block in of_group] for of_group in new.blocks],
                    "behind": [sum(block is null for block in table) for table in tables],
                }
            step = {"step": [name, computed, request.num_tokens], "answer": answer}
        queue = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
        step |= {"free": pool.get_num_free_blocks(), "next": queue[:6]}
        steps.append(step)
    assert any(step.get("answer", 0) is None for step in steps), "the pool was never full"
    lines = ",\n".join(json.dumps(step, separators=(",", ":")) for step in steps)
    text = f'{{"release": "{vllm.__version__}", "blocks": {BLOCKS}, "steps": [\n{lines}\n]}}\n'
    if "--check" in sys.argv:
        sys.exit(None if FILE.read_text() == text else "not as checked in")
    FILE.write_text(text)
    print(f"{STEPS} steps, {len(text):,} bytes")


if __name__ == "__main__":
    main()
