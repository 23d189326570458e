//! Credentials inside definitions: found, sealed, opened, masked.
//!
//! A value that may be a credential is one that stands under `headers`, as `apiKey`, or under an option that sounds
//! like one. Values that name a secret (`{{secret:…}}`) say nothing and stay as they are; a secret document's value
//! is always sealed.

use runloom_protocol::definition::template;
use runloom_protocol::error::Issue;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::vault::Vault;
use runloom_ports::sealer::Sealer;
use runloom_ports::secret::MASK;
use runloom_ports::store::DocumentKind;

/// Fields that belong to others, or whose keys are data: a schema may well describe a field called `headers`.
const FOREIGN: [&str; 10] = [
    "parameters",
    "inputSchema",
    "outputSchema",
    "agentCard",
    "serverInfo",
    "annotations",
    "metadata",
    "body",
    "policy",
    "toolSettings",
];

/// Words in the name of an option that holds a credential.
const TELLING: [&str; 5] = ["key", "secret", "token", "password", "credential"];

/// What binds a sealed value to its document.
pub(super) fn place(workspace: &str, kind: DocumentKind, slug: &str) -> String {
    format!("{workspace}/{}/{slug}", kind.as_str())
}

/// The definition as it is stored.
pub(super) fn seal(sealer: &dyn Sealer, place: &str, mut definition: Value) -> Result<Value> {
    visit(&mut definition, String::new(), &mut |path, text| {
        *text = sealer
            .seal(&format!("{place}{path}"), text)
            .map_err(Error::internal)?;
        Ok(())
    })?;
    Ok(definition)
}

/// The definition as it is used.
pub(super) fn open(sealer: &dyn Sealer, place: &str, mut definition: Value) -> Result<Value> {
    visit(&mut definition, String::new(), &mut |path, text| {
        if Vault::is_sealed(text) {
            *text = sealer
                .open(&format!("{place}{path}"), text)
                .map_err(Error::internal)?;
        }
        Ok(())
    })?;
    Ok(definition)
}

/// The definition as it is shown.
pub(super) fn mask(mut definition: Value) -> Result<Value> {
    visit(&mut definition, String::new(), &mut |_, text| {
        MASK.clone_into(text);
        Ok(())
    })?;
    Ok(definition)
}

/// A masked value that comes back says nothing any more.
pub(super) fn refuse_masks(definition: &Value) -> Result<Vec<Issue>> {
    let mut issues = Vec::new();
    visit(&mut definition.clone(), String::new(), &mut |path, text| {
        if text == MASK {
            issues.push(Issue {
                path: path.trim_start_matches('/').replace('/', "."),
                message: format!(
                    "`{MASK}` is what is shown instead of a credential; give the value again, or `{{{{secret:NAME}}}}`"
                ),
            });
        }
        Ok(())
    })?;
    Ok(issues)
}

type Visitor<'v> = &'v mut dyn FnMut(&str, &mut String) -> Result<()>;

/// Calls `visitor` with every literal value that may be a credential.
fn visit(value: &mut Value, path: String, visitor: Visitor<'_>) -> Result<()> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                visit(item, format!("{path}/{index}"), visitor)?;
            }
        }
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                let path = format!("{path}/{key}");
                match (key.as_str(), value) {
                    ("headers", Value::Object(headers)) => {
                        for (name, value) in headers.iter_mut() {
                            literal(value, &format!("{path}/{name}"), visitor)?;
                        }
                    }
                    ("options", Value::Object(options)) => {
                        for (name, value) in
                            options.iter_mut().filter(|(name, _)| is_selective(name))
                        {
                            literal(value, &format!("{path}/{name}"), visitor)?;
                        }
                    }
                    ("apiKey", value) => literal(value, &path, visitor)?,
                    (key, _) if FOREIGN.contains(&key) => {}
                    (_, value) => visit(value, path, visitor)?,
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn literal(value: &mut Value, path: &str, visitor: Visitor<'_>) -> Result<()> {
    match value {
        Value::String(text) if template::secrets(text).next().is_none() => visitor(path, text),
        _ => Ok(()),
    }
}

fn is_selective(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition() -> Value {
        json!({
            "apiKey": "sk-1",
            "headers": {"Authorization": "Bearer t", "X-Ref": "{{secret:REF}}"},
            "options": {"region": "eu", "secret_access_key": "aws"},
            "parameters": {"properties": {"headers": {"type": "object"}}},
            "tools": [{"kind": "mcp", "headers": {"A": "b"}}],
        })
    }

    #[test]
    fn literal_credentials_are_sealed_and_everything_else_is_not() {
        let vault = Vault::new(b"master");
        let sealed = seal(&vault, "acme/tool/x", definition()).unwrap();
        let text = sealed.to_string();
        for secret in ["sk-1", "Bearer t", "\"aws\"", "\"b\""] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(sealed["headers"]["X-Ref"], "{{secret:REF}}");
        assert_eq!(sealed["options"]["region"], "eu");
        assert_eq!(sealed["parameters"], definition()["parameters"]);
        assert_eq!(
            open(&vault, "acme/tool/x", sealed.clone()).unwrap(),
            definition()
        );
        assert!(open(&vault, "rival/tool/x", sealed).is_err());
    }

    #[test]
    fn masks_hide_and_are_refused_when_they_come_back() {
        let masked = mask(definition()).unwrap();
        assert_eq!(masked["apiKey"], MASK);
        assert_eq!(masked["tools"][0]["headers"]["A"], MASK);
        assert_eq!(masked["headers"]["X-Ref"], "{{secret:REF}}");
        assert_eq!(refuse_masks(&masked).unwrap().len(), 4);
        assert!(refuse_masks(&definition()).unwrap().is_empty());
    }
}
