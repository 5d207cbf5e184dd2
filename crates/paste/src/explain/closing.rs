//! What, taken otherwise, would close the gap between a log and an answer. A fixed list is tried, one thing at a
//! time, and what does not reproduce every figure exactly is not told.

use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::memory::{Interval, budget, without_pool};
use kv_resolver::units::python_float;
use kv_resolver::{Flag, Release, Request, Usage, Value, resolve_quietly};

use super::Evidence;

/// One thing taken otherwise, with which the question comes to what was printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The release, if it is that.
    pub release: Option<Release>,
    /// Who starts vLLM, if it is that.
    pub usage: Option<Usage>,
    /// The flag and its value, if it is that; `null` takes the flag away.
    pub flag: Option<(String, Value)>,
}

impl Closing {
    const NONE: Self = Self {
        release: None,
        usage: None,
        flag: None,
    };

    /// In a few words.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(release) = self.release {
            return ["vLLM ", release.version()].concat();
        }
        if let Some(usage) = self.usage {
            return match usage {
                Usage::Server => "vllm serve, and not the LLM class",
                Usage::Llm => "the LLM class, and not vllm serve",
            }
            .to_owned();
        }
        match &self.flag {
            Some((name, Value::Null)) => {
                [name, " not passed, or without an effect on the cache"].concat()
            }
            Some((name, Value::String(text))) => [name, "=", text].concat(),
            Some((name, Value::Float(number))) => [name, "=", &python_float(*number)].concat(),
            Some((name, value)) => [name, "=", &crate::argv::json(value)].concat(),
            None => String::new(),
        }
    }

    /// The question with it.
    #[must_use]
    pub fn apply(&self, request: &Request) -> Request {
        let mut changed = request.clone();
        if let Some(release) = self.release {
            changed.release = release;
        }
        if let Some(usage) = self.usage {
            changed.usage = usage;
        }
        match &self.flag {
            Some((name, Value::Null)) => {
                changed.args.unmodelled.retain(|known| known != name);
                match name.parse::<Flag>() {
                    Ok(flag) => changed.args.clear(flag),
                    // there is nothing else that null is not taken for
                    Err(()) => drop(changed.args.set_by_name(name, &Value::Null)),
                }
                if name == SPECULATIVE_CONFIG {
                    changed.args.spec_flags.clear();
                }
            }
            // every value of the list is of its flag's type
            Some((name, value)) => drop(changed.args.set_by_name(name, value)),
            None => {}
        }
        changed
    }
}

/// Values that are tried of the flags that take numbers.
const NUMBERS: [(Flag, &[i64]); 9] = [
    (
        Flag::MaxNumBatchedTokens,
        &[512, 1024, 2048, 4096, 8192, 10240, 16384, 32768, 65536],
    ),
    (Flag::MaxNumSeqs, &[1, 4, 16, 32, 64, 128, 256, 512, 1024]),
    (Flag::BlockSize, &[16, 32, 64, 128, 256]),
    (Flag::TensorParallelSize, &[1, 2, 4, 8, 16]),
    (Flag::PipelineParallelSize, &[1, 2, 4]),
    (Flag::DecodeContextParallelSize, &[1, 2, 4, 8]),
    (Flag::DataParallelSize, &[1, 2, 4, 8]),
    (Flag::PrefillContextParallelSize, &[1, 2, 4]),
    (Flag::CpKvCacheInterleaveSize, &[1, 64]),
];
const SWITCHES: [Flag; 4] = [
    Flag::AsyncScheduling,
    Flag::EnablePrefixCaching,
    Flag::DisableHybridKvCacheManager,
    Flag::EnableExpertParallel,
];

/// Everything that is tried.
fn list(request: &Request, evidence: &Evidence) -> Vec<Closing> {
    let mut all = Vec::new();
    let set = |name: &str, value: Value| Closing {
        flag: Some((name.to_owned(), value)),
        ..Closing::NONE
    };
    for name in &request.args.unmodelled {
        all.push(set(name, Value::Null));
    }
    for tokens in 1..=4 {
        let drafter = [
            ("method", Value::String("mtp".to_owned())),
            ("num_speculative_tokens", Value::Integer(tokens)),
        ];
        let drafter = drafter.map(|(key, value)| (key.to_owned(), value));
        all.push(set(SPECULATIVE_CONFIG, Value::Object(drafter.to_vec())));
    }
    if request.args.speculative_config.is_some() || !request.args.spec_flags.is_empty() {
        all.push(set(SPECULATIVE_CONFIG, Value::Null));
    }
    let near = Release::ALL
        .into_iter()
        .rev()
        .filter(|release| *release != request.release);
    all.extend(near.map(|release| Closing {
        release: Some(release),
        ..Closing::NONE
    }));
    for (flag, values) in NUMBERS {
        all.extend(
            values
                .iter()
                .map(|value| set(flag.name(), Value::Integer((*value).into()))),
        );
    }
    if let Some(length) = evidence.max_model_len {
        all.push(set(Flag::MaxModelLen.name(), Value::Integer(length.into())));
    }
    for flag in SWITCHES {
        all.extend([true, false].map(|on| set(flag.name(), Value::Bool(on))));
    }
    let dtypes = request.release.profile().cache_dtypes.iter();
    all.extend(dtypes.map(|dtype| {
        set(
            Flag::KvCacheDtype.name(),
            Value::String(dtype.as_str().to_owned()),
        )
    }));
    all.push(Closing {
        usage: Some(match request.usage {
            Usage::Server => Usage::Llm,
            Usage::Llm => Usage::Server,
        }),
        ..Closing::NONE
    });
    all
}

/// Each that makes every figure equal.
pub(super) fn find(request: &Request, evidence: &Evidence) -> Vec<Closing> {
    // a word of tokens alone can be met by a pool of any question's
    let says_much =
        evidence.pool.available.is_some() || evidence.needed.is_some() || evidence.error.is_some();
    if !says_much && evidence.max_model_len.is_none() && evidence.batched_tokens.is_none() {
        return Vec::new();
    }
    list(request, evidence)
        .into_iter()
        .filter(|closing| {
            // what the log says itself is no assumption
            if closing.release.is_some() && evidence.has_release
                || closing.usage.is_some() && evidence.has_usage
            {
                return false;
            }
            let changed = closing.apply(request);
            // what is the same question closes nothing
            let figures = if changed == *request {
                Vec::new()
            } else {
                evidence.compare(&changed)
            };
            !figures.is_empty() && figures.iter().all(|figure| figure.agrees)
        })
        .collect()
}

/// The share of the GPU, in hundredths, that would leave what was available by the likeliest estimate, where the
/// one that was asked leaves another pool even at the ends of its estimate.
pub(super) fn utilization(request: &Request, evidence: &Evidence) -> Option<u32> {
    let open = without_pool(request);
    let mut base = resolve_quietly(&open).ok()?;
    let available = evidence.pool.available_beside(&base)?;
    let covers = |pool: Interval| pool.low <= available.high && available.low <= pool.high;
    if covers(budget(&open, &base).ok()?.pool) {
        return None;
    }
    let mut best = None;
    for hundredths in 30..=99 {
        base.gpu_memory_utilization = f64::from(hundredths) / 100.0;
        let pool = budget(&open, &base).ok()?.pool;
        let gap = (pool.likely - available.likely).abs();
        if covers(pool) && best.is_none_or(|(least, _)| gap < least) {
            best = Some((gap, hundredths));
        }
    }
    best.map(|(_, hundredths)| hundredths)
}
