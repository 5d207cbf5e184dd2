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
import itertools
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPABILITIES = [(9, 0), (10, 0), (10, 3), (12, 0), (12, 1)]

# What is asked. The answers hold the ones that a backend takes.
HEAD_SIZES = [1, 8, 16, 20, 24, 31, 32, 40, 64, 72, 80, 96, 100, 112, 120, 128, 136, 160, 176, 192, 224, 256, 264, 288,
              320, 384, 448, 512, 520, 576, 640, 1024]
BLOCK_SIZES = [1, 8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 576, 1024, 2048]
MODEL_DTYPES = ["float16", "bfloat16", "float32"]
ATTENTION_TYPES = ["decoder", "encoder", "encoder_only", "encoder_decoder"]
QUESTIONS = """is_mla is_sparse is_ssm supports_sink supports_mm_prefix supports_per_head_quant_scales
supports_sliding_window supports_rswa supports_non_causal supports_non_causal_dcp supports_batch_invariance
supports_kv_connector supports_pcp supports_dcp supports_device_cpu_query_lens_mismatch supports_alibi_sqrt""".split()
PRIORITY_HEADS = [1, 8, 16, 17, 32, 128]
PRIORITY_HEAD_SIZES = [64, 128, 256, 320, 512, 576]
BATCH_MEMORY_GIB = [16, 69, 70, 159, 160, 288]
BATCH_NAMES = ["NVIDIA A100", "NVIDIA GPU"]

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


def in_a_child(oracle, question, *arguments):
    """The answer of a fresh interpreter: vLLM remembers what it learns about the GPU."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
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
            out["flash_attention"] = flash_attention_versions()
        with set_current_vllm_config(VllmConfig(attention_config=AttentionConfig(flash_attn_version=2))):
            out["backends_with_flash_attention_2"] = {name: row(cls, cc) for name, cls in classes().items()}
    return out


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
        "model_dtypes": those(MODEL_DTYPES, lambda x: cls.supports_dtype(getattr(torch, x))),
        "kv_cache_dtypes": those(get_args(CacheDType), cls.supports_kv_cache_dtype),
        "head_sizes": those(HEAD_SIZES, cls.supports_head_size),
        "kernel_block_sizes": ask(lambda: [size if isinstance(size, int) else f"MultipleOf({size.base})"
                                           for size in cls.get_supported_kernel_block_sizes()]),
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


def flash_attention_versions():
    """The version for each size of head, without and with sinks."""
    from vllm.v1.attention.backends.fa_utils import get_flash_attn_version

    return [[head, sinks, get_flash_attn_version(head_size=head, has_sinks=sinks, supports_fa4_hd256=True)]
            for head in HEAD_SIZES if head % 8 == 0 for sinks in (False, True)]


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
                  for capability, answer in answers.items() for case, result in answer[name]])


def dump(oracle, lists_alone):
    out = in_a_child(oracle, fields_of_release)
    out["defaults"]["batch"] = cases_of(in_a_child(oracle, batches), "batch")
    if lists_alone:
        return out
    answers = {f"{cc[0]}.{cc[1]}": in_a_child(oracle, on_capability, cc) for cc in CAPABILITIES}
    out["priorities"] = cases_of(answers, "priorities")
    out["asked"] = {"head_sizes": HEAD_SIZES, "block_sizes": BLOCK_SIZES, "model_dtypes": MODEL_DTYPES,
                    "attention_types": ATTENTION_TYPES, "capabilities": list(answers)}
    out["backends"] = by_capability(answers, "backends")
    forced = by_capability(answers, "backends_with_flash_attention_2")
    out["backends_with_flash_attention_2"] = {name: rows for name, rows in forced.items()
                                              if rows != out["backends"][name]}
    out["flash_attention_versions"] = cases_of(
        {capability: {"fa": [[{"head_size": head, "sinks": sinks}, version]
                             for head, sinks, version in answer["flash_attention"]]}
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
    p.add_argument("--oracle", type=pathlib.Path, default=ROOT.parent / "shared/oracle",
                   help="the folder of vllm_oracle.py")
    p.add_argument("--out", type=pathlib.Path, help="default: resolver/tables/<release>.json")
    p.add_argument("--lists", action="store_true", help="names, lists and defaults alone")
    p.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = p.parse_args()
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
