//! The chosen cell's whole answer.

use std::sync::Arc;

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::changes::{Changes, changes};
use kv_resolver::diff::{Standing, across};
use kv_resolver::memory::{self, Planned, PrintedCheck, PrintedPool};
use kv_resolver::speculation::{Drafter, drafter};
use kv_resolver::{CacheDtype, Outcome, Refusal, Request, Resolution, StartupError};

use crate::asked::Asked;
use crate::pool::AskedPool;
use crate::text;

/// The whole answer for the chosen cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What was asked.
    pub asked: Arc<Asked>,
    /// On which GPU.
    pub gpu: &'static CatalogGpu,
    /// With which dtype.
    pub dtype: CacheDtype,
    /// What vLLM would do; at the likeliest pool, where there is none to be sure of.
    pub result: Result<Resolution, StartupError>,
    /// The pool, what it holds and what to change; why there is none; `None` where
    /// vLLM stops before it looks at its memory.
    pub memory: Option<Result<Memory, String>>,
    /// The drafter, if there is one and it starts.
    pub drafter: Option<Drafter>,
    /// What every release would do.
    pub standing: Vec<Standing>,
}

/// From a GPU to a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// The answer without a pool.
    pub base: Resolution,
    /// The pool, and what its ends hold.
    pub planned: Planned,
    /// What to change.
    pub changes: Changes,
    /// What a log prints, if one does.
    pub printed: PrintedPool,
    /// Its tokens, held against its GiB.
    pub check: Option<PrintedCheck>,
    /// Whether several engines each have such a pool (data parallelism).
    pub is_replicated: bool,
}

impl Memory {
    fn new(request: &Request, base: Resolution, pool: AskedPool) -> Result<Self, Box<Refusal>> {
        let printed = match pool {
            AskedPool::Printed(printed) => printed,
            AskedPool::Estimated | AskedPool::Given(_) => PrintedPool::default(),
        };
        let interval = printed.pool(request)?;
        let planned = memory::plan_on(request, &base, interval)?;
        Ok(Self {
            changes: Changes::none(),
            check: printed.check(request, planned.pool, interval.is_some()),
            is_replicated: request.args.data_parallel_size.is_some_and(|size| size > 1),
            printed,
            planned,
            base,
        })
    }

    /// Tokens of the longest request that is taken, at the likeliest pool.
    pub fn length(&self) -> u64 {
        match &self.planned.likely().fit {
            Ok(fit) => fit.max_model_len,
            Err(_) => self.base.max_model_len,
        }
    }
}

impl Answer {
    /// Asks the resolver.
    pub fn new(asked: Arc<Asked>, gpu: &'static CatalogGpu, dtype: CacheDtype) -> Self {
        let mut answer = Self::quick(asked, gpu, dtype);
        let request = answer.request();
        if let Some(Ok(memory)) = &mut answer.memory {
            memory.changes = changes(&request, &memory.base, &memory.planned, &GPUS);
        }
        answer.standing = across(&request);
        answer
    }

    /// The same without what to change and what other releases do: what a sentence says.
    pub fn quick(asked: Arc<Asked>, gpu: &'static CatalogGpu, dtype: CacheDtype) -> Self {
        let request = asked.request(gpu, dtype);
        let open = memory::without_pool(&request);
        let opened = memory::if_free(&request, kv_resolver::resolve(&open));
        let memory = opened.as_ref().ok().map(|base| {
            let memory = Memory::new(&request, base.clone(), asked.pool);
            memory.map_err(|refusal| refusal.to_string())
        });
        let mut sized = open;
        let mut size = |pool: u64| {
            sized.available_memory = Some(pool);
            memory::if_free(&request, kv_resolver::resolve(&sized))
        };
        let mut result = match (&memory, request.available_memory) {
            (Some(Ok(memory)), _) if memory.planned.stops.is_some() => {
                let refusal = memory.planned.stops.as_deref();
                let Resolution { log, trace, .. } = &memory.base;
                refusal.map_or(opened, |refusal| {
                    Err(memory::stopped(&request, refusal, log, trace))
                })
            }
            // what stops it may be another thing than without a pool
            (_, Some(pool)) => size(pool),
            (Some(Ok(memory)), None) => size(memory.planned.likely().pool_bytes),
            (Some(Err(_)) | None, None) => opened,
        };
        if let Some(Ok(memory)) = &memory {
            memory::by_estimate(&request, &memory.planned, &mut result);
        }
        let resolution = result.as_ref().ok();
        Self {
            drafter: resolution.and_then(|resolution| drafter(&sized, resolution)),
            result,
            memory,
            standing: Vec::new(),
            asked,
            gpu,
            dtype,
        }
    }

    /// The question, as the resolver takes it.
    pub fn request(&self) -> Request {
        self.asked.request(self.gpu, self.dtype)
    }

    /// In one word.
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(resolution) => resolution.outcome,
            Err(error) => text::outcome_of(&error.refusal),
        }
    }

    /// The memory part, where there is one.
    pub fn planned(&self) -> Option<&Memory> {
        self.memory.as_ref()?.as_ref().ok()
    }
}
