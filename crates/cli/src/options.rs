//! The options of the commands that ask: their own, and those of `vllm serve`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgGroup, Command};
use kv_resolver::release::engine_args;
use kv_resolver::{Flag, FlagKind, Release};

use crate::drafting;

/// vLLM's short options of several letters, which clap does not know.
const SHORT: [(&str, &str); 7] = [
    ("-tp", "--tensor-parallel-size"),
    ("-dp", "--data-parallel-size"),
    ("-dcp", "--decode-context-parallel-size"),
    ("-pp", "--pipeline-parallel-size"),
    ("-pcp", "--prefill-context-parallel-size"),
    ("-ep", "--enable-expert-parallel"),
    ("-sc", "--speculative-config"),
];

/// Options of the server around the engine, each with a value; none reaches the KV cache.
/// `vllm/entrypoints/common/cli_args.py` `FrontendArgs`.
const SERVER: [&str; 12] = [
    "host",
    "port",
    "uds",
    "api-key",
    "root-path",
    "uvicorn-log-level",
    "chat-template",
    "chat-template-content-format",
    "response-role",
    "tool-call-parser",
    "ssl-keyfile",
    "ssl-certfile",
];

/// Those without a value.
const SERVER_SWITCHES: [&str; 6] = [
    "enable-auto-tool-choice",
    "enable-log-requests",
    "enable-log-outputs",
    "enable-prompt-tokens-details",
    "disable-uvicorn-access-log",
    "disable-fastapi-docs",
];

/// `--kv_cache_dtype` as `--kv-cache-dtype`, `-tp` as `--tensor-parallel-size`:
/// vLLM takes both spellings.
pub fn normalise(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    drafting::join_dotted(arguments.collect())
        .into_iter()
        .map(|argument| {
            let Some(text) = argument.to_str() else {
                return argument;
            };
            let (name, rest) = match text.split_once('=') {
                Some((name, value)) => (name, format!("={value}")),
                None => (text, String::new()),
            };
            if let Some((_, option)) = SHORT.iter().find(|(short, _)| *short == name) {
                return format!("{option}{rest}").into();
            }
            if !name.starts_with("--") {
                return argument;
            }
            let name = name.replace('_', "-");
            // a switch that has no rule here, turned off
            match name.strip_prefix("--no-") {
                Some(off) if unruled().any(|known| known.replace('_', "-") == off) => {
                    format!("--{off}=false").into()
                }
                // on or off, it is not looked at
                Some(off) if SERVER_SWITCHES.contains(&off) => format!("--{off}").into(),
                _ => format!("{name}{rest}").into(),
            }
        })
        .collect()
}

/// `kvx show`
pub fn show() -> Command {
    let command = Command::new("show").about("Answer one question, readably");
    question(command.arg(release()), Needs::ModelAndGpu)
}

/// `kvx plan`
pub fn plan() -> Command {
    let command = Command::new("plan")
        .about("From a GPU to a pool: what is left for the KV cache, what it holds, what to change")
        .after_help(
            "Without --pool, --log or --kv-cache-memory-bytes the pool is estimated: an interval, for only a \
             start-up measures it.",
        )
        .arg(release())
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("FILE")
                .conflicts_with("pool")
                .help("Lines of vLLM's own log (or -), which say what was left"),
        )
        .arg(
            Arg::new("free")
                .long("free")
                .value_name("SIZE")
                .allow_hyphen_values(true)
                .help("What is free on each GPU before vLLM starts, if something else runs there"),
        )
        .arg(
            Arg::new("mean-length")
                .long("mean-length")
                .value_name("TOKENS")
                .allow_hyphen_values(true)
                .help("How many requests of this length fit, instead of a list"),
        );
    question(command, Needs::ModelAndGpu)
}

/// `kvx layout`
pub fn layout() -> Command {
    let command = Command::new("layout")
        .about("What each kind of layer's page is made of, to the byte")
        .after_help("With --pool the strides between layers are told where they follow from it.")
        .arg(release())
        .arg(
            Arg::new("c")
                .long("c")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("As comments for C"),
        );
    question(command, Needs::ModelAndGpu)
}

/// `kvx native`
pub fn native() -> Command {
    let command = Command::new("native")
        .about("The KV cache in real memory: holds this machine against the plan and vLLM's own pages")
        .after_help(
            "Without a model the plan is DeepSeek V4 Flash's in fp8, in a pool of 1 GiB. Kernels are compiled by \
             NVRTC, which KVX_NVRTC names where the system does not find it.",
        )
        .arg(release())
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Run the suite and print a receipt"),
        )
        .arg(
            Arg::new("plan")
                .long("plan")
                .action(ArgAction::SetTrue)
                .help("Print the plan that memory obeys: name, group, offset, block stride and page bytes of each layer"),
        )
        .group(ArgGroup::new("what").args(["check", "plan"]).required(true))
        .arg(
            Arg::new("memory")
                .long("memory")
                .value_name("auto|host|cuda")
                .value_parser(["auto", "host", "cuda"])
                .default_value("auto")
                .help("Where: the first GPU's memory if there is CUDA, or the host's"),
        );
    question(command, Needs::Nothing)
}

fn release() -> Arg {
    Arg::new("release")
        .long("release")
        .value_name("VERSION")
        .default_value(Release::LATEST.version())
        .help("vLLM's version")
}

/// `kvx diff`
pub fn diff() -> Command {
    let command = Command::new("diff")
        .about("What changed from one release to another, over GPUs and cache dtypes")
        .after_help(
            "Without --gpu and --kv-cache-dtype every GPU of the catalog and every dtype is asked.",
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("VERSION")
                .required(true)
                .help("The vLLM release to compare with"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("VERSION")
                .default_value(Release::LATEST.version())
                .help("The other one"),
        );
    question(command, Needs::Model)
}

/// What must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    ModelAndGpu,
    Model,
    Nothing,
}

/// What is asked of all: a model, a GPU, a pool and the engine's flags.
fn question(command: Command, needs: Needs) -> Command {
    let gpu = Arg::new("gpu")
        .long("gpu")
        .value_name("KEY")
        .help("A GPU of the catalog (`kvx gpus`)");
    let gpu = if needs == Needs::ModelAndGpu {
        gpu.required_unless_present("cc")
    } else {
        gpu
    };
    let model = Arg::new("model")
        .long("model")
        .value_name("ID|PATH")
        .help("A model of the catalog, or a config.json (or a folder that holds one)");
    let model = if needs == Needs::Nothing {
        model
    } else {
        model.required_unless_present("model-tag")
    };
    let command = command
        .arg(model)
        .arg(
            Arg::new("model-tag")
                .value_name("MODEL")
                .conflicts_with("model")
                .help("The same, as `vllm serve MODEL` takes it"),
        )
        .arg(gpu)
        .arg(
            Arg::new("cc")
                .long("cc")
                .value_name("MAJOR.MINOR")
                .conflicts_with("gpu")
                .requires("gpu-memory-gib")
                .help("Another GPU: its compute capability …"),
        )
        .arg(
            Arg::new("gpu-memory-gib")
                .long("gpu-memory-gib")
                .value_name("GIB")
                .requires("cc")
                // clap takes back what is required where that cannot be beside --gpu
                .conflicts_with("gpu")
                .allow_hyphen_values(true)
                .help("… its total memory in GiB …"),
        )
        .arg(
            Arg::new("gpu-name")
                .long("gpu-name")
                .value_name("NAME")
                .requires("cc")
                .conflicts_with("gpu")
                .help("… and its name"),
        )
        .arg(
            Arg::new("pool")
                .long("pool")
                .value_name("SIZE")
                // our own error says of which option it is
                .allow_hyphen_values(true)
                // in vLLM that flag is the pool
                .conflicts_with(Flag::KvCacheMemoryBytes.name())
                .help("What is left for the KV cache on each GPU: 40GiB, 512MiB, 1TiB or bytes"),
        )
        .arg(
            Arg::new("usage")
                .long("usage")
                .value_name("server|llm")
                .default_value("server")
                .help("Whose defaults apply: vllm serve's or the LLM class's"),
        )
        .arg(
            Arg::new("env")
                .long("env")
                .short('e')
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("An environment variable"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("The raw answer, indented"),
        );
    engine(command)
}

/// What is passed to the engine, and to the server around it.
fn engine(mut command: Command) -> Command {
    for flag in Flag::ALL {
        command = command.arg(known(flag));
        if flag.kind() == FlagKind::Bool {
            command = command.arg(
                Arg::new(format!("no_{}", flag.name()))
                    .long(format!("no-{}", flag.name().replace('_', "-")))
                    .help_heading(HEADING)
                    .action(ArgAction::SetTrue)
                    .overrides_with(flag.name())
                    .hide(true),
            );
        }
    }
    for option in drafting::options() {
        command = command.arg(option.help_heading(HEADING));
    }
    for name in unruled() {
        command = command.arg(
            Arg::new(name)
                .long(name.replace('_', "-"))
                .num_args(0..=1)
                .default_missing_value("true")
                .hide(true),
        );
    }
    for name in SERVER {
        command = command.arg(Arg::new(name).long(name).hide(true));
    }
    for name in SERVER_SWITCHES {
        let switch = Arg::new(name).long(name).action(ArgAction::SetTrue);
        command = command.arg(switch.hide(true));
    }
    command
}

const HEADING: &str = "Flags of vllm serve";

fn known(flag: Flag) -> Arg {
    let arg = Arg::new(flag.name())
        .long(flag.option().trim_start_matches('-').to_owned())
        .help_heading(HEADING)
        .help(flag.help());
    match flag.kind() {
        FlagKind::Bool => arg.action(ArgAction::SetTrue),
        FlagKind::Text => arg.value_name("TEXT"),
        FlagKind::List => arg.value_name("WORD").num_args(1..),
        FlagKind::Integer | FlagKind::HumanInteger => arg.value_name("N").allow_hyphen_values(true),
        FlagKind::Float => arg.value_name("X").allow_hyphen_values(true),
    }
}

/// Flags that some release takes and the resolver has no rule for.
pub fn unruled() -> impl Iterator<Item = &'static str> {
    engine_args::every_name().filter(|name| {
        name.parse::<Flag>().is_err() && !drafting::is_read(name) && *name != "model"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_without_a_rule_takes_no_flag_for_its_value() {
        let given = "show meta/x --gpu h200 --enable-lora --kv-cache-dtype=fp8 \
                     --trust-remote-code --no-skip-tokenizer-init --no-enable-log-requests --json --port 8000 -ep \
                     --kv-cache-dtype-skip-layers 0 1";
        let matches = show()
            .try_get_matches_from(normalise(given.split_whitespace().map(OsString::from)))
            .unwrap();
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        assert_eq!(text("enable_lora"), Some("true"));
        assert!(matches.get_flag("trust_remote_code"));
        assert_eq!(text("skip_tokenizer_init"), Some("false"));
        assert_eq!(text("kv_cache_dtype"), Some("fp8"));
        assert_eq!(text("model-tag"), Some("meta/x"));
        assert!(matches.get_flag("json") && matches.get_flag("enable_expert_parallel"));
        let skipped = matches.get_many::<String>("kv_cache_dtype_skip_layers");
        assert_eq!(skipped.map(Iterator::count), Some(2));
    }

    #[test]
    fn both_spellings_and_short_options_are_taken() {
        let given = [
            "kvx",
            "show",
            "--kv_cache_dtype=fp8_e4m3",
            "-tp",
            "8",
            "-dcp=2",
        ];
        let normal = normalise(given.iter().map(OsString::from));
        assert_eq!(
            normal,
            [
                "kvx",
                "show",
                "--kv-cache-dtype=fp8_e4m3",
                "--tensor-parallel-size",
                "8",
                "--decode-context-parallel-size=2"
            ]
        );
    }
}
