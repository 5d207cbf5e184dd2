//! The environment variables that the user sets.

/// The environment variables that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// `VLLM_KV_CACHE_LAYOUT`
    pub kv_cache_layout: Option<String>,
    /// `VLLM_ALLOW_LONG_MAX_MODEL_LEN`
    pub allow_long_max_model_len: bool,
    /// `VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE` is off; it is on by
    /// default.
    pub hybrid_chunks_disallowed: bool,
    /// `VLLM_PP_LAYER_PARTITION`: layers of each stage.
    pub pp_layer_partition: Option<String>,
    /// Variables that were set and have no rule here, by name.
    pub unmodelled: Vec<String>,
}

/// Variables that no decision about the KV cache looks at.
const UNTOUCHING_VARIABLES: [&str; 4] = [
    "VLLM_LOGGING_LEVEL",
    "VLLM_NO_USAGE_STATS",
    "VLLM_CACHE_ROOT",
    "VLLM_API_KEY",
];

impl Environment {
    /// Sets one variable. A `VLLM_` variable without a rule is remembered and
    /// refused by name; others are not vLLM's.
    pub fn set(&mut self, name: &str, value: &str) {
        match name {
            "VLLM_PP_LAYER_PARTITION" => self.pp_layer_partition = Some(value.to_owned()),
            "VLLM_KV_CACHE_LAYOUT" => self.kv_cache_layout = Some(value.to_owned()),
            // mirrors `vllm/envs.py`: lower-cased, "1" or "true"
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN" => {
                self.allow_long_max_model_len =
                    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true");
            }
            // mirrors `vllm/envs.py`: `bool(int(…))`
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE" => {
                match value.trim().parse::<i64>() {
                    Ok(number) => self.hybrid_chunks_disallowed = number == 0,
                    Err(_) => self.unmodelled.push(name.to_owned()),
                }
            }
            _ if name.starts_with("VLLM_") && !UNTOUCHING_VARIABLES.contains(&name) => {
                self.unmodelled.push(name.chars().take(80).collect());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_vllm_reads_them() {
        let mut env = Environment::default();
        let chunks = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE";
        env.set(chunks, "0");
        assert!(env.hybrid_chunks_disallowed);
        env.set(chunks, "2");
        assert!(!env.hybrid_chunks_disallowed);
        env.set("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "True");
        assert!(env.allow_long_max_model_len);
        assert_eq!(env.unmodelled, [""; 0]);
        env.set(chunks, "no");
        env.set("VLLM_USE_V2_MODEL_RUNNER", "1");
        assert_eq!(env.unmodelled, [chunks, "VLLM_USE_V2_MODEL_RUNNER"]);
    }
}
