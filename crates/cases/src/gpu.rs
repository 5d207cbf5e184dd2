//! A case's GPU: one of the catalog, or one that is described.

use kv_resolver::catalog::find_gpu;
use kv_resolver::{ComputeCapability, Gpu, Value};

use crate::case::{CaseError, known_keys, malformed, parse_json};

/// Memory of a GPU whose case names none, in GiB: the oracle's.
const DEFAULT_MEM_GIB: f64 = 80.0;

/// What the GPU is called that a case names: its key, or its name where the case describes it. `None` if it names none.
pub fn gpu_of(line: &str) -> Option<String> {
    match parse_json(line).ok()?.get_set("gpu")? {
        Value::String(key) => find_gpu(key).map(|gpu| gpu.key.to_owned()),
        described => described_gpu(described).ok().map(|gpu| gpu.name),
    }
}

/// As the resolver takes it.
pub(crate) fn gpu(case: &Value) -> Result<Gpu, CaseError> {
    match case.get_set("gpu") {
        None => malformed("no gpu is given"),
        Some(Value::String(key)) => match find_gpu(key) {
            Some(gpu) => Ok(gpu.gpu()),
            None => malformed(format!(
                "unknown gpu {:?}; `kvx gpus` lists them, and {{\"cc\": [9, 0], \"name\": …, \"mem_gib\": …}} describes another",
                key.chars().take(40).collect::<String>()
            )),
        },
        Some(described @ Value::Object(_)) => described_gpu(described),
        Some(other) => malformed(format!(
            "gpu: expected a key or an object, got {}",
            other.type_name()
        )),
    }
}

/// The keys of a GPU that is described.
const KEYS: [&str; 3] = ["cc", "name", "mem_gib"];

fn described_gpu(gpu: &Value) -> Result<Gpu, CaseError> {
    known_keys(gpu, "gpu: ", &KEYS, "a GPU")?;
    let capability = match gpu.get_set("cc") {
        Some(Value::Array(parts)) => match parts.as_slice() {
            [major, minor] => small(major).zip(small(minor)),
            _ => None,
        },
        _ => None,
    };
    let Some((major, minor)) = capability else {
        return malformed("gpu: expected \"cc\": [major, minor]");
    };
    let name = match gpu.get_set("name") {
        None => "NVIDIA GPU".to_owned(),
        Some(Value::String(name)) => name.clone(),
        Some(other) => {
            return malformed(format!(
                "gpu.name: expected a string, got {}",
                other.type_name()
            ));
        }
    };
    let gib = match gpu.get_set("mem_gib") {
        None => DEFAULT_MEM_GIB,
        #[allow(clippy::cast_precision_loss)] // memory of a GPU
        Some(Value::Integer(gib)) => *gib as f64,
        Some(Value::Float(gib)) => *gib,
        Some(other) => {
            return malformed(format!(
                "gpu.mem_gib: expected a number, got {}",
                other.type_name()
            ));
        }
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounded below
    let total_memory_bytes = (gib * f64::from(1_u32 << 30)) as u64;
    // less than a byte is none
    if !(0.0..=1e6).contains(&gib) || total_memory_bytes == 0 {
        return malformed("gpu.mem_gib: expected more than 0, and at most 1,000,000 GiB");
    }
    Ok(Gpu {
        name,
        capability: ComputeCapability::new(major, minor),
        total_memory_bytes,
        torch_total_bytes: None,
    })
}

fn small(value: &Value) -> Option<u8> {
    value
        .as_integer()
        .and_then(|number| u8::try_from(number).ok())
}
