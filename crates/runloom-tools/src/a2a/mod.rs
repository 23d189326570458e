//! `kind: "a2a"`: a remote agent as a tool with one argument, the message. Supports v0.3 and v1.0 over JSON-RPC and
//! HTTP+JSON.
//!
//! Reading order: [`A2a`] (the kind and the execution of a call), `card` (the endpoints to try), `task_client` (the
//! requests), `wire` (both protocol versions over one model).

mod card;
mod task_client;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::HeaderMap;
use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::{A2aTool, ToolRef};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call_secrets::CallSecrets;
use crate::content::{self, ResultContent};
use crate::listing_budget::ListingBudget;
use crate::outbound::{Outbound, add_trace_header, spec_headers};
use crate::tool_kind::{IndexedRef, ToolKind};
use crate::tool_limits::ToolLimits;

use task_client::{TaskClient, TaskError, TaskErrorKind};
use wire::{AgentReply, TaskState, UserMessage};

const KIND: &str = "a2a";

/// First and longest pause between two polls of a task.
const FIRST_PAUSE: Duration = Duration::from_millis(150);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Timeout of one poll, and the number of failures in a row that end the call.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_FAILED_POLLS: usize = 5;

/// Timeout of a cancellation, which happens in the background.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

const CANCELLED: &str = "the call was cancelled";

/// Remote agents that the server calls.
pub(crate) struct A2a {
    outbound: Outbound,
    tasks: Tasks,
    limits: ToolLimits,
}

impl A2a {
    /// Makes no connection before the first call.
    pub(crate) fn new(outbound: Outbound, tasks: Tasks, limits: ToolLimits) -> Self {
        Self {
            outbound,
            tasks,
            limits,
        }
    }

    /// Sends the message and waits for the agent's result.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn delegate(
        &self,
        agent: &A2aTool,
        call: &Invocation,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let deadline = Instant::now() + self.limits.call_timeout;
        let message = call.input.get("message").and_then(Value::as_str);
        let message = UserMessage {
            // The call's id is the message's id, so that an agent can recognise a repetition.
            id: call.tool_use_id.clone(),
            text: message
                .ok_or("the argument \"message\" is missing")?
                .to_owned(),
            context_id: agent.context_id.clone(),
        };
        let mut headers = spec_headers(&agent.headers).map_err(|error| error.to_string())?;
        add_trace_header(&mut headers, call.trace.as_ref());
        let outgoing = Delegation {
            card_url: &agent.agent_card_url,
            headers,
            message,
            deadline,
        };
        let task = self.send_to_agent(outgoing, cancel).await?;
        self.poll(task, deadline, cancel).await
    }

    /// Polls a task until it ends.
    async fn poll(
        &self,
        mut running: RunningTask,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let mut pause = FIRST_PAUSE;
        let mut failed_polls = 0;
        loop {
            let id = match &running.reply {
                AgentReply::Message(message) => {
                    return Ok(wire::message_content(message).success());
                }
                AgentReply::Task { id, state, task } => match state {
                    TaskState::Completed => return Ok(wire::task_content(task).success()),
                    TaskState::Stopped(state) => return Ok(stopped_outcome(state, task)),
                    TaskState::Running => id,
                },
            };
            if Instant::now() + pause >= deadline {
                return Err(format!(
                    "its task did not end within {:?}",
                    self.limits.call_timeout
                ));
            }
            if cancel
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return Err(CANCELLED.to_owned());
            }
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            let polling = running.client.get(id, POLL_TIMEOUT);
            match cancel.run_until_cancelled(polling).await {
                None => return Err(CANCELLED.to_owned()),
                Some(Ok(reply)) => {
                    failed_polls = 0;
                    running.reply = reply;
                }
                Some(Err(error)) => {
                    failed_polls += 1;
                    if failed_polls >= MAX_FAILED_POLLS {
                        return Err(format!(
                            "the state of its task {id} cannot be read: {}",
                            error.message
                        ));
                    }
                }
            }
        }
    }

    /// Finds the agent's endpoint and sends the message once: another endpoint is tried only when the one before did
    /// nothing.
    async fn send_to_agent(
        &self,
        outgoing: Delegation<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunningTask, String> {
        let Delegation {
            card_url,
            headers,
            message,
            deadline,
        } = outgoing;
        let finding = card::endpoints(&self.outbound, card_url, &headers);
        let endpoints = cancel.run_until_cancelled(finding).await.ok_or(CANCELLED)?;
        let mut first_error = None;
        let endpoints = endpoints.map_err(|error| error.to_string())?;
        let home = Url::parse(card_url.trim()).map_err(|error| error.to_string())?;
        for endpoint in endpoints {
            // A card may name any endpoint, so only the origin that the definition names gets its headers.
            let is_home = endpoint.url.origin() == home.origin();
            let client = TaskClient {
                outbound: self.outbound.clone(),
                headers: match is_home {
                    true => headers.clone(),
                    false => HeaderMap::new(),
                },
                endpoint,
            };
            let timeout = deadline.saturating_duration_since(Instant::now());
            let sending = self.send(client, message.clone(), timeout);
            let sent = cancel.run_until_cancelled(sending).await;
            match sent.ok_or(CANCELLED)? {
                Ok(running) => return Ok(running),
                // The first endpoint is the preferred one, so its error is the one to report.
                Err(error) if error.kind == TaskErrorKind::NotHere => {
                    first_error.get_or_insert(error.message);
                }
                Err(error) if error.kind == TaskErrorKind::Denied && !is_home => {
                    return Err(format!(
                        "{}; its endpoint is at another origin than agentCardUrl and gets none of the headers",
                        error.message
                    ));
                }
                Err(error) => return Err(error.message),
            }
        }
        let reason = first_error.unwrap_or_else(|| "it declares no endpoint".to_owned());
        Err(format!(
            "no endpoint of the agent accepts messages: {reason}"
        ))
    }

    /// Sends the message in a background task. If the caller is dropped before the response, the background task still
    /// reads the agent's task id and cancels it, so that the agent does not keep working.
    async fn send(
        &self,
        client: TaskClient,
        message: UserMessage,
        timeout: Duration,
    ) -> Result<RunningTask, TaskError> {
        let (mut caller, response) = tokio::sync::oneshot::channel();
        let tasks = self.tasks.clone();
        self.tasks.spawn("a2a_send", async move {
            let sent = {
                let mut sending = std::pin::pin!(client.send(&message, timeout));
                tokio::select! {
                    sent = &mut sending => sent,
                    () = caller.closed() => match tokio::time::timeout(CANCEL_TIMEOUT, sending).await {
                        Ok(sent) => sent,
                        Err(_) => return,
                    },
                }
            };
            let running = sent.map(|reply| RunningTask {
                client,
                tasks,
                reply,
            });
            // A running task that is dropped, here or by the caller, is cancelled.
            drop(caller.send(running));
        });
        let lost = || TaskError::failed("the request was lost");
        response.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// A message for an agent, before its endpoint is known.
struct Delegation<'a> {
    card_url: &'a str,
    headers: HeaderMap,
    message: UserMessage,
    deadline: Instant,
}

/// The last known state of an agent's task. When it is dropped while the agent works, after a cancel or a timeout, the
/// agent's task is cancelled.
struct RunningTask {
    client: TaskClient,
    tasks: Tasks,
    reply: AgentReply,
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let AgentReply::Task {
            id,
            state: TaskState::Running,
            ..
        } = &self.reply
        else {
            return;
        };
        if self.tasks.shutdown.is_interrupted() {
            return;
        }
        let (client, id) = (self.client.clone(), id.clone());
        self.tasks.spawn("a2a_cancel", async move {
            if let Err(error) = client.cancel(&id, CANCEL_TIMEOUT).await {
                tracing::debug!(error = error.message, "agent did not cancel its task");
            }
        });
    }
}

fn stopped_outcome(state: &str, task: &Value) -> Outcome {
    let mut content = ResultContent::new();
    let said = wire::task_content(task).error();
    content.text(&match state {
        "input-required" => {
            "The agent asks for more input; call it again with all it needs.".to_owned()
        }
        "auth-required" => "The agent asks for credentials that it was not given.".to_owned(),
        _ => format!("The agent's task ended as {state}."),
    });
    content.text(&said.content);
    for file in said.files {
        content.file(&file.filename, &file.mime_type, &file.data);
    }
    content.error()
}

/// The argument schema of a remote agent.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    })
}

/// The description of an agent whose definition has none.
pub(crate) fn description(name: &str) -> String {
    format!("Delegate a task to the {name} agent over A2A. Pass the full task as a single message.")
}

#[async_trait]
impl ToolKind for A2a {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, _workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::A2a(agent) = tool else {
            return Ok(None);
        };
        self.outbound
            .check(&agent.agent_card_url)
            .map_err(|error| Error::invalid(format!("{path}.agentCardUrl"), error.to_string()))?;
        spec_headers(&agent.headers)
            .map_err(|error| Error::invalid(format!("{path}.headers"), error.to_string()))?;
        Ok(Some(agent.name.clone()))
    }

    async fn resolve(
        &self,
        _context: &ToolContext,
        reference: IndexedRef<'_>,
        _budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let ToolRef::A2a(agent) = reference.tool else {
            return Vec::new();
        };
        let own = agent.description.as_deref();
        let own = own.filter(|text| !text.trim().is_empty());
        vec![ServerTool {
            action_effects: None,
            name: agent.name.clone(),
            description: own.map_or_else(|| description(&agent.name), str::to_owned),
            parameters: parameters(),
            output_schema: None,
            effect: Effect::Once,
            annotations: None,
            policy: None,
            from: reference.index,
            target: json!({"kind": KIND}),
        }]
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let Some(ToolRef::A2a(agent)) = context.refs.get(tool.from) else {
            return content::failure("The agent of this tool is not in the run's spec.");
        };
        let result = self.delegate(agent, &call, &cancel).await;
        let secrets = CallSecrets::of_headers(&agent.headers);
        match result {
            Ok(outcome) => secrets.redact_outcome(outcome),
            Err(reason) => content::failure(format!(
                "The call to the agent \"{}\" failed: {}.",
                agent.name,
                secrets.redact(reason)
            )),
        }
    }
}
