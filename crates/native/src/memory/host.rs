//! The host's memory: always there, and what a GPU's is compared with.

use super::region::Region;
use super::{DecodeStep, LayerSlots, Memory, bounds};
use crate::attention;
use crate::codec;
use crate::error::MemoryError;

/// The host's memory.
#[derive(Debug)]
pub struct HostMemory {
    region: Region,
    allocated_bytes: u64,
}

impl HostMemory {
    /// Allocates so many bytes, all 0.
    pub fn new(allocated_bytes: u64) -> Result<Self, MemoryError> {
        let region = Region::new(allocated_bytes).ok_or(MemoryError::OutOfMemory {
            bytes: allocated_bytes,
            memory: "the host",
        })?;
        Ok(Self {
            region,
            allocated_bytes,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.region.bytes()
    }
}

#[allow(clippy::cast_possible_truncation)] // it is in memory
const fn index(offset: u64) -> usize {
    offset as usize
}

impl Memory for HostMemory {
    fn device(&self) -> String {
        "host memory".to_owned()
    }

    fn is_host(&self) -> bool {
        true
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    fn address(&self) -> u64 {
        self.region.bytes().as_ptr() as u64
    }

    fn fill(&mut self, byte: u8) -> Result<(), MemoryError> {
        self.region.bytes_mut().fill(byte);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let end = bounds(offset, bytes.len(), self.allocated_bytes)?;
        self.region.bytes_mut()[index(offset)..index(end)].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let end = bounds(offset, bytes.len(), self.allocated_bytes)?;
        bytes.copy_from_slice(&self.region.bytes()[index(offset)..index(end)]);
        Ok(())
    }

    fn store(
        &mut self,
        layer: LayerSlots<'_>,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<(), MemoryError> {
        layer.check_rows(slots, rows)?;
        let format = layer.format;
        let bytes = self.region.bytes_mut();
        let tokens = rows.chunks(index(format.token_elements()));
        for (slot, token) in slots.iter().zip(tokens) {
            let Some((page, state)) = layer.find(*slot) else {
                continue;
            };
            // no more than the page: what is outside cannot be written
            let page = &mut bytes[index(page)..index(page + layer.place.page_bytes)];
            let rows = token.chunks(index(format.row_elements));
            for (head, row) in (0_u64..).zip(rows) {
                codec::store(format, page, (head, state), row, layer.scales);
            }
        }
        Ok(())
    }

    fn load(&self, layer: LayerSlots<'_>, slots: &[i64]) -> Result<Vec<f32>, MemoryError> {
        layer.check_slots(slots)?;
        let format = layer.format;
        let size = index(format.token_elements());
        let mut rows = vec![0.0; slots.len() * size];
        for (slot, token) in slots.iter().zip(rows.chunks_mut(size)) {
            let Some((page, state)) = layer.find(*slot) else {
                continue;
            };
            let page = &self.region.bytes()[index(page)..index(page + layer.place.page_bytes)];
            let rows = token.chunks_mut(index(format.row_elements));
            for (head, row) in (0_u64..).zip(rows) {
                codec::load(format, page, (head, state), row, layer.scales);
            }
        }
        Ok(rows)
    }

    fn attend(&self, step: DecodeStep<'_>) -> Result<Vec<f32>, MemoryError> {
        step.check()?;
        attention::attend(self, &step)
    }
}
