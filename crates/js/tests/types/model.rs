//! What a type of the JSON may be, and whether a value is of it.

use std::collections::BTreeMap;

use kv_resolver::Usage;
use serde_json::Value;

/// A type as it is referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ty {
    Number,
    Text,
    Bool,
    /// `true` or `false` alone.
    Only(bool),
    Unknown,
    /// An object with any entries, by its name in TypeScript.
    Object(&'static str),
    /// Who starts vLLM, a word of a case.
    Usage,
    List(Box<Ty>),
    Tuple(Vec<Ty>),
    OrNull(Box<Ty>),
    Named(String),
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// It may be missing.
    pub is_optional: bool,
    pub ty: Ty,
    pub doc: String,
}

/// A type that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Object(Vec<Field>),
    /// One of these texts.
    Words(Vec<String>),
    /// One of these types.
    Union(Vec<Ty>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    pub doc: String,
    pub shape: Shape,
}

/// Every type by its name, in the order in which they were met.
#[derive(Debug, Default)]
pub struct Types {
    pub order: Vec<String>,
    pub by_name: BTreeMap<String, Declared>,
}

impl Types {
    /// Why a value is not of a type; `at` says which part of it.
    pub fn check(&self, value: &Value, ty: &Ty, at: &str) -> Result<(), String> {
        let wrong = || Err(format!("{at}: {value} is no {ty:?}"));
        match (ty, value) {
            (Ty::Unknown, _)
            | (Ty::Number, Value::Number(_))
            | (Ty::Text, Value::String(_))
            | (Ty::Bool, Value::Bool(_))
            | (Ty::Object(_), Value::Object(_))
            | (Ty::OrNull(_), Value::Null) => Ok(()),
            (Ty::Usage, Value::String(word)) if word.parse::<Usage>().is_ok() => Ok(()),
            (Ty::Only(only), Value::Bool(value)) if only == value => Ok(()),
            (Ty::OrNull(ty), _) => self.check(value, ty, at),
            (Ty::List(ty), Value::Array(items)) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.check(item, ty, &format!("{at}[{index}]"))),
            (Ty::Tuple(types), Value::Array(items)) if types.len() == items.len() => types
                .iter()
                .zip(items)
                .try_for_each(|(ty, item)| self.check(item, ty, at)),
            (Ty::Named(name), _) => match &self.by_name[name].shape {
                Shape::Words(words) => match value.as_str() {
                    Some(text) if words.iter().any(|word| word == text) => Ok(()),
                    _ => wrong(),
                },
                Shape::Union(types) => {
                    let checked = types.iter().map(|ty| self.check(value, ty, at));
                    let errors: Vec<String> = checked.filter_map(Result::err).collect();
                    if errors.len() < types.len() {
                        Ok(())
                    } else {
                        Err(errors.join(" and "))
                    }
                }
                Shape::Object(fields) => self.check_object(value, fields, &format!("{at} {name}")),
            },
            _ => wrong(),
        }
    }

    fn check_object(&self, value: &Value, fields: &[Field], at: &str) -> Result<(), String> {
        let Value::Object(entries) = value else {
            return Err(format!("{at}: {value} is no object"));
        };
        if let Some(unknown) = entries
            .keys()
            .find(|key| fields.iter().all(|field| field.name != **key))
        {
            return Err(format!("{at}: the types have no {unknown}"));
        }
        fields
            .iter()
            .try_for_each(|field| match entries.get(&field.name) {
                None if field.is_optional => Ok(()),
                None => Err(format!("{at}: {} is missing", field.name)),
                Some(value) => self.check(value, &field.ty, &format!("{at}.{}", field.name)),
            })
    }
}
