//! What sets releases apart under context parallelism.

use crate::backend::AttentionBackend;

/// A release's part in context parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextRules {
    /// Ranks of prefill share the cache as those of decoding do, and models of
    /// several groups may have neither (through 0.25).
    pub shards_over_prefill: bool,
    /// What ranks of decoding may span beside ranks of prefill.
    pub checks: PcpChecks,
    /// Replicas beside ranks of prefill.
    pub data_parallel: PcpWithDataParallel,
    /// `dcp_comm_backend=a2a` is refused without ranks that share KV (through
    /// 0.28); since, models have a say in the default.
    pub all_to_all_needs_dcp: bool,
    /// `dcp_kv_cache_interleave_size` overrides the newer name (through 0.28).
    pub reads_former_interleave: bool,
    /// A language model inside another is configured without its architecture's
    /// name, which the check of ranks that share KV asks for (through 0.29).
    pub nameless_submodels: bool,
    /// The model runner that prefill context parallelism gets.
    pub runner: PcpRunner,
    /// Models that the second runner runs whatever they are made of, of those
    /// modelled, while others are chosen by their kind (0.28).
    /// `vllm/config/vllm.py` `DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES`
    pub second_runner_models: &'static [&'static str],
    /// The second runner measures CUDA graphs, too (since 0.29).
    pub second_runner_measures_graphs: bool,
    /// What the second runner takes together with CUDA graphs.
    pub graphs: PcpGraphs,
    /// What an indexer's builder takes.
    pub indexer: IndexerTurns,
    /// What the builder of FlashMLA's sparse kernel takes.
    pub flashmla_sharing: FlashmlaSharing,
    /// FlashMLA's sparse kernel tells its softmax's LSE (since 0.29).
    pub flashmla_sparse_tells_lse: bool,
    /// Backends whose implementations check drafted tokens where ranks take turns of several.
    /// `supports_mtp_with_cp_non_trivial_interleave_size`
    pub drafting_in_turns: &'static [AttentionBackend],
    /// FlashInfer's dense MLA takes turns of one token alone (since 0.29).
    pub flashinfer_mla_takes_turns_of_one: bool,
}

/// Which sizes of `decode_context_parallel_size` pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcpChecks {
    /// Divisors of `tensor_parallel_size` (through 0.25).
    TensorOnly,
    /// Beside ranks of prefill: none, those, or all (since 0.26).
    Axes,
}

/// Whether ranks of prefill may be replicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcpWithDataParallel {
    /// They may (through 0.25, and since 0.31).
    Taken,
    /// The class of the sizes refuses (0.26 to 0.29).
    Refused,
    /// The platform refuses (0.30).
    RefusedByPlatform,
}

/// Which of vLLM's two model runners prefill context parallelism gets, and when
/// that one looks at the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcpRunner {
    /// The first, as DeepSeek V4 does anyway (through 0.26).
    First,
    /// The second, where the model is MLA; it looks when it sets up the cache
    /// (0.27 and 0.28).
    SecondIfMla,
    /// The second, as any model does; it looks when it sets up the cache (0.29 to 0.32).
    Second,
    /// The second; it looks when it is made (since 0.33).
    SecondAtOnce,
}

/// CUDA graphs under prefill context parallelism.
/// `vllm/v1/worker/gpu/pcp_manager.py` `PCPManager.validate_config`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcpGraphs {
    /// None but those of pieces, which are not the default (through 0.29).
    Piecewise,
    /// Not with sparse MLA, unless KV is shared (0.30 to 0.32). Since 0.30, too,
    /// dense MLA may not be under both kinds of context parallelism.
    DenseOnly,
    /// The same, but DeepSeek V3.2 and GLM's sparse models may (since 0.33).
    Listed,
}

/// Tokens in a row on one rank, as an indexer's builder takes them.
/// `vllm/v1/attention/backends/mla/indexer.py`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexerTurns {
    /// It does not look.
    Unchecked,
    /// One.
    OfOne,
    /// Any; none over compressed states.
    Any,
    /// Any; of compressed states whole ones.
    OfWholeStates,
}

/// Sharing KV on FlashMLA's sparse kernel.
/// `vllm/v1/attention/backends/mla/flashmla_sparse.py` `FlashMLASparseMetadataBuilder`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashmlaSharing {
    /// The builder does not look (through 0.28).
    Unchecked,
    /// By `ag_rs` alone (0.29 to 0.32).
    GatherScatter,
    /// By either backend (since 0.33).
    Any,
}
