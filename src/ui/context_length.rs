//! The context length: a slider, an exact number, or what fits.

use kv_resolver::{Flag, Value};
use leptos::prelude::*;

use super::field::{CheckField, TextField};
use crate::asked::flag_value;
use crate::input::{Field, Input};
use crate::page::Page;
use crate::scale;
use crate::state::{State, state};
use crate::text;

const FLAG: Flag = Flag::MaxModelLen;
/// vLLM's spelling of "as long as fits".
const AUTO_FIT: &str = "-1";

/// What the field holds, as far as the slider can follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Tokens(u64),
    AutoFit,
    /// Empty or unreadable: the model's own, or the last one.
    Unsaid,
}

fn read(input: &Input) -> Length {
    match flag_value(FLAG, input.flag(FLAG)) {
        Ok(Some(Value::Integer(-1))) => Length::AutoFit,
        Ok(Some(Value::Integer(tokens))) => {
            u64::try_from(tokens).map_or(Length::Unsaid, Length::Tokens)
        }
        Ok(_) | Err(_) => Length::Unsaid,
    }
}

/// What vLLM settles on.
fn settled(page: &Page) -> Option<u64> {
    let resolution = page.answer()?.result.as_ref().ok()?;
    Some(resolution.max_model_len)
}

/// Where the slider stands, in tokens.
fn standing(state: State) -> u64 {
    match state.input.with(read) {
        Length::Tokens(tokens) => tokens,
        Length::AutoFit | Length::Unsaid => state.page.with(settled).unwrap_or_default(),
    }
}

/// Sets `max_model_len`.
#[component]
pub fn ContextLength() -> impl IntoView {
    let state = state();
    let set = move |text: &str| state.change(|input| input.set_flag(FLAG, text));
    let slide = move |event| {
        if let Ok(position) = event_target_value(&event).parse() {
            let tokens = scale::tokens(position).to_string();
            state.drag(|input| input.set_flag(FLAG, &tokens));
        }
    };
    let toggle_auto_fit = move |on| {
        if on {
            set(AUTO_FIT);
        } else {
            let tokens = state.page.with_untracked(settled);
            set(&tokens.unwrap_or(scale::tokens(scale::LAST)).to_string());
        }
    };
    view! {
        <div class="context-length">
            <TextField
                field=Field::Flag(FLAG)
                label="Context length"
                hint="max_model_len; 32K is 32,768 and 32k 32,000; empty is the model's own"
                unit="tokens"
                placeholder=state.shown(|page| settled(page).map(text::number).unwrap_or_default())
                value=state.entered(|input| input.flag(FLAG).to_owned())
                on_text=Box::new(move |text| set(&text))
            />
            <input
                type="range"
                aria-label="Context length"
                min="0"
                max=scale::LAST.to_string()
                step="1"
                prop:value=Signal::derive(move || scale::position(standing(state)).to_string())
                aria-valuetext=Signal::derive(move || text::tokens(standing(state)))
                on:input=slide
            />
            <div class="ticks" aria-hidden="true">
                <span>"1k"</span>
                <span>"4k"</span>
                <span>"16k"</span>
                <span>"64k"</span>
                <span>"256k"</span>
                <span>"1M"</span>
            </div>
            <CheckField
                label="Auto-fit: as long as the pool allows"
                is_checked=Signal::derive(move || state.input.with(read) == Length::AutoFit)
                on_check=Box::new(toggle_auto_fit)
            />
        </div>
    }
}
