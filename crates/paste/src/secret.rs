//! What is nobody's business: values whose names say that they are secret, and who logs in to a URL.

use kv_resolver::Value;

/// Stands for a value that was not kept.
pub(crate) const NOT_KEPT: &str = "(not kept)";

const NAMES: [&str; 8] = [
    "key",
    "token",
    "auth",
    "secret",
    "password",
    "passwd",
    "credential",
    "authorization",
];

/// Whether a name of an option, a variable or a key is one of a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    // tokens are counted: only one token is a secret
    NAMES.iter().any(|end| last.ends_with(end)) || NAMES[3..].iter().any(|part| name.contains(part))
}

/// A text without who logs in to the URLs in it.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || "/?#\"',".contains(c))
            .unwrap_or(after.len());
        rest = after;
        if let Some(user) = after[..end].rfind('@') {
            out.push('…');
            rest = &after[user..];
        }
    }
    out.push_str(rest);
    out
}

/// A value of this name as it is kept.
pub(crate) fn kept(name: &str, value: Value) -> Value {
    if is_secret(name) {
        return Value::String(NOT_KEPT.to_owned());
    }
    match value {
        Value::String(text) => {
            let read = serde_json::from_str(&text).ok();
            match read {
                // options without a type hold JSON as well
                Some(Value::Object(entries)) => {
                    let inside = Value::Object(entries);
                    let kept = kept(name, inside.clone());
                    Value::String(if kept == inside {
                        text
                    } else {
                        crate::argv::json(&kept)
                    })
                }
                _ => Value::String(shown(&text)),
            }
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| kept(name, item)).collect())
        }
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let value = kept(&key, value);
                    (key, value)
                })
                .collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "--apikey",
            "api_key",
            "hf_token",
            "VLLM_DB_PASSWORD",
            "secretAccess",
            "X-Auth",
            "credentials",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "max_num_batched_tokens",
            "tokenizer",
            "num_speculative_tokens",
            "model",
            "ssl_keyfile",
            "kv_role",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn who_logs_in_is_left_out() {
        assert_eq!(
            shown("a http://u:p@q@h:1/x@y, s3://b/c@d"),
            "a http://…@h:1/x@y, s3://b/c@d"
        );
    }
}
