//! A pool: one allocation, the plan's views of it, and who has which block.

use crate::blocks::BlockId;
use crate::codec::TensorScales;
use crate::error::{BlockError, FormatError, MemoryError, PlanError};
use crate::memory::{HostMemory, LayerSlots, Memory};
use crate::plan::{LayerPlace, PoolPlan};
use crate::tables::{BlockTables, RequestId};

use thiserror::Error;

/// Whatever a pool refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The blocks.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The layout.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A layer that the plan does not have.
    #[error("layer {layer}: the plan has {layers}")]
    NoLayer {
        /// The number asked for.
        layer: usize,
        /// Layers.
        layers: usize,
    },
}

/// One page, as an address for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageView {
    /// The address of its first byte.
    pub address: u64,
    /// Bytes from the start of the allocation.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Memory by plan.
#[derive(Debug)]
pub struct Pool<M> {
    plan: PoolPlan,
    memory: M,
    tables: BlockTables,
}

impl Pool<HostMemory> {
    /// A pool in the host's memory.
    pub fn on_host(plan: PoolPlan) -> Result<Self, PoolError> {
        Self::new(plan, HostMemory::new)
    }
}

impl<M: Memory> Pool<M> {
    /// Allocates the plan's bytes, once.
    pub fn new(
        plan: PoolPlan,
        allocate: impl FnOnce(u64) -> Result<M, MemoryError>,
    ) -> Result<Self, PoolError> {
        let tables = BlockTables::new(&plan)?;
        let memory = allocate(plan.allocated_bytes)?;
        Ok(Self {
            plan,
            memory,
            tables,
        })
    }

    /// The plan that it obeys.
    pub const fn plan(&self) -> &PoolPlan {
        &self.plan
    }

    /// The allocation.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// The allocation, to be written.
    pub const fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Who has which block.
    pub const fn tables(&self) -> &BlockTables {
        &self.tables
    }

    /// The same, to be changed.
    pub const fn tables_mut(&mut self) -> &mut BlockTables {
        &mut self.tables
    }

    fn place(&self, layer: usize) -> Result<&LayerPlace, PoolError> {
        let layers = self.plan.layers.len();
        let place = self.plan.layers.get(layer);
        place.ok_or(PoolError::NoLayer { layer, layers })
    }

    /// A layer's page of a block.
    pub fn page(&self, layer: usize, block: BlockId) -> Result<PageView, PoolError> {
        let place = self.place(layer)?;
        if u64::from(block) >= self.plan.num_blocks {
            return Err(BlockError::NotOfPool(block).into());
        }
        let offset = place.page_offset(u64::from(block));
        Ok(PageView {
            address: self.memory.address() + offset,
            offset,
            bytes: place.page_bytes,
        })
    }

    /// A copy of a layer's page of a block.
    pub fn page_bytes(&self, layer: usize, block: BlockId) -> Result<Vec<u8>, PoolError> {
        let view = self.page(layer, block)?;
        let mut bytes = vec![0; usize::try_from(view.bytes).unwrap_or(usize::MAX)];
        self.memory.read(view.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// A layer's slots, if there is a writer for them.
    pub fn slots_of(
        &self,
        layer: usize,
        scales: TensorScales,
    ) -> Result<LayerSlots<'_>, PoolError> {
        layer_slots(&self.plan, self.place(layer)?, scales)
    }

    /// The slots of a request's states in a layer, from one state on.
    pub fn slots(
        &self,
        layer: usize,
        request: RequestId,
        states: std::ops::Range<u64>,
    ) -> Result<Vec<i64>, PoolError> {
        let place = self.place(layer)?;
        let kind = &self.plan.kinds[place.kind];
        let slot = |state: u64| {
            let token = state.saturating_mul(kind.tokens_per_state);
            let block = self.tables.block_of(request, place.group, token)?;
            let within = state % kind.states_per_block;
            let slot = u64::from(block) * kind.states_per_block + within;
            Ok(slot.cast_signed())
        };
        states.map(slot).collect()
    }

    /// Quantises rows of a request's states into their slots, from one state on.
    pub fn write(
        &mut self,
        layer: usize,
        request: RequestId,
        first_state: u64,
        rows: &[f32],
        scales: TensorScales,
    ) -> Result<(), PoolError> {
        let elements = self.slots_of(layer, scales)?.format.token_elements();
        let count = (rows.len() as u64).div_ceil(elements.max(1));
        let slots = self.slots(layer, request, first_state..first_state + count)?;
        self.store(layer, &slots, rows, scales)
    }

    /// Reads a request's states and dequantises them.
    pub fn gather(
        &self,
        layer: usize,
        request: RequestId,
        states: std::ops::Range<u64>,
        scales: TensorScales,
    ) -> Result<Vec<f32>, PoolError> {
        let slots = self.slots(layer, request, states)?;
        Ok(self.memory.load(self.slots_of(layer, scales)?, &slots)?)
    }

    /// Stores rows in slots, whoever has their blocks.
    pub fn store(
        &mut self,
        layer: usize,
        slots: &[i64],
        rows: &[f32],
        scales: TensorScales,
    ) -> Result<(), PoolError> {
        let layers = self.plan.layers.len();
        let place = self.plan.layers.get(layer);
        let place = place.ok_or(PoolError::NoLayer { layer, layers })?;
        let layer = layer_slots(&self.plan, place, scales)?;
        Ok(self.memory.store(layer, slots, rows)?)
    }
}

#[cfg(feature = "cuda")]
impl Pool<crate::memory::CudaMemory> {
    /// How fast rows are written and read there.
    pub fn rates(
        &mut self,
        layer: usize,
        slots: &[i64],
        rows: &[f32],
    ) -> Result<crate::memory::Rates, PoolError> {
        let layers = self.plan.layers.len();
        let place = self.plan.layers.get(layer);
        let place = place.ok_or(PoolError::NoLayer { layer, layers })?;
        let layer = layer_slots(&self.plan, place, TensorScales::default())?;
        Ok(self.memory.rates(layer, slots, rows)?)
    }
}

fn layer_slots<'plan>(
    plan: &'plan PoolPlan,
    place: &'plan LayerPlace,
    scales: TensorScales,
) -> Result<LayerSlots<'plan>, PoolError> {
    let kind = &plan.kinds[place.kind];
    Ok(LayerSlots {
        place,
        format: kind.format.as_ref().map_err(Clone::clone)?,
        states_per_block: kind.states_per_block,
        num_blocks: plan.num_blocks,
        scales,
    })
}
