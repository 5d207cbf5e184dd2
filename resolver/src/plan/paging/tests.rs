//! Pages of several sizes, against `unify_kv_cache_spec_page_size` and `_promote_local_kv_cache_specs`. A vector has few of
//! these: it takes a drafter's windows beside MLA.

use super::*;
use crate::Release;
use crate::dtype::TorchDtype;
use crate::spec::LayerRole;

/// A row of so many elements of K and V, 16 tokens a block: 64 B of page for each element.
fn of(kind: SpecKind, elements: u64) -> LayerSpec {
    LayerSpec {
        head_size: elements,
        head_size_v: if kind == SpecKind::MlaAttention {
            0
        } else {
            elements
        },
        sliding_window: kind.is_window().then_some(128),
        ..LayerSpec::plain(LayerRole::Attention, kind, 16, TorchDtype::Bfloat16)
    }
}

fn grouped(release: Release, specs: &[LayerSpec]) -> Result<(Layers, Vec<Group>), String> {
    let mut layers = Layers::of(specs);
    let groups = by_page(&mut layers, release.profile(), &mut Trace::silent());
    groups
        .map(|groups| (layers, groups))
        .map_err(|refusal| refusal.to_string())
}

const RIGID: &str = "page size is not divisible by the maximum page size and cannot be padded. \
                     Padding is only supported for";

use SpecKind::{
    ChunkedLocalAttention, FullAttention, Mamba, MlaAttention, SlidingWindow, SlidingWindowMla,
};

#[test]
fn windows_beside_mla_are_allocated_as_full_attention() {
    // 18,432 B do not divide 65,536
    let (mla, window) = (of(MlaAttention, 576), of(SlidingWindow, 1024));
    for release in [Release::V0_28_0, Release::V0_29_0, Release::LATEST] {
        let (layers, groups) = grouped(release, &[mla, window, mla, window]).unwrap();
        assert_eq!(groups, [Group::uniform_type(layers.list.clone())]);
        assert_eq!(
            layers.specs,
            [
                mla,
                LayerSpec {
                    kind: FullAttention,
                    ..window
                }
            ]
        );
    }
    // blocks that differ are no one type, but a window takes those of full attention
    let short = LayerSpec {
        block_size: 64,
        head_size: 257,
        ..window
    };
    let (layers, _) = grouped(Release::LATEST, &[mla, short]).unwrap();
    assert_eq!(layers.specs[1].block_size, 16);
}

/// `_try_get_full_allocation_fallback_groups` says so, once.
#[test]
fn what_is_allocated_as_what_it_is_not_is_said() {
    let said = |specs: &[LayerSpec]| {
        let mut trace = Trace::default();
        let groups = by_page(
            &mut Layers::of(specs),
            Release::LATEST.profile(),
            &mut trace,
        );
        groups.unwrap();
        let (_, lines) = trace.into_parts();
        lines.into_iter().map(|line| line.text).collect::<Vec<_>>()
    };
    assert_eq!(
        said(&[of(MlaAttention, 576), of(SlidingWindow, 1024)]),
        [
            "KV cache page sizes cannot be unified; treating sliding-window layers as full \
             attention for cache allocation. Sliding-window attention compute is unchanged."
        ]
    );
    assert_eq!(
        said(&[of(FullAttention, 576), of(SlidingWindow, 1024)]),
        [""; 0]
    );
}

#[test]
fn what_is_no_plain_window_beside_mla_is_refused() {
    let (mla, window) = (of(MlaAttention, 576), of(SlidingWindow, 1024));
    let refusal = |specs: &[LayerSpec]| grouped(Release::LATEST, specs).unwrap_err();
    let text =
        |layer| format!("Layer model.layers.{layer}.attn: {RIGID} non-MLA attention layers.");
    let chunk = LayerSpec {
        attention_chunk_size: Some(8192),
        ..of(ChunkedLocalAttention, 1024)
    };
    assert_eq!(refusal(&[mla, window, chunk]), text(0));
    assert_eq!(refusal(&[mla, window, of(SlidingWindowMla, 1024)]), text(0));
    assert_eq!(refusal(&[of(Mamba, 1024), mla]), text(1));
    // states stay what they are
    assert_eq!(refusal(&[mla, of(Mamba, 1024), window]), text(0));
    // the layer that fails is named, not the one with the largest page
    let largest = of(MlaAttention, 2048);
    assert_eq!(refusal(&[largest, window, mla, chunk]), text(2));
}

/// 0.28 pads what is read by the stride between blocks, whatever it is.
#[test]
fn in_0_28_the_backend_decides() {
    let (full, window) = (of(FullAttention, 576), of(SlidingWindow, 1024));
    let by_stride = "attention layers whose backend indexes KV pages by the block stride \
                     (indexes_kv_by_block_stride is True).";
    assert_eq!(
        grouped(Release::V0_28_0, &[window, full]).unwrap_err(),
        format!("Layer model.layers.1.attn: {RIGID} {by_stride}")
    );
    let strided = LayerSpec {
        indexes_by_block_stride: true,
        ..full
    };
    let (layers, groups) = grouped(Release::V0_28_0, &[window, strided]).unwrap();
    assert_eq!(layers.specs[1].page_size_bytes(), Ok(65_536));
    assert_eq!(groups.len(), 2);
    // later releases pad all but MLA
    let (layers, _) = grouped(Release::V0_29_0, &[window, full]).unwrap();
    assert_eq!(layers.specs[1].page_size_bytes(), Ok(65_536));
}

#[test]
fn pages_are_brought_to_one_size() {
    // a page that divides the largest gets a larger block, states are padded
    let specs = [
        of(FullAttention, 1024),
        of(SlidingWindow, 256),
        of(Mamba, 100),
    ];
    let (layers, groups) = grouped(Release::LATEST, &specs).unwrap();
    let pages: Vec<_> = layers
        .specs
        .iter()
        .map(LayerSpec::page_size_bytes)
        .collect();
    assert_eq!(pages, [Ok(65_536), Ok(65_536), Ok(65_536)]);
    assert_eq!(layers.specs[1].block_size, 64);
    assert_eq!(layers.specs[2].block_size, 16);
    assert_eq!(groups.len(), 3);
    // what is padded already does not grow with its block
    let padded = LayerSpec {
        page_size_padded: Some(16_384),
        ..of(SlidingWindow, 200)
    };
    assert_eq!(
        grouped(Release::LATEST, &[of(FullAttention, 1024), padded]).unwrap_err(),
        ""
    );
    let nothing = of(SlidingWindow, 0);
    let error = unified(
        &Layers::of(&[of(FullAttention, 1024), nothing]),
        Release::LATEST.profile(),
    );
    assert_eq!(error, Err(Box::new(Refusal::ZeroDivision)));
}

/// `promoted_page_size_padded`: no less than the page was, nor than the new block needs.
#[test]
fn a_promoted_window_keeps_its_padding() {
    let padded = |block_size, padded| LayerSpec {
        block_size,
        page_size_padded: Some(padded),
        ..of(SlidingWindow, 64)
    };
    let promoted = |spec| {
        let mut layers = Layers::of(&[of(FullAttention, 64), spec]);
        promote(&mut layers).unwrap();
        (
            layers.specs[1].kind,
            layers.specs[1].block_size,
            layers.specs[1].page_size_padded,
        )
    };
    // 8 tokens of 256 B in 3,000 B; 16 of them need 4,096
    assert_eq!(promoted(padded(8, 3_000)), (FullAttention, 16, Some(4_096)));
    assert_eq!(
        promoted(padded(32, 9_000)),
        (FullAttention, 16, Some(9_000))
    );
    assert_eq!(promoted(of(SlidingWindow, 64)), (FullAttention, 16, None));
    let packed = of(SlidingWindowMla, 64);
    assert_eq!(promoted(packed).0, MlaAttention);
    // without full attention there is none to be like
    let mut windows = Layers::of(&[of(SlidingWindow, 64), of(Mamba, 64)]);
    let before = windows.clone();
    promote(&mut windows).unwrap();
    assert_eq!(windows, before);
}
