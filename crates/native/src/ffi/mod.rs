//! The plan for C, C++ and Python: `include/kvx.h`, which cbindgen makes of these files. All that is unsafe about it is
//! here.

mod types;

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use kv_cases::{answer, resolve_line};
use kv_resolver::anatomy::CellOrder;
use kv_resolver::{Outcome, Resolution};

use crate::plan::{Keeps, PoolPlan};

pub use types::{KvxField, KvxGroup, KvxKeeps, KvxLayer, KvxOrder, KvxPool, KvxStatus};

/// A plan.
pub struct KvxPlan {
    resolution: Resolution,
    plan: PoolPlan,
    names: Vec<CString>,
    fields: Vec<Vec<KvxField>>,
    // what the fields point to
    _texts: Vec<CString>,
}

/// A text that the caller frees; none where there is room for none.
fn owned(text: &str) -> *mut c_char {
    let text = text.replace('\0', " ");
    CString::new(text).map_or(ptr::null_mut(), CString::into_raw)
}

impl KvxPlan {
    fn new(resolution: Resolution, plan: PoolPlan) -> Self {
        let mut texts = Vec::new();
        let mut keep = |text: &str| {
            let text = CString::new(text).unwrap_or_default();
            // a CString's bytes stay where they are when it is moved
            let at = text.as_ptr();
            texts.push(text);
            at
        };
        let anatomy = resolution.anatomy();
        let fields = anatomy.iter().map(|kind| {
            if kind.page.unknown.is_some() {
                return Vec::new();
            }
            let regions = kind.page.regions.iter();
            let fields =
                regions.flat_map(|region| region.fields.iter().map(move |field| (region, field)));
            let told = fields.map(|(region, field)| KvxField {
                name: keep(field.name),
                dtype: keep(field.dtype),
                offset: region.offset + field.offset,
                stride: region.stride,
                count: region.count,
                bytes: field.bytes,
                elements: field.elements,
                order: match region.order {
                    CellOrder::States => KvxOrder::State,
                    CellOrder::HeadsFirst => KvxOrder::HeadsOutside,
                    CellOrder::StatesFirst => KvxOrder::StatesOutside,
                    CellOrder::Heads | CellOrder::Rows | CellOrder::Once => KvxOrder::Other,
                },
            });
            told.collect()
        });
        let fields = fields.collect();
        let names = plan.layers.iter();
        let names = names.map(|layer| CString::new(layer.name.as_str()).unwrap_or_default());
        Self {
            names: names.collect(),
            fields,
            _texts: texts,
            resolution,
            plan,
        }
    }
}

/// Answers a case (one line of JSON, as `kvx resolve` takes it) and plans the pool that it names as
/// `available_memory`. `plan` is set on `KVX_STATUS_OK`, to be freed by `kvx_plan_free`; `message`, if it is not
/// null, on anything else, to be freed by `kvx_string_free`.
///
/// # Safety
/// `case_line` ends in 0; `plan` may be written, and `message` too unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_resolve(
    case_line: *const c_char,
    plan: *mut *mut KvxPlan,
    message: *mut *mut c_char,
) -> KvxStatus {
    let tell = |status, text: &str| {
        if !message.is_null() {
            // SAFETY: the caller says that it may be written.
            unsafe { message.write(owned(text)) };
        }
        status
    };
    if case_line.is_null() || plan.is_null() {
        return tell(KvxStatus::Null, "a pointer is null");
    }
    // SAFETY: the caller says that it ends in 0.
    let line = unsafe { CStr::from_ptr(case_line) }.to_string_lossy();
    let answer = answer(&line, 1);
    let status = match (answer.is_malformed(), answer.outcome()) {
        (true, _) => KvxStatus::BadCase,
        (_, Outcome::Refused | Outcome::DoesNotFit) => KvxStatus::Refused,
        (_, Outcome::Unmodelled) => KvxStatus::Unmodelled,
        (_, Outcome::Works | Outcome::Becomes | Outcome::Unverified) => KvxStatus::Ok,
    };
    let resolution = match answer.result {
        Ok(resolution) => resolution,
        Err(error) => return tell(status, &error.refusal.to_string()),
    };
    match PoolPlan::new(&resolution) {
        Ok(made) => {
            let made = Box::new(KvxPlan::new(resolution, made));
            // SAFETY: the caller says that it may be written.
            unsafe { plan.write(Box::into_raw(made)) };
            KvxStatus::Ok
        }
        Err(error) => tell(KvxStatus::NoPlan, &error.to_string()),
    }
}

/// The whole answer to a case: the line that `kvx resolve` prints, to be freed by `kvx_string_free`; null of null.
///
/// # Safety
/// `case_line` ends in 0, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_answer(case_line: *const c_char) -> *mut c_char {
    if case_line.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller says that it ends in 0.
    let line = unsafe { CStr::from_ptr(case_line) }.to_string_lossy();
    owned(&resolve_line(&line, 1))
}

/// The allocation; all 0 of null.
///
/// # Safety
/// `plan` is of `kvx_resolve` and not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_plan_pool(plan: *const KvxPlan) -> KvxPool {
    // SAFETY: the caller says so.
    let Some(of) = (unsafe { plan.as_ref() }) else {
        return KvxPool::default();
    };
    KvxPool {
        allocated_bytes: of.plan.allocated_bytes,
        num_blocks: of.plan.num_blocks,
        bytes_per_block: of.plan.bytes_per_block,
        num_layers: of.plan.layers.len() as u64,
        num_groups: of.plan.groups.len() as u64,
        num_kinds: of.plan.kinds.len() as u64,
    }
}

/// Writes what is found, or says why there is nothing.
///
/// # Safety
/// `into` may be written, or is null.
unsafe fn put<T>(found: Option<T>, into: *mut T) -> KvxStatus {
    if into.is_null() {
        return KvxStatus::Null;
    }
    let Some(found) = found else {
        return KvxStatus::OutOfRange;
    };
    // SAFETY: the caller says that it may be written.
    unsafe { into.write(found) };
    KvxStatus::Ok
}

fn nth<T>(list: &[T], index: u64) -> Option<&T> {
    list.get(usize::try_from(index).ok()?)
}

/// A layer, by its number.
///
/// # Safety
/// `plan` is of `kvx_resolve` and not freed, or null; `layer` may be written, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_plan_layer(
    plan: *const KvxPlan,
    index: u64,
    layer: *mut KvxLayer,
) -> KvxStatus {
    // SAFETY: the caller says so.
    let Some(of) = (unsafe { plan.as_ref() }) else {
        return KvxStatus::Null;
    };
    let told = || {
        let place = nth(&of.plan.layers, index)?;
        let kind = &of.plan.kinds[place.kind];
        let page = of.resolution.anatomy_of(place.kind)?.page;
        Some(KvxLayer {
            name: nth(&of.names, index)?.as_ptr(),
            group: place.group as u64,
            kind: place.kind as u64,
            offset: place.offset,
            block_stride: place.block_stride,
            page_bytes: place.page_bytes,
            heads: page.heads,
            states_per_block: kind.states_per_block,
            tokens_per_state: kind.tokens_per_state,
            kernel_blocks: page.kernel_blocks,
            kernel_block_bytes: page.kernel_block_bytes,
            num_fields: of.fields[place.kind].len() as u64,
        })
    };
    // SAFETY: the caller says that it may be written, or is null.
    unsafe { put(told(), layer) }
}

/// A group, by its number.
///
/// # Safety
/// `plan` is of `kvx_resolve` and not freed, or null; `group` may be written, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_plan_group(
    plan: *const KvxPlan,
    index: u64,
    group: *mut KvxGroup,
) -> KvxStatus {
    // SAFETY: the caller says so.
    let Some(of) = (unsafe { plan.as_ref() }) else {
        return KvxStatus::Null;
    };
    let told = nth(&of.plan.groups, index).map(|group| {
        let (keeps, keeps_tokens) = match group.keeps {
            Keeps::All => (KvxKeeps::All, 0),
            Keeps::Last { tokens } => (KvxKeeps::Last, tokens),
            Keeps::Chunk { tokens } => (KvxKeeps::Chunk, tokens),
        };
        KvxGroup {
            tokens_per_block: group.tokens_per_block,
            keeps,
            keeps_tokens,
        }
    });
    // SAFETY: the caller says that it may be written, or is null.
    unsafe { put(told, group) }
}

/// A field of the pages of a kind of layer, by their numbers.
///
/// # Safety
/// `plan` is of `kvx_resolve` and not freed, or null; `field` may be written, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_plan_field(
    plan: *const KvxPlan,
    kind: u64,
    index: u64,
    field: *mut KvxField,
) -> KvxStatus {
    // SAFETY: the caller says so.
    let Some(of) = (unsafe { plan.as_ref() }) else {
        return KvxStatus::Null;
    };
    let told = nth(&of.fields, kind).and_then(|fields| nth(fields, index));
    // SAFETY: the caller says that it may be written, or is null.
    unsafe { put(told.copied(), field) }
}

/// Frees a plan, and every text in it.
///
/// # Safety
/// `plan` is of `kvx_resolve` and not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_plan_free(plan: *mut KvxPlan) {
    if !plan.is_null() {
        // SAFETY: it is of `Box::into_raw`, and the caller frees it once.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// Frees a text.
///
/// # Safety
/// `text` is of a function here and not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvx_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it is of `CString::into_raw`, and the caller frees it once.
        drop(unsafe { CString::from_raw(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a case, and its message.
    fn resolve(case: &CStr) -> (KvxStatus, Option<String>) {
        let (mut plan, mut message) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the case ends in 0, both pointers may be written, and what is made is freed once.
        unsafe {
            let status = kvx_resolve(case.as_ptr(), &raw mut plan, &raw mut message);
            let text = (!message.is_null())
                .then(|| CStr::from_ptr(message).to_string_lossy().into_owned());
            assert_eq!(plan.is_null(), status != KvxStatus::Ok);
            kvx_plan_free(plan);
            kvx_string_free(message);
            (status, text)
        }
    }

    #[test]
    fn what_has_no_plan_is_told_in_words() {
        let (status, text) = resolve(c"{");
        assert_eq!(status, KvxStatus::BadCase);
        assert!(text.is_some_and(|text| text.starts_with("line 1")));
        let (status, text) = resolve(
            cr#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"rtx-5090","args":{"kv_cache_dtype":"bfloat16"}}"#,
        );
        assert_eq!(status, KvxStatus::Refused);
        assert!(text.is_some_and(|text| text.contains("only supports fp8 kv-cache")));
        let (status, text) = resolve(cr#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200"}"#);
        assert_eq!(status, KvxStatus::NoPlan);
        assert!(text.is_some_and(|text| text.contains("available_memory")));
    }

    #[test]
    fn null_is_not_followed() {
        // SAFETY: null is allowed everywhere here.
        unsafe {
            let status = kvx_resolve(ptr::null(), ptr::null_mut(), ptr::null_mut());
            assert_eq!(status, KvxStatus::Null);
            assert!(kvx_answer(ptr::null()).is_null());
            assert_eq!(kvx_plan_pool(ptr::null()).allocated_bytes, 0);
            let layer = kvx_plan_layer(ptr::null(), 0, ptr::null_mut());
            assert_eq!(layer, KvxStatus::Null);
            kvx_plan_free(ptr::null_mut());
            kvx_string_free(ptr::null_mut());
        }
    }
}
