//! From what an administrator wrote to what is stored, kind by kind.

use runloom_protocol::definition::{
    AgentDefinition, PluginManifest, ToolDefinition, ToolsetDefinition, template,
};
use runloom_protocol::error::Issue;
use runloom_protocol::policy::Policy;
use runloom_protocol::validate;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::declared_schemas::Declared;
use crate::error::{Error, Result};
use crate::tenancy::is_slug;
use runloom_ports::store::DocumentKind;

/// The definition in its one spelling, or every violation.
pub(super) fn definition(kind: DocumentKind, slug: &str, body: &Value) -> Result<Value> {
    let mut issues = Vec::new();
    if let Some(message) = slug_problem(kind, slug) {
        issues.push(issue("slug", message));
    }
    issues.extend(named_otherwise(kind, slug, body));
    let checked = match kind {
        DocumentKind::Agent => plain(validate::agent_definition(body)),
        DocumentKind::Tool => plain(validate::tool_definition(body, slug)),
        DocumentKind::Plugin => {
            let source = validate::DefinitionSource::Administrator;
            plain(validate::plugin_manifest(body, slug, source))
        }
        DocumentKind::ExternalAgent => plain(validate::external_agent(body, slug)),
        DocumentKind::Provider => plain(validate::provider_definition(body)),
        DocumentKind::Toolset => {
            let source = validate::DefinitionSource::Administrator;
            plain(validate::toolset_definition(body, slug, source))
        }
        DocumentKind::Project => plain(validate::project_definition(body)),
        DocumentKind::Secret => {
            plain(validate::secret_value(body).map(|value| json!({ "value": value })))
        }
    };
    match checked {
        Ok(definition) if issues.is_empty() => definition.map_err(Error::internal),
        Ok(_) => Err(Error::Invalid(issues)),
        Err(more) => {
            issues.extend(more);
            Err(Error::Invalid(issues))
        }
    }
}

/// The schemas of the definition's tools.
pub(super) fn declared(kind: DocumentKind, definition: &Value) -> Result<Vec<Declared>> {
    let declared = match kind {
        DocumentKind::Tool | DocumentKind::ExternalAgent => {
            ToolDefinition::deserialize(definition).map(|tool| Declared::by_tool(&tool))
        }
        DocumentKind::Plugin => {
            PluginManifest::deserialize(definition).map(|plugin| Declared::by_plugin(&plugin))
        }
        DocumentKind::Agent => {
            AgentDefinition::deserialize(definition).map(|agent| by_policy(agent.policy.as_ref()))
        }
        DocumentKind::Toolset => ToolsetDefinition::deserialize(definition)
            .map(|toolset| by_policy(toolset.policy.as_ref())),
        DocumentKind::Provider | DocumentKind::Secret | DocumentKind::Project => Ok(Vec::new()),
    };
    declared.map_err(Error::internal)
}

fn by_policy(policy: Option<&Policy>) -> Vec<Declared> {
    policy.map_or_else(Vec::new, |policy| Declared::by_policy(policy, "policy"))
}

fn plain<T: Serialize>(
    checked: std::result::Result<T, Vec<Issue>>,
) -> std::result::Result<serde_json::Result<Value>, Vec<Issue>> {
    checked.map(|definition| serde_json::to_value(definition))
}

/// What is wrong with a slug.
fn slug_problem(kind: DocumentKind, slug: &str) -> Option<&'static str> {
    let provider = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match kind {
        DocumentKind::Secret => (!template::is_secret_name(slug)).then_some(
            "must be 1–128 of A–Z, a–z, 0–9, _, . and -, beginning with a letter, a digit or _",
        ),
        DocumentKind::Provider => {
            let fits = (1..=64).contains(&slug.len()) && slug.bytes().all(provider);
            (!fits).then_some("must be 1–64 letters, digits, -, _ or .")
        }
        _ => (!is_slug(slug)).then_some("must be 1–63 of a–z, 0–9 and -, and not start with -"),
    }
}

/// A body may repeat its slug, but not name another one.
fn named_otherwise(kind: DocumentKind, slug: &str, body: &Value) -> Option<Issue> {
    let key = match kind {
        DocumentKind::Provider if body.get("slug").is_none() => "id",
        DocumentKind::Secret if body.get("slug").is_none() => "name",
        _ => "slug",
    };
    let given = body.get(key)?;
    (given.as_str() != Some(slug))
        .then(|| issue(key, &format!("must be `{slug}`, as the path says")))
}

pub(super) fn issue(path: &str, message: &str) -> Issue {
    Issue {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_slug_and_body_come_together() {
        let body = json!({"slug": "other", "systemPrompt": ""});
        let error = definition(DocumentKind::Agent, "Bad Slug", &body).unwrap_err();
        let Error::Invalid(issues) = error else {
            panic!("{error:?}");
        };
        let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["slug", "slug", "systemPrompt"]);
    }

    #[test]
    fn each_kind_has_its_own_names() {
        for (kind, slug, body) in [
            (DocumentKind::Secret, "OPEN_AI.key-1", json!({"value": "x"})),
            (
                DocumentKind::Provider,
                "My_Provider",
                json!({"id": "My_Provider", "kind": "demo"}),
            ),
            (
                DocumentKind::Tool,
                "get-weather",
                json!({"type": "code", "source": "return 1"}),
            ),
        ] {
            definition(kind, slug, &body).unwrap();
        }
        for (kind, slug) in [
            (DocumentKind::Secret, "a b"),
            (DocumentKind::Provider, ""),
            (DocumentKind::Tool, "get_weather"),
        ] {
            assert!(slug_problem(kind, slug).is_some(), "{slug}");
        }
    }
}
