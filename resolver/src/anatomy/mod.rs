//! What a page is made of, to the byte: for whoever writes or reads the cache.
//!
//! A page is regions one after another; a region is cells of one stride; a cell is
//! fields. Where vLLM's source does not settle the order, the bytes are told and the
//! order is said to be unknown, never guessed.
//!
//! ```
//! use kv_resolver::catalog::{find_gpu, find_model};
//! use kv_resolver::{Request, resolve};
//!
//! let model = find_model("deepseek-ai/DeepSeek-V4-Flash").expect("it is in the catalog");
//! let gpu = find_gpu("h200").expect("it is in the catalog").gpu();
//! let answer = resolve(&Request::new(serde_json::from_str(model.config_json)?, gpu))?;
//!
//! for layer in answer.anatomy() {
//!     // regions and padding are the whole page
//!     let page = &layer.page;
//!     let regions: u64 = page.regions.iter().map(|region| region.bytes()).sum();
//!     assert_eq!(page.kernel_blocks * (regions + page.padding_bytes), page.bytes);
//! }
//!
//! // a slot of DeepSeek V4 is 584 bytes: 448 that are not rotated, 64 bfloat16 that are, 7 scales, a byte of padding
//! let c4 = answer.layers.iter().position(|row| row.first == "model.layers.2.attn");
//! let c4 = answer.anatomy_of(c4.expect("it has such layers")).expect("it is laid out");
//! let parts: Vec<_> = c4.page.parts().iter().map(|part| (part.field.name, part.bytes)).collect();
//! assert_eq!(parts, [("nope", 448), ("rope", 128), ("scales", 7), ("pad", 1)]);
//! assert_eq!(c4.page.slot_bytes(), 584);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contents;
mod json;
mod latent;
mod makings;
mod order;
mod place;
mod text;

use crate::Resolution;
use crate::spec::LayerSpec;

use contents::{Contents, contents};
pub(crate) use makings::{LinearStates, Makings, RowMakings, StateRows};
use order::{Order as InPage, order};
pub use place::Place;

/// Where vLLM's source says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The file in vLLM's repository.
    pub file: &'static str,
    /// The function, class or note in it.
    pub function: &'static str,
}

/// What a field's bytes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// What attention reads.
    Values,
    /// What turns stored values into numbers.
    Scales,
    /// Nothing.
    Padding,
    /// Content whose order is not modelled.
    Unknown,
}

impl FieldKind {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Scales => "scales",
            Self::Padding => "padding",
            Self::Unknown => "unknown",
        }
    }
}

/// Bytes of one meaning within a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name, fit for C.
    pub name: &'static str,
    /// Bytes from the start of the cell.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Elements in them.
    pub elements: u64,
    /// The type of an element.
    pub dtype: &'static str,
    /// What they are for.
    pub kind: FieldKind,
    /// What they are, in words.
    pub what: &'static str,
}

/// How the cells of a region are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellOrder {
    /// A cell a stored state.
    States,
    /// All states of the first head, then those of the next.
    HeadsFirst,
    /// All heads of the first state, then those of the next.
    StatesFirst,
    /// A cell a head.
    Heads,
    /// A cell a row of the convolution.
    Rows,
    /// One cell.
    Once,
}

impl CellOrder {
    /// The number of a cell, as a formula.
    pub const fn formula(self) -> &'static str {
        match self {
            Self::States => "state",
            Self::HeadsFirst => "head * states + state",
            Self::StatesFirst => "state * heads + head",
            Self::Heads => "head",
            Self::Rows => "row",
            Self::Once => "0",
        }
    }
}

/// Cells of one stride, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Bytes from the start of the page's kernel block.
    pub offset: u64,
    /// Cells.
    pub count: u64,
    /// Bytes of a cell.
    pub stride: u64,
    /// How they are counted.
    pub order: CellOrder,
    /// What a cell is made of, in order.
    pub fields: Vec<Field>,
    /// Who says so.
    pub source: Source,
}

impl Region {
    /// What to call a cell of several fields.
    pub fn name(&self) -> &'static str {
        let values = |field: &Field| field.kind == FieldKind::Values;
        if self.fields.iter().any(values) {
            "row"
        } else {
            "footer"
        }
    }

    /// Bytes of all its cells.
    pub const fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.stride)
    }
}

/// One layer's bytes for one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// All bytes.
    pub bytes: u64,
    /// Blocks that kernels read, of which it is made; 1 unless that matters.
    pub kernel_blocks: u64,
    /// Bytes of one of them.
    pub kernel_block_bytes: u64,
    /// What one of them is made of, in order.
    pub regions: Vec<Region>,
    /// Bytes behind them all, which hold nothing.
    pub padding_bytes: u64,
    /// Heads whose states it holds.
    pub heads: u64,
    /// Stored states of one head.
    pub states: u64,
    /// Why the order in it is not known, if it is not.
    pub unknown: Option<&'static str>,
}

/// A part of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The field.
    pub field: Field,
    /// Bytes of it in one slot.
    pub bytes: u64,
    /// Bytes from the start of the page to the first slot's.
    pub offset: u64,
    /// Bytes from one slot's to the next slot's, or from one row to the next where
    /// there is one slot.
    pub stride: u64,
}

impl Page {
    /// Slots: a state of a head each.
    pub const fn slots(&self) -> u64 {
        self.heads.saturating_mul(self.states)
    }

    /// Stored states of one head in a kernel block: `states` of the formulas.
    pub const fn kernel_states(&self) -> u64 {
        match self.states.checked_div(self.kernel_blocks) {
            Some(states) => states,
            None => self.states,
        }
    }

    /// What one slot is made of, in the order of the page.
    pub fn parts(&self) -> Vec<Part> {
        let slots = (self.slots() / self.kernel_blocks.max(1)).max(1);
        let regions = self.regions.iter();
        let parts = regions.flat_map(|region| {
            region.fields.iter().map(move |field| Part {
                field: *field,
                bytes: field.bytes.saturating_mul(region.count) / slots,
                offset: region.offset.saturating_add(field.offset),
                stride: region.stride,
            })
        });
        parts.collect()
    }

    /// Bytes of one slot: of K and V together where both are kept.
    pub fn slot_bytes(&self) -> u64 {
        let parts = self.parts().into_iter();
        parts.map(|part| part.bytes).fold(0, u64::saturating_add)
    }
}

/// What the layers of one spec keep, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerAnatomy {
    /// Index into `layers` of the answer.
    pub layer: usize,
    /// What reads and writes them, where it is selected.
    pub backend: Option<&'static str>,
    /// Tokens of a block as it is laid out: more than the layers ask for where all
    /// pages are brought to one size.
    pub block_size: u64,
    /// Their page, as it is laid out.
    pub page: Page,
    /// Where their pages lie, by group.
    pub places: Vec<Place>,
}

impl Resolution {
    /// What the pages of each kind of layer are made of, in the order of `layers`.
    pub fn anatomy(&self) -> Vec<LayerAnatomy> {
        let layers = 0..self.layers.len();
        layers.filter_map(|layer| self.anatomy_of(layer)).collect()
    }

    /// What the pages of one kind of layer are made of, by its number in `layers`.
    pub fn anatomy_of(&self, layer: usize) -> Option<LayerAnatomy> {
        let row = self.makings.rows.get(layer)?;
        Some(LayerAnatomy {
            layer,
            backend: row.backend.map(crate::backend::layer::LayerBackend::as_str),
            block_size: row.spec.block_size,
            page: page(self, layer, row),
            places: self.places(layer),
        })
    }

    /// Where the pages of one kind of layer lie, in the order of the groups.
    pub fn places(&self, layer: usize) -> Vec<Place> {
        let row = self.makings.rows.get(layer);
        row.map_or_else(Vec::new, |row| place::places(self, layer, &row.spec))
    }
}

fn page(resolution: &Resolution, layer: usize, row: &RowMakings) -> Page {
    let spec = &row.spec;
    let bytes = spec.page_size_bytes().unwrap_or(0);
    let content = spec.unpadded_page_size_bytes().unwrap_or(0).min(bytes);
    let padding_bytes = bytes - content;
    let (heads, states) = (spec.num_kv_heads.max(1), spec.num_states().max(1));
    let whole = |unknown| Page {
        bytes,
        kernel_blocks: 1,
        kernel_block_bytes: content,
        regions: vec![opaque(content)],
        padding_bytes,
        heads,
        states,
        unknown: Some(unknown),
    };
    let InPage {
        heads_first,
        kernel_blocks,
    } = match order(resolution, layer, row) {
        Ok(order) => order,
        Err(unknown) => return whole(unknown),
    };
    let made = match contents(&resolution.makings, row, heads_first) {
        Ok(made) => made,
        Err(unknown) => return whole(unknown),
    };
    // of cells that lie as their states do, no split shows
    let shows = made.regions.len() > 1 || (heads > 1 && heads_first);
    let kernel_blocks = if shows { kernel_blocks } else { 1 };
    if kernel_blocks > 1 && padding_bytes > 0 {
        return whole("a padded page is not split into kernel blocks");
    }
    let slots = heads.saturating_mul(states) / kernel_blocks;
    let regions = lay_out(made, slots, (heads, heads_first));
    let laid = regions
        .iter()
        .map(Region::bytes)
        .fold(0, u64::saturating_add);
    if laid.saturating_mul(kernel_blocks) != content {
        return whole("the parts that are known do not make up the page");
    }
    Page {
        bytes,
        kernel_blocks,
        kernel_block_bytes: laid,
        regions,
        padding_bytes,
        heads,
        states,
        unknown: None,
    }
}

/// Content of which only the bytes are known.
fn opaque(bytes: u64) -> Region {
    Region {
        offset: 0,
        count: 1,
        stride: bytes,
        order: CellOrder::Once,
        fields: vec![Field {
            name: "content",
            offset: 0,
            bytes,
            elements: bytes,
            dtype: "uint8",
            kind: FieldKind::Unknown,
            what: "what is kept, in an order that is not modelled",
        }],
        source: Source {
            file: "vllm/v1/kv_cache_interface.py",
            function: "AttentionSpec.page_size_bytes",
        },
    }
}

/// Regions one after another, with what is counted by slot.
fn lay_out(mut made: Contents, slots: u64, (heads, heads_first): (u64, bool)) -> Vec<Region> {
    let by_slot = match (heads, heads_first) {
        (1, _) => CellOrder::States,
        (_, true) if !made.planes => CellOrder::HeadsFirst,
        _ => CellOrder::StatesFirst,
    };
    let mut offset: u64 = 0;
    for region in &mut made.regions {
        region.offset = offset;
        if region.order == CellOrder::Once {
            region.count = slots;
            region.order = by_slot;
        }
        offset = offset.saturating_add(region.bytes());
    }
    made.regions.retain(|region| region.bytes() > 0);
    made.regions
}

/// The spec that a kind of layer has, for what follows from it.
fn spec_of(resolution: &Resolution, layer: usize) -> Option<&LayerSpec> {
    Some(&resolution.makings.rows.get(layer)?.spec)
}
