//! The matrix: what the resolver answers for every GPU and dtype, arranged for the eye.

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::diff::{Diff, diff, dtypes};
use kv_resolver::matrix::{budgets, classes};
use kv_resolver::memory::{self, Planned, Source};
use kv_resolver::resolution::BytesPerToken;
use kv_resolver::{
    Arch, CacheDtype, Gpu, Outcome, Refusal, Release, Request, Resolution, Stage, resolve_quietly,
};

use crate::asked::Asked;
use crate::pool::AskedPool;

/// Dtypes that are shown even if every GPU refuses them: people ask about these first.
const ALWAYS_SHOWN: [CacheDtype; 3] = [CacheDtype::Auto, CacheDtype::Bfloat16, CacheDtype::Fp8];

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
        /// How many requests of the context length fit the pool, as vLLM prints it.
        fits: Option<String>,
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
                fits: resolution
                    .capacity
                    .as_ref()
                    .map(|capacity| capacity.requests.clone()),
            },
            Err(refusal) => Self::stopped(Some(refusal)),
        }
    }

    /// Of what stops it.
    fn stopped(refusal: Option<&Refusal>) -> Self {
        Self::Stops {
            outcome: refusal.map_or(Outcome::DoesNotFit, Refusal::outcome),
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
            fits: at(1).ok().map(|fit| {
                let likely = fit.requests.shown();
                match planned.source {
                    Source::Estimated => ["≈ ", &likely].concat(),
                    Source::Given | Source::Pinned | Source::Printed => likely,
                }
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

    fn cells(&self, gpu: usize) -> &[Cell] {
        &self.rows[gpu]
    }

    /// Whether no GPU starts with the dtype.
    fn is_refused_everywhere(&self, dtype: usize) -> bool {
        self.rows
            .iter()
            .all(|row| matches!(row[dtype], Cell::Stops { .. }))
    }

    /// Arranges what is to be seen. `selected` is always shown.
    pub fn grid(&self, selected: CacheDtype, all_dtypes: bool, row_per_gpu: bool) -> Grid {
        let (mut columns, mut folded) = (Vec::new(), Vec::new());
        for (index, dtype) in CacheDtype::ALL.into_iter().enumerate() {
            let is_refused = self.is_refused_everywhere(index);
            let is_shown = !is_refused || dtype == selected || ALWAYS_SHOWN.contains(&dtype);
            if all_dtypes || is_shown {
                columns.push((index, dtype));
            }
            if is_refused && !ALWAYS_SHOWN.contains(&dtype) {
                folded.push(dtype);
            }
        }
        let mut rows: Vec<GridRow> = Vec::new();
        let by_arch = Arch::ALL.into_iter().flat_map(|arch| {
            let gpus = GPUS.iter().enumerate();
            gpus.filter(move |(_, gpu)| gpu.capability.arch() == Some(arch))
                .map(move |(index, gpu)| (arch, index, gpu))
        });
        for (arch, index, gpu) in by_arch {
            let cells = self.cells(index);
            let pool_exceeds = self.pool_exceeds[index];
            let alike = rows.iter_mut().find(|row| {
                !row_per_gpu
                    && row.arch == arch
                    && row.pool_exceeds == pool_exceeds
                    && self.cells(row.first) == cells
            });
            if let Some(row) = alike {
                row.gpus.push(gpu);
            } else {
                rows.push(GridRow {
                    arch,
                    first: index,
                    gpus: vec![gpu],
                    cells: columns.iter().map(|(at, _)| cells[*at].clone()).collect(),
                    pool_exceeds,
                });
            }
        }
        let has_rules = self
            .rows
            .iter()
            .flatten()
            .any(|cell| cell.outcome() != Outcome::Unmodelled);
        Grid {
            has_rules,
            columns: columns.into_iter().map(|(_, dtype)| dtype).collect(),
            folded,
            rows,
        }
    }
}

/// Every GPU's cells: of the answers without a pool, what the pool makes of each.
fn rows(asked: &Asked, base: &Request, gpus: &[Gpu]) -> Vec<Vec<Cell>> {
    let open = memory::without_pool(base);
    let classes = classes(&open, gpus, &CacheDtype::ALL);
    let budgets = budgets(&open, gpus, &CacheDtype::ALL, &classes);
    let (printed, knows_pool) = match asked.pool {
        // tokens lead to another pool on another GPU: which, is looked into for one cell alone
        AskedPool::Printed(printed) => (printed.available, printed.available.is_some()),
        AskedPool::Estimated | AskedPool::Given(_) => (None, true),
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

/// GPUs with the same answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridRow {
    /// Their architecture.
    pub arch: Arch,
    first: usize,
    /// At least one.
    pub gpus: Vec<&'static CatalogGpu>,
    /// In the order of the columns.
    pub cells: Vec<Cell>,
    /// Whether they have less memory than the pool.
    pub pool_exceeds: bool,
}

impl GridRow {
    /// The chosen GPU if it is in this row, or the first.
    pub fn representative(&self, chosen: &CatalogGpu) -> &'static CatalogGpu {
        self.gpus
            .iter()
            .find(|gpu| gpu.key == chosen.key)
            .unwrap_or(&self.gpus[0])
    }

    /// Whether the chosen GPU is in this row.
    pub fn holds(&self, gpu: &CatalogGpu) -> bool {
        self.gpus.iter().any(|candidate| candidate.key == gpu.key)
    }
}

/// The matrix as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Whether any cell is modelled.
    pub has_rules: bool,
    /// The dtypes shown.
    pub columns: Vec<CacheDtype>,
    /// The dtypes that may be folded away: every GPU refuses them.
    pub folded: Vec<CacheDtype>,
    /// Sorted by arch.
    pub rows: Vec<GridRow>,
}

/// A way to move within the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One column left.
    Left,
    /// One column right.
    Right,
    /// To the row's first column.
    RowStart,
    /// To the row's last column.
    RowEnd,
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
}

impl Move {
    /// The move that a key means in a grid.
    pub fn of_key(key: &str, with_control: bool) -> Option<Self> {
        Some(match (key, with_control) {
            ("ArrowUp", _) => Self::Up,
            ("ArrowDown", _) => Self::Down,
            ("ArrowLeft", _) => Self::Left,
            ("ArrowRight", _) => Self::Right,
            ("Home", false) => Self::RowStart,
            ("End", false) => Self::RowEnd,
            ("Home", true) | ("PageUp", _) => Self::Top,
            ("End", true) | ("PageDown", _) => Self::Bottom,
            _ => return None,
        })
    }
}

impl Grid {
    /// Row and column of a cell.
    pub fn position(&self, gpu: &CatalogGpu, dtype: CacheDtype) -> (usize, usize) {
        (
            self.rows
                .iter()
                .position(|row| row.holds(gpu))
                .unwrap_or_default(),
            self.columns
                .iter()
                .position(|column| *column == dtype)
                .unwrap_or_default(),
        )
    }

    /// Where a move leads; the edges hold.
    pub fn step(&self, (row, column): (usize, usize), step: Move) -> (usize, usize) {
        let last_row = self.rows.len().saturating_sub(1);
        let last_column = self.columns.len().saturating_sub(1);
        match step {
            Move::Up => (row.saturating_sub(1), column),
            Move::Down => ((row + 1).min(last_row), column),
            Move::Left => (row, column.saturating_sub(1)),
            Move::Right => (row, (column + 1).min(last_column)),
            Move::RowStart => (row, 0),
            Move::RowEnd => (row, last_column),
            Move::Top => (0, column),
            Move::Bottom => (last_row, column),
        }
    }
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
    fn every_gpu_is_in_one_row_whatever_is_folded() {
        let input = Input::default();
        let matrix = Matrix::new(&asked(&input));
        for (all_dtypes, row_per_gpu) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let grid = matrix.grid(CacheDtype::Auto, all_dtypes, row_per_gpu);
            for gpu in &GPUS {
                let rows = grid.rows.iter().filter(|row| row.holds(gpu));
                assert_eq!(rows.count(), 1, "{}", gpu.key);
            }
            if row_per_gpu {
                assert_eq!(grid.rows.len(), GPUS.len());
            }
            if all_dtypes {
                assert_eq!(grid.columns, CacheDtype::ALL);
            }
            assert!(grid.rows.is_sorted_by_key(|row| row.arch));
        }
    }

    #[test]
    fn cells_are_the_answers_of_their_own_gpu() {
        let input = Input::default();
        let asked = asked(&input);
        let grid = Matrix::new(&asked).grid(CacheDtype::Auto, true, false);
        for row in &grid.rows {
            for gpu in &row.gpus {
                for (dtype, cell) in grid.columns.iter().zip(&row.cells) {
                    let answer = Answer::new(Arc::clone(&asked), gpu, *dtype);
                    assert_eq!(answer.outcome(), cell.outcome(), "{} {dtype}", gpu.key);
                }
            }
        }
    }

    #[test]
    fn the_chosen_dtype_is_never_folded() {
        let matrix = Matrix::new(&asked(&Input::default()));
        let grid = matrix.grid(CacheDtype::Float16, false, false);
        assert!(grid.folded.contains(&CacheDtype::Float16));
        assert!(grid.columns.contains(&CacheDtype::Float16));
    }

    #[test]
    fn moves_stay_within_the_edges() {
        let matrix = Matrix::new(&asked(&Input::default()));
        let grid = matrix.grid(CacheDtype::Auto, false, false);
        let last = (grid.rows.len() - 1, grid.columns.len() - 1);
        assert_eq!(grid.step((0, 0), Move::Up), (0, 0));
        assert_eq!(grid.step((0, 0), Move::Left), (0, 0));
        assert_eq!(grid.step(last, Move::Down), last);
        assert_eq!(grid.step(last, Move::Right), last);
        assert_eq!(grid.step((0, 0), Move::RowEnd), (0, last.1));
        assert_eq!(grid.step(last, Move::Top), (0, last.1));
        assert_eq!(Move::of_key("Home", true), Some(Move::Top));
        assert_eq!(Move::of_key("a", false), None);
    }
}
