use std::sync::Arc;

use kv_resolver::catalog::find_gpu;

use super::*;
use crate::catalog::tests::shelf;
use crate::input::Input;
use crate::page::Page;
use crate::view::{Archs, Memory, Toggle};

fn matrix(input: &Input) -> Arc<Matrix> {
    Page::new(input, &shelf(), None).answers.unwrap().matrix
}

fn gpu(key: &str) -> &'static CatalogGpu {
    find_gpu(key).unwrap()
}

fn keys(grid: &Grid) -> Vec<&'static str> {
    let rows = grid.rows.iter();
    rows.flat_map(|row| row.gpus.iter().map(|gpu| gpu.key))
        .collect()
}

fn archs(names: &str) -> Archs {
    names.parse().unwrap()
}

#[test]
fn every_gpu_is_in_one_row_however_it_is_looked_at() {
    let matrix = matrix(&Input::default());
    for sort in Sort::ALL {
        for (all_dtypes, row_per_gpu) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let view = View {
                all_dtypes,
                row_per_gpu,
                sort,
                ..View::default()
            };
            let grid = Grid::new(&matrix, &view, gpu("h200"), CacheDtype::Auto);
            for gpu in &GPUS {
                let rows = grid.rows.iter().filter(|row| row.holds(gpu));
                assert_eq!(rows.count(), 1, "{}", gpu.key);
            }
            assert_eq!(grid.matching, GPUS.len());
            if row_per_gpu {
                assert_eq!(grid.rows.len(), GPUS.len());
            }
            if all_dtypes {
                assert_eq!(grid.columns, CacheDtype::ALL);
            }
            let by_arch = sort == Sort::Arch;
            assert_eq!(grid.groups.is_empty(), !by_arch);
            assert!(!by_arch || grid.rows.is_sorted_by_key(|row| row.arch));
        }
    }
}

#[test]
fn rows_are_sorted_by_the_chosen_dtype_and_ties_stay_as_they_were() {
    let mut input = Input::default();
    for pool in ["", "20", "100"] {
        input.pool_gib = pool.to_owned();
        let matrix = matrix(&input);
        for dtype in CacheDtype::ALL {
            for sort in [Sort::Outcome, Sort::Fit] {
                let view = View {
                    sort,
                    row_per_gpu: true,
                    ..View::default()
                };
                let grid = Grid::new(&matrix, &view, gpu("h200"), dtype);
                let column = grid.column(dtype);
                for pair in grid.rows.windows(2) {
                    let [better, worse] = [&pair[0], &pair[1]].map(|row| row.merit(sort, column));
                    let in_order = pair[0].arch < pair[1].arch
                        || pair[0].arch == pair[1].arch && pair[0].first < pair[1].first;
                    assert!(
                        better > worse || better == worse && in_order,
                        "{} before {} of {dtype}",
                        pair[0].gpus[0].key,
                        pair[1].gpus[0].key
                    );
                }
            }
        }
    }
}

#[test]
fn the_best_outcome_is_first_and_what_stops_holds_nothing() {
    let row = |cell: Cell, pool_exceeds| GridRow {
        arch: Arch::Sm90,
        first: 0,
        gpus: vec![&GPUS[0]],
        cells: vec![cell],
        pool_exceeds,
        is_outside: false,
    };
    let stops = |outcome| Cell::Stops {
        outcome,
        stage: kv_resolver::Stage::Plan,
    };
    let merits = Outcome::ALL.map(|outcome| row(stops(outcome), false).merit(Sort::Outcome, 0));
    assert_eq!(merits, [5, 4, 3, 2, 1, 0]);
    assert_eq!(row(stops(Outcome::Works), false).merit(Sort::Fit, 0), 0);
    assert_eq!(row(stops(Outcome::Works), false).merit(Sort::Fit, 7), 0);
}

#[test]
fn filters_leave_out_all_but_the_chosen_gpu() {
    let matrix = matrix(&Input::default());
    let view = View {
        only: archs("SM100,SM120"),
        memory: Memory::AtLeast(96),
        ..View::default()
    };
    let grid = Grid::new(&matrix, &view, gpu("h200"), CacheDtype::Auto);
    let (outside, inside): (Vec<_>, Vec<_>) = grid.rows.iter().partition(|row| row.is_outside);
    let outside: Vec<_> = outside.iter().flat_map(|row| &row.gpus).collect();
    assert_eq!(outside, [&gpu("h200")]);
    let inside: Vec<_> = inside.iter().flat_map(|row| &row.gpus).collect();
    assert_eq!(inside.len(), grid.matching);
    assert!(inside.iter().all(|gpu| view.admits(gpu)));
    assert_eq!(grid.groups[0].gpus, 1);
    // one that passes is in its place, and nothing else is left
    let grid = Grid::new(&matrix, &view, gpu("b200"), CacheDtype::Auto);
    assert!(grid.rows.iter().all(|row| !row.is_outside));
    assert_eq!(keys(&grid).len(), grid.matching);
    assert!(grid.groups.iter().all(|group| group.arch != Arch::Sm90));
}

#[test]
fn a_folded_architecture_keeps_its_heading_and_the_chosen_row() {
    let matrix = matrix(&Input::default());
    let view = View {
        folded: archs("SM90,SM120"),
        ..View::default()
    };
    let grid = Grid::new(&matrix, &view, gpu("h200"), CacheDtype::Auto);
    let open = Grid::new(&matrix, &View::default(), gpu("h200"), CacheDtype::Auto);
    assert_eq!(grid.groups.len(), 3);
    for (group, whole) in grid.groups.iter().zip(&open.groups) {
        assert_eq!((group.arch, group.gpus), (whole.arch, whole.gpus));
    }
    let of = |arch| grid.rows.iter().filter(move |row| row.arch == arch);
    assert!(of(Arch::Sm90).all(|row| row.holds(gpu("h200"))));
    assert_eq!(of(Arch::Sm90).count(), 1);
    assert_eq!(of(Arch::Sm120).count(), 0);
    assert_eq!(grid.groups[2].first, grid.rows.len());
    // sorted, there are no headings to fold under
    let sorted = View {
        sort: Sort::Fit,
        ..view
    };
    let grid = Grid::new(&matrix, &sorted, gpu("h200"), CacheDtype::Auto);
    assert_eq!(keys(&grid).len(), GPUS.len());
}

#[test]
fn the_chosen_dtype_is_never_folded() {
    let matrix = matrix(&Input::default());
    let grid = Grid::new(&matrix, &View::default(), gpu("h200"), CacheDtype::Float16);
    assert!(grid.refused.contains(&CacheDtype::Float16));
    assert!(grid.columns.contains(&CacheDtype::Float16));
}

#[test]
fn the_shape_is_what_rows_and_columns_there_are() {
    let matrix = matrix(&Input::default());
    let grid = |view: &View, key| Grid::new(&matrix, view, gpu(key), CacheDtype::Auto);
    let plain = grid(&View::default(), "h200");
    assert!(plain.has_shape_of(&grid(&View::default(), "b200")));
    for toggle in Toggle::ALL {
        let mut view = View::default();
        view.flip(toggle);
        assert!(!plain.has_shape_of(&grid(&view, "h200")), "{toggle:?}");
    }
}

#[test]
fn moves_stay_within_the_edges() {
    let matrix = matrix(&Input::default());
    let grid = Grid::new(&matrix, &View::default(), gpu("h200"), CacheDtype::Auto);
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
