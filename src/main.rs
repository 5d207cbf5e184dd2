//! Mounts the app onto the page.

fn main() {
    leptos::mount::mount_to_body(kv_explorer::App);
    // what was shown until now
    if let Some(boot) = leptos::prelude::document().get_element_by_id("boot") {
        boot.remove();
    }
}
