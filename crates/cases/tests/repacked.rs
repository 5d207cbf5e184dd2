//! What kernels make of the weights that they load, on models of the catalog. The
//! figures are those of vLLM's own formulas, worked out by hand.

use kv_cases::parse_case;
use kv_resolver::catalog::find_model;
use kv_resolver::memory::Interval;
use kv_resolver::resolve;

/// The least, the likeliest and the most of one GPU, in the order of the fields.
fn of(model: &str, gpu: &str, release: &str, args: &str) -> [i64; 3] {
    ask(&format!(r#""model":"{model}""#), gpu, release, args)
}

fn ask(model: &str, gpu: &str, release: &str, args: &str) -> [i64; 3] {
    let case = format!(r#"{{"release":"{release}",{model},"gpu":"{gpu}","args":{{{args}}}}}"#);
    let request = parse_case(&case).1.expect("a well-formed case");
    let weights = resolve(&request).expect("it starts").weights;
    assert!(weights.parameter_bytes.is_some(), "{case}");
    let Interval { low, likely, high } = weights.repacked.expect("they are counted");
    [low, likely, high]
}

fn exactly(bytes: i64) -> [i64; 3] {
    [bytes; 3]
}

/// A catalog model's config.json with another word in the place of one.
fn altered(model: &str, from: &str, to: &str) -> String {
    let config = find_model(model).expect("in the catalog").config_json;
    assert!(config.contains(from), "{model}: {from}");
    format!(r#""hf_config":{}"#, config.replacen(from, to, 1))
}

const TP8: &str = r#""tensor_parallel_size":8"#;
const TP4: &str = r#""tensor_parallel_size":4"#;
const V3: &str = "deepseek-ai/DeepSeek-V3";

/// Copies of `kv_b_proj`, and on Blackwell scales to every row.
#[test]
fn deepseek_v3() {
    // 61 layers, 16 heads of 256, rank 512
    let copies = 61 * 16 * 256 * 512 * 2;
    assert_eq!(of(V3, "h200", "0.28.0", TP8), exactly(copies));
    assert_eq!(of(V3, "h200", "0.33.0", TP8), exactly(copies));
    let spread = r#""data_parallel_size":8,"enable_expert_parallel":true"#;
    assert_eq!(of(V3, "h200", "0.33.0", spread), exactly(8 * copies));
    let drafts = r#""tensor_parallel_size":8,"speculative_config":{"method":"mtp","num_speculative_tokens":1}"#;
    let drafter = 16 * 256 * 512 * 2;
    assert_eq!(of(V3, "h200", "0.33.0", drafts), exactly(copies + drafter));
    let (layers, experts) = (21_322_208, 831_488_000);
    assert_eq!(of(V3, "b200", "0.33.0", TP8), exactly(copies + layers));
    let all = copies + layers + experts;
    assert_eq!(of(V3, "rtxpro6000", "0.31.0", TP8), exactly(all));
    // what the older DeepGEMM does there is not known
    assert_eq!(of(V3, "rtxpro6000", "0.30.0", TP8), [copies, all, all]);
}

#[test]
fn fp8_in_blocks() {
    let (dense, experts) = ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-235B-A22B-FP8");
    assert_eq!(of(dense, "b200", "0.33.0", ""), exactly(236_175_360));
    assert_eq!(of(dense, "h200", "0.33.0", ""), exactly(0));
    // DeepGEMM gives bfloat16 alone
    let half = r#""dtype":"float16""#;
    assert_eq!(of(dense, "b200", "0.33.0", half), exactly(0));
    let (layers, routed) = (12_681_728, 478_969_856);
    assert_eq!(of(experts, "b200", "0.33.0", TP4), exactly(layers));
    let both = exactly(layers + routed);
    assert_eq!(of(experts, "rtxpro6000", "0.33.0", TP4), both);
    // a slice of 192 columns is no whole block, and is Triton's
    let narrow = of(experts, "rtxpro6000", "0.33.0", TP8);
    let linear = of(experts, "b200", "0.33.0", TP8);
    assert_eq!(narrow, linear);
}

#[test]
fn gpt_oss() {
    let model = "openai/gpt-oss-120b";
    for (gpu, args, want) in [
        ("h200", "", 294_912_000),
        ("h200", TP8, 51_314_688),
        ("b200", "", 82_575_360),
        ("b200", TP8, 35_389_440),
        ("rtxpro6000", TP8, 0),
    ] {
        assert_eq!(of(model, gpu, "0.33.0", args), exactly(want), "{gpu}");
    }
}

/// Slices of 192 columns are padded to 256 for Humming's kernels, and gates may
/// have scales of their own.
#[test]
fn nvfp4_experts_on_hopper() {
    let beside = r#""hf_quant_config":"beside config.json""#;
    let how = r#""quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head","model.layers.*.self_attn*"]}"#;
    let model = altered("nvidia/Qwen3-235B-A22B-NVFP4", beside, how);
    let padded = 5_322_571_776;
    let rows = 94 * 128 * 2 * 512;
    let want = [padded, padded, padded + rows];
    assert_eq!(ask(&model, "h200", "0.33.0", TP8), want);
    assert_eq!(ask(&model, "h200", "0.31.0", TP8), exactly(0));
    assert_eq!(ask(&model, "b200", "0.33.0", TP8), exactly(0));
    let [low, ..] = of("nvidia/Gemma-4-26B-A4B-NVFP4", "h200", "0.33.0", "");
    assert_eq!(low, 1_167_851_520);
}

/// An order of the inputs that says nothing is dropped, but where FlashInfer runs them.
#[test]
fn int4_experts_lose_an_order() {
    let model = "moonshotai/Kimi-K2.5";
    for release in ["0.28.0", "0.29.0"] {
        let orders = exactly(-1_368_391_680);
        assert_eq!(of(model, "h200", release, TP8), orders);
        assert_eq!(of(model, "b200", release, TP8), exactly(0));
    }
    assert_eq!(of(model, "h200", "0.30.0", TP8), exactly(0));
    // four numbers that said how large each was
    let shapes = -60 * 384 * 4 * 2;
    assert_eq!(of(model, "h200", "0.33.0", TP8), exactly(shapes));
}

/// What is padded once it is loaded and what is padded when it is built come to the same.
#[test]
fn plain_experts_on_sm100() {
    let model = "Qwen/Qwen3-30B-A3B";
    let padded = 48 * 128 * 3 * 2048 * 32 * 2;
    assert_eq!(of(model, "b200", "0.30.0", TP8), exactly(padded));
    assert_eq!(of(model, "b200", "0.31.0", TP8), exactly(0));
    assert_eq!(of(model, "h200", "0.30.0", TP8), exactly(0));
    // Gemma 4's activation is Triton's
    let gemma = "google/gemma-4-26B-A4B";
    assert_eq!(of(gemma, "b200", "0.30.0", TP8), exactly(0));
}

#[test]
fn deepseek_v4() {
    let (flash, pro) = (
        "deepseek-ai/DeepSeek-V4-Flash",
        "deepseek-ai/DeepSeek-V4-Pro",
    );
    let fp8 = |ranks| format!(r#""kv_cache_dtype":"fp8","tensor_parallel_size":{ranks}"#);
    let (four, eight) = (fp8(4), fp8(8));
    // exponents become float32, or are packed to every row
    assert_eq!(of(flash, "h200", "0.21.0", &four), exactly(329_472));
    assert_eq!(of(flash, "b200", "0.33.0", &four), exactly(13_947_648));
    assert_eq!(of(pro, "h200", "0.33.0", &eight), exactly(723_528));
    assert_eq!(of(pro, "b200", "0.33.0", &eight), exactly(31_066_600));
    // DeepGEMM came to SM120 with 0.24
    assert_eq!(of(flash, "rtxpro6000", "0.23.0", &four), exactly(0));
    let unsure = [0, 13_947_648, 13_947_648];
    assert_eq!(of(flash, "rtxpro6000", "0.24.0", &four), unsure);
    let sure = exactly(13_947_648);
    assert_eq!(of(flash, "rtxpro6000", "0.33.0", &four), sure);
}

/// FlashInfer's kernel refuses a clamp of block fp8 in 0.29 alone, and DeepGEMM steps in.
#[test]
fn deepseek_v4_in_fp8() {
    let (fp4, fp8) = (r#""expert_dtype":"fp4""#, r#""expert_dtype":"fp8""#);
    let model = altered("deepseek-ai/DeepSeek-V4-Flash", fp4, fp8);
    let args = r#""kv_cache_dtype":"fp8","tensor_parallel_size":4"#;
    let [usual, ..] = ask(&model, "b200", "0.28.0", args);
    assert_eq!(ask(&model, "b200", "0.30.0", args), exactly(usual));
    // 43 layers of 256 experts, 4,096 wide, of 512 columns each
    let scales = 4 * (1024 * 8 + 4096) - 4 * (2 * 4 * 32 + 32 * 4);
    let experts = 43 * 256 * scales;
    assert_eq!(
        ask(&model, "b200", "0.29.0", args),
        exactly(usual + experts)
    );
}
