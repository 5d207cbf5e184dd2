//! The catalog of models: a file beside the page, so that the page's program does not carry it.

use std::sync::Arc;

use kv_resolver::Value;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Response;

use crate::asked::ModelConfig;
use crate::input::short_model_name;

/// Where it is, beside the page. `cargo xtask tables` writes it.
const ADDRESS: &str = "models.json";

/// Every model of the catalog, sorted by id whatever its case.
#[derive(Debug)]
pub struct Catalog(Vec<CatalogModel>);

#[derive(Debug)]
struct CatalogModel {
    id: Arc<str>,
    config: Value,
}

impl Catalog {
    /// Reads the file; `None` if it is not one of these.
    pub fn parse(text: &str) -> Option<Self> {
        let Ok(Value::Object(models)) = kv_cases::parse_config(text) else {
            return None;
        };
        let models = models.into_iter().map(|(id, config)| CatalogModel {
            id: Arc::from(id),
            config,
        });
        let models: Vec<CatalogModel> = models.collect();
        (!models.is_empty()).then_some(Self(models))
    }

    /// Loads the file.
    ///
    /// # Errors
    /// Why it is not there.
    pub async fn load() -> Result<Self, String> {
        let text = fetch_text(ADDRESS).await?;
        Self::parse(&text).ok_or_else(|| "the file is not what this page expects".to_owned())
    }

    /// The id as the catalog spells it.
    pub fn spelling(&self, id: &str) -> Option<&Arc<str>> {
        self.0
            .iter()
            .map(|model| &model.id)
            .find(|known| known.eq_ignore_ascii_case(id))
    }

    /// Every id.
    pub fn ids(&self) -> Vec<&str> {
        self.0.iter().map(|model| &*model.id).collect()
    }

    /// A model's config.json.
    pub fn config(&self, id: &str) -> Option<ModelConfig> {
        let model = self.0.iter().find(|model| *model.id == *id)?;
        Some(ModelConfig::of_catalog(&model.id, model.config.clone()))
    }

    /// The ids that hold each of the words, whatever their case; first those that need no letter of the owner's name.
    pub fn search(&self, words: &str) -> Vec<Arc<str>> {
        let words = words.to_ascii_lowercase();
        let joined: String = words.chars().filter(char::is_ascii_alphanumeric).collect();
        let has_all = |text: &str| {
            let all = words.split_ascii_whitespace();
            let together = || {
                let bare: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
                !joined.is_empty() && bare.contains(&joined)
            };
            all.into_iter().all(|word| text.contains(word)) || together()
        };
        let (mut found, mut by_owner) = (Vec::new(), Vec::new());
        for CatalogModel { id, .. } in &self.0 {
            let lower = id.to_ascii_lowercase();
            if has_all(short_model_name(&lower)) {
                found.push(Arc::clone(id));
            } else if has_all(&lower) {
                by_owner.push(Arc::clone(id));
            }
        }
        found.append(&mut by_owner);
        found
    }
}

/// The text of a file beside the page.
///
/// # Errors
/// Why it is not there.
pub async fn fetch_text(address: &str) -> Result<String, String> {
    let no_answer = |_: JsValue| "the network did not answer".to_owned();
    let window = leptos::prelude::window();
    let response = JsFuture::from(window.fetch_with_str(address)).await;
    let response: Response = response.map_err(no_answer)?.unchecked_into();
    if !response.ok() {
        return Err(format!("the server answered {}", response.status()));
    }
    let text = JsFuture::from(response.text().map_err(no_answer)?).await;
    Ok(text.map_err(no_answer)?.as_string().unwrap_or_default())
}

/// Whether the catalog is here.
#[derive(Debug, Clone)]
pub enum Shelf {
    /// Not yet.
    Loading,
    /// It is.
    Here(Arc<Catalog>),
    /// It did not come, for this reason.
    Missing(String),
}

/// By identity: there is one catalog.
impl PartialEq for Shelf {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Loading, Self::Loading) => true,
            (Self::Here(one), Self::Here(other)) => Arc::ptr_eq(one, other),
            (Self::Missing(one), Self::Missing(other)) => one == other,
            (Self::Loading | Self::Here(_) | Self::Missing(_), _) => false,
        }
    }
}

#[cfg(test)]
#[allow(missing_docs, clippy::missing_panics_doc)] // shared by the other tests
pub mod tests {
    use super::*;
    use kv_resolver::catalog::MODELS;

    /// As it is served.
    pub fn shelf() -> Shelf {
        let text = include_str!("../public/models.json");
        Shelf::Here(Arc::new(Catalog::parse(text).unwrap()))
    }

    pub fn catalog() -> Arc<Catalog> {
        match shelf() {
            Shelf::Here(catalog) => catalog,
            Shelf::Loading | Shelf::Missing(_) => unreachable!(),
        }
    }

    #[test]
    fn the_file_is_the_catalog() {
        let catalog = catalog();
        assert_eq!(catalog.0.len(), MODELS.len());
        for (served, model) in catalog.0.iter().zip(&MODELS) {
            assert_eq!(&*served.id, model.id);
            let config = kv_cases::parse_config(model.config_json).unwrap();
            assert_eq!(served.config, config, "{}", model.id);
        }
    }

    #[test]
    fn other_files_are_no_catalog() {
        for text in ["", "{}", "[]", "<!doctype html>", "{\"a\":"] {
            assert!(Catalog::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn every_word_is_sought_anywhere_in_the_id() {
        let found = |words: &str| catalog().search(words);
        assert_eq!(found("").len(), MODELS.len());
        assert_eq!(found("  ").len(), MODELS.len());
        let pro = found("v4 pro");
        assert_eq!(&*pro[0], "deepseek-ai/DeepSeek-V4-Pro");
        // by its owner, sgl-project
        assert_eq!(&*pro[pro.len() - 1], "sgl-project/DeepSeek-V4-Flash-FP8");
        assert!(found("glm 5.1").iter().all(|id| id.contains("GLM-5.1")));
        assert_eq!(found("MAVERICK").len(), 1);
        assert_eq!(found("v4 maverick").len(), 0);
    }

    #[test]
    fn ids_are_spelled_as_the_catalog_does() {
        assert_eq!(
            catalog().spelling("ZAI-org/glm-5").map(|id| &**id),
            Some("zai-org/GLM-5")
        );
        assert_eq!(catalog().spelling("no/such"), None);
    }
}
