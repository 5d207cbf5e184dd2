//! Any decoder's backends, block size and layer specs.

mod alignment;
mod backends;
mod drafter;
mod ranks;
mod rows;
mod weights;
mod worker;

pub(crate) use drafter::{before_target, local_argmax, unknown_dtype};
pub(crate) use rows::linear_states;
pub(crate) use worker::concerns as worker_concerns;

use crate::backend::AttentionBackend;
use crate::backend::customize::customize;
use crate::backend::flash_attention::Version;
use crate::backend::layer::LayerBackend;
use crate::backend::layouts;
use crate::backend::rules::Target;
use crate::backend::select::{self, Surroundings};
use crate::config::EngineConfig;
use crate::dtype::{CacheDtype, TorchDtype};
use crate::error::{Refusal, Stage};
use crate::gpu::{Arch, ComputeCapability};
use crate::layout::KvCacheLayout;
use crate::model::decoder::{DecoderLayer, DtypeHook, LayerKind};
use crate::model::{Common, Decoder};
use crate::release::Profile;
use crate::resolution::Note;
use crate::trace::Trace;

use super::{LayerSpec, Layers};

/// What every step below looks at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub common: &'a Common,
    pub decoder: &'a Decoder,
    /// The model whose stage `decoder` is, or the same.
    pub whole: &'a Decoder,
    pub config: &'a EngineConfig,
    pub target: Target,
    pub capability: ComputeCapability,
    pub profile: &'a Profile,
    /// The target, where this is its drafter: backends still look at its config.
    pub drafts_for: Option<(&'a Common, &'a Decoder)>,
    /// Whether the drafter is built here: with the last stage.
    pub drafts: bool,
    /// Whether draft tokens look at each other.
    pub non_causal: bool,
}

impl Context<'_> {
    /// Whether no layer knows what is asked of the cache.
    /// Mirrors `vllm/model_executor/models/mimo_v2.py` `MiMoV2FlashDecoderLayer`.
    pub fn leaves_layers_untold(&self) -> bool {
        self.decoder.dtype_hook == DtypeHook::UntoldLayers && !self.profile.tells_layers_of_cache
    }

    /// Whether the layer is kept in the model's dtype: by its number or its
    /// window. Mirrors `Attention.__init__` and `MLAAttention.__init__`.
    pub fn is_skipped(&self, layer: &DecoderLayer) -> bool {
        let number = layer.index.to_string();
        let has_window =
            matches!(layer.kind, LayerKind::Attention(attention) if attention.window.is_some());
        self.config
            .skip_layers
            .iter()
            .any(|skip| *skip == number || (has_window && skip == "sliding_window"))
    }

    /// The spec as the layer's backend has it.
    pub fn customize(
        &self,
        backend: LayerBackend,
        spec: LayerSpec,
    ) -> Result<LayerSpec, Box<Refusal>> {
        customize(backend, spec, self.target, self.profile)
    }

    /// Whether `kv_cache_dtype_skip_layers` has entries in the end, be it of no
    /// layer here.
    pub fn skips_layers(&self) -> bool {
        !self.config.skip_layers.is_empty()
    }

    /// What vLLM calls the model: the target, for its drafter, too.
    pub fn model(&self) -> (&Common, &Decoder) {
        self.drafts_for.unwrap_or((self.common, self.decoder))
    }

    /// Query heads for each KV head, on one rank.
    fn gqa_ratio(&self, heads: u64) -> u64 {
        let kv = self.model().0.num_key_value_heads / self.config.tensor_parallel_size;
        heads / kv.max(1)
    }

    /// What backends look at beside a layer.
    pub fn surroundings(&self, cache_dtype: CacheDtype) -> Surroundings {
        let (common, decoder) = self.model();
        let heads = common.num_attention_heads / self.config.tensor_parallel_size;
        Surroundings {
            rules: self.target.rules,
            arch: self.target.arch,
            capability: self.capability,
            heads_per_rank: heads,
            gqa_ratio: if common.use_mla {
                1
            } else {
                self.gqa_ratio(heads)
            },
            mla: decoder.mla.map(|dims| select::MlaDims {
                qk_nope_head_dim: dims.qk_nope_head_dim,
                qk_rope_head_dim: dims.qk_rope_head_dim,
                v_head_dim: dims.v_head_dim,
                kv_lora_rank: dims.kv_lora_rank,
            }),
            index_topk: decoder.index_topk,
            has_softcap: common.has_softcap,
            is_mm_prefix_model: common.mm_prefix,
            model_head_size: common.head_size,
            dcp: self.config.decode_context_parallel_size,
            pcp: self.config.context.prefill_ranks,
            forced_flash_attn: self.forced_flash_attn(),
            cache_dtype,
        }
    }

    /// What the configuration makes of `attention_config.flash_attn_version`.
    /// Mirrors `vllm/engine/arg_utils.py` `EngineArgs.create_engine_config`, then
    /// `vllm/model_executor/models/config.py` `Gemma4Config`.
    fn forced_flash_attn(&self) -> Option<Version> {
        // of the target's word, for its drafter too
        if self.config.requested_cache_dtype.skips_boundary_layers() {
            return Some(Version::Two);
        }
        let dtype = self.config.cache_dtype;
        let may_choose = matches!(
            self.config.attention_backend,
            None | Some(AttentionBackend::FlashAttn)
        );
        let two_sizes = self.model().1.dtype_hook == DtypeHook::TwoHeadSizes;
        match self.target.arch {
            Arch::Sm90 if dtype.is_fp8_spelling() && self.target.rules.fa4_reads_fp8_on_hopper => {
                None
            }
            Arch::Sm90 | Arch::Sm100 => (two_sizes && may_choose).then_some(Version::Four),
            Arch::Sm120 => None,
        }
    }

    /// The element type of a row. Mirrors `vllm/utils/torch_utils.py`
    /// `STR_DTYPE_TO_TORCH_DTYPE`.
    pub fn row_dtype(&self, dtype: CacheDtype) -> TorchDtype {
        match dtype {
            CacheDtype::Auto => self.config.model_dtype.torch(),
            CacheDtype::Float16 => TorchDtype::Float16,
            CacheDtype::Bfloat16 => TorchDtype::Bfloat16,
            CacheDtype::Int8PerTokenHead => TorchDtype::Int8,
            CacheDtype::Fp8Inc => TorchDtype::Float8E4m3fn,
            CacheDtype::Fp8
            | CacheDtype::Fp8E4m3
            | CacheDtype::Fp8E5m2
            | CacheDtype::Fp8DsMla
            | CacheDtype::Nvfp4DsMla
            | CacheDtype::TurboquantK8v4
            | CacheDtype::Turboquant4bitNc
            | CacheDtype::TurboquantK3v4Nc
            | CacheDtype::Turboquant3bitNc
            | CacheDtype::OctaveK3v4
            | CacheDtype::OctaveK3v3
            | CacheDtype::OctaveK3v3Compact
            | CacheDtype::Ultraquant4bit
            | CacheDtype::Int4PerTokenHead
            | CacheDtype::Fp8PerTokenHead
            | CacheDtype::Nvfp4
            | CacheDtype::Nvfp44over6 => TorchDtype::Uint8,
        }
    }
}

/// The layers as built.
pub(crate) struct Built {
    pub layers: Layers,
    /// vLLM's names of all backends, sorted.
    pub backends: Vec<&'static str>,
    /// The layouts that all of them take, most preferred first.
    pub layouts: Vec<KvCacheLayout>,
    pub cache_dtype: CacheDtype,
    pub block_size: u64,
    /// Whether something after the plan may refuse.
    pub concerns: bool,
    /// The backend of each of the layers' specs, for what the worker asks of
    /// them; none where that is answered elsewhere.
    pub spec_backends: Vec<LayerBackend>,
}

/// What vLLM's model builds before its layers.
pub(crate) fn before_layers(context: &Context) -> Result<(), Box<Refusal>> {
    drafter::before_target(context.config)?;
    weights::before_layers(context)
}

/// Builds the layers as vLLM's model does, and asks each for its spec.
pub(crate) fn build(
    context: &Context,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Built, Box<Refusal>> {
    if let Some(LayerKind::Attention(first)) = context.decoder.layers.first().map(|l| l.kind) {
        ranks::check_heads(first, context.config.tensor_parallel_size)?;
    }
    weights::attention(context)?;
    let chosen = backends::choose(context, notes, trace)?;
    weights::mlp(context)?;
    let around = context.surroundings(chosen.cache_dtype);
    let drafted = drafter::choose(context, &chosen, notes, trace)?;
    let mut distinct = chosen.distinct(context.decoder);
    let mut cache_dtype = chosen.cache_dtype;
    if let Some(drafted) = &drafted {
        cache_dtype = drafted.written_back;
        for backend in drafted.distinct() {
            if !distinct.contains(&backend) {
                distinct.push(backend);
            }
        }
    }
    let block = alignment::block_size(context, &chosen, &distinct, &around, trace)?;
    let (mut layers, mut spec_backends) = rows::layers(context, &chosen, &block, trace)?;
    if let Some(drafted) = &drafted {
        drafted.add_layers(context, &block, &mut layers, &mut spec_backends, trace)?;
    }
    let layouts = layouts::layout_candidates(&distinct, context.target)?;
    let mut names: Vec<&'static str> = distinct.iter().map(|backend| backend.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(Built {
        layers,
        backends: names,
        layouts,
        cache_dtype,
        block_size: block.tokens,
        concerns: weights::concern(context, notes)
            || chosen.concerns
            || drafted.is_some_and(|drafted| drafted.chosen.concerns),
        spec_backends,
    })
}

/// The stage of everything here that is not the model's.
const SPECS: Stage = Stage::Specs;
