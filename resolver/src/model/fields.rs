//! Reading typed, bounded fields from a config.json.

use super::{ModelError, clip};
use crate::value::Value;

pub(super) fn wrong_type(
    field: &'static str,
    expected: &'static str,
    config: &Value,
) -> ModelError {
    let got = match config.get(field) {
        Some(Value::String(text)) => format!("{:?}", clip(text)),
        Some(other) => other.type_name().to_owned(),
        None => "nothing".to_owned(),
    };
    ModelError::WrongType {
        field,
        expected,
        got,
    }
}

/// A whole number within bounds.
pub(super) fn integer(
    config: &Value,
    field: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, ModelError> {
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
        }),
    }
}

/// A list.
pub(super) fn array<'a>(
    config: &'a Value,
    field: &'static str,
) -> Result<Option<&'a [Value]>, ModelError> {
    match config.get_set(field) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(wrong_type(field, "a list", config)),
    }
}
