//! Memory that holds a pool: bytes by their offset, rows by their slot.

#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod host;
mod region;

#[cfg(feature = "cuda")]
pub use cuda::{CudaMemory, Rates};
pub use device::DeviceLayer;
pub use host::HostMemory;

use crate::codec::TensorScales;
use crate::error::MemoryError;
use crate::format::RowFormat;
use crate::plan::LayerPlace;

/// A layer's slots. Slot `s` is state `s % states_per_block` of block `s / states_per_block`, as in vLLM's slot mappings.
#[derive(Debug, Clone, Copy)]
pub struct LayerSlots<'plan> {
    /// Where its pages lie.
    pub place: &'plan LayerPlace,
    /// What a slot is.
    pub format: &'plan RowFormat,
    /// Stored states in a page.
    pub states_per_block: u64,
    /// Blocks of the pool.
    pub num_blocks: u64,
    /// The layer's own scales.
    pub scales: TensorScales,
}

impl LayerSlots<'_> {
    /// Slots of the layer.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.num_blocks * self.states_per_block
    }

    /// A slot's page, as bytes from the start of the allocation, and its state there; none of a negative slot.
    fn find(&self, slot: i64) -> Option<(u64, u64)> {
        let slot = u64::try_from(slot).ok()?;
        let (block, state) = (slot / self.states_per_block, slot % self.states_per_block);
        Some((self.place.page_offset(block), state))
    }

    fn check_slots(&self, slots: &[i64]) -> Result<(), MemoryError> {
        let most = self.slots();
        let outside = |slot: &&i64| u64::try_from(**slot).is_ok_and(|slot| slot >= most);
        match slots.iter().find(outside) {
            Some(slot) => Err(MemoryError::NoSlot {
                slot: *slot,
                slots: most,
            }),
            None => Ok(()),
        }
    }

    fn check_rows(&self, slots: &[i64], rows: &[f32]) -> Result<(), MemoryError> {
        self.check_slots(slots)?;
        let size = usize::try_from(self.format.token_elements()).unwrap_or(usize::MAX);
        let wanted = size.saturating_mul(slots.len());
        if rows.len() != wanted {
            let given = rows.len();
            return Err(MemoryError::Rows { given, wanted });
        }
        match rows.iter().position(|number| !number.is_finite()) {
            Some(at) => Err(MemoryError::NotFinite {
                row: at / size,
                element: at % size,
            }),
            None => Ok(()),
        }
    }
}

/// Slots that each token of a decode step attends to, in one layer; a negative one stands for none.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'plan> {
    /// The layer.
    pub layer: LayerSlots<'plan>,
    /// So many slots for each token, one after another.
    pub slots: &'plan [i64],
}

/// A sparse-MLA decode step: each head of a token scores the selected rows, a softmax weighs them.
#[derive(Debug, Clone, Copy)]
pub struct DecodeStep<'plan> {
    /// Queries: token, head, element of a row.
    pub queries: &'plan [f32],
    /// Tokens.
    pub tokens: usize,
    /// Query heads.
    pub heads: usize,
    /// The window's slots, the compressed ones, or both: rows of one size.
    pub selections: &'plan [Selection<'plan>],
    /// Factor of the scores.
    pub scale: f32,
    /// A score for each head that takes its share and adds nothing.
    pub sinks: Option<&'plan [f32]>,
    /// The elements of a row, from its first, that are summed up.
    pub value_elements: usize,
}

impl DecodeStep<'_> {
    /// Elements of a row.
    fn row_elements(&self) -> usize {
        let first = self.selections.first();
        first.map_or(0, |selection| {
            usize::try_from(selection.layer.format.row_elements).unwrap_or(usize::MAX)
        })
    }

    fn check(&self) -> Result<(), MemoryError> {
        let row = self.row_elements();
        let wanted = self.tokens.saturating_mul(self.heads).saturating_mul(row);
        let rows = |given: usize, wanted: usize| {
            if given == wanted {
                Ok(())
            } else {
                Err(MemoryError::Rows { given, wanted })
            }
        };
        rows(self.queries.len(), wanted)?;
        rows(self.sinks.map_or(self.heads, <[f32]>::len), self.heads)?;
        rows(self.value_elements.max(row), row)?;
        for selection in self.selections {
            let elements = usize::try_from(selection.layer.format.token_elements());
            rows(elements.unwrap_or(usize::MAX), row)?;
            let width = selection.slots.len() / self.tokens.max(1);
            rows(selection.slots.len(), width * self.tokens)?;
            selection.layer.check_slots(selection.slots)?;
        }
        Ok(())
    }
}

/// One allocation, and what is done in it.
pub trait Memory {
    /// Where it is, in words.
    fn device(&self) -> String;

    /// Whether it is the host's.
    fn is_host(&self) -> bool;

    /// Its bytes.
    fn allocated_bytes(&self) -> u64;

    /// The address of its first byte, there.
    fn address(&self) -> u64;

    /// Sets every byte.
    fn fill(&mut self, byte: u8) -> Result<(), MemoryError>;

    /// Copies bytes in.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError>;

    /// Copies bytes out.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError>;

    /// Quantises rows into their slots; a row of a negative slot is left out. Of a slot that is named twice one row stays.
    fn store(
        &mut self,
        layer: LayerSlots<'_>,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<(), MemoryError>;

    /// Reads slots and dequantises them; of a negative slot zeros.
    fn load(&self, layer: LayerSlots<'_>, slots: &[i64]) -> Result<Vec<f32>, MemoryError>;

    /// A decode step's outputs: token, head, element. Of a token with no slots zeros.
    fn attend(&self, step: DecodeStep<'_>) -> Result<Vec<f32>, MemoryError>;
}

/// The end of some bytes, if they are inside.
fn bounds(offset: u64, len: usize, allocated: u64) -> Result<u64, MemoryError> {
    let end = offset.saturating_add(len as u64);
    if end > allocated {
        return Err(MemoryError::OutOfBounds {
            offset,
            end,
            allocated,
        });
    }
    Ok(end)
}
