//! A text that must not be shown.

use std::fmt;

use serde_json::Value;
use zeroize::Zeroize;

/// Replacement of a secret in output.
pub const MASK: &str = "***";

/// Minimum length of a secret that is redacted from texts: shorter ones occur by chance.
const REDACTED_MIN_BYTES: usize = 4;

/// A secret in clear: printed as `***`, wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the clear text.
    #[must_use]
    pub fn new(clear: impl Into<String>) -> Self {
        Self(clear.into())
    }

    /// The clear text, for the wire only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text without this secret, because peers may repeat what they were sent.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < REDACTED_MIN_BYTES {
            return text.to_owned();
        }
        text.replace(&self.0, MASK)
    }

    /// Takes this secret out of every text in the value.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_json(value)),
            Value::Object(fields) => {
                fields
                    .values_mut()
                    .for_each(|value| self.redact_json(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Schema keywords with free text. Constraints (names, values, patterns) must stay, or arguments would not match.
const SPOKEN: [&str; 5] = ["title", "description", "default", "examples", "$comment"];

/// Redacts the free text of a schema and leaves its constraints.
pub fn redact_schema(schema: &mut Value, redact: &dyn Fn(&str) -> String) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if SPOKEN.contains(&name.as_str()) => *text = redact(text),
                    // `examples` and `default` may be of any type.
                    Value::Array(values) if SPOKEN.contains(&name.as_str()) => {
                        for value in values {
                            match value {
                                Value::String(text) => *text = redact(text),
                                value => redact_schema(value, redact),
                            }
                        }
                    }
                    value => redact_schema(value, redact),
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                redact_schema(value, redact);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_nowhere() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.redact("got s3cret, s3cret"), "got ***, ***");
        assert_eq!(Secret::new("a").redact("banana"), "banana");
    }
}
