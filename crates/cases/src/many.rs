//! Answers to many questions at once: every GPU × every cache dtype, in one release or between two.

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::diff::Diff;
use kv_resolver::layout::KvCacheLayout;
use kv_resolver::matrix::classes;
use kv_resolver::resolution::BytesPerToken;
use kv_resolver::{CacheDtype, Gpu, Outcome, Refusal, Release, Request, Resolution, Stage};
use serde::Serialize;

use crate::result::{False, True};

/// Every GPU of the catalog × every cache dtype of the release.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The release that was asked.
    pub release: Release,
    /// The GPUs' keys.
    pub gpus: Vec<&'static str>,
    /// The cache dtypes as they are asked for.
    pub dtypes: Vec<CacheDtype>,
    /// A cell for each GPU and each dtype: all of the first GPU's, then the next one's.
    pub cells: Vec<MatrixCell>,
}

/// What becomes of one dtype on one GPU. Names are those of a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MatrixCell {
    /// It starts.
    Starts(Box<StartingCell>),
    /// It stops, or there is no rule for it.
    Stops(StoppingCell),
}

/// A cell that starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartingCell {
    /// The GPU's key.
    pub gpu: &'static str,
    /// The cache dtype that was asked for.
    pub requested_cache_dtype: CacheDtype,
    /// Always `true` here: by it the two kinds of cells are told apart.
    pub ok: True,
    /// In one word.
    pub outcome: Outcome,
    /// What vLLM writes back.
    pub cache_dtype: CacheDtype,
    /// Attention backends of all layers, sorted by name.
    pub backends: Vec<&'static str>,
    /// Order of the physical dimensions; not a concept before 0.29.
    pub kv_cache_layout: Option<KvCacheLayout>,
    /// Bytes of one more token, past every window's reach.
    pub marginal_bytes_per_token: BytesPerToken,
    /// Bytes of every request whatever its length.
    pub fixed_bytes_per_request: u64,
    /// Bytes of one request at `max_model_len`.
    pub request_bytes: u64,
    /// Tokens, after auto-fit.
    pub max_model_len: u64,
    /// Requests of `max_model_len` that fit, as vLLM prints such a figure; only where the pool is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<String>,
    /// Tokens in vLLM's log line; only where the pool is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub printed_tokens: Option<u64>,
}

/// A cell that stops, or that has no rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppingCell {
    /// The GPU's key.
    pub gpu: &'static str,
    /// The cache dtype that was asked for.
    pub requested_cache_dtype: CacheDtype,
    /// Always `false` here.
    pub ok: False,
    /// In one word.
    pub outcome: Outcome,
    /// Where vLLM stops.
    pub stage: Stage,
    /// Python's exception class, or `NotModelled` for ours.
    pub error_type: &'static str,
    /// vLLM's text, verbatim.
    pub error: String,
}

impl MatrixCell {
    fn new(
        gpu: &'static str,
        asked: CacheDtype,
        answer: &Result<Resolution, Box<Refusal>>,
    ) -> Self {
        match answer {
            Ok(resolution) => Self::Starts(Box::new(StartingCell {
                gpu,
                requested_cache_dtype: asked,
                ok: True,
                outcome: resolution.outcome,
                cache_dtype: resolution.cache_dtype,
                backends: resolution.backends.clone(),
                kv_cache_layout: resolution.kv_cache_layout,
                marginal_bytes_per_token: resolution.marginal_bytes_per_token,
                fixed_bytes_per_request: resolution.fixed_bytes_per_request,
                request_bytes: resolution.request_bytes,
                max_model_len: resolution.max_model_len,
                requests: resolution
                    .capacity
                    .as_ref()
                    .map(|pool| pool.requests.clone()),
                printed_tokens: resolution.capacity.as_ref().map(|pool| pool.printed_tokens),
            })),
            Err(refusal) => Self::Stops(StoppingCell {
                gpu,
                requested_cache_dtype: asked,
                ok: False,
                outcome: refusal.outcome(),
                stage: refusal.stage(),
                error_type: refusal.error_type(),
                error: refusal.to_string(),
            }),
        }
    }
}

/// Answers a question for every GPU and every cache dtype that its release knows; its own GPU and dtype are not
/// looked at.
pub fn matrix(request: &Request) -> Matrix {
    let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
    let dtypes = request.release.profile().cache_dtypes.to_vec();
    let answers = classes(request, &gpus, &dtypes);
    let rows = GPUS.iter().zip(&answers.row_of_gpu);
    let cells = rows.flat_map(|(gpu, row)| {
        let answers = dtypes.iter().zip(&answers.rows[*row]);
        answers.map(|(dtype, answer)| MatrixCell::new(gpu.key, *dtype, answer))
    });
    Matrix {
        release: request.release,
        gpus: GPUS.iter().map(|gpu| gpu.key).collect(),
        cells: cells.collect(),
        dtypes,
    }
}

/// What changed between two releases, and what the GPUs are called that it counts.
#[derive(Debug, Serialize)]
pub struct Compared<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    /// The GPUs' keys; a cell of a change begins with an index into them.
    gpus: &'a [String],
}

impl<'a> Compared<'a> {
    /// `gpus` are the keys of the GPUs that were compared, in their order.
    #[must_use]
    pub const fn new(diff: &'a Diff, gpus: &'a [String]) -> Self {
        Self { diff, gpus }
    }

    /// To be indented or written.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        // names and numbers: there is nothing that JSON could not hold
        serde_json::to_value(self).unwrap_or_default()
    }
}
