//! Every GPU × every cache dtype, without answering the same question twice.

use crate::dtype::CacheDtype;
use crate::error::Refusal;
use crate::gpu::{Gpu, GpuClass};
use crate::memory::{self, Budget};
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::{ReadModel, read, resolve_read};

/// One row's answers, in the order of the dtypes.
pub type Row = Vec<Result<Resolution, Box<Refusal>>>;

/// The matrix with one row for all GPUs that the rules cannot tell apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// A row for each class, in the order of their first GPUs.
    pub rows: Vec<Row>,
    /// For each GPU, the index of its row.
    pub row_of_gpu: Vec<usize>,
}

/// Answers `base` for each class of GPU and each dtype; everything else stays.
///
/// A cell equals [`resolve`](crate::resolve()) of the same request, less its
/// trace, notes and advice.
pub fn classes(base: &Request, gpus: &[Gpu], dtypes: &[CacheDtype]) -> Classes {
    let mut seen: Vec<GpuClass> = Vec::new();
    let mut rows = Vec::new();
    let mut row_of_gpu = Vec::with_capacity(gpus.len());
    let model = read(base);
    for gpu in gpus {
        let class = GpuClass::of(gpu, base.release);
        let index = seen.iter().position(|other| *other == class);
        row_of_gpu.push(index.unwrap_or_else(|| {
            seen.push(class);
            rows.push(cells(base, &model, gpu, dtypes));
            rows.len() - 1
        }));
    }
    Classes { rows, row_of_gpu }
}

/// What each answer of [`classes`] leaves for the KV cache, or why that is not
/// estimated; of `classes` without a pool. For one GPU of a class, take the budget
/// [`on`](Budget::on) it.
pub fn budgets(
    base: &Request,
    gpus: &[Gpu],
    dtypes: &[CacheDtype],
    classes: &Classes,
) -> Vec<Vec<Option<Result<Budget, String>>>> {
    let mut request = base.clone();
    let model = read(base);
    let rows = classes.rows.iter().enumerate();
    rows.map(|(index, row)| {
        let of_class = classes.row_of_gpu.iter().position(|class| *class == index);
        if let Some(gpu) = of_class.and_then(|gpu| gpus.get(gpu)) {
            request.gpu = gpu.clone();
        }
        let cells = row.iter().zip(dtypes);
        cells
            .map(|(answer, dtype)| {
                request.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
                let resolution = answer.as_ref().ok()?;
                Some(memory::budget_read(&request, &model, resolution))
            })
            .collect()
    })
    .collect()
}

/// [`classes`] with a row for each GPU, in their order: of each, one answer a dtype.
///
/// ```
/// use kv_resolver::catalog::{GPUS, find_gpu, find_model};
/// use kv_resolver::matrix::matrix;
/// use kv_resolver::{CacheDtype, Outcome, Request};
///
/// let model = find_model("deepseek-ai/DeepSeek-V3.2").expect("it is in the catalog");
/// let base = Request::new(
///     serde_json::from_str(model.config_json)?,
///     find_gpu("h200").expect("it is in the catalog").gpu(),
/// );
/// let gpus: Vec<_> = GPUS.iter().map(|gpu| gpu.gpu()).collect();
/// let rows = matrix(&base, &gpus, &[CacheDtype::Auto, CacheDtype::Fp8]);
///
/// // fp8 is taken as it is on B200, and becomes DeepSeek's own packing on Hopper
/// let [h200, b200] = ["h200", "b200"].map(|key| {
///     let place = GPUS
///         .iter()
///         .position(|gpu| Some(gpu) == find_gpu(key))
///         .expect("it is in the catalog");
///     rows[place][1].as_ref().expect("nothing refuses it")
/// });
/// assert_eq!((h200.outcome, h200.cache_dtype), (Outcome::Becomes, CacheDtype::Fp8DsMla));
/// assert_eq!((b200.outcome, b200.cache_dtype), (Outcome::Works, CacheDtype::Fp8));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn matrix(base: &Request, gpus: &[Gpu], dtypes: &[CacheDtype]) -> Vec<Row> {
    let Classes { rows, row_of_gpu } = classes(base, gpus, dtypes);
    row_of_gpu
        .into_iter()
        .map(|index| rows[index].clone())
        .collect()
}

/// One GPU's answers.
pub fn row(base: &Request, gpu: &Gpu, dtypes: &[CacheDtype]) -> Row {
    cells(base, &read(base), gpu, dtypes)
}

fn cells(base: &Request, model: &ReadModel, gpu: &Gpu, dtypes: &[CacheDtype]) -> Row {
    let mut request = base.clone();
    request.gpu = gpu.clone();
    dtypes
        .iter()
        .map(|dtype| {
            request.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
            resolve_read(&request, model)
        })
        .collect()
}
