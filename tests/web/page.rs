//! The page, mounted: choosing, errors, the address, bad input, the keyboard.

use std::any::Any;

use kv_explorer::App;
use leptos::mount::mount_to;
use leptos::prelude::{document, window};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;
use web_sys::{Element, Event, EventInit, HtmlElement, KeyboardEvent, KeyboardEventInit};

/// Longer than the page waits before it writes the address.
const ADDRESS_WRITTEN_MS: i32 = 350;

/// The page, mounted for one test.
struct Page {
    root: HtmlElement,
    _mounted: Box<dyn Any>,
}

impl Page {
    /// Mounts it at an address, with the models there.
    async fn at(query: &str) -> Self {
        let page = Self::with_models(query, MODELS).await;
        page.until(".sentence b").await;
        page
    }

    /// Mounts it at an address; what is asked of the server is answered with `models`.
    async fn with_models(query: &str, models: &str) -> Self {
        serve(models);
        // an earlier test's page may still be about to write its own
        wait(ADDRESS_WRITTEN_MS).await;
        let path = window().location().pathname().unwrap();
        window()
            .history()
            .unwrap()
            .replace_state_with_url(&JsValue::NULL, "", Some(&format!("{path}{query}")))
            .unwrap();
        let root: HtmlElement = document().create_element("div").unwrap().unchecked_into();
        document().body().unwrap().append_child(&root).unwrap();
        let mounted = Box::new(mount_to(root.clone(), App));
        wait(0).await;
        Self {
            root,
            _mounted: mounted,
        }
    }

    /// Waits until something is there.
    async fn until(&self, selector: &str) {
        for _ in 0..100 {
            if self.root.query_selector(selector).unwrap().is_some() {
                return;
            }
            wait(20).await;
        }
        panic!("nothing came to be {selector}");
    }

    fn find(&self, selector: &str) -> Element {
        let found = self.root.query_selector(selector).unwrap();
        found.unwrap_or_else(|| panic!("nothing is {selector}"))
    }

    fn text(&self, selector: &str) -> String {
        self.find(selector).text_content().unwrap_or_default()
    }

    fn value(&self, selector: &str) -> String {
        let value = js_sys::Reflect::get(&self.find(selector), &"value".into());
        value.unwrap().as_string().unwrap_or_default()
    }

    async fn click(&self, selector: &str) {
        self.find(selector).unchecked_into::<HtmlElement>().click();
        wait(0).await;
    }

    /// Types into a field, or chooses in a select.
    async fn enter(&self, selector: &str, text: &str) {
        let field = self.find(selector);
        js_sys::Reflect::set(&field, &"value".into(), &text.into()).unwrap();
        let init = EventInit::new();
        init.set_bubbles(true);
        for kind in ["input", "change"] {
            let event = Event::new_with_event_init_dict(kind, &init).unwrap();
            field.dispatch_event(&event).unwrap();
        }
        wait(0).await;
    }

    /// Searches for a model and takes the first that is found.
    async fn choose_model(&self, words: &str) {
        self.enter(MODEL, words).await;
        self.press(MODEL, "Enter").await;
    }

    async fn press(&self, selector: &str, key: &str) {
        let init = KeyboardEventInit::new();
        init.set_key(key);
        init.set_bubbles(true);
        let event = KeyboardEvent::new_with_keyboard_event_init_dict("keydown", &init).unwrap();
        self.find(selector).dispatch_event(&event).unwrap();
        wait(0).await;
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.root.remove();
    }
}

/// Answers what the page asks for: there is no server of it here.
fn serve(models: &str) {
    let text = js_sys::JsString::from(models);
    let answer = js_sys::Function::new_with_args(
        "text",
        "window.fetch = () => Promise.resolve(new Response(text, { status: text ? 200 : 503 }))",
    );
    answer.call1(&JsValue::NULL, &text).unwrap();
}

/// Lets the page's own work run, and then some milliseconds.
async fn wait(milliseconds: i32) {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        window()
            .set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, milliseconds)
            .unwrap();
    });
    JsFuture::from(promise).await.unwrap();
}

fn address() -> String {
    window().location().search().unwrap()
}

/// As it is served.
const MODELS: &str = include_str!("../../public/models.json");
const CHOSEN: &str = "td[aria-selected=true]";
const TITLE: &str = "#answer-title";
const LENGTH: &str = "#field-max_model_len";
const MODEL: &str = "#field-model";
const PASTE: &str = ".own button";
const CONFIG: &str = "#field-config";
const CONFIG_ERROR: &str = "#field-config-error";

#[wasm_bindgen_test]
async fn choosing_a_cell_shows_it_and_writes_the_address() {
    // with a pool, GPUs of one kind share a row
    let page = Page::at("?pool_gib=40").await;
    assert!(page.text(TITLE).contains("fp8_ds_mla"));
    page.click("td[data-dtype=bfloat16]").await;
    assert_eq!(page.text(TITLE), "bfloat16");
    assert_eq!(
        page.find(CHOSEN).get_attribute("data-dtype").as_deref(),
        Some("bfloat16")
    );
    wait(ADDRESS_WRITTEN_MS).await;
    assert_eq!(address(), "?kv_cache_dtype=bfloat16&pool_gib=40");
    page.click("td[data-dtype=auto]").await;
    wait(ADDRESS_WRITTEN_MS).await;
    assert_eq!(
        address(),
        "?pool_gib=40",
        "what is the default is not written"
    );
}

#[wasm_bindgen_test]
async fn choosing_a_model_or_a_gpu_changes_the_answer() {
    let page = Page::at("").await;
    let before = page.text(".verdict");
    page.choose_model("v4 pro").await;
    assert!(page.text(".verdict").contains("DeepSeek-V4-Pro"));
    assert_ne!(page.text(".verdict"), before);
    page.enter("#field-gpu", "b200").await;
    assert!(page.text(".verdict").contains("B200"));
    let row = page.find("tr[data-on]").text_content().unwrap();
    assert!(row.contains("B200"), "{row}");
}

#[wasm_bindgen_test]
async fn wrong_text_is_named_and_the_last_answer_stays() {
    let page = Page::at("").await;
    page.enter(LENGTH, "long").await;
    assert!(
        page.text("#field-max_model_len-error")
            .contains("max_model_len")
    );
    assert!(page.text(".verdict").contains("262,144 tokens"));
    assert!(page.find(".results").class_list().contains("stale"));
    page.enter(LENGTH, "64K").await;
    assert_eq!(page.text("#field-max_model_len-error"), "");
    assert!(page.text(".verdict").contains("65,536 tokens"));
    assert!(!page.find(".results").class_list().contains("stale"));
}

#[wasm_bindgen_test]
async fn advice_is_applied() {
    let page = Page::at("?kv_cache_dtype=bfloat16").await;
    assert!(page.text("#answer").contains("ValueError"));
    page.click("[data-apply]").await;
    assert!(page.text(TITLE).contains("→ fp8_ds_mla"));
}

#[wasm_bindgen_test]
async fn an_address_is_read_and_comes_back() {
    let query = "?gpu=rtx-5090&kv_cache_dtype=fp8&tensor_parallel_size=4&max_model_len=32768&pool_gib=12.5&rows=each";
    let page = Page::at(query).await;
    assert_eq!(page.value("#field-gpu"), "rtx-5090");
    assert_eq!(page.value("#field-tensor_parallel_size"), "4");
    assert_eq!(page.value(LENGTH), "32768");
    assert_eq!(page.value("#field-pool"), "12.5");
    assert_eq!(page.text("#address-problems"), "");
    // a change and back writes the same address again
    page.enter("#field-pool", "13").await;
    page.enter("#field-pool", "12.5").await;
    wait(ADDRESS_WRITTEN_MS).await;
    assert_eq!(address(), query);
}

#[wasm_bindgen_test]
async fn a_hostile_address_is_named_and_changes_nothing() {
    let page = Page::at("?gpu=%3Cimg%20src=x%3E&release=9&tensor_parallel_size=1e9&x=%ff").await;
    let problems = page.find("#address-problems");
    assert_eq!(problems.query_selector_all("li").unwrap().length(), 4);
    assert_eq!(problems.query_selector_all("img").unwrap().length(), 0);
    assert!(page.text(".verdict").contains("H200"));
}

#[wasm_bindgen_test]
async fn pasted_text_that_is_no_config_is_refused_and_kept() {
    let page = Page::at("").await;
    page.click(PASTE).await;
    assert!(page.text(CONFIG_ERROR).contains("Paste"));
    let big = "x".repeat(10 << 20);
    for (text, said) in [
        ("no json", "not JSON"),
        ("[1, 2]", "an array"),
        (big.as_str(), "10,485,760 bytes"),
    ] {
        page.enter(CONFIG, text).await;
        assert!(page.text(CONFIG_ERROR).contains(said), "{said}");
        assert_eq!(page.value(CONFIG).len(), text.len());
        assert!(page.text(".verdict").contains("DeepSeek-V4-Flash"));
    }
    for text in [
        r#"{"architectures": 7, "model_type": []}"#,
        r#"{"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "head_dim": "wide"}"#,
        r#"{"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "head_dim": -1e308}"#,
    ] {
        page.enter(CONFIG, text).await;
        assert_eq!(page.text(CONFIG_ERROR), "");
        assert!(
            page.text("#answer").contains("not vLLM's refusal"),
            "{text}"
        );
    }
}

#[wasm_bindgen_test]
async fn arrow_keys_walk_the_matrix() {
    let page = Page::at("?pool_gib=40").await;
    page.press(CHOSEN, "ArrowRight").await;
    assert_eq!(page.text(TITLE), "bfloat16");
    page.press(CHOSEN, "ArrowDown").await;
    assert!(page.text(".place").contains("compute capability 10.0"));
    page.press(CHOSEN, "Home").await;
    assert!(page.text(TITLE).starts_with("auto"));
    let focused = document().active_element().unwrap();
    assert_eq!(focused.get_attribute("data-dtype").as_deref(), Some("auto"));
    let stops = page.root.query_selector_all("td[tabindex='0']").unwrap();
    assert_eq!(stops.length(), 1);
}

#[wasm_bindgen_test]
async fn a_model_is_searched_for_with_the_keyboard() {
    let page = Page::at("").await;
    let options = || {
        page.root
            .query_selector_all("[role=option]")
            .unwrap()
            .length()
    };
    assert_eq!(options(), 0);
    page.enter(MODEL, "glm 5.1").await;
    assert!((2..6).contains(&options()), "{}", options());
    let first = page.text("[role=option][aria-selected=true]");
    page.press(MODEL, "ArrowDown").await;
    assert_ne!(page.text("[role=option][aria-selected=true]"), first);
    page.press(MODEL, "Escape").await;
    assert_eq!(options(), 0);
    assert_eq!(page.value(MODEL), "deepseek-ai/DeepSeek-V4-Flash");
    // a typo is no wish for one's own file: Enter leaves the offer, a click takes it
    page.enter(MODEL, "no such model").await;
    assert_eq!(options(), 1);
    page.press(MODEL, "Enter").await;
    assert_eq!(options(), 1);
    page.click("[role=option]").await;
    assert!(page.text(CONFIG_ERROR).contains("Paste"));
}

#[wasm_bindgen_test]
async fn what_the_model_was_recognised_as_is_beside_it() {
    let page = Page::at("?model=openai/gpt-oss-20b").await;
    let recognised = page.text("#recognised");
    assert!(
        recognised.contains("GptOssForCausalLM gpt_oss"),
        "{recognised}"
    );
    assert!(recognised.contains("12 × GQA with sinks"), "{recognised}");
    page.click(PASTE).await;
    let near = r#"{"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe"}"#;
    page.enter(CONFIG, near).await;
    let recognised = page.text("#recognised");
    assert!(recognised.contains("Not modelled"), "{recognised}");
    assert!(recognised.contains("Qwen3MoeForCausalLM"), "{recognised}");
}

#[wasm_bindgen_test]
async fn without_the_models_it_says_so_and_tries_again() {
    let page = Page::with_models("", "").await;
    page.until("[data-retry]").await;
    assert!(page.text(".verdict").contains("the server answered 503"));
    serve("<!doctype html>");
    page.click("[data-retry]").await;
    page.until("[data-retry]").await;
    assert!(page.text(".verdict").contains("not what this page expects"));
    serve(MODELS);
    page.click("[data-retry]").await;
    page.until(".sentence b").await;
    assert!(page.text(".verdict").contains("DeepSeek-V4-Flash"));
}

#[wasm_bindgen_test]
async fn a_model_that_is_not_there_is_named() {
    let page = Page::at("?model=no/such").await;
    assert!(page.text("#address-problems").contains("no/such"));
    assert_eq!(page.value(MODEL), "deepseek-ai/DeepSeek-V4-Flash");
}
