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

/// The card in the OpenAPI document. A2A defines it.
pub(super) fn schema() -> Value {
    let objects =
        json!({"type": "array", "items": {"type": "object", "additionalProperties": true}});
    let mut schema = json!({
        "type": "object",
        "description": "An A2A agent card, for clients of A2A 0.3 and 1.0.",
        "properties": {
            "name": {"type": "string", "description": "The display name of the agent."},
            "description": {"type": "string", "description": "What the agent is for."},
            "version": {"type": "string", "description": "The version of the agent."},
            "url": {"type": "string", "description": "The JSON-RPC endpoint, for A2A 0.3."},
            "protocolVersion": {"type": "string", "description": "The version of A2A that `url` has."},
            "capabilities": {"type": "object", "description": "What the agent supports.", "additionalProperties": true},
        },
        "required": ["name", "description", "version", "url", "supportedInterfaces", "capabilities", "skills"],
        "additionalProperties": true,
    });
    for (name, about) in [
        ("supportedInterfaces", "The endpoints, for A2A 1.0."),
        ("skills", "The skills of the agent."),
    ] {
        schema["properties"][name] = objects.clone();
        schema["properties"][name]["description"] = json!(about);
    }
    schema
}

/// The list of agents in the OpenAPI document.
pub(super) fn list_schema() -> Value {
    let entry = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the agent."},
            "slug": {"type": "string", "description": "The name of the agent in the workspace."},
            "name": {"type": "string", "description": "The display name."},
            "description": {"type": "string", "description": "What the agent is for."},
            "version": {"type": "string", "description": "The version of the agent."},
            "url": {"type": "string", "description": "The JSON-RPC endpoint."},
            "agentCardUrl": {"type": "string", "description": "The URL of the agent card."},
        },
        "required": ["id", "slug", "name", "description", "version", "url", "agentCardUrl"],
    });
    json!({
        "type": "object",
        "description": "The agents that a credential can call over A2A.",
        "properties": {"agents": {"type": "array", "items": entry, "description": "The agents, by slug."}},
        "required": ["agents"],
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
