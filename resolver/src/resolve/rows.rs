//! The layers of an answer: each distinct spec once.

use crate::anatomy::{Makings, RowMakings};
use crate::error::Refusal;
use crate::gpu::Arch;
use crate::layout::heads_first;
use crate::request::Request;
use crate::resolution::{DraftLayers, GroupRow, LayerRow, TensorRow};
use crate::spec::decoder::Built;
use crate::spec::{Layer, Layers};

/// The specs as an answer has them, in order of first appearance, and where in
/// them each spec is.
pub(super) fn layer_rows(layers: &Layers, marks_drafts: bool) -> Result<Rows, Box<Refusal>> {
    let kind = |layer: &Layer| (layer.spec, layer.is_draft && marks_drafts);
    let mut firsts: Vec<(&Layer, usize)> = Vec::new();
    for layer in &layers.list {
        match firsts
            .iter_mut()
            .find(|(first, _)| kind(first) == kind(layer))
        {
            Some((_, count)) => *count += 1,
            None => firsts.push((layer, 1)),
        }
    }
    let rows = firsts
        .iter()
        .map(|(first, count)| layer_row(layers, **first, *count, kind(first).1))
        .collect::<Result<_, Box<Refusal>>>()?;
    let row_of = |spec| firsts.iter().position(|(first, _)| first.spec == spec);
    Ok(Rows {
        list: rows,
        specs: firsts.iter().map(|(first, _)| first.spec).collect(),
        of_spec: (0..layers.specs.len())
            .map(|spec| row_of(spec).unwrap_or_default())
            .collect(),
    })
}

/// The drafter's layers, whether or not the release tells them apart.
pub(super) fn draft_layers(layers: &Layers) -> Vec<DraftLayers> {
    let mut rows: Vec<(usize, DraftLayers)> = Vec::new();
    for layer in layers.list.iter().filter(|layer| layer.is_draft) {
        match rows.iter_mut().find(|(spec, _)| *spec == layer.spec) {
            Some((_, row)) => row.count += 1,
            None => rows.push((
                layer.spec,
                DraftLayers {
                    count: 1,
                    first: layers.name(*layer),
                    role: layers.spec(*layer).role,
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

pub(super) struct Rows {
    pub list: Vec<LayerRow>,
    /// Each row's spec.
    specs: Vec<usize>,
    of_spec: Vec<usize>,
}

impl Rows {
    /// What each row's page follows from; what models alone know is added by them.
    pub(super) fn makings(&self, built: &Built, request: &Request, arch: Arch) -> Makings {
        let profile = request.release.profile();
        let asked = request.env.kv_cache_layout.as_deref();
        let of = |spec: &usize| {
            Some(RowMakings {
                spec: *built.layers.specs.get(*spec)?,
                backend: built.spec_backends.get(*spec).copied(),
            })
        };
        Makings {
            release: request.release,
            arch,
            cache_dtype: built.cache_dtype,
            heads_first: !profile.has_layouts && heads_first(asked, &built.backends, arch),
            mla: None,
            states: None,
            rows: self.specs.iter().filter_map(of).collect(),
        }
    }

    /// Has the groups and tensors name rows, where they name specs.
    pub(super) fn rename(&self, groups: &mut [GroupRow], tensors: &mut [TensorRow]) {
        let rename =
            |layer: &mut usize| *layer = self.of_spec.get(*layer).copied().unwrap_or(*layer);
        let members = groups.iter_mut().flat_map(|group| &mut group.members);
        members.for_each(|member| rename(&mut member.layer));
        for tensor in tensors {
            match tensor {
                TensorRow::Run(run) => rename(&mut run.layer),
                TensorRow::Shared(shared) => {
                    shared
                        .shared_by
                        .iter_mut()
                        .for_each(|layer| rename(&mut layer.layer));
                }
            }
        }
    }
}

fn layer_row(
    layers: &Layers,
    first: Layer,
    count: usize,
    is_draft: bool,
) -> Result<LayerRow, Box<Refusal>> {
    let spec = layers.spec(first);
    Ok(LayerRow {
        count,
        first: layers.name(first),
        is_draft,
        role: spec.role,
        kind: spec.kind,
        block_size: spec.block_size,
        page_size_bytes: spec.page_size_bytes()?,
        unpadded_page_size_bytes: spec.unpadded_page_size_bytes()?,
        tokens_per_state: spec.tokens_per_state,
        states_per_page: spec.num_states(),
        slot_bytes: spec.slot_bytes()?,
        state_content_bytes: spec.state_content_bytes,
        head_size: spec.head_size,
        head_size_v: spec.head_size_v,
        num_kv_heads: spec.num_kv_heads,
        dtype: spec.dtype,
        kv_quant_mode: spec.kv_quant_mode,
        sliding_window: spec.sliding_window,
        attention_chunk_size: spec.attention_chunk_size,
        alignment: spec.alignment,
    })
}
