//! What of a command was not taken as it stands.

use kv_resolver::Usage;

/// Something that was read and not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The release's parser has no such option.
    Unknown(String),
    /// It is the beginning of several options.
    Ambiguous {
        /// As written.
        option: String,
        /// One of those.
        one: &'static str,
        /// The last of those.
        two: &'static str,
    },
    /// An option that ends without its value.
    NoValue(String),
    /// A value for a switch that takes none.
    NotTaken {
        /// As written.
        option: String,
        /// Behind its `=`.
        value: String,
    },
    /// A value that is not of the option's type.
    Wrong {
        /// As written.
        option: String,
        /// Why.
        why: String,
    },
    /// A value that holds a variable or a command whose result is not in the text.
    Open {
        /// As written; empty for a word that belongs to no option.
        option: String,
        /// The value, as written.
        text: String,
    },
    /// A word that belongs to no option.
    Extra(String),
    /// A word that belongs to no option, right behind this one that is unknown: it may be a secret.
    Follows(String),
    /// `vllm serve` with names for the model before the model itself.
    NamesFirst,
    /// A file of options, which is not read.
    ConfigFile(String),
    /// A line that begins with an option: the shell ended the command before it.
    CutOff(String),
    /// A quote that is opened and not closed.
    OpenQuote,
    /// `EngineArgs` and `AsyncEngineArgs`: who makes an engine of them is not read, and this is taken.
    EngineArgs(Usage),
    /// A keyword that is passed on from a dictionary, which is not read.
    Spread(String),
}

impl Problem {
    /// Whether vLLM itself stops at it, before any rule.
    #[must_use]
    pub const fn stops_vllm(&self) -> bool {
        match self {
            Self::Unknown(_)
            | Self::Ambiguous { .. }
            | Self::NoValue(_)
            | Self::NotTaken { .. }
            | Self::Wrong { .. }
            | Self::NamesFirst
            | Self::Extra(_)
            | Self::Follows(_) => true,
            Self::Open { .. }
            | Self::ConfigFile(_)
            | Self::CutOff(_)
            | Self::OpenQuote
            | Self::EngineArgs(_)
            | Self::Spread(_) => false,
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let parts: [&str; 5] = match self {
            Self::Unknown(option) => [option, " is no option of this release", "", "", ""],
            Self::Ambiguous { option, one, two } => [
                option,
                " is the beginning of several options, such as ",
                one,
                " and ",
                two,
            ],
            Self::NoValue(option) => [option, " has no value", "", "", ""],
            Self::NotTaken { option, value } => [
                option,
                " takes no value, and has \u{201c}",
                value,
                "\u{201d}",
                "",
            ],
            Self::Wrong { option, why } => [option, ": ", why, "", ""],
            Self::Open { option, text } if option.is_empty() => {
                ["what stands for ", text, " is not in the text", "", ""]
            }
            Self::Open { option, text } => [
                option,
                " is left out: what stands for ",
                text,
                " is not in the text",
                "",
            ],
            Self::Extra(word) => ["\u{201c}", word, "\u{201d} belongs to no option", "", ""],
            Self::Follows(option) => ["the word behind ", option, " belongs to no option", "", ""],
            Self::NamesFirst => [
                "with --served-model-name, vllm serve wants the model before every option",
                "",
                "",
                "",
                "",
            ],
            Self::ConfigFile(path) => [
                "the options in ",
                path,
                " (--config) are not read; paste the lines of that file below the command",
                "",
                "",
            ],
            Self::CutOff(line) => [
                "\u{201c}",
                line,
                "\u{201d} is not passed: the shell ends the command before it",
                "",
                "",
            ],
            Self::OpenQuote => ["a quote is opened and not closed", "", "", "", ""],
            Self::EngineArgs(usage) => [
                "the defaults of max_num_batched_tokens and max_num_seqs depend on who makes the engine; those of ",
                match usage {
                    Usage::Server => "vllm serve",
                    Usage::Llm => "the LLM class",
                },
                " are taken",
                "",
                "",
            ],
            Self::Spread(name) => [name, " is not read", "", "", ""],
        };
        parts.concat()
    }
}
