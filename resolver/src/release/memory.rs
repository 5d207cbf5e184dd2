//! How releases come to what is left for the KV cache.

/// What a release counts before it gives the KV cache the rest.
#[derive(Debug, Clone, Copy)]
pub struct MemoryRules {
    /// Everything that the process has taken is counted (since 0.27), the runner's own
    /// buffers among it; before, what torch took for weights and in the profiling run.
    /// `vllm/utils/mem_utils.py` `memory_profiling`
    pub counts_all: bool,
    /// cuBLAS' handles are made before anything is counted (since 0.33).
    /// `vllm/v1/worker/gpu_worker.py` `Worker.init_device`
    pub handles_first: bool,
    /// The second model runner's profiling runs the sampler once more, in float32
    /// (since 0.33). `vllm/v1/worker/gpu/model_runner.py` `_dummy_sampler_run`
    pub warms_sampler: bool,
    /// CUDA graphs reach 1,024 tokens on SM100 (since 0.28), 512 elsewhere.
    /// `vllm/config/vllm.py` `_set_cudagraph_sizes`
    pub wide_graphs_on_sm100: bool,
    /// Rows that an indexer gathers into, in lengths of the longest request: 40 through
    /// 0.31; since then 40, or 16 past 262,144 tokens.
    /// `vllm/v1/attention/backends/mla/indexer.py` `get_max_prefill_buffer_size`
    pub fewer_rows_when_long: bool,
    /// `DeepGEMM`'s first workspace is of fp8 (since 0.31).
    pub halves_deep_gemm: bool,
    /// On SM103 with 8 ranks, the fused all-reduce takes up to 4 MiB (0.33); before, 2.
    pub wider_fused_on_sm103: bool,
}

pub(super) const V0_33_0: MemoryRules = MemoryRules {
    counts_all: true,
    handles_first: true,
    warms_sampler: true,
    wide_graphs_on_sm100: true,
    fewer_rows_when_long: true,
    halves_deep_gemm: true,
    wider_fused_on_sm103: true,
};

pub(super) const V0_32_0: MemoryRules = MemoryRules {
    handles_first: false,
    warms_sampler: false,
    wider_fused_on_sm103: false,
    ..V0_33_0
};

pub(super) const V0_31_0: MemoryRules = MemoryRules {
    fewer_rows_when_long: false,
    ..V0_32_0
};

pub(super) const V0_30_0: MemoryRules = MemoryRules {
    halves_deep_gemm: false,
    ..V0_31_0
};

pub(super) const V0_27_1: MemoryRules = MemoryRules {
    wide_graphs_on_sm100: false,
    ..V0_30_0
};

pub(super) const V0_26_0: MemoryRules = MemoryRules {
    counts_all: false,
    ..V0_27_1
};
