//! Mounts the app onto the page.

fn main() {
    leptos::mount::mount_to_body(kv_explorer::App);
}
