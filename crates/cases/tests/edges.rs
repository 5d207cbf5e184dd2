//! Edges of rules that no vector reaches, from vLLM's source.

use kv_cases::answer;
use kv_resolver::Resolution;
use kv_resolver::catalog::find_model;
use serde_json::{Value, json};

/// A model of the catalog with a field that is another.
fn model(id: &str, field: &str, value: u64) -> Value {
    let config = find_model(id).unwrap().config_json;
    let mut config: Value = serde_json::from_str(config).unwrap();
    config[field] = value.into();
    config
}

fn ask(config: &Value, gpu: &str, args: &Value) -> Result<Resolution, String> {
    let case =
        json!({"hf_config": config, "gpu": gpu, "args": args, "available_memory": 400_u64 << 30});
    let answer = answer(&case.to_string(), 1);
    answer.result.map_err(|error| error.refusal.to_string())
}

/// `TurboQuantConfig.get_boundary_skip_layers`: two layers at each end, or half of what there is.
#[test]
fn a_model_of_three_layers_keeps_one_at_each_end() {
    let counts = |layers| {
        let config = model("Qwen/Qwen3-8B", "num_hidden_layers", layers);
        let answer = ask(
            &config,
            "h200",
            &json!({"kv_cache_dtype": "turboquant_k8v4"}),
        )
        .unwrap();
        let rows = answer.layers.iter();
        rows.map(|row| (format!("{:?}", row.dtype), row.count))
            .collect::<Vec<_>>()
    };
    let rows = |counts: &[(&str, usize)]| -> Vec<(String, usize)> {
        let rows = counts.iter();
        rows.map(|(dtype, count)| ((*dtype).to_owned(), *count))
            .collect()
    };
    assert_eq!(counts(1), rows(&[("Uint8", 1)]));
    assert_eq!(counts(3), rows(&[("Bfloat16", 2), ("Uint8", 1)]));
    assert_eq!(counts(7), rows(&[("Bfloat16", 4), ("Uint8", 3)]));
}

/// `FlashAttnMLASparseFA4Backend.supports_combination` counts the heads of a rank.
#[test]
fn heads_are_counted_on_a_rank() {
    let config = model("deepseek-ai/DeepSeek-V3.2", "num_attention_heads", 96);
    let args = json!({"attention_backend": "FLASH_ATTN_MLA_SPARSE_FA4", "tensor_parallel_size": 8});
    assert_eq!(
        ask(&config, "b200", &args).unwrap_err(),
        "Selected backend AttentionBackendEnum.FLASH_ATTN_MLA_SPARSE_FA4 is not valid for this \
         configuration. Reason: ['FA4 sparse MLA requires (8, 16, 32, 64, 128) gathered query \
         heads, got num_heads=12 * dcp_size=1']"
    );
}
