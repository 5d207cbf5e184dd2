//! Ranks, and what must divide by them.

use super::checks::{at_least, check_class, invalid};
use crate::args::EngineArgs;
use crate::error::{Refusal, Stage};
use crate::flag::Flag;
use crate::model::{Kind, Model};
use crate::release::Profile;

/// GPUs of one node. A case says nothing of the node; this is the oracle's.
const NODE_GPUS: i64 = 64;

/// `vllm/config/parallel.py` `ParallelConfig`.
pub(super) fn parallel(args: &EngineArgs, profile: &Profile) -> Result<(), Box<Refusal>> {
    let fields = [
        Flag::PipelineParallelSize,
        Flag::TensorParallelSize,
        Flag::DataParallelSize,
        Flag::EnableExpertParallel,
        Flag::DecodeContextParallelSize,
    ];
    if !profile.bounds_sizes {
        unbounded(args)?;
    }
    check_class("ParallelConfig", args, &fields, |flag, errors| match flag {
        Flag::PipelineParallelSize => {
            at_least(errors, flag.name(), args.pipeline_parallel_size, 1);
        }
        Flag::TensorParallelSize => at_least(errors, flag.name(), args.tensor_parallel_size, 1),
        Flag::DataParallelSize => {
            at_least(errors, flag.name(), args.data_parallel_size, 1);
            // a field of its own, which follows it
            at_least(
                errors,
                "data_parallel_size_local",
                args.data_parallel_size,
                0,
            );
        }
        Flag::DecodeContextParallelSize => {
            at_least(errors, flag.name(), args.decode_context_parallel_size, 1);
        }
        _ => {}
    })?;
    let tensor = args.tensor_parallel_size.unwrap_or(1);
    let world = i128::from(tensor) * i128::from(args.pipeline_parallel_size.unwrap_or(1));
    if world > i128::from(NODE_GPUS) {
        return Err(invalid(format!(
            "World size ({world}) is larger than the number of available GPUs ({NODE_GPUS}) in \
             this node. If this is intentional and you are using:\n- ray, set \
             '--distributed-executor-backend ray'.\n- multiprocessing, set '--nnodes' \
             appropriately."
        )));
    }
    let context = args.decode_context_parallel_size.unwrap_or(1);
    if tensor % context != 0 {
        return Err(invalid(format!(
            "tp_size={tensor} must be {}dcp_size={context}.",
            profile.dcp_divides
        )));
    }
    Ok(())
}

/// Sizes below 1 that nothing stops here: what they lead to later was not asked.
fn unbounded(args: &EngineArgs) -> Result<(), Box<Refusal>> {
    let sizes = [
        (Flag::PipelineParallelSize, args.pipeline_parallel_size),
        (Flag::TensorParallelSize, args.tensor_parallel_size),
        (Flag::DataParallelSize, args.data_parallel_size),
        (
            Flag::DecodeContextParallelSize,
            args.decode_context_parallel_size,
        ),
        (Flag::BlockSize, args.block_size),
    ];
    match sizes.iter().find(|(_, size)| size.is_some_and(|n| n < 1)) {
        None => Ok(()),
        Some((flag, _)) => Err(Refusal::not_modelled(format!(
            "{flag} below 1 on a release that does not check it is not modelled"
        ))),
    }
}

/// Heads over ranks. Mirrors `vllm/config/model.py`
/// `ModelConfig.verify_with_parallel_config`.
pub(super) fn heads(
    args: &EngineArgs,
    model: &Model,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    let Model {
        common: model,
        kind,
    } = model;
    let heads = model.num_attention_heads;
    let tensor = super::or_one(args.tensor_parallel_size);
    if !heads.is_multiple_of(tensor) {
        return Err(invalid(format!(
            "Total number of attention heads ({heads}) must be divisible by tensor parallel size \
             ({tensor})."
        )));
    }
    if args.enable_expert_parallel == Some(true) && !model.has_experts {
        return Err(invalid(
            "Number of experts in the model must be greater than 0 when expert parallelism is \
             enabled.",
        ));
    }
    let has_stages = match kind {
        Kind::DeepseekV4(_) => profile.v4_has_stages,
        Kind::Decoder(_) => true,
    };
    if super::or_one(args.pipeline_parallel_size) > 1 && !has_stages {
        return Err(Refusal::raised(
            Stage::Config,
            "NotImplementedError",
            "Pipeline parallelism is not supported for this model. Supported models implement the \
             `SupportsPP` interface.",
        ));
    }
    let context = super::or_one(args.decode_context_parallel_size);
    if context == 1 || model.use_mla {
        return Ok(());
    }
    let kv = model.num_key_value_heads;
    if tensor <= kv {
        return Err(invalid(format!(
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tensor}) \
             to be greater than the model's total number of KV heads ({kv}). Increase \
             `--tensor-parallel-size` or set `--decode-context-parallel-size 1`."
        )));
    }
    let most = tensor / kv;
    if context > most {
        return Err(invalid(format!(
            "`--decode-context-parallel-size` ({context}) exceeds the maximum supported value \
             ({most}) for `--tensor-parallel-size` ({tensor}) and {kv} model KV heads."
        )));
    }
    let queries = heads / kv;
    if !queries.is_multiple_of(context) {
        return Err(invalid(format!(
            "The model's number of query heads per KV head ({queries}) must be divisible by \
             `--decode-context-parallel-size` ({context}) for GQA/MQA."
        )));
    }
    Ok(())
}
