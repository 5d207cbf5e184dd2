//! Packing, since 0.29: layers of different page sizes, side by side in one block.
//! Mirrors `_get_packed_kv_cache_groups`.

use super::groups::{Group, sorted};
use crate::error::Refusal;
use crate::release::Profile;
use crate::spec::{Layer, LayerSpec, Layers, SpecKind};
use crate::units::{add, ceil_div, mul};

/// Layers that need the same slots, whatever their bytes.
pub(super) struct Bucket {
    pub layers: Vec<Layer>,
    /// The layers by page bytes, in order of first appearance.
    pub by_page: Vec<(u64, Vec<Layer>)>,
}

impl Bucket {
    pub fn new(layers: Vec<Layer>, all: &Layers) -> Result<Self, Box<Refusal>> {
        let pages = all.specs.iter().map(LayerSpec::page_size_bytes);
        let pages: Vec<u64> = pages.collect::<Result<_, _>>()?;
        Ok(Self {
            by_page: sorted(&layers, |spec| pages[spec]),
            layers,
        })
    }

    /// As many layers of each page size: a pattern that repeats.
    pub fn is_balanced(&self) -> bool {
        self.by_page
            .windows(2)
            .all(|pair| pair[0].1.len() == pair[1].1.len())
    }

    /// Repeats of the pattern, if it is one.
    pub fn repeats(&self) -> u64 {
        let most = self.by_page.iter().map(|(_, layers)| layers.len()).max();
        most.unwrap_or(0) as u64
    }

    /// Bytes of the widest of the `groups` groups that it splits into.
    fn widest(&self, groups: u64) -> Result<u64, Box<Refusal>> {
        self.by_page.iter().try_fold(0, |sum, (page, layers)| {
            add(sum, mul(ceil_div(layers.len() as u64, groups)?, *page)?)
        })
    }

    fn kind(&self, all: &Layers) -> SpecKind {
        self.layers
            .first()
            .map_or(SpecKind::UniformType, |layer| all.spec(*layer).kind)
    }

    /// Every `groups`-th repeat of the pattern, from each start.
    pub fn split(&self, groups: u64) -> Vec<Group> {
        let step = usize::try_from(groups).unwrap_or(usize::MAX).max(1);
        let repeats = self.by_page.iter().map(|(_, layers)| layers.len()).min();
        let repeats = repeats.unwrap_or(0);
        (0..step.min(repeats))
            .map(|start| {
                let layers = (start..repeats)
                    .step_by(step)
                    .flat_map(|repeat| self.by_page.iter().map(move |(_, layers)| layers[repeat]));
                Group::uniform_type(layers.collect())
            })
            .collect()
    }
}

/// Packs layers of several types into groups that fit one block.
pub(super) fn pack(layers: &Layers, profile: &Profile) -> Result<Vec<Group>, Box<Refusal>> {
    let buckets = buckets(layers)?;

    // Balanced buckets of several page sizes stay whole, so the longest of them
    // is a floor for the repeats in a group; no such bucket, nothing to split.
    let floor = buckets
        .iter()
        .filter(|bucket| bucket.is_balanced() && bucket.by_page.len() > 1)
        .map(Bucket::repeats)
        .max();
    let repeats_per_group = floor.map(|floor| {
        let balanced = buckets.iter().filter(|bucket| bucket.is_balanced());
        approximate_gcd(&balanced.map(Bucket::repeats).collect::<Vec<_>>(), floor)
    });
    let by_pattern = |bucket: &Bucket| match repeats_per_group {
        Some(repeats) if bucket.is_balanced() => ceil_div(bucket.repeats(), repeats),
        _ => Ok(1),
    };

    // States, and windows that no pattern splits, may go down to one layer a
    // group, rather than widen the block beyond what the other buckets need.
    let is_free = |bucket: &Bucket| {
        let kind = bucket.kind(layers);
        kind == SpecKind::Mamba
            || (profile.windows_split_to_fit && repeats_per_group.is_none() && kind.is_window())
    };
    let mut needed = 0;
    for bucket in &buckets {
        let groups = if is_free(bucket) {
            bucket.layers.len() as u64
        } else {
            by_pattern(bucket)?
        };
        needed = needed.max(bucket.widest(groups)?);
    }

    let mut groups = Vec::new();
    for bucket in buckets {
        let mut count = by_pattern(&bucket)?;
        if is_free(&bucket) {
            let page = bucket.by_page.first().map_or(0, |(page, _)| *page);
            let fit = needed.checked_div(page).ok_or(Refusal::ZeroDivision)?;
            count = count.max(ceil_div(bucket.layers.len() as u64, fit.max(1))?);
        }
        if count == 1 {
            groups.push(Group::uniform_type(bucket.layers));
        } else {
            groups.extend(bucket.split(count));
        }
    }
    Ok(groups)
}

/// Each layer joins the first bucket of its type.
fn buckets(layers: &Layers) -> Result<Vec<Bucket>, Box<Refusal>> {
    // the spec that begins each spec's bucket
    let mut begins: Vec<usize> = Vec::with_capacity(layers.specs.len());
    for (spec, shape) in layers.specs.iter().enumerate() {
        let home = (0..spec)
            .find(|other| begins[*other] == *other && layers.specs[*other].same_type(shape));
        begins.push(home.unwrap_or(spec));
    }
    sorted(&layers.list, |spec| begins[spec])
        .into_iter()
        .map(|(_, bucket)| Bucket::new(bucket, layers))
        .collect()
}

/// The chunk, at least `floor`, to which `counts` are rounded up with the least
/// padding; of several, the largest. Mirrors `_approximate_gcd`.
pub(super) fn approximate_gcd(counts: &[u64], floor: u64) -> u64 {
    let floor = floor.max(1);
    let most = counts.iter().copied().max().unwrap_or(0);
    (floor..=most)
        .min_by_key(|chunk| {
            // the counts are the same for each: least in all is least padding
            let padded = counts.iter().map(|count| count.next_multiple_of(*chunk));
            (padded.sum::<u64>(), std::cmp::Reverse(*chunk))
        })
        .unwrap_or(floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;
    use crate::dtype::TorchDtype;
    use crate::spec::{LayerRole, LayerSpec};

    #[test]
    fn least_padding_wins_and_ties_go_up() {
        assert_eq!(approximate_gcd(&[43, 21, 20], 21), 22);
        assert_eq!(approximate_gcd(&[4, 8], 1), 4);
        assert_eq!(approximate_gcd(&[3], 5), 5);
    }

    fn layers(specs: &[(SpecKind, u64, u32)]) -> Layers {
        let mut layers = Layers::new("model.layers");
        for (kind, head_size, count) in specs {
            let spec = LayerSpec {
                head_size: *head_size,
                sliding_window: kind.is_window().then_some(128),
                ..LayerSpec::plain(LayerRole::Attention, *kind, 16, TorchDtype::Bfloat16)
            };
            for _ in 0..*count {
                let index = u32::try_from(layers.list.len()).unwrap();
                layers.push(index, "attn", spec);
            }
        }
        layers
    }

    fn sizes(release: Release, specs: &[(SpecKind, u64, u32)]) -> Vec<usize> {
        let groups = pack(&layers(specs), release.profile()).unwrap();
        groups.iter().map(|group| group.layers.len()).collect()
    }

    /// `_get_packed_kv_cache_groups`: a bucket that has not as many layers of each page size is no pattern. It stays
    /// whole and is the anchor, 4 × 2048 + 2 × 1024 B, into which 2 windows of 4096 B fit.
    #[test]
    fn what_is_no_pattern_stays_whole() {
        let specs = [
            (SpecKind::MlaAttention, 64, 4),
            (SpecKind::MlaAttention, 32, 2),
            (SpecKind::SlidingWindow, 128, 6),
        ];
        assert_eq!(sizes(Release::LATEST, &specs), [6, 2, 2, 2]);
        let even = [
            (SpecKind::MlaAttention, 64, 2),
            (SpecKind::MlaAttention, 32, 2),
            (SpecKind::SlidingWindow, 128, 6),
        ];
        // a pattern of two repeats, to which the windows are cut
        assert_eq!(sizes(Release::LATEST, &even), [4, 2, 2, 2]);
    }
}
