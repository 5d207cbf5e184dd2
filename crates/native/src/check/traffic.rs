//! Random traffic, the same everywhere.

use std::collections::BTreeSet;

use super::{CheckError, Noise, SCALES, one_of_each};
use crate::memory::{HostMemory, Memory};
use crate::plan::PoolPlan;
use crate::pool::{Pool, PoolError};
use crate::tables::RequestId;

/// Steps of traffic.
const STEPS: u64 = 60;
/// Requests at a time.
const REQUESTS: u64 = 4;
/// The most tokens that a step adds.
const TOKENS: u64 = 48;

/// Requests that come, grow and go, on a pool and on the host.
pub(super) struct Traffic {
    host: Pool<HostMemory>,
    /// A layer of each kind in each group that has a writer.
    layers: Vec<usize>,
    noise: Noise,
    /// Tokens of each request.
    tokens: Vec<u64>,
    /// Pages that were written.
    pub pages: BTreeSet<(usize, u32)>,
    /// Rows that were written.
    pub rows: u64,
}

impl Traffic {
    /// None yet.
    pub fn new(plan: &PoolPlan) -> Result<Self, CheckError> {
        Ok(Self {
            host: Pool::on_host(plan.clone())?,
            layers: one_of_each(plan),
            noise: Noise(1),
            tokens: vec![0; usize::try_from(REQUESTS).unwrap_or(0)],
            pages: BTreeSet::new(),
            rows: 0,
        })
    }

    /// Runs it, and compares what it left.
    pub fn run<M: Memory>(&mut self, pool: &mut Pool<M>) -> Result<(), CheckError> {
        for _ in 0..STEPS {
            let request = self.noise.next() % REQUESTS;
            let at = usize::try_from(request).unwrap_or(0);
            let computed = self.tokens[at];
            if computed > 0 && self.noise.next().is_multiple_of(5) {
                self.read_back(pool, request, computed)?;
                end(pool, &mut self.host, request)?;
                self.tokens[at] = 0;
                continue;
            }
            let tokens = computed + 1 + self.noise.next() % TOKENS;
            let here = pool.tables_mut().grow(request, computed, tokens);
            if here != self.host.tables_mut().grow(request, computed, tokens) {
                return Err(CheckError::Rows {
                    layer: "the block tables".to_owned(),
                    request,
                });
            }
            // a full pool: whoever asked ends
            if here.is_err() {
                if computed > 0 {
                    end(pool, &mut self.host, request)?;
                }
                self.tokens[at] = 0;
                continue;
            }
            self.write(pool, request, computed, tokens)?;
            self.tokens[at] = tokens;
        }
        for (request, tokens) in (0..).zip(self.tokens.clone()) {
            if tokens > 0 {
                self.read_back(pool, request, tokens)?;
            }
        }
        self.compare(pool)
    }

    /// Writes the states that the new tokens complete.
    fn write<M: Memory>(
        &mut self,
        pool: &mut Pool<M>,
        request: RequestId,
        computed: u64,
        tokens: u64,
    ) -> Result<(), CheckError> {
        for layer in self.layers.clone() {
            let place = &pool.plan().layers[layer];
            let kind = &pool.plan().kinds[place.kind];
            let Ok(format) = &kind.format else { continue };
            let states = computed / kind.tokens_per_state..tokens / kind.tokens_per_state;
            let count = states.end - states.start;
            let rows = self.noise.rows(count * format.token_elements());
            let states_per_block = kind.states_per_block;
            pool.write(layer, request, states.start, &rows, SCALES)?;
            self.host
                .write(layer, request, states.start, &rows, SCALES)?;
            for slot in pool.slots(layer, request, states)? {
                let block = slot.cast_unsigned() / states_per_block;
                self.pages
                    .insert((layer, u32::try_from(block).unwrap_or(0)));
            }
            self.rows += count;
        }
        Ok(())
    }

    /// What windows still reach is read as on the host, bit for bit.
    fn read_back<M: Memory>(
        &self,
        pool: &Pool<M>,
        request: RequestId,
        tokens: u64,
    ) -> Result<(), CheckError> {
        for layer in self.layers.iter().copied() {
            let place = &pool.plan().layers[layer];
            let kind = &pool.plan().kinds[place.kind];
            let group = pool.plan().groups[place.group];
            let behind = group.keeps.skipped(tokens).div_ceil(kind.tokens_per_state);
            let states = behind..tokens / kind.tokens_per_state;
            let here = pool.gather(layer, request, states.clone(), SCALES)?;
            let there = self.host.gather(layer, request, states, SCALES)?;
            let bits = |rows: Vec<f32>| rows.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            if bits(here) != bits(there) {
                return Err(CheckError::Rows {
                    layer: place.name.clone(),
                    request,
                });
            }
        }
        Ok(())
    }

    /// Every page that was written is as on the host, byte for byte; and so is the null block's, which nobody writes.
    fn compare<M: Memory>(&self, pool: &Pool<M>) -> Result<(), CheckError> {
        let null = self.layers.iter().map(|layer| (*layer, 0));
        for (layer, block) in self.pages.iter().copied().chain(null) {
            let here = pool.page_bytes(layer, block)?;
            let there = self.host.page_bytes(layer, block)?;
            if let Some(byte) = here.iter().zip(&there).position(|(a, b)| a != b) {
                return Err(CheckError::Page {
                    layer: pool.plan().layers[layer].name.clone(),
                    block,
                    byte,
                });
            }
        }
        Ok(())
    }
}

fn end<M: Memory>(
    pool: &mut Pool<M>,
    host: &mut Pool<HostMemory>,
    request: RequestId,
) -> Result<(), CheckError> {
    pool.tables_mut().end(request).map_err(PoolError::from)?;
    host.tables_mut().end(request).map_err(PoolError::from)?;
    Ok(())
}
