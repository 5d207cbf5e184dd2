//! Each release as what it did differently from the next.

use super::context::{
    ContextRules, FlashmlaSharing, IndexerTurns, PcpChecks, PcpGraphs, PcpRunner,
    PcpWithDataParallel,
};
use super::profile::{
    AutoFitLog, BlockRule, CapacityLog, CapacityRule, Checkpoints, EmptyBlock, Files, Grouping,
    InFlight, MambaMode, ModelRunner, PackedDtypeRule, Profile, SlotRule, StrideRule, UnknownDtype,
    V4Classes, V4Heads, WindowBlock,
};
use super::{drafting, log, memory, tables, weights};
use crate::backend::{AttentionBackend, registry, rules};
use crate::error::{MemoryTexts, PackedAssertion};

/// What was dumped from vLLM: the lists.
macro_rules! listed {
    ($release:ident, $rest:expr, { $($field:ident: $value:expr),* $(,)? }) => {
        Profile {
            engine_args: tables::$release.engine_args,
            cache_dtypes: tables::$release.cache_dtypes,
            attention_backends: registry::$release,
            drafting: &drafting::$release,
            $($field: $value,)*
            ..$rest
        }
    };
}

pub(super) const V0_33_0: Profile = Profile {
    models_all_families: true,
    engine_args: tables::V0_33_0.engine_args,
    cache_dtypes: tables::V0_33_0.cache_dtypes,
    attention_backends: registry::V0_33_0,
    backend_rules: &rules::V0_33_0,
    drafting: &drafting::V0_33_0,
    weights: weights::V0_33_0,
    memory: memory::V0_33_0,
    files: Files {
        planner: "vllm/v1/core/kv_cache_planning.py",
        v4_model: "vllm/models/deepseek_v4/nvidia/model.py",
        v4_attention: "vllm/models/deepseek_v4/attention.py",
        v4_compressor: "vllm/models/deepseek_v4/compressor.py",
        v4_flashmla: "vllm/models/deepseek_v4/nvidia/flashmla.py",
        v4_writer: "vllm/models/deepseek_v4/common/ops/cache_utils.py",
        v4_compress: "vllm/models/deepseek_v4/common/ops/fused_compress_quant_cache.py",
        v4_states: "vllm/models/deepseek_v4/common/ops/save_partial_states.py",
    },
    unknown_dtype: UnknownDtype::Config,
    bounds_sizes: true,
    checks_float_clash: true,
    wants_activation_scheme: false,
    instead_of_nvfp4: Some("'fp8', 'auto', or 'nvfp4_ds_mla' with a sparse MLA backend"),
    trips_over_unnamed_text: false,
    gb10_is_small: true,
    has_huge_tier: true,
    length_is_yarns: false,
    dcp_divides: "divisible by ",
    in_flight: InFlight::EveryBatch,
    model_runner: ModelRunner::Second,
    v4_has_stages: true,
    v4_window_is_strict: true,
    v4_classes: V4Classes::ByArch,
    v4_heads: V4Heads::FromEight,
    pads_shared_experts: true,
    packed_dtype_rule: PackedDtypeRule::AutoIsFp8,
    aligns_plain_rows: true,
    rows_carry_quant_mode: true,
    nvfp4_packs_window: true,
    nvfp4_sides_are_dense: true,
    indexer_repeats_scales: true,
    stride_rule: StrideRule::KernelBlocks,
    window_kernel_tokens: 32,
    aligns_skipped_blocks: true,
    checks_aligned_block: true,
    block_suits_all: true,
    window_block: WindowBlock::Largest,
    state_block_suits_all: true,
    state_block_suits_prefill: true,
    checkpoints: Checkpoints::All,
    mamba_mode: MambaMode::Ignored,
    glm_is_fp8_on_sm100: true,
    kda_state_is_set: true,
    context: ContextRules {
        shards_over_prefill: false,
        checks: PcpChecks::Axes,
        data_parallel: PcpWithDataParallel::Taken,
        all_to_all_needs_dcp: false,
        reads_former_interleave: false,
        nameless_submodels: false,
        runner: PcpRunner::SecondAtOnce,
        second_runner_models: &[],
        second_runner_measures_graphs: true,
        graphs: PcpGraphs::Listed,
        indexer: IndexerTurns::OfWholeStates,
        flashmla_sharing: FlashmlaSharing::Any,
        flashmla_sparse_tells_lse: true,
        drafting_in_turns: &[
            AttentionBackend::FlashmlaSparse,
            AttentionBackend::TokenspeedMla,
        ],
        flashinfer_mla_takes_turns_of_one: true,
    },
    tells_layers_of_cache: true,
    leaders_have_specs: true,
    refines_expert_blocks: true,
    sorts_skipped_as_numbers: false,
    hybrid_manager_flag: "--enable-hybrid-kv-cache-manager",
    has_layouts: true,
    grouping: Grouping::Packed,
    block_rule: BlockRule::SideBySide,
    empty_block: EmptyBlock::Tried,
    one_backing: true,
    windows_split_to_fit: true,
    pads_by_block_stride: false,
    promotion_fails_on: Some("bounded_replay"),
    reserves_null_block: true,
    memory_texts: MemoryTexts::OnCpuToo,
    capacity_rule: CapacityRule::WholeBlocks,
    capacity_log: CapacityLog::OneLine,
    auto_fit_log: AutoFitLog::KvCacheMemory,
    log: log::V0_33_0,
};

pub(super) const V0_32_0: Profile = listed!(V0_32_0, V0_33_0, {
    log: log::V0_32_0,
    weights: weights::V0_32_0,
    memory: memory::V0_32_0,
    backend_rules: &rules::V0_32_0,
    unknown_dtype: UnknownDtype::Parser,
    checks_float_clash: false,
    indexer_repeats_scales: false,
    empty_block: EmptyBlock::Divided,
    wants_activation_scheme: true,
    v4_window_is_strict: false,
    gb10_is_small: false,
    state_block_suits_prefill: false,
    checkpoints: Checkpoints::KdaAndMamba2,
    mamba_mode: MambaMode::FollowsCaching,
    context: ContextRules {
        runner: PcpRunner::Second,
        graphs: PcpGraphs::DenseOnly,
        flashmla_sharing: FlashmlaSharing::GatherScatter,
        ..V0_33_0.context
    },
    hybrid_manager_flag: "--no-disable-hybrid-kv-cache-manager",
    files: Files {
        planner: "vllm/v1/core/kv_cache_utils.py",
        ..V0_33_0.files
    },
});

pub(super) const V0_31_0: Profile = listed!(V0_31_0, V0_32_0, {
    log: log::V0_31_0,
    auto_fit_log: AutoFitLog::GpuMemory,
    weights: weights::V0_31_0,
    memory: memory::V0_31_0,
    backend_rules: &rules::V0_31_0,
    nvfp4_sides_are_dense: false,
    stride_rule: StrideRule::SparseRows,
    checks_aligned_block: false,
    empty_block: EmptyBlock::Asserted,
    state_block_suits_all: false,
    checkpoints: Checkpoints::Kda,
    mamba_mode: MambaMode::MayBeAll,
    glm_is_fp8_on_sm100: false,
    tells_layers_of_cache: false,
    sorts_skipped_as_numbers: true,
    context: ContextRules {
        indexer: IndexerTurns::Any,
        drafting_in_turns: &[AttentionBackend::FlashmlaSparse],
        ..V0_32_0.context
    },
});

pub(super) const V0_30_0: Profile = listed!(V0_30_0, V0_31_0, {
    log: log::V0_30_0,
    weights: weights::V0_30_0,
    memory: memory::V0_30_0,
    backend_rules: &rules::V0_30_0,
    nvfp4_packs_window: false,
    stride_rule: StrideRule::Nothing,
    block_suits_all: false,
    promotion_fails_on: None,
    context: ContextRules {
        data_parallel: PcpWithDataParallel::RefusedByPlatform,
        ..V0_31_0.context
    },
});

pub(super) const V0_29_0: Profile = listed!(V0_29_0, V0_30_0, {
    log: log::V0_29_0,
    weights: weights::V0_29_0,
    backend_rules: &rules::V0_29_0,
    trips_over_unnamed_text: true,
    instead_of_nvfp4: Some("'fp8' or 'auto'"),
    length_is_yarns: true,
    window_kernel_tokens: 64,
    packed_dtype_rule: PackedDtypeRule::AssertFp8(PackedAssertion::Layout),
    windows_split_to_fit: false,
    window_block: WindowBlock::Smallest,
    leaders_have_specs: false,
    kda_state_is_set: false,
    context: ContextRules {
        data_parallel: PcpWithDataParallel::Refused,
        nameless_submodels: true,
        graphs: PcpGraphs::Piecewise,
        indexer: IndexerTurns::OfOne,
        drafting_in_turns: &[],
        ..V0_30_0.context
    },
});

pub(super) const V0_28_0: Profile = listed!(V0_28_0, V0_29_0, {
    weights: weights::V0_28_0,
    backend_rules: &rules::V0_28_0,
    has_layouts: false,
    model_runner: ModelRunner::ByModel,
    checkpoints: Checkpoints::None,
    refines_expert_blocks: false,
    context: ContextRules {
        all_to_all_needs_dcp: true,
        reads_former_interleave: true,
        runner: PcpRunner::SecondIfMla,
        second_runner_models: &["DeepseekV4ForCausalLM", "KimiK3ForConditionalGeneration"],
        second_runner_measures_graphs: false,
        flashmla_sharing: FlashmlaSharing::Unchecked,
        flashmla_sparse_tells_lse: false,
        flashinfer_mla_takes_turns_of_one: false,
        ..V0_29_0.context
    },
    grouping: Grouping::FullFirst { raises_pages: false },
    block_rule: BlockRule::Slots(SlotRule::ByOffset),
    pads_by_block_stride: true,
    reserves_null_block: false,
});

pub(super) const V0_27_1: Profile = listed!(V0_27_1, V0_28_0, {
    weights: weights::V0_27_1,
    memory: memory::V0_27_1,
    models_all_families: false,
    has_huge_tier: false,
    model_runner: ModelRunner::First,
    context: ContextRules { second_runner_models: &[], ..V0_28_0.context },
    capacity_log: CapacityLog::TwoLines,
});

pub(super) const V0_26_0: Profile = listed!(V0_26_0, V0_27_1, {
    log: log::V0_26_0,
    weights: weights::V0_26_0,
    memory: memory::V0_26_0,
    v4_heads: V4Heads::HalvesBySm120,
    context: ContextRules { runner: PcpRunner::First, ..V0_27_1.context },
    grouping: Grouping::FullFirst { raises_pages: true },
    block_rule: BlockRule::Slots(SlotRule::ByPageSize),
    capacity_rule: CapacityRule::BytesOverFirstGroup { has_metric: true },
});

pub(super) const V0_25_1: Profile = listed!(V0_25_1, V0_26_0, {
    dcp_divides: "divisible by",
    context: ContextRules {
        shards_over_prefill: true,
        checks: PcpChecks::TensorOnly,
        data_parallel: PcpWithDataParallel::Taken,
        ..V0_26_0.context
    },
    in_flight: InFlight::OneBatch { counts_batches: true },
});

pub(super) const V0_24_0: Profile = listed!(V0_24_0, V0_25_1, {
    aligns_plain_rows: false,
    context: ContextRules { indexer: IndexerTurns::Unchecked, ..V0_25_1.context },
    rows_carry_quant_mode: false,
    aligns_skipped_blocks: false,
});

pub(super) const V0_23_0: Profile = listed!(V0_23_0, V0_24_0, {
    weights: weights::V0_23_0,
    v4_classes: V4Classes::FlashInferByName,
    v4_heads: V4Heads::Halves,
    pads_shared_experts: false,
    packed_dtype_rule: PackedDtypeRule::AssertFp8(PackedAssertion::FlashMla),
    one_backing: false,
    capacity_rule: CapacityRule::BytesOverFirstGroup { has_metric: false },
});

pub(super) const V0_22_1: Profile = listed!(V0_22_1, V0_23_0, {
    bounds_sizes: false,
    in_flight: InFlight::OneBatch { counts_batches: false },
    v4_classes: V4Classes::FlashMlaOnly,
    packed_dtype_rule: PackedDtypeRule::AssertFp8(PackedAssertion::ForNow),
    block_rule: BlockRule::Slots(SlotRule::LayerTuples),
});

pub(super) const V0_21_0: Profile = listed!(V0_21_0, V0_22_1, {
    weights: weights::V0_21_0,
    v4_heads: V4Heads::UpTo128,
    memory_texts: MemoryTexts::Models,
    files: Files {
        v4_model: "vllm/model_executor/models/deepseek_v4.py",
        v4_attention: "vllm/model_executor/layers/deepseek_v4_attention.py",
        v4_compressor: "vllm/model_executor/layers/deepseek_compressor.py",
        v4_flashmla: "vllm/model_executor/layers/deepseek_v4_attention.py",
        v4_writer: "vllm/v1/attention/ops/deepseek_v4_ops/cache_utils.py",
        v4_compress: "vllm/v1/attention/ops/deepseek_v4_ops/fused_compress_quant_cache.py",
        v4_states: "vllm/model_executor/layers/deepseek_compressor.py",
        ..V0_22_1.files
    },
});

pub(super) const V0_20_2: Profile = listed!(V0_20_2, V0_21_0, {
    log: log::V0_20_2,
    instead_of_nvfp4: None,
    v4_has_stages: false,
});
