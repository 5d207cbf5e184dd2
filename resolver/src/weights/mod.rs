//! Bytes of one rank's weights, as vLLM builds the model: every parameter and
//! buffer, before a checkpoint is loaded and kernels repack it.

mod answer;
mod deepseek_v4;
mod dense;
mod draft;
mod hybrid;
mod kimi_k3;
mod linear;
mod mla;
mod repacked;
mod rope;
mod sheet;
mod tower;
mod windows;

pub use answer::WeightBytes;
pub(crate) use draft::{of_drafter, of_v4_draft};
pub(crate) use sheet::Sheet;

use crate::backend::deepseek_v4::Implementation;
use crate::config::{EngineConfig, StateDtype, or_one};
use crate::dtype::TorchDtype;
use crate::error::Refusal;
use crate::gpu::Arch;
use crate::model::parameters::{Parameters, Size};
use crate::model::scheme::{Kept, LoadedScales, Module, Scheme};
use crate::model::{Common, Decoder, DeepseekV4};
use crate::release::Profile;
use crate::request::Request;
use crate::units::round_up;
use linear::{Experts, Quant};
use sheet::{Part, product};

/// Rows that an embedding is padded to.
/// `vllm/model_executor/layers/vocab_parallel_embedding.py`
const VOCAB_PADDING: u64 = 64;

/// Fields of `speculative_config` that change how the drafter is built.
const ODD_DRAFT: [&str; 5] = [
    "draft_lm_head_quantization",
    "quantization",
    "draft_tensor_parallel_size",
    "tensor_parallel_size",
    "moe_backend",
];

/// Why weights are not counted, in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uncounted(pub String);

impl From<Box<Refusal>> for Uncounted {
    fn from(_: Box<Refusal>) -> Self {
        Self("they pass 64 bits".to_owned())
    }
}

fn not_modelled<T>(what: impl Into<String>) -> Result<T, Uncounted> {
    Err(Uncounted(what.into()))
}

/// Whether a model's head is its embedding, by `tie_word_embeddings`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Never: its class does not look at it.
    Own,
    /// Where config.json says so.
    TiedIfSaid,
    /// Unless config.json says otherwise.
    TiedUnlessSaid,
}

/// What the weights of one rank follow from.
#[derive(Clone, Copy)]
pub(crate) struct Rank<'a> {
    pub common: &'a Common,
    pub profile: &'a Profile,
    pub arch: Arch,
    /// Ranks that share a layer.
    pub ranks: u64,
    /// Ranks that an expert is sliced over.
    pub slices: u64,
    /// Ranks that whole experts are spread over.
    pub spread: u64,
    /// Stages of a pipeline.
    pub stages: u64,
    /// Whether every rank has what is otherwise split of an MLP beside experts.
    pub whole_shared: bool,
    /// Bytes of an element of the model's dtype.
    pub element: u64,
    /// The model's dtype is bfloat16.
    pub bfloat16: bool,
    /// Custom kernels are on, for nothing is compiled.
    pub eager: bool,
    /// States of linear layers are as they are by default.
    pub usual_states: bool,
    /// A drafter runs.
    pub drafts: bool,
    /// How the checkpoint is quantised is said in a file beside config.json, by the
    /// catalog's word.
    pub scheme_is_beside: bool,
    /// A field of `speculative_config` that gives the drafter weights of another kind.
    pub odd_draft: Option<&'static str>,
    /// Nothing is quantised, whatever the checkpoint's scheme.
    pub plain: bool,
    /// The rotary table is the target's.
    pub shares_table: bool,
}

impl<'a> Rank<'a> {
    /// The rank that a request is about: the first.
    pub(crate) fn of(
        request: &Request,
        common: &'a Common,
        config: &EngineConfig,
        profile: &'a Profile,
        arch: Arch,
    ) -> Self {
        let args = &request.args;
        let replicas = or_one(args.data_parallel_size).max(1);
        let ranks = config.tensor_parallel_size.max(1);
        let whole = args.enable_expert_parallel == Some(true);
        Self {
            common,
            profile,
            arch,
            ranks,
            slices: config.expert_slices.max(1),
            spread: if whole {
                let turns = or_one(args.prefill_context_parallel_size).max(1);
                ranks.saturating_mul(replicas).saturating_mul(turns)
            } else {
                1
            },
            stages: config.pipeline_parallel_size,
            whole_shared: whole && ranks > 1 && replicas > 1,
            element: config.model_dtype.torch().size_bytes(),
            bfloat16: config.model_dtype.torch() == TorchDtype::Bfloat16,
            eager: args.enforce_eager == Some(true),
            usual_states: matches!(config.state_dtype, StateDtype::Auto)
                && matches!(
                    config.recurrent_dtype,
                    StateDtype::Auto | StateDtype::Float32
                ),
            drafts: config.speculation.is_some(),
            scheme_is_beside: request.hf_config.get_set("hf_quant_config").is_some(),
            odd_draft: ODD_DRAFT.into_iter().find(|field| {
                let config = args.speculative_config.as_ref();
                config.is_some_and(|config| config.get_set(field).is_some())
            }),
            plain: false,
            shares_table: false,
        }
    }

    const fn parameters(&self) -> &'a Parameters {
        &self.common.parameters
    }

    /// A size that must be there.
    fn size(&self, size: Size) -> Result<u64, Uncounted> {
        match self.parameters().sizes.get(size) {
            Some(number) => Ok(number),
            None => not_modelled(format!("config.json has no `{}`", size.wire())),
        }
    }

    fn size_or(&self, size: Size, absent: u64) -> u64 {
        self.parameters().sizes.get(size).unwrap_or(absent)
    }

    fn hidden(&self) -> Result<u64, Uncounted> {
        self.size(Size::HiddenSize)
    }

    /// Query heads of the rank.
    fn heads(&self) -> u64 {
        self.common.num_attention_heads / self.ranks
    }

    /// KV heads of the rank: at least one.
    fn kv_heads(&self, whole: u64) -> u64 {
        (whole / self.ranks).max(1)
    }

    /// Routed experts, of which `held` counts all: the first rank has its part of
    /// them, and a map of all where they are spread.
    /// `vllm/model_executor/layers/fused_moe/expert_map_manager.py` `determine_expert_map`
    fn routed(&self, times: u64, sheet: &mut Sheet, quant: Quant, experts: Experts) {
        let held = experts.held.div_ceil(self.spread);
        if self.spread > 1 {
            sheet.of(Part::Experts, product(&[times, experts.held]), 4);
        }
        // FlashInfer's kernels want what every expert's inputs are scaled by; Humming's
        // and Marlin's, on SM90 and for weights alone, do not:
        // vllm/model_executor/layers/quantization/modelopt.py `ModelOptNvFp4FusedMoE.create_weights`
        if quant == Quant::Nvfp4 && self.arch != Arch::Sm90 {
            let others = experts.held - held;
            sheet.float(Part::Experts, product(&[times, others, experts.shards + 1]));
        }
        let experts = Experts { held, ..experts };
        if matches!(quant, Quant::Packed4(_)) && self.profile.weights.packed_keep_order {
            sheet.of(Part::Experts, experts.orders(times), 4);
        }
        sheet.experts(times, quant, experts);
    }

    /// Routed experts of gate, up and down, each as wide as config.json says.
    fn gated_experts(
        &self,
        times: u64,
        sheet: &mut Sheet,
        held: u64,
        hidden: u64,
        width: Size,
    ) -> Result<(), Uncounted> {
        let quant = self.quant(Module::Experts)?;
        let experts = Experts {
            held,
            shards: 2,
            hidden,
            width: self.expert_slice(self.size(width)?, quant)?,
            bias: false,
        };
        self.routed(times, sheet, quant, experts);
        Ok(())
    }

    /// Ranks that share an MLP beside experts.
    fn shared_ranks(&self) -> u64 {
        if self.whole_shared { 1 } else { self.ranks }
    }

    /// How a kind of module is quantised.
    fn quant(&self, module: Module) -> Result<Quant, Uncounted> {
        if self.plain {
            return Ok(Quant::Plain);
        }
        let kept = match &self.parameters().scheme {
            Scheme::Other(name) => return not_modelled(format!("quantisation: {name}")),
            Scheme::Known { kept, .. } => kept[module as usize],
        };
        // what no checkpoint in the vectors has
        let odd = match module {
            Module::Experts => kept == Kept::Fp8Tensor,
            Module::Attention | Module::Linear => {
                !matches!(kept, Kept::Plain | Kept::Fp8Block(_) | Kept::Fp8Tensor)
            }
            Module::Dense | Module::Shared | Module::Head => {
                matches!(kept, Kept::Mxfp4 | Kept::Packed4(_))
            }
        };
        if odd {
            return not_modelled("this kind of quantised layer");
        }
        Ok(match kept {
            Kept::Plain => Quant::Plain,
            Kept::Fp8Block(block) => Quant::Fp8Block(block, 4),
            Kept::Fp8Tensor => Quant::Fp8Tensor,
            Kept::Mxfp4 => Quant::Mxfp4,
            Kept::Nvfp4 => Quant::Nvfp4,
            Kept::Nvfp4Weights => Quant::Nvfp4Weights,
            Kept::Packed4(group) => Quant::Packed4(group),
        })
    }

    /// Scales of K, V, Q and probabilities that every attention layer has, and the
    /// same once more to load into, where the checkpoint's scheme knows of them.
    /// `vllm/model_executor/layers/attention/attention.py` `set_default_quant_scales`,
    /// `vllm/model_executor/layers/quantization/kv_cache.py` `create_weights`
    fn scales(&self, sheet: &mut Sheet, layers: u64, latent: bool) {
        sheet.float(Part::Rest, product(&[4, layers]));
        let loaded = match &self.parameters().scheme {
            Scheme::Other(_) => false,
            Scheme::Known { scales, .. } => match scales {
                LoadedScales::None => false,
                LoadedScales::NotLatent => !latent,
                LoadedScales::All => true,
            },
        };
        if loaded {
            sheet.own(Part::Rest, product(&[4, layers]));
        }
    }

    /// Whether all linear layers but the head are quantised alike.
    fn is_uniform(&self) -> bool {
        match &self.parameters().scheme {
            Scheme::Other(_) => false,
            Scheme::Known { kept, .. } => kept[..Module::Head as usize]
                .iter()
                .all(|one| *one == kept[0]),
        }
    }

    /// What mxfp4 experts' width and hidden size are padded to, for Humming's kernels,
    /// FlashInfer's or Marlin's.
    /// `vllm/model_executor/layers/fused_moe/oracle/mxfp4.py`
    /// `mxfp4_round_up_hidden_size_and_intermediate_size`
    fn mxfp4_tile(&self) -> (u64, u64) {
        let rules = &self.profile.weights;
        match self.arch {
            Arch::Sm90 if rules.prefers_humming => (64, 1),
            Arch::Sm90 | Arch::Sm120 => (128, 256),
            Arch::Sm100 => (rules.mxfp4_sm100_width, 256),
        }
    }

    /// A rank's slice of an expert; some releases pad what is unquantised as they build
    /// it, others once it is loaded.
    /// `vllm/model_executor/layers/fused_moe/oracle/unquantized.py`
    /// `unquantized_round_up_hidden_size_and_intermediate_size`
    fn expert_slice(&self, width: u64, quant: Quant) -> Result<u64, Uncounted> {
        let slice = width / self.slices;
        let pads =
            quant == Quant::Plain && self.pads_plain() && self.profile.weights.pads_plain_experts;
        Ok(if pads { round_up(slice, 128)? } else { slice })
    }

    /// The embedding, and the head where it is not the same.
    fn embedding(&self, sheet: &mut Sheet, head: Head) -> Result<(), Uncounted> {
        let rows = round_up(self.size(Size::VocabSize)?, VOCAB_PADDING)? / self.ranks;
        let hidden = self.hidden()?;
        sheet.own(Part::Embedding, product(&[rows, hidden]));
        let tied = self.parameters().tied;
        let has_own = match head {
            Head::Own => true,
            Head::TiedIfSaid => tied != Some(true),
            Head::TiedUnlessSaid => tied == Some(false),
        };
        if has_own {
            sheet.matrix(
                Part::Embedding,
                1,
                self.quant(Module::Head)?,
                hidden,
                &[rows],
            );
        }
        Ok(())
    }
}

/// DeepSeek V4's weights.
pub(crate) fn of_deepseek_v4(
    rank: &Rank,
    model: &DeepseekV4,
    attention: &deepseek_v4::Built,
) -> Result<Sheet, Uncounted> {
    told(rank)?;
    deepseek_v4::weights(rank, model, attention)
}

/// Which attention DeepSeek V4's layers got.
pub(crate) fn v4_attention(
    implementation: Implementation,
    padded_heads: u64,
    plain_fp8: bool,
) -> deepseek_v4::Built {
    deepseek_v4::Built {
        padded_heads,
        scale_buffers: match implementation {
            Implementation::FlashInfer | Implementation::FlashInferSm120 => plain_fp8,
            Implementation::FlashMla => false,
        },
    }
}

/// Any other decoder's weights.
pub(crate) fn of_decoder(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    told(rank)?;
    if !rank.profile.weights.families {
        return not_modelled("weights of this family on this release");
    }
    match rank.parameters().model_type.as_str() {
        "llama" | "mistral" | "qwen3" | "qwen3_moe" | "mixtral" | "minimax_m2" | "qwen3_vl"
        | "qwen3_vl_moe" | "nemotron-nas" => dense::weights(rank, decoder),
        "deepseek_v3" | "kimi_k2" | "kimi_k25" | "deepseek_v32" | "glm_moe_dsa" => {
            mla::weights(rank, decoder)
        }
        "gpt_oss" => windows::gpt_oss(rank, decoder),
        "mimo_v2_flash" => windows::mimo_v2(rank, decoder),
        "gemma4" => windows::gemma4(rank, decoder),
        "llama4" => windows::llama4(rank, decoder),
        "qwen3_5" | "qwen3_5_moe" | "kimi_k3" if !rank.profile.weights.linear_attention => {
            not_modelled("weights of linear attention on this release")
        }
        "qwen3_5" | "qwen3_5_moe" => hybrid::qwen3_5(rank, decoder),
        "kimi_k3" => kimi_k3::weights(rank, decoder),
        "nemotron_h" => hybrid::nemotron_h(rank, decoder),
        other => not_modelled(format!("weights of {other}")),
    }
}

/// What is not looked into, whatever the model.
fn told(rank: &Rank) -> Result<(), Uncounted> {
    if rank.stages > 1 {
        return not_modelled("weights of a pipeline's stages");
    }
    if rank.scheme_is_beside {
        return not_modelled(
            "how the weights are quantised is said in hf_quant_config.json, which is not read",
        );
    }
    Ok(())
}
