//! What another release makes of the same question.

use serde::Serialize;

use crate::dtype::CacheDtype;
use crate::error::{Outcome, Refusal, Stage};
use crate::gpu::{Gpu, GpuClass};
use crate::matrix;
use crate::memory::{Planned, comes_after_free, not_free, plan_on};
use crate::release::Release;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::{resolve, resolve_quietly};
use crate::trace::TraceStep;
use crate::units::thousands;

/// How much of a change it is, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// `outcome`: starts in one, is refused or does not fit in the other.
    Outcome,
    /// `bytes`: another layout, other bytes or another capacity.
    Bytes,
    /// `words`: the same refusal or log line, worded otherwise.
    Words,
}

impl Weight {
    /// In a few words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Outcome => "another outcome",
            Self::Bytes => "other bytes",
            Self::Words => "other words",
        }
    }
}

/// A figure that differs. Texts are as people read them; `None` where the
/// answer has no such figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The figure's name in a result.
    pub field: &'static str,
    /// In the release that is compared with.
    pub from: Option<String>,
    /// In the other one.
    pub to: Option<String>,
}

impl FieldChange {
    /// Both sides as people read them: `–` where there is no such figure.
    #[must_use]
    pub fn sides(&self) -> [&str; 2] {
        [&self.from, &self.to].map(|text| text.as_deref().unwrap_or("–"))
    }

    /// An error's class beside an answer without an error: the text says it.
    #[must_use]
    pub fn goes_without_saying(&self) -> bool {
        self.field == "error_type" && (self.from.is_none() || self.to.is_none())
    }
}

/// A decision that differs: what one release decides and the other does not, or
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepChange {
    /// In the release that is compared with.
    pub from: Option<TraceStep>,
    /// In the other one.
    pub to: Option<TraceStep>,
}

impl StepChange {
    fn stage(&self) -> Option<Stage> {
        let step = self.to.as_ref().or(self.from.as_ref());
        step.map(|step| step.stage)
    }
}

/// Cells of the matrix that changed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// How much of a change it is.
    pub weight: Weight,
    /// The outcome in the release that is compared with.
    pub from: Outcome,
    /// The outcome in the other one.
    pub to: Outcome,
    /// The cells: a GPU's index in the list that was asked, and a cache dtype.
    pub cells: Vec<(usize, CacheDtype)>,
    /// What differs in the answers.
    pub fields: Vec<FieldChange>,
    /// The decisions that differ, of the first cell.
    pub why: Vec<StepChange>,
}

impl Change {
    /// The dtypes that changed on the same GPUs, with the GPUs' indices; in the
    /// order of `dtypes`, which holds all that were asked.
    #[must_use]
    pub fn by_gpus(&self, dtypes: &[CacheDtype]) -> Vec<(Vec<usize>, Vec<&'static str>)> {
        let mut lots: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
        for dtype in dtypes {
            let of_dtype = self.cells.iter().filter(|(_, other)| other == dtype);
            let mut gpus: Vec<usize> = of_dtype.map(|(gpu, _)| *gpu).collect();
            if gpus.is_empty() {
                continue;
            }
            gpus.sort_unstable();
            match lots.iter_mut().find(|(other, _)| *other == gpus) {
                Some((_, dtypes)) => dtypes.push(dtype.as_str()),
                None => lots.push((gpus, vec![dtype.as_str()])),
            }
        }
        lots
    }
}

/// A matrix in two releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The release that is compared with.
    pub from: Release,
    /// The other one.
    pub to: Release,
    /// How many cells there are.
    pub cells: usize,
    /// How many of them have no rule in one of the releases or in both, so that
    /// they cannot be compared.
    pub unmodelled: usize,
    /// The ways in which cells changed, by weight, then by how many cells.
    pub changes: Vec<Change>,
}

/// The dtypes that either release knows, in the order of the newer one's list.
#[must_use]
pub fn dtypes(from: Release, to: Release) -> Vec<CacheDtype> {
    CacheDtype::ALL
        .into_iter()
        .filter(|dtype| {
            [from, to]
                .iter()
                .any(|release| release.profile().cache_dtypes.contains(dtype))
        })
        .collect()
}

/// Compares every GPU × dtype of `base`, whose own release is not looked at.
///
/// ```
/// use kv_resolver::catalog::{find_gpu, find_model};
/// use kv_resolver::diff::{Weight, diff};
/// use kv_resolver::{CacheDtype, Outcome, Release, Request};
///
/// let model = find_model("deepseek-ai/DeepSeek-V4-Flash").expect("it is in the catalog");
/// let gpu = find_gpu("h200").expect("it is in the catalog").gpu();
/// let base = Request::new(serde_json::from_str(model.config_json)?, gpu.clone());
/// let told = diff(&base, Release::V0_29_0, Release::V0_30_0, &[gpu], &[CacheDtype::Auto]);
///
/// // `auto` died with an assertion, and works since
/// let change = &told.changes[0];
/// assert_eq!(change.weight, Weight::Outcome);
/// assert_eq!((change.from, change.to), (Outcome::Refused, Outcome::Becomes));
/// assert_eq!(change.cells, [(0, CacheDtype::Auto)]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn diff(
    base: &Request,
    from: Release,
    to: Release,
    gpus: &[Gpu],
    dtypes: &[CacheDtype],
) -> Diff {
    let mut changes: Vec<Change> = Vec::new();
    // GPUs that neither release can tell apart are asked once
    let mut classes: Vec<([GpuClass; 2], usize, Vec<usize>)> = Vec::new();
    for (index, gpu) in gpus.iter().enumerate() {
        let class = [GpuClass::of(gpu, from), GpuClass::of(gpu, to)];
        match classes.iter_mut().find(|(other, ..)| *other == class) {
            Some((.., members)) => members.push(index),
            None => classes.push((class, index, vec![index])),
        }
    }
    let asked = |release, gpu: &Gpu| {
        let request = Request {
            release,
            ..base.clone()
        };
        matrix::row(&request, gpu, dtypes)
    };
    let mut unmodelled = 0;
    for (_, first, members) in &classes {
        let before = asked(from, &gpus[*first]);
        let after = asked(to, &gpus[*first]);
        for ((before, after), dtype) in before.iter().zip(&after).zip(dtypes) {
            if [before, after].map(outcome).contains(&Outcome::Unmodelled) {
                unmodelled += members.len();
                continue;
            }
            let fields = masked(fields(before, after), *dtype);
            if fields.is_empty() {
                continue;
            }
            let weight = weight(before, after);
            let cells = members.iter().map(|index| (*index, *dtype));
            let outcomes = (outcome(before), outcome(after));
            let same = changes.iter_mut().find(|change| {
                change.weight == weight
                    && change.fields == fields
                    && (weight == Weight::Bytes || (change.from, change.to) == outcomes)
            });
            if let Some(change) = same {
                change.cells.extend(cells);
                continue;
            }
            changes.push(Change {
                weight,
                from: outcomes.0,
                to: outcomes.1,
                cells: cells.collect(),
                fields,
                why: why(base, from, to, &gpus[*first], *dtype),
            });
        }
    }
    changes.sort_by_key(|change| (change.weight, std::cmp::Reverse(change.cells.len())));
    Diff {
        from,
        to,
        cells: gpus.len() * dtypes.len(),
        unmodelled,
        changes,
    }
}

/// What a release makes of a question, beside the release that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The release.
    pub release: Release,
    /// In one word.
    pub outcome: Outcome,
    /// How it differs from the release that was asked; `None` if not at all.
    pub differs: Option<Weight>,
    /// What differs.
    pub fields: Vec<FieldChange>,
}

/// The same question in every release, oldest first. Without a pool, whether it fits is
/// by the likeliest one.
#[must_use]
pub fn across(request: &Request) -> Vec<Standing> {
    let here = resolve_quietly(request);
    Release::ALL
        .into_iter()
        .map(|release| {
            let asked = Request {
                release,
                ..request.clone()
            };
            let there = resolve_quietly(&asked);
            let fields = fields(&here, &there);
            Standing {
                release,
                outcome: memory_outcome(&asked, &there),
                differs: (!fields.is_empty()).then(|| weight(&here, &there)),
                fields,
            }
        })
        .collect()
}

type Cell = Result<Resolution, Box<Refusal>>;

/// The outcome with what a start-up leaves, as far as that is estimated.
fn memory_outcome(request: &Request, cell: &Cell) -> Outcome {
    if cell
        .as_ref()
        .err()
        .is_none_or(|refusal| comes_after_free(refusal))
        && let Some(refusal) = not_free(request, &request.gpu)
    {
        return refusal.outcome();
    }
    let planned = cell
        .as_ref()
        .ok()
        .and_then(|resolution| plan_on(request, resolution, None).ok());
    let refusal = planned.as_ref().and_then(Planned::refusal);
    refusal.map_or_else(|| outcome(cell), Refusal::outcome)
}

fn outcome(cell: &Cell) -> Outcome {
    match cell {
        Ok(resolution) => resolution.outcome,
        Err(refusal) => refusal.outcome(),
    }
}

fn weight(before: &Cell, after: &Cell) -> Weight {
    match (before, after) {
        (Ok(a), Ok(b)) if a.outcome == b.outcome => Weight::Bytes,
        (Err(a), Err(b)) if a.outcome() == b.outcome() => match a.outcome() {
            // how much is needed is no matter of words
            Outcome::DoesNotFit if needed(a) != needed(b) => Weight::Bytes,
            _ => Weight::Words,
        },
        _ => Weight::Outcome,
    }
}

fn needed(refusal: &Refusal) -> Option<(u64, i128)> {
    match refusal {
        Refusal::RequestDoesNotFit {
            needed_bytes,
            available_bytes,
            ..
        } => Some((*needed_bytes, *available_bytes)),
        _ => None,
    }
}

/// The figures that a reader compares, with their names.
fn figures(cell: &Cell, other: &Cell) -> Vec<(&'static str, String)> {
    let r = match (cell, other) {
        (Ok(resolution), Ok(_)) => resolution,
        // beside an error it is enough to know what starts
        (Ok(resolution), Err(_)) => {
            return vec![("cache_dtype", resolution.cache_dtype.to_string())];
        }
        // which release has no rule is said beside it
        (Err(refusal), _) if refusal.outcome() == Outcome::Unmodelled => {
            return vec![("error", "no rule here".to_owned())];
        }
        (Err(refusal), _) => {
            return vec![
                ("error_type", refusal.error_type().to_owned()),
                ("error", refusal.to_string()),
            ];
        }
    };
    let bytes = |bytes: u64| format!("{} B", thousands(bytes));
    let mut figures = vec![
        ("cache_dtype", r.cache_dtype.to_string()),
        ("backends", r.backends.join(", ")),
        ("block_size", format!("{} tokens", r.block_size)),
        ("max_model_len", thousands(r.max_model_len)),
        (
            "max_num_batched_tokens",
            thousands(r.max_num_batched_tokens),
        ),
        ("max_num_seqs", thousands(r.max_num_seqs)),
        (
            "reserved_in_flight_tokens",
            thousands(r.reserved_in_flight_tokens),
        ),
        (
            "marginal_bytes_per_token",
            format!("{} B", r.marginal_bytes_per_token),
        ),
        ("fixed_bytes_per_request", bytes(r.fixed_bytes_per_request)),
        ("request_bytes", bytes(r.request_bytes)),
        ("bytes_per_block", bytes(r.bytes_per_block)),
        ("groups", groups(r)),
    ];
    if let Some(layout) = r.kv_cache_layout {
        figures.push(("kv_cache_layout", layout.as_str().to_owned()));
    }
    if let Some(capacity) = &r.capacity {
        figures.push(("num_blocks", thousands(capacity.num_blocks)));
        figures.push(("printed_tokens", thousands(capacity.printed_tokens)));
        figures.push(("printed_concurrency", capacity.printed_concurrency.clone()));
    }
    figures
}

/// The groups' layers and bytes, largest first: their order is no figure.
fn groups(resolution: &Resolution) -> String {
    let mut groups: Vec<(u64, usize)> = resolution
        .groups
        .iter()
        .map(|group| (group.page_size_bytes, group.layers))
        .collect();
    groups.sort_unstable_by(|a, b| b.cmp(a));
    let texts = groups
        .iter()
        .map(|(bytes, layers)| format!("{layers} × {} B", thousands(*bytes)));
    texts.collect::<Vec<_>>().join("; ")
}

fn fields(before: &Cell, after: &Cell) -> Vec<FieldChange> {
    let (before, after) = (figures(before, after), figures(after, before));
    let find = |figures: &[(&'static str, String)], name| {
        let found = figures.iter().find(|(field, _)| *field == name);
        found.map(|(_, text)| text.clone())
    };
    let new = after
        .iter()
        .filter(|(name, _)| find(&before, *name).is_none());
    before
        .iter()
        .chain(new)
        .map(|(field, _)| FieldChange {
            field,
            from: find(&before, *field),
            to: find(&after, *field),
        })
        .filter(|change| change.from != change.to)
        // a layout that only got its name is none
        .filter(|change| {
            change.field != "kv_cache_layout" || (change.from.is_some() && change.to.is_some())
        })
        .collect()
}

/// The same with `…` for the dtype where an error names it, so that errors which
/// differ in nothing else count as one.
fn masked(mut fields: Vec<FieldChange>, dtype: CacheDtype) -> Vec<FieldChange> {
    for change in fields.iter_mut().filter(|change| change.field == "error") {
        for text in [&mut change.from, &mut change.to].into_iter().flatten() {
            *text = text.replace(&format!("got {dtype}"), "got …").replacen(
                &format!("'{dtype}'"),
                "'…'",
                1,
            );
        }
    }
    fields
}

/// The decisions of one cell that differ, a decision of one release beside that
/// of the same function in the other.
fn why(
    base: &Request,
    from: Release,
    to: Release,
    gpu: &Gpu,
    dtype: CacheDtype,
) -> Vec<StepChange> {
    let steps = |release| {
        let mut request = base.clone();
        request.release = release;
        request.gpu = gpu.clone();
        request.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
        match resolve(&request) {
            Ok(resolution) => (resolution.trace, None),
            Err(error) => (error.trace, Some(error.refusal.stage())),
        }
    };
    let ((before, stopped), (after, stopped_after)) = (steps(from), steps(to));
    let has = |steps: &[TraceStep], step: &TraceStep| {
        steps.iter().any(|other| other.decided == step.decided)
    };
    let mut new: Vec<&TraceStep> = after.iter().filter(|step| !has(&before, step)).collect();
    let mut changes = Vec::new();
    for step in before.iter().filter(|step| !has(&after, step)) {
        let twin = new
            .iter()
            .position(|other| other.rule.function == step.rule.function);
        changes.push(StepChange {
            from: Some(step.clone()),
            to: twin.map(|index| new.remove(index).clone()),
        });
    }
    changes.extend(new.into_iter().map(|step| StepChange {
        from: None,
        to: Some(step.clone()),
    }));
    changes.sort_by_key(StepChange::stage);
    // what comes after the one's end says nothing of it
    if let Some(stage) = stopped.or(stopped_after) {
        let earlier = changes
            .iter()
            .take_while(|change| change.stage() < Some(stage));
        let count = earlier.count();
        changes.truncate(count + 1);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{find_gpu, find_model};
    use crate::request::Usage;
    use crate::value::Value;

    fn flash() -> Request {
        let config = find_model("deepseek-ai/DeepSeek-V4-Flash").unwrap();
        let config: Value = serde_json::from_str(config.config_json).unwrap();
        Request {
            release: Release::LATEST,
            hf_config: config.into(),
            draft_config: None,
            gpu: find_gpu("h200").unwrap().gpu(),
            args: crate::EngineArgs {
                tensor_parallel_size: Some(8),
                max_model_len: Some(131_072),
                ..crate::EngineArgs::default()
            },
            env: crate::Environment::default(),
            available_memory: Some(40 << 30),
            free_memory: None,
            usage: Usage::Server,
        }
    }

    fn changes(from: Release, to: Release) -> Vec<Change> {
        let gpu = find_gpu("h200").unwrap().gpu();
        diff(&flash(), from, to, &[gpu.clone(), gpu], &dtypes(from, to)).changes
    }

    #[test]
    fn a_release_differs_from_itself_in_nothing() {
        for release in Release::ALL {
            assert_eq!(changes(release, release), []);
        }
    }

    #[test]
    fn auto_starts_since_0_30_and_the_trace_says_why() {
        let changes = changes(Release::V0_29_0, Release::V0_30_0);
        let auto = &changes[0];
        assert_eq!(auto.weight, Weight::Outcome);
        assert_eq!((auto.from, auto.to), (Outcome::Refused, Outcome::Becomes));
        assert_eq!(auto.cells, [(0, CacheDtype::Auto), (1, CacheDtype::Auto)]);
        assert!(auto.why.iter().any(|change| {
            let step = change.to.as_ref();
            step.is_some_and(|step| step.rule.function == "_resolve_dsv4_kv_cache_dtype")
        }));
        // the other dtypes are refused in both, since 0.30 with advice
        assert!(
            changes[1..]
                .iter()
                .all(|change| change.weight == Weight::Words)
        );
    }

    #[test]
    fn a_smaller_block_is_a_change_of_bytes() {
        let changes = changes(Release::V0_26_0, Release::V0_27_1);
        let fp8 = &changes[0];
        assert_eq!(fp8.weight, Weight::Bytes);
        assert!(fp8.fields.contains(&FieldChange {
            field: "bytes_per_block",
            from: Some("1,039,680 B".into()),
            to: Some("1,002,240 B".into()),
        }));
    }

    #[test]
    fn a_question_stands_in_every_release() {
        let standing = across(&flash());
        assert_eq!(standing.len(), Release::ALL.len());
        let of = |release| standing.iter().find(|s| s.release == release).unwrap();
        assert_eq!(of(Release::LATEST).differs, None);
        assert_eq!(of(Release::V0_30_0).differs, None);
        assert_eq!(of(Release::V0_29_0).differs, Some(Weight::Outcome));
        assert_eq!(of(Release::V0_29_0).outcome, Outcome::Refused);
    }
}
