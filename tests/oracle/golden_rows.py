"""Rows, the cases whose pages they go to, and Triton's interpreter as it is used for them: of golden_pages.py."""

import os
import pathlib

os.environ["TRITON_INTERPRET"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # vLLM keeps Triton though no driver is active
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import numpy as np
import torch
import triton.runtime.interpreter as interpreter
from vllm.triton_utils import tl

GOLDEN = pathlib.Path(__file__).parents[2] / "crates/native/tests/golden"
UNTOUCHED = 0xA5


# --- conversions as a GPU does them -------------------------------------------------------------

ITS_OWN = interpreter._convert_float
TORCH = {
    tl.float8e4nv: (torch.float8_e4m3fn, np.uint8),
    tl.bfloat16: (torch.bfloat16, np.uint16),
    tl.float32: (torch.float32, np.uint32),
}


def convert(data, source, target, mode):
    if source not in TORCH or target not in TORCH:
        return ITS_OWN(data, source, target, mode)
    bits = np.ascontiguousarray(data).view(TORCH[source][1])
    values = torch.from_numpy(bits.copy()).view(TORCH[source][0])
    if target == tl.float8e4nv:
        values = values.to(torch.float32).clamp(-448.0, 448.0)
    done = values.to(TORCH[target][0])
    as_bits = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[done.element_size()]
    return done.view(as_bits).numpy().reshape(np.shape(data))


interpreter._convert_float = convert


# --- rows ----------------------------------------------------------------------------------------


def four_squares(total):
    for a in range(int(total**0.5), -1, -1):
        for b in range(int((total - a * a) ** 0.5), -1, -1):
            rest = total - a * a - b * b
            for c in range(int(rest**0.5), -1, -1):
                d = round((rest - c * c) ** 0.5)
                if d * d == rest - c * c:
                    return [a, b, c, d]
    raise ValueError(total)


def whole_numbers(generator, length, mean_square):
    """Whole numbers, few enough bits for exact sums, whose mean square is just this."""
    while True:
        spread = mean_square**0.5 * 0.97
        numbers = (torch.randn(length - 4, generator=generator) * spread).round()
        rest = int(length * mean_square - (numbers * numbers).sum().item())
        if 0 <= rest < 64 * mean_square:
            numbers = torch.cat([numbers, torch.tensor(four_squares(rest), dtype=torch.float32)])
            # no -0, which a sum never is
            return numbers[torch.randperm(length, generator=generator)] + 0.0


def weights(generator, length, group):
    """Factors that spread groups over many scales, one of them under the least."""
    exponents = torch.randint(-9, 9, (length // group,), generator=generator).float()
    exponents[1] = -40.0
    spread = torch.exp2(exponents).repeat_interleave(group)
    return spread * (0.5 + torch.rand(length, generator=generator))


def plain_rows(generator, count, length, group):
    """Rows of bfloat16 values over many scales: large and tiny groups, subnormal codes, zeros."""
    rows = torch.randn(count, length, generator=generator)
    exponents = torch.randint(-12, 14, (count, length // group), generator=generator).float()
    rows *= torch.exp2(exponents).repeat_interleave(group, dim=1)
    rows *= torch.exp2(-11.0 * torch.rand(count, length, generator=generator))
    rows[0, :group] = 0.0
    rows[0, group : 2 * group] = 1e-9
    rows[1, 0] = 448.0
    rows[1, 1:group] = torch.linspace(-448.0, 448.0, group - 1)
    return rows.to(torch.bfloat16).to(torch.float32)


def angles(generator, positions, width):
    turn = torch.rand(positions, width // 2, generator=generator) * 6.2831855
    return torch.cat([turn.cos(), turn.sin()], dim=1).contiguous()


def rotate(row, table, position, rotated):
    """Pairs of neighbours, in float32, each product rounded by itself."""
    even, odd = row[-rotated::2].clone(), row[-rotated + 1 :: 2].clone()
    half = rotated // 2
    cos, sin = table[position, :half], table[position, half:]
    row = row.clone()
    row[-rotated::2] = even * cos - odd * sin
    row[-rotated + 1 :: 2] = odd * cos + even * sin
    return row


def untouched(blocks, stride):
    return torch.full((blocks, stride), UNTOUCHED, dtype=torch.uint8)


# --- whose pages they are: a case that has such layers, and what those store --------------------


def case(model, gpu, dtype, layout=None):
    few = dict(max_model_len=1024, max_num_batched_tokens=64 if "V4" in model else 512, max_num_seqs=2)
    args = dict(tensor_parallel_size=4 if "Llama" in model else 8, kv_cache_dtype=dtype, **few)
    env = {"VLLM_KV_CACHE_LAYOUT": layout} if layout else {}
    return dict(release="0.33.0", model=model, gpu=gpu, args=args, env=env)


V4 = case("deepseek-ai/DeepSeek-V4-Flash", "h200", "fp8")
V32 = case("deepseek-ai/DeepSeek-V3.2", "h200", "fp8")
V3 = "deepseek-ai/DeepSeek-V3"
LLAMA = "meta-llama/Meta-Llama-3.1-8B"
WHOSE = {
    "v4_window": (V4, "window"),
    "v4_window_cpu": (V4, "window"),
    "v4_c4": (V4, "c4"),
    "v4_c128": (V4, "c128"),
    "v4_indexer": (V4, "indexer"),
    "v4_indexer_mx": (V4 | {"gpu": "b200"}, "indexer"),
    "v4_c4_state": (V4, "c4_state"),
    "v32_mla": (V32, "mla"),
    "v32_indexer": (V32, "indexer"),
    "v32_indexer_mx": (V32 | {"gpu": "b200"}, "indexer"),
    "mla_bf16": (case(V3, "h200", "auto"), "mla"),
    "mla_fp8": (case(V3, "h200", "fp8"), "mla"),
    "attention_bf16": (case(LLAMA, "h200", "auto", "LBNHC"), "attention"),
    "attention_fp8": (case(LLAMA, "h200", "fp8", "LBHNC"), "attention"),
}


# --- the pages -----------------------------------------------------------------------------------


class Pages:
    """What is to be written."""

    def __init__(self):
        self.files = {}
        self.index = []

    def add(self, name, source, rows, slots, pages, **more):
        rows = rows.contiguous().to(torch.float32)
        self.files[f"{name}.rows"] = rows.numpy().tobytes()
        self.files[f"{name}.pages"] = pages.contiguous().view(torch.uint8).numpy().tobytes()
        self.index.append(
            {
                "name": name,
                "source": source,
                "case": WHOSE[name][0],
                "role": WHOSE[name][1],
                "slots": list(slots),
                "page_bytes": pages.shape[1] * pages.element_size(),
                **more,
            }
        )
