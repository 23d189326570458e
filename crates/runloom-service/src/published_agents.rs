//! Published agents: agents over A2A and MCP.
//!
//! A conversation is a session and a task is a run, so they outlive connections and processes, and every process
//! finds them. Both have a label with the entry point that they came through. Runs of another entry point or another
//! agent are not found.

use std::sync::Arc;

use runloom_protocol::definition::{AgentDefinition, Skill};
use runloom_protocol::id::{AgentId, RunId, SessionId};
use runloom_protocol::resource::RunSnapshot;
use runloom_protocol::spec::{AgentSpec, CreateRun, CreateSession, Metadata, OutputSchema};
use runloom_protocol::tools::{ClientTool, ToolRef};
use runloom_protocol::validate;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::auth::Caller;
use crate::create_run::RunCreation;
use crate::entry_point::{EntryPoint, VIA};
use crate::error::{Error, Result};
use crate::registry::RegistryService;
use crate::runs::RunService;
use crate::sessions::SessionService;
use runloom_ports::store::{Document, Earlier, Idempotency, Store};

/// What callers see of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedAgent {
    /// What `agentId` takes.
    pub id: AgentId,
    /// Its name in URLs.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Rises with every change of it.
    pub version: u64,
    /// Names and descriptions of its skills.
    pub skills: Vec<(String, Option<String>)>,
    /// The schema of its answers.
    pub output_schema: Option<OutputSchema>,
}

/// A message to an agent.
#[derive(Debug, Clone)]
pub struct AgentMessage {
    /// The text of the message.
    pub text: String,
    /// The conversation that it continues; `None` begins one.
    pub context: Option<String>,
    /// The idempotency key of the request.
    pub idempotency: Option<Idempotency>,
}

/// A run that a message started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
}

/// Published agents of workspaces.
pub struct PublishedAgentService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<RegistryService>,
    pub(crate) creation: Arc<RunCreation>,
    pub(crate) runs: Arc<RunService>,
    pub(crate) sessions: Arc<SessionService>,
}

impl PublishedAgentService {
    /// The agents that a caller may call, by slug. Agents with client tools are left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<PublishedAgent>> {
        let found = self.registry.agents_in_full(caller).await?;
        let usable = found
            .into_iter()
            .filter(|(_, agent)| clients_tools(agent).is_empty());
        Ok(usable
            .filter_map(|(document, agent)| offered(document, agent))
            .collect())
    }

    /// One agent that a caller may call.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the caller has no agent with this slug; [`Error::Conflict`] when it has client tools.
    pub async fn callable(&self, caller: &Caller, slug: &str) -> Result<PublishedAgent> {
        let (agent, tools) = self.with_client_tools(caller, slug).await?;
        if !tools.is_empty() {
            let message = format!(
                "The agent `{slug}` has tools that its client must execute ({}); it can only be run through the Developer API.",
                tools.join(", ")
            );
            return Err(Error::Conflict { message });
        }
        Ok(agent)
    }

    /// One agent, also with client tools: its earlier runs can still be read and cancelled.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the caller has no agent with this slug.
    pub async fn get(&self, caller: &Caller, slug: &str) -> Result<PublishedAgent> {
        let (agent, _) = self.with_client_tools(caller, slug).await?;
        Ok(agent)
    }

    async fn with_client_tools(
        &self,
        caller: &Caller,
        slug: &str,
    ) -> Result<(PublishedAgent, Vec<String>)> {
        const NONE: Error = Error::NotFound { what: "agent" };
        let found = self.registry.agent_in_full(caller, slug).await?;
        let (document, agent) = found.ok_or(NONE)?;
        let tools = clients_tools(&agent).into_iter().map(str::to_owned);
        let tools = tools.collect();
        Ok((offered(document, agent).ok_or(NONE)?, tools))
    }

    /// Sends a message to an agent. The run is durable when this returns.
    ///
    /// # Errors
    /// When the message is refused, or its conversation is not one with this agent; nothing was created then.
    pub async fn send_message(
        &self,
        caller: &Caller,
        agent: &PublishedAgent,
        ask: AgentMessage,
    ) -> Result<Begun> {
        let body = json!({"prompt": ask.text});
        let message = validate::create_message(&body).map_err(Error::Invalid)?;
        let promise = ask.idempotency.map(|promise| promise_of(caller, promise));
        // A session with an idempotency key may be in use by the first request.
        let is_own = ask.context.is_none() && promise.is_none();
        let session = match &ask.context {
            Some(id) => self.context(caller, agent, id).await?,
            None => {
                // Checked before a session is created for the message.
                self.creation.check_backlog(caller.workspace.no).await?;
                let spec = spec_of(agent, EntryPoint::A2a);
                let promise = promise.as_ref().map(|promise| Idempotency {
                    key: format!("context:{}", promise.key),
                    ..promise.clone()
                });
                let made = self
                    .sessions
                    .create(caller, CreateSession { spec }, promise);
                let made = made.await;
                made.map_err(|error| own_fault(agent, error))?.session_id
            }
        };
        let accepted = self
            .sessions
            .send_message(caller, session.as_str(), message, promise)
            .await;
        if accepted.is_err() && is_own {
            // No client knows the session.
            let ended = self.sessions.end(caller, session.as_str()).await;
            ended.unwrap_or_else(|error| tracing::debug!(%error, "unused session stays open"));
        }
        let run = accepted.map_err(|error| own_fault(agent, error))?.run_id;
        Ok(Begun { run, session })
    }

    /// Runs an agent once, without a conversation. A repeated call with the same number is one run.
    ///
    /// # Errors
    /// When the message is refused, or [`Error::IdempotencyKeyReused`] when the number belongs to another call; nothing
    /// was created then.
    pub async fn call(
        &self,
        caller: &Caller,
        agent: &PublishedAgent,
        text: &str,
        number: Option<CallNumber>,
    ) -> Result<RunId> {
        let body = json!({"prompt": text});
        let message = validate::create_message(&body).map_err(Error::Invalid)?;
        let request = CreateRun {
            spec: spec_of(agent, EntryPoint::Mcp),
            messages: message.messages,
        };
        let promise = number.map(|CallNumber(key)| Idempotency {
            key,
            fingerprint: digest(&[agent.id.as_str(), text]),
        });
        let accepted = self.runs.create(caller, request, promise).await;
        Ok(accepted.map_err(|error| own_fault(agent, error))?.run_id)
    }

    /// A run that came through this entry point, of an agent that the caller still has.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn run(
        &self,
        caller: &Caller,
        entry_point: EntryPoint,
        id: &str,
    ) -> Result<(RunSnapshot, PublishedAgent)> {
        const NONE: Error = Error::NotFound { what: "run" };
        let run = self.runs.snapshot(caller, id).await?;
        let agent = run.agent_id.as_ref().ok_or(NONE)?;
        if !came_through(&run.metadata, entry_point) {
            return Err(NONE);
        }
        match self.get(caller, agent.as_str()).await {
            Ok(agent) => Ok((run, agent)),
            Err(Error::NotFound { .. }) => Err(NONE),
            Err(error) => Err(error),
        }
    }

    /// The run of the call with this number, if there is one, whatever it asked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn run_of_call(&self, caller: &Caller, number: CallNumber) -> Result<Option<RunId>> {
        let CallNumber(key) = number;
        let fingerprint = [0; 32];
        let any = Idempotency { key, fingerprint };
        let earlier = self.store.earlier(caller.workspace.no, &any);
        Ok(match earlier.await? {
            Earlier::Same(id) | Earlier::OtherBody(id) => RunId::parse(&id),
            Earlier::None => None,
        })
    }

    /// The session of a conversation with this agent.
    async fn context(
        &self,
        caller: &Caller,
        agent: &PublishedAgent,
        id: &str,
    ) -> Result<SessionId> {
        const NONE: Error = Error::NotFound { what: "session" };
        let row = self.sessions.row(caller, id).await?;
        let spec: AgentSpec = serde_json::from_str(&row.public_spec).map_err(Error::internal)?;
        let fits = spec.agent_id.as_ref() == Some(&agent.id);
        (fits && came_through(&row.metadata, EntryPoint::A2a))
            .then_some(row.id)
            .ok_or(NONE)
    }
}

/// Hides an invalid definition of the agent from the caller. The message itself was validated before.
fn own_fault(agent: &PublishedAgent, error: Error) -> Error {
    let own = matches!(
        error,
        Error::Invalid(_) | Error::InvalidModel { .. } | Error::InvalidPlugin { .. }
    );
    if !own {
        return error;
    }
    tracing::warn!(agent = agent.slug, %error, "published agent cannot be run");
    Error::AgentUnavailable
}

/// Binds an idempotency key to the credential: callers that share an agent may choose the same simple keys.
fn promise_of(caller: &Caller, promise: Idempotency) -> Idempotency {
    Idempotency {
        key: format!("hosted:{}:{}", caller.key_id, promise.key),
        ..promise
    }
}

/// The number of a call, for clients that number their calls. It does not depend on the content of the call, so that
/// the number alone finds the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNumber(String);

impl CallNumber {
    /// The number that a caller gave to a call.
    #[must_use]
    pub fn new(caller: &Caller, conversation: &str, number: &str) -> Self {
        let digest = digest(&[caller.key_id.as_str(), conversation, number]);
        Self(format!("numbered_call:{}", crate::vault::hex(&digest)))
    }
}

/// A hash of length-prefixed parts.
fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// The names of an agent's tools that only a client can execute.
fn clients_tools(agent: &AgentDefinition) -> Vec<&str> {
    let tools = agent.tools.iter().filter_map(ToolRef::client_tool);
    tools.map(ClientTool::name).collect()
}

fn offered(document: Document, agent: AgentDefinition) -> Option<PublishedAgent> {
    let skill = |skill: Skill| (skill.name, skill.description);
    Some(PublishedAgent {
        id: AgentId::parse(&document.id)?,
        name: agent.name.unwrap_or_else(|| document.slug.clone()),
        slug: document.slug,
        description: agent.description,
        version: document.version,
        skills: agent.skills.into_iter().map(skill).collect(),
        output_schema: agent.output_schema,
    })
}

fn spec_of(agent: &PublishedAgent, entry_point: EntryPoint) -> AgentSpec {
    AgentSpec {
        agent_id: Some(agent.id.clone()),
        metadata: Metadata::from([(VIA.to_owned(), entry_point.as_str().to_owned())]),
        ..AgentSpec::default()
    }
}

fn came_through(metadata: &Metadata, entry_point: EntryPoint) -> bool {
    metadata
        .get(VIA)
        .is_some_and(|via| via == entry_point.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::test_caller;

    #[test]
    fn numbers_of_other_conversations_and_keys_are_other_calls() {
        let caller = test_caller("one", None);
        let first = CallNumber::new(&caller, "s1", "1");
        assert_eq!(first, CallNumber::new(&caller, "s1", "1"));
        for (key, conversation, number) in [
            ("one", "s1", "\"1\""),
            ("one", "s2", "1"),
            ("one", "s", "11"),
            ("two", "s1", "1"),
        ] {
            let other = CallNumber::new(&test_caller(key, None), conversation, number);
            assert_ne!(first, other, "{key} {conversation} {number}");
        }
    }

    #[test]
    fn the_tools_that_only_a_client_has_are_named() {
        let body = json!({"systemPrompt": "x", "tools": [
            {"kind": "local", "name": "read_file"},
            {"kind": "mcp", "name": "docs", "url": "https://docs.example/mcp"},
            {"kind": "a2a_local", "name": "hr", "agentCard": {"name": "HR", "url": "https://hr.example"}},
        ]});
        let agent = validate::agent_definition(&body).unwrap();
        assert_eq!(clients_tools(&agent), ["read_file", "hr"]);
    }
}
