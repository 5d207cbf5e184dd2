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
    /// Mounts it at an address.
    async fn at(query: &str) -> Self {
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

    async fn press(&self, key: &str) {
        let init = KeyboardEventInit::new();
        init.set_key(key);
        init.set_bubbles(true);
        let event = KeyboardEvent::new_with_keyboard_event_init_dict("keydown", &init).unwrap();
        self.find(CHOSEN).dispatch_event(&event).unwrap();
        wait(0).await;
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.root.remove();
    }
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

const CHOSEN: &str = "td[aria-selected=true]";
const TITLE: &str = "#answer-title";
const LENGTH: &str = "#field-max_model_len";
const MODEL: &str = "#field-model";
const CONFIG: &str = "#field-config";
const CONFIG_ERROR: &str = "#field-config-error";

#[wasm_bindgen_test]
async fn choosing_a_cell_shows_it_and_writes_the_address() {
    let page = Page::at("").await;
    assert!(page.text(TITLE).contains("fp8_ds_mla"));
    page.click("td[data-dtype=bfloat16]").await;
    assert_eq!(page.text(TITLE), "bfloat16");
    assert_eq!(
        page.find(CHOSEN).get_attribute("data-dtype").as_deref(),
        Some("bfloat16")
    );
    wait(ADDRESS_WRITTEN_MS).await;
    assert_eq!(address(), "?kv_cache_dtype=bfloat16");
    page.click("td[data-dtype=auto]").await;
    wait(ADDRESS_WRITTEN_MS).await;
    assert_eq!(address(), "", "what is the default is not written");
}

#[wasm_bindgen_test]
async fn choosing_a_model_or_a_gpu_changes_the_answer() {
    let page = Page::at("").await;
    let before = page.text(".verdict");
    page.enter(MODEL, "deepseek-ai/DeepSeek-V4-Pro").await;
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
    page.enter(MODEL, "pasted").await;
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
    let page = Page::at("").await;
    page.press("ArrowRight").await;
    assert_eq!(page.text(TITLE), "bfloat16");
    page.press("ArrowDown").await;
    assert!(page.text(".place").contains("compute capability 10.0"));
    page.press("Home").await;
    assert!(page.text(TITLE).starts_with("auto"));
    let focused = document().active_element().unwrap();
    assert_eq!(focused.get_attribute("data-dtype").as_deref(), Some("auto"));
    let stops = page.root.query_selector_all("td[tabindex='0']").unwrap();
    assert_eq!(stops.length(), 1);
}
