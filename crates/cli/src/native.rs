//! `kvx native`: the plan in real memory.

use std::io;

use clap::ArgMatches;
use kv_cases::parse_case;
use kv_native::check::{CheckError, Receipt, check};
use kv_native::memory::Rates;
use kv_native::{CudaMemory, HostMemory, MemoryError, Pool, PoolError, PoolPlan, TensorScales};
use kv_resolver::{Refusal, Request, Resolution, StartupError, resolve};

use crate::{Exit, lines, render, show};

/// Whose plan it is if no model is named.
const MODEL: &str = "deepseek-ai/DeepSeek-V4-Flash";
const GPU: &str = "h200";
const POOL: &str = "1GiB";

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = question(matches).map_err(io::Error::other)?;
    let resolution = match resolve(&request) {
        Ok(resolution) => resolution,
        Err(error) => return stopped(&model, &request, error),
    };
    let plan = PoolPlan::new(&resolution).map_err(io::Error::other)?;
    if matches.get_flag("plan") {
        lines::print(&plan.lines())?;
        return Ok(Exit::of(resolution.outcome));
    }
    let name = title(&model, &request, &resolution);
    let memory = matches.get_one::<String>("memory").map(String::as_str);
    let outcome = match memory.unwrap_or_default() {
        "host" => on_host(&name, &plan),
        "cuda" => match CudaMemory::new(0, 1) {
            Err(error) => Err(error.into()),
            Ok(_) => on_gpu(&name, &plan),
        },
        _ => match CudaMemory::new(0, 1) {
            Err(error @ MemoryError::NoCuda(_)) => {
                lines::print(&format!("{error}; checked in the host's memory\n\n"))?;
                on_host(&name, &plan)
            }
            // whatever else is wrong with it is no reason to be silent
            Err(error) => Err(error.into()),
            Ok(_) => on_gpu(&name, &plan),
        },
    };
    match outcome {
        Ok(receipt) => {
            lines::print(&receipt)?;
            Ok(Exit::Resolved)
        }
        Err(error) => {
            eprintln!("kvx: the check failed: {error}");
            Ok(Exit::Refused)
        }
    }
}

/// What is asked, or the usual.
fn question(matches: &ArgMatches) -> Result<(String, Request), String> {
    let given = |name: &str| matches.contains_id(name);
    let gpu_is_given = given("gpu") || given("cc");
    if given("model") || given("model-tag") {
        if !gpu_is_given {
            return Err("--gpu is missing: whose plan a model has depends on it".to_owned());
        }
        let release = show::release(matches, "release")?;
        let (model, mut request) = show::request(matches, release, show::gpu(matches)?)?;
        if request.available_memory.is_none() {
            request.available_memory = show::parse_size(POOL);
        }
        return Ok((model, request));
    }
    let line = format!(
        r#"{{"model":"{MODEL}","gpu":"{GPU}","args":{{"kv_cache_dtype":"fp8","tensor_parallel_size":8,"max_model_len":4096,"max_num_batched_tokens":512,"max_num_seqs":4}}}}"#
    );
    let (_, request) = parse_case(&line);
    let mut request = request.map_err(|error| error.into_refusal(1).to_string())?;
    request.release = show::release(matches, "release")?;
    if gpu_is_given {
        request.gpu = show::gpu(matches)?;
    }
    let size = matches.get_one::<String>("pool");
    let size = size.map_or(POOL, String::as_str);
    let bytes = show::parse_size(size);
    request.available_memory = Some(bytes.ok_or(format!("--pool: {size:?} is no size"))?);
    Ok((MODEL.to_owned(), request))
}

/// What the plan is of.
fn title(model: &str, request: &Request, resolution: &Resolution) -> String {
    format!(
        "{model} on {}, vLLM {}, {}",
        request.gpu.name,
        request.release.version(),
        resolution.cache_dtype
    )
}

fn on_host(name: &str, plan: &PoolPlan) -> Result<String, CheckError> {
    let receipt = check(name, plan, HostMemory::new)?;
    Ok(format!("{receipt}\n"))
}

fn on_gpu(name: &str, plan: &PoolPlan) -> Result<String, CheckError> {
    let receipt = check(name, plan, |bytes| CudaMemory::new(0, bytes))?;
    Ok(with_rates(&receipt, rates(plan)?))
}

/// How fast rows of the first layer with a writer are written and read.
fn rates(plan: &PoolPlan) -> Result<Option<Rates>, PoolError> {
    const ROWS: u64 = 1 << 16;
    let mut pool = Pool::new(plan.clone(), |bytes| CudaMemory::new(0, bytes))?;
    let mut layers = plan.layers.iter();
    let Some(layer) = layers.position(|layer| plan.kinds[layer.kind].format.is_ok()) else {
        return Ok(None);
    };
    let slots = pool.slots_of(layer, TensorScales::default())?;
    let count = slots.slots().min(ROWS);
    let elements = count.saturating_mul(slots.format.token_elements());
    let rows = vec![0.5; usize::try_from(elements).unwrap_or(0)];
    let chosen: Vec<i64> = (0..count).map(u64::cast_signed).collect();
    Ok(Some(pool.rates(layer, &chosen, &rows)?))
}

#[allow(clippy::cast_precision_loss)] // only printed
fn with_rates(receipt: &Receipt, rates: Option<Rates>) -> String {
    let Some(rates) = rates else {
        return format!("{receipt}\n");
    };
    let rate = |seconds: f64| rates.row_bytes as f64 / seconds / 1e9;
    format!(
        "{receipt}\nrates             {:.1} GB/s of float32 rows stored, {:.1} GB/s loaded; the card copies {:.1} GB/s\n",
        rate(rates.store_seconds),
        rate(rates.load_seconds),
        rate(rates.copy_seconds)
    )
}

/// There is no plan where vLLM does not start.
fn stopped(model: &str, request: &Request, error: StartupError) -> io::Result<Exit> {
    if let Refusal::BadCase(why) = &error.refusal {
        return Err(io::Error::other(why.clone()));
    }
    let outcome = error.refusal.outcome();
    lines::print(&render::answer(model, request, &Err(error)))?;
    Ok(Exit::of(outcome))
}
