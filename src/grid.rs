//! The matrix as it is seen: filtered, sorted, its rows alike merged, some folded away; and how the arrow keys walk it.

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::{Arch, CacheDtype, Outcome};

use crate::answers::{Cell, Matrix};
use crate::view::{Sort, View};

/// Dtypes that are shown even if every GPU refuses them: people ask about these first.
const ALWAYS_SHOWN: [CacheDtype; 3] = [CacheDtype::Auto, CacheDtype::Bfloat16, CacheDtype::Fp8];

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
    /// Whether the filters leave it out, and it is here because it is chosen.
    pub is_outside: bool,
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

    /// How well a column does, for sorting: the more, the better.
    fn merit(&self, sort: Sort, column: usize) -> u64 {
        let Some(cell) = self.cells.get(column) else {
            return 0;
        };
        match (sort, cell) {
            (Sort::Outcome, cell) => {
                let mut worst_first = (0..).zip(Outcome::ALL.into_iter().rev());
                let place = worst_first.find(|(_, outcome)| *outcome == cell.outcome());
                place.map_or(0, |(place, _)| place)
            }
            (Sort::Arch, _) | (Sort::Fit, Cell::Stops { .. }) => 0,
            // it starts, with as many as nobody knows
            (Sort::Fit, _) if self.pool_exceeds => 1,
            (Sort::Fit, Cell::Starts { fits, .. }) => {
                fits.as_ref().map_or(1, |fits| fits.hundredths().max(1))
            }
        }
    }
}

/// An architecture's rows, under one heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Which.
    pub arch: Arch,
    /// Its first row, or where that would be.
    pub first: usize,
    /// Its GPUs, folded away or not.
    pub gpus: usize,
    /// Whether its rows are folded away, but for the one that is chosen.
    pub is_folded: bool,
}

/// The matrix as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Whether any cell is modelled.
    pub has_rules: bool,
    /// The dtypes shown.
    pub columns: Vec<CacheDtype>,
    /// The dtypes that every GPU refuses, which are shown or not.
    pub refused: Vec<CacheDtype>,
    /// In the order of `sort`.
    pub rows: Vec<GridRow>,
    /// The headings among them; none where they are sorted across the architectures.
    pub groups: Vec<Group>,
    /// How the rows are sorted.
    pub sort: Sort,
    /// How many GPUs pass the filters.
    pub matching: usize,
}

impl Grid {
    /// Arranges what is to be seen of the answers. The chosen GPU and dtype are seen whatever is folded or left out.
    pub fn new(matrix: &Matrix, view: &View, chosen: &CatalogGpu, dtype: CacheDtype) -> Self {
        let (mut columns, mut refused) = (Vec::new(), Vec::new());
        for (index, candidate) in CacheDtype::ALL.into_iter().enumerate() {
            let is_refused =
                matrix.is_refused_everywhere(index) && !ALWAYS_SHOWN.contains(&candidate);
            if is_refused {
                refused.push(candidate);
            }
            if !is_refused || view.all_dtypes || candidate == dtype {
                columns.push((index, candidate));
            }
        }
        let mut grid = Self {
            has_rules: matrix.has_rules(),
            columns: columns.iter().map(|(_, dtype)| *dtype).collect(),
            refused,
            rows: Vec::new(),
            groups: Vec::new(),
            sort: view.sort,
            matching: GPUS.iter().filter(|gpu| view.admits(gpu)).count(),
        };
        for arch in Arch::ALL {
            let mut rows: Vec<GridRow> = Vec::new();
            let gpus = GPUS.iter().enumerate();
            for (index, gpu) in gpus.filter(|(_, gpu)| gpu.capability.arch() == Some(arch)) {
                let is_outside = !view.admits(gpu);
                if is_outside && gpu.key != chosen.key {
                    continue;
                }
                let cells = matrix.cells(index);
                let pool_exceeds = matrix.pool_exceeds(index);
                let alike = rows.iter_mut().find(|row| {
                    !view.row_per_gpu
                        && row.pool_exceeds == pool_exceeds
                        && row.is_outside == is_outside
                        && matrix.cells(row.first) == cells
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
                        is_outside,
                    });
                }
            }
            grid.add(arch, rows, view, chosen, dtype);
        }
        grid
    }

    /// Puts an architecture's rows where they belong.
    fn add(
        &mut self,
        arch: Arch,
        mut rows: Vec<GridRow>,
        view: &View,
        chosen: &CatalogGpu,
        dtype: CacheDtype,
    ) {
        if rows.is_empty() {
            return;
        }
        if self.sort == Sort::Arch {
            let is_folded = view.folded.has(arch);
            self.groups.push(Group {
                arch,
                first: self.rows.len(),
                gpus: rows.iter().map(|row| row.gpus.len()).sum(),
                is_folded,
            });
            if is_folded {
                rows.retain(|row| row.holds(chosen));
            }
            self.rows.append(&mut rows);
            return;
        }
        let column = self.column(dtype);
        // one by one, behind those that do as well: a sort of the library's is a hundredth of the page
        for row in rows {
            let merit = row.merit(self.sort, column);
            let better = |other: &GridRow| other.merit(self.sort, column) >= merit;
            self.rows.insert(self.rows.partition_point(better), row);
        }
    }

    fn column(&self, dtype: CacheDtype) -> usize {
        let mut columns = self.columns.iter();
        columns
            .position(|column| *column == dtype)
            .unwrap_or_default()
    }

    /// Row and column of a cell.
    pub fn position(&self, gpu: &CatalogGpu, dtype: CacheDtype) -> (usize, usize) {
        let row = self.rows.iter().position(|row| row.holds(gpu));
        (row.unwrap_or_default(), self.column(dtype))
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

    /// Whether the rows and columns are those of another, whatever their cells say.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        let mut rows = self.rows.iter().zip(&other.rows);
        self.columns == other.columns
            && self.groups == other.groups
            && self.rows.len() == other.rows.len()
            && rows.all(|(row, other)| row.is_outside == other.is_outside && row.gpus == other.gpus)
    }
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

#[cfg(test)]
mod tests;
