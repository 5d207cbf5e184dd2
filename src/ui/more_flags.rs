//! Every other modelled flag, and the environment variables.

use kv_resolver::{Flag, FlagKind, Resolution, Usage};
use leptos::either::Either;
use leptos::prelude::*;

use super::field::{CheckField, Choices, SelectField, TextField};
use crate::input::{Field, Input, more_flags};
use crate::markup::Markup;
use crate::state::{State, state};
use crate::text;

const BACKEND_LIST: &str = "attention-backends";
/// What is free, `VLLM_KV_CACHE_LAYOUT`, `VLLM_ALLOW_LONG_MAX_MODEL_LEN` and the usage.
const BESIDE_FLAGS: usize = 4;

/// A disclosure with the rest.
#[component]
pub fn MoreFlags() -> impl IntoView {
    let state = state();
    // a link that sets one shows it; afterwards the user opens and closes
    let starts_open = state.input.with_untracked(count_set) > 0;
    let fields: Vec<_> = more_flags()
        .map(|flag| match flag.kind() {
            FlagKind::Bool => Either::Left(bool_field(state, flag)),
            FlagKind::Text
            | FlagKind::Integer
            | FlagKind::HumanInteger
            | FlagKind::Float
            | FlagKind::List => Either::Right(flag_field(state, flag)),
        })
        .collect();
    let backends = state.entered(|input| {
        let mut html = Markup::new();
        for backend in input.release.profile().attention_backends {
            html.add("<option value=\"{}\">", &[backend.as_str()]);
        }
        html.into_string()
    });
    let count = state.entered(|input| match count_set(input) {
        0 => (more_flags().count() + BESIDE_FLAGS).to_string(),
        set => format!("{set} set"),
    });
    view! {
        <details class="more" open=starts_open>
            <summary>"More flags" <span class="count">{count}</span></summary>
            <div class="more-body">
                {fields} <datalist id=BACKEND_LIST inner_html=backends></datalist>
                {environment(state)}
                <button type="button" on:click=move |_| state.change(reset)>
                    "Reset these"
                </button>
            </div>
        </details>
    }
}

fn count_set(input: &Input) -> usize {
    let flags = more_flags().filter(|flag| !input.flag(*flag).is_empty());
    flags.count()
        + usize::from(!input.free_gib.is_empty())
        + usize::from(!input.kv_cache_layout.is_empty())
        + usize::from(input.allow_long)
        + usize::from(input.usage != Usage::default())
}

fn reset(input: &mut Input) {
    let default = Input::default();
    for flag in more_flags() {
        input.set_flag(flag, default.flag(flag));
    }
    input.free_gib = default.free_gib;
    input.kv_cache_layout = default.kv_cache_layout;
    input.allow_long = default.allow_long;
    input.usage = default.usage;
}

/// What vLLM fills in, as far as an answer shows it.
fn filled_in(flag: Flag, resolution: &Resolution) -> Option<String> {
    match flag {
        Flag::MaxNumBatchedTokens => Some(text::number(resolution.max_num_batched_tokens)),
        Flag::MaxNumSeqs => Some(text::number(resolution.max_num_seqs)),
        Flag::BlockSize => Some(text::number(resolution.block_size)),
        Flag::GpuMemoryUtilization => Some(resolution.gpu_memory_utilization.to_string()),
        _ => None,
    }
}

fn flag_field(state: State, flag: Flag) -> impl IntoView {
    let placeholder = state.shown(move |page| {
        let resolution = page.answer().and_then(|answer| answer.result.as_ref().ok());
        resolution
            .and_then(|resolution| filled_in(flag, resolution))
            .unwrap_or_else(|| "not passed".to_owned())
    });
    let list = if flag == Flag::AttentionBackend {
        BACKEND_LIST
    } else {
        ""
    };
    view! {
        <TextField
            field=Field::Flag(flag)
            label=flag.name()
            hint=flag.help()
            placeholder
            value=state.entered(move |input| input.flag(flag).to_owned())
            on_text=Box::new(move |text| state.change(|input| input.set_flag(flag, &text)))
            is_text=flag.kind() == FlagKind::Text
            list
        />
    }
}

fn bool_field(state: State, flag: Flag) -> impl IntoView {
    let choices = Choices::new(&[("", "not passed"), ("true", "on"), ("false", "off")]);
    view! {
        <SelectField
            id=Field::Flag(flag).id()
            label=flag.name()
            hint=flag.help()
            choices
            value=state.entered(move |input| input.flag(flag).to_owned())
            on_choose=Box::new(move |text| state.change(|input| input.set_flag(flag, &text)))
        />
    }
}

fn environment(state: State) -> impl IntoView {
    let usages = Choices::new(&[
        (Usage::Server.as_str(), "vllm serve"),
        (Usage::Llm.as_str(), "the LLM class"),
    ]);
    view! {
        <SelectField
            id="field-usage".to_owned()
            label="started by"
            hint="some defaults differ"
            choices=usages
            value=state.entered(|input| input.usage.as_str().to_owned())
            on_choose=Box::new(move |usage| {
                if let Ok(usage) = usage.parse() {
                    state.change(|input| input.usage = usage);
                }
            })
        />
        <TextField
            field=Field::Free
            label="free on each GPU"
            hint="before vLLM starts; empty: as much as it asks for"
            placeholder=Signal::stored("enough".to_owned())
            unit="GiB"
            value=state.entered(|input| input.free_gib.clone())
            on_text=Box::new(move |text| state.change(|input| input.free_gib = text))
        />
        <TextField
            field=Field::Layout
            label="VLLM_KV_CACHE_LAYOUT"
            hint="order of the physical dimensions"
            placeholder=Signal::stored("not set".to_owned())
            value=state.entered(|input| input.kv_cache_layout.clone())
            on_text=Box::new(move |text| state.change(|input| input.kv_cache_layout = text))
            is_text=true
        />
        <CheckField
            label="VLLM_ALLOW_LONG_MAX_MODEL_LEN"
            is_checked=Signal::derive(move || state.input.with(|input| input.allow_long))
            on_check=Box::new(move |on| state.change(|input| input.allow_long = on))
        />
    }
}
