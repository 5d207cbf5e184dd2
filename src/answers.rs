//! The matrix: what the resolver answers for every GPU and dtype.

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::diff::{Diff, diff, dtypes};
use kv_resolver::matrix::{budgets, classes};
use kv_resolver::memory::{self, Planned, PrintedPool, Source};
use kv_resolver::resolution::BytesPerToken;
use kv_resolver::{
    CacheDtype, Gpu, Outcome, Refusal, Release, Request, Resolution, Stage, resolve_quietly,
};

use crate::asked::Asked;
use crate::pool::AskedPool;
use crate::text;

/// How many requests of the context length fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fits {
    /// With two decimals, as vLLM prints it.
    pub requests: String,
    /// Whether that is by the likeliest of the pools that are estimated.
    pub is_estimate: bool,
}

impl Fits {
    /// `≈ 40.99`
    pub fn shown(&self) -> String {
        let mark = if self.is_estimate { "≈ " } else { "" };
        mark.to_owned() + &self.requests
    }

    /// As a whole number, by which to compare.
    pub fn hundredths(&self) -> u64 {
        let digits = self.requests.bytes().filter(u8::is_ascii_digit);
        digits.fold(0, |number: u64, digit| {
            number
                .saturating_mul(10)
                .saturating_add(u64::from(digit - b'0'))
        })
    }
}

/// One GPU × one dtype, as short as it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// It starts.
    Starts {
        /// In one word.
        outcome: Outcome,
        /// What vLLM writes back.
        dtype: CacheDtype,
        /// Bytes of one more token.
        marginal: BytesPerToken,
        /// How many requests fit the pool, if one is known.
        fits: Option<Fits>,
    },
    /// It does not.
    Stops {
        /// In one word.
        outcome: Outcome,
        /// Where.
        stage: Stage,
    },
}

impl Cell {
    fn new(answer: &Result<Resolution, Box<Refusal>>) -> Self {
        match answer {
            Ok(resolution) => Self::Starts {
                outcome: resolution.outcome,
                dtype: resolution.cache_dtype,
                marginal: resolution.marginal_bytes_per_token,
                fits: resolution.capacity.as_ref().map(|capacity| Fits {
                    requests: capacity.requests.clone(),
                    is_estimate: false,
                }),
            },
            Err(refusal) => Self::stopped(Some(refusal)),
        }
    }

    /// Of what stops it.
    fn stopped(refusal: Option<&Refusal>) -> Self {
        Self::Stops {
            outcome: refusal.map_or(Outcome::DoesNotFit, text::outcome_of),
            stage: refusal.map_or(Stage::Plan, Refusal::stage),
        }
    }

    /// Of an answer without a pool, at the likeliest one.
    fn planned(resolution: &Resolution, planned: &Planned) -> Self {
        if planned.refusal().is_some() {
            return Self::stopped(planned.refusal());
        }
        let at = |end: usize| planned.ends[end].fit.as_ref();
        Self::Starts {
            outcome: resolution.outcome,
            dtype: resolution.cache_dtype,
            marginal: resolution.marginal_bytes_per_token,
            fits: at(1).ok().map(|fit| Fits {
                requests: fit.requests.shown(),
                is_estimate: planned.source == Source::Estimated,
            }),
        }
    }

    /// In one word.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Starts { outcome, .. } | Self::Stops { outcome, .. } => *outcome,
        }
    }
}

/// Every answer: for each GPU of the catalog a row of cells, in the order of
/// [`CacheDtype::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    rows: Vec<Vec<Cell>>,
    pool_exceeds: Vec<bool>,
}

impl Matrix {
    /// Asks the resolver.
    pub fn new(asked: &Asked) -> Self {
        let base = asked.request(&GPUS[0], CacheDtype::Auto);
        let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
        let rows = rows(asked, &base, &gpus);
        Self {
            rows,
            pool_exceeds: GPUS.iter().map(|gpu| asked.pool_exceeds(gpu)).collect(),
        }
    }

    /// A GPU's cells, by its place in the catalog.
    pub fn cells(&self, gpu: usize) -> &[Cell] {
        &self.rows[gpu]
    }

    /// Whether a GPU, by its place in the catalog, has less memory than the pool.
    pub fn pool_exceeds(&self, gpu: usize) -> bool {
        self.pool_exceeds[gpu]
    }

    /// Whether any cell is modelled.
    pub fn has_rules(&self) -> bool {
        let mut cells = self.rows.iter().flatten();
        cells.any(|cell| cell.outcome() != Outcome::Unmodelled)
    }

    /// Whether no GPU starts with the dtype, by its place among all.
    pub fn is_refused_everywhere(&self, dtype: usize) -> bool {
        self.rows
            .iter()
            .all(|row| matches!(row[dtype], Cell::Stops { .. }))
    }
}

/// Every GPU's cells: of the answers without a pool, what the pool makes of each.
fn rows(asked: &Asked, base: &Request, gpus: &[Gpu]) -> Vec<Vec<Cell>> {
    let open = memory::without_pool(base);
    let classes = classes(&open, gpus, &CacheDtype::ALL);
    let budgets = budgets(&open, gpus, &CacheDtype::ALL, &classes);
    let (printed, knows_pool) = match asked.pool {
        // tokens lead to another pool on another GPU: which, is looked into for one cell alone
        AskedPool::Printed(printed) => (printed, printed.available.is_some()),
        AskedPool::Estimated | AskedPool::Given(_) => (PrintedPool::default(), true),
    };
    let rows = gpus.iter().zip(&classes.row_of_gpu);
    rows.map(|(gpu, row)| {
        let not_free = memory::not_free(base, gpu);
        let cells = classes.rows[*row].iter().zip(&budgets[*row]);
        cells
            .zip(CacheDtype::ALL)
            .map(|((answer, budget), dtype)| {
                let not_free = not_free.as_deref().filter(|_| {
                    let refusal = answer.as_ref().err();
                    refusal.is_none_or(|refusal| memory::comes_after_free(refusal))
                });
                match (answer, budget) {
                    (Ok(_) | Err(_), _) if not_free.is_some() => Cell::stopped(not_free),
                    (Ok(resolution), Some(budget)) if knows_pool => {
                        let budget = budget.clone().map(|budget| budget.on(gpu));
                        let printed = printed.available_beside(resolution);
                        match memory::plan_with(base, resolution, budget, printed) {
                            Ok(planned) => Cell::planned(resolution, &planned),
                            Err(_) => Cell::new(answer),
                        }
                    }
                    // with a pool, something else may stop it first
                    (Err(_), _) if base.available_memory.is_some() => {
                        let mut sized = base.clone();
                        sized.gpu = gpu.clone();
                        sized.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
                        Cell::new(&resolve_quietly(&sized))
                    }
                    (Ok(_) | Err(_), _) => Cell::new(answer),
                }
            })
            .collect()
    })
    .collect()
}

/// What changed in the matrix from another release to the one that is asked.
pub fn changes(asked: &Asked, from: Release) -> Diff {
    let base = asked.request(&GPUS[0], CacheDtype::Auto);
    let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
    let to = asked.release;
    diff(&base, from, to, &gpus, &dtypes(from, to))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::Answer;
    use crate::catalog::tests::shelf;
    use crate::input::Input;
    use crate::page::Page;

    fn asked(input: &Input) -> Arc<Asked> {
        let answers = Page::new(input, &shelf(), None).answers;
        answers.unwrap().asked
    }

    #[test]
    fn cells_are_the_answers_of_their_own_gpu() {
        let asked = asked(&Input::default());
        let matrix = Matrix::new(&asked);
        for (index, gpu) in GPUS.iter().enumerate() {
            for (dtype, cell) in CacheDtype::ALL.into_iter().zip(matrix.cells(index)) {
                let answer = Answer::new(Arc::clone(&asked), gpu, dtype);
                assert_eq!(answer.outcome(), cell.outcome(), "{} {dtype}", gpu.key);
            }
        }
    }

    #[test]
    fn requests_compare_as_numbers() {
        let fits = |requests: &str| Fits {
            requests: requests.to_owned(),
            is_estimate: true,
        };
        assert_eq!(fits("5.56").hundredths(), 556);
        assert_eq!(fits("10.00").hundredths(), 1000);
        assert_eq!(fits("5.56").shown(), "≈ 5.56");
        assert_eq!(fits(&"9".repeat(40)).hundredths(), u64::MAX);
    }
}
