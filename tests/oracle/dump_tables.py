#!/usr/bin/env python3
"""dump_tables.py [--oracle DIR] [--out FILE] [--lists] [--check]: vLLM's own tables, asked of vLLM itself.

Writes resolver/tables/<release>.json for the vLLM that is importable: names, lists, defaults, and what every
attention backend answers on every compute capability. `cargo xtask tables` makes Rust of it, and tests hold the
resolver's rules against it. Lists keep vLLM's order where order means something; everything else is sorted. The
same vLLM gives the same bytes; --check writes nothing and fails where the file differs. --lists leaves out what the
backends answer: for a release whose own compiled kernels do not load here. README.md says how to run it.
"""
import argparse
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPABILITIES = [(9, 0), (10, 0), (10, 3), (12, 0), (12, 1)]
TWINS = [(10, 3), (12, 1)]  # asked what each backend answers by itself, which is as the capability before it

# What is asked. The answers hold the ones that a backend takes.
HEAD_SIZES = range(1, 1025)
BLOCK_SIZES = [1, 8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 576, 1024, 2048]
MODEL_DTYPES = ["float16", "bfloat16", "float32"]
ATTENTION_TYPES = ["decoder", "encoder", "encoder_only", "encoder_decoder"]
QUESTIONS = """is_mla is_sparse is_ssm supports_sink supports_mm_prefix supports_per_head_quant_scales
supports_sliding_window supports_rswa supports_non_causal supports_non_causal_dcp supports_batch_invariance
supports_kv_connector supports_pcp supports_dcp supports_device_cpu_query_lens_mismatch supports_alibi_sqrt
indexes_kv_by_block_stride get_required_kv_cache_layout""".split()
PRIORITY_HEADS = [1, 8, 16, 17, 32, 128]
PRIORITY_HEAD_SIZES = [64, 128, 256, 511, 512, 513, 576]
BATCH_MEMORY_GIB = [16, 69, 70, 159, 160, 288]
BATCH_NAMES = ["NVIDIA A100", "NVIDIA GPU"]

# What is asked of several things at once: of a layer, with the model and the flags around it, where a backend's own
# list leaves the key out.
COMBINED = {
    "head_size": 128, "dtype": "bfloat16", "kv_cache_dtype": "auto", "block_size": None, "use_sparse": False,
    "has_sink": False, "use_mm_prefix": False, "flash_attn_version": None, "dcp": 1, "heads": 32, "kv_heads": 8,
    "softcap": None, "index_topk": None, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
EVERY_DTYPE = object()
FLASH_ATTENTION = {"head_size": [64, 128, 192, 256, 320, 512], "has_sink": [False, True],
                   "kv_cache_dtype": ["auto", "float16", "fp8", "fp8_e5m2", "fp8_inc", "int8_per_token_head"],
                   "use_mm_prefix": [False, True], "flash_attn_version": [None, 2], "block_size": [None, 64, 128],
                   "softcap": [None, 50.0], "dcp": [1, 2]}
MLA_SIZES = {"qk_nope_head_dim": [64, 128, 192, 256], "qk_rope_head_dim": [0, 32, 64], "kv_lora_rank": [256, 512]}
COMBINATIONS = {
    "FLASH_ATTN": FLASH_ATTENTION,
    "FLASH_ATTN_DIFFKV": FLASH_ATTENTION,
    "STEP5_DSA": FLASH_ATTENTION,
    "TRITON_FLASH_ATTN": FLASH_ATTENTION,
    "TRITON_FLASHINFER": {"head_size": [64, 256, 512], "kv_cache_dtype": EVERY_DTYPE, "has_sink": [False, True],
                          "use_mm_prefix": [False, True]},
    "FLASHINFER": {"head_size": [64, 128], "kv_cache_dtype": EVERY_DTYPE, "has_sink": [False, True]},
    "B12X": {"dtype": MODEL_DTYPES, "kv_cache_dtype": EVERY_DTYPE},
    "FLASH_ATTN_MLA": {"kv_cache_dtype": ["auto", "fp8"], "flash_attn_version": [None, 2]},
    "FLASHMLA": {"use_sparse": [False, True]},
    "FLASHINFER_MLA": MLA_SIZES,
    "TOKENSPEED_MLA": {**MLA_SIZES, "v_head_dim": [128, 256]},
    "FLASH_ATTN_MLA_SPARSE": {"kv_cache_dtype": EVERY_DTYPE, "dcp": [1, 2], "index_topk": [None, 2048]},
    "FLASH_ATTN_MLA_SPARSE_FA4": {**MLA_SIZES, "kv_cache_dtype": ["auto", "fp8_ds_mla"], "dcp": [1, 2],
                                  "index_topk": [None, 100, 2048], "heads": [4, 8, 64, 128]},
    "FLASHINFER_MLA_SPARSE": {**MLA_SIZES, "kv_cache_dtype": ["auto", "fp8", "fp8_ds_mla"],
                              "index_topk": [None, 2048]},
    "FLASHINFER_MLA_SPARSE_SM90": {**MLA_SIZES, "use_sparse": [False, True]},
    "FLASHINFER_MLA_SPARSE_SM120": {"dtype": MODEL_DTYPES, "kv_cache_dtype": EVERY_DTYPE,
                                    "index_topk": [None, 1024, 2048]},
    "FLASHMLA_SPARSE": {"head_size": [512, 576], "qk_rope_head_dim": [0, 64],
                        "kv_cache_dtype": ["auto", "bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"]},
    "FLASHINFER_MLA_SPARSE_DSV4": {"kv_cache_dtype": EVERY_DTYPE},
    "FLASHINFER_MLA_SPARSE_DSV41": {"kv_cache_dtype": EVERY_DTYPE},
    "FLASHMLA_MEGA_ATTN_DSV41": {"kv_cache_dtype": EVERY_DTYPE},
}
# Backends whose kernels' blocks depend on the model.
BLOCKS = {
    name: {"head_size": [64, 128, 192, 256, 512], "kv_cache_dtype": ["auto", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"],
           "flash_attn_version": [None, 2], "kv_heads": [8, 32], "softcap": [None, 50.0], "dcp": [1, 2],
           "use_mm_prefix": [False, True]}
    for name in ["FLASH_ATTN", "FLASH_ATTN_DIFFKV", "TRITON_FLASH_ATTN", "STEP5_DSA", "FLASHINFER",
                 "TRITON_FLASHINFER"]
}

# Written for other hardware: what they say under a pretended NVIDIA GPU means nothing.
OTHER_HARDWARE = ("ROCM_", "XPU_", "CPU_", "AMX_")

# Backends that no flag names: some models' layers bring them along. Their rows go by the name of the class.
OTHER_BACKENDS = """
vllm.v1.attention.backends.mla.indexer.DeepseekV32IndexerBackend
vllm.v1.attention.backends.mla.indexer.DeepseekV4IndexerBackend
vllm.v1.attention.backends.mla.indexer.DeepseekV41IndexerBackend
vllm.v1.attention.backends.mla.indexer.Glm5NextIndexerBackend
vllm.v1.attention.backends.mla.indexer.KpoolTailBackend
vllm.v1.attention.backends.mla.sparse_swa.DeepseekSparseSWABackend
vllm.v1.attention.backends.mamba1_attn.Mamba1AttentionBackend
vllm.v1.attention.backends.mamba2_attn.Mamba2AttentionBackend
vllm.v1.attention.backends.gdn_attn.GDNAttentionBackend
vllm.v1.attention.backends.linear_attn.LinearAttentionBackend
vllm.v1.attention.backends.linear_attn.BailingLinearAttentionBackend
vllm.v1.attention.backends.short_conv_attn.ShortConvAttentionBackend
vllm.v1.attention.backends.short_conv_attn.PleShortConvAttentionBackend
vllm.models.kimi_k3.nvidia.kda_metadata.KimiK3KDAAttentionBackend
vllm.models.minimax_m3.common.indexer.MiniMaxM3IndexerBackend
vllm.models.step5.nvidia.csa_tail_ring.Step5CSATailRingBackend
""".split()
FORCED_VERSIONS = (2, 4)  # of FlashAttention
OTHER_CLASSES = [path.rpartition(".")[2] for path in OTHER_BACKENDS]


def hide_a_strangers_b12x():
    """FlashInfer brings a package b12x since 0.7.2; an older FlashInfer before it in PYTHONPATH must not see it."""
    import importlib.util

    home = {name: found and pathlib.Path(found.origin).parents[1]
            for name in ("flashinfer", "b12x") for found in [importlib.util.find_spec(name)]}
    if home["b12x"] and home["b12x"] != home["flashinfer"]:
        sys.modules["b12x"] = None


def in_a_child(oracle, question, *arguments):
    """The answer of a fresh interpreter: vLLM remembers what it learns about the GPU."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            hide_a_strangers_b12x()
            sys.path.insert(0, str(oracle))
            answer = question(*arguments)
            with os.fdopen(write, "w") as f:
                json.dump(answer, f)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(f"{question.__name__}{arguments} failed")
    return json.loads(text)


def fields_of_release():
    """What does not depend on the GPU."""
    import typing

    import vllm_oracle  # noqa: F401  pretends the GPU
    import vllm
    from vllm.config import cache
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.models import registry as models
    from vllm.v1.attention.backends import registry

    out = {"release": vllm.__version__}
    out["kv_cache_dtypes"] = list(typing.get_args(cache.CacheDType))
    out["engine_args"] = [field.name for field in dataclasses.fields(EngineArgs)]
    out["attention_backends"] = list(registry.AttentionBackendEnum.__members__)
    if hasattr(registry, "MambaAttentionBackendEnum"):
        out["mamba_backends"] = list(registry.MambaAttentionBackendEnum.__members__)
    try:
        from vllm.v1.attention.backends.utils import _DEFAULT_LAYOUT_PREFERENCE
        from vllm.v1.kv_cache_layout import KVCacheLayout

        out["kv_cache_layouts"] = list(KVCacheLayout.__members__)
        out["default_kv_cache_layouts"] = [layout.name for layout in _DEFAULT_LAYOUT_PREFERENCE]
    except ImportError:
        pass
    default = {field.name: field.default for field in dataclasses.fields(EngineArgs)}
    out["defaults"] = {"gpu_memory_utilization": default["gpu_memory_utilization"]}
    out["architectures"] = {
        kind: sorted(getattr(models, name))
        for kind, name in [
            ("text_generation", "_TEXT_GENERATION_MODELS"),
            ("embedding", "_EMBEDDING_MODELS"),
            ("late_interaction", "_LATE_INTERACTION_MODELS"),
            ("reward", "_REWARD_MODELS"),
            ("token_classification", "_TOKEN_CLASSIFICATION_MODELS"),
            ("sequence_classification", "_SEQUENCE_CLASSIFICATION_MODELS"),
            ("multimodal", "_MULTIMODAL_MODELS"),
            ("speculative_decoding", "_SPECULATIVE_DECODING_MODELS"),
            ("transformers_supported", "_TRANSFORMERS_SUPPORTED_MODELS"),
            ("transformers_backend", "_TRANSFORMERS_BACKEND_MODELS"),
        ]
        if hasattr(models, name)
    }
    # in its own order, in which a refusal lists it
    out["registry"] = list(models._VLLM_MODELS)
    return out


def batches():
    """{capability: the limits of a step}, which nothing remembers."""
    import vllm_oracle as oracle
    from vllm.platforms.interface import DeviceCapability

    out = {}
    for cc in CAPABILITIES:
        oracle.PretendGpu.cc = DeviceCapability(*cc)
        out[f"{cc[0]}.{cc[1]}"] = {"batch": batch(oracle)}
    return out


def on_capability(cc):
    """Everything that is asked of one GPU."""
    import vllm_oracle as oracle
    from vllm.platforms.interface import DeviceCapability

    oracle.PretendGpu.cc = DeviceCapability(*cc)
    with oracle.ToMeta():
        from vllm.config import AttentionConfig, VllmConfig, set_current_vllm_config

        out = {"priorities": priorities(DeviceCapability(*cc))}
        with set_current_vllm_config(VllmConfig()):
            out["backends"] = {name: row(cls, cc) for name, cls in classes().items()}
            if cc in TWINS:
                return out
            out["flash_attention"] = flash_attention_versions()
        for version in FORCED_VERSIONS:
            if version == 4 and cc[0] not in (9, 10):
                continue  # nothing forces what does not run
            with set_current_vllm_config(VllmConfig(attention_config=AttentionConfig(flash_attn_version=version))):
                out[f"backends_with_flash_attention_{version}"] = {
                    name: row(cls, cc) for name, cls in classes().items()}
        out["combinations"] = combinations(DeviceCapability(*cc))
        out["blocks"] = blocks()
    return out


def asked_around(questions):
    """Every case of the questions, each with vLLM's configuration as a model would set it."""
    import logging
    from types import SimpleNamespace
    from typing import get_args

    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.config.cache import CacheDType

    logging.disable(logging.CRITICAL)  # the versions of FlashAttention that do not serve a case
    config = VllmConfig()
    keys = list(questions)
    dtypes = get_args(CacheDType)
    lists = [dtypes if values is EVERY_DTYPE else [value for value in values if key != "kv_cache_dtype" or value in dtypes]
             for key, values in questions.items()]
    for values in itertools.product(*lists):
        case = dict(zip(keys, values))
        full = COMBINED | case
        text_config = {key: full[key] for key in ("index_topk", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim",
                                                  "v_head_dim") if full[key] is not None}
        text = SimpleNamespace(attn_logit_softcapping=full["softcap"], **text_config)
        model = SimpleNamespace(
            hf_config=text, hf_text_config=text,
            get_num_attention_heads=lambda _, full=full: full["heads"],
            get_num_kv_heads=lambda _, full=full: full["kv_heads"],
            get_head_size=lambda full=full: full["head_size"],
            is_mm_prefix_lm=full["use_mm_prefix"], is_diffusion=False, rswa_window=None)
        object.__setattr__(config, "model_config", model)
        object.__setattr__(config.cache_config, "cache_dtype", full["kv_cache_dtype"])
        object.__setattr__(config.attention_config, "flash_attn_version", full["flash_attn_version"])
        object.__setattr__(config.parallel_config, "decode_context_parallel_size", full["dcp"])
        with set_current_vllm_config(config):
            yield case, full


def combinations(capability):
    """{backend: [[case, objection]]}: what its class says of several things at once."""
    import torch
    from vllm.v1.attention.backend import AttentionBackend

    out = {}
    for name, cls in classes().items():
        if isinstance(cls, Exception) or name in OTHER_CLASSES:
            continue
        if cls.supports_combination.__func__ is AttentionBackend.supports_combination.__func__:
            continue
        out[name] = [
            [case, cls.supports_combination(
                full["head_size"], getattr(torch, full["dtype"]), full["kv_cache_dtype"], full["block_size"],
                "MLA" in name, full["has_sink"], full["use_sparse"], full["use_mm_prefix"], capability)]
            for case, full in asked_around(COMBINATIONS[name])
        ]
    return out


def blocks():
    """{backend: [[case, kernel blocks and the block of a model with this backend alone]]}"""
    return {
        name: [[case, [kernel_blocks(cls), cls.get_preferred_block_size(16)]]
               for case, _ in asked_around(BLOCKS[name])]
        for name, cls in classes().items() if name in BLOCKS
    }


def kernel_blocks(cls):
    return [size if isinstance(size, int) else f"MultipleOf({size.base})"
            for size in cls.get_supported_kernel_block_sizes()]


@functools.cache
def classes():
    """{name in the enum, or of a class that is not in it: class, or the error of importing it}"""
    import importlib

    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    out = {}
    for name in AttentionBackendEnum.__members__:
        if name.startswith(OTHER_HARDWARE):
            continue
        try:
            out[name] = AttentionBackendEnum[name].get_class()
        except (ImportError, OSError, ValueError) as e:
            out[name] = e
    for path in OTHER_BACKENDS:
        module, _, cls = path.rpartition(".")
        if not survives(lambda: importlib.import_module(module)):
            continue
        try:
            cls = getattr(importlib.import_module(module), cls)
        except (ImportError, AttributeError):  # not in this release
            continue
        out[cls.__name__] = cls
    return out


def survives(f):
    """Whether it leaves the process alive: some old modules ask the driver itself, and there is none."""
    pid = os.fork()
    if pid == 0:
        try:
            f()
        finally:
            os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def row(cls, cc):
    """What a backend answers, one by one."""
    import torch
    from vllm.config.cache import CacheDType
    from vllm.platforms.interface import DeviceCapability
    from typing import get_args

    if isinstance(cls, Exception):
        return {"error": f"{type(cls).__name__}: {cls}"}

    def ask(f):
        try:
            return f()
        except AttributeError:  # it looks at the model, and there is none
            return Ellipsis

    def those(items, takes):
        return ask(lambda: [item for item in items if takes(item)])

    out = {
        "name": cls.get_name(),
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "model_dtypes": those(MODEL_DTYPES, lambda x: cls.supports_dtype(getattr(torch, x))),
        "kv_cache_dtypes": those(get_args(CacheDType), cls.supports_kv_cache_dtype),
        "head_sizes": ask(lambda: runs([size for size in HEAD_SIZES if cls.supports_head_size(size)])),
        "kernel_block_sizes": ask(lambda: kernel_blocks(cls)),
        "block_sizes": those(BLOCK_SIZES, cls.supports_block_size),
        "preferred_block_size": ask(lambda: cls.get_preferred_block_size(16)),
        "attention_types": those(ATTENTION_TYPES, cls.supports_attn_type),
        "compute_capability": ask(lambda: cls.supports_compute_capability(DeviceCapability(*cc))),
    }
    if hasattr(cls, "supported_kv_cache_layouts"):
        out["kv_cache_layouts"] = ask(lambda: (lambda layouts: layouts and [layout.name for layout in layouts])(
            cls.supported_kv_cache_layouts()))
    for question in QUESTIONS:
        if hasattr(cls, question):
            out[question] = ask(getattr(cls, question))
    return {question: answer for question, answer in out.items() if answer is not Ellipsis}


def runs(numbers):
    """Numbers, four or more at equal distances as [first, last, distance]."""
    out = []
    while numbers:
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
        length = next((i for i in range(1, len(numbers)) if numbers[i] - numbers[i - 1] != step), len(numbers))
        if length < 4:
            length = 1
        out.append([numbers[0], numbers[length - 1], step] if length > 1 else numbers[0])
        numbers = numbers[length:]
    return out


def flash_attention_versions():
    """The version for each size of head, without and with sinks."""
    import inspect

    from vllm.v1.attention.backends.fa_utils import get_flash_attn_version

    known = inspect.signature(get_flash_attn_version).parameters
    own = {"supports_fa4_hd256": True} if "supports_fa4_hd256" in known else {}
    return [[head, sinks, get_flash_attn_version(head_size=head, has_sinks=sinks, **own)]
            for head in HEAD_SIZES[7::8] for sinks in (False, True)]


def priorities(capability):
    """[[case, order]]: which backends are tried, in order."""
    import inspect
    from typing import get_args

    from vllm.config.cache import CacheDType
    from vllm.platforms.cuda import _get_backend_priorities

    known = inspect.signature(_get_backend_priorities).parameters
    out = []
    for mla, dtype, heads, head_size, mm_prefix in itertools.product(
        (False, True), get_args(CacheDType), PRIORITY_HEADS, PRIORITY_HEAD_SIZES, (False, True)
    ):
        if mla and mm_prefix:
            continue  # the selector never asks that
        asked = dict(use_mla=mla, kv_cache_dtype=dtype, num_heads=heads, head_size=head_size, use_mm_prefix=mm_prefix)
        asked = {name: value for name, value in asked.items() if name in known}
        order = _get_backend_priorities(device_capability=capability, **asked)
        out.append([asked, [backend.name for backend in order]])
    return out


def batch(oracle):
    """[[case, limits]]: the limits of a step that nobody set."""
    from vllm.usage.usage_lib import UsageContext

    out = []
    for memory, name in itertools.product(BATCH_MEMORY_GIB, BATCH_NAMES):
        oracle.PretendGpu.total_memory, oracle.PretendGpu.gpu_name = memory * 1024**3, name
        tokens, seqs = oracle.EngineArgs.get_batch_defaults(1)
        for usage, context in (("llm", UsageContext.LLM_CLASS), ("server", UsageContext.OPENAI_API_SERVER)):
            out.append([dict(memory_gib=memory, gpu_name=name, usage=usage),
                        dict(max_num_batched_tokens=tokens[context], max_num_seqs=seqs[context])])
    return out


def boxes(cases):
    """[(case, answer)] -> the fewest lines that say the same: each key holds the list of its values for which the
    answer is this one, whatever the other keys' listed values. Repeats of a question count once."""
    merged = {}
    for case, answer in cases:
        case = {key: (value,) for key, value in case.items()}
        merged[tuple(case.items())] = answer
    keys = list(dict.fromkeys(key for case in merged for key, _ in case))
    for key in keys:
        joined = {}
        for case, answer in merged.items():
            case = dict(case)
            values = case.pop(key)
            joined.setdefault((tuple(case.items()), json.dumps(answer)), []).extend(values)
        merged = {}
        for (case, answer), values in joined.items():
            case = dict(case)
            merged[tuple((k, tuple(values) if k == key else case[k]) for k in keys)] = json.loads(answer)
    return [[{key: list(values) for key, values in case}, answer] for case, answer in merged.items()]


def by_capability(answers, name):
    """{backend: rows}: the first row holds what it answers on every capability, the others what differs."""
    out = {}
    for backend in dict.fromkeys(backend for answer in answers.values() for backend in answer[name]):
        of = {capability: answer[name][backend] for capability, answer in answers.items()}
        first = next(iter(of.values()))
        same = [question for question in first if all(row.get(question, ...) == first[question] for row in of.values())]
        rows = [{"capabilities": list(of), "answers": {question: first[question] for question in same}}]
        for capability, row in of.items():
            rest = {question: answer for question, answer in row.items() if question not in same}
            like = next((row for row in rows[1:] if row["answers"] == rest), None)
            if like:
                like["capabilities"].append(capability)
            elif rest:
                rows.append({"capabilities": [capability], "answers": rest})
        out[backend] = rows
    return out


def cases_of(answers, name):
    """The cases of all capabilities."""
    return boxes([[{"capability": capability, **case}, result]
                  for capability, answer in answers.items() for case, result in answer.get(name, ())])


def dump(oracle, lists_alone):
    out = in_a_child(oracle, fields_of_release)
    out["defaults"]["batch"] = cases_of(in_a_child(oracle, batches), "batch")
    if lists_alone:
        return out
    answers = {f"{cc[0]}.{cc[1]}": in_a_child(oracle, on_capability, cc) for cc in CAPABILITIES}
    out["priorities"] = cases_of(answers, "priorities")
    out["asked"] = {"head_sizes": runs(list(HEAD_SIZES)), "block_sizes": BLOCK_SIZES, "model_dtypes": MODEL_DTYPES,
                    "attention_types": ATTENTION_TYPES, "num_heads": PRIORITY_HEADS,
                    "priority_head_sizes": PRIORITY_HEAD_SIZES,
                    "combined": COMBINED, "capabilities": list(answers)}
    out["backends"] = by_capability(answers, "backends")
    for version in FORCED_VERSIONS:
        section = f"backends_with_flash_attention_{version}"
        asked = {capability: answer for capability, answer in answers.items() if section in answer}
        usual = by_capability(asked, "backends")
        out[section] = {name: rows for name, rows in by_capability(asked, section).items() if rows != usual[name]}
    for section in ("combinations", "blocks"):
        out[section] = {
            backend: cases_of({capability: answer.get(section, {}) for capability, answer in answers.items()}, backend)
            for backend in next(iter(answers.values()))[section]
        }
    out["flash_attention_versions"] = cases_of(
        {capability: {"fa": [[{"head_size": head, "sinks": sinks}, version]
                             for head, sinks, version in answer.get("flash_attention", ())]}
         for capability, answer in answers.items()}, "fa")
    return out


def text(value, indent=0):
    """JSON of which a person sees the rows: what fits stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= 118 or not isinstance(value, (list, dict)):
        return line
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        lines, current = [], ""
        for item in map(json.dumps, value):
            if len(current) + len(item) + indent > 114:
                lines, current = [*lines, current], ""
            current += f"{item}, "
        body = [line.rstrip() for line in [*lines, current]]
        body[-1] = body[-1].rstrip(",")
    elif isinstance(value, list):
        body = [text(item, indent + 1) for item in value]
        body = [f"{item}," for item in body[:-1]] + body[-1:]
    else:
        body = [f"{json.dumps(key)}: {text(item, indent + 1)}" for key, item in sorted(value.items())]
        body = [f"{item}," for item in body[:-1]] + body[-1:]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    pad = " " * (indent + 1)
    return "\n".join([opening, *(pad + item for item in body), " " * indent + closing])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--oracle", type=pathlib.Path, default=ROOT / "tests/oracle",
                   help="the folder of vllm_oracle.py")
    p.add_argument("--out", type=pathlib.Path, help="default: resolver/tables/<release>.json")
    p.add_argument("--lists", action="store_true", help="names, lists and defaults alone")
    p.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = p.parse_args()
    import torch._dynamo  # noqa: F401  once for all children; it knows nothing of the GPU
    import transformers  # noqa: F401

    tables = dump(options.oracle, options.lists)
    out = options.out or ROOT / "resolver/tables" / f"{tables['release']}.json"
    new = text(tables) + "\n"
    if not options.check:
        out.write_text(new)
    elif out.read_text() != new:
        sys.exit(f"{out.name} differs from what vLLM answers")
    print(out.name, len(new), "bytes", "the same" if options.check else "written")


if __name__ == "__main__":
    main()
