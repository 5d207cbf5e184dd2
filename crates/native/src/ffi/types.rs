//! What C sees of a plan: plain structs.

use std::ffi::c_char;

/// How a call ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvxStatus {
    /// vLLM would start: there is a plan.
    Ok = 0,
    /// vLLM would refuse: the message is its error.
    Refused = 1,
    /// The case is malformed.
    BadCase = 2,
    /// There is no rule for it.
    Unmodelled = 3,
    /// vLLM would start, but by no plan of one allocation: the message says why.
    NoPlan = 4,
    /// A pointer is null.
    Null = 5,
    /// There is no such layer, group or field.
    OutOfRange = 6,
}

/// When a group's blocks are given back before their request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvxKeeps {
    /// Every token keeps its block.
    All = 0,
    /// The last `keeps_tokens` computed tokens keep theirs.
    Last = 1,
    /// Those of the current chunk of `keeps_tokens` keep theirs.
    Chunk = 2,
}

/// How the cells of a field are counted.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvxOrder {
    /// A cell a stored state.
    State = 0,
    /// `head * states + state`
    HeadsOutside = 1,
    /// `state * heads + head`
    StatesOutside = 2,
    /// Something else: the only cell, or rows of a state of the whole request.
    Other = 3,
}

/// The one allocation.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct KvxPool {
    /// Bytes to allocate.
    pub allocated_bytes: u64,
    /// Blocks, the null block (0) among them.
    pub num_blocks: u64,
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// Layers with a cache.
    pub num_layers: u64,
    /// Groups: layers that share a block table.
    pub num_groups: u64,
    /// Kinds of layers.
    pub num_kinds: u64,
}

/// A layer's pages: that of block `b` begins at `offset + b * block_stride`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KvxLayer {
    /// Its name in the model; as long as the plan.
    pub name: *const c_char,
    /// Its group.
    pub group: u64,
    /// Its kind.
    pub kind: u64,
    /// Bytes from the start of the allocation to block 0's page.
    pub offset: u64,
    /// Bytes from one block's page to the next.
    pub block_stride: u64,
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Heads whose states a page holds.
    pub heads: u64,
    /// Stored states of one head in a page.
    pub states_per_block: u64,
    /// Tokens that one stored state covers; 0 for states of the whole request.
    pub tokens_per_state: u64,
    /// Kernel blocks that a page is made of; 1 unless that matters.
    pub kernel_blocks: u64,
    /// Bytes of one of them.
    pub kernel_block_bytes: u64,
    /// Fields of a kernel block; none where their order is not modelled.
    pub num_fields: u64,
}

/// Layers that share a block table.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KvxGroup {
    /// Tokens in a block.
    pub tokens_per_block: u64,
    /// What its requests keep.
    pub keeps: KvxKeeps,
    /// Tokens of that.
    pub keeps_tokens: u64,
}

/// Bytes of one meaning in each cell of a page: the cell of number `c` begins at `offset + c * stride`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KvxField {
    /// Its name; as long as the plan.
    pub name: *const c_char,
    /// The type of an element, as torch names it; as long as the plan.
    pub dtype: *const c_char,
    /// Bytes from the start of the page's kernel block to the first cell's.
    pub offset: u64,
    /// Bytes from one cell's to the next cell's.
    pub stride: u64,
    /// Cells in a kernel block.
    pub count: u64,
    /// Bytes in a cell.
    pub bytes: u64,
    /// Elements in them.
    pub elements: u64,
    /// How cells are counted.
    pub order: KvxOrder,
}
