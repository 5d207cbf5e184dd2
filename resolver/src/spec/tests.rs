//! Specs, against what `vllm/v1/kv_cache_interface.py` makes of them.

use super::*;

fn c4(block_size: u64) -> LayerSpec {
    LayerSpec {
        head_size: 512,
        state_content_bytes: Some(584),
        tokens_per_state: 4,
        alignment: Some(576),
        stride: StrideAlignment::KernelBlocks(256),
        ..LayerSpec::plain(
            LayerRole::C4,
            SpecKind::MlaAttention,
            block_size,
            TorchDtype::Uint8,
        )
    }
    .aligned()
    .unwrap()
}

#[test]
fn a_page_is_padded_to_its_alignment() {
    assert_eq!(c4(256).unpadded_page_size_bytes(), Ok(64 * 584));
    assert_eq!(c4(256).page_size_bytes(), Ok(37_440));
}

#[test]
fn only_split_blocks_constrain_the_stride() {
    assert_eq!(c4(256).block_stride_alignment(), Ok(1));
    assert_eq!(c4(128).block_stride_alignment(), Ok(1));
    assert_eq!(c4(512).block_stride_alignment(), Ok(37_440));
}

/// 0.31 keeps the rows of the whole block of all layers, not of each layer's part of it.
#[test]
fn a_whole_block_constrains_no_layers_part() {
    let rows = |stride| LayerSpec {
        stride,
        page_size_padded: Some(37_440),
        ..c4(256)
    };
    let whole = rows(StrideAlignment::WholeBlock(656));
    assert_eq!(whole.padded_page_bytes(), Ok(37_440));
    assert_eq!(whole.whole_block_alignment(), 656);
    assert_eq!(whole.block_stride_alignment(), Ok(656));
    let each = rows(StrideAlignment::Bytes(656));
    assert_eq!(each.padded_page_bytes(), Ok(58 * 656));
    assert_eq!(each.whole_block_alignment(), 1);
    let none = rows(StrideAlignment::WholeBlock(0));
    assert_eq!(none.whole_block_alignment(), 1);
}

fn of(kind: SpecKind) -> LayerSpec {
    LayerSpec {
        head_size: 64,
        head_size_v: 64,
        ..LayerSpec::plain(LayerRole::Attention, kind, 16, TorchDtype::Bfloat16)
    }
}

fn window(kind: SpecKind, tokens: u64) -> LayerSpec {
    LayerSpec {
        sliding_window: Some(tokens),
        ..of(kind)
    }
}

/// `UniformTypeKVCacheSpecs.is_uniform_type`, and each class's `is_uniform_with_collection`.
#[test]
fn types_are_told_apart_by_class_block_and_window() {
    use SpecKind::{
        ChunkedLocalAttention, FullAttention, Mamba, MlaAttention, SlidingWindow, SlidingWindowMla,
    };
    // full attention is one type, whatever its rows are
    assert!(of(FullAttention).same_type(&of(MlaAttention)));
    assert!(of(MlaAttention).same_type(&of(FullAttention)));
    let wide = LayerSpec {
        head_size: 256,
        ..of(FullAttention)
    };
    assert!(of(FullAttention).same_type(&wide));
    assert!(!of(FullAttention).same_type(&window(SlidingWindow, 128)));
    assert!(!window(SlidingWindow, 128).same_type(&window(FullAttention, 128)));
    // windows by their reach; an MLA window is one, too, and not the other way round
    assert!(window(SlidingWindow, 128).same_type(&window(SlidingWindow, 128)));
    assert!(!window(SlidingWindow, 128).same_type(&window(SlidingWindow, 64)));
    assert!(window(SlidingWindow, 128).same_type(&window(SlidingWindowMla, 128)));
    assert!(!window(SlidingWindowMla, 128).same_type(&window(SlidingWindow, 128)));
    assert!(!window(SlidingWindowMla, 128).same_type(&window(SlidingWindowMla, 64)));
    assert!(window(SlidingWindowMla, 64).same_type(&window(SlidingWindowMla, 64)));
    // chunks by their tokens
    let chunk = |kind, tokens| LayerSpec {
        attention_chunk_size: Some(tokens),
        ..of(kind)
    };
    let own = chunk(ChunkedLocalAttention, 8192);
    assert!(own.same_type(&own));
    assert!(!own.same_type(&chunk(ChunkedLocalAttention, 4096)));
    assert!(!own.same_type(&chunk(FullAttention, 8192)));
    // states by their bytes
    let states = |kind, state_bytes| LayerSpec {
        mamba: Some(MambaStates {
            state_bytes,
            blocks_per_request: 1,
        }),
        ..of(kind)
    };
    assert!(states(Mamba, 4096).same_type(&states(Mamba, 4096)));
    assert!(!states(Mamba, 4096).same_type(&states(Mamba, 8192)));
    assert!(!states(Mamba, 4096).same_type(&states(FullAttention, 4096)));
    // … and all by block
    let block = LayerSpec {
        block_size: 32,
        ..of(FullAttention)
    };
    assert!(!of(FullAttention).same_type(&block));
}

/// `FullAttentionSpec.merge` and its `merge_window_sizes`: what is allocated as full attention keeps its window.
#[test]
fn full_attention_merges_over_one_window() {
    use SpecKind::{FullAttention, SlidingWindow};
    let (full, windowed) = (of(FullAttention), window(FullAttention, 128));
    let merged = |specs: &[&LayerSpec]| LayerSpec::merge(specs).unwrap();
    assert_eq!(merged(&[&full, &windowed]), Some(windowed));
    assert_eq!(merged(&[&windowed, &full, &windowed]), Some(windowed));
    let chunked = LayerSpec {
        attention_chunk_size: Some(8192),
        ..full
    };
    assert_eq!(merged(&[&full, &chunked]), Some(chunked));
    assert_eq!(
        LayerSpec::merge(&[&windowed, &window(FullAttention, 64)])
            .unwrap_err()
            .to_string(),
        "All attention layers in the same KV cache group must have the same window size."
    );
    assert_eq!(merged(&[&full, &of(SlidingWindow)]), None);
    let window = window(SlidingWindow, 128);
    assert_eq!(merged(&[&window, &window]), Some(window));
    assert_eq!(merged(&[&window, &windowed]), None);
    assert_eq!(merged(&[]), None);
}
