//! Runs that a process was given and cannot plan: they were accepted, so they wait for one that can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use runloom_engine::catalog::Catalog;
use runloom_engine::live_catalog::{CatalogSource, LiveCatalog};
use runloom_ports::error::{Error, Result};
use runloom_ports::store::{Batch, Chunk, ClaimOutcome, MailNo, Millis, Next, SubRuns};
use runloom_ports::tools::{
    FetchedFile, Invocation, NoTools, Outcome, ServerTool, ToolContext, ToolHost,
};
use runloom_protocol::event::Event;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::{InstalledPlugin, RunStatus, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::scripted::Piece;
use crate::world::{Having, World, asked, kinds, parking, settings};

fn without_models() -> Having {
    Having {
        models: false,
        ..Having::default()
    }
}

/// A server that has accepted a run and stopped before it began.
async fn accepted() -> (World, String) {
    let world = World::new().await;
    world.stop().await;
    let run = world.run("hi").await;
    (world, run)
}

#[tokio::test]
async fn a_run_whose_model_is_not_offered_here_waits_for_a_process_that_has_it() {
    let (world, run) = accepted().await;
    let poor = world.peer_with(&without_models());
    poor.parked().await;
    assert_eq!(poor.status(&run).await, RunStatus::Running);
    poor.stop().await;
    let rich = world.peer();
    let events = rich.events(&run).await;
    assert_eq!(
        kinds(&events),
        ["started", "assistant_delta", "assistant_message", "result"]
    );
    rich.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_model_goes_on_here_when_the_model_comes() {
    let (world, run) = accepted().await;
    let poor = world.peer_with(&without_models());
    poor.parked().await;
    poor.catalog.replace(poor.offers());
    assert_eq!(kinds(&poor.events(&run).await).last(), Some(&"result"));
    poor.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_model_is_cancelled_at_once() {
    let (world, run) = accepted().await;
    let poor = world.peer_with(&without_models());
    poor.parked().await;
    poor.cancel(&run).await;
    assert_eq!(kinds(&poor.events(&run).await), ["started", "cancelled"]);
    poor.stop().await;
}

#[tokio::test]
async fn an_answer_that_comes_while_the_model_is_away_is_kept() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = world.run("send").await;
    let mut watcher = world.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    world.parked().await;
    world.stop().await;
    let poor = world.peer_with(&without_models());
    poor.answer(&run, &call, "sent").await.unwrap();
    poor.watch(&run, 0)
        .await
        .until("local_tool_result_in")
        .await;
    poor.parked().await;
    poor.stop().await;
    let rich = world.peer();
    let events = rich.events(&run).await;
    assert_eq!(kinds(&events).last(), Some(&"result"));
    let told = format!("{:?}", rich.model.requests()[0].messages);
    assert!(told.contains("sent"), "{told}");
    rich.stop().await;
}

/// Finds the store away once, then the models.
struct AwayOnce {
    asked: AtomicBool,
    catalog: Arc<LiveCatalog>,
    offers: Catalog,
}

#[async_trait]
impl CatalogSource for AwayOnce {
    async fn catch_up(&self) -> Result<()> {
        if !self.asked.swap(true, Ordering::SeqCst) {
            return Err(Error::Unavailable {
                message: "The store is away.".to_owned(),
                retry_after: Duration::from_secs(1),
            });
        }
        self.catalog.replace(self.offers.clone());
        Ok(())
    }
}

#[tokio::test]
async fn a_store_that_is_away_while_a_run_is_planned_does_not_fail_it() {
    let world = World::new().await;
    world.stop().await;
    let poor = world.peer_with(&without_models());
    let source: Arc<dyn CatalogSource> = Arc::new(AwayOnce {
        asked: AtomicBool::new(false),
        catalog: Arc::clone(&poor.catalog),
        offers: poor.offers(),
    });
    poor.catalog.set_source(Arc::downgrade(&source));
    let run = world.run("hi").await;
    poor.worker.look();
    let events = poor.events(&run).await;
    assert_eq!(kinds(&events).last(), Some(&"result"), "{events:?}");
    poor.stop().await;
}

/// Takes every tool and has none.
struct AnyTools;

#[async_trait]
impl ToolHost for AnyTools {
    async fn check(&self, _: &str, _: &[ToolRef]) -> Result<()> {
        Ok(())
    }

    async fn resolve(&self, _: &ToolContext, _: &[ToolRef]) -> Vec<ServerTool> {
        Vec::new()
    }

    async fn call(
        &self,
        _: &ToolContext,
        _: &ServerTool,
        _: Invocation,
        _: CancellationToken,
    ) -> Outcome {
        Outcome::default()
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        NoTools.installed(workspace).await
    }
    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>> {
        NoTools.toolset_tools(workspace, name).await
    }
    fn check_address(&self, url: &str) -> std::result::Result<(), String> {
        NoTools.check_address(url)
    }
    async fn fetch(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        NoTools.fetch(url, max_bytes, timeout).await
    }
}

#[tokio::test]
async fn a_run_whose_secrets_cannot_be_opened_here_waits_for_a_process_that_can() {
    let world = World::with_tools(settings(), Arc::new(AnyTools)).await;
    world.stop().await;
    let tool = json!([{"kind": "mcp", "name": "docs", "url": "https://docs.example/",
        "headers": {"Authorization": "Bearer s3cret"}}]);
    let tools = serde_json::from_value(tool).unwrap();
    let run = world.run_with("hi", |spec| spec.tools = tools).await;
    let other = world.peer_with(&Having {
        master_key: [8; 32],
        ..Having::default()
    });
    other.parked().await;
    assert_eq!(other.status(&run).await, RunStatus::Running);
    // Others are not held up by it.
    let next = other.run("hi").await;
    assert_eq!(kinds(&other.events(&next).await).last(), Some(&"result"));
    other.stop().await;
    let same = world.peer();
    assert_eq!(kinds(&same.events(&run).await).last(), Some(&"result"));
    same.stop().await;
}

#[tokio::test]
async fn a_run_that_nobody_could_plan_for_an_hour_fails_and_may_be_tried_again() {
    let (world, run) = accepted().await;
    let queued = world
        .store
        .claimable(world.now(), u32::MAX, 1)
        .await
        .unwrap();
    let (run_no, now) = (queued[0].run, world.now());
    let claimed = world
        .store
        .claim(run_no, "earlier", now, u32::MAX)
        .await
        .unwrap();
    let ClaimOutcome::Claimed(claim) = claimed else {
        panic!("nobody else wants it");
    };
    let since = now.0 - 3_600_000;
    let stalled = Batch {
        chunk: Chunk {
            first_seq: 1,
            last_seq: 0,
            terminal: false,
            frames: Bytes::new(),
        },
        notes: json!([{"after": 0, "note": "stalled", "since": since}]).to_string(),
        at: Millis(since),
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
        progress: false,
        next: Next::Defer { until: now },
    };
    world.store.commit(claim.lease, stalled).await.unwrap();
    let poor = world.peer_with(&without_models());
    let events = poor.events(&run).await;
    assert_eq!(kinds(&events), ["started", "error"]);
    let Some(Event::Error(error)) = events.last() else {
        panic!("no error");
    };
    assert_eq!(
        (error.error_class, error.retryable),
        (ErrorClass::Server, Some(true))
    );
    assert!(error.error.contains("no model"), "{}", error.error);
    poor.stop().await;
}
