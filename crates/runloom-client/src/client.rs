//! What can be asked of a server with a workspace's key.

use reqwest::Method;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::{
    AgentList, ModelCatalog, RunAccepted, RunList, RunSnapshot, SessionCreated, SessionSnapshot,
};
use runloom_protocol::spec::{AgentSpec, ToolAnswer, ToolFile};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::request::{MessageRequest, RunFilter, RunRequest};
use crate::stream::RunStream;
use crate::transport::{Call, Repeat, Transport};

/// A connection to one workspace of one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) transport: Transport,
    workspace: String,
}

impl Client {
    /// A client with default limits.
    ///
    /// # Errors
    /// [`Error::Setup`] when the URL or the key cannot be used.
    pub fn new(base_url: &str, api_key: &str, workspace: &str) -> Result<Self> {
        Self::with_options(base_url, api_key, workspace, Options::default())
    }

    /// A client with its own limits.
    ///
    /// # Errors
    /// [`Error::Setup`] when the URL or the key cannot be used.
    pub fn with_options(
        base_url: &str,
        api_key: &str,
        workspace: &str,
        options: Options,
    ) -> Result<Self> {
        if workspace.is_empty() {
            return Err(Error::Setup("the workspace's slug is empty".to_owned()));
        }
        Ok(Self {
            transport: Transport::new(base_url, Some(api_key), options)?,
            workspace: workspace.to_owned(),
        })
    }

    /// A client from `MANTYX_BASE_URL`, `MANTYX_API_KEY` and `MANTYX_WORKSPACE_SLUG`, as every SDK reads them.
    ///
    /// # Errors
    /// [`Error::Setup`] that names the variable that is missing.
    pub fn from_env() -> Result<Self> {
        let var = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| Error::Setup(format!("the environment variable {name} is not set")))
        };
        Self::new(
            &var("MANTYX_BASE_URL")?,
            &var("MANTYX_API_KEY")?,
            &var("MANTYX_WORKSPACE_SLUG")?,
        )
    }

    /// The server's address.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.transport.base_url()
    }

    /// The workspace's slug.
    #[must_use]
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Starts a run. Durable when it returns.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn create_run(&self, request: &RunRequest) -> Result<RunAccepted> {
        let call = Call::post(self.path(&["agent-runs"]), request, Repeat::OnlyIfRefused)?;
        self.transport
            .json(call.with_key(request.idempotency_key.as_deref()))
            .await
    }

    /// The run as it is now.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn run(&self, id: &RunId) -> Result<RunSnapshot> {
        self.transport
            .json(Call::get(self.path(&["agent-runs", id.as_str()])))
            .await
    }

    /// The run as it is now, with everything that the server says of it, known to this version or not.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn run_json(&self, id: &RunId) -> Result<Box<RawValue>> {
        self.transport
            .json(Call::get(self.path(&["agent-runs", id.as_str()])))
            .await
    }

    /// One page of the workspace's runs, newest first.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn runs(&self, filter: &RunFilter) -> Result<RunList> {
        let mut url = self.path(&["agent-runs"]);
        let query = filter.query();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.transport.json(Call::get(url)).await
    }

    /// Asks the run to stop. A run that has ended stays as it is.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn cancel_run(&self, id: &RunId) -> Result<()> {
        let url = self.path(&["agent-runs", id.as_str(), "cancel"]);
        self.transport
            .bytes(Call::empty(Method::POST, url))
            .await
            .map(drop)
    }

    /// Answers a local tool call. Repeated through 429, 5xx and broken connections: the server takes only the first
    /// answer.
    ///
    /// # Errors
    /// `unknown_tool_use` when it was answered or timed out, `run_terminal` when the run has ended, other refusals,
    /// or the server is away.
    pub async fn submit_tool_result(
        &self,
        run: &RunId,
        tool_use_id: &str,
        answer: &ToolAnswer,
    ) -> Result<()> {
        let files = &[];
        self.submit_tool_result_with_files(run, tool_use_id, answer, files)
            .await
    }

    /// As [`Client::submit_tool_result`], with files that the model is shown beside a result.
    ///
    /// # Errors
    /// As [`Client::submit_tool_result`].
    pub async fn submit_tool_result_with_files(
        &self,
        run: &RunId,
        tool_use_id: &str,
        answer: &ToolAnswer,
        files: &[ToolFile],
    ) -> Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            tool_use_id: &'a str,
            #[serde(flatten)]
            answer: &'a ToolAnswer,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            files: &'a [ToolFile],
        }
        let url = self.path(&["agent-runs", run.as_str(), "tool-results"]);
        let call = Call::post(
            url,
            &Body {
                tool_use_id,
                answer,
                files,
            },
            Repeat::Harmless,
        )?;
        self.transport.bytes(call).await.map(drop)
    }

    /// The run's events from the beginning. Opened when it is first read.
    #[must_use]
    pub fn stream(&self, id: &RunId) -> RunStream {
        self.stream_after(id, 0)
    }

    /// The run's events after `last_seq`.
    #[must_use]
    pub fn stream_after(&self, id: &RunId, last_seq: u64) -> RunStream {
        let url = self.path(&["agent-runs", id.as_str(), "stream"]);
        RunStream::new(self.transport.clone(), url, last_seq)
    }

    /// The agents that the credential may run, by slug.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn agents(&self) -> Result<AgentList> {
        self.transport.json(Call::get(self.path(&["agents"]))).await
    }

    /// Starts a conversation.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn create_session(&self, spec: &AgentSpec) -> Result<SessionCreated> {
        let call = Call::post(self.path(&["agent-sessions"]), spec, Repeat::OnlyIfRefused)?;
        self.transport.json(call).await
    }

    /// The conversation so far.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn session(&self, id: &SessionId) -> Result<SessionSnapshot> {
        self.transport
            .json(Call::get(self.path(&["agent-sessions", id.as_str()])))
            .await
    }

    /// Says something in a conversation; the run answers.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn send_message(
        &self,
        id: &SessionId,
        request: &MessageRequest,
    ) -> Result<RunAccepted> {
        let url = self.path(&["agent-sessions", id.as_str(), "messages"]);
        self.transport
            .json(Call::post(url, request, Repeat::OnlyIfRefused)?)
            .await
    }

    /// Ends a conversation and cancels its run in flight.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn end_session(&self, id: &SessionId) -> Result<()> {
        let url = self.path(&["agent-sessions", id.as_str()]);
        self.transport
            .bytes(Call::empty(Method::DELETE, url))
            .await
            .map(drop)
    }

    /// The models that this workspace can run.
    ///
    /// # Errors
    /// A refusal, or the server is away.
    pub async fn models(&self) -> Result<ModelCatalog> {
        self.transport.json(Call::get(self.path(&["models"]))).await
    }

    /// Whether the server is up and its services are there.
    ///
    /// # Errors
    /// A refusal (503 while it starts or stops), or the server is away.
    pub async fn ready(&self) -> Result<()> {
        self.transport
            .bytes(Call::get(self.transport.url(["ready"])))
            .await
            .map(drop)
    }

    pub(crate) fn path(&self, rest: &[&str]) -> reqwest::Url {
        let head = ["api", "v1", "workspaces", &self.workspace];
        self.transport
            .url(head.into_iter().chain(rest.iter().copied()))
    }
}
