//! How large what a config.json says may be, so that no figure that follows is past 64 bits unnoticed and no list takes
//! long to read. Each bound is far beyond any model.
//!
//! Two widths make no more than 2^40 and three no more than 2^60: sums of a few such products are taken as they are.
//! Whatever has more factors, or one of the user's (tokens, blocks, ranks, bytes), is asked of
//! [`mul`](crate::units::mul) and [`add`](crate::units::add), which refuse; estimates and sums of weights stay at the largest number instead. Ranks are
//! bounded by vLLM itself: 64 in a node.

use super::ModelError;
use super::fields::integer;
use crate::value::Value;

/// Decoder layers.
pub(super) const MOST_LAYERS: u64 = 1024;
/// Heads, head sizes, widths and windows.
pub(super) const MOST_WIDTH: u64 = 1 << 20;
/// Context lengths, in tokens.
pub(super) const MOST_TOKENS: u64 = 1 << 32;
/// How much RoPE stretches them.
pub(super) const MOST_FACTOR: f64 = 65_536.0;
/// Keys of an object: the most that a model has is 401.
const MOST_KEYS: usize = 1 << 11;
/// Entries of a list: the most that a model has is 712, names of what is not quantised.
const MOST_ENTRIES: usize = 1 << 14;

/// Refuses objects and lists that are longer than any model's.
pub(super) fn bounded(config: &Value) -> Result<(), Box<ModelError>> {
    match config {
        Value::Object(entries) => {
            within("an object", entries.len(), MOST_KEYS)?;
            entries.iter().try_for_each(|(_, value)| bounded(value))
        }
        Value::Array(items) => {
            within("a list", items.len(), MOST_ENTRIES)?;
            items.iter().try_for_each(bounded)
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            Ok(())
        }
    }
}

/// What counts or measures something in any family, whether a rule here reads it or not, in order of the bytes: a model
/// is not built from anything but whole numbers.
const MEASURES: [&str; 44] = [
    "conv_kernel",
    "experts_per_token",
    "first_k_dense_replace",
    "hc_mult",
    "head_dim",
    "hidden_size",
    "index_head_dim",
    "index_n_heads",
    "index_topk",
    "intermediate_size",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "mamba_head_dim",
    "mamba_num_heads",
    "moe_intermediate_size",
    "moe_latent_size",
    "moe_shared_expert_intermediate_size",
    "mtp_num_hidden_layers",
    "n_group",
    "n_groups",
    "n_routed_experts",
    "n_shared_experts",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "num_experts_per_token",
    "num_hash_layers",
    "num_key_value_heads",
    "num_local_experts",
    "num_mtp_modules",
    "num_nextn_predict_layers",
    "num_shared_experts",
    "o_groups",
    "o_lora_rank",
    "q_lora_rank",
    "qk_head_dim",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "ssm_state_size",
    "topk_group",
    "v_head_dim",
    "vocab_size",
];

/// Refuses what counts or measures something and is no such number.
pub(super) fn measures(config: &Value) -> Result<(), Box<ModelError>> {
    let Value::Object(entries) = config else {
        return Ok(());
    };
    let may_measure = |value: &Value| match value {
        Value::Null => true,
        Value::Integer(number) => (0..=i128::from(MOST_WIDTH)).contains(number),
        Value::Bool(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => false,
    };
    for (key, value) in entries {
        if !may_measure(value)
            && let Ok(at) = MEASURES.binary_search(&key.as_str())
        {
            integer(config, MEASURES[at], 0, MOST_WIDTH)?;
        }
    }
    Ok(())
}

fn within(what: &'static str, got: usize, most: usize) -> Result<(), Box<ModelError>> {
    if got <= most {
        return Ok(());
    }
    Err(Box::new(ModelError::TooMany { what, got, most }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_measures_is_in_order() {
        assert!(MEASURES.is_sorted());
    }

    #[test]
    fn what_measures_is_a_number_that_some_model_may_have() {
        let said = |text: &str| {
            let config: Value = serde_json::from_str(text).unwrap();
            measures(&config).map_err(|error| error.to_string())
        };
        assert_eq!(
            said(r#"{"q_lora_rank": 1024, "n_group": null, "rope_theta": "x"}"#),
            Ok(())
        );
        for (text, error) in [
            (
                r#"{"q_lora_rank": "x"}"#,
                "`q_lora_rank` should be a whole number, got \"x\"",
            ),
            (
                r#"{"hc_mult": [4]}"#,
                "`hc_mult` should be a whole number, got an array",
            ),
            (
                r#"{"n_routed_experts": -1}"#,
                "`n_routed_experts` is -1; expected 0 to 1048576",
            ),
            (
                r#"{"o_groups": 1000000000000}"#,
                "`o_groups` is 1000000000000; expected 0 to 1048576",
            ),
        ] {
            assert_eq!(said(text), Err(format!("config.json: {error}")));
        }
    }
}
