//! A store with two workspaces, and short ways to say what a test is not about.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use runloom_ports::store::{
    Batch, Chunk, Claim, ClaimOutcome, CommitError, Committed, Created, Ending, Idempotency, Lease,
    MailNo, Millis, NewRun, NewSession, Next, OpenCall, Page, RunNo, RunRow, SessionNo, StartNow,
    Store, SubRuns, ToolDelivery, WorkspaceNo, WorkspaceRow,
};
use runloom_protocol::attachment::Attachment;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::outcome::{ModelInfo, Tokens};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{Metadata, PromptMessage, Role, SubmitToolResult, ToolAnswer};
use runloom_store::OpenOptions;
use tempfile::TempDir;

pub(crate) const WORKER: &str = "worker-1";

/// Time of everything that no test looks at.
pub(crate) const NOW: Millis = Millis(1_000_000);

pub(crate) struct Fixture {
    // Declared first, so dropped first: the store must be closed before its place goes.
    store: Option<Arc<dyn Store>>,
    url: String,
    place: Box<dyn Place>,
    pub(crate) acme: WorkspaceNo,
    pub(crate) rival: WorkspaceNo,
}

/// Where a store lies; it goes with the fixture.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    /// Every worker has been silent for too long now. Needed where the database has a clock of its own for that.
    async fn silence_workers(&self) {}

    /// How many rows a table has, seen beside the store.
    async fn rows(&self, table: &str) -> i64 {
        panic!("nobody counts {table} here");
    }
}

#[async_trait]
impl Place for TempDir {
    async fn rows(&self, table: &str) -> i64 {
        let file = rusqlite::Connection::open(self.path().join("runs.db")).unwrap();
        let sql = format!("SELECT count(*) FROM {table}");
        file.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

impl Fixture {
    /// A store at this place; the place goes with it.
    pub(crate) async fn at(url: String, place: impl Place + 'static) -> Self {
        let store = runloom_store::open(&url, OpenOptions::default())
            .await
            .unwrap();
        let acme = put_workspace(&*store, "acme").await;
        let rival = put_workspace(&*store, "rival").await;
        Self {
            store: Some(store),
            url,
            place: Box::new(place),
            acme,
            rival,
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().unwrap())
    }

    /// Ends the store and opens it again, as a new process would after the old one has been dead for a while.
    pub(crate) async fn reopen(&mut self) {
        self.store = None;
        self.place.silence_workers().await;
        let opened = runloom_store::open(&self.url, OpenOptions::default()).await;
        self.store = Some(opened.unwrap());
    }

    /// How many rows a table has, once all is written.
    pub(crate) async fn rows(&mut self, table: &str) -> i64 {
        self.reopen().await;
        self.place.rows(table).await
    }

    /// An hour after everything, with no sign of life of any worker since.
    pub(crate) async fn after_long_silence(&self) -> Millis {
        self.place.silence_workers().await;
        Millis(NOW.0 + 3_600_000)
    }

    pub(crate) fn new_run(&self, name: &str) -> NewRun {
        NewRun {
            private_to: None,
            id: run_id(name),
            workspace: self.acme,
            credential: "key_1".to_owned(),
            session: None,
            spec: format!("{{\"secret\":\"{name}\"}}"),
            public_spec: format!("{{\"name\":\"{name}\"}}"),
            metadata: Metadata::new(),
            spec_name: None,
            agent_id: None,
            model_id: "platform:demo".to_owned(),
            input_preview: "Hello".to_owned(),
            created_at: NOW,
            idempotency: None,
            start: None,
        }
    }

    /// Creates a run and expects it to be new.
    pub(crate) async fn create(&self, run: NewRun) -> RunNo {
        match self.store().create_run(run).await.unwrap() {
            Created::New { run, .. } => run,
            other => panic!("the run was not created: {other:?}"),
        }
    }

    pub(crate) async fn queued(&self, name: &str) -> RunNo {
        self.create(self.new_run(name)).await
    }

    /// A run that is held from its first moment, with its first event (seq 1) written.
    pub(crate) async fn started(&self, name: &str) -> Lease {
        let mut run = self.new_run(name);
        run.start = Some(start());
        match self.store().create_run(run).await.unwrap() {
            Created::New {
                lease: Some(lease), ..
            } => lease,
            other => panic!("the run was not started: {other:?}"),
        }
    }

    pub(crate) async fn session(&self, name: &str) -> SessionNo {
        let session = self.new_session(name);
        self.store().create_session(session).await.unwrap();
        let row = self.store().session(self.acme, &session_id(name)).await;
        row.unwrap().unwrap().no
    }

    pub(crate) fn new_session(&self, name: &str) -> NewSession {
        NewSession {
            private_to: None,
            id: session_id(name),
            workspace: self.acme,
            name: Some(name.to_owned()),
            spec: "{\"sealed\":1}".to_owned(),
            public_spec: "{\"open\":1}".to_owned(),
            metadata: Metadata::new(),
            created_at: NOW,
            idempotency: None,
        }
    }

    /// A queued message of a session.
    pub(crate) async fn message(&self, session: &str, name: &str) -> RunNo {
        let mut run = self.new_run(name);
        run.session = Some(session_id(session));
        self.create(run).await
    }

    pub(crate) async fn try_claim(&self, run: RunNo, now: Millis) -> Option<Claim> {
        match self
            .store()
            .claim(run, WORKER, now, u32::MAX)
            .await
            .unwrap()
        {
            ClaimOutcome::Claimed(claim) => Some(*claim),
            ClaimOutcome::NotNow => None,
        }
    }

    pub(crate) async fn claim(&self, run: RunNo) -> Claim {
        self.try_claim(run, NOW)
            .await
            .expect("the run is to be had")
    }

    pub(crate) async fn commit(&self, lease: Lease, batch: Batch) -> Committed {
        self.try_commit(lease, batch).await.unwrap()
    }

    pub(crate) async fn try_commit(
        &self,
        lease: Lease,
        batch: Batch,
    ) -> Result<Committed, CommitError> {
        self.store().commit(lease, batch).await
    }

    /// Ends a run whose last event had the number `seq - 1`.
    pub(crate) async fn finish(&self, lease: Lease, seq: u64, status: RunStatus) -> Committed {
        self.commit(lease, finishing(seq, ending(status))).await
    }

    /// Opens a client call and parks the run.
    pub(crate) async fn park_with_call(&self, lease: Lease, seq: u64, call: &str) {
        let mut batch = batch(seq, seq, Next::Park { wake_at: None });
        batch.status = Some(RunStatus::WaitingTool);
        batch.opened = vec![open_call(call)];
        self.commit(lease, batch).await;
    }

    pub(crate) async fn answer(&self, name: &str, call: &str) -> ToolDelivery {
        self.answer_with(name, call, None).await
    }

    pub(crate) async fn answer_with(
        &self,
        name: &str,
        call: &str,
        key: Option<&Idempotency>,
    ) -> ToolDelivery {
        self.store()
            .deliver_tool_result(self.acme, &run_id(name), &answer(call), key, NOW)
            .await
            .unwrap()
    }

    pub(crate) async fn row(&self, name: &str) -> RunRow {
        let row = self.store().run(self.acme, &run_id(name)).await.unwrap();
        row.expect("the run is there")
    }

    pub(crate) async fn claimable(&self, now: Millis) -> Vec<RunNo> {
        let found = self.store().claimable(now, u32::MAX, 100).await.unwrap();
        found.into_iter().map(|one| one.run).collect()
    }

    /// First and last number of each chunk of a run's log, read in one go.
    pub(crate) async fn seqs(&self, run: RunNo) -> Vec<(u64, u64)> {
        let chunks = self.store().read_log(run, 0, usize::MAX).await.unwrap();
        chunks
            .iter()
            .map(|chunk| (chunk.first_seq, chunk.last_seq))
            .collect()
    }
}

pub(crate) async fn put_workspace(store: &dyn Store, slug: &str) -> WorkspaceNo {
    let row = WorkspaceRow {
        no: WorkspaceNo(0),
        slug: slug.to_owned(),
        name: slug.to_uppercase(),
        without: Vec::new(),
    };
    store.put_workspace(row, NOW).await.unwrap().no
}

pub(crate) fn run_id(name: &str) -> RunId {
    RunId::from_suffix(name)
}

pub(crate) fn session_id(name: &str) -> SessionId {
    SessionId::from_suffix(name)
}

pub(crate) fn start() -> StartNow {
    StartNow {
        worker: WORKER.to_owned(),
        chunk: chunk(1, 1),
        history: 0,
    }
}

pub(crate) fn chunk(first_seq: u64, last_seq: u64) -> Chunk {
    let frames: String = (first_seq..=last_seq)
        .map(|seq| format!("id: {seq}\ndata: {{\"seq\":{seq}}}\n\n"))
        .collect();
    Chunk {
        first_seq,
        last_seq,
        terminal: false,
        frames: Bytes::from(frames),
    }
}

pub(crate) fn batch(first_seq: u64, last_seq: u64, next: Next) -> Batch {
    Batch {
        chunk: chunk(first_seq, last_seq),
        notes: String::new(),
        at: NOW,
        opened: Vec::new(),
        closed: Vec::new(),
        approvals: Vec::new(),
        expired_approvals: Vec::new(),
        mail_through: MailNo::default(),
        unless_mail: false,
        status: None,
        mail: Vec::new(),
        sub_runs: SubRuns::default(),
        stop_below: None,
        usage: None,
        speaker: None,
        progress: true,
        next,
    }
}

pub(crate) fn finishing(seq: u64, ending: Ending) -> Batch {
    let mut batch = batch(seq, seq, Next::Finish(Box::new(ending)));
    batch.chunk.terminal = true;
    batch
}

pub(crate) fn ending(status: RunStatus) -> Ending {
    Ending {
        status,
        final_text: None,
        error: None,
        failure: None,
        cancel: None,
        tokens: Tokens::default(),
        turns: 1,
        model: ModelInfo {
            id: "platform:demo".to_owned(),
            provider: "demo".to_owned(),
            vendor_model_id: "demo".to_owned(),
            reasoning_effort: None,
        },
        cost_usd: None,
        subagents: None,
        tool_calls: 0,
        session_messages: Vec::new(),
        active_model: None,
    }
}

pub(crate) fn open_call(tool_use_id: &str) -> OpenCall {
    OpenCall {
        tool_use_id: tool_use_id.to_owned(),
        deadline: Millis(NOW.0 + 60_000),
    }
}

pub(crate) fn answer(tool_use_id: &str) -> SubmitToolResult {
    SubmitToolResult {
        tool_use_id: tool_use_id.to_owned(),
        files: vec![Attachment::inline("a.png", "image/png", "QUJD")],
        answer: ToolAnswer::Result("42".to_owned()),
    }
}

pub(crate) fn key(key: &str, body: u8) -> Idempotency {
    Idempotency {
        key: key.to_owned(),
        fingerprint: [body; 32],
    }
}

pub(crate) fn says(role: Role, content: &str) -> PromptMessage {
    PromptMessage::new(role, content.to_owned())
}

pub(crate) fn page(limit: usize) -> Page {
    Page {
        before: None,
        offset: 0,
        limit,
    }
}
