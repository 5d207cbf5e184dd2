//! How a row is stored in its slot: the anatomy's offsets and strides, and what vLLM's writers do to the numbers.

use kv_resolver::Resolution;
use kv_resolver::anatomy::{CellOrder, Field, FieldKind, LayerAnatomy, Region};
use kv_resolver::spec::LayerRole;

use crate::error::FormatError;

/// The most pieces of a slot that kernels are told of.
pub const MOST_PIECES: usize = 4;

/// Bytes of each slot, counted by cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Bytes from the start of the kernel block to the first cell's.
    pub offset: u64,
    /// Bytes from one cell's to the next cell's.
    pub stride: u64,
    /// How cells are counted.
    pub order: CellOrder,
}

/// How a group's scale is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleForm {
    /// A byte, the exponent.
    Ue8m0,
    /// A `float32`.
    Float32,
    /// Four bytes, each the exponent.
    Ue8m0FourTimes,
}

/// What keeps a scale from vanishing: 1e-4, of …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// … the group's largest number.
    Largest,
    /// … the scale itself.
    Scale,
}

/// Groups of numbers with a scale each, a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Elements of a group.
    pub elements: u64,
    /// Where the scales lie.
    pub scales: Span,
    /// How.
    pub form: ScaleForm,
    /// The least.
    pub floor: Floor,
    /// Whether the numbers go through `bfloat16` first.
    pub through_bfloat16: bool,
}

/// Which of a layer's two scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorScale {
    /// That of K.
    K,
    /// That of V.
    V,
}

/// What a number becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `float32`
    Float32,
    /// `bfloat16`
    Bfloat16,
    /// `float8_e4m3fn`, of the number divided by the layer's own scale.
    E4m3(TensorScale),
    /// `float8_e4m3fn`, of the number divided by its group's scale.
    E4m3Groups(Groups),
}

/// Consecutive elements of a row that are stored alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first element.
    pub first: u64,
    /// Elements.
    pub elements: u64,
    /// Where.
    pub span: Span,
    /// What they become.
    pub encoding: Encoding,
}

/// One slot: a state of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFormat {
    /// What the layers store.
    pub role: LayerRole,
    /// Elements of a head's row.
    pub row_elements: u64,
    /// Heads.
    pub heads: u64,
    /// Stored states of a head in a kernel block.
    pub kernel_states: u64,
    /// Bytes of a kernel block.
    pub kernel_block_bytes: u64,
    /// The pieces, in the order of the row.
    pub pieces: Vec<Piece>,
    /// A byte of each slot that is written 0.
    pub zero: Option<Span>,
}

impl RowFormat {
    /// The format of a kind of layer's pages.
    pub fn new(resolution: &Resolution, kind: &LayerAnatomy) -> Result<Self, FormatError> {
        let role = resolution.layers[kind.layer].role;
        let layer = role.as_str();
        let page = &kind.page;
        if let Some(why) = page.unknown {
            return Err(FormatError::Unmodelled { layer, why });
        }
        let mut format = Self {
            role,
            row_elements: 0,
            heads: page.heads,
            kernel_states: page.kernel_states(),
            kernel_block_bytes: page.kernel_block_bytes,
            pieces: Vec::new(),
            zero: None,
        };
        let fields = || {
            let regions = page.regions.iter();
            regions.flat_map(|region| region.fields.iter().map(move |field| (region, field)))
        };
        let scales = fields().find(|(_, field)| field.kind == FieldKind::Scales);
        for (region, field) in fields() {
            let no_writer = FormatError::NoWriter {
                layer,
                field: field.name,
                dtype: field.dtype,
            };
            if !matches!(
                region.order,
                CellOrder::States | CellOrder::HeadsFirst | CellOrder::StatesFirst
            ) {
                return Err(no_writer);
            }
            let encoding = match (field.kind, field.dtype) {
                // scores of states to come are numbers of their own
                (FieldKind::Values | FieldKind::Scales, "float32") if is_state(role) => {
                    Encoding::Float32
                }
                (FieldKind::Scales, _) => continue,
                (FieldKind::Padding, _) if field.bytes == 1 => {
                    format.zero = Some(span(region, field));
                    continue;
                }
                (FieldKind::Values, "bfloat16") => Encoding::Bfloat16,
                (FieldKind::Values, "float8_e4m3fn") => match scales {
                    Some(scales) => {
                        let is_v4 = kind.backend.is_none();
                        Encoding::E4m3Groups(groups(role, is_v4, field, scales).ok_or(no_writer)?)
                    }
                    None if field.name == "v" => Encoding::E4m3(TensorScale::V),
                    None => Encoding::E4m3(TensorScale::K),
                },
                (FieldKind::Values | FieldKind::Padding | FieldKind::Unknown, _) => {
                    return Err(no_writer);
                }
            };
            format.pieces.push(Piece {
                first: format.row_elements,
                elements: field.elements,
                span: span(region, field),
                encoding,
            });
            format.row_elements += field.elements;
        }
        if format.pieces.len() > MOST_PIECES {
            return Err(FormatError::ManyPieces {
                layer,
                pieces: format.pieces.len(),
                most: MOST_PIECES,
            });
        }
        Ok(format)
    }

    /// Elements of all heads' rows of one state.
    #[must_use]
    pub const fn token_elements(&self) -> u64 {
        self.row_elements * self.heads
    }

    /// Bytes from the start of the page to a slot's part.
    #[must_use]
    pub const fn at(&self, span: Span, head: u64, state: u64) -> u64 {
        let (block, state) = (state / self.kernel_states, state % self.kernel_states);
        let cell = match span.order {
            CellOrder::HeadsFirst => head * self.kernel_states + state,
            CellOrder::StatesFirst => state * self.heads + head,
            CellOrder::States | CellOrder::Heads | CellOrder::Rows | CellOrder::Once => state,
        };
        block * self.kernel_block_bytes + span.offset + cell * span.stride
    }

    /// Whether its numbers want the layer's own scales.
    #[must_use]
    pub fn wants_scales(&self) -> bool {
        let mut encodings = self.pieces.iter().map(|piece| piece.encoding);
        encodings.any(|encoding| matches!(encoding, Encoding::E4m3(_)))
    }
}

const fn is_state(role: LayerRole) -> bool {
    matches!(
        role,
        LayerRole::C4State | LayerRole::C128State | LayerRole::IndexerState
    )
}

const fn span(region: &Region, field: &Field) -> Span {
    Span {
        offset: region.offset + field.offset,
        stride: region.stride,
        order: region.order,
    }
}

/// What each writer does with its groups. All scales are powers of two, rounded up.
fn groups(
    role: LayerRole,
    is_v4: bool,
    values: &Field,
    (region, scales): (&Region, &Field),
) -> Option<Groups> {
    let (elements, form) = match (role, scales.dtype) {
        (LayerRole::Indexer, "ue8m0") => (values.elements, ScaleForm::Ue8m0FourTimes),
        (LayerRole::Indexer | LayerRole::Mla, "float32") => (
            values.elements.checked_div(scales.elements)?,
            ScaleForm::Float32,
        ),
        (LayerRole::Window | LayerRole::C4 | LayerRole::C128, "ue8m0") => (
            values.elements.checked_div(scales.elements)?,
            ScaleForm::Ue8m0,
        ),
        _ => return None,
    };
    let (floor, through_bfloat16) = match role {
        // `vllm/models/deepseek_v32/common/kernels.py` `_fused_norm_rope_kernel`, and
        // `csrc/cache_kernels.cu` `concat_and_cache_ds_mla_kernel`
        LayerRole::Mla => (Floor::Scale, false),
        // `_fp8_quant_and_cache_write` of the same; for V4
        // `vllm/models/deepseek_v4/common/ops/fused_compress_quant_cache.py`
        LayerRole::Indexer => (Floor::Largest, is_v4),
        // the same, and `quantize_and_insert_k_kernel` of `cache_utils.py` beside it, and
        // `csrc/fused_deepseek_v4_qnorm_rope_kv_insert_kernel.cu`
        _ => (Floor::Largest, true),
    };
    Some(Groups {
        elements,
        scales: span(region, scales),
        form,
        floor,
        through_bfloat16,
    })
}
