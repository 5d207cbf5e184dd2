#!/usr/bin/env python3
"""Ask vLLM itself, on a machine without a GPU, how it would lay out the KV cache.

Reads one JSON case a line (stdin or a file), writes one JSON result a line.
vLLM's own code does all the work: EngineArgs -> config -> the model built on
torch's meta device -> backend selection -> KV specs -> grouping -> sizing.
Only the GPU is pretended (compute capability, name, memory).  See README.md.

ORACLE_HIDE names packages that are not to be found; ORACLE_STUB extensions that get a stand-in; ORACLE_PREIMPORT
modules to import before the cases.

A case:
  {"id": "...",                       any string
   "hf_config": {...},                the model's config.json (or "model": a folder holding one)
   "gpu": {"cc": [9, 0], "name": "NVIDIA H200", "mem_gib": 141},
   "args": {...},                     EngineArgs keywords, e.g. kv_cache_dtype, tensor_parallel_size
   "env": {...},                      optional environment variables (VLLM_...)
   "available_memory": 53687091200,   optional: bytes left for the KV cache per GPU
   "usage": "server" | "llm"}         optional: which defaults `vllm serve` / LLM() would take
"""
import copy
import dataclasses
import importlib
import importlib.machinery
import inspect
import json
import logging
import os
import re
import sys
import tempfile
import time
import traceback
import types

os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ["HUMMING_DISABLE_PARALLEL_BUILD"] = "1"  # else every case compiles helpers it never uses

# Packages that the environment's newer FlashInfer brought and the release's own does not.
hidden = set(filter(None, os.environ.get("ORACLE_HIDE", "").split(",")))


class Hiding:
    def find_spec(self, name, path=None, target=None):
        return None if name in hidden else importlib.machinery.PathFinder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(importlib.machinery.PathFinder, name)


if hidden:
    sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Hiding()

# Whatever vLLM prints goes to stderr; stdout carries results alone.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch
from torch.overrides import TorchFunctionMode

# An older release's compiled extensions may not load under a newer torch; nothing here runs a kernel.
for name in filter(None, os.environ.get("ORACLE_STUB", "").split(",")):
    sys.modules[name] = types.ModuleType(name)

    class Yes:
        def __call__(self, *a, **k):
            return True

        def __getattr__(self, name):
            return self

    # ... and its kernels answer every "do you support this?" with yes
    namespace = torch._ops._OpNamespace
    if not hasattr(namespace, "real_getattr"):
        namespace.real_getattr = namespace.__getattr__

        def lenient(self, op):
            try:
                return namespace.real_getattr(self, op)
            except AttributeError:
                if self.name.startswith(("_C", "_moe_C", "_flashmla", "_vllm")) and not op.startswith("__"):
                    return Yes()
                raise

        namespace.__getattr__ = lenient
        real_register_fake = torch.library.register_fake

        def register_fake(op, *a, **k):
            def ignore(func):
                try:
                    return real_register_fake(op, *a, **k)(func)
                except RuntimeError:  # an operator of a stubbed extension
                    return func

            return ignore if not callable(a[0] if a else None) else real_register_fake(op, *a, **k)

        torch.library.register_fake = register_fake

import vllm.platforms as platforms
from vllm.platforms.interface import DeviceCapability

try:
    from vllm.platforms.cuda import CudaPlatformBase
except Exception:  # the CUDA extension did not load: register an empty stand-in
    for name in ("vllm._C", "vllm._C_stable_libtorch", "vllm._moe_C"):
        sys.modules.setdefault(name, types.ModuleType(name))
    from vllm.platforms.cuda import CudaPlatformBase


class PretendGpu(CudaPlatformBase):
    cc = DeviceCapability(9, 0)
    gpu_name = "NVIDIA H200"
    total_memory = 141 * 1024**3

    @classmethod
    def get_device_capability(cls, device_id=0):
        return cls.cc

    @classmethod
    def has_device_capability(cls, capability, device_id=0):
        if isinstance(capability, tuple):
            return (cls.cc.major, cls.cc.minor) >= capability
        return cls.cc.to_int() >= capability

    @classmethod
    def is_device_capability(cls, capability, device_id=0):
        if isinstance(capability, tuple):
            return (cls.cc.major, cls.cc.minor) == capability
        return cls.cc.to_int() == capability

    @classmethod
    def is_device_capability_family(cls, capability, device_id=0):
        return cls.cc.to_int() // 10 == capability // 10

    @classmethod
    def get_device_name(cls, device_id=0):
        return cls.gpu_name

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        return cls.total_memory

    @classmethod
    def get_device_uuid(cls, device_id=0):
        return "GPU-0"

    @classmethod
    def is_fully_connected(cls, physical_device_ids):
        return True

    @classmethod
    def num_compute_units(cls, device_id=0):
        return 132

    @classmethod
    def device_count(cls):
        return 64


platforms._current_platform = PretendGpu()


class Nothing:
    def __init__(self, *a, **k):
        pass

    def __getattr__(self, name):
        return lambda *a, **k: None


torch.cuda.Event = Nothing
torch.cuda.Stream = Nothing
torch.cuda.current_stream = lambda *a, **k: Nothing()
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 64
torch.cuda.current_device = lambda *a, **k: 0
torch.cuda.get_device_capability = lambda *a, **k: (PretendGpu.cc.major, PretendGpu.cc.minor)
torch.cuda.get_device_name = lambda *a, **k: PretendGpu.gpu_name
torch.cuda.mem_get_info = lambda *a, **k: (PretendGpu.total_memory, PretendGpu.total_memory)
torch.cuda.get_device_properties = lambda *a, **k: types.SimpleNamespace(
    major=PretendGpu.cc.major, minor=PretendGpu.cc.minor, name=PretendGpu.gpu_name,
    total_memory=PretendGpu.total_memory, multi_processor_count=132,
    shared_memory_per_block_optin=232448, L2_cache_size=50 * 2**20, warp_size=32,
    max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, uuid="GPU-0",
)
if hasattr(torch, "accelerator"):
    torch.accelerator.device_count = lambda: 64

import vllm  # noqa: E402
import vllm.utils.flashinfer as flashinfer_utils  # noqa: E402
import vllm.utils.import_utils  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402


# A deployment image carries nvcc, FlashInfer's cubins and DeepGEMM; this machine need not.
for module in (flashinfer_utils, vllm.utils.import_utils):
    for name in ("has_flashinfer", "has_flashinfer_cubin", "has_deep_gemm"):
        if hasattr(module, name):
            setattr(module, name, lambda: True)


# Older releases inspect a model class in a child process, which knows nothing of the pretended GPU.
try:
    import vllm.model_executor.models.registry as model_registry

    if hasattr(model_registry, "_run_in_subprocess"):
        model_registry._run_in_subprocess = lambda fn: fn()
except ImportError:
    pass


class PretendGroup:
    """One rank of a process group of the given size; every rank but a pipeline's is taken for the first and last."""

    def __init__(self, size, stage=None):
        self.world_size = size
        self.rank = self.rank_in_group = self.local_rank = stage or 0
        self.ranks = list(range(size))
        self.is_first_rank = not stage
        self.is_last_rank = stage is None or stage == size - 1
        self.device = torch.device("cpu")
        class Quiet:
            world_size = size
            def __getattr__(self, name):
                return lambda *a, **k: None
        q = Quiet(); q.size = lambda: size; q.rank = lambda: 0
        self.device_group = self.cpu_group = q
        self.unique_name = "pretend"

    def __getattr__(self, name):
        return lambda *a, **k: None


# Symmetric-memory probes of DCP need real ranks (cp_common from 0.29 on, dcp_utils in 0.28).
for module in ("cp_common", "dcp_utils"):
    try:
        cp = importlib.import_module("vllm.v1.attention.ops." + module)
    except ImportError:
        continue
    for name in ("direct_cp_enabled", "direct_cp_multicast_enabled", "_direct_dcp_enabled", "_direct_dcp_multicast_enabled"):
        if hasattr(cp, name):
            setattr(cp, name, lambda *a, **k: False)
    break


class ToMeta(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if "cuda" in str(device) or (isinstance(device, int) and not isinstance(device, bool)):
            kwargs["device"] = "meta"
        if kwargs.get("pin_memory"):  # asks the driver
            kwargs["pin_memory"] = False
        if getattr(func, "__name__", "") in ("to", "cuda"):
            args = tuple(
                "meta" if isinstance(a, (str, torch.device)) and "cuda" in str(a) else a
                for a in args
            )
        return func(*args, **kwargs)


def init_groups(config, stage=0):
    import vllm.distributed.parallel_state as state

    parallel = config.parallel_config
    tp = parallel.tensor_parallel_size
    sizes = {
        "_TP": tp,
        "_PP": parallel.pipeline_parallel_size,
        "_DP": parallel.data_parallel_size,
        "_EP": tp * getattr(parallel, "prefill_context_parallel_size", 1) * parallel.data_parallel_size,
        "_DCP": getattr(parallel, "decode_context_parallel_size", 1),
        "_PCP": getattr(parallel, "prefill_context_parallel_size", 1),
        "_EPLB": 1,
        "_WORLD": 1,
        "_INNER_DP_WORLD": 1,
    }
    for name, size in sizes.items():
        if hasattr(state, name):
            setattr(state, name, PretendGroup(size, stage if name == "_PP" else None))


def leave_expert_maps_unsaid():
    """Their log line reads the map's numbers, which it has none of here."""
    try:
        from vllm.model_executor.layers.fused_moe.expert_map_manager import ExpertMapManager
    except ImportError:  # through 0.21
        from vllm.model_executor.layers.fused_moe import layer

        layer.get_compressed_expert_map = lambda *_: ""
    else:
        ExpertMapManager.get_compressed_map_string = lambda *_: ""


def build_model(config, stage=0):
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    init_groups(config, stage)
    leave_expert_maps_unsaid()
    try:
        from vllm.v1.worker.workspace import init_workspace_manager

        init_workspace_manager(torch.device("meta"))
    except ImportError:
        pass
    before = torch.get_default_dtype()
    torch.set_default_dtype(config.model_config.dtype)
    try:
        with set_current_vllm_config(config), torch.device("meta"), ToMeta():
            return initialize_model(config)
    finally:
        torch.set_default_dtype(before)


# Methods that run no network of their own.
MODELLESS = ("ngram", "ngram_gpu", "suffix", "custom_class")


def load_drafter(config, drafter, target):
    """Have the worker's own drafter load its model, weights left out."""
    import vllm.model_executor.model_loader as model_loader
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    real_get_model = model_loader.get_model

    def get_model(*, vllm_config, model_config=None, prefix="", **_):
        model_config = model_config or vllm_config.model_config
        before = torch.get_default_dtype()
        torch.set_default_dtype(model_config.dtype)
        try:
            return initialize_model(vllm_config, model_config=model_config, prefix=prefix)
        finally:
            torch.set_default_dtype(before)

    for module in list(sys.modules.values()):
        if module.__dict__.get("get_model") is real_get_model:
            module.get_model = get_model
    # V2 asks the target for its intermediate states before it loads the drafter, V1 after it
    v2 = uses_v2_model_runner(config)
    with set_current_vllm_config(config), torch.device("meta"), ToMeta():
        if v2:
            ask_for_states(config, drafter, target)
        drafter.load_model(target)
        if not v2:
            ask_for_states(config, drafter, target)


def ask_for_states(config, drafter, target):
    """What a runner does where the drafter reads the target's intermediate states (`use_aux_hidden_state_outputs`)."""
    spec = config.speculative_config
    if uses_v2_model_runner(config):
        from vllm.v1.worker.gpu.spec_decode.eagle import eagle3_utils as utils

        if hasattr(utils, "requires_aux_hidden_states"):
            wanted = utils.requires_aux_hidden_states(spec)
        else:
            wanted = spec.method in ("eagle3", "dflash", "dspark", "extract_hidden_states")
        if wanted:
            utils.set_eagle3_aux_hidden_state_layers(target, spec)
        return
    wanted = spec.method in ("eagle3", "dflash", "dspark", "extract_hidden_states")
    if spec.method == "eagle3":
        wanted = getattr(drafter, "eagle3_use_aux_hidden_state", True)
    if not wanted:
        return
    from vllm.model_executor.models.interfaces import supports_eagle3

    if not supports_eagle3(target):
        raise RuntimeError("Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested")


def uses_v2_model_runner(config):
    chosen = getattr(config, "use_v2_model_runner", None)
    if chosen is None:
        import vllm.envs as envs

        chosen = getattr(envs, "VLLM_USE_V2_MODEL_RUNNER", False)
    return bool(chosen)


def make_drafter(config, stage=0):
    """The proposer that this release's worker makes before it loads the target (v1/worker/gpu/model_runner.py or
    v1/worker/gpu_model_runner.py); None where the method runs no network."""
    from vllm.config import set_current_vllm_config

    spec = getattr(config, "speculative_config", None)
    if spec is None or spec.method in MODELLESS:
        return None
    init_groups(config, stage)
    with set_current_vllm_config(config), torch.device("meta"), ToMeta():
        return proposer(config, torch.device("meta"))


def proposer(config, device):
    if uses_v2_model_runner(config):
        from vllm.v1.worker.gpu.spec_decode import init_speculator

        try:
            return init_speculator(config, device, None)
        except TypeError:
            return init_speculator(config, device)
    return make_v1_proposer(config, device)


def make_v1_proposer(config, device):
    import importlib.util

    spec = config.speculative_config

    def find(module, name):
        if importlib.util.find_spec(f"vllm.v1.spec_decode.{module}") is None:
            return None
        return getattr(importlib.import_module(f"vllm.v1.spec_decode.{module}"), name)

    class Runner:
        """What a proposer looks at of its runner."""

        max_model_len = config.model_config.max_model_len
        pin_memory = False
        is_last_pp_rank = True
        vllm_config = config
        uses_mrope = False
        uses_xdrope_dim = 0

        def __getattr__(self, name):
            return None

    runner = Runner()
    if spec.method == "draft_model":
        return find("draft_model", "DraftModelProposer")(vllm_config=config, device=device, runner=runner)
    if spec.method == "extract_hidden_states":
        return find("extract_hidden_states", "ExtractHiddenStatesProposer")(vllm_config=config, device=device)
    if spec.method == "dflash":
        return find("dflash", "DFlashProposer")(config, device, runner)
    for test, module, name in (("use_gemma4_mtp", "gemma4", "Gemma4Proposer"),
                               ("use_step3p5_mtp", "step3p5", "Step3p5MTPProposer")):
        if hasattr(spec, test) and getattr(spec, test)():
            return find(module, name)(config, device, runner)
    if spec.method == "medusa":
        return find("medusa", "MedusaProposer")(vllm_config=config, device=device)
    return find("eagle", "EagleProposer")(config, device, runner)


def attention_layers(config):
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    return get_layers_from_vllm_config(config, AttentionLayerBase)


def kv_specs(config):
    from vllm.v1.kv_cache_interface import AttentionSpec

    try:
        from vllm.v1.worker.utils import customize_attention_spec
    except ImportError:
        customize_attention_spec = None
        try:
            # 0.28 to 0.31: the worker's own loop, which lets the backend pack the spec
            from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec
            from vllm.v1.attention.backend import AttentionBackend

            if hasattr(AttentionBackend, "customize_spec"):
                return get_kv_cache_spec(config)
        except ImportError:
            pass
    specs = {}
    for name, layer in attention_layers(config).items():
        if getattr(layer, "kv_sharing_target_layer_name", None):
            continue
        spec = layer.get_kv_cache_spec(config)
        if not spec:
            continue
        if customize_attention_spec and isinstance(spec, AttentionSpec):
            spec = customize_attention_spec(layer.get_attn_backend(), spec)
        if getattr(layer, "is_draft_layer", False) and hasattr(spec, "is_draft"):
            spec = dataclasses.replace(spec, is_draft=True)
        specs[name] = spec
    return specs


def plain(value):
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if dataclasses.is_dataclass(value):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value.name if hasattr(value, "name") else value
    return str(value)


def describe(spec):
    if type(spec).__name__ == "UniformTypeKVCacheSpecs":
        return {"kind": "UniformTypeKVCacheSpecs", "block_size": spec.block_size,
                "page_size_bytes": spec.page_size_bytes}
    out = {"kind": type(spec).__name__, "page_size_bytes": spec.page_size_bytes}
    for field in dataclasses.fields(spec):
        out[field.name] = plain(getattr(spec, field.name))
    return out


def parameter_bytes(model, but=None):
    """(bytes of every parameter and buffer of this rank, parameter count), without those of the model `but`."""
    seen, total, count = set(), 0, 0
    if but is not None:
        seen = {id(p) for p in list(but.parameters()) + list(but.buffers())}
    for p in list(model.parameters()) + list(model.buffers()):
        if id(p) in seen:
            continue
        seen.add(id(p))
        total += p.numel() * p.element_size()
        count += p.numel()
    return total, count


def speculative(config, model, drafter, specs, target_layers):
    """What the drafter adds: what it was taken for, its layers, its weights, what it makes the scheduler hold back."""
    spec = config.speculative_config
    layers = attention_layers(config)
    out = {"method": spec.method, "num_speculative_tokens": spec.num_speculative_tokens,
           "num_lookahead_tokens": getattr(config, "num_lookahead_tokens", None),
           "max_num_scheduled_tokens": getattr(config.scheduler_config, "max_num_scheduled_tokens", None),
           "max_num_active_seqs": getattr(config.scheduler_config, "max_num_active_seqs", None),
           "v2_model_runner": uses_v2_model_runner(config),
           "layers": sorted(n for n in specs if n not in target_layers),
           "shared_layers": sorted(n for n in layers if n not in target_layers and n not in specs)}
    if spec.method not in MODELLESS and spec.draft_model_config is not None:
        out["draft_max_model_len"] = spec.draft_model_config.max_model_len
        out["architectures"] = list(spec.draft_model_config.architectures or [])
    drafted = getattr(drafter, "model", None)
    if isinstance(drafted, torch.nn.Module):
        out["parameter_bytes"], out["parameter_count"] = parameter_bytes(drafted, but=model)
    return out


class Capture(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        try:
            self.lines.append(f"{record.levelname} {record.getMessage()}")
        except Exception:
            pass


def run_case(case):
    gpu = case["gpu"]
    PretendGpu.cc = DeviceCapability(*gpu["cc"])
    PretendGpu.gpu_name = gpu.get("name", "NVIDIA GPU")
    PretendGpu.total_memory = int(gpu.get("mem_gib", 80) * 1024**3)
    os.environ.update(case.get("env", {}))
    model_dir = case.get("model")
    if model_dir is None:
        model_dir = tempfile.mkdtemp()
        with open(os.path.join(model_dir, "config.json"), "w") as f:
            json.dump(case["hf_config"], f)
    capture = Capture()
    logging.getLogger("vllm").addHandler(capture)
    out = {"id": case.get("id"), "vllm": vllm.__version__, "ok": False, "stage": "config"}
    try:
        args = EngineArgs(model=model_dir, skip_tokenizer_init=True, load_format="dummy",
                          **case.get("args", {}))
        usage = None
        try:
            from vllm.usage.usage_lib import UsageContext

            usage = (UsageContext.OPENAI_API_SERVER if case.get("usage", "server") == "server"
                     else UsageContext.LLM_CLASS)
        except ImportError:
            pass
        config = args.create_engine_config(usage)
        from vllm.platforms import current_platform

        # Each stage of a pipeline has a configuration of its own, as each worker does.
        stages = config.parallel_config.pipeline_parallel_size
        configs = [config] + [copy.deepcopy(config) for _ in range(1, stages)]
        rank_specs = []
        for stage, own in enumerate(configs):
            out["stage"] = "model"
            if stages == 1 and context_parallel(config) and pcp_is_validated_first():
                validate_pcp(config)
            if stage:
                own.parallel_config.rank = stage * own.parallel_config.tensor_parallel_size
            last = own is configs[-1]  # the drafter's
            drafter = make_drafter(own, stage) if last else None
            built = build_model(own, stage)
            if not stage:
                weight_bytes, weight_count = parameter_bytes(built)
            drafts = last and getattr(own, "speculative_config", None)
            target_layers = set(attention_layers(own)) if drafts else None
            if drafter is not None:
                load_drafter(own, drafter, built)
            out["stage"] = "specs"
            if hasattr(current_platform, "update_block_size_for_backend"):
                current_platform.update_block_size_for_backend(own)
            rank_specs.append(kv_specs(own))
        specs = {name: spec for one in rank_specs for name, spec in one.items()}
        cache, sched = config.cache_config, config.scheduler_config
        out.update(
            cache_dtype=cache.cache_dtype,
            block_size=cache.block_size,
            max_model_len=config.model_config.max_model_len,
            max_num_batched_tokens=sched.max_num_batched_tokens,
            max_num_seqs=sched.max_num_seqs,
            gpu_memory_utilization=cache.gpu_memory_utilization,
            max_concurrent_batches=getattr(config, "max_concurrent_batches", None),
            max_in_flight_tokens=getattr(config, "max_in_flight_tokens", None),
            parameter_bytes=weight_bytes,
            parameter_count=weight_count,
            backends=sorted({l.get_attn_backend().get_name()
                             for own in configs for l in attention_layers(own).values()}),
            layers={n: describe(s) for n, s in specs.items()},
        )
        if target_layers is not None:
            out["speculative"] = speculative(configs[-1], built, drafter, rank_specs[-1], target_layers)
        out["stage"] = "plan"
        if case.get("available_memory") is not None:
            planned = {}
            shares_tokens = len(configs) == 1 and context_parallel(config)
            if shares_tokens and profiles_graphs(config):
                out["stage"] = "engine"
                set_up_cache(config, specs)
                out["stage"] = "plan"
            kv, sched_kv = plan(configs, rank_specs, int(case["available_memory"]), planned)
            if shares_tokens:
                out["stage"] = "engine"
                start_engine(config, specs, kv, sched_kv)
            out.update(planned)
        out["ok"], out["stage"] = True, "done"
    except BaseException as e:  # the error is the answer
        out["error_type"] = type(e).__name__
        out["error"] = str(e)
        if os.environ.get("ORACLE_TRACE"):
            traceback.print_exc()
    out["log"] = [l for l in capture.lines if any(
        k in l for k in ("KV cache", "kv cache", "Using ", "Auto-fit", "backend", "block size",
                         "fp8", "padding", "Maximum concurrency"))]
    return out


def context_parallel(config):
    parallel = config.parallel_config
    return (getattr(parallel, "decode_context_parallel_size", 1) > 1
            or getattr(parallel, "prefill_context_parallel_size", 1) > 1)


def profiles_graphs(config):
    """Whether memory profiling sets up a small KV cache, ahead of the plan: to see what CUDA graphs take."""
    if config.cache_config.kv_cache_memory_bytes or config.compilation_config.cudagraph_mode.name == "NONE":
        return False
    if not uses_v2_runner(config):
        return True
    try:  # through 0.28 the second model runner does not look
        from vllm.v1.worker.gpu.cudagraph_utils import profile_cudagraph_memory  # noqa: F401
    except ImportError:
        return False
    return True


def uses_v2_runner(config):
    if hasattr(type(config), "use_v2_model_runner"):
        return config.use_v2_model_runner
    import vllm.envs as envs

    return bool(envs.VLLM_USE_V2_MODEL_RUNNER)


def validate_pcp(config):
    """What the second model runner says of prefill context parallelism: since 0.33 before it loads the model,
    before when it sets up the KV cache."""
    if getattr(config.parallel_config, "prefill_context_parallel_size", 1) > 1 and uses_v2_runner(config):
        from vllm.v1.worker.gpu.pcp_manager import PCPManager

        # vLLM asks the model's processor, whose files are not at hand (it would take "no file" for "no images")
        images = config.model_config.is_multimodal_model
        PCPManager.validate_config(config, images)


def pcp_is_validated_first():
    try:
        from vllm.v1.worker.gpu.pcp_manager import maybe_build_pcp_manager
    except ImportError:
        return False
    return inspect.signature(maybe_build_pcp_manager).parameters["block_tables"].default is None


def ask_builders(config, specs):
    """What the builders of attention metadata say when they are made. Some want a GPU: of their errors only those
    count that speak of context parallelism."""
    from vllm.config import set_current_vllm_config
    from vllm.v1.kv_cache_interface import AttentionSpec

    asked = set()
    for name, layer in attention_layers(config).items():
        spec = specs.get(name)
        builder = layer.get_attn_backend().get_builder_cls()
        if not isinstance(spec, AttentionSpec) or (builder, spec) in asked:  # states are never shared
            continue
        asked.add((builder, spec))
        try:
            with set_current_vllm_config(config), torch.device("meta"), ToMeta():
                wants = inspect.signature(builder.__init__).parameters
                more = {"block_table_width": 1} if "block_table_width" in wants else {}
                builder(spec, [name], config, torch.device("meta"), **more)
        except Exception as e:
            if re.search(r"[DP]CP|interleave", str(e)):
                raise
            at = [f for f in traceback.extract_tb(e.__traceback__) if "vllm/" in f.filename][-1]
            print(f"{builder.__name__} was not made: {type(e).__name__}: {e} ({at.filename}:{at.lineno})", file=sys.stderr)


def set_up_cache(config, specs):
    """What the worker says when it sets up the KV cache, as far as context parallelism goes."""
    from vllm.v1.worker.cp_utils import check_attention_cp_compatibility

    if uses_v2_runner(config):
        ask_builders(config, specs)
        if not pcp_is_validated_first():
            validate_pcp(config)
        check_attention_cp_compatibility(config)
    else:
        check_attention_cp_compatibility(config)
        ask_builders(config, specs)


def start_engine(config, specs, kv, sched_kv):
    """What the engine core checks once the KV cache is planned, up to its scheduler."""
    from vllm.v1.core import kv_cache_utils as utils
    from vllm.v1.core.sched import scheduler

    cache = config.cache_config
    cache.num_gpu_blocks = kv.num_blocks
    groups = sched_kv.kv_cache_groups
    own = [g.kv_cache_spec.block_size for g in groups if getattr(g.kv_cache_spec, "prefix_cacheable", True)]
    before = cache.block_size
    cache.block_size = min(own or [g.kv_cache_spec.block_size for g in groups])
    config.validate_block_size()
    sizes = utils.resolve_kv_cache_block_sizes(sched_kv, config)
    if not profiles_graphs(config):
        set_up_cache(config, specs)

    class NoImages:
        """Stands for the registry of processors and for their budget, which want files that are not at hand."""

        def __init__(self, *a, **k):
            pass

        def supports_multimodal_inputs(self, *a, **k):
            return False

        def __getattr__(self, name):
            return 1

    scheduler.MultiModalBudget = NoImages
    scheduler.Scheduler(vllm_config=config, kv_cache_config=sched_kv, structured_output_manager=None,
              block_size=sizes[0], hash_block_size=sizes[1], mm_registry=NoImages())
    cache.block_size = before


def tensors(kv):
    return [
        {k: plain(getattr(t, k)) for k in ("size", "layers", "layer_stride", "block_stride", "offset",
                                           "shared_by", "block_stride_bytes")
         if hasattr(t, k)} for t in kv.kv_cache_tensors]


def allocated(kv):
    sizes = [t.size for t in kv.kv_cache_tensors]
    # Tensors that are no part of one backing (no stride from block to block) are allocated one by one.
    apart = all(getattr(t, "block_stride", 0) == 0 for t in kv.kv_cache_tensors)
    return (sum(sizes) if apart else max(sizes)) if sizes else 0


def plan(configs, rank_specs, available, out):
    """Fills `out`; what was planned for the first stage, and for the scheduler."""
    config, available = configs[0], [available] * len(configs)
    from vllm.v1.core import kv_cache_utils as utils

    try:
        from vllm.v1.core import kv_cache_planning as planning
    except ImportError:
        planning = utils
    try:
        from vllm.v1.kv_cache_spec_registry import register_all_kvcache_specs

        register_all_kvcache_specs(config)
    except ImportError:
        try:
            from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs

            register_all_kvcache_specs(config)
        except ImportError:
            pass
    try:
        from vllm.v1.attention.backends.utils import (
            get_supported_kv_cache_layouts, resolve_kv_cache_layout)

        names = []
        for own in configs:
            backends = list(dict.fromkeys(l.get_attn_backend() for l in attention_layers(own).values()))
            names.append([x.name for x in get_supported_kv_cache_layouts(backends)])
        out["kv_cache_layout"] = resolve_kv_cache_layout(
            config, names, [s for specs in rank_specs for s in specs.values()]).name
    except ImportError:
        pass
    # What each rank makes of its memory, before vLLM levels the ranks' blocks.
    alone = {}
    owner = getattr(planning, "DefaultKVCacheConfigBuilder", planning)
    from_groups = owner.get_kv_cache_config_from_groups

    def remember(*a, **k):
        made = from_groups(*a, **k)
        key = json.dumps([g.layer_names for g in made.kv_cache_groups])
        alone[key] = max(made.num_blocks, alone.get(key, 0))
        return made

    if len(configs) > 1:
        owner.get_kv_cache_config_from_groups = remember
    if hasattr(planning, "get_global_kv_cache_groups"):
        groups = planning.get_global_kv_cache_groups(config, rank_specs)
        all_kv = planning.get_kv_cache_configs(config, rank_specs, available, groups)
    else:
        all_kv = planning.get_kv_cache_configs(config, rank_specs, available)
    kv = all_kv[0]
    out["max_model_len"] = config.model_config.max_model_len
    out["num_blocks"] = kv.num_blocks
    out["allocated_bytes"] = allocated(kv)
    out["tensors"] = tensors(kv)
    out["groups"] = [
        {"layers": list(g.layer_names), **describe(g.kv_cache_spec)} for g in kv.kv_cache_groups]
    if len(configs) > 1:
        out["ranks"] = [
            {"num_blocks": alone[json.dumps([g.layer_names for g in one.kv_cache_groups])],
             "allocated_bytes": allocated(one),
             "layers": list(specs),
             "groups": [list(g.layer_names) for g in one.kv_cache_groups],
             "tensors": tensors(one)}
            for one, specs in zip(all_kv, rank_specs)]
    sched_kv = utils.generate_scheduler_kv_cache_config(all_kv)
    for g, d in zip(sched_kv.kv_cache_groups, out["groups"]):
        spec = g.kv_cache_spec
        d["blocks_per_request"] = -(-spec.max_memory_usage_bytes(config) // spec.page_size_bytes)
    if hasattr(utils, "get_kv_cache_capacity"):
        tokens, concurrency = utils.get_kv_cache_capacity(config, sched_kv)
        out["capacity_tokens"], out["max_concurrency"] = tokens, concurrency
    elif hasattr(utils, "get_max_concurrency_for_kv_cache_config"):
        out["max_concurrency"] = utils.get_max_concurrency_for_kv_cache_config(config, kv)
    if hasattr(utils, "update_kv_cache_capacity"):  # older releases log while planning
        utils.update_kv_cache_capacity(config, sched_kv)
    return kv, sched_kv


def main():
    source = open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin
    cases = [json.loads(line) for line in source if line.strip()]
    if cases and os.environ.get("ORACLE_PREIMPORT"):
        # Import what the cases need once, ahead of the forks: several times faster. Some modules
        # look at the GPU when imported, so such a run must hold one compute capability only.
        assert len({tuple(c["gpu"]["cc"]) for c in cases}) == 1, "one compute capability a run"
        PretendGpu.cc = DeviceCapability(*cases[0]["gpu"]["cc"])
        for name in os.environ["ORACLE_PREIMPORT"].split(","):
            importlib.import_module(name)
    for case in cases:
        read, write = os.pipe()
        pid = os.fork()  # a fresh interpreter state per case: vLLM caches a lot globally
        if pid == 0:
            os.close(read)
            start = time.time()
            result = run_case(case)
            result["seconds"] = round(time.time() - start, 1)
            with os.fdopen(write, "w") as f:
                json.dump(result, f)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as f:
            text = f.read()
        os.waitpid(pid, 0)
        print(text or json.dumps({"id": case.get("id"), "ok": False, "error": "the case's process died"}),
              file=answers, flush=True)


if __name__ == "__main__":
    main()
