//! On what an answer stands: which of vLLM's own recorded answers are of its kind.

use crate::dtype::CacheDtype;
use crate::gpu::Arch;
use crate::model::Model;
use crate::request::Request;

/// What sets kinds of questions apart. Answers of one kind follow from the same rules;
/// sizes (lengths, pools, numbers of ranks) set none apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// vLLM's version.
    pub release: &'static str,
    /// `architectures[0]`
    pub architecture: String,
    /// Architecture of the GPU and the dtype as asked.
    cell: String,
    /// What is asked beside, such as ` +pp +mtp`.
    beside: String,
}

impl Signature {
    /// A question's; `None` for what no release could be asked.
    #[must_use]
    pub fn of(request: &Request) -> Option<Self> {
        let arch = request.gpu.capability.arch()?;
        let args = &request.args;
        let dtype = args.kv_cache_dtype.as_deref().unwrap_or("auto");
        let mut asked = String::new();
        let several = |size: Option<i64>| size.is_some_and(|size| size > 1);
        let beside = [
            (several(args.pipeline_parallel_size), " +pp"),
            (several(args.decode_context_parallel_size), " +dcp"),
            (several(args.prefill_context_parallel_size), " +pcp"),
            (several(args.data_parallel_size), " +dp"),
            (args.enable_expert_parallel == Some(true), " +ep"),
            (args.attention_backend.is_some(), " +backend"),
        ];
        for (is_asked, name) in beside {
            if is_asked {
                asked.push_str(name);
            }
        }
        if let Some(method) = args.draft_method() {
            asked.push_str(" +");
            asked.push_str(method);
        }
        Some(Self {
            release: request.release.version(),
            architecture: Model::architecture(&request.hf_config)?.to_owned(),
            cell: cell(arch, dtype),
            beside: asked,
        })
    }

    /// The same question on another GPU, with another dtype.
    #[must_use]
    pub fn with(&self, arch: Arch, dtype: CacheDtype) -> Self {
        Self {
            cell: cell(arch, dtype.as_str()),
            ..self.clone()
        }
    }

    /// What sets it apart among those of its release and architecture, such as
    /// `SM90 fp8 +pp +mtp`.
    #[must_use]
    pub fn within(&self) -> String {
        [self.cell.as_str(), &self.beside].concat()
    }
}

fn cell(arch: Arch, dtype: &str) -> String {
    format!("{arch} {dtype}")
}
