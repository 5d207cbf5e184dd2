//! Reading typed, bounded fields from a config.json.

use super::{ModelError, clip};
use crate::units::quoted;
use crate::value::Value;

pub(super) fn wrong_type(
    field: &'static str,
    expected: &'static str,
    config: &Value,
) -> Box<ModelError> {
    let got = match config.get(field) {
        Some(Value::String(text)) => quoted(&clip(text)),
        Some(other) => other.type_name().to_owned(),
        None => "nothing".to_owned(),
    };
    Box::new(ModelError::WrongType {
        field,
        expected,
        got,
    })
}

/// A whole number within bounds.
pub(super) fn integer(
    config: &Value,
    field: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, Box<ModelError>> {
    let value = config.get_set(field).ok_or(ModelError::Missing(field))?;
    let Value::Integer(got) = *value else {
        return Err(wrong_type(field, "a whole number", config));
    };
    match u64::try_from(got) {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(ModelError::OutOfRange {
            field,
            got,
            least,
            most,
        }
        .into()),
    }
}

/// A whole number within bounds, or what stands for an absent one.
pub(super) fn integer_or(
    config: &Value,
    field: &'static str,
    least: u64,
    most: u64,
    absent: u64,
) -> Result<u64, Box<ModelError>> {
    if config.get_set(field).is_none() {
        return Ok(absent);
    }
    integer(config, field, least, most)
}

/// A string.
pub(super) fn text<'a>(
    config: &'a Value,
    field: &'static str,
) -> Result<Option<&'a str>, Box<ModelError>> {
    match config.get_set(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong_type(field, "a string", config)),
    }
}

/// True or false.
pub(super) fn boolean(
    config: &Value,
    field: &'static str,
) -> Result<Option<bool>, Box<ModelError>> {
    match config.get_set(field) {
        None => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(*on)),
        Some(_) => Err(wrong_type(field, "true or false", config)),
    }
}

/// A list.
pub(super) fn array<'a>(
    config: &'a Value,
    field: &'static str,
) -> Result<Option<&'a [Value]>, Box<ModelError>> {
    match config.get_set(field) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(wrong_type(field, "a list", config)),
    }
}

/// A list with an entry for each of so many layers. Of `layer_types`, transformers refuses another number:
/// `transformers/configuration_utils.py` `PreTrainedConfig.validate_layer_type`.
pub(super) fn of_each_layer<'a>(
    config: &'a Value,
    field: &'static str,
    count: u64,
) -> Result<Option<&'a [Value]>, Box<ModelError>> {
    let entries = array(config, field)?;
    if entries.is_some_and(|entries| entries.len() as u64 != count) {
        return Err(ModelError::unmodelled(format!(
            "`{field}` does not have an entry for each layer"
        )));
    }
    Ok(entries)
}

/// A list with an entry for each layer, which is one of two kinds.
pub(super) fn per_layer(
    config: &Value,
    field: &'static str,
    count: u32,
    kind: fn(&Value) -> Option<bool>,
) -> Result<Option<Vec<bool>>, Box<ModelError>> {
    let Some(entries) = of_each_layer(config, field, u64::from(count))? else {
        return Ok(None);
    };
    let kinds: Option<Vec<bool>> = entries.iter().map(kind).collect();
    kinds.map(Some).ok_or_else(|| {
        ModelError::unmodelled(format!("`{field}` has an entry of no kind that is known"))
    })
}

/// 1 or 0.
pub(super) fn one_or_zero(value: &Value) -> Option<bool> {
    match value.as_integer()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
