//! The answer: what vLLM would do, with the names that the oracle prints.

use std::fmt;

use serde::Serialize;

use crate::anatomy::Makings;
use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::error::{Outcome, Refusal};
use crate::layout::KvCacheLayout;
use crate::log::LogLine;
use crate::plan::Sizing;
use crate::plan::demand::Demand;
use crate::spec::{LayerRole, SpecKind};
use crate::trace::TraceStep;
use crate::units::{GIB, MIB, fixed, mul, thousands};
use crate::weights::WeightBytes;

/// What the answer does not say by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// A stable name, for links and tests.
    pub code: &'static str,
    /// The whole sentence.
    pub text: String,
}

impl Note {
    /// A note.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

/// An exact ratio of bytes to tokens. Serialised as an integer where it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesPerToken {
    /// Bytes …
    pub bytes: u64,
    /// … for this many tokens (at least 1).
    pub tokens: u64,
}

impl BytesPerToken {
    /// The integer, if it is one.
    #[must_use]
    pub const fn exact(self) -> Option<u64> {
        if self.tokens != 0 && self.bytes.is_multiple_of(self.tokens) {
            Some(self.bytes / self.tokens)
        } else {
            None
        }
    }

    /// The nearest double, for print.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // only printed
    pub fn as_f64(self) -> f64 {
        self.bytes as f64 / self.tokens.max(1) as f64
    }
}

impl fmt::Display for BytesPerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.max(1);
        f.write_str(&thousands(self.bytes / tokens))?;
        let thousandth = u128::from(self.bytes % tokens) * 1000 / u128::from(tokens);
        if thousandth > 0 {
            let fraction = format!("{thousandth:03}");
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

impl Serialize for BytesPerToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.exact() {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.as_f64()),
        }
    }
}

/// One distinct layer spec and how many layers have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerRow {
    /// Layers with this spec.
    pub count: usize,
    /// The first such layer's name in the model.
    pub first: String,
    /// Whether they are the drafter's, where the release tells them apart.
    #[serde(skip_serializing_if = "is_false")]
    pub is_draft: bool,
    /// What these layers store.
    pub role: LayerRole,
    /// vLLM's class.
    pub kind: SpecKind,
    /// Tokens in a block.
    pub block_size: u64,
    /// Bytes of one page, padded.
    pub page_size_bytes: u64,
    /// Bytes of one page before padding.
    pub unpadded_page_size_bytes: u64,
    /// Tokens that one stored state covers; -1 for states of the whole request.
    pub tokens_per_state: i64,
    /// Stored states in one page.
    pub states_per_page: u64,
    /// Bytes of one stored state.
    pub slot_bytes: u64,
    /// vLLM's field: the slot's bytes where it is packed.
    pub state_content_bytes: Option<u64>,
    /// Elements of one row.
    pub head_size: u64,
    /// Elements of a V row; 0 where one vector serves for both.
    pub head_size_v: u64,
    /// KV heads on one rank.
    pub num_kv_heads: u64,
    /// Element type of the stored bytes.
    pub dtype: TorchDtype,
    /// vLLM's quantisation mode.
    pub kv_quant_mode: KvQuantMode,
    /// Window in tokens.
    pub sliding_window: Option<u64>,
    /// Chunk in tokens.
    pub attention_chunk_size: Option<u64>,
    /// Page alignment in bytes.
    pub alignment: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A drafter's layers of one spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftLayers {
    /// Layers with this spec.
    pub count: usize,
    /// The first such layer's name.
    pub first: String,
    /// What they store.
    pub role: LayerRole,
}

/// Layers of one spec in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupMember {
    /// Index into `layers`.
    pub layer: usize,
    /// What they store.
    pub role: LayerRole,
    /// How many of them.
    pub count: usize,
    /// Bytes of one page.
    pub page_size_bytes: u64,
}

/// Layers that share a block table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupRow {
    /// vLLM's class of the group's spec.
    pub kind: SpecKind,
    /// Tokens in a block.
    pub block_size: u64,
    /// Layers in the group.
    pub layers: usize,
    /// The first layer's name.
    pub first: String,
    /// Bytes of the group's pages, side by side.
    pub page_size_bytes: u64,
    /// Blocks that vLLM reserves for one request of `max_model_len`.
    pub blocks_per_request: u64,
    /// Bytes of the block that the group's pages leave unused.
    pub padding_bytes: u64,
    /// `blocks_per_request` × `bytes_per_block`.
    pub request_bytes: u64,
    /// The group's share of the marginal bytes per token.
    pub marginal_bytes_per_token: BytesPerToken,
    /// The group's share of the fixed bytes per request.
    pub fixed_bytes_per_request: u64,
    /// What it is made of, in the order of the pages.
    pub members: Vec<GroupMember>,
    /// How blocks follow from the length.
    #[serde(skip)]
    pub demand: Demand,
}

/// A part of the memory that vLLM allocates, and the layers in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TensorRow {
    /// Since 0.29: layers of one spec, one after another.
    Run(TensorRun),
    /// Through 0.28: a slot that a layer of each of some groups takes in turn.
    Shared(SharedTensor),
}

/// Where the pages of same-shaped layers lie: layer `l` (counted within the
/// row), block `b` starts at `offset + l × layer_stride + b × block_stride`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorRun {
    /// Index into `groups`.
    pub group: usize,
    /// Index into `layers` of the result: the spec.
    pub layer: usize,
    /// Layers in the row.
    pub layers: usize,
    /// Their numbers in the model, in the order of the pages.
    pub layer_indices: Vec<u32>,
    /// What precedes the number in their names.
    pub name_prefix: &'static str,
    /// What follows it.
    pub name_suffix: &'static str,
    /// Names of the layers after these, where they are built otherwise: a drafter's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_names: Vec<String>,
    /// Bytes from the start of the allocation to the first page.
    pub offset: u64,
    /// Bytes from one layer's page to the next layer's.
    pub layer_stride: u64,
    /// Bytes from one block to the next.
    pub block_stride: u64,
    /// Bytes of the whole allocation.
    pub size: u64,
}

/// vLLM's `KVCacheTensor` through 0.28. With a `block_stride` above 0 it is a view
/// into one allocation of `size` bytes that all such rows share; otherwise it is
/// an allocation of its own, and a block is `size` / `num_blocks` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedTensor {
    /// Layers that take it in turn.
    pub layers: usize,
    /// The layers, at most one a group.
    pub shared_by: Vec<SharedLayer>,
    /// Bytes from the start of the allocation to the first page; not a concept
    /// before 0.24.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes from one block to the next; not a concept before 0.24.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_stride: Option<u64>,
    /// Bytes.
    pub size: u64,
}

/// A layer that takes a shared slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedLayer {
    /// Index into `groups`.
    pub group: usize,
    /// Index into `layers` of the result: the spec.
    pub layer: usize,
    /// The layer's name in the model.
    pub name: String,
}

/// One layer's place, for a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPlacement {
    /// The layer's name in the model.
    pub name: String,
    /// Index into `layers`: the spec.
    pub layer: usize,
    /// Index into `groups`.
    pub group: usize,
    /// Which allocation: 0 where all layers share one.
    pub allocation: usize,
    /// Bytes from the start of the allocation to block 0's page.
    pub offset: u64,
    /// Bytes from one block's page to the next.
    pub block_stride: u64,
}

/// Bytes of one request of some length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestBytes {
    /// The length in tokens.
    pub length: u64,
    /// All groups.
    pub total: u64,
    /// Each group, in the order of `groups`.
    pub by_group: Vec<u64>,
}

/// What a pool of a given size comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Blocks in the pool, the null block among them.
    pub num_blocks: u64,
    /// Bytes that vLLM allocates.
    pub allocated_bytes: u64,
    /// vLLM's `kv_cache_size_tokens`, which its metrics show; not a concept
    /// before 0.24. From 0.24 to 0.26 it is not what the log line says.
    pub capacity_tokens: Option<u64>,
    /// vLLM's `kv_cache_max_concurrency`, before 0.24 the printed figure.
    pub max_concurrency: f64,
    /// Tokens in the log line.
    pub printed_tokens: u64,
    /// Concurrency in the log line.
    pub printed_concurrency: String,
    /// Requests that fit by the blocks they reserve, as vLLM prints such a
    /// figure; through 0.26 less than it does print.
    pub requests: String,
    /// What auto-fit says before, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_fit_line: Option<String>,
    /// The log line itself; two lines through 0.27.
    pub log_line: String,
    /// The placements.
    pub tensors: Vec<TensorRow>,
}

/// A configuration that starts, as far as vLLM decides before its first kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resolution {
    /// In one word.
    pub outcome: Outcome,
    /// The spelling that was asked.
    pub requested_cache_dtype: CacheDtype,
    /// What vLLM writes back.
    pub cache_dtype: CacheDtype,
    /// Attention backends of all layers, sorted by name.
    pub backends: Vec<&'static str>,
    /// `--block-size` as it ends up, in tokens.
    pub block_size: u64,
    /// What vLLM's metrics show as block size afterwards: the smallest group's.
    pub reported_block_size: u64,
    /// Order of the physical dimensions; not a concept before 0.29.
    pub kv_cache_layout: Option<KvCacheLayout>,
    /// Tokens, after auto-fit.
    pub max_model_len: u64,
    /// Tokens in one step.
    pub max_num_batched_tokens: u64,
    /// Requests in one step.
    pub max_num_seqs: u64,
    /// Tokens of what is in flight that each window reserves.
    pub reserved_in_flight_tokens: u64,
    /// Steps in flight; not a concept before 0.23.
    pub max_concurrent_batches: Option<u64>,
    /// vLLM's name for the reserve; not a concept before 0.26.
    pub max_in_flight_tokens: Option<u64>,
    /// Fraction of the GPU that vLLM may fill.
    pub gpu_memory_utilization: f64,
    /// Bytes of one block: the widest group's pages.
    pub bytes_per_block: u64,
    /// Bytes of one more token, past every window's reach.
    pub marginal_bytes_per_token: BytesPerToken,
    /// Bytes of every request whatever its length.
    pub fixed_bytes_per_request: u64,
    /// Bytes of one request at `max_model_len`.
    pub request_bytes: u64,
    /// Bytes of the slot of each kind of layer.
    pub slot_bytes: Vec<SlotBytes>,
    /// The distinct layer specs, in order of first appearance.
    pub layers: Vec<LayerRow>,
    /// The groups, in vLLM's order.
    pub groups: Vec<GroupRow>,
    /// Bytes of the weights on one GPU.
    #[serde(flatten)]
    pub weights: WeightBytes,
    /// The pool that this holds for, in bytes; `None` if none was given.
    pub available_memory: Option<u64>,
    /// What the pool comes to, if one was given.
    #[serde(flatten)]
    pub capacity: Option<Capacity>,
    /// The stages of a pipeline; none where there is only one. What is above is
    /// then the first one's, which the scheduler sees, but for `layers` and
    /// `backends`, which are all stages'.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRow>,
    /// The drafter's layers, which are among `layers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draft_layers: Vec<DraftLayers>,
    /// What another pool would come to.
    #[serde(skip)]
    pub(crate) sizing: Sizing,
    /// What its pages are made of.
    #[serde(skip)]
    pub(crate) makings: Makings,
    /// What the answer does not say by itself.
    pub notes: Vec<Note>,
    /// What vLLM logs while it starts, as far as it is predicted.
    pub log: Vec<LogLine>,
    /// Why.
    pub trace: Vec<TraceStep>,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageRow {
    /// Its first decoder layer.
    pub start_layer: u64,
    /// The decoder layer after its last.
    pub end_layer: u64,
    /// Layers with a cache.
    pub layers: usize,
    /// The first such layer's name.
    pub first: Option<String>,
    /// Such layers by group.
    pub groups: Vec<usize>,
    /// Bytes of one block on its GPUs.
    pub bytes_per_block: u64,
    /// Bytes of one request at `max_model_len` there.
    pub request_bytes: u64,
    /// Whether its block is the widest, so that it has the fewest.
    pub binds: bool,
    /// Blocks that would fit there, before all stages take the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_blocks: Option<u64>,
    /// Bytes that vLLM allocates there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// The placements.
    pub tensors: Vec<TensorRow>,
}

/// One stored state's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotBytes {
    /// What is stored.
    pub role: LayerRole,
    /// Bytes of one stored state.
    pub bytes: u64,
    /// Tokens that it covers; -1 for the whole request.
    pub tokens_per_state: i64,
}

impl Capacity {
    /// vLLM's lines about the pool, in their order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let auto_fit = self.auto_fit_line.iter().map(String::as_str);
        auto_fit.chain(self.log_line.lines())
    }
}

impl GroupRow {
    /// Tokens in a block of all ranks that share them.
    pub(crate) const fn tokens(&self, ranks: u64) -> u64 {
        match self.demand {
            Demand::Full { ranks: 1, .. } | Demand::Constant { .. } => self.block_size,
            Demand::Full { .. } | Demand::Window { .. } | Demand::Chunk { .. } => {
                self.block_size.saturating_mul(ranks)
            }
        }
    }
}

impl Resolution {
    /// What vLLM reserves for one request with `max_model_len` = `length`,
    /// everything else as it is.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] past 64 bits.
    pub fn request_bytes_at(&self, length: u64) -> Result<RequestBytes, Box<Refusal>> {
        let mut total: u64 = 0;
        let mut by_group = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let bytes = mul(group.demand.blocks(length)?, self.bytes_per_block)?;
            total = total.checked_add(bytes).ok_or(Refusal::TooLarge)?;
            by_group.push(bytes);
        }
        Ok(RequestBytes {
            length,
            total,
            by_group,
        })
    }

    /// The release whose rules these are.
    #[must_use]
    pub const fn release(&self) -> crate::Release {
        self.makings.release
    }

    /// Every layer's place in the allocation, in the order of the tensors.
    #[must_use]
    pub fn placements(&self) -> Vec<LayerPlacement> {
        let Some(capacity) = &self.capacity else {
            return Vec::new();
        };
        let mut placements = Vec::new();
        for (index, row) in capacity.tensors.iter().enumerate() {
            match row {
                TensorRow::Run(run) => run.place(&mut placements),
                TensorRow::Shared(shared) => {
                    shared.place(index, capacity.num_blocks, &mut placements);
                }
            }
        }
        placements
    }
}

impl TensorRun {
    /// The layers' names, in the order of the pages.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let numbered = self
            .layer_indices
            .iter()
            .map(|index| format!("{}.{index}.{}", self.name_prefix, self.name_suffix));
        numbered.chain(self.other_names.iter().cloned())
    }

    fn place(&self, placements: &mut Vec<LayerPlacement>) {
        let mut offset = self.offset;
        for name in self.names() {
            placements.push(LayerPlacement {
                name,
                layer: self.layer,
                group: self.group,
                allocation: 0,
                offset,
                block_stride: self.block_stride,
            });
            offset += self.layer_stride;
        }
    }
}

impl SharedTensor {
    fn place(&self, row: usize, num_blocks: u64, placements: &mut Vec<LayerPlacement>) {
        let view = self.block_stride.filter(|stride| *stride > 0);
        for layer in &self.shared_by {
            placements.push(LayerPlacement {
                name: layer.name.clone(),
                layer: layer.layer,
                group: layer.group,
                allocation: if view.is_some() { 0 } else { row },
                offset: self.offset.unwrap_or(0),
                block_stride: view.unwrap_or_else(|| self.size / num_blocks.max(1)),
            });
        }
    }
}

/// Bytes as a person reads them: exact below 10 KiB, then in binary units.
#[must_use]
#[allow(clippy::cast_precision_loss)] // only printed
pub fn human_bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    match bytes {
        _ if bytes < 10 * KIB => format!("{} B", thousands(bytes)),
        _ if bytes < MIB => format!("{} KiB", fixed(bytes as f64 / KIB as f64, 2)),
        _ if bytes < GIB => format!("{} MiB", fixed(bytes as f64 / MIB as f64, 2)),
        _ => format!("{} GiB", fixed(bytes as f64 / GIB as f64, 2)),
    }
}
