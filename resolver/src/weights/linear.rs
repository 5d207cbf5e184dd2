//! What one linear layer, or a layer's experts, consist of under each scheme.

use super::sheet::{Part, Sheet, product};
use crate::model::weights::Fp8Block;
use crate::units::gcd;

/// How a linear layer is quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quant {
    /// The model's dtype.
    Plain,
    /// fp8, with a scale of so many bytes to each block.
    /// `vllm/model_executor/layers/quantization/fp8.py` `create_weights`
    Fp8Block(Fp8Block, u64),
    /// Halves of a byte, with a byte of scale to 32 of them.
    /// `vllm/model_executor/layers/quantization/mxfp4.py` `create_weights`
    Mxfp4,
    /// The same with a scale of fp8 to 16, a scale to each matrix and one to what
    /// goes in. `vllm/model_executor/layers/quantization/modelopt.py`
    Nvfp4,
    /// The same of weights alone; what goes into a linear layer has its scale in the
    /// model's dtype.
    Nvfp4Weights,
    /// fp8, with a scale to each merged matrix and one to what goes into it.
    Fp8Tensor,
    /// Four bits in words of 32, with a scale of the model's dtype to so many.
    /// `compressed_tensors_moe_wna16.py` `create_weights`
    Packed4(u64),
}

/// A linear layer of merged outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linear<'a> {
    pub inputs: u64,
    pub outputs: &'a [u64],
    pub bias: bool,
}

/// Experts of one layer on one rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Experts {
    /// Experts that the rank holds.
    pub held: u64,
    /// Two where the first matrix has a gate, else one.
    pub shards: u64,
    pub hidden: u64,
    /// Width of the rank's slice of each.
    pub width: u64,
    pub bias: bool,
}

impl Sheet {
    /// `times` layers alike.
    pub(super) fn linear(&mut self, part: Part, times: u64, quant: Quant, layer: Linear) {
        let outputs = layer
            .outputs
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        let elements = product(&[times, outputs, layer.inputs]);
        let matrices = layer.outputs.len() as u64;
        self.repack(self.kernels.linear(times, quant, layer, outputs));
        match quant {
            // the last two are experts' alone, as `Rank::quant` has it
            Quant::Plain | Quant::Mxfp4 | Quant::Packed4(_) => self.own(part, elements),
            Quant::Fp8Block(block, scale) => {
                self.of(part, elements, 1);
                let blocks = [outputs.div_ceil(block.n), layer.inputs.div_ceil(block.k)];
                self.of(part, product(&[times, blocks[0], blocks[1]]), scale);
            }
            Quant::Fp8Tensor => {
                self.of(part, elements, 1);
                self.float(part, product(&[times, 2, matrices]));
            }
            Quant::Nvfp4 | Quant::Nvfp4Weights => {
                self.of(part, elements / 2, 1);
                self.of(part, product(&[times, outputs, layer.inputs / 16]), 1);
                self.float(part, product(&[times, matrices]));
                let input = if quant == Quant::Nvfp4 {
                    4
                } else {
                    self.element
                };
                self.of(part, product(&[times, matrices]), input);
            }
        }
        if layer.bias {
            self.own(part, product(&[times, outputs]));
        }
    }

    /// A linear layer without a bias.
    pub(super) fn matrix(
        &mut self,
        part: Part,
        times: u64,
        quant: Quant,
        inputs: u64,
        outputs: &[u64],
    ) {
        let layer = Linear {
            inputs,
            outputs,
            bias: false,
        };
        self.linear(part, times, quant, layer);
    }

    /// Gate, up and down of an MLP.
    pub(super) fn mlp(&mut self, times: u64, quant: Quant, hidden: u64, width: u64) {
        self.matrix(Part::Mlp, times, quant, hidden, &[width, width]);
        self.matrix(Part::Mlp, times, quant, width, &[hidden]);
    }

    /// Routed experts of `times` layers alike.
    pub(super) fn experts(&mut self, times: u64, quant: Quant, experts: Experts) {
        let Experts {
            held,
            shards,
            hidden,
            width,
            ..
        } = experts;
        let part = Part::Experts;
        self.repack(self.kernels.experts(times, quant, &experts));
        let all = product(&[times, held]);
        let first = product(&[all, shards, width, hidden]);
        let second = product(&[all, hidden, width]);
        let elements = first.saturating_add(second);
        match quant {
            Quant::Plain => self.own(part, elements),
            Quant::Fp8Block(block, scale) => {
                self.of(part, elements, 1);
                let grid = refined(block, width, hidden);
                let first =
                    product(&[all, shards, width.div_ceil(grid.n), hidden.div_ceil(grid.k)]);
                let second = product(&[all, hidden.div_ceil(grid.n), width.div_ceil(grid.k)]);
                self.of(part, first.saturating_add(second), scale);
            }
            Quant::Mxfp4 => {
                let halves = |inputs| inputs / 2 + inputs / 32;
                self.of(part, product(&[all, shards, width, halves(hidden)]), 1);
                self.of(part, product(&[all, hidden, halves(width)]), 1);
            }
            Quant::Fp8Tensor => {
                self.of(part, elements, 1);
                // a scale to each matrix, and one to what goes into each of the two
                self.float(part, product(&[all, shards + 1 + 2]));
            }
            Quant::Nvfp4 | Quant::Nvfp4Weights => {
                let halves = |inputs| inputs / 2 + inputs / 16;
                self.of(part, product(&[all, shards, width, halves(hidden)]), 1);
                self.of(part, product(&[all, hidden, halves(width)]), 1);
                self.float(part, product(&[all, 2, shards + 1]));
            }
            Quant::Packed4(group) => {
                let words = |inputs: u64| inputs / 8;
                self.float(part, product(&[all, shards, width, words(hidden)]));
                self.float(part, product(&[all, hidden, words(width)]));
                self.own(part, product(&[all, shards, width, hidden / group]));
                self.own(part, product(&[all, hidden, width / group]));
                // the two matrices' shapes
                self.own(part, product(&[all, 4]));
            }
        }
        if experts.bias {
            self.of(part, product(&[all, shards, width]), 2);
            self.of(part, product(&[all, hidden]), 2);
        }
    }
}

/// Scales of a slice that is no whole block are spread to finer ones. Mirrors
/// `vllm/model_executor/layers/fused_moe/oracle/fp8.py` `refine_fp8_moe_block_shape`.
fn refined(block: Fp8Block, width: u64, hidden: u64) -> Fp8Block {
    if width.is_multiple_of(block.n) && width.is_multiple_of(block.k) {
        return block;
    }
    let size = gcd(gcd(block.n, block.k), gcd(width, hidden)).max(1);
    Fp8Block { n: size, k: size }
}

#[cfg(test)]
mod tests {
    use super::super::repacked::Kernels;
    use super::*;
    use crate::gpu::Arch;

    const BLOCK: Fp8Block = Fp8Block { n: 128, k: 128 };

    fn bytes(of: impl Fn(&mut Sheet)) -> (u64, u64) {
        let mut sheet = Sheet::new(2, Kernels::of_test(Arch::Sm90));
        of(&mut sheet);
        sheet.total().unwrap()
    }

    #[test]
    fn a_layer_in_blocks_has_scales() {
        // DeepSeek V3's `fused_qkv_a_proj`: [2112, 7168] and [17, 56]
        let got = bytes(|sheet| {
            sheet.matrix(Part::Mlp, 1, Quant::Fp8Block(BLOCK, 4), 7168, &[1536, 576]);
        });
        assert_eq!(got, (2112 * 7168 + 4 * 17 * 56, 2112 * 7168 + 17 * 56));
    }

    #[test]
    fn experts_have_what_the_scheme_makes_of_them() {
        let experts = Experts {
            held: 128,
            shards: 2,
            hidden: 2048,
            width: 192,
            bias: false,
        };
        // a slice of 192 is no whole block, and is refined to blocks of 64
        let (got, _) = bytes(|sheet| sheet.experts(1, Quant::Fp8Block(BLOCK, 4), experts));
        assert_eq!(got, 128 * (3 * 192 * 2048 + 4 * (6 * 32 + 32 * 3)));
        let (got, _) = bytes(|sheet| sheet.experts(1, Quant::Nvfp4, experts));
        assert_eq!(
            got,
            128 * (3 * 192 * 2048 / 2 + 3 * 192 * 2048 / 16 + 4 * 6)
        );
    }
}
