//! Persisted agents: listed, and laid under a spec.

use runloom_protocol::definition::{AgentDefinition, template};
use runloom_protocol::id::AgentId;
use runloom_protocol::limits;
use runloom_protocol::resource::{AgentList, AgentListItem};
use runloom_protocol::spec::{AgentSpec, Budgets, Metadata};
use runloom_protocol::tools::{self, ToolRef};

use super::{RegistryService, check};
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::merged_metadata::check_merged;
use runloom_ports::clock::rfc3339;
use runloom_ports::store::{Document, DocumentKind};

impl RegistryService {
    /// The agents that a caller may run, by slug.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn agents(&self, caller: &Caller) -> Result<AgentList> {
        let mut agents = Vec::new();
        for (document, agent) in self.agents_in_full(caller).await? {
            agents.extend(AgentId::parse(&document.id).map(|id| AgentListItem {
                id,
                slug: document.slug,
                name: agent.name,
                description: agent.description,
                model_id: agent.model_id,
                version: document.version,
                created_at: rfc3339(document.created_at),
                updated_at: rfc3339(document.updated_at),
            }));
        }
        Ok(AgentList { agents })
    }

    /// The agents that a caller may run, with all that they say, by slug.
    pub(crate) async fn agents_in_full(
        &self,
        caller: &Caller,
    ) -> Result<Vec<(Document, AgentDefinition)>> {
        let workspace = &caller.workspace;
        let documents = self.store.documents(workspace.no, DocumentKind::Agent);
        let mut agents = Vec::new();
        for document in documents.await? {
            if may_run(caller, &document) {
                let agent = self.read(workspace, &document)?;
                agents.push((document, agent));
            }
        }
        Ok(agents)
    }

    /// One of them, by its id or its slug.
    pub(crate) async fn agent_in_full(
        &self,
        caller: &Caller,
        id_or_slug: &str,
    ) -> Result<Option<(Document, AgentDefinition)>> {
        let workspace = &caller.workspace;
        let kind = DocumentKind::Agent;
        let found = self.store.document(workspace.no, kind, id_or_slug).await?;
        let found = found.filter(|document| may_run(caller, document));
        found
            .map(|document| {
                let agent = self.read(workspace, &document)?;
                Ok((document, agent))
            })
            .transpose()
    }

    /// The spec with the agent that it names under it. What a client wrote may not name secrets: only an
    /// administrator's texts may, because their author decides where the secret goes.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when the agent is unknown, of another workspace, or not for this credential.
    pub async fn resolve_agent(&self, caller: &Caller, spec: AgentSpec) -> Result<AgentSpec> {
        refuse_secrets(&spec.tools)?;
        let Some(id) = spec.agent_id.clone() else {
            return Ok(spec);
        };
        let found = self.agent_in_full(caller, id.as_str()).await?;
        let (document, agent) = found.ok_or_else(|| Error::Forbidden {
            message: format!("The agent {id} is unknown, or not for this credential"),
        })?;
        let mut merged = merge(agent, spec)?;
        merged.agent_version = Some(document.version);
        Ok(merged)
    }
}

/// An allow-list names agents by id, or by slug as a configuration file does.
fn may_run(caller: &Caller, agent: &Document) -> bool {
    let allowed = &caller.agent_ids;
    allowed.is_empty()
        || allowed
            .iter()
            .any(|name| *name == agent.id || *name == agent.slug)
}

fn refuse_secrets(tools: &[ToolRef]) -> Result<()> {
    let mut issues = Vec::new();
    tools::visit(tools, "", &mut |path, tool| {
        for (name, value) in tool.headers().into_iter().flatten() {
            if template::secrets(value).next().is_some() {
                let path = format!("{path}.headers.{name}");
                let message = "only persisted agents, workspace tools and plugins may name secrets";
                issues.push(check::issue(&path, message));
            }
        }
    });
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

fn merge(agent: AgentDefinition, spec: AgentSpec) -> Result<AgentSpec> {
    let mut metadata: Metadata = agent.metadata.clone();
    metadata.extend(spec.metadata);
    check_merged(&metadata)?;
    Ok(AgentSpec {
        system_prompt: Some(agent.instructions()),
        name: spec.name.or(agent.name),
        model_id: spec.model_id.or(agent.model_id),
        fallback_model_id: spec.fallback_model_id.or(agent.fallback_model_id),
        active_model_id: None,
        reasoning_level: spec.reasoning_level.or(agent.reasoning_level),
        tools: merge_tools(agent.tools, spec.tools)?,
        budgets: merge_budgets(agent.budgets, spec.budgets),
        output_schema: spec.output_schema.or(agent.output_schema),
        loop_detection: spec.loop_detection.or(agent.loop_detection),
        tool_budgets: spec.tool_budgets.or(agent.tool_budgets),
        compaction: spec.compaction.or(agent.compaction),
        max_depth: spec.max_depth.or(agent.max_depth),
        policy: spec.policy,
        applied_policies: agent.policy.into_iter().collect(),
        metadata,
        agent_id: spec.agent_id,
        agent_version: spec.agent_version,
    })
}

fn merge_budgets(agent: Budgets, given: Budgets) -> Budgets {
    Budgets {
        max_tool_turns: given.max_tool_turns.or(agent.max_tool_turns),
        max_wall_ms: given.max_wall_ms.or(agent.max_wall_ms),
        max_output_tokens: given.max_output_tokens.or(agent.max_output_tokens),
        max_cost_usd: given.max_cost_usd.or(agent.max_cost_usd),
    }
}

/// The agent's tools in their order, a given one in the place of its namesake, the other given ones behind them.
fn merge_tools(agent: Vec<ToolRef>, given: Vec<ToolRef>) -> Result<Vec<ToolRef>> {
    let mut tools = agent;
    for tool in given {
        match tools
            .iter_mut()
            .find(|known| known.identity() == tool.identity())
        {
            Some(known) => *known = over(tool, known),
            None => tools.push(tool),
        }
    }
    if tools.len() > limits::TOOLS_MAX {
        let (max, got) = (limits::TOOLS_MAX, tools.len());
        let message = format!("with the agent's tools there are {got}; at most {max} are allowed");
        return Err(Error::invalid("tools", message));
    }
    Ok(tools)
}

/// A given ref in the place of its namesake. What a project ref allows is what both allow.
pub(crate) fn over(given: ToolRef, below: &ToolRef) -> ToolRef {
    match (given, below) {
        (ToolRef::Project(given), ToolRef::Project(below)) => ToolRef::Project(given.over(below)),
        (given, _) => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_protocol::validate;
    use serde_json::{Value, json};

    fn agent(body: Value) -> AgentDefinition {
        validate::agent_definition(&body).unwrap()
    }

    fn spec(body: Value) -> AgentSpec {
        validate::create_session(&body).unwrap().spec
    }

    #[test]
    fn the_agents_prompt_wins_and_its_model_gives_way() {
        let agent = agent(json!({
            "systemPrompt": "Agent.", "modelId": "a", "reasoningLevel": 10, "budgets": {"maxToolTurns": 3, "maxWallMs": 9},
            "toolBudgets": {"x": {"maxCalls": 1}}, "loopDetection": false, "metadata": {"team": "a", "env": "x"},
        }));
        let plain = merge(
            agent.clone(),
            spec(json!({"agentId": "agent_1", "systemPrompt": "Mine."})),
        )
        .unwrap();
        assert_eq!(plain.system_prompt.as_deref(), Some("Agent."));
        assert_eq!(plain.model_id.as_deref(), Some("a"));
        assert_eq!(plain.reasoning_level, Some(10));
        let given = json!({
            "agentId": "agent_1", "modelId": "b", "reasoningLevel": 0, "budgets": {"maxToolTurns": 5},
            "toolBudgets": {}, "loopDetection": {"consecutiveThreshold": 2}, "metadata": {"env": "y"},
        });
        let merged = merge(agent, spec(given)).unwrap();
        assert_eq!(merged.model_id.as_deref(), Some("b"));
        assert_eq!(merged.reasoning_level, Some(0));
        assert_eq!(merged.budgets.max_tool_turns, Some(5));
        assert_eq!(merged.budgets.max_wall_ms, Some(9));
        assert!(merged.tool_budgets.unwrap().is_empty());
        assert_eq!(merged.metadata["team"], "a");
        assert_eq!(merged.metadata["env"], "y");
    }

    #[test]
    fn given_tools_replace_their_namesakes_and_follow_the_others() {
        let local =
            |name: &str, text: &str| json!({"kind": "local", "name": name, "description": text});
        let agent = agent(
            json!({"systemPrompt": "x", "tools": [local("a", "agent"), local("b", "agent")]}),
        );
        let given = spec(
            json!({"agentId": "agent_1", "tools": [local("c", "given"), local("a", "given")]}),
        );
        let merged = merge(agent, given).unwrap();
        let shown: Vec<_> = merged
            .tools
            .iter()
            .map(|tool| match tool {
                ToolRef::Local(tool) => (tool.name.as_str(), tool.description.as_deref()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a", Some("given")),
                ("b", Some("agent")),
                ("c", Some("given"))
            ]
        );
    }

    #[test]
    fn a_client_cannot_send_a_secret_anywhere() {
        let tool = json!({"kind": "mcp", "name": "x", "url": "https://evil.example/", "headers": {"A": "{{secret:KEY}}"}});
        let spec = spec(json!({"systemPrompt": "x", "tools": [tool]}));
        let error = refuse_secrets(&spec.tools).unwrap_err();
        assert!(matches!(error, Error::Invalid(issues) if issues[0].path == "tools[0].headers.A"));
    }
}
