use super::*;

const GIB: u64 = 1 << 30;

fn sizing(stages: &[u64], max_model_len: u64) -> Sizing {
    let profile = crate::Release::LATEST.profile();
    Sizing {
        max_model_len,
        auto_fit: true,
        num_gpu_blocks_override: None,
        reserves_null_block: true,
        texts: profile.memory_texts,
        auto_fit_log: profile.auto_fit_log,
        demands: vec![Demand::Full {
            block_size: 16,
            ranks: 1,
        }],
        stages: stages
            .iter()
            .map(|bytes| StageSizing {
                bytes_per_block: *bytes,
                checked_bytes_per_block: *bytes,
                pool_bytes_per_block: *bytes,
                empty: None,
            })
            .collect(),
    }
}

#[test]
fn what_passes_64_bits_fits_nowhere() {
    let sizing = sizing(&[1 << 40], 1);
    let blocks = sizing.stages[0].blocks(&sizing.demands);
    assert_eq!(blocks.longest(1 << 50, u64::MAX), Ok(16 << 10));
    let demands = [Demand::Full {
        block_size: 0,
        ranks: 1,
    }];
    let blocks = sizing.stages[0].blocks(&demands);
    let refusal = blocks.longest(1 << 50, u64::MAX).unwrap_err();
    assert_eq!(*refusal, Refusal::ZeroDivision);
}

/// `_auto_fit_max_model_len`: `limiting_worker_mem` is the first worker's until another's is less.
#[test]
fn auto_fit_tells_of_the_stage_that_decides() {
    let line = |stages: &[u64], max_model_len| {
        let sized = sizing(stages, max_model_len).size(10 * GIB, "", &mut Trace::silent());
        sized.unwrap().auto_fit_line.unwrap()
    };
    // beside the null block there are 9 and 8 GiB; a request of one block fits in both
    assert_eq!(
        line(&[GIB, 2 * GIB], 16),
        "Auto-fit max_model_len: full model context length 16 fits in available KV cache memory \
         (9.0 GiB GPU)"
    );
    assert_eq!(
        line(&[GIB, 2 * GIB], 1000),
        "Auto-fit max_model_len: reduced from 1000 to 64 to fit in available KV cache memory \
         (8.0 GiB GPU)"
    );
    // the second of two that are alike decides nothing
    assert_eq!(
        line(&[3 * GIB, 3 * GIB + 1], 1000),
        "Auto-fit max_model_len: reduced from 1000 to 32 to fit in available KV cache memory \
         (7.0 GiB GPU)"
    );
}

#[test]
fn memory_for_the_null_block_alone_is_none() {
    let sizing = sizing(&[GIB, 2 * GIB], 16);
    assert_eq!(sizing.has_memory(GIB), Ok(false));
    assert_eq!(sizing.has_memory(GIB + 1), Ok(true));
    assert_eq!(sizing.longest(10 * GIB, 1000), Ok(64));
    assert_eq!(sizing.longest(10 * GIB, 50), Ok(50));
    assert_eq!(sizing.blocks_per_request(17), Ok(2));
}

#[test]
fn what_no_request_can_use_is_a_block_of_each_stage() {
    let two = sizing(&[3, 5], 1);
    assert_eq!(two.withheld(), Some((3, 5)));
    let before = Sizing {
        reserves_null_block: false,
        ..two.clone()
    };
    assert_eq!(before.withheld(), Some((0, 0)));
    let set = Sizing {
        num_gpu_blocks_override: Some(7),
        ..two
    };
    assert_eq!(set.withheld(), None);
}
