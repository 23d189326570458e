//! A server without HTTP: store, queue, hub, worker, use cases.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::StreamExt;
use runloom_engine::catalog::{Catalog, CatalogModel, Pricing, Source};
use runloom_engine::driver::DriverSettings;
use runloom_engine::hub::Hub;
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::monthly_budgets::MonthlyBudgets;
use runloom_engine::planner::Planner;
use runloom_engine::worker::{Worker, WorkerParts, WorkerSettings};
use runloom_fabric::EmbeddedQueue;
use runloom_ports::bus::NoBus;
use runloom_ports::clock::Clock;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Millis, RunFilter, Store, WorkspaceNo, WorkspaceRow};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{NoTools, ToolHost};
use runloom_ports::trace::Tracer;
use runloom_protocol::event::{Event, parse_frame, split_frames};
use runloom_protocol::id::KeyId;
use runloom_protocol::resource::{RunAccepted, RunSnapshot, RunStatus};
use runloom_protocol::spec::{
    AgentSpec, Budgets, CreateMessage, CreateRun, CreateSession, PromptMessage, Role,
    SubmitToolResult, ToolAnswer,
};
use runloom_schema::SchemaCache;
use runloom_service::auth::{Authenticator, Caller, KeyCache, KeyRing};
use runloom_service::error::Error;
use runloom_service::memory::MemoryService;
use runloom_service::rate::{RateLimiter, RateLimits};
use runloom_service::registry::RegistryService;
use runloom_service::tenancy::TenancyService;
use runloom_service::vault::Vault;
use runloom_service::{
    AgUiSettings, BacklogLimits, EventPage, EventStream, PageRequest, ServiceParts, Services,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted::Scripted;

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bounds a wait.
pub(crate) async fn soon<T>(wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.expect("what the test waits for never happened")
}

/// A server.
pub(crate) struct World {
    dir: Arc<TempDir>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tasks: Tasks,
    /// Of the use cases.
    pub(crate) api_shutdown: Shutdown,
    pub(crate) worker: Arc<Worker>,
    pub(crate) service: Services,
    pub(crate) model: Arc<Scripted>,
    pub(crate) catalog: Arc<LiveCatalog>,
    pub(crate) caller: Caller,
    settings: WorkerSettings,
    tools: Arc<dyn ToolHost>,
    money: Money,
}

/// Who pays, and how much.
#[derive(Clone)]
struct Money {
    monthly_budgets: Arc<MonthlyBudgets>,
    has_price: bool,
}

impl Default for Money {
    fn default() -> Self {
        Self {
            monthly_budgets: Arc::default(),
            has_price: true,
        }
    }
}

/// What a process may have and another lack.
pub(crate) struct Having {
    pub(crate) models: bool,
    pub(crate) master_key: [u8; 32],
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
    pub(crate) ag_ui: AgUiSettings,
}

impl Default for Having {
    fn default() -> Self {
        Self {
            models: true,
            master_key: [7; 32],
            tracer: None,
            ag_ui: AgUiSettings::default(),
        }
    }
}

pub(crate) fn settings() -> WorkerSettings {
    WorkerSettings {
        max_concurrent: 8,
        retention: None,
        session_retention: None,
        driver: DriverSettings::default(),
    }
}

/// Settings under which a run that waits for a client is parked at once.
pub(crate) fn parking() -> WorkerSettings {
    let mut settings = settings();
    settings.driver.park_after = Duration::from_millis(1);
    settings
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(settings()).await
    }

    pub(crate) async fn with(settings: WorkerSettings) -> Self {
        Self::with_tools(settings, Arc::new(NoTools)).await
    }

    pub(crate) async fn with_tools(settings: WorkerSettings, tools: Arc<dyn ToolHost>) -> Self {
        Self::with_all(settings, tools, Money::default()).await
    }

    /// With monthly budgets.
    pub(crate) async fn with_purses(
        settings: WorkerSettings,
        monthly_budgets: MonthlyBudgets,
    ) -> Self {
        let money = Money {
            monthly_budgets: Arc::new(monthly_budgets),
            has_price: true,
        };
        Self::with_all(settings, Arc::new(NoTools), money).await
    }

    /// With monthly budgets and a model that has no price.
    pub(crate) async fn without_price(monthly_budgets: MonthlyBudgets) -> Self {
        let money = Money {
            monthly_budgets: Arc::new(monthly_budgets),
            has_price: false,
        };
        Self::with_all(settings(), Arc::new(NoTools), money).await
    }

    /// With settings of AG-UI.
    pub(crate) async fn with_ag_ui(settings: WorkerSettings, ag_ui: AgUiSettings) -> Self {
        let having = Having {
            ag_ui,
            ..Having::default()
        };
        let tools = Arc::new(NoTools);
        Self::with_having(settings, tools, Money::default(), &having).await
    }

    async fn with_all(settings: WorkerSettings, tools: Arc<dyn ToolHost>, money: Money) -> Self {
        Self::with_having(settings, tools, money, &Having::default()).await
    }

    async fn with_having(
        settings: WorkerSettings,
        tools: Arc<dyn ToolHost>,
        money: Money,
        having: &Having,
    ) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let url = format!("sqlite:{}", dir.path().join("runs.db").display());
        let store = runloom_store::open(&url, runloom_store::OpenOptions::default()).await;
        let store = store.unwrap();
        let row = WorkspaceRow {
            no: WorkspaceNo(0),
            slug: "acme".to_owned(),
            name: "Acme".to_owned(),
            without: Vec::new(),
        };
        let workspace = store.put_workspace(row, Millis(0)).await.unwrap();
        let caller = Caller {
            workspace: Arc::new(workspace),
            key_id: KeyId::from_suffix("test").into(),
            agent_ids: Arc::from([]),
            runs_per_minute: None,
            trace: None,
            scopes: None,
            owner: runloom_ports::project::Owner::workspace(),
            act_for_owners: false,
        };
        Self::on(dir, (store, tools), caller, settings, money, having)
    }

    /// Another server on the same store, with its own queue, hub, worker and model.
    pub(crate) fn peer(&self) -> Self {
        self.peer_with(&Having::default())
    }

    /// The same, with other settings of its worker.
    pub(crate) fn peer_set(&self, settings: WorkerSettings) -> Self {
        self.peer_of(settings, &Having::default())
    }

    /// The same, configured otherwise.
    pub(crate) fn peer_with(&self, having: &Having) -> Self {
        self.peer_of(self.settings.clone(), having)
    }

    fn peer_of(&self, settings: WorkerSettings, having: &Having) -> Self {
        let ports = (Arc::clone(&self.store), Arc::clone(&self.tools));
        let (dir, caller) = (Arc::clone(&self.dir), self.caller.clone());
        let money = self.money.clone();
        Self::on(dir, ports, caller, settings, money, having)
    }

    fn on(
        dir: Arc<TempDir>,
        (store, tools): (Arc<dyn Store>, Arc<dyn ToolHost>),
        caller: Caller,
        settings: WorkerSettings,
        money: Money,
        having: &Having,
    ) -> Self {
        let model = Arc::new(Scripted::new());
        let offered = if having.models {
            catalog(&model, money.has_price)
        } else {
            Catalog::default()
        };
        let catalog = Arc::new(LiveCatalog::from(offered));
        let parts = WorkerParts {
            store: Arc::clone(&store),
            queue: Arc::new(EmbeddedQueue::new()),
            hub: Arc::new(Hub::default()),
            planner: Arc::new(Planner {
                catalog: Arc::clone(&catalog),
                schemas: Arc::new(SchemaCache::new()),
                max_tool_turns: 32,
                max_sub_runs: 64,
                agents: Arc::new(runloom_ports::agents::NoAgents),
                monthly_budgets: Arc::clone(&money.monthly_budgets),
                sealer: Arc::new(Vault::new(&having.master_key)),
            }),
            tools: Arc::clone(&tools),
            files: Arc::new(runloom_service::files::Reader),
            bus: Arc::new(NoBus),
            tracer: having.tracer.clone(),
            tasks: Tasks::default(),
        };
        let worker = Worker::start(parts.clone(), settings.clone());
        // Its own: tests give runs to a worker that stops.
        let api_shutdown = Shutdown::default();
        let service = service(&parts, &worker, &api_shutdown, having.ag_ui);
        Self {
            dir,
            store,
            hub: parts.hub,
            tasks: parts.tasks,
            api_shutdown,
            worker,
            service,
            model,
            catalog,
            caller,
            settings,
            tools,
            money,
        }
    }

    /// The catalog of a process that has the model.
    pub(crate) fn offers(&self) -> Catalog {
        catalog(&self.model, self.money.has_price)
    }

    /// Stops in order: what is under way reaches a step's end.
    pub(crate) async fn stop(&self) {
        self.tasks.shutdown.drain();
        self.api_shutdown.end_streams();
        soon(self.tasks.ended()).await;
    }

    /// Stops at once: what is under way is handed over.
    pub(crate) async fn kill(&self) {
        self.tasks.shutdown.drain();
        self.api_shutdown.end_streams();
        self.tasks.shutdown.interrupt();
        soon(self.tasks.ended()).await;
    }

    /// Creates a run with the tools `send` and, read-only, `look`.
    pub(crate) async fn run(&self, prompt: &str) -> String {
        self.run_with(prompt, |_| {}).await
    }

    pub(crate) async fn run_with(
        &self,
        prompt: &str,
        change: impl FnOnce(&mut AgentSpec),
    ) -> String {
        let mut spec = spec();
        change(&mut spec);
        let messages = vec![user(prompt)];
        let request = CreateRun { spec, messages };
        let accepted = self
            .service
            .runs()
            .create(&self.caller, request, None)
            .await;
        accepted.unwrap().run_id.to_string()
    }

    pub(crate) async fn session(&self) -> String {
        let request = CreateSession { spec: spec() };
        let created = self
            .service
            .sessions()
            .create(&self.caller, request, None)
            .await;
        created.unwrap().session_id.to_string()
    }

    pub(crate) async fn message(&self, session: &str, text: &str) -> String {
        let accepted = self.try_message(&self.caller, session, text).await;
        accepted.unwrap().run_id.to_string()
    }

    /// The same by anybody, and it may be refused.
    pub(crate) async fn try_message(
        &self,
        caller: &Caller,
        session: &str,
        text: &str,
    ) -> Result<RunAccepted, Error> {
        let request = CreateMessage {
            compaction: None,
            max_depth: None,
            messages: vec![user(text)],
            tools: None,
            reasoning_level: None,
            output_schema: None,
            loop_detection: None,
            tool_budgets: None,
            budgets: Budgets::default(),
            policy: None,
            metadata: Default::default(),
        };
        self.service
            .sessions()
            .send_message(caller, session, request, None)
            .await
    }

    /// What a session remembers, as `role: text`.
    pub(crate) async fn history(&self, session: &str) -> Vec<String> {
        let snapshot = self
            .service
            .sessions()
            .snapshot(&self.caller, session)
            .await
            .unwrap();
        let line = |message: &PromptMessage| format!("{:?}: {}", message.role, message.content);
        snapshot.messages.iter().map(line).collect()
    }

    pub(crate) async fn answer(
        &self,
        run: &str,
        tool_use_id: &str,
        text: &str,
    ) -> runloom_service::error::Result<()> {
        let answer = SubmitToolResult {
            tool_use_id: tool_use_id.to_owned(),
            answer: ToolAnswer::Result(text.to_owned()),
            files: Vec::new(),
        };
        self.service
            .runs()
            .submit_tool_result(&self.caller, run, answer, None)
            .await
    }

    pub(crate) async fn cancel(&self, run: &str) {
        self.service.runs().cancel(&self.caller, run).await.unwrap();
    }

    /// Id of the run that was created last, if there is one.
    pub(crate) async fn newest(&self) -> Option<String> {
        let page = PageRequest {
            limit: 1,
            cursor: None,
            offset: 0,
            include_total: false,
        };
        let runs = self
            .service
            .runs()
            .list(&self.caller, RunFilter::default(), page);
        let first = runs.await.unwrap().runs.into_iter().next()?;
        Some(first.id.to_string())
    }

    pub(crate) async fn snapshot(&self, run: &str) -> RunSnapshot {
        self.service
            .runs()
            .snapshot(&self.caller, run)
            .await
            .unwrap()
    }

    pub(crate) async fn status(&self, run: &str) -> RunStatus {
        self.snapshot(run).await.status
    }

    pub(crate) async fn watch(&self, run: &str, after: u64) -> Watcher {
        let stream = self
            .service
            .runs()
            .stream(&self.caller, run, after)
            .await
            .unwrap();
        Watcher {
            stream,
            bytes: BytesMut::new(),
            events: Vec::new(),
        }
    }

    /// Waits for the end of a run; all its events.
    pub(crate) async fn events(&self, run: &str) -> Vec<Event> {
        let mut watcher = self.watch(run, 0).await;
        watcher.rest().await;
        watcher.events
    }

    /// Every frame that the store has of a run, after a number.
    pub(crate) async fn stored(&self, run: &str, after: u64) -> Vec<u8> {
        let (mut all, mut known) = (Vec::new(), after);
        loop {
            let page = self.page_of_events(run, known, usize::MAX).await;
            known += page.frames.len() as u64;
            all.extend(page.frames.concat());
            if !page.truncated {
                return all;
            }
        }
    }

    pub(crate) async fn page_of_events(&self, run: &str, after: u64, limit: usize) -> EventPage {
        let page = self
            .service
            .runs()
            .events(&self.caller, run, after, limit)
            .await;
        page.unwrap()
    }

    /// Waits until a run is parked: nobody holds it and its timer is set.
    pub(crate) async fn parked(&self) {
        soon(async {
            while self.store.next_timer().await.unwrap().is_none() || self.worker.busy() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub(crate) fn now(&self) -> Millis {
        Clock.now()
    }
}

fn service(
    parts: &WorkerParts,
    worker: &Arc<Worker>,
    shutdown: &Shutdown,
    ag_ui: AgUiSettings,
) -> Services {
    let (keys, cache) = (
        Arc::new(KeyRing::new(&[7; 32])),
        Arc::new(KeyCache::default()),
    );
    let tenancy = Arc::clone(&parts.store);
    Services::new(
        ServiceParts {
            store: Arc::clone(&parts.store),
            memory: Arc::new(MemoryService::new(Arc::clone(&parts.store))),
            project: Arc::new(runloom_service::project::ProjectService::new(
                Arc::clone(&parts.store),
                Arc::new(MemoryService::new(Arc::clone(&parts.store))),
                &[7; 32],
            )),
            queue: Arc::clone(&parts.queue),
            hub: Arc::clone(&parts.hub),
            planner: Arc::clone(&parts.planner),
            registry: Arc::new(RegistryService::with_fixed_catalog(
                Arc::clone(&parts.store),
                &parts.planner,
            )),
            tools: Arc::clone(&parts.tools),
            bus: Arc::clone(&parts.bus),
            worker: Some(Arc::clone(worker)),
            ender: Some(Arc::clone(worker)),
            shutdown: shutdown.clone(),
            backlog: BacklogLimits::default(),
            ag_ui,
        },
        Authenticator::new(tenancy.clone(), keys.clone(), cache.clone()),
        RateLimiter::new(RateLimits::default()),
        TenancyService::new(tenancy, keys, cache),
    )
}

fn catalog(model: &Arc<Scripted>, has_price: bool) -> Catalog {
    let model = CatalogModel {
        id: CatalogModel::platform_id("scripted"),
        label: "Scripted".to_owned(),
        provider_id: "scripted".to_owned(),
        provider: "demo".to_owned(),
        vendor_model_id: "scripted".to_owned(),
        source: Source::PlatformOffering,
        context_window: None,
        pricing: has_price.then_some(Pricing {
            input_per_1m_usd: 1.0,
            output_per_1m_usd: 2.0,
            cache_read_per_1m_usd: None,
        }),
        reasoning: false,
        max_output_tokens: None,
        model: Arc::clone(model) as _,
    };
    Catalog {
        platform: vec![Arc::new(model)],
        ..Catalog::default()
    }
}

pub(crate) fn spec() -> AgentSpec {
    let tools: Value = json!([
        {"kind": "local", "name": "send"},
        {"kind": "local", "name": "look", "readOnly": true},
    ]);
    AgentSpec {
        system_prompt: Some("be brief".to_owned()),
        tools: serde_json::from_value(tools).unwrap(),
        ..AgentSpec::default()
    }
}

pub(crate) fn user(text: &str) -> PromptMessage {
    PromptMessage::new(Role::User, text.to_owned())
}

/// One subscriber.
pub(crate) struct Watcher {
    stream: EventStream,
    pub(crate) bytes: BytesMut,
    pub(crate) events: Vec<Event>,
}

impl Watcher {
    /// Reads on; false at the end of the stream.
    async fn read(&mut self) -> bool {
        let Some(frames) = soon(self.stream.next()).await else {
            return false;
        };
        for frame in split_frames(&frames) {
            let event = parse_frame(frame).expect("data").expect("an event").event;
            self.events.push(event);
        }
        self.bytes.extend_from_slice(&frames);
        true
    }

    /// Reads until an event of this kind has come.
    pub(crate) async fn until(&mut self, kind: &str) -> Event {
        loop {
            if let Some(event) = self
                .events
                .iter()
                .rev()
                .find(|event| event.kind().as_str() == kind)
            {
                return event.clone();
            }
            assert!(self.read().await, "the stream ended without {kind}");
        }
    }

    /// Reads at least one more event.
    pub(crate) async fn until_more(&mut self) {
        assert!(self.read().await, "the stream ended");
    }

    /// Reads to the end of the stream.
    pub(crate) async fn rest(&mut self) {
        while self.read().await {}
    }

    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        kinds(&self.events)
    }
}

pub(crate) fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind().as_str()).collect()
}

/// Arguments nested this deep.
pub(crate) fn nested(levels: usize) -> serde_json::Value {
    (1..levels).fold(
        serde_json::json!({}),
        |inner, _| serde_json::json!({"a": inner}),
    )
}

/// The id of the last call that a client was asked to make.
pub(crate) fn asked(event: &Event) -> String {
    match event {
        Event::LocalToolCall(call) => call.tool_use_id.clone(),
        other => panic!("expected local_tool_call, not {other:?}"),
    }
}
