//! DeepSeek V4's way through the pipeline.

mod draft;

use super::{plan, stages, weights};
use crate::backend::block_size::aligned_is_not_supported;
use crate::backend::deepseek_v4::{self as dsv4_backend, Implementation};
use crate::backend::layouts::DEFAULT_PREFERENCE;
use crate::config::{self, EngineConfig};
use crate::context_parallel::{Checks, Family};
use crate::error::{Outcome, Refusal, Stage};
use crate::flag::Flag;
use crate::gpu::Arch;
use crate::layout::KvCacheLayout;
use crate::model::deepseek_v4::Compression;
use crate::model::{Common, DeepseekV4};
use crate::release::Profile;
use crate::request::Request;
use crate::resolution::{Note, Resolution};
use crate::spec::decoder::{self as drafter, Built};
use crate::spec::deepseek_v4 as dsv4_spec;
use crate::trace::Trace;
use crate::units::mul;
use crate::weights::Rank;
use crate::{log, notes};

#[allow(clippy::too_many_lines)] // the pipeline, in its order
pub(super) fn deepseek_v4(
    request: &Request,
    common: &Common,
    model: &DeepseekV4,
    config: &EngineConfig,
    arch: Arch,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Resolution, Box<Refusal>> {
    flags_of_other_families(request)?;
    let profile = request.release.profile();
    let ranges = stages::ranges(
        request.env.pp_layer_partition.as_deref(),
        common.num_hidden_layers,
        config.pipeline_parallel_size,
        trace,
    )?;
    let capability = request.gpu.capability;
    drafter::before_target(config)?;
    let checks = Checks {
        common,
        layers: Family::DeepseekV4,
        config,
        cache_dtype: config.cache_dtype,
        profile,
        arch,
    };
    config::runner_line(config, trace);
    checks.before_model()?;
    let implementation =
        dsv4_backend::select(config, model, arch, capability, profile, notes, trace)?;
    let stage = ranges.first().map(|first| model.stage(first));
    if stage.as_ref().is_some_and(DeepseekV4::indexer_is_first) {
        indexer_line(profile, trace);
    }
    let resolved = dsv4_spec::resolve_dtype(config.cache_dtype, implementation, profile, trace)?;
    if !profile.pads_shared_experts {
        shared_experts(request, common, config, model)?;
    }
    expert_width(config, model)?;
    if stage.is_some_and(|stage| stage.layers.contains(&Compression::C4)) {
        indexer_line(profile, trace);
    }
    let drafted = draft::build(
        model,
        &draft::Built {
            common,
            config,
            arch,
            capability,
            implementation,
            resolved,
        },
        profile,
        notes,
        trace,
    )?;
    let mut built = Vec::with_capacity(ranges.len());
    for range in &ranges {
        let stage = model.stage(range);
        let silent = &mut Trace::silent();
        let trace = if built.is_empty() {
            &mut *trace
        } else {
            silent
        };
        let block_size = block_size(config, &stage, implementation, resolved, profile, trace)?;
        let mut layers =
            dsv4_spec::layers(&stage, range.start, resolved, block_size, profile, trace)?;
        let mut backends = vec![
            "CompressorBackend",
            "DEEPSEEK_SPARSE_SWA",
            "DEEPSEEK_V4_INDEXER",
            implementation.backend(profile),
        ];
        let mut concerns = !implementation.declares(capability);
        let is_last = built.len() + 1 == ranges.len();
        if let Some(drafted) = drafted.as_ref().filter(|_| is_last) {
            layers.append(&dsv4_spec::windows(
                model,
                drafted.resolved,
                (drafted.first, drafted.count),
                profile,
            )?);
            let backend = drafted.implementation.backend(profile);
            if !backends.contains(&backend) {
                backends.push(backend);
            }
            concerns |= !drafted.implementation.declares(capability);
        }
        backends.sort_unstable();
        // the indexers alone declare layouts
        let layouts = if stage.layers.contains(&Compression::C4) {
            &[KvCacheLayout::Blhnc, KvCacheLayout::Blnhc][..]
        } else {
            DEFAULT_PREFERENCE
        };
        built.push(Built {
            layers,
            backends,
            layouts: layouts.to_vec(),
            cache_dtype: resolved.cache_dtype,
            block_size,
            concerns,
            spec_backends: Vec::new(),
        });
    }
    let block_size = built
        .first()
        .map_or(dsv4_spec::BLOCK_SIZE, |first| first.block_size);
    let weights = weights::deepseek_v4(
        &Rank::of(request, common, config, profile, arch),
        model,
        config,
        (implementation, resolved.rows),
        drafted.map(|drafted| drafted.weights()),
        trace,
    )?;
    let mut resolution = plan(request, config, (built, &ranges), &checks, notes, trace)?;
    resolution.weights = weights;
    if notes::odd_turns(config, notes) {
        resolution.outcome = Outcome::Unverified;
    }
    if notes::on_deepseek_v4(config, implementation, block_size, profile, notes) {
        resolution.outcome = Outcome::Unverified;
    }
    notes::on_any(request, config, &resolution, notes);
    Ok(resolution)
}

/// Mirrors `vllm/models/deepseek_v4/attention.py` `DeepseekV4Indexer.__init__`.
fn indexer_line(profile: &Profile, trace: &mut Trace) {
    trace.say(log::MODEL, || profile.log.indexer.to_owned());
}

/// The backends in the order of the layers, whose first layer with a compressor
/// decides where its own and the indexer's stand.
/// Mirrors `DeepseekV4Attention.__init__`.
fn in_order(model: &DeepseekV4, own: &'static str) -> Vec<&'static str> {
    const COMPRESSOR: &str = "CompressorBackend";
    let mut names = Vec::new();
    for compression in &model.layers {
        let before: &[&'static str] = match compression {
            Compression::C4 => &["DEEPSEEK_V4_INDEXER", COMPRESSOR],
            Compression::None | Compression::C128 => &[],
        };
        let after: &[&'static str] = match compression {
            Compression::None => &[],
            Compression::C4 | Compression::C128 => &[COMPRESSOR],
        };
        let of_layer = before.iter().chain(&["DEEPSEEK_SPARSE_SWA"]).copied();
        for name in of_layer.chain([own]).chain(after.iter().copied()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn flags_of_other_families(request: &Request) -> Result<(), Box<Refusal>> {
    if request.args.disable_sliding_window != Some(true) {
        return Ok(());
    }
    Err(Refusal::not_modelled(format!(
        "{} on DeepSeek V4 is not modelled yet",
        Flag::DisableSlidingWindow
    )))
}

/// A rank's part of the shared experts must be whole blocks of an fp8
/// checkpoint, unless whole sequences are spread over the ranks instead.
/// Mirrors `vllm/model_executor/layers/quantization/utils/fp8_utils.py`
/// `validate_fp8_block_shape`.
fn shared_experts(
    request: &Request,
    common: &Common,
    config: &EngineConfig,
    model: &DeepseekV4,
) -> Result<(), Box<Refusal>> {
    let ranks = config.tensor_parallel_size;
    let width = mul(model.moe_intermediate_size, model.n_shared_experts)?;
    let Some(block) = common.weights.fp8_block.filter(|_| ranks > 1 && width > 0) else {
        return Ok(());
    };
    let part = width / ranks;
    if part.is_multiple_of(block.k) {
        return Ok(());
    }
    if request.args.enable_expert_parallel == Some(true)
        && request.args.data_parallel_size.unwrap_or(1) > 1
    {
        return Err(Refusal::not_modelled(
            "shared experts that are no whole blocks under expert and data parallelism are not \
             modelled on this release",
        ));
    }
    Err(Refusal::raised(
        Stage::Model,
        "ValueError",
        format!(
            "Weight input_size_per_partition = {part} is not divisible by weight quantization \
             block_k = {}.",
            block.k
        ),
    ))
}

/// A bare assertion where experts cannot be sliced evenly.
/// Mirrors `vllm/model_executor/layers/fused_moe/config.py` `FusedMoEConfig.__post_init__`.
fn expert_width(config: &EngineConfig, model: &DeepseekV4) -> Result<(), Box<Refusal>> {
    if model
        .moe_intermediate_size
        .is_multiple_of(config.expert_slices)
    {
        Ok(())
    } else {
        Err(Refusal::raised(Stage::Model, "AssertionError", ""))
    }
}

/// `--block-size`, or what all backends take; more where layers are to be left
/// unquantised, which this model's never are.
/// Mirrors `vllm/platforms/interface.py` `update_block_size_for_backend`.
fn block_size(
    config: &EngineConfig,
    model: &DeepseekV4,
    implementation: Implementation,
    resolved: dsv4_spec::ResolvedDtype,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<u64, Box<Refusal>> {
    let asked = config.block_size.unwrap_or(dsv4_spec::BLOCK_SIZE);
    if config.block_size.is_none() {
        trace.say(log::SPECS_EACH, || {
            let names = in_order(model, implementation.backend(profile));
            log::block_size(asked, &names, &profile.log)
        });
    }
    let skips = profile.aligns_skipped_blocks
        && (config.cache_dtype.skips_boundary_layers() || !config.skip_layers.is_empty());
    let size = if skips {
        let dtype = config.model_dtype.torch();
        dsv4_spec::for_skipped(asked, model, resolved.cache_dtype, dtype, profile)?
    } else {
        asked
    };
    if size != asked {
        trace.say(log::SPECS_EACH, || log::skipped_block_size(size));
    }
    if profile.checks_aligned_block
        && size != asked
        && !size.is_multiple_of(dsv4_spec::KERNEL_BLOCK_SIZE)
    {
        let indexer = "DEEPSEEK_V4_INDEXER";
        let mut backends = [implementation.backend(profile), indexer];
        // in the order of the layers
        if model.indexer_is_first() {
            backends.reverse();
        }
        return Err(aligned_is_not_supported(size, &backends));
    }
    trace.step(
        Stage::Specs,
        "vllm/platforms/interface.py",
        "Platform.update_block_size_for_backend",
        || {
            if size != asked {
                format!(
                    "the block size is {size}, not {asked}: kv_cache_dtype_skip_layers has \
                     entries, and a page must hold a kernel block of unquantised rows"
                )
            } else if config.block_size.is_some() {
                format!("the block size is {size}, as asked; it is not checked here")
            } else {
                format!(
                    "the block size is {size}: {} and the indexer take no other",
                    implementation.backend(profile)
                )
            }
        },
    );
    Ok(size)
}
