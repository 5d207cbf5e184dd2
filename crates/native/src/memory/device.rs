//! What the kernels are told of a layer: the structs of `kernels/cache.cu`.

use kv_resolver::anatomy::CellOrder;

use super::LayerSlots;
use crate::format::{self, Encoding, Floor, MOST_PIECES, ScaleForm, TensorScale};

/// `Span` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    offset: u64,
    stride: u64,
    order: u64,
}

/// `Piece` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    first: u64,
    elements: u64,
    span: Span,
    encoding: u64,
    group_elements: u64,
    scales: Span,
    form: u64,
    floor: u64,
    through_bfloat16: u64,
}

/// A layer, as the kernels are told of it: their `Layer`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceLayer {
    offset: u64,
    block_stride: u64,
    states_per_block: u64,
    heads: u64,
    row_elements: u64,
    kernel_states: u64,
    kernel_block_bytes: u64,
    has_zero: u64,
    zero: Span,
    k_scale: f32,
    v_scale: f32,
    pieces: u64,
    piece: [Piece; MOST_PIECES],
}

// SAFETY: plain numbers in C's order, without padding between them, as the kernels declare it.
#[cfg(feature = "cuda")]
unsafe impl cudarc::driver::DeviceRepr for DeviceLayer {}

impl Span {
    const fn new(span: format::Span) -> Self {
        Self {
            offset: span.offset,
            stride: span.stride,
            order: match span.order {
                CellOrder::HeadsFirst => 1,
                CellOrder::StatesFirst => 2,
                CellOrder::States | CellOrder::Heads | CellOrder::Rows | CellOrder::Once => 0,
            },
        }
    }

    /// Whether every cell of every page begins at a multiple of so many bytes.
    const fn is_aligned(self, bytes: u64) -> bool {
        self.offset.is_multiple_of(bytes) && self.stride.is_multiple_of(bytes)
    }
}

impl Piece {
    fn new(piece: &format::Piece) -> Self {
        let made = Self {
            first: piece.first,
            elements: piece.elements,
            span: Span::new(piece.span),
            // of a group without elements nothing is divided
            group_elements: 1,
            ..Self::default()
        };
        match piece.encoding {
            Encoding::Float32 => made,
            Encoding::Bfloat16 => Self {
                encoding: 1,
                ..made
            },
            Encoding::E4m3(TensorScale::K) => Self {
                encoding: 2,
                ..made
            },
            Encoding::E4m3(TensorScale::V) => Self {
                encoding: 3,
                ..made
            },
            Encoding::E4m3Groups(groups) => Self {
                encoding: 4,
                group_elements: groups.elements,
                scales: Span::new(groups.scales),
                form: match groups.form {
                    ScaleForm::Ue8m0 => 0,
                    ScaleForm::Float32 => 1,
                    ScaleForm::Ue8m0FourTimes => 2,
                },
                floor: match groups.floor {
                    Floor::Largest => 0,
                    Floor::Scale => 1,
                },
                through_bfloat16: u64::from(groups.through_bfloat16),
                ..made
            },
        }
    }

    /// Bytes that its stores are of: the widest.
    const fn word_bytes(&self) -> u64 {
        match self.encoding {
            0 => 4,
            1 => 2,
            _ => 1,
        }
    }
}

impl DeviceLayer {
    /// What the kernels are told; nothing of a layer whose words are not aligned, which a GPU does not store.
    #[must_use]
    pub fn new(slots: &LayerSlots<'_>) -> Option<Self> {
        let format = slots.format;
        let mut layer = Self {
            offset: slots.place.offset,
            block_stride: slots.place.block_stride,
            states_per_block: slots.states_per_block,
            heads: format.heads,
            row_elements: format.row_elements,
            kernel_states: format.kernel_states,
            kernel_block_bytes: format.kernel_block_bytes,
            has_zero: u64::from(format.zero.is_some()),
            zero: format.zero.map(Span::new).unwrap_or_default(),
            k_scale: slots.scales.k,
            v_scale: slots.scales.v,
            pieces: format.pieces.len() as u64,
            ..Self::default()
        };
        for (told, piece) in layer.piece.iter_mut().zip(&format.pieces) {
            *told = Piece::new(piece);
        }
        let words = layer.piece.iter().map(|piece| {
            let scale = if piece.encoding == 4 && piece.form != 0 {
                4
            } else {
                1
            };
            (piece.span.is_aligned(piece.word_bytes()) && piece.scales.is_aligned(scale))
                .then_some(piece.word_bytes().max(scale))
        });
        let widest = words.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        let pages = [layer.offset, layer.block_stride, layer.kernel_block_bytes];
        let aligned = pages.iter().all(|bytes| bytes.is_multiple_of(widest));
        aligned.then_some(layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_those_of_the_kernels() {
        assert_eq!(size_of::<Span>(), 24);
        assert_eq!(size_of::<Piece>(), 2 * 8 + 24 + 2 * 8 + 24 + 3 * 8);
        assert_eq!(
            size_of::<DeviceLayer>(),
            8 * 8 + 24 + 8 + 8 + MOST_PIECES * size_of::<Piece>()
        );
    }
}
