//! Pages that vLLM's own kernels wrote, carried along so that every machine can be held against them.
//!
//! `tests/oracle/golden_pages.py` makes them: which kernel of vLLM's made which is told by [`Golden::source`].

use kv_cases::parse_case;
use kv_resolver::{Resolution, resolve};
use thiserror::Error;

use crate::codec::TensorScales;
use crate::error::{MemoryError, PlanError};
use crate::memory::Memory;
use crate::plan::PoolPlan;
use crate::pool::{Pool, PoolError};

const INDEX: &str = include_str!("../tests/golden/index.json");

/// Bytes of the pools that sets are stored in.
const POOL_BYTES: u64 = 160 << 20;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Name, rows, pages.
        const FILES: &[(&str, &[u8], &[u8])] = &[$((
            $name,
            include_bytes!(concat!("../tests/golden/", $name, ".rows")),
            include_bytes!(concat!("../tests/golden/", $name, ".pages")),
        )),*];
    };
}

files!(
    "v4_window",
    "v4_window_cpu",
    "v4_c4",
    "v4_c128",
    "v4_indexer",
    "v4_indexer_mx",
    "v4_c4_state",
    "v32_mla",
    "v32_indexer",
    "v32_indexer_mx",
    "mla_bf16",
    "mla_fp8",
    "attention_bf16",
    "attention_fp8",
);

/// The rows of `v4_window` as vLLM's own gather reads them, `bfloat16`:
/// `vllm/models/deepseek_v4/common/ops/cache_utils.py` `DequantizeAndGatherKCacheKernel`.
pub const V4_WINDOW_READ: &[u8] = include_bytes!("../tests/golden/v4_window.read");

/// Why a set is not equalled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GoldenError {
    /// The index is not what the script writes.
    #[error("the index of golden pages: {0}")]
    Index(&'static str),
    /// The case does not start.
    #[error("{name}: {error}")]
    Case {
        /// The set.
        name: String,
        /// Why.
        error: String,
    },
    /// The pool.
    #[error("{name}: {error}")]
    Pool {
        /// The set.
        name: String,
        /// Why.
        error: PoolError,
    },
    /// A byte of the allocation is another than vLLM wrote, or left.
    #[error("{name}: byte {byte} of the allocation is not vLLM's")]
    Differs {
        /// The set.
        name: String,
        /// Bytes from the start of the allocation.
        byte: u64,
    },
}

/// Rows, the slots they go to, and what vLLM makes of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Golden {
    /// Its name, of its files too.
    pub name: String,
    /// vLLM's function that wrote the pages.
    pub source: String,
    /// A case with such layers, as a line.
    pub case: String,
    /// The layers' role.
    pub role: String,
    /// The slots, counted over the pages.
    pub slots: Vec<i64>,
    /// What numbers are divided by, where each layer has a scale.
    pub scales: TensorScales,
    /// The rows, one after another.
    pub rows: Vec<f32>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The pages, one after another, from block 0 on.
    pub pages: &'static [u8],
}

/// The byte that pages are full of before they are written, and every set.
pub fn sets() -> Result<(u8, Vec<Golden>), GoldenError> {
    let index: serde_json::Value =
        serde_json::from_str(INDEX).map_err(|_| GoldenError::Index("not JSON"))?;
    let untouched = index["untouched"].as_u64();
    let untouched = untouched.and_then(|byte| u8::try_from(byte).ok());
    let untouched = untouched.ok_or(GoldenError::Index("no untouched"))?;
    let sets = index["pages"].as_array();
    let sets = sets.ok_or(GoldenError::Index("no pages"))?.iter();
    Ok((untouched, sets.map(set).collect::<Result<_, _>>()?))
}

fn set(of: &serde_json::Value) -> Result<Golden, GoldenError> {
    let text = |key: &str| of[key].as_str().map(str::to_owned);
    let name = text("name").ok_or(GoldenError::Index("no name"))?;
    let mut files = FILES.iter();
    let (_, rows, pages) = files
        .find(|(file, ..)| *file == name)
        .ok_or(GoldenError::Index("a set without files"))?;
    let slots = of["slots"]
        .as_array()
        .ok_or(GoldenError::Index("no slots"))?;
    #[allow(clippy::cast_possible_truncation)] // it was a float32 before it was written
    let scale = |key: &str| of[key].as_f64().map(|scale| scale as f32);
    let k = scale("scale").unwrap_or(1.0);
    let mut case = of["case"].clone();
    case["available_memory"] = POOL_BYTES.into();
    Ok(Golden {
        name,
        source: text("source").ok_or(GoldenError::Index("no source"))?,
        case: case.to_string(),
        role: text("role").ok_or(GoldenError::Index("no role"))?,
        slots: slots.iter().filter_map(serde_json::Value::as_i64).collect(),
        scales: TensorScales {
            k,
            v: scale("scale_v").unwrap_or(k),
        },
        rows: rows
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect(),
        page_bytes: of["page_bytes"]
            .as_u64()
            .ok_or(GoldenError::Index("no page_bytes"))?,
        pages,
    })
}

impl Golden {
    /// Its case's answer.
    pub fn answer(&self) -> Result<Resolution, GoldenError> {
        let case = |error: String| GoldenError::Case {
            name: self.name.clone(),
            error,
        };
        let (_, request) = parse_case(&self.case);
        let request = request.map_err(|error| case(error.into_refusal(1).to_string()))?;
        resolve(&request).map_err(|error| case(error.refusal.to_string()))
    }

    /// A pool of its case, and the last layer of its role.
    pub fn pool<M: Memory>(
        &self,
        allocate: impl FnOnce(u64) -> Result<M, MemoryError>,
    ) -> Result<(Pool<M>, usize), GoldenError> {
        let failed = |error: PoolError| GoldenError::Pool {
            name: self.name.clone(),
            error,
        };
        let plan = PoolPlan::new(&self.answer()?);
        let plan = plan.map_err(|error: PlanError| failed(error.into()))?;
        let mut layers = plan.layers.iter();
        let layer = layers.rposition(|layer| layer.role.as_str() == self.role);
        let layer = layer.ok_or(GoldenError::Index("a role that no layer has"))?;
        Ok((Pool::new(plan, allocate).map_err(failed)?, layer))
    }

    /// Stores the rows in memory full of `untouched` and compares every byte of it. The pages that are equal.
    pub fn check<M: Memory>(
        &self,
        untouched: u8,
        allocate: impl FnOnce(u64) -> Result<M, MemoryError>,
    ) -> Result<u64, GoldenError> {
        let failed = |error: PoolError| GoldenError::Pool {
            name: self.name.clone(),
            error,
        };
        let of_memory = |error: MemoryError| failed(error.into());
        let (mut pool, layer) = self.pool(allocate)?;
        pool.memory_mut().fill(untouched).map_err(of_memory)?;
        pool.store(layer, &self.slots, &self.rows, self.scales)
            .map_err(failed)?;
        let mut pages = Vec::new();
        let page_bytes = usize::try_from(self.page_bytes).unwrap_or(usize::MAX);
        for (block, page) in (0..).zip(self.pages.chunks(page_bytes)) {
            let view = pool.page(layer, block).map_err(failed)?;
            if view.bytes != self.page_bytes {
                return Err(GoldenError::Index("pages of another size"));
            }
            pages.push((view.offset, page));
        }
        let differs = differs(pool.memory(), untouched, &pages).map_err(of_memory)?;
        match differs {
            Some(byte) => Err(GoldenError::Differs {
                name: self.name.clone(),
                byte,
            }),
            None => Ok(pages.len() as u64),
        }
    }
}

/// The first byte that is neither of its page, by offset, nor untouched beside all of them.
fn differs(
    memory: &impl Memory,
    untouched: u8,
    pages: &[(u64, &[u8])],
) -> Result<Option<u64>, MemoryError> {
    const PART: usize = 1 << 20;
    let (mut here, mut expected) = (vec![0; PART], vec![0; PART]);
    let all = memory.allocated_bytes();
    for start in (0..all).step_by(PART) {
        let size = usize::try_from(all - start).unwrap_or(PART).min(PART);
        let (here, expected) = (&mut here[..size], &mut expected[..size]);
        memory.read(start, here)?;
        expected.fill(untouched);
        let end = start + size as u64;
        for (offset, page) in pages {
            let (from, to) = (start.max(*offset), end.min(offset + page.len() as u64));
            if from < to {
                let index = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
                expected[index(from - start)..index(to - start)]
                    .copy_from_slice(&page[index(from - offset)..index(to - offset)]);
            }
        }
        if here != expected {
            let at = here.iter().zip(expected.iter()).position(|(a, b)| a != b);
            return Ok(at.map(|at| start + at as u64));
        }
    }
    Ok(None)
}
