//! Credentials of this server inside texts: found in inputs (check 4), replaced in what is stored and shown.

use runloom_ports::secret::MASK;
use serde_json::{Map, Value};

/// What the controlled credential starts with.
pub const PROJECT_CREDENTIAL: &str = "rlpc_";

/// Prefixes of OAuth's credentials.
const TOKENS: [&str; 3] = ["mantyx_at_", "mantyx_rt_", "mantyx_oas_"];

/// The prefix of API keys, and the letters and digits that make a text one.
const KEY: &str = "mantyx_";
const KEY_MIN_CHARS: usize = 16;

/// Whether a string of the value, or a key in it, contains a credential.
#[must_use]
pub fn contains_credential(value: &Value) -> bool {
    match value {
        Value::String(text) => find(text, 0).is_some(),
        Value::Array(values) => values.iter().any(contains_credential),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| find(key, 0).is_some() || contains_credential(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The value with every credential replaced by `***`.
#[must_use]
pub fn redacted(value: &Value) -> Value {
    map_texts(value, &redact)
}

/// The text with every credential replaced by `***`.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = 0;
    while let Some(found) = find(text, rest) {
        clean.push_str(&text[rest..found.start]);
        clean.push_str(MASK);
        rest = found.end;
    }
    clean.push_str(&text[rest..]);
    clean
}

/// The value with `change` applied to every string and every key in it.
#[must_use]
pub fn map_texts(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(values) => values
            .iter()
            .map(|value| map_texts(value, change))
            .collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (change(key), map_texts(value, change)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The first credential at or after a byte.
fn find(text: &str, from: usize) -> Option<std::ops::Range<usize>> {
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        let project = rest.find(PROJECT_CREDENTIAL);
        let other = rest.find(KEY);
        let offset = match (project, other) {
            (Some(one), Some(two)) => one.min(two),
            (one, two) => one.or(two)?,
        };
        let start = at + offset;
        if let Some(length) = credential_length(&text[start..]) {
            return Some(start..start + length);
        }
        at = start + KEY.len().min(PROJECT_CREDENTIAL.len());
    }
}

/// The bytes of the credential that a text begins with.
fn credential_length(text: &str) -> Option<usize> {
    let run = |prefix: usize, allowed: fn(u8) -> bool| {
        let rest = &text.as_bytes()[prefix..];
        rest.iter().take_while(|byte| allowed(**byte)).count()
    };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let prefixes = TOKENS.iter().find(|prefix| text.starts_with(**prefix));
    if text.starts_with(PROJECT_CREDENTIAL) {
        let length = run(PROJECT_CREDENTIAL.len(), |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
        });
        return (length > 0).then_some(PROJECT_CREDENTIAL.len() + length);
    }
    if let Some(prefix) = prefixes {
        let length = run(prefix.len(), word);
        return (length > 0).then_some(prefix.len() + length);
    }
    let length = run(KEY.len(), |byte| byte.is_ascii_alphanumeric());
    (length >= KEY_MIN_CHARS).then_some(KEY.len() + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_each_kind_of_credential() {
        for text in [
            "use rlpc_abc.def please",
            "mantyx_at_x",
            "mantyx_rt_x",
            "mantyx_oas_x",
            "mantyx_0123456789abcdef",
        ] {
            assert!(contains_credential(&json!({"a": [text]})), "{text}");
            assert!(contains_credential(&json!({text: 1})), "{text}");
        }
        for text in [
            "rlpc_",
            "mantyx_sdk",
            "mantyx_0123456789abcde",
            "mantyx_at_",
            "nothing",
        ] {
            assert!(!contains_credential(&json!({"a": text})), "{text}");
        }
    }

    #[test]
    fn replaces_credentials_and_nothing_else() {
        assert_eq!(redact("a rlpc_x.y, mantyx_sdk b"), "a ***, mantyx_sdk b");
        let value = json!({"mantyx_0123456789abcdefg": ["é rlpc_é rlpc_q"]});
        assert_eq!(redacted(&value), json!({"***": ["é rlpc_é ***"]}));
    }
}
