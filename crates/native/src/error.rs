//! What the native side refuses, and why.

use thiserror::Error;

/// A plan that cannot be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The answer is of no pool.
    #[error("the answer is of no pool: give the case `available_memory`")]
    NoPool,
    /// Through 0.28 layers may have allocations of their own.
    #[error(
        "{allocations} allocations: only plans of one allocation are driven (vLLM 0.29 and later)"
    )]
    ManyAllocations {
        /// How many.
        allocations: usize,
    },
    /// The parts of a pipeline have plans of their own.
    #[error("{stages} pipeline stages: only plans of one stage are driven")]
    ManyStages {
        /// How many.
        stages: usize,
    },
    /// A page that would reach past the allocation.
    #[error("{layer}: block {block} would end at byte {end} of {allocated}")]
    Outside {
        /// The layer's name.
        layer: String,
        /// The block.
        block: u64,
        /// Bytes from the start of the allocation to its page's end.
        end: u64,
        /// Bytes of the allocation.
        allocated: u64,
    },
    /// Two pages of one block on the same bytes.
    #[error("{first} and {second} share bytes of the blocks of their group")]
    Overlap {
        /// A layer's name.
        first: String,
        /// The other's.
        second: String,
    },
    /// A group whose blocks are not handed out as here.
    #[error("group {group}: how vLLM hands out blocks of {kind} is not modelled here")]
    Group {
        /// The group's number.
        group: usize,
        /// vLLM's class.
        kind: &'static str,
    },
}

/// A page that has no writer and no reader here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The resolver itself does not know the order.
    #[error("{layer}: {why}")]
    Unmodelled {
        /// What the layers are.
        layer: &'static str,
        /// Why.
        why: &'static str,
    },
    /// There is no codec for such a field.
    #[error("{layer}: no writer for {field} of {dtype}")]
    NoWriter {
        /// What the layers are.
        layer: &'static str,
        /// The field's name.
        field: &'static str,
        /// The type of its elements.
        dtype: &'static str,
    },
    /// More than the kernels are told of.
    #[error("{layer}: {pieces} pieces a slot; at most {most} are read")]
    ManyPieces {
        /// What the layers are.
        layer: &'static str,
        /// How many.
        pieces: usize,
        /// The most.
        most: usize,
    },
}

/// Blocks that are not to be had, or not so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The pool is full. Nothing was handed out.
    #[error("{needed} blocks are needed and {free} are free")]
    OutOfBlocks {
        /// Blocks asked for.
        needed: u64,
        /// Blocks free.
        free: u64,
    },
    /// A request that has no tables.
    #[error("request {0} has no blocks")]
    UnknownRequest(u64),
    /// A block that nobody holds was given back.
    #[error("block {0} is free already")]
    NotHeld(u32),
    /// A block that is not of this pool.
    #[error("block {0} is not of this pool")]
    NotOfPool(u32),
    /// A token without a block: past the table, or behind its window.
    #[error("token {token} of group {group} has no block")]
    NoBlock {
        /// The group's number.
        group: usize,
        /// The token.
        token: u64,
    },
    /// A pool has the null block at least.
    #[error("a pool of {0} blocks")]
    PoolSize(u64),
}

/// Memory that is not to be had, or bytes that are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The system has not as much.
    #[error("{bytes} bytes are not to be had from {memory}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Which memory.
        memory: &'static str,
    },
    /// Bytes past the end.
    #[error("bytes {offset} to {end} of an allocation of {allocated}")]
    OutOfBounds {
        /// The first byte.
        offset: u64,
        /// The byte after the last.
        end: u64,
        /// Bytes of the allocation.
        allocated: u64,
    },
    /// A slot past the pool.
    #[error("slot {slot}: the layer has {slots}")]
    NoSlot {
        /// The slot.
        slot: i64,
        /// Slots of the layer.
        slots: u64,
    },
    /// Rows of another size than asked.
    #[error("{given} elements for {wanted}")]
    Rows {
        /// Elements given.
        given: usize,
        /// Elements that the slots take.
        wanted: usize,
    },
    /// A number that no format holds.
    #[error("element {element} of row {row} is not finite")]
    NotFinite {
        /// The row.
        row: usize,
        /// The element.
        element: usize,
    },
    /// A GPU stores whole words, and these would begin within one.
    #[error("{0}: a page's words are not aligned, which a GPU cannot store")]
    Unaligned(String),
    /// More layers than a decode step's kernel reads.
    #[error("{0} selections; a window's and a compressed one are read")]
    ManySelections(usize),
    /// More blocks than a launch has.
    #[error("{rows} rows of {heads} heads are more than one launch has room for")]
    ManyRows {
        /// Rows.
        rows: usize,
        /// Heads.
        heads: u64,
    },
    /// No driver, or none with a GPU.
    #[error("no CUDA here: {0}")]
    NoCuda(String),
    /// A call of the driver failed.
    #[error("{call}: {error}")]
    Driver {
        /// The call.
        call: &'static str,
        /// What the driver says.
        error: String,
    },
    /// The kernels are not to be had.
    #[error(transparent)]
    Kernels(#[from] NvrtcError),
}

/// NVRTC is not there, or does not compile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NvrtcError {
    /// It is in none of the places.
    #[error(
        "NVRTC is in none of: {tried}; set KVX_NVRTC to libnvrtc.so (`cargo xtask setup` installs it)"
    )]
    Missing {
        /// The places, in their order.
        tried: String,
    },
    /// A function that it lacks.
    #[error("{0} is not in this NVRTC")]
    Symbol(&'static str),
    /// It refuses.
    #[error("{call} for {target}: {error}\n{log}")]
    Compile {
        /// The call.
        call: &'static str,
        /// Such as `sm_90`.
        target: &'static str,
        /// NVRTC's words.
        error: String,
        /// Its log.
        log: String,
    },
    /// A GPU that there is no kernel for.
    #[error(
        "compute capability {major}.{minor} has no kernels here: 9.0, 10.0, 10.3, 12.0 and 12.1 have"
    )]
    Capability {
        /// As in 9.0: 9.
        major: u32,
        /// 0.
        minor: u32,
    },
}
