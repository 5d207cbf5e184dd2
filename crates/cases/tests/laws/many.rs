//! Of many questions at once: a cell is its own question's answer, and a release is no other than itself.

use kv_cases::{MatrixCell, matrix};
use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::diff::{diff, dtypes};
use kv_resolver::matrix::{classes, row};
use kv_resolver::{Gpu, Release, Request, resolve};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::config;
use crate::questions::questions;

fn gpus() -> Vec<Gpu> {
    GPUS.iter().map(CatalogGpu::gpu).collect()
}

/// The question that a cell answers.
fn alone(request: &Request, gpu: &str, dtype: &str) -> Request {
    let mut alone = request.clone();
    let gpu = GPUS.iter().find(|known| known.key == gpu);
    alone.gpu = gpu.expect("a key of the catalog").gpu();
    alone.args.kv_cache_dtype = Some(dtype.to_owned());
    alone
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn a_cell_is_its_own_questions_answer(request in questions(), picks in prop::collection::vec(any::<Index>(), 12)) {
        let matrix = matrix(&request);
        let known = request.release.profile().cache_dtypes.len();
        prop_assert_eq!(matrix.cells.len(), GPUS.len() * known);
        for pick in picks {
            match pick.get(&matrix.cells) {
                MatrixCell::Starts(cell) => {
                    let asked = alone(&request, cell.gpu, cell.requested_cache_dtype.as_str());
                    let answer = resolve(&asked).expect("it starts in the matrix");
                    prop_assert_eq!(cell.outcome, answer.outcome);
                    prop_assert_eq!(cell.cache_dtype, answer.cache_dtype);
                    prop_assert_eq!(&cell.backends, &answer.backends);
                    prop_assert_eq!(cell.kv_cache_layout, answer.kv_cache_layout);
                    prop_assert_eq!(cell.marginal_bytes_per_token, answer.marginal_bytes_per_token);
                    prop_assert_eq!(cell.fixed_bytes_per_request, answer.fixed_bytes_per_request);
                    prop_assert_eq!(cell.request_bytes, answer.request_bytes);
                    prop_assert_eq!(cell.max_model_len, answer.max_model_len);
                    let capacity = answer.capacity.expect("a pool was given");
                    prop_assert_eq!(cell.requests.as_ref(), Some(&capacity.requests));
                    prop_assert_eq!(cell.printed_tokens, Some(capacity.printed_tokens));
                }
                MatrixCell::Stops(cell) => {
                    let asked = alone(&request, cell.gpu, cell.requested_cache_dtype.as_str());
                    let refusal = resolve(&asked).expect_err("it stops in the matrix").refusal;
                    prop_assert_eq!(cell.outcome, refusal.outcome());
                    prop_assert_eq!(cell.stage, refusal.stage());
                    prop_assert_eq!(cell.error_type, refusal.error_type());
                    prop_assert_eq!(&cell.error, &refusal.to_string());
                }
            }
        }
    }

    #[test]
    fn gpus_that_share_a_row_have_the_same_answers(request in questions(), pick in any::<Index>(), other in any::<Index>()) {
        let known = request.release.profile().cache_dtypes;
        let dtypes = [*pick.get(known), *other.get(known)];
        let gpus = gpus();
        let shared = classes(&request, &gpus, &dtypes);
        for (gpu, index) in gpus.iter().zip(&shared.row_of_gpu) {
            prop_assert!(row(&request, gpu, &dtypes) == shared.rows[*index], "{}", gpu.name);
        }
    }

    #[test]
    fn a_release_differs_from_itself_in_nothing(request in questions()) {
        let own = request.release;
        let diff = diff(&request, own, own, &gpus(), &dtypes(own, own));
        prop_assert_eq!(diff.changes, vec![]);
    }

    #[test]
    fn a_difference_is_one_from_both_sides(request in questions(), other in select(&Release::ALL[..]), pick in any::<Index>()) {
        let own = request.release;
        let gpus = [pick.get(&GPUS[..]).gpu()];
        let dtypes = dtypes(own, other);
        let there = diff(&request, own, other, &gpus, &dtypes);
        let back = diff(&request, other, own, &gpus, &dtypes);
        prop_assert_eq!(there.unmodelled, back.unmodelled);
        let cells = |diff: &kv_resolver::diff::Diff| {
            let mut cells: Vec<_> = diff.changes.iter().flat_map(|change| change.cells.clone()).collect();
            cells.sort_unstable_by_key(|(gpu, dtype)| (*gpu, dtype.as_str()));
            cells
        };
        prop_assert_eq!(cells(&there), cells(&back));
    }
}
