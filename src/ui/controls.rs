//! What the user has: the controls that are always there.

use kv_resolver::catalog::{GPUS, find_gpu};
use kv_resolver::{Arch, Flag, Release};
use leptos::prelude::*;

use super::context_length::ContextLength;
use super::drafting::Drafting;
use super::field::{Choices, SelectField, TextField};
use super::model_field::ModelField;
use super::more_flags::MoreFlags;
use super::paste::Paste;
use crate::input::Field;
use crate::page::Page;
use crate::state::state;
use crate::text;

const TENSOR_PARALLEL_LIST: &str = "tensor-parallel-sizes";
/// Offered; anything else can be typed.
const TENSOR_PARALLEL_SIZES: &str = "<option value=\"1\"><option value=\"2\"><option value=\"4\"><option value=\"8\"><option value=\"16\">";

/// The panel of controls. It stays mounted whatever the answers do.
#[component]
pub fn Controls() -> impl IntoView {
    let state = state();
    let tensor_parallel = Flag::TensorParallelSize;
    let releases =
        Choices::new(&Release::ALL.map(|release| (release.version(), release.version())));
    view! {
        <section class="controls" aria-labelledby="controls-title">
            <h2 id="controls-title">"What you have"</h2>
            <Paste />
            <ModelField />
            <SelectField
                id="field-gpu".to_owned()
                label="GPU"
                hint="or choose a cell of the matrix"
                choices=gpus()
                value=state.entered(|input| input.gpu.key.to_owned())
                on_choose=Box::new(move |key| {
                    if let Some(gpu) = find_gpu(&key) {
                        state.change(|input| input.gpu = gpu);
                    }
                })
            />
            <div class="pair">
                <TextField
                    field=Field::Flag(tensor_parallel)
                    label="Tensor parallel"
                    hint=tensor_parallel.help()
                    placeholder=Signal::stored("1".to_owned())
                    list=TENSOR_PARALLEL_LIST
                    value=state.entered(move |input| input.flag(tensor_parallel).to_owned())
                    on_text=Box::new(move |text| {
                        state.change(|input| input.set_flag(tensor_parallel, &text));
                    })
                />
                <datalist id=TENSOR_PARALLEL_LIST inner_html=TENSOR_PARALLEL_SIZES></datalist>
                <SelectField
                    id="field-release".to_owned()
                    label="vLLM release"
                    hint="rules differ by release"
                    choices=releases
                    value=state.entered(|input| input.release.version().to_owned())
                    on_choose=Box::new(move |version| {
                        if let Ok(release) = version.parse() {
                            state.change(|input| input.release = release);
                        }
                    })
                />
            </div>
            <ContextLength />
            <TextField
                field=Field::Pool
                label="Pool per GPU"
                hint="left for the KV cache; empty: estimated from the GPU; or paste vLLM's log line"
                placeholder=state.shown(estimate)
                unit="GiB"
                is_text=true
                value=state.entered(|input| input.pool_gib.clone())
                on_text=Box::new(move |text| state.change(|input| input.pool_gib = text))
            />
            <Drafting />
            <MoreFlags />
        </section>
    }
}

/// What is estimated, as long as nothing is entered.
fn estimate(page: &Page) -> String {
    let memory = page.answer().and_then(|answer| answer.planned());
    let budget = memory.and_then(|memory| memory.planned.budget.as_ref().ok());
    budget.map_or_else(
        || "not estimated".to_owned(),
        |budget| ["≈ ", &text::gib_short(budget.pool.pools()[1])].concat(),
    )
}

fn gpus() -> Choices {
    let mut choices = Choices::new(&[]);
    for arch in Arch::ALL {
        let labels: Vec<(&str, String)> = GPUS
            .iter()
            .filter(|gpu| gpu.capability.arch() == Some(arch))
            .map(|gpu| {
                let memory = text::gpu_memory(gpu).map(|memory| format!(" · {memory}"));
                (gpu.key, gpu.label.to_owned() + &memory.unwrap_or_default())
            })
            .collect();
        let labels: Vec<(&str, &str)> = labels
            .iter()
            .map(|(key, label)| (*key, label.as_str()))
            .collect();
        let group = Choices::new(&labels);
        choices = choices.and_group(&format!("{arch} · {}", arch.generation()), &group);
    }
    choices
}
