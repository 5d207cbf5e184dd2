//! Kernels for schemes and shapes that no model of the catalog brings together.

use super::*;
use crate::Release;

const NANO: Experts = Experts {
    held: 128,
    shards: 1,
    hidden: 2688,
    width: 1856,
    bias: false,
};

fn kernels(arch: Arch, release: Release) -> Kernels {
    Kernels {
        rules: release.profile().weights,
        ..Kernels::of_test(arch)
    }
}

/// Nemotron 3 Nano's 23 layers of experts in nvfp4, which have no gate.
#[test]
fn nvfp4_experts_are_padded_for_each_kernel() {
    for (arch, release, quant, want) in [
        (Arch::Sm90, Release::V0_31_0, Quant::Nvfp4, 0),
        (Arch::Sm90, Release::V0_33_0, Quant::Nvfp4, 1_546_518_528),
        (Arch::Sm100, Release::V0_33_0, Quant::Nvfp4, 1_383_727_104),
        (Arch::Sm120, Release::V0_33_0, Quant::Nvfp4, 569_769_984),
        // Marlin's tile of 64 columns divides 1856
        (Arch::Sm100, Release::V0_33_0, Quant::Nvfp4Weights, 0),
    ] {
        let got = kernels(arch, release).experts(23, quant, &NANO);
        assert_eq!(got, Interval::change(0, want), "{arch} {release}");
    }
    let narrow = Experts {
        hidden: 2720,
        width: 1856 - 64,
        ..NANO
    };
    // 2720 is no multiple of 128: columns up to 1792 are, and stay
    let marlin = kernels(Arch::Sm100, Release::V0_33_0);
    assert!(marlin.experts(1, Quant::Nvfp4Weights, &narrow) == Interval::default());
    let odd = Experts {
        width: 1856,
        ..narrow
    };
    let got = marlin.experts(1, Quant::Nvfp4Weights, &odd);
    assert_eq!(got, Interval::exact(128 * 2 * 2720 * 64 * 9 / 16));
}

/// A layer of 2,880 inputs and outputs, which is a multiple of 32 and of 64 alone.
#[test]
fn nvfp4_layers_are_padded_for_each_kernel() {
    let layer = Linear {
        inputs: 2880,
        outputs: &[2880],
        bias: false,
    };
    let built = 2880 * 2880 * 9 / 16;
    let swizzled = 2944 * 180;
    for (arch, release, quant, after) in [
        (
            Arch::Sm100,
            Release::V0_33_0,
            Quant::Nvfp4,
            2880 * 1440 + swizzled,
        ),
        (
            Arch::Sm120,
            Release::V0_28_0,
            Quant::Nvfp4,
            2880 * 1440 + swizzled,
        ),
        (
            Arch::Sm100,
            Release::V0_30_0,
            Quant::Nvfp4Weights,
            2880 * 1440 + swizzled,
        ),
        // either tile of Marlin's
        (
            Arch::Sm100,
            Release::V0_29_0,
            Quant::Nvfp4Weights,
            2880 * 2944 * 9 / 16,
        ),
        (
            Arch::Sm90,
            Release::V0_31_0,
            Quant::Nvfp4,
            2880 * 2944 * 9 / 16,
        ),
        (
            Arch::Sm90,
            Release::V0_32_0,
            Quant::Nvfp4,
            3072 * 2944 * 9 / 16,
        ),
    ] {
        let got = kernels(arch, release).linear(1, quant, layer, 2880);
        assert_eq!(got, Interval::change(built, after), "{arch} {release}");
    }
    // merged, its matrices may have scales of their own under Humming
    let merged = Linear {
        outputs: &[1440, 1440],
        ..layer
    };
    let got = Kernels::of_test(Arch::Sm90).linear(1, Quant::Nvfp4, merged, 2880);
    assert_eq!(got.high - got.likely, 2 * 3072);
}

/// DeepSeek V4 Flash's 43 layers, and the same in slices that Humming's tiles do not divide.
#[test]
fn mxfp4_experts_are_padded_for_humming() {
    for (width, release, want) in [
        (256, Release::V0_33_0, 0),
        (320, Release::V0_33_0, 4_599_054_336),
        (320, Release::V0_31_0, 0),
    ] {
        let experts = Experts {
            held: 256,
            shards: 2,
            hidden: 4096,
            width,
            bias: false,
        };
        let got = kernels(Arch::Sm90, release).experts(43, Quant::Mxfp4, &experts);
        assert_eq!(got, Interval::exact(want), "{width} {release}");
    }
}

#[test]
fn hostile_sizes_do_not_wrap() {
    let most = Experts {
        held: u64::MAX,
        shards: 2,
        hidden: u64::MAX,
        width: u64::MAX,
        bias: true,
    };
    for arch in Arch::ALL {
        let kernels = kernels(arch, Release::V0_29_0);
        for quant in [
            Quant::Plain,
            Quant::Fp8Block(BLOCK, 4),
            Quant::Mxfp4,
            Quant::Nvfp4,
            Quant::Packed4(0),
            Quant::Packed4(u64::MAX),
        ] {
            kernels.experts(u64::MAX, quant, &most);
        }
    }
}
