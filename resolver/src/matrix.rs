//! Every GPU × every cache dtype, without answering the same question twice.

use crate::dtype::CacheDtype;
use crate::error::Refusal;
use crate::gpu::Gpu;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::resolve_quietly;

/// One row's answers, in the order of the dtypes.
pub type Row = Vec<Result<Resolution, Refusal>>;

/// Answers `base` for each GPU and each dtype; everything else stays. The rows
/// are in the order of `gpus`.
///
/// A cell equals [`resolve`](crate::resolve()) of the same request, less its
/// trace, notes and advice.
pub fn matrix(base: &Request, gpus: &[Gpu], dtypes: &[CacheDtype]) -> Vec<Row> {
    gpus.iter().map(|gpu| row(base, gpu, dtypes)).collect()
}

/// One GPU's answers.
pub fn row(base: &Request, gpu: &Gpu, dtypes: &[CacheDtype]) -> Row {
    let mut request = base.clone();
    request.gpu = gpu.clone();
    dtypes
        .iter()
        .map(|dtype| {
            request.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
            resolve_quietly(&request)
        })
        .collect()
}
