//! The behaviours in which releases differ. An algorithm that changed lives in
//! one file per era; a profile only chooses.

use super::context::ContextRules;
use crate::backend::AttentionBackend;
use crate::backend::rules::{Rules, Target};
use crate::dtype::CacheDtype;
use crate::error::{MemoryTexts, PackedAssertion};
use crate::gpu::Arch;
use crate::units::{format_gib, thousands};

use super::drafting::Drafting;
use super::engine_args::FlagNames;
use super::log::LogRules;
use super::memory::MemoryRules;
use super::weights::WeightRules;

/// The behaviours of a release. Each names the version that brought it.
#[derive(Debug)]
pub struct Profile {
    /// Whether the families beside DeepSeek V4 have rules here.
    pub models_all_families: bool,
    /// Names that `EngineArgs` takes.
    pub engine_args: FlagNames,
    /// Spellings that `--kv-cache-dtype` takes, in the order of vLLM's list.
    pub cache_dtypes: &'static [CacheDtype],
    /// Names that `--attention-backend` takes, in the order of vLLM's enum.
    pub attention_backends: &'static [AttentionBackend],
    /// What its attention backends say, where that differs between releases.
    pub(crate) backend_rules: &'static Rules,
    /// What it does with drafters.
    pub(crate) drafting: &'static Drafting,
    /// What it builds of a model's weights.
    pub(crate) weights: WeightRules,
    /// What it counts before the KV cache gets the rest.
    pub(crate) memory: MemoryRules,
    /// Where the code lies that the trace names.
    pub files: Files,

    /// Who stops a spelling that does not exist.
    pub unknown_dtype: UnknownDtype,
    /// Sizes below 1 are refused where the config is checked (since 0.23).
    pub bounds_sizes: bool,
    /// A float16 or bfloat16 cache against a model of another dtype is refused
    /// when the config is checked (since 0.33); before, it goes on to the model.
    pub checks_float_clash: bool,
    /// An fp8 checkpoint must name its `activation_scheme` (through 0.32).
    pub wants_activation_scheme: bool,
    /// What a refusal of `nvfp4` with MLA advises (since 0.21); before, nothing
    /// checks.
    pub instead_of_nvfp4: Option<&'static str>,
    /// The check of `nvfp4` looks for the text part's architecture, which some
    /// models do not name (through 0.29): an `IndexError`, not modelled.
    pub trips_over_unnamed_text: bool,
    /// A GB10 gets the batch defaults of small GPUs (since 0.33).
    pub gb10_is_small: bool,
    /// GPUs of at least 160 GiB have batch defaults of their own (since 0.28).
    pub has_huge_tier: bool,
    /// Under YaRN the longest sequence is its original length times its factor,
    /// a whole number (through 0.29); since then `max_position_embeddings`, a float.
    pub length_is_yarns: bool,
    /// How `tensor_parallel_size` and `decode_context_parallel_size` that do not
    /// divide are told apart: 0.26 put a space back.
    pub dcp_divides: &'static str,
    /// What of a batch in flight a window reserves.
    pub in_flight: InFlight,
    /// Which model runner serves a model.
    pub model_runner: ModelRunner,
    /// DeepSeek V4 can be shared out over stages (since 0.21).
    pub v4_has_stages: bool,
    /// transformers' class of DeepSeek V4 must have a window (since 0.33).
    pub v4_window_is_strict: bool,

    /// Which classes DeepSeek V4's attention may get.
    pub v4_classes: V4Classes,
    /// Which head counts they refuse, and in which words.
    pub v4_heads: V4Heads,
    /// DeepSeek V4's shared experts are padded to whole blocks of an fp8
    /// checkpoint (since 0.24); before, they must divide.
    pub pads_shared_experts: bool,
    /// DeepSeek V4's packed layout and a dtype that is not fp8.
    pub packed_dtype_rule: PackedDtypeRule,
    /// Plain rows are aligned to 512 B (since 0.25); before, not at all, and the
    /// indexer's to 576 B.
    pub aligns_plain_rows: bool,
    /// Packed and quantised rows of DeepSeek V4 carry their mode (since 0.25).
    pub rows_carry_quant_mode: bool,
    /// With `nvfp4_ds_mla`, DeepSeek V4's window is packed even where its other
    /// rows are plain (since 0.31).
    pub nvfp4_packs_window: bool,
    /// NVFP4's K and V are each dense in a page whatever the order of heads and
    /// tokens (since 0.32); before, where heads are outermost.
    pub nvfp4_sides_are_dense: bool,
    /// An indexer's scale is four equal UE8M0 bytes on SM100 (since 0.33); before,
    /// and elsewhere, a float32.
    pub indexer_repeats_scales: bool,
    /// What the stride between blocks keeps whole.
    pub stride_rule: StrideRule,
    /// Tokens of the smallest kernel block of DeepSeek V4's window: 64 through
    /// 0.29, 32 since.
    pub window_kernel_tokens: u64,
    /// A quantised layer's block grows until its page covers an unquantised one's
    /// (since 0.25).
    pub aligns_skipped_blocks: bool,
    /// The block that came of it is held against the backends (since 0.32).
    pub checks_aligned_block: bool,

    /// The block size suits every backend (since 0.31); before, the first alone.
    pub block_suits_all: bool,
    /// Tokens in a block of a layer with a window.
    pub window_block: WindowBlock,
    /// A block that holds a state is a multiple of what every backend takes
    /// (since 0.32); before, of what the first takes.
    pub state_block_suits_all: bool,
    /// … and, with prefix caching, of a prefill chunk (since 0.33).
    pub state_block_suits_prefill: bool,
    /// Blocks that a request of a linear layer holds beside two, with prefix caching.
    pub checkpoints: Checkpoints,
    /// What `--mamba-cache-mode` does.
    pub mamba_mode: MambaMode,
    /// The hook of GLM's sparse MLA makes `auto` fp8 on SM100 (since 0.32).
    pub glm_is_fp8_on_sm100: bool,
    /// `--mamba-ssm-cache-dtype` sets KDA's recurrent state, which may not be
    /// float16 (since 0.30); before, it is float32.
    pub kda_state_is_set: bool,
    /// Its part in context parallelism.
    pub context: ContextRules,
    /// MiMo V2's layers are told of the cache's configuration (since 0.32); before,
    /// they keep the model's dtype whatever is asked.
    pub tells_layers_of_cache: bool,
    /// Layers by which others pick their tokens have a spec of their own (since 0.30).
    pub leaders_have_specs: bool,
    /// Experts whose width is no whole block are refined (since 0.29).
    pub refines_expert_blocks: bool,
    /// Layers to skip are sorted as numbers under packed dtypes (through 0.31).
    pub sorts_skipped_as_numbers: bool,
    /// How the flag for the hybrid manager is called in its refusal.
    pub hybrid_manager_flag: &'static str,

    /// There are KV cache layouts (since 0.29).
    pub has_layouts: bool,
    /// How layers are grouped.
    pub grouping: Grouping,
    /// How a block is laid out.
    pub block_rule: BlockRule,
    /// What a stage without layers that have a cache trips over.
    pub empty_block: EmptyBlock,
    /// vLLM's tensors are views into one allocation (since 0.24); before, each is
    /// an allocation of its own.
    pub one_backing: bool,
    /// Sliding windows that no repeating pattern splits are split to fit the
    /// block (since 0.30); before, only Mamba states were.
    pub windows_split_to_fit: bool,
    /// Pages that do not divide the largest are padded where the backend goes
    /// from block to block by the stride (0.28); since 0.29, wherever it is not MLA.
    pub pads_by_block_stride: bool,
    /// `--disable-hybrid-kv-cache-manager` on this family: the field that
    /// `replace_as` passes on and the full-attention spec does not take (since 0.31).
    pub promotion_fails_on: Option<&'static str>,
    /// The checks of a pool leave the null block out (since 0.29).
    pub reserves_null_block: bool,
    /// The words of the memory errors.
    pub memory_texts: MemoryTexts,
    /// How many requests a pool holds.
    pub capacity_rule: CapacityRule,
    /// How the start-up log says so.
    pub capacity_log: CapacityLog,
    /// The line on a length that is found.
    pub auto_fit_log: AutoFitLog,
    /// The other lines of the start-up log.
    pub log: LogRules,
}

impl Profile {
    /// A GPU under this release's rules.
    pub(crate) const fn on(&self, arch: Arch) -> Target {
        Target {
            arch,
            rules: self.backend_rules,
        }
    }
}

/// Files of vLLM that moved.
#[derive(Debug, Clone, Copy)]
pub struct Files {
    /// Grouping and sizing.
    pub planner: &'static str,
    /// DeepSeek V4's model.
    pub v4_model: &'static str,
    /// Its attention layers.
    pub v4_attention: &'static str,
    /// Its compressors.
    pub v4_compressor: &'static str,
    /// Its attention on FlashMLA.
    pub v4_flashmla: &'static str,
    /// Who writes its window.
    pub v4_writer: &'static str,
    /// Who compresses and writes its older tokens.
    pub v4_compress: &'static str,
    /// Who writes its compressors' states.
    pub v4_states: &'static str,
}

/// Who stops a `--kv-cache-dtype` that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownDtype {
    /// The command line's parser, with its list of choices (through 0.32).
    Parser,
    /// The config's own check (since 0.33).
    Config,
}

/// What a sliding window reserves beside itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// One batch, though two may be in flight (through 0.25).
    OneBatch {
        /// `max_concurrent_batches` exists (since 0.23).
        counts_batches: bool,
    },
    /// Every batch in flight (since 0.26).
    EveryBatch,
}

/// Which model runner serves a model, as far as it is modelled.
/// `vllm/config/vllm.py` `DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelRunner {
    /// V1 (through 0.27).
    First,
    /// V2 for listed architectures and for what is dense and no hybrid (0.28).
    ByModel,
    /// V2 (since 0.29).
    Second,
}

/// Classes of DeepSeek V4's attention.
/// `vllm/models/deepseek_v4/nvidia/model.py` `_select_dsv4_attn_cls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V4Classes {
    /// FlashMLA, whatever is asked, as `V4_FLASHMLA_SPARSE` (through 0.22).
    FlashMlaOnly,
    /// FlashInfer if asked by its name, on any GPU (0.23).
    FlashInferByName,
    /// By architecture and name (since 0.24).
    ByArch,
}

impl V4Classes {
    /// Who picks the class.
    pub(crate) const fn function(self) -> &'static str {
        match self {
            Self::FlashMlaOnly => "DeepseekV4DecoderLayer.__init__",
            Self::FlashInferByName | Self::ByArch => "_select_dsv4_attn_cls",
        }
    }
}

/// Head counts of DeepSeek V4 on one rank. `get_padded_num_q_heads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V4Heads {
    /// Up to 128 (through 0.21).
    UpTo128,
    /// 64 or 128 for all, and FlashInfer is spelled `Flashinfer` (0.22 and 0.23).
    Halves,
    /// 64 or 128, on SM120 16 to 128 (0.24 to 0.26).
    HalvesBySm120,
    /// FlashInfer takes 8 to 128 (since 0.27).
    FromEight,
}

/// What DeepSeek V4's packed layout makes of the dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedDtypeRule {
    /// Anything but `fp8…` fails an assertion, `auto` included (through 0.29).
    AssertFp8(PackedAssertion),
    /// `auto` is `fp8`; others get a `ValueError` with advice (since 0.30).
    AutoIsFp8,
}

/// Tokens in a block of a layer with a window.
/// `vllm/model_executor/layers/attention/attention.py`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowBlock {
    /// The smallest that its kernels take, unless layers are skipped (through 0.29).
    Smallest,
    /// The largest within the model's (since 0.30).
    Largest,
}

/// Which linear layers keep a checkpoint of a prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoints {
    /// None (through 0.28).
    None,
    /// KDA (0.29 to 0.31).
    Kda,
    /// KDA and Mamba 2 (0.32).
    KdaAndMamba2,
    /// All (since 0.33).
    All,
}

/// What `--mamba-cache-mode` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MambaMode {
    /// `all` keeps every block of states, if prefixes are cached (through 0.31).
    MayBeAll,
    /// Prefix caching alone decides between `align` and `none` (0.32).
    FollowsCaching,
    /// The same, and the flag is not read (since 0.33).
    Ignored,
}

impl MambaMode {
    /// What the flag takes, in vLLM's order; none where nothing looks.
    pub(crate) const fn choices(self) -> &'static [&'static str] {
        match self {
            Self::MayBeAll => &["all", "align", "none"],
            Self::FollowsCaching => &["align", "none"],
            Self::Ignored => &[],
        }
    }
}

/// What the stride between blocks keeps whole: `block_stride_alignment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrideRule {
    /// Nothing (through 0.30).
    Nothing,
    /// Rows of some sparse MLA backends, in the whole block (0.31).
    SparseRows,
    /// Kernel blocks, and rows of sparse MLA in each layer's part (since 0.32).
    KernelBlocks,
}

/// How layers of several kinds are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Full attention whole and first, windows beside it (through 0.28).
    FullFirst {
        /// Pages of windows are raised to those of full attention (through 0.26).
        raises_pages: bool,
    },
    /// Whatever packs well, in order of first appearance (since 0.29).
    Packed,
}

/// How a block is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRule {
    /// As slots that layers of several groups share (through 0.28); the rule is
    /// for layers of several page sizes.
    Slots(SlotRule),
    /// As each group's pages, side by side (since 0.29).
    SideBySide,
}

/// What a stage trips over whose block has no bytes, where groups' pages lie
/// side by side. `_get_kv_cache_bytes_per_block`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyBlock {
    /// An assertion, before memory is looked at (0.29 to 0.31).
    Asserted,
    /// The same where blocks are outermost; else a division, after (0.32).
    Divided,
    /// The same, but the division is tried before (since 0.33).
    Tried,
}

/// What the slots of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRule {
    /// A page of each size, as often as the longest run (through 0.22).
    LayerTuples,
    /// Of each page size as many as any group has (0.23 to 0.26).
    ByPageSize,
    /// Where a page of any group begins (0.27 and 0.28).
    ByOffset,
}

impl SlotRule {
    /// vLLM's function, and what it does, in words.
    pub(crate) const fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::LayerTuples => (
                "_get_kv_cache_config_deepseek_v4",
                "a page of each size, as often as the longest run of one size in any group",
            ),
            Self::ByPageSize => (
                "_bucket_layers_by_page_size",
                "of each page size as many as any group has",
            ),
            Self::ByOffset => (
                "_get_packed_kv_cache_layout",
                "the widest group's pages, side by side",
            ),
        }
    }
}

/// How many requests a pool holds, as vLLM counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityRule {
    /// The request's bytes over the first group's, though each block of any group
    /// takes a whole block of the pool (through 0.26): too many.
    BytesOverFirstGroup {
        /// The metrics and the scheduler count over a copy that knows the first
        /// layer of each group alone (since 0.24); before, there is no metric.
        has_metric: bool,
    },
    /// Whole blocks, summed over the groups (since 0.27).
    WholeBlocks,
}

/// The start-up log on the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityLog {
    /// Two lines (through 0.27).
    TwoLines,
    /// One (since 0.28).
    OneLine,
}

/// What auto-fit says of the length that it has found.
/// `vllm/v1/core/kv_cache_utils.py` `_auto_fit_max_model_len`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoFitLog {
    /// "available GPU memory" (through 0.31).
    GpuMemory,
    /// "available KV cache memory" (since 0.32).
    KvCacheMemory,
}

impl AutoFitLog {
    /// The line: from how many tokens to how many, and the bytes of the stage that
    /// decided, or of the first.
    #[must_use]
    pub fn line(self, from: u64, to: u64, bytes: i128) -> String {
        let found = if to >= from {
            format!("full model context length {from} fits in")
        } else {
            format!("reduced from {from} to {to} to fit in")
        };
        let gib = format_gib(bytes);
        let memory = match self {
            Self::KvCacheMemory => format!("available KV cache memory ({gib} GiB GPU)"),
            Self::GpuMemory if to >= from => "available GPU memory".to_owned(),
            Self::GpuMemory => {
                format!("available GPU memory ({gib} GiB available for KV cache)")
            }
        };
        format!("Auto-fit max_model_len: {found} {memory}")
    }
}

impl CapacityLog {
    /// The lines. Mirrors `vllm/v1/core/kv_cache_utils.py`
    /// `_report_kv_cache_config`, since 0.28 `update_kv_cache_capacity`.
    #[must_use]
    pub fn lines(self, tokens: u64, max_model_len: u64, concurrency: &str) -> Vec<String> {
        let size = format!("GPU KV cache size: {} tokens", thousands(tokens));
        let requests = format!(
            "Maximum concurrency for {} tokens per request: {concurrency}x",
            thousands(max_model_len),
        );
        match self {
            Self::TwoLines => vec![size, requests],
            Self::OneLine => vec![format!("{size}, {requests}")],
        }
    }
}
