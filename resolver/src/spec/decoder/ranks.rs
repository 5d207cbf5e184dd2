//! What layers ask of their ranks.

use super::Context;
use crate::config::StateDtype;
use crate::error::{Refusal, Stage};
use crate::model::decoder::{Attention, HeadSharing, Linear, LinearKernel};

/// KV heads over ranks: most models assert without a word that they divide.
pub(super) fn check_heads(attention: Attention, tensor: u64) -> Result<(), Box<Refusal>> {
    let heads = attention.kv_heads;
    let uneven = if heads >= tensor {
        !heads.is_multiple_of(tensor)
    } else {
        !tensor.is_multiple_of(heads)
    };
    match attention.sharing {
        HeadSharing::Asserted if uneven => Err(raise(String::new())),
        // `vllm/model_executor/layers/linear.py` `QKVParallelLinear`, by `divide`
        HeadSharing::AtLeastOne | HeadSharing::Quotient if uneven => {
            let (whole, parts) = (heads.max(tensor), heads.min(tensor));
            Err(raise(format!("{whole} is not divisible by {parts}")))
        }
        // `Attention.__init__` takes the query heads modulo none
        HeadSharing::Quotient if heads < tensor => Err(Refusal::raised(
            Stage::Model,
            "ZeroDivisionError",
            "integer modulo by zero",
        )),
        HeadSharing::Asserted | HeadSharing::AtLeastOne | HeadSharing::Quotient => Ok(()),
    }
}

/// Query heads over the KV heads of a rank, where the model has one number of
/// either. Mirrors `vllm/model_executor/layers/attention/attention.py` `Attention.__init__`.
pub(super) fn check_queries(
    attention: Attention,
    queries: u64,
    tensor: u64,
) -> Result<(), Box<Refusal>> {
    let queries = queries / tensor;
    let heads = (attention.kv_heads / tensor).max(1);
    if attention.sharing == HeadSharing::Asserted && !queries.is_multiple_of(heads) {
        return Err(raise(format!(
            "num_heads ({queries}) is not divisible by num_kv_heads ({heads})"
        )));
    }
    Ok(())
}

fn raise(message: String) -> Box<Refusal> {
    Refusal::raised(Stage::Model, "AssertionError", message)
}

/// Mirrors `vllm/model_executor/layers/mamba/mamba_utils.py` `kda_state_dtype`.
pub(super) fn check_states(linear: Linear, context: &Context) -> Result<(), Box<Refusal>> {
    let recurrent = context.config.recurrent_dtype;
    match (linear.kernel, recurrent) {
        (LinearKernel::Kda, StateDtype::Float16) if context.profile.kda_state_is_set => {
            Err(Refusal::raised(
                Stage::Model,
                "ValueError",
                format!(
                    "KDA recurrent state supports only auto, float32, and bfloat16; got {}",
                    recurrent.as_str()
                ),
            ))
        }
        (LinearKernel::Kda | LinearKernel::Gdn | LinearKernel::Mamba2, _) => Ok(()),
    }
}

/// What linear attention asserts of its ranks.
pub(super) fn check_linear(linear: Linear, tensor: u64) -> Result<(), Box<Refusal>> {
    let raise = |message| Err(raise(message));
    match linear.groups {
        Some((groups, _)) => {
            if !linear.heads.is_multiple_of(tensor) {
                return raise("Tensor parallel world size must divide num heads.".into());
            }
            if !groups.is_multiple_of(tensor) && groups != 1 {
                return raise(
                    "If tensor parallel world size does not divide num_groups, then num_groups \
                     must equal 1."
                        .into(),
                );
            }
        }
        None => {
            for whole in [linear.heads, linear.conv_dim] {
                if !whole.is_multiple_of(tensor) {
                    return raise(format!("{whole} is not divisible by {tensor}"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sharing: HeadSharing, kv_heads: u64, tensor: u64) -> Option<String> {
        check_heads(Attention::full(kv_heads, sharing, 64), tensor)
            .err()
            .map(|refusal| refusal.to_string())
    }

    #[test]
    fn query_heads_divide_by_kv_heads() {
        let text = |kv_heads, queries, tensor| {
            let attention = Attention::full(kv_heads, HeadSharing::Asserted, 64);
            check_queries(attention, queries, tensor)
                .err()
                .map(|refusal| refusal.to_string())
        };
        assert_eq!(text(8, 32, 4), None);
        assert_eq!(text(2, 32, 8), None);
        assert_eq!(
            text(3, 32, 1).as_deref(),
            Some("num_heads (32) is not divisible by num_kv_heads (3)")
        );
        assert_eq!(
            text(64, 32, 2).as_deref(),
            Some("num_heads (16) is not divisible by num_kv_heads (32)")
        );
    }

    #[test]
    fn heads_are_shared_out_by_the_model() {
        assert_eq!(text(HeadSharing::Asserted, 8, 16), None);
        assert_eq!(text(HeadSharing::Asserted, 8, 3).as_deref(), Some(""));
        assert_eq!(text(HeadSharing::AtLeastOne, 4, 16), None);
        assert_eq!(
            text(HeadSharing::AtLeastOne, 4, 6).as_deref(),
            Some("6 is not divisible by 4")
        );
        assert_eq!(text(HeadSharing::Quotient, 8, 8), None);
        assert_eq!(
            text(HeadSharing::Quotient, 8, 16).as_deref(),
            Some("integer modulo by zero")
        );
    }
}
