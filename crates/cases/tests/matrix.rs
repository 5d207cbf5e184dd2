//! GPUs that share a row of the matrix have the same answers.

use kv_cases::parse_case;
use kv_resolver::catalog::{CatalogGpu, GPUS, MODELS};
use kv_resolver::matrix::{classes, matrix, row};
use kv_resolver::{CacheDtype, Gpu, Release};

#[test]
fn a_shared_row_is_each_gpus_own() {
    let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
    let dtypes = [CacheDtype::Auto, CacheDtype::Bfloat16, CacheDtype::Fp8];
    for (release, usage, args, pool) in [
        (Release::V0_29_0, "server", "{}", "null"),
        (
            Release::LATEST,
            "llm",
            r#"{"tensor_parallel_size":8}"#,
            "8589934592",
        ),
        (
            Release::LATEST,
            "server",
            r#"{"attention_backend":"FLASHINFER_MLA_SPARSE_DSV4","max_model_len":-1}"#,
            "4294967296",
        ),
    ] {
        for model in MODELS.iter().map(|model| model.id) {
            let line = format!(
                r#"{{"release":"{release}","model":"{model}","gpu":"h200","args":{args},"available_memory":{pool},"usage":"{usage}"}}"#
            );
            let base = parse_case(&line).1.expect("a well-formed case");
            let shared = classes(&base, &gpus, &dtypes);
            assert!(shared.rows.len() < gpus.len(), "nothing is shared");
            let rows = matrix(&base, &gpus, &dtypes);
            for (gpu, shared) in gpus.iter().zip(rows) {
                assert!(row(&base, gpu, &dtypes) == shared, "{} {line}", gpu.name);
            }
        }
    }
}
