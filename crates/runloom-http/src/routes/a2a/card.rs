//! The agent card, one document for clients of both versions.
//!
//! 0.3 reads `url`, `security` and schemes with a `type`; 1.0 reads `supportedInterfaces`, `securityRequirements` and
//! schemes by field. Each ignores the fields of the other.

use runloom_service::published_agents::PublishedAgent;
use serde_json::{Value, json};

/// The card of an agent at `url`.
pub(super) fn card(agent: &PublishedAgent, url: &str) -> Value {
    let answers = match &agent.output_schema {
        Some(_) => json!(["application/json", "text/plain"]),
        None => json!(["text/plain"]),
    };
    json!({
        "protocolVersion": "0.3.0",
        "name": agent.name,
        "description": description(agent),
        "version": agent.version.to_string(),
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": url, "transport": "JSONRPC"}],
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": true, "pushNotifications": false},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": answers,
        "skills": skills(agent),
        "securitySchemes": {
            "bearer": {
                "type": "http", "scheme": "bearer",
                "httpAuthSecurityScheme": {"scheme": "bearer"},
            },
            "apiKey": {
                "type": "apiKey", "in": "header", "name": "X-API-Key",
                "apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"apiKey": []}],
        "securityRequirements": [
            {"schemes": {"bearer": {"list": []}}},
            {"schemes": {"apiKey": {"list": []}}},
        ],
    })
}

/// One entry of the list of agents.
pub(super) fn entry(agent: &PublishedAgent, url: &str) -> Value {
    json!({
        "id": agent.id,
        "slug": agent.slug,
        "name": agent.name,
        "description": description(agent),
        "version": agent.version.to_string(),
        "url": url,
        "agentCardUrl": format!("{url}/.well-known/agent-card.json"),
    })
}

fn description(agent: &PublishedAgent) -> &str {
    agent.description.as_deref().unwrap_or(&agent.name)
}

/// Skills; clients require at least one.
fn skills(agent: &PublishedAgent) -> Vec<Value> {
    let skill = |id: String, name: &str, description: &str| json!({"id": id, "name": name, "description": description, "tags": [agent.slug]});
    if agent.skills.is_empty() {
        return vec![skill(agent.slug.clone(), &agent.name, description(agent))];
    }
    let numbered = agent.skills.iter().enumerate();
    numbered
        .map(|(index, (name, when))| {
            let id = format!("{}-{}", agent.slug, index + 1);
            skill(id, name, when.as_deref().unwrap_or(name))
        })
        .collect()
}
