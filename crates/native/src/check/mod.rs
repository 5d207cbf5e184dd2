//! The suite that a machine is held against, and the receipt of it.

mod decode;
mod traffic;

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::codec::TensorScales;
use crate::error::MemoryError;
use crate::golden::{self, GoldenError};
use crate::memory::Memory;
use crate::plan::PoolPlan;
use crate::pool::{Pool, PoolError};
use crate::tables::RequestId;

use traffic::Traffic;

/// The most that an output of a decode step may be off, where values are from -1 to 1.
pub const ATTENTION_TOLERANCE: f64 = 1e-5;

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
    /// Whether it is the host's, with which nothing is compared then.
    pub is_host: bool,
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
        let compared = if self.is_host { "" } else { " as on the host" };
        writeln!(
            f,
            "traffic           {} pages{compared}, {} rows read back as written",
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
        write!(f, "pages verified    {}", self.pages_verified())
    }
}

impl Receipt {
    /// Pages that were equalled, byte for byte: vLLM's, and on a GPU those of the host.
    pub const fn pages_verified(&self) -> u64 {
        if self.is_host {
            self.golden_pages
        } else {
            self.golden_pages + self.traffic_pages
        }
    }
}

/// Runs the suite: `name` says what the plan is of.
pub fn check<M: Memory>(
    name: &str,
    plan: &PoolPlan,
    allocate: impl Fn(u64) -> Result<M, MemoryError>,
) -> Result<Receipt, CheckError> {
    let mut pool = Pool::new(plan.clone(), &allocate)?;
    let allocated = pool.memory().allocated_bytes();
    if allocated != plan.allocated_bytes {
        return Err(CheckError::Allocated {
            predicted: plan.allocated_bytes,
            allocated,
        });
    }
    let (untouched, sets) = golden::sets()?;
    let mut golden_pages = 0;
    for set in &sets {
        golden_pages += set.check(untouched, &allocate)?;
    }
    let mut traffic = Traffic::new(plan)?;
    traffic.run(&mut pool)?;
    let attention = decode::attention(&mut pool)?;
    Ok(Receipt {
        device: pool.memory().device(),
        is_host: pool.memory().is_host(),
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

/// What the suite divides by, where each layer has a scale.
const SCALES: TensorScales = TensorScales { k: 0.01, v: 0.02 };

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

/// The first layer of each kind in each group, of those with a writer.
fn one_of_each(plan: &PoolPlan) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let layers = plan.layers.iter().enumerate();
    let some = layers.filter(|(_, layer)| plan.kinds[layer.kind].format.is_ok());
    some.filter(|(_, layer)| seen.insert((layer.kind, layer.group)))
        .map(|(number, _)| number)
        .collect()
}
