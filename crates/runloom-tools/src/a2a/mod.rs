//! `kind: "a2a"`: a remote agent as a tool with one argument, the message. Speaks v0.3 and v1.0, JSON-RPC and HTTP+JSON.
//!
//! Reading order: [`A2a`] (the kind and the course of a call), `card` (which addresses to try), `dialogue` (the requests),
//! `wire` (both generations over one model).

mod card;
mod dialogue;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use runloom_ports::effect::Effect;
use runloom_ports::error::{Error, Result};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::{A2aTool, ToolRef};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::action::Secrets;
use crate::budget::Budget;
use crate::content::{self, Content};
use crate::host::ToolLimits;
use crate::kind::Kind;
use crate::outbound::{Outbound, spec_headers, tell_trace};

use dialogue::{Miss, Speaker};
use wire::{Outgoing, Reply, State};

/// The first and the longest pause between two looks at a task.
const FIRST_PAUSE: Duration = Duration::from_millis(150);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One look at a task, and how many may fail in a row.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_BLIND_LOOKS: usize = 5;

/// How long a cancellation may take; nobody waits for it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Remote agents that the server calls.
pub(crate) struct A2a {
    outbound: Outbound,
    tasks: Tasks,
    limits: ToolLimits,
}

impl A2a {
    /// No connection is made before the first call.
    pub(crate) fn new(outbound: Outbound, tasks: Tasks, limits: ToolLimits) -> Self {
        Self {
            outbound,
            tasks,
            limits,
        }
    }

    /// The whole call; the failure is in words for a model.
    pub(crate) async fn delegate(
        &self,
        agent: &A2aTool,
        call: &Invocation,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let deadline = Instant::now() + self.limits.call_timeout;
        let message = call.input.get("message").and_then(Value::as_str);
        let message = Outgoing {
            // The id of the call is the id of the message: an agent can recognise a repetition by it.
            id: call.tool_use_id.clone(),
            text: message
                .ok_or("the argument \"message\" is missing")?
                .to_owned(),
            context_id: agent.context_id.clone(),
        };
        let mut headers = spec_headers(&agent.headers).map_err(|error| error.to_string())?;
        tell_trace(&mut headers, call.trace.as_ref());
        let mut work = self
            .open((agent, headers), message, deadline, cancel)
            .await?;
        let mut pause = FIRST_PAUSE;
        let mut blind = 0;
        loop {
            let id = match &work.reply {
                Reply::Message(message) => return Ok(wire::message_content(message).success()),
                Reply::Task {
                    state: State::Done,
                    task,
                    ..
                } => return Ok(done(task)),
                Reply::Task {
                    state: State::Stopped(word),
                    task,
                    ..
                } => return Ok(stopped(word, task)),
                Reply::Task {
                    id,
                    state: State::Running,
                    ..
                } => id,
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
            let looking = work.speaker.get(id, LOOK_TIMEOUT);
            match cancel.run_until_cancelled(looking).await {
                None => return Err(CANCELLED.to_owned()),
                Some(Ok(reply)) => {
                    blind = 0;
                    work.reply = reply;
                }
                Some(Err(miss)) => {
                    blind += 1;
                    if blind >= MAX_BLIND_LOOKS {
                        return Err(format!(
                            "its task {id} cannot be followed: {}",
                            miss.words()
                        ));
                    }
                }
            }
        }
    }

    /// Finds the endpoint and sends the message, once: the next address is tried only when the one before did nothing.
    async fn open(
        &self,
        (agent, headers): (&A2aTool, HeaderMap),
        message: Outgoing,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Work, String> {
        let finding = card::endpoints(&self.outbound, &agent.agent_card_url, &headers);
        let endpoints = cancel.run_until_cancelled(finding).await.ok_or(CANCELLED)?;
        let mut first = None;
        for endpoint in endpoints.map_err(|error| error.to_string())? {
            let speaker = Speaker {
                outbound: self.outbound.clone(),
                headers: headers.clone(),
                endpoint,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let sending = self.send(speaker, message.clone(), left);
            let sent = cancel.run_until_cancelled(sending).await;
            match sent.ok_or(CANCELLED)? {
                Ok(work) => return Ok(work),
                Err(Miss::Failed(words)) => return Err(words),
                // The first address is the one the agent meant, so that its words are the ones to repeat.
                Err(Miss::Elsewhere(words)) => drop(first.get_or_insert(words)),
            }
        }
        let words = first.unwrap_or_else(|| "it declares no endpoint".to_owned());
        Err(format!("no endpoint of the agent takes messages: {words}"))
    }

    /// Sends the message in a task of its own: when nobody waits for the reply any more, the request is not simply dropped,
    /// which would leave the agent at work; its task is learned of and cancelled.
    async fn send(
        &self,
        speaker: Speaker,
        message: Outgoing,
        within: Duration,
    ) -> Result<Work, Miss> {
        let (mut waiting, answer) = tokio::sync::oneshot::channel();
        let tasks = self.tasks.clone();
        self.tasks.spawn("a2a message", async move {
            let sent = {
                let mut sending = std::pin::pin!(speaker.send(&message, within));
                tokio::select! {
                    sent = &mut sending => sent,
                    () = waiting.closed() => match tokio::time::timeout(CANCEL_TIMEOUT, sending).await {
                        Ok(sent) => sent,
                        Err(_) => return,
                    },
                }
            };
            let work = sent.map(|reply| Work {
                speaker,
                tasks,
                reply,
            });
            // Whether nobody takes it or takes it and leaves: what is dropped is cancelled.
            drop(waiting.send(work));
        });
        let lost = || Miss::Failed("the request was lost".to_owned());
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// What an agent was given to do, as it stood last. When it is given up while the agent works, by a cancel or by whoever drops it
/// because its time is over, the agent is told to stop: its work would be for nobody.
struct Work {
    speaker: Speaker,
    tasks: Tasks,
    reply: Reply,
}

impl Drop for Work {
    fn drop(&mut self) {
        let Reply::Task {
            id,
            state: State::Running,
            ..
        } = &self.reply
        else {
            return;
        };
        if self.tasks.kill.is_cancelled() {
            return;
        }
        let (speaker, id) = (self.speaker.clone(), id.clone());
        // Nobody waits for the agent to take it.
        self.tasks.spawn("a2a cancel", async move {
            if let Err(miss) = speaker.cancel(&id, CANCEL_TIMEOUT).await {
                tracing::debug!(why = miss.words(), "an agent did not cancel its task");
            }
        });
    }
}

const CANCELLED: &str = "the call was cancelled";

fn done(task: &Value) -> Outcome {
    wire::task_content(task).success()
}

fn stopped(word: &str, task: &Value) -> Outcome {
    let mut content = Content::new();
    let (words, files) = {
        let said = wire::task_content(task).error();
        (said.content, said.files)
    };
    content.text(&match word {
        "input-required" => {
            "The agent asks for more input; call it again with all it needs.".to_owned()
        }
        "auth-required" => "The agent asks for credentials that it was not given.".to_owned(),
        _ => format!("The agent's task ended as {word}."),
    });
    content.text(&words);
    for file in files {
        content.file(&file.filename, &file.mime_type, &file.data);
    }
    content.error()
}

/// The one argument of a remote agent.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    })
}

/// What the model is told of an agent that nobody described.
pub(crate) fn description(name: &str) -> String {
    format!("Delegate a task to the {name} agent over A2A. Pass the full task as a single message.")
}

#[async_trait]
impl Kind for A2a {
    fn name(&self) -> &'static str {
        "a2a"
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::A2a(_))
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
        (from, tool): (usize, &ToolRef),
        _budget: &Budget,
    ) -> Vec<ServerTool> {
        let ToolRef::A2a(agent) = tool else {
            return Vec::new();
        };
        let given = agent.description.as_deref();
        let given = given.filter(|text| !text.trim().is_empty());
        let told = given.map_or_else(|| description(&agent.name), str::to_owned);
        vec![ServerTool {
            name: agent.name.clone(),
            description: told,
            parameters: parameters(),
            output_schema: None,
            effect: Effect::Once,
            from,
            target: json!({"kind": "a2a"}),
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
        let answer = self.delegate(agent, &call, &cancel).await;
        let secrets = Secrets::of_headers(&agent.headers);
        match answer {
            Ok(outcome) => secrets.redact_outcome(outcome),
            Err(why) => content::failure(format!(
                "The call to the agent \"{}\" failed: {}.",
                agent.name,
                secrets.redact(why)
            )),
        }
    }
}
