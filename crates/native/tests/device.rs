//! The suite on this machine: in its own memory, and on its GPU where it has one.

mod common;

use common::{LLAMA, V4, V32, plan};
use kv_native::check::check;
use kv_native::{HostMemory, PlanError, Pool, PoolPlan};

#[test]
fn the_host_passes() {
    for (name, model) in [("V4", V4), ("V3.2", V32), ("Llama", LLAMA)] {
        let plan = plan(model, "h200", 192 << 20);
        let receipt = check(name, &plan, HostMemory::new).unwrap();
        println!("{receipt}\n");
        assert_eq!(receipt.predicted_bytes, receipt.allocated_bytes);
        assert_eq!(receipt.golden_pages, 28);
        assert!(receipt.traffic_pages > 8, "{receipt}");
        assert!(receipt.without_writer.is_empty(), "{receipt}");
        assert_eq!(receipt.attention.is_some(), model != LLAMA);
    }
}

/// On a GPU the same suite, byte for byte the host's; without one a clear word.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_passes_or_is_said_to_be_missing() {
    use kv_native::{CudaMemory, MemoryError};

    if let Err(error) = CudaMemory::new(0, 1 << 20) {
        println!("{error}");
        let text = error.to_string();
        assert!(matches!(error, MemoryError::NoCuda(_)), "{text}");
        assert!(text.starts_with("no CUDA here: "), "{text}");
        return;
    }
    let plan = plan(V4, "h200", 192 << 20);
    let receipt = check("V4", &plan, |bytes| CudaMemory::new(0, bytes)).unwrap();
    println!("{receipt}");
    assert!(receipt.traffic_pages > 50);
}

#[test]
fn memory_of_another_size_is_found() {
    let plan = plan(V4, "h200", 192 << 20);
    let error = check("V4", &plan, |bytes| HostMemory::new(bytes + 1)).unwrap_err();
    assert!(error.to_string().contains("allocated"), "{error}");
}

#[test]
fn what_is_no_one_allocation_is_refused() {
    let case = common::case(V4, "h200", 192 << 20, "").replace("0.33.0", "0.26.0");
    let answer = common::answer(&case);
    // of V4 there is one allocation since 0.24
    assert!(PoolPlan::new(&answer).is_ok());
    let case = common::case(V32, "h200", 192 << 20, "").replace("0.33.0", "0.28.0");
    let error = PoolPlan::new(&common::answer(&case)).unwrap_err();
    assert!(
        matches!(error, PlanError::ManyAllocations { .. }),
        "{error}"
    );
    let case =
        common::case(V4, "h200", 192 << 20, "").replace(r#","available_memory":201326592"#, "");
    assert_eq!(
        PoolPlan::new(&common::answer(&case)),
        Err(PlanError::NoPool)
    );
}

#[test]
fn more_than_the_host_has_is_refused() {
    let mut plan = plan(V4, "h200", 192 << 20);
    plan.allocated_bytes = u64::MAX / 2;
    let error = Pool::on_host(plan).unwrap_err();
    assert!(error.to_string().contains("are not to be had"), "{error}");
}
