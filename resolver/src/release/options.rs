//! The options of `vllm serve`, as its parser takes them. The names and kinds are those of the parsers of the
//! fourteen releases themselves (`resolver/tables/options.txt`, which `tests/oracle/options.py` dumps).

use super::engine_args::FlagNames;
use super::masks::{ALL, ReleaseBit, from, only};

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One value.
    Value,
    /// One value or more.
    Values,
    /// At most one value.
    MayValue,
    /// None: the option turns it on or off.
    Switch(bool),
}

/// An option that the parser knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CliOption {
    /// The name that the parser keeps it under: for the engine's flags, that in `EngineArgs`.
    pub name: &'static str,
    /// What follows it.
    pub takes: Takes,
    /// Whether it is the engine's; others are the server's around it.
    pub is_engine: bool,
}

/// An option that the parser does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionError {
    /// There is none of this name.
    Unknown,
    /// It is the beginning of several, these two among them.
    Ambiguous(&'static str, &'static str),
}

/// A release's options.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    names: FlagNames,
    bit: ReleaseBit,
}

/// Short names, which stand for themselves alone.
const SHORT: [(&str, &str, u16); 23] = [
    ("-ac", "attention_config", ALL),
    ("-asc", "api_server_count", ALL),
    ("-cc", "compilation_config", ALL),
    ("-dc", "diffusion_config", from(4)),
    ("-dcp", "decode_context_parallel_size", ALL),
    ("-dp", "data_parallel_size", ALL),
    ("-dpa", "data_parallel_address", ALL),
    ("-dpb", "data_parallel_backend", ALL),
    ("-dpe", "data_parallel_external_lb", ALL),
    ("-dph", "data_parallel_hybrid_lb", ALL),
    ("-dpl", "data_parallel_size_local", ALL),
    ("-dpm", "data_parallel_multi_port_external_lb", from(2)),
    ("-dpn", "data_parallel_rank", ALL),
    ("-dpp", "data_parallel_rpc_port", ALL),
    ("-dpr", "data_parallel_start_rank", ALL),
    ("-ep", "enable_expert_parallel", ALL),
    ("-h", "help", ALL),
    ("-n", "nnodes", ALL),
    ("-pcp", "prefill_context_parallel_size", ALL),
    ("-pp", "pipeline_parallel_size", ALL),
    ("-q", "quantization", ALL),
    ("-r", "node_rank", ALL),
    ("-sc", "speculative_config", ALL),
];
/// The most usual one, apart: it has a second long name beside it in this table.
const OTHER: [(&str, &str, u16); 2] = [
    ("-tp", "tensor_parallel_size", ALL),
    (
        "--device-memory-utilization",
        "gpu_memory_utilization",
        from(11),
    ),
];

/// The server's own, by what follows them.
const SERVER: [(u16, Shape, &str); 12] = [
    (ALL, Shape::Values, "api_key\nlora_modules"),
    (from(11), Shape::Switch, "trust_request_mm_kwargs"),
    (from(10), Shape::Switch, "enable_scale_out"),
    (from(7), Shape::Switch, "cohere_is_reasoning_model"),
    (from(5), Shape::Switch, "enable_per_request_metrics"),
    (
        ALL,
        Shape::Switch,
        "allow_credentials\ndisable_fastapi_docs\ndisable_uvicorn_access_log\nenable_auto_tool_choice\n\
         enable_flash_late_interaction\nenable_force_include_usage\nenable_log_deltas\nenable_log_outputs\n\
         enable_log_requests\nenable_offline_docs\nenable_prompt_tokens_details\nenable_request_id_headers\n\
         enable_server_load_tracking\nenable_ssl_refresh\nenable_tokenizer_info_endpoint\n\
         exclude_tools_when_tool_choice_none\nlog_error_stack\nreturn_tokens_as_token_ids\n\
         trust_request_chat_template",
    ),
    (ALL, Shape::On, "grpc\nheadless\nhelp"),
    (
        ALL,
        Shape::Value,
        "allowed_headers\nallowed_methods\nallowed_origins\napi_server_count\nchat_template\n\
         chat_template_content_format\nconfig\ndefault_chat_template_kwargs\n\
         disable_access_log_for_endpoints\nh11_max_header_count\nh11_max_incomplete_event_size\nhost\n\
         max_log_len\nmiddleware\nport\nresponse_role\nroot_path\nssl_ca_certs\nssl_cert_reqs\nssl_certfile\n\
         ssl_ciphers\nssl_keyfile\ntool_call_parser\ntool_parser_plugin\ntool_server\nuds\nuvicorn_log_level",
    ),
    (
        from(2),
        Shape::Value,
        "data_parallel_supervisor_port\ndp_supervisor_probe_failure_threshold\n\
         dp_supervisor_probe_interval_s\ndp_supervisor_probe_timeout_s",
    ),
    (
        from(11),
        Shape::Value,
        "anthropic_disabled_thinking_effort\ntool_strict_level",
    ),
    (ALL & !from(11), Shape::Value, "log_config_file"),
    (only(13), Shape::Value, "reasoning_effort_map"),
];
/// The server's, of a few releases each.
const SERVER_LATER: [(u16, Shape, &str); 4] = [
    (from(12), Shape::Value, "grpc_port"),
    (from(9), Shape::Value, "sse_keep_alive_interval"),
    (from(7), Shape::Value, "cohere_format"),
    (from(1), Shape::Value, "fingerprint_mode\nfingerprint_value"),
];

/// The engine's that take something else than one value.
const ENGINE: [(Shape, &str); 5] = [
    (
        Shape::Values,
        "allowed_media_domains\ncollect_detailed_traces\ncpu_offload_params\ncudagraph_capture_sizes\n\
         ignore_patterns\nkv_cache_dtype_skip_layers\nlogits_processors\nlora_target_modules\nnuma_bind_cpus\n\
         numa_bind_nodes\noffload_params\nserved_model_name\nsleep_preserve_parameter_names",
    ),
    (Shape::MayValue, "hf_token"),
    (
        Shape::On,
        "aggregate_engine_logging\ndata_parallel_multi_port_external_lb\ndisable_log_stats",
    ),
    (
        Shape::Nothing,
        "_api_process_count\n_api_process_rank\nenable_mm_processor_stats\nmamba_config\nmodel_weights",
    ),
    (
        Shape::Switch,
        "allow_deprecated_quantization\nasync_scheduling\ncalculate_kv_scales\n\
         cudagraph_metrics\ndata_parallel_external_lb\ndata_parallel_hybrid_lb\ndcp_q_replicate\n\
         disable_cascade_attn\ndisable_chunked_mm_input\ndisable_custom_all_reduce\n\
         disable_hybrid_kv_cache_manager\ndisable_nccl_for_dp_synchronization\ndisable_sliding_window\n\
         enable_batch_sharded_sampling\nenable_bf16x3_router_gemm\nenable_chunked_prefill\n\
         enable_cumem_allocator\nenable_dbo\nenable_elastic_ep\nenable_ep_weight_filter\nenable_eplb\n\
         enable_expert_parallel\nenable_fault_tolerance\nenable_flashinfer_autotune\nenable_hc_sp\n\
         enable_layerwise_nvtx_tracing\nenable_logging_iteration_details\nenable_lora\n\
         enable_mamba_cache_stochastic_rounding\nenable_mamba_fine_grained_prefix_cache\n\
         enable_mamba_shared_prefix_checkpoint\nenable_mfu_metrics\nenable_mixed_moe_lora_format\n\
         enable_mm_embeds\nenable_moe_shared_loras\nenable_nccl_comm_suspend\nenable_prefix_caching\n\
         enable_prompt_embeds\nenable_return_routed_experts\nenable_shm_tensor_arena\nenable_sleep_mode\n\
         enable_tower_connector_lora\nenable_trace_replay\nenforce_eager\nfail_on_environ_validation\n\
         fully_sharded_loras\ninterleave_mm_strings\njit_monitor_verbose\nkv_cache_metrics\n\
         kv_sharing_fast_prefill\nlanguage_model_only\nlong_prefill_token_threshold_adaptive\n\
         mm_device_do_normalize\nmm_encoder_only\nmonokernel\nnuma_bind\nray_workers_use_nsight\n\
         return_sampling_mask\nscheduler_reserve_full_isl\nskip_mm_profiling\nskip_tokenizer_init\n\
         sleep_mode_offload_cudagraph\nspecialize_active_lora\nswa_bounded_replay\ntokens_only\n\
         trust_remote_code\nuse_fp64_gumbel\nuse_replayssm\nuse_tqdm_on_load",
    ),
];
/// The releases whose parser does not know it, though their `EngineArgs` does.
const HIDDEN: (&str, u16) = ("quantization_config", ALL & !from(2));
/// Since 0.33 `--disable-x` turns `--enable-x` off, and the other way round:
/// `vllm/utils/argparse_utils.py` `EnableDisableAction`.
const INVERSES: u16 = from(13);

/// How an option is declared.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Value,
    Values,
    MayValue,
    /// `--x` and `--no-x`.
    Switch,
    /// `--x` alone.
    On,
    /// The parser has none.
    Nothing,
}

impl Options {
    pub(super) const fn of(names: FlagNames, bit: u32) -> Self {
        Self {
            names,
            bit: ReleaseBit(bit),
        }
    }

    /// The option of this spelling, dashes and all (`--kv-cache-dtype`, `-tp`), or the one that it is the
    /// beginning of. Mirrors `argparse` `ArgumentParser._parse_optional` and `_get_option_tuples`.
    ///
    /// # Errors
    /// That there is none, or more than one.
    pub fn find(self, spelled: &str) -> Result<CliOption, OptionError> {
        if let Some(option) = self.exact(spelled) {
            return Ok(option);
        }
        let mut found: Option<CliOption> = None;
        let mut other = None;
        self.each(spelled, &mut |spelling, option| {
            if spelling.begins(spelled) {
                match found {
                    None => found = Some(option),
                    Some(first) if other.is_none() => other = Some((first.name, option.name)),
                    Some(_) => {}
                }
            }
        });
        match (found, other) {
            (_, Some((one, two))) => Err(OptionError::Ambiguous(one, two)),
            (Some(option), None) => Ok(option),
            (None, None) => Err(OptionError::Unknown),
        }
    }

    /// The option of exactly this spelling.
    #[must_use]
    pub fn exact(self, spelled: &str) -> Option<CliOption> {
        let mut found = None;
        self.each(spelled, &mut |spelling, option| {
            if found.is_none() && spelling.is(spelled) {
                found = Some(option);
            }
        });
        found
    }

    /// A flag of the engine or the server by the name that the parser keeps it under.
    #[must_use]
    pub fn named(self, name: &str) -> Option<CliOption> {
        let mut found = None;
        let spelled = ["--", &name.replace('_', "-")].concat();
        self.each(&spelled, &mut |spelling, option| {
            if option.name == name && spelling.before == "--" {
                found = Some(option);
            }
        });
        found
    }

    /// Every spelling with its option, or at least those that begin so.
    fn each(self, wanted: &str, see: &mut dyn FnMut(Spelling, CliOption)) {
        let server = SERVER.iter().chain(&SERVER_LATER);
        for (releases, shape, names) in server {
            if self.bit.is_in(*releases) {
                for name in names.lines() {
                    self.spell(name, *shape, false, see);
                }
            }
        }
        for name in self.names.names() {
            if may_be(name, wanted) && !(name == HIDDEN.0 && self.bit.is_in(HIDDEN.1)) {
                self.spell(name, shape_of(name), true, see);
            }
        }
        for (short, name, releases) in SHORT.iter().chain(&OTHER) {
            if self.bit.is_in(*releases) && short.starts_with(wanted) {
                let shape = shape_of(name);
                let option = CliOption {
                    name,
                    takes: match shape {
                        Shape::Switch | Shape::On => Takes::Switch(true),
                        _ => Takes::Value,
                    },
                    is_engine: !matches!(*short, "-asc" | "-h"),
                };
                let option = if *short == "-h" {
                    CliOption {
                        takes: Takes::Switch(true),
                        ..option
                    }
                } else {
                    option
                };
                see(Spelling::short(short), option);
            }
        }
    }

    fn spell(
        self,
        name: &'static str,
        shape: Shape,
        is_engine: bool,
        see: &mut dyn FnMut(Spelling, CliOption),
    ) {
        let option = |takes| CliOption {
            name,
            takes,
            is_engine,
        };
        let long = |before, name| Spelling { before, name };
        match shape {
            Shape::Nothing => {}
            Shape::Value => see(long("--", name), option(Takes::Value)),
            Shape::Values => see(long("--", name), option(Takes::Values)),
            Shape::MayValue => see(long("--", name), option(Takes::MayValue)),
            Shape::On => see(long("--", name), option(Takes::Switch(true))),
            Shape::Switch => {
                see(long("--", name), option(Takes::Switch(true)));
                see(long("--no-", name), option(Takes::Switch(false)));
                if self.bit.is_in(INVERSES) {
                    if let Some(rest) = name.strip_prefix("enable_") {
                        see(long("--disable-", rest), option(Takes::Switch(false)));
                    } else if let Some(rest) = name.strip_prefix("disable_") {
                        see(long("--enable-", rest), option(Takes::Switch(false)));
                    }
                }
            }
        }
    }
}

/// Whether some spelling of a name begins so, if it has that spelling: its shape takes longer to look up.
fn may_be(name: &'static str, wanted: &str) -> bool {
    let begins = |before, name| Spelling { before, name }.begins(wanted);
    let inverse = |part, before| {
        let rest = name.strip_prefix(part);
        rest.is_some_and(|rest| begins(before, rest))
    };
    begins("--", name)
        || begins("--no-", name)
        || inverse("enable_", "--disable-")
        || inverse("disable_", "--enable-")
}

fn shape_of(name: &str) -> Shape {
    let listed = ENGINE
        .iter()
        .find(|(_, names)| names.lines().any(|known| known == name));
    listed.map_or(Shape::Value, |(shape, _)| *shape)
}

/// One spelling: what comes before a name, and the name, in which underscores are dashes.
#[derive(Clone, Copy)]
struct Spelling {
    before: &'static str,
    name: &'static str,
}

impl Spelling {
    const fn short(name: &'static str) -> Self {
        Self { before: "", name }
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        let name = self.name.bytes();
        self.before
            .bytes()
            .chain(name.map(|byte| if byte == b'_' { b'-' } else { byte }))
    }

    fn is(self, spelled: &str) -> bool {
        self.before.len() + self.name.len() == spelled.len() && self.begins(spelled)
    }

    fn begins(self, spelled: &str) -> bool {
        self.before.len() + self.name.len() >= spelled.len()
            && self.bytes().zip(spelled.bytes()).all(|(a, b)| a == b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Release;

    const DUMP: &str = include_str!("../../tables/options.txt");

    fn dumped(bit: usize) -> Vec<(&'static str, &'static str, &'static str)> {
        DUMP.lines()
            .map(|line| {
                let parts: Vec<&str> = line.split(' ').collect();
                (
                    u16::from_str_radix(parts[0], 16).unwrap(),
                    parts[1],
                    parts[2],
                    parts[3],
                )
            })
            .filter(|(mask, ..)| mask & (1 << bit) != 0)
            .map(|(_, option, name, kind)| (option, name, kind))
            .collect()
    }

    #[test]
    fn every_release_has_the_options_of_its_own_parser_and_no_others() {
        for (bit, release) in Release::ALL.into_iter().enumerate() {
            let options = release.options();
            let dumped = dumped(bit);
            for (spelled, name, kind) in &dumped {
                let found = options.find(spelled);
                let takes = match *kind {
                    "value" => Takes::Value,
                    "values" => Takes::Values,
                    "may" => Takes::MayValue,
                    _ => Takes::Switch(
                        !spelled.starts_with("--no-")
                            && spelled.starts_with("--enable-") == name.starts_with("enable_")
                            || !spelled.starts_with("--no-") && !spelled.contains("able-"),
                    ),
                };
                let found = found.unwrap_or_else(|error| panic!("{release} {spelled}: {error:?}"));
                assert_eq!(found.name, *name, "{release} {spelled}");
                if !spelled.starts_with('-') || spelled.starts_with("--") {
                    assert_eq!(found.takes, takes, "{release} {spelled}");
                }
            }
            let mut count = 0;
            options.each("", &mut |_, _| count += 1);
            assert_eq!(
                count,
                dumped.len() - usize::from(has_help(&dumped)),
                "{release}"
            );
        }
    }

    /// `--help` and `-h` are both of the dump.
    fn has_help(dumped: &[(&str, &str, &str)]) -> bool {
        !dumped.iter().any(|(option, ..)| *option == "--help")
    }

    #[test]
    fn a_beginning_is_taken_where_it_is_of_one_alone() {
        let latest = Release::LATEST.options();
        for (spelled, name) in [
            ("--tensor-parallel", "tensor_parallel_size"),
            ("--enable-expert-paralle", "enable_expert_parallel"),
            ("--gpu-memory-util", "gpu_memory_utilization"),
            ("-t", "tensor_parallel_size"),
            ("--max-num-b", "max_num_batched_tokens"),
        ] {
            assert_eq!(latest.find(spelled).map(|option| option.name), Ok(name));
        }
        assert!(matches!(
            latest.find("--max-num"),
            Err(OptionError::Ambiguous(..))
        ));
        assert!(matches!(latest.find("-d"), Err(OptionError::Ambiguous(..))));
        assert_eq!(latest.find("--gpu-util"), Err(OptionError::Unknown));
        let off = latest.find("--disable-prefix-caching").unwrap();
        assert_eq!(
            (off.name, off.takes),
            ("enable_prefix_caching", Takes::Switch(false))
        );
        assert_eq!(
            Release::V0_32_0.options().find("--disable-prefix-caching"),
            Err(OptionError::Unknown)
        );
    }
}
