//! What kernels add to the weights once these are loaded, or take away: vLLM's
//! `process_weights_after_loading`. Old tensors are freed as new ones take their
//! place, so that only the difference stays. Scales of whole matrices, a few numbers
//! to each, are left out; so is what the allocator rounds up.

#[cfg(test)]
mod tests;

use super::Rank;
use super::linear::{Experts, Linear, Quant};
use super::sheet::{Sheet, product};
use crate::gpu::Arch;
use crate::memory::Interval;
use crate::model::weights::Fp8Block;
use crate::release::WeightRules;
use crate::units::gcd;

/// The only block that `DeepGEMM` takes.
const BLOCK: Fp8Block = Fp8Block { n: 128, k: 128 };

/// Sixteenths of a byte to an element of nvfp4 with its scale, and 32nds to one of mxfp4.
const NVFP4: (u64, u64) = (9, 16);
const MXFP4: (u64, u64) = (17, 32);

/// What the choice of kernels follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernels {
    pub arch: Arch,
    pub rules: WeightRules,
    /// The model's dtype is bfloat16, the only one that `DeepGEMM` gives.
    pub bfloat16: bool,
    /// FlashInfer's kernel takes unquantised experts, and wants them padded.
    pub pads_plain: bool,
    /// `DeepGEMM` is off for this family on Blackwell.
    /// `vllm/utils/deep_gemm.py` `should_auto_disable_deep_gemm`
    pub avoids_deep_gemm: bool,
    /// What experts' gates let through is clamped.
    pub clamps: bool,
}

impl Rank<'_> {
    /// A sheet that knows which kernels will run what is put on it.
    pub(super) fn sheet(&self) -> Sheet {
        let is = |model_type| self.parameters().model_type == model_type;
        let kernels = Kernels {
            arch: self.arch,
            rules: self.profile.weights,
            bfloat16: self.bfloat16,
            pads_plain: self.pads_plain(),
            avoids_deep_gemm: is("qwen3_5") || is("qwen3_5_moe"),
            clamps: is("deepseek_v4"),
        };
        Sheet::new(self.element, kernels)
    }

    /// Unquantised experts on SM100 are padded for FlashInfer's kernel, if it takes
    /// their activation (not Gemma 4's).
    pub(super) fn pads_plain(&self) -> bool {
        let is_gemma = self.parameters().model_type == "gemma4";
        self.arch == Arch::Sm100 && self.element == 2 && !is_gemma
    }
}

/// `number` up to a multiple of `to`; the largest number stands for what passes it.
fn up(number: u64, to: u64) -> u64 {
    number.div_ceil(to).saturating_mul(to)
}

/// Bytes of so many elements, each of which takes such a fraction of one.
fn bytes(factors: &[u64], (of, parts): (u64, u64)) -> u64 {
    // divided first, for the product of what fits may not
    let elements = product(factors);
    let whole = (elements / parts).saturating_mul(of);
    whole.saturating_add(elements % parts * of / parts)
}

/// Scales as `DeepGEMM` packs them: for every row, exponents of four blocks to 32 bits.
/// Its own `transform_sf_into_required_layout`, which vLLM calls.
fn packed(rows: u64, inputs: u64) -> u64 {
    let words = inputs.div_ceil(BLOCK.k).div_ceil(4);
    product(&[4, up(rows, 4), words])
}

/// Blocks of a matrix.
fn blocks(rows: u64, inputs: u64) -> u64 {
    product(&[rows.div_ceil(BLOCK.n), inputs.div_ceil(BLOCK.k)])
}

/// Scales of nvfp4 as CUTLASS reads them: in tiles of 128 rows and four columns.
/// `vllm/model_executor/layers/quantization/utils/nvfp4_utils.py` `swizzle_blockscale`
fn swizzled(rows: u64, inputs: u64) -> u64 {
    product(&[up(rows, 128), up(inputs / 16, 4)])
}

/// A matrix as Humming's kernels take it.
/// `humming/transform.py` `check_and_pad_tensors`, with the tiles of
/// `vllm/model_executor/layers/quantization/utils/humming/`
fn humming(rows: u64, inputs: u64) -> u64 {
    product(&[up(rows, 256), up(inputs, 128)])
}

/// A matrix as Marlin's kernels take it: the smaller of two tiles.
/// `vllm/model_executor/layers/quantization/utils/marlin_utils.py` `marlin_padded_nk`
fn marlin(rows: u64, inputs: u64) -> u64 {
    let tile = |n, k| product(&[up(rows, n), up(inputs, k)]);
    tile(64, 128).min(tile(128, 64))
}

impl Experts {
    /// Elements of the order of their inputs, of which they keep two.
    pub(super) fn orders(&self, times: u64) -> u64 {
        let inputs = self.hidden.saturating_add(self.width);
        product(&[times, self.held, 2, inputs])
    }

    /// Rows of the first matrix.
    fn rows(&self) -> u64 {
        self.shards.saturating_mul(self.width)
    }

    /// Elements of an expert of such a hidden size and width.
    fn elements(&self, hidden: u64, width: u64) -> u64 {
        product(&[self.shards + 1, hidden, width])
    }

    /// The sum over both matrices, of their rows and inputs.
    fn both(&self, width: u64, of: fn(u64, u64) -> u64) -> u64 {
        let first = of(self.shards.saturating_mul(width), self.hidden);
        first.saturating_add(of(self.hidden, width))
    }
}

impl Kernels {
    #[cfg(test)]
    pub(super) fn of_test(arch: Arch) -> Self {
        Self {
            arch,
            rules: crate::Release::V0_33_0.profile().weights,
            bfloat16: true,
            pads_plain: false,
            avoids_deep_gemm: false,
            clamps: false,
        }
    }

    fn has_humming(&self) -> bool {
        self.arch == Arch::Sm90 && self.rules.prefers_humming
    }

    /// What `DeepGEMM` makes of scales on SM120: the versions that older releases pin
    /// were not looked at.
    fn as_known(&self, change: Interval) -> Interval {
        match self.arch {
            Arch::Sm90 | Arch::Sm100 => change,
            Arch::Sm120 if self.rules.packs_scales_on_sm120 => change,
            Arch::Sm120 if self.rules.deep_gemm_on_sm120 => change.or_nothing(),
            Arch::Sm120 => Interval::default(),
        }
    }

    /// `times` linear layers alike.
    pub(super) fn linear(&self, times: u64, quant: Quant, layer: Linear, rows: u64) -> Interval {
        let inputs = layer.inputs;
        match quant {
            // the last two are experts' alone
            Quant::Plain | Quant::Fp8Tensor | Quant::Mxfp4 | Quant::Packed4(_) => {
                Interval::default()
            }
            Quant::Fp8Block(block, scale) => {
                // `should_use_deepgemm_for_fp8_linear`; else CUTLASS and Triton, which
                // take scales as they are
                let fits = block == BLOCK && rows.is_multiple_of(64) && inputs.is_multiple_of(128);
                if fits && self.bfloat16 {
                    self.fp8_linear(times, scale, rows, inputs)
                } else {
                    Interval::default()
                }
            }
            Quant::Nvfp4 | Quant::Nvfp4Weights => {
                let more = self.nvfp4_linear(quant == Quant::Nvfp4Weights, rows, inputs);
                let built = bytes(&[times, rows, inputs], NVFP4);
                let change = Interval::change(built, times.saturating_mul(more));
                // merged matrices whose scales differ get one to each row
                let merged = self.has_humming() && layer.outputs.len() > 1;
                let scales = product(&[times, 2, up(rows, 256)]);
                change.and_perhaps(if merged { scales } else { 0 })
            }
        }
    }

    /// `vllm/model_executor/kernels/linear/scaled_mm/deep_gemm.py`,
    /// `vllm/model_executor/layers/quantization/utils/fp8_utils.py`
    /// `deepgemm_post_process_fp8_weight_block`
    fn fp8_linear(&self, times: u64, scale: u64, rows: u64, inputs: u64) -> Interval {
        let count = product(&[times, blocks(rows, inputs)]);
        let built = count.saturating_mul(scale);
        match self.arch {
            // exponents alone become float32
            Arch::Sm90 => Interval::change(built, count.saturating_mul(4)),
            Arch::Sm100 | Arch::Sm120 if self.avoids_deep_gemm => Interval::default(),
            Arch::Sm100 | Arch::Sm120 => {
                let after = product(&[times, packed(rows, inputs)]);
                self.as_known(Interval::change(built, after))
            }
        }
    }

    /// Bytes of one layer as its kernel takes it.
    /// `vllm/model_executor/kernels/linear/__init__.py` `init_nvfp4_linear_kernel`
    fn nvfp4_linear(&self, weights_alone: bool, rows: u64, inputs: u64) -> u64 {
        // `pad_nvfp4_weight_for_cutlass`
        let cutlass = |tile| {
            let values = bytes(&[up(rows, tile), up(inputs, tile)], (1, 2));
            values.saturating_add(swizzled(rows, inputs))
        };
        match (self.arch, weights_alone) {
            (Arch::Sm90, _) if self.has_humming() => bytes(&[humming(rows, inputs)], NVFP4),
            (Arch::Sm100 | Arch::Sm120, false) => cutlass(32),
            (Arch::Sm100, true) if self.rules.cute_dsl_of_weights => cutlass(64),
            (Arch::Sm90 | Arch::Sm100 | Arch::Sm120, _) => bytes(&[marlin(rows, inputs)], NVFP4),
        }
    }

    /// Routed experts of `times` layers alike.
    pub(super) fn experts(&self, times: u64, quant: Quant, experts: &Experts) -> Interval {
        let all = times.saturating_mul(experts.held);
        let per = |part| move |elements: u64| bytes(&[all, elements], part);
        let built = experts.elements(experts.hidden, experts.width);
        match quant {
            // `vllm/model_executor/layers/fused_moe/oracle/unquantized.py`
            // `convert_to_unquantized_kernel_format`
            Quant::Plain if self.pads_plain && !self.rules.pads_plain_experts => {
                let after = experts.elements(experts.hidden, up(experts.width, 128));
                let of = per((2, 1));
                Interval::change(of(built), of(after))
            }
            Quant::Fp8Block(block, scale) if self.packs_experts(block, experts) => {
                let of = per((1, 1));
                let before = experts.both(experts.width, blocks).saturating_mul(scale);
                let after = experts.both(experts.width, packed);
                self.as_known(Interval::change(of(before), of(after)))
            }
            Quant::Plain | Quant::Fp8Tensor | Quant::Fp8Block(..) => Interval::default(),
            Quant::Mxfp4 => self.mxfp4_experts(all, experts),
            Quant::Nvfp4 | Quant::Nvfp4Weights => {
                let weights_alone = quant == Quant::Nvfp4Weights;
                let after = self.nvfp4_experts(weights_alone, experts);
                let change = Interval::change(per(NVFP4)(built), all.saturating_mul(after));
                // a gate whose scale is not its neighbour's
                let gated = self.has_humming() && experts.shards > 1;
                let scales = product(&[all, 2, up(experts.rows(), 256)]);
                change.and_perhaps(if gated { scales } else { 0 })
            }
            Quant::Packed4(group) => self.packed4_experts(times, group, experts),
        }
    }

    /// Whether fp8 experts run on `DeepGEMM`: FlashInfer's and Triton's kernels take
    /// scales as they are, and come first but on SM120.
    /// `vllm/model_executor/layers/fused_moe/oracle/fp8.py` `_get_priority_backends`
    fn packs_experts(&self, block: Fp8Block, experts: &Experts) -> bool {
        let fits = block == BLOCK && experts.shards > 1 && experts.width.is_multiple_of(BLOCK.k);
        let first = match self.arch {
            Arch::Sm90 => false,
            Arch::Sm100 => self.clamps && !self.rules.flashinfer_clamps_fp8,
            Arch::Sm120 => true,
        };
        fits && first && self.bfloat16 && !self.avoids_deep_gemm
    }

    /// `vllm/model_executor/layers/fused_moe/oracle/mxfp4.py`
    fn mxfp4_experts(&self, all: u64, experts: &Experts) -> Interval {
        // biases are gpt-oss's alone, whose kernels want them in float32
        let outputs = experts.rows().saturating_add(experts.hidden);
        let biases = match self.arch {
            Arch::Sm90 | Arch::Sm100 if experts.bias => product(&[all, 2, outputs]),
            Arch::Sm90 | Arch::Sm100 | Arch::Sm120 => 0,
        };
        let (before, after) = match self.arch {
            // Triton's: `quantization/utils/mxfp4_utils.py` `_swizzle_mxfp4`
            Arch::Sm90 if experts.bias => (
                experts.both(experts.width, |rows, inputs| product(&[rows, inputs / 32])),
                experts.both(experts.width, |rows, inputs| {
                    product(&[up(rows, 256), up(inputs / 32, 4)])
                }),
            ),
            Arch::Sm90 if self.rules.prefers_humming => (
                bytes(&[experts.elements(experts.hidden, experts.width)], MXFP4),
                bytes(&[experts.both(experts.width, humming)], MXFP4),
            ),
            // FlashInfer's, Marlin's and DeepGEMM's, for which they are built
            Arch::Sm90 | Arch::Sm100 | Arch::Sm120 => (0, 0),
        };
        let scale = |one| product(&[all, one]);
        Interval::change(scale(before), scale(after)).plus(Interval::exact(biases))
    }

    /// Bytes of one expert as its kernel takes it.
    /// `vllm/model_executor/layers/fused_moe/oracle/nvfp4.py`
    fn nvfp4_experts(&self, weights_alone: bool, experts: &Experts) -> u64 {
        let (hidden, width, gated) = (experts.hidden, experts.width, experts.shards > 1);
        match (self.arch, weights_alone) {
            (Arch::Sm90, _) if self.has_humming() => bytes(&[experts.both(width, humming)], NVFP4),
            // `quantization/utils/flashinfer_fp4_moe.py`, of TRT-LLM's kernels …
            (Arch::Sm100, false) => {
                let width = up(width, if gated { 64 } else { 128 });
                bytes(&[experts.elements(up(hidden, 256), width)], NVFP4)
            }
            // … and of CUTLASS'
            (Arch::Sm120, false) => {
                let width = if gated { width } else { up(width, 128) };
                let values = bytes(&[experts.elements(hidden, width)], (1, 2));
                values.saturating_add(experts.both(width, swizzled))
            }
            // `quantization/utils/marlin_utils_fp4.py` `prepare_nvfp4_moe_layer_for_marlin`
            (Arch::Sm90 | Arch::Sm100 | Arch::Sm120, _) => {
                let tile = if hidden.is_multiple_of(128) { 64 } else { 128 };
                bytes(&[experts.elements(hidden, up(width, tile))], NVFP4)
            }
        }
    }

    /// `vllm/model_executor/layers/fused_moe/oracle/int_wna16.py`
    fn packed4_experts(&self, times: u64, group: u64, experts: &Experts) -> Interval {
        // FlashInfer's kernel takes them as they are built
        if self.arch == Arch::Sm100 && group == 32 {
            return Interval::default();
        }
        let all = times.saturating_mul(experts.held);
        let of = |elements: u64| {
            let scales = product(&[all, elements, 2]).checked_div(group).unwrap_or(0);
            bytes(&[all, elements], (1, 2)).saturating_add(scales)
        };
        let built = of(experts.elements(experts.hidden, experts.width));
        if self.has_humming() {
            // the matrices' shapes are dropped
            let shapes = product(&[all, 4, 2]);
            let after = of(experts.both(experts.width, humming));
            return Interval::change(built.saturating_add(shapes), after);
        }
        // Marlin's: `_process_weights_marlin`, which drops an order that is none
        let tile = product(&[64 / gcd(64, group).max(1), group.max(1)]);
        let after = of(experts.elements(experts.hidden, up(experts.width, tile)));
        let orders = if self.rules.packed_keep_order {
            experts.orders(times).saturating_mul(4)
        } else {
            0
        };
        Interval::change(built.saturating_add(orders), after)
    }
}
