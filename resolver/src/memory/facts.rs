//! What the parts beside the KV cache follow from.

use super::{Interval, Part, PartKind};
use crate::config::batch::is_second_runner;
use crate::config::{self, EngineConfig, or_one};
use crate::gpu::Arch;
use crate::model::decoder::{LayerKind, LinearKernel, MlaDims};
use crate::model::parameters::{Size, Sizes};
use crate::model::scheme::{Kept, Module, Scheme};
use crate::model::{Kind, Model};
use crate::release::Profile;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::ReadModel;
use crate::speculation::Method;
use crate::trace::Trace;
use crate::units::thousands;

/// Bytes of an element of activations: float16 or bfloat16.
pub(super) const ELEMENT: u64 = 2;

/// Larger than any layer, so that sums of several stay numbers.
const MOST_WIDTH: u64 = 1 << 40;
/// The largest step that is looked into.
const MOST_STEP: u64 = 1 << 32;

/// Sizes of one rank, as far as memory is concerned.
pub(super) struct Facts<'a> {
    pub request: &'a Request,
    pub base: &'a Resolution,
    pub profile: &'static Profile,
    pub arch: Arch,
    /// Tokens in one step.
    pub tokens: u64,
    /// The same, of all replicas whose experts are shared.
    pub expert_tokens: u64,
    /// Requests of the sampler's run.
    pub requests: u64,
    /// Ranks that share a layer.
    pub ranks: u64,
    pub layers: u64,
    pub hidden: u64,
    pub vocab: u64,
    /// Elements of the rank's queries.
    pub queries: u64,
    /// Query heads of the rank.
    pub heads: u64,
    /// Width of the rank's MLP, or of what every token passes beside its experts.
    pub width: u64,
    pub experts: Option<Experts>,
    pub attention: Attention,
    /// Whether the second model runner serves it.
    pub second_runner: bool,
    /// Tokens drafted in a step.
    pub drafted: u64,
    pub drafts_blocks: bool,
    pub eager: bool,
    pub tower: Option<Tower>,
}

/// Routed experts.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    pub count: u64,
    pub per_token: u64,
    /// Width of the rank's slice of one.
    pub width: u64,
    /// Experts that the rank holds.
    pub held: u64,
    pub kernel: Kernel,
}

/// Which kernels run experts, by what they need beside them.
/// `vllm/model_executor/layers/fused_moe/modular_kernel.py` `_allocate_buffers`
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Triton's, Marlin's and CUTLASS': two workspaces of vLLM's.
    Workspaces,
    /// `DeepGEMM`: the same, padded to whole blocks.
    DeepGemm,
    /// FlashInfer's: their own, within.
    Fused,
}

/// What attention allocates.
#[derive(Clone, Copy)]
pub(super) enum Attention {
    Plain,
    /// Linear attention: elements of keys and values of the rank, both sides.
    Linear {
        keys: u64,
        values: u64,
    },
    Latent {
        dims: MlaDims,
        sparse_heads: Option<u64>,
    },
    DeepseekV4 {
        streams: u64,
        query_rank: u64,
        picked: u64,
        window: u64,
    },
}

/// A tower for images.
#[derive(Clone, Copy)]
pub(super) struct Tower {
    pub hidden: u64,
    pub width: u64,
    /// Deeper layers that feed the language model.
    pub deepstack: u64,
}

impl<'a> Facts<'a> {
    pub fn new(
        request: &'a Request,
        model: &ReadModel,
        base: &'a Resolution,
    ) -> Result<Self, String> {
        if let Some(why) = &base.weights.parameters_uncounted {
            return Err(format!("weights are not counted: {why}"));
        }
        if let Some(why) = &base.weights.draft_parameters_uncounted {
            return Err(format!("the drafter's weights are not counted: {why}"));
        }
        let model = model.as_ref().map_err(ToString::to_string)?;
        let settled = config::build(request, model, &mut Trace::silent());
        let config = settled.map_err(|refusal| refusal.to_string())?;
        let arch = request.gpu.capability.arch();
        let arch = arch.ok_or_else(|| "the GPU is not modelled".to_owned())?;
        let profile = request.release.profile();
        let parameters = &model.common.parameters;
        let sizes = &parameters.sizes;
        let need = |size: Size| {
            let found = sizes.get(size).filter(|number| *number > 0);
            found.ok_or_else(|| format!("config.json has no `{}`", size.wire()))
        };
        let ranks = config.tensor_parallel_size.max(1);
        // what a step of these takes passes any GPU by far
        if base.max_num_batched_tokens > MOST_STEP || base.max_num_seqs > MOST_STEP {
            return Err("its batch is beyond what any GPU could hold".to_owned());
        }
        let replicas = or_one(request.args.data_parallel_size).max(1);
        let tokens = base.max_num_batched_tokens;
        let experts = experts(model, &config, arch, profile, request);
        let attention = attention(model, ranks);
        let heads = (model.common.num_attention_heads / ranks).max(1);
        let speculation = config.speculation.as_ref();
        let method = speculation.map(|speculation| speculation.method);
        Ok(Self {
            request,
            base,
            profile,
            arch,
            tokens,
            expert_tokens: tokens.saturating_mul(if experts.is_some() { replicas } else { 1 }),
            requests: base.max_num_seqs.min(tokens),
            ranks,
            layers: model.common.num_hidden_layers,
            hidden: need(Size::HiddenSize)?,
            vocab: need(Size::VocabSize)?,
            queries: heads.saturating_mul(model.common.head_size),
            heads,
            width: width(sizes, experts.is_some()).min(MOST_WIDTH) / ranks,
            experts,
            attention,
            second_runner: is_second_runner(model, profile) || method == Some(Method::Dspark),
            drafted: speculation.map_or(0, |speculation| speculation.num_speculative_tokens),
            drafts_blocks: method == Some(Method::Dspark),
            eager: request.args.enforce_eager == Some(true),
            tower: parameters
                .tower
                .as_ref()
                .filter(|_| model.common.takes_images())
                .map(|tower| Tower {
                    hidden: first(tower, &[Size::HiddenSize, Size::VtHiddenSize]),
                    width: first(tower, &[Size::IntermediateSize, Size::VtIntermediateSize]),
                    deepstack: parameters.deepstack,
                }),
        })
    }

    /// What the weights take, as built: exact.
    pub fn weights(&self) -> Part {
        let weights = &self.base.weights;
        let own = weights.parameter_bytes.unwrap_or(0);
        let drafter = weights.draft_parameter_bytes.unwrap_or(0);
        let bytes = Interval::exact(own).plus(Interval::exact(drafter));
        let of_drafter = if drafter > 0 {
            format!(", the drafter's {} B", thousands(drafter))
        } else {
            String::new()
        };
        let source = format!(
            "every parameter and buffer that vLLM builds: {} B{of_drafter}",
            thousands(own)
        );
        Part {
            kind: PartKind::Weights,
            bytes,
            source,
        }
    }

    /// Bytes of so many elements for each token of a step.
    pub fn per_token(&self, elements: u64) -> u64 {
        self.tokens.saturating_mul(ELEMENT).saturating_mul(elements)
    }
}

fn first(sizes: &Sizes, names: &[Size]) -> u64 {
    names.iter().find_map(|size| sizes.get(*size)).unwrap_or(0)
}

fn width(sizes: &Sizes, has_experts: bool) -> u64 {
    if !has_experts {
        return first(sizes, &[Size::IntermediateSizeMlp, Size::IntermediateSize]);
    }
    let shared = first(
        sizes,
        &[
            Size::SharedExpertIntermediateSize,
            Size::MoeSharedExpertIntermediateSize,
        ],
    );
    if shared > 0 {
        return shared;
    }
    let count = first(sizes, &[Size::NSharedExperts, Size::NumSharedExperts]);
    count.saturating_mul(sizes.get(Size::MoeIntermediateSize).unwrap_or(0))
}

fn experts(
    model: &Model,
    config: &EngineConfig,
    arch: Arch,
    profile: &Profile,
    request: &Request,
) -> Option<Experts> {
    let sizes = &model.common.parameters.sizes;
    let count = first(
        sizes,
        &[
            Size::NRoutedExperts,
            Size::NumExperts,
            Size::NumLocalExperts,
        ],
    );
    if count == 0 || !(model.common.has_experts || matches!(model.kind, Kind::DeepseekV4(_))) {
        return None;
    }
    let kept = match &model.kind {
        // its experts are fp4 unless config.json says otherwise
        Kind::DeepseekV4(_) if !model.common.parameters.fp8_experts => Kept::Mxfp4,
        Kind::DeepseekV4(_) | Kind::Decoder(_) => match &model.common.parameters.scheme {
            Scheme::Known { kept, .. } => kept[Module::Experts as usize],
            Scheme::Other(_) => Kept::Plain,
        },
    };
    let spread = if request.args.enable_expert_parallel == Some(true) {
        config.tensor_parallel_size
    } else {
        1
    };
    Some(Experts {
        count,
        // Llama 4 has one
        per_token: sizes.get(Size::NumExpertsPerTok).unwrap_or(1),
        width: first(sizes, &[Size::MoeIntermediateSize, Size::IntermediateSize])
            / config.expert_slices.max(1),
        held: count / spread.max(1),
        kernel: kernel(kept, arch, profile),
    })
}

/// The kernels that vLLM prefers for such experts.
/// `vllm/model_executor/layers/fused_moe/oracle/`
const fn kernel(kept: Kept, arch: Arch, profile: &Profile) -> Kernel {
    match (kept, arch) {
        (Kept::Plain, Arch::Sm100) if profile.weights.pads_plain_experts => Kernel::Fused,
        (Kept::Fp8Block(_), Arch::Sm90) => Kernel::DeepGemm,
        (Kept::Fp8Block(_) | Kept::Fp8Tensor | Kept::Mxfp4, Arch::Sm100)
        | (Kept::Nvfp4, Arch::Sm100 | Arch::Sm120) => Kernel::Fused,
        (
            Kept::Plain
            | Kept::Fp8Block(_)
            | Kept::Fp8Tensor
            | Kept::Mxfp4
            | Kept::Nvfp4
            | Kept::Nvfp4Weights
            | Kept::Packed4(_),
            _,
        ) => Kernel::Workspaces,
    }
}

fn attention(model: &Model, ranks: u64) -> Attention {
    let sizes = &model.common.parameters.sizes;
    match &model.kind {
        Kind::DeepseekV4(facts) => Attention::DeepseekV4 {
            streams: sizes.get(Size::HcMult).unwrap_or(1).max(1),
            query_rank: sizes.get(Size::QLoraRank).unwrap_or(0),
            picked: sizes.get(Size::IndexTopk).unwrap_or(0),
            window: facts.sliding_window,
        },
        Kind::Decoder(decoder) => {
            let linear = decoder.layers.iter().find_map(|layer| match layer.kind {
                LayerKind::Linear(linear) => Some(linear),
                LayerKind::Attention(_) | LayerKind::Mla { .. } => None,
            });
            match (decoder.mla, linear) {
                (Some(dims), None) => Attention::Latent {
                    dims,
                    sparse_heads: decoder
                        .index_topk
                        .map(|_| sizes.get(Size::IndexNHeads).unwrap_or(64)),
                },
                (_, Some(linear)) => {
                    let values = linear.heads.saturating_mul(linear.rows).min(MOST_WIDTH);
                    let conv = match linear.kernel {
                        LinearKernel::Gdn | LinearKernel::Mamba2 => linear.conv_dim,
                        LinearKernel::Kda => linear.conv_dim.saturating_mul(3),
                    };
                    Attention::Linear {
                        keys: conv.saturating_sub(values).min(MOST_WIDTH) / 2 / ranks,
                        values: values / ranks,
                    }
                }
                (None, None) => Attention::Plain,
            }
        }
    }
}
