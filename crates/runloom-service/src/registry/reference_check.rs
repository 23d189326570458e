//! What a definition mentions of its workspace, and whether it is there.
//!
//! A secret must be there before it is named, as only its absence could be noticed later. A tool may come after the
//! agent that uses it: its absence is a warning, and an error where a run would need it.

use runloom_protocol::definition::template;
use runloom_protocol::error::Issue;
use serde_json::Value;

use super::{RegistryService, check};
use crate::error::Result;
use runloom_ports::store::{DocumentKind, WorkspaceRow};

impl RegistryService {
    /// An issue for every secret that is named and not there.
    pub(super) async fn missing_secrets(
        &self,
        workspace: &WorkspaceRow,
        definition: &Value,
    ) -> Result<Vec<Issue>> {
        let mut issues = Vec::new();
        for (path, name) in named_secrets(definition) {
            let secret = DocumentKind::Secret;
            let found = self.store.document(workspace.no, secret, &name).await?;
            if found.is_none_or(|found| found.slug != name) {
                let message =
                    format!("there is no secret `{name}` in this workspace; put it first");
                issues.push(check::issue(&path, &message));
            }
        }
        Ok(issues)
    }

    /// What is allowed and will not work as things are.
    pub(super) async fn warnings(
        &self,
        workspace: &WorkspaceRow,
        kind: DocumentKind,
        definition: &Value,
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        if kind == DocumentKind::Tool && definition["type"] == "plugin" {
            let is_given = |key: &&str| {
                definition[*key]
                    .as_object()
                    .is_some_and(|own| !own.is_empty())
            };
            for key in ["parameters", "outputSchema"]
                .iter()
                .filter(|key| is_given(key))
            {
                warnings.push(format!(
                    "{key}: a plugin's tool has its own, and this one is ignored"
                ));
            }
        }
        if kind != DocumentKind::Agent {
            return Ok(warnings);
        }
        for (path, id) in named_tools(definition) {
            let mut found = false;
            for kind in [DocumentKind::Tool, DocumentKind::ExternalAgent] {
                found |= self
                    .store
                    .document(workspace.no, kind, &id)
                    .await?
                    .is_some();
            }
            if !found {
                warnings.push(format!(
                    "{path}: there is no tool `{id}` in this workspace; runs of the agent are refused until there is"
                ));
            }
        }
        Ok(warnings)
    }
}

/// Every workspace tool that an agent's definition names, with the place where.
#[must_use]
pub fn named_tools(agent: &Value) -> Vec<(String, String)> {
    let tools = agent.get("tools").and_then(Value::as_array);
    let named = |(index, tool): (usize, &Value)| {
        let id = tool.get("id").and_then(Value::as_str)?;
        let is_row = tool.get("kind").and_then(Value::as_str) == Some("mantyx");
        is_row.then(|| (format!("tools[{index}].id"), id.to_owned()))
    };
    tools
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(named)
        .collect()
}

/// The places of a tool's or a plugin's definition that say that a tool is code.
#[must_use]
pub fn code_tools(definition: &Value) -> Vec<String> {
    let is_code = |tool: &Value| tool.get("type").and_then(Value::as_str) == Some("code");
    let tools = definition.get("tools").and_then(Value::as_array);
    let inside = tools.into_iter().flatten().enumerate();
    let inside = inside.filter(|(_, tool)| is_code(tool));
    let inside = inside.map(|(index, _)| format!("tools[{index}].type"));
    let own = is_code(definition).then(|| "type".to_owned());
    own.into_iter().chain(inside).collect()
}

/// Every secret that a definition names, in a template or in the list of a code tool, with the place where.
#[must_use]
pub fn named_secrets(definition: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(definition, &mut String::new(), &mut found);
    found
}

fn collect(value: &Value, path: &mut String, found: &mut Vec<(String, String)>) {
    let length = path.len();
    match value {
        Value::String(text) => {
            found.extend(template::secrets(text).map(|name| (path.clone(), name.to_owned())));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect(item, path, found);
                path.truncate(length);
            }
        }
        Value::Object(object) => {
            let is_code = object.get("type").and_then(Value::as_str) == Some("code");
            for (key, value) in object {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                if is_code && key == "secrets" {
                    let names = value.as_array().into_iter().flatten().enumerate();
                    let name = |(index, name): (usize, &Value)| {
                        Some((format!("{path}[{index}]"), name.as_str()?.to_owned()))
                    };
                    found.extend(names.filter_map(name));
                } else {
                    collect(value, path, found);
                }
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(body: &Value) -> Vec<(String, String)> {
        let mut found = named_secrets(body);
        found.sort();
        found
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        let own = |(path, name): (&str, &str)| (path.to_owned(), name.to_owned());
        pairs.into_iter().map(own).collect()
    }

    #[test]
    fn named_secrets_are_found_anywhere() {
        let body = json!({"url": "https://x/{{secret:A}}", "body": {"k": ["{{secret:B}}"]}});
        assert_eq!(named(&body), pairs([("body.k[0]", "B"), ("url", "A")]));
    }

    #[test]
    fn the_secrets_of_code_are_named_in_a_list() {
        let tool = json!({"type": "code", "source": "return 1", "secrets": ["A", "B"]});
        assert_eq!(
            named(&tool),
            pairs([("secrets[0]", "A"), ("secrets[1]", "B")])
        );
        let plugin = json!({"tools": [tool, {"type": "http", "body": {"secrets": ["C"]}}]});
        let expected = pairs([("tools[0].secrets[0]", "A"), ("tools[0].secrets[1]", "B")]);
        assert_eq!(named(&plugin), expected);
    }

    #[test]
    fn code_is_found_in_tools_and_in_plugins() {
        let code = json!({"type": "code", "source": "return 1"});
        assert_eq!(code_tools(&code), ["type"]);
        let plugin = json!({"tools": [{"type": "http"}, code]});
        assert_eq!(code_tools(&plugin), ["tools[1].type"]);
        assert!(code_tools(&json!({"tools": [{"kind": "mantyx", "id": "code"}]})).is_empty());
    }

    #[test]
    fn only_rows_of_the_workspace_are_named_tools() {
        let agent =
            json!({"tools": [{"kind": "local", "name": "x"}, {"kind": "mantyx", "id": "weather"}]});
        assert_eq!(named_tools(&agent), pairs([("tools[1].id", "weather")]));
        assert_eq!(named_tools(&json!({})), []);
    }
}
