//! The suite that a machine is held against, and the receipt of it.

use std::collections::BTreeSet;
use std::fmt;

use kv_resolver::spec::LayerRole;
use thiserror::Error;

use crate::codec::TensorScales;
use crate::error::MemoryError;
use crate::golden::{self, GoldenError};
use crate::memory::{DecodeStep, HostMemory, Memory, Selection};
use crate::plan::PoolPlan;
use crate::pool::{Pool, PoolError};
use crate::tables::RequestId;

/// The most that an output of a decode step may be off, where values are from -1 to 1.
pub const ATTENTION_TOLERANCE: f64 = 1e-5;

/// Steps of traffic.
const STEPS: u64 = 60;
/// Requests at a time.
const REQUESTS: u64 = 4;
/// The most tokens that a step adds.
const TOKENS: u64 = 48;

/// Why a machine does not pass.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CheckError {
    /// A golden page.
    #[error(transparent)]
    Golden(#[from] GoldenError),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The memory is not as large as the plan says.
    #[error("{predicted} bytes are planned and {allocated} allocated")]
    Allocated {
        /// Bytes of the plan.
        predicted: u64,
        /// Bytes of the memory.
        allocated: u64,
    },
    /// A page is another than on the host.
    #[error("{layer}, block {block}: byte {byte} of the page is not the host's")]
    Page {
        /// The layer's name.
        layer: String,
        /// The block.
        block: u32,
        /// The byte.
        byte: usize,
    },
    /// A row is read back otherwise than it was.
    #[error("{layer}: request {request} reads other rows than were written")]
    Rows {
        /// The layer's name.
        layer: String,
        /// The request.
        request: RequestId,
    },
    /// A decode step is too far off.
    #[error("{layer}: a decode step is off by {error:e}, more than {ATTENTION_TOLERANCE:e}")]
    Attention {
        /// The layer's name.
        layer: String,
        /// How far.
        error: f64,
    },
}

impl From<MemoryError> for CheckError {
    fn from(error: MemoryError) -> Self {
        Self::Pool(error.into())
    }
}

/// What was checked, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The memory, in words.
    pub device: String,
    /// The plan's release and what it is of.
    pub plan: String,
    /// Layers with a cache.
    pub layers: usize,
    /// Groups.
    pub groups: usize,
    /// Blocks.
    pub num_blocks: u64,
    /// Bytes that the plan says.
    pub predicted_bytes: u64,
    /// Bytes that the memory has.
    pub allocated_bytes: u64,
    /// Sets of vLLM's pages.
    pub golden_sets: usize,
    /// Pages of them that are equal, byte for byte.
    pub golden_pages: u64,
    /// Pages that traffic wrote, equal to the host's.
    pub traffic_pages: u64,
    /// Rows that traffic wrote and read back.
    pub traffic_rows: u64,
    /// How far a decode step was off at most, and of how many layers.
    pub attention: Option<(f64, usize)>,
    /// Layers without a writer, and why.
    pub without_writer: Vec<String>,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device            {}", self.device)?;
        writeln!(f, "plan              {}", self.plan)?;
        writeln!(
            f,
            "                  {} layers, {} groups, {} blocks",
            self.layers, self.groups, self.num_blocks
        )?;
        writeln!(f, "bytes predicted   {}", self.predicted_bytes)?;
        writeln!(f, "bytes allocated   {}", self.allocated_bytes)?;
        writeln!(
            f,
            "golden pages      {} of vLLM's, in {} sets: equal, and nothing beside them written",
            self.golden_pages, self.golden_sets
        )?;
        writeln!(
            f,
            "traffic           {} pages as on the host, {} rows read back as written",
            self.traffic_pages, self.traffic_rows
        )?;
        if let Some((error, layers)) = self.attention {
            writeln!(
                f,
                "decode step       off by {error:.1e} at most, of {ATTENTION_TOLERANCE:.0e} allowed; {layers} kinds of layers"
            )?;
        }
        for why in &self.without_writer {
            writeln!(f, "not written       {why}")?;
        }
        write!(
            f,
            "pages verified    {}",
            self.golden_pages + self.traffic_pages
        )
    }
}

/// Runs the suite: `name` says what the plan is of.
pub fn check<M: Memory>(
    name: &str,
    plan: &PoolPlan,
    allocate: impl Fn(u64) -> Result<M, MemoryError>,
) -> Result<Receipt, CheckError> {
    let (untouched, sets) = golden::sets()?;
    let mut golden_pages = 0;
    for set in &sets {
        golden_pages += set.check(untouched, &allocate)?;
    }
    let mut pool = Pool::new(plan.clone(), &allocate)?;
    let allocated = pool.memory().allocated_bytes();
    if allocated != plan.allocated_bytes {
        return Err(CheckError::Allocated {
            predicted: plan.allocated_bytes,
            allocated,
        });
    }
    let mut traffic = Traffic::new(plan)?;
    traffic.run(&mut pool)?;
    let attention = attention(&mut pool)?;
    Ok(Receipt {
        device: pool.memory().device(),
        plan: name.to_owned(),
        layers: plan.layers.len(),
        groups: plan.groups.len(),
        num_blocks: plan.num_blocks,
        predicted_bytes: plan.allocated_bytes,
        allocated_bytes: allocated,
        golden_sets: sets.len(),
        golden_pages,
        traffic_pages: traffic.pages.len() as u64,
        traffic_rows: traffic.rows,
        attention,
        without_writer: plan
            .kinds
            .iter()
            .filter_map(|kind| kind.format.as_ref().err().map(ToString::to_string))
            .collect(),
    })
}

/// Numbers that look random and are the same everywhere.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        let bits = u16::try_from(self.next() & 0xffff).unwrap_or(0);
        f32::from(bits) / 32_768.0 - 1.0
    }

    fn rows(&mut self, elements: u64) -> Vec<f32> {
        (0..elements).map(|_| self.number()).collect()
    }
}

/// Requests that come, grow and go, on a pool and on the host.
struct Traffic {
    host: Pool<HostMemory>,
    /// A layer of each kind in each group that has a writer.
    layers: Vec<usize>,
    noise: Noise,
    /// Tokens of each request.
    tokens: Vec<u64>,
    /// Pages that were written.
    pages: BTreeSet<(usize, u32)>,
    rows: u64,
}

const SCALES: TensorScales = TensorScales { k: 0.01, v: 0.02 };

impl Traffic {
    fn new(plan: &PoolPlan) -> Result<Self, CheckError> {
        Ok(Self {
            host: Pool::on_host(plan.clone())?,
            layers: one_of_each(plan),
            noise: Noise(1),
            tokens: vec![0; usize::try_from(REQUESTS).unwrap_or(0)],
            pages: BTreeSet::new(),
            rows: 0,
        })
    }

    fn run<M: Memory>(&mut self, pool: &mut Pool<M>) -> Result<(), CheckError> {
        for _ in 0..STEPS {
            let request = self.noise.next() % REQUESTS;
            let at = usize::try_from(request).unwrap_or(0);
            let computed = self.tokens[at];
            if computed > 0 && self.noise.next() % 5 == 0 {
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

/// The first layer of each kind in each group, of those with a writer.
fn one_of_each(plan: &PoolPlan) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let layers = plan.layers.iter().enumerate();
    let some = layers.filter(|(_, layer)| plan.kinds[layer.kind].format.is_ok());
    some.filter(|(_, layer)| seen.insert((layer.kind, layer.group)))
        .map(|(number, _)| number)
        .collect()
}

/// A decode step in each kind of layer that attention reads so, against float64.
fn attention<M: Memory>(pool: &mut Pool<M>) -> Result<Option<(f64, usize)>, CheckError> {
    const HEADS: usize = 8;
    let layers = one_of_each(pool.plan()).into_iter();
    let attends = |role| {
        matches!(
            role,
            LayerRole::Window | LayerRole::C4 | LayerRole::C128 | LayerRole::Mla
        )
    };
    let mut noise = Noise(2);
    let mut worst = None;
    for layer in layers {
        let place = pool.plan().layers[layer].clone();
        if !attends(place.role) {
            continue;
        }
        let name = &place.name;
        // slots of blocks that traffic wrote, and of some that it did not
        let slots = pool.slots_of(layer, SCALES)?;
        let count = slots.slots().min(96);
        let chosen: Vec<i64> = (0..count)
            .map(|slot| {
                if slot % 7 == 6 {
                    -1
                } else {
                    slot.cast_signed()
                }
            })
            .collect();
        let elements = slots.format.token_elements();
        let values = usize::try_from(elements).unwrap_or(0).min(512);
        let rows = noise.rows(elements * count);
        pool.store(layer, &chosen, &rows, SCALES)?;
        let slots = pool.slots_of(layer, SCALES)?;
        let queries = noise.rows(elements * HEADS as u64);
        let sinks = noise.rows(HEADS as u64);
        let step = DecodeStep {
            queries: &queries,
            tokens: 1,
            heads: HEADS,
            selections: &[Selection {
                layer: slots,
                slots: &chosen,
            }],
            scale: 0.044_194,
            sinks: Some(&sinks),
            value_elements: values,
        };
        let outputs = pool.memory().attend(step)?;
        let some: Vec<i64> = chosen.iter().copied().filter(|slot| *slot >= 0).collect();
        let rows = pool.memory().load(slots, &some)?;
        let error = furthest(&step, &rows, &outputs);
        if error > ATTENTION_TOLERANCE {
            let layer = name.clone();
            return Err(CheckError::Attention { layer, error });
        }
        let (before, kinds) = worst.unwrap_or((0.0, 0));
        worst = Some((error.max(before), kinds + 1));
    }
    Ok(worst)
}

/// How far outputs of one token are from those in float64.
fn furthest(step: &DecodeStep<'_>, rows: &[f32], outputs: &[f32]) -> f64 {
    let size = step.queries.len() / step.heads;
    let mut worst = 0.0_f64;
    for head in 0..step.heads {
        let query = &step.queries[head * size..(head + 1) * size];
        let score = |row: &[f32]| {
            let products = row.iter().zip(query);
            let dot: f64 = products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (dot * f64::from(step.scale)).exp()
        };
        let weights: Vec<f64> = rows.chunks(size).map(score).collect();
        let sink = step.sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
        let sum: f64 = weights.iter().sum::<f64>() + sink;
        for element in 0..step.value_elements {
            let parts = weights.iter().zip(rows.chunks(size));
            let exact: f64 = parts
                .map(|(weight, row)| weight / sum * f64::from(row[element]))
                .sum();
            let here = outputs[head * step.value_elements + element];
            worst = worst.max((f64::from(here) - exact).abs());
        }
    }
    worst
}
