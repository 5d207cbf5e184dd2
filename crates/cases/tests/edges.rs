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

/// What stops a draft model of this config, if anything does.
fn drafted(release: &str, target: &Value, draft: &Value, dtype: &str) -> Option<String> {
    let speculation = json!({"method": "draft_model", "model": "me/mine", "num_speculative_tokens": 2,
        "kv_cache_dtype": dtype});
    let case = json!({"release": release, "hf_config": target, "draft_hf_config": draft, "gpu": "b200",
        "args": {"tensor_parallel_size": 8, "max_model_len": 4096, "speculative_config": speculation}});
    let answer = answer(&case.to_string(), 1).result;
    answer.err().map(|error| error.refusal.to_string())
}

/// The config that is made anew for a draft model is checked with the draft model's own, and by the first runner before
/// that with the target's: `llm_base_proposer.py` `_create_draft_vllm_config`, `standalone_ar/speculator.py`.
#[test]
fn a_draft_models_cache_dtype_is_checked_with_its_own_model() {
    let latent = model("deepseek-ai/DeepSeek-V3", "vocab_size", 151_936);
    let plain = model("Qwen/Qwen3-0.6B", "vocab_size", 151_936);
    let is_refused = |release, target, draft| {
        let error = drafted(release, target, draft, "nvfp4");
        error.is_some_and(|error| error.starts_with("nvfp4 KV cache is not supported with MLA"))
    };
    assert!(is_refused("0.30.0", &plain, &latent));
    assert!(is_refused("0.33.0", &plain, &latent));
    assert!(is_refused("0.30.0", &latent, &plain));
    assert_eq!(drafted("0.33.0", &latent, &plain, "nvfp4"), None);
}

/// `Attention.__init__` takes the window of the target's cache config where its model passes none; a window in some layers
/// alone is passed by the model.
#[test]
fn a_drafter_beside_a_window_in_every_layer_is_refused() {
    let drafted = json!({"speculative_config":
        {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2}});
    let plain = model("Qwen/Qwen3-8B", "max_window_layers", 36);
    assert!(ask(&plain, "h200", &drafted).is_ok());
    let mut mixtral = model("mistralai/Mixtral-8x22B-v0.1", "vocab_size", 151_936);
    assert!(ask(&mixtral, "h200", &drafted).is_ok());
    mixtral["sliding_window"] = 4096.into();
    assert_eq!(
        ask(&mixtral, "h200", &drafted).unwrap_err(),
        "a drafter beside a model whose layers all have another window is not modelled"
    );
    // its own window is none that it gets
    assert_eq!(
        self::drafted("0.33.0", &plain, &mixtral, "auto").unwrap(),
        "a drafter beside a model whose layers all have another window is not modelled"
    );
}

/// `MLAAttentionSpec.topk_buffer_width` tells a drafter's rows from those that an indexer serves.
#[test]
fn a_drafter_without_an_indexer_has_rows_of_its_own() {
    for release in ["0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"] {
        for gpu in ["h200", "b200"] {
            let drafter = json!({"method": "draft_model", "model": "deepseek-ai/DeepSeek-R1", "num_speculative_tokens": 2});
            let args = json!({"tensor_parallel_size": 8, "speculative_config": drafter});
            let case = json!({"release": release, "model": "deepseek-ai/DeepSeek-V3.2", "gpu": gpu, "args": args});
            let r = answer(&case.to_string(), 1).result.unwrap();
            let rows = r.layers.iter();
            let rows: Vec<_> = rows
                .map(|row| (row.count, row.first.starts_with("draft_model.")))
                .collect();
            assert_eq!(
                rows,
                [(61, false), (61, false), (61, true)],
                "{release} {gpu}"
            );
        }
    }
}

fn error(model: &str, gpu: &str, args: &Value) -> String {
    let case = json!({"model": model, "gpu": gpu, "args": args});
    let answer = answer(&case.to_string(), 1);
    answer.result.unwrap_err().refusal.to_string()
}

/// What a backend's implementation looks at first: `HPCAttentionImpl` and `B12xPagedAttentionImpl`.
#[test]
fn what_an_implementation_refuses() {
    assert_eq!(
        error(
            "Qwen/Qwen3-8B",
            "h200",
            &json!({"attention_backend": "HPC_ATTN"})
        ),
        "HPC attention requires the hpc module to be installed. Please install it from \
         https://github.com/Tencent/hpc-ops"
    );
    assert_eq!(
        error(
            "Qwen/Qwen3-8B",
            "rtx-5090",
            &json!({"attention_backend": "B12X"})
        ),
        "b12x requires --block-size in (64, 128), got 16."
    );
}

/// A chunked layer's class is made of TurboQuant's with the layer's own dtype, `auto` where the layer stands at an end.
#[test]
fn chunked_layers_are_no_turboquant_preset() {
    let args = json!({"kv_cache_dtype": "turboquant_k8v4", "attention_backend": "TURBOQUANT", "tensor_parallel_size": 8});
    let error = error("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h200", &args);
    assert!(
        error.starts_with("Unknown TurboQuant cache dtype: 'auto'."),
        "{error}"
    );
    // where layers of full attention stand at both ends, none is
    let config = find_model("meta-llama/Llama-4-Scout-17B-16E-Instruct").unwrap();
    let mut config: Value = serde_json::from_str(config.config_json).unwrap();
    let ropes: Vec<u8> = (0..48)
        .map(|layer| (2..46).contains(&layer).into())
        .collect();
    config["text_config"]["no_rope_layers"] = json!(ropes);
    let args = json!({"kv_cache_dtype": "turboquant_k8v4", "tensor_parallel_size": 8});
    let r = ask(&config, "h200", &args).unwrap();
    assert_eq!((r.layers[0].count, r.layers[1].count), (4, 44));
}

/// `refine_fp8_moe_block_shape`: of an expert's 48 rows, 16 are finer than scales are spread to.
#[test]
fn an_expert_is_cut_by_the_ranks() {
    let args = json!({"tensor_parallel_size": 16});
    assert_eq!(
        error("Qwen/Qwen3-30B-A3B-FP8", "h200", &args),
        "The output_size of gate's and up's weight = 48 is not divisible by weight quantization \
         block_n = 128."
    );
}

#[test]
fn dimensions_that_no_rule_knows_are_named() {
    let config = model("deepseek-ai/DeepSeek-V3", "v_head_dim", 96);
    assert_eq!(
        ask(&config, "h200", &json!({"tensor_parallel_size": 8})).unwrap_err(),
        "MLA with dimensions (128, 64, 96) has no prefill backend in the rules here"
    );
    let mut config: Value =
        serde_json::from_str(find_model("moonshotai/Kimi-K2.5").unwrap().config_json).unwrap();
    config["text_config"]["num_attention_heads"] = 96.into();
    config["vision_config"] = json!({});
    let args = json!({"tensor_parallel_size": 3, "trust_remote_code": true});
    assert_eq!(
        ask(&config, "h200", &args).unwrap_err(),
        "tensor_parallel_size 3 of KimiK25ForConditionalGeneration's vision tower is not modelled"
    );
}

/// `MambaStateDtypeCalculator.kda_state_dtype` takes no `--mamba-ssm-cache-dtype` through 0.29.
#[test]
fn the_dtype_of_kda_states_can_be_set_since_0_30() {
    let states = |release: &str, dtype: &str| {
        let args = json!({"mamba_ssm_cache_dtype": dtype, "tensor_parallel_size": 8, "trust_remote_code": true});
        let case =
            json!({"release": release, "model": "moonshotai/Kimi-K3", "gpu": "b200", "args": args});
        let r = answer(&case.to_string(), 1).result.unwrap();
        r.layers[0].unpadded_page_size_bytes
    };
    // 12 heads of 128 × 128 in fp32 or bf16, beside the convolution's
    let recurrent = 12 * 128 * 128;
    assert_eq!(states("0.29.0", "bfloat16"), states("0.29.0", "float32"));
    assert_eq!(
        states("0.30.0", "float32") - states("0.30.0", "bfloat16"),
        recurrent * 2
    );
}

/// Blocks of scales that are not square: what `validate_fp8_block_shape` and, in 0.28, `create_weights` of
/// `vllm/model_executor/layers/quantization/fp8.py` look at. One rank alone splits nothing.
#[test]
fn scales_in_blocks_that_are_not_square() {
    let ask = |n: u64, k: u64, tensor: u64| {
        let config = find_model("Qwen/Qwen3-30B-A3B-FP8").unwrap().config_json;
        let mut config: Value = serde_json::from_str(config).unwrap();
        config["quantization_config"]["weight_block_size"] = json!([n, k]);
        let args = json!({"tensor_parallel_size": tensor});
        let case = json!({"release": "0.28.0", "hf_config": config, "gpu": "h200", "args": args});
        let answer = answer(&case.to_string(), 1).result;
        answer.map(drop).map_err(|error| error.refusal.to_string())
    };
    // 640 divides neither 4,096 inputs of the attention nor 768 of an expert
    assert_eq!(ask(128, 640, 1), Ok(()));
    assert_eq!(
        ask(128, 640, 2),
        Err("Weight input_size_per_partition = 2048 is not divisible by weight quantization block_k = 640.".to_owned())
    );
    assert_eq!(
        ask(128, 512, 2),
        Err("The input_size of down's weight = 384 is not divisible by weight quantization block_k = 512.".to_owned())
    );
    assert_eq!(ask(128, 128, 2), Ok(()));
}

/// `_fa4_hd256_fallback_reason`: FA4's own kernel for heads of 256 takes no sinks.
#[test]
fn heads_of_256_with_sinks_take_another_kernel() {
    let version = |config: &Value| {
        let r = ask(config, "b200", &json!({"attention_backend": "FLASH_ATTN"})).unwrap();
        let lines = r.log.into_iter().map(|line| line.text);
        let mut versions = lines.filter(|line| line.starts_with("Using FlashAttention version"));
        versions.next()
    };
    let line = |version: u8| Some(format!("Using FlashAttention version {version}"));
    let sinks = model("openai/gpt-oss-20b", "head_dim", 256);
    assert_eq!(version(&sinks), line(2));
    let none = model("Qwen/Qwen3-8B", "head_dim", 256);
    assert_eq!(version(&none), line(4));
}
