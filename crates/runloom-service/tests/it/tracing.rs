//! Runs as distributed traces, also across several workers.

use std::sync::Arc;

use runloom_engine::trace::trace_of;
use runloom_ports::trace::{Attribute, Span, TraceId, TraceParent, Tracer};
use runloom_protocol::id::RunId;
use serde_json::json;
use tokio::sync::mpsc;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{Having, World, asked, soon};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Keeps what it is given.
struct Kept {
    spans: mpsc::UnboundedSender<Vec<Span>>,
    samples: bool,
}

impl Tracer for Kept {
    fn samples(&self, _: TraceId, _: Option<&TraceParent>) -> bool {
        self.samples
    }

    fn take(&self, spans: Vec<Span>) {
        self.spans.send(spans).unwrap();
    }
}

type Traces = mpsc::UnboundedReceiver<Vec<Span>>;

fn tracer(samples: bool) -> (Having, Traces) {
    let (spans, traces) = mpsc::unbounded_channel();
    let having = Having {
        tracer: Some(Arc::new(Kept { spans, samples })),
        ..Having::default()
    };
    (having, traces)
}

fn span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no span `{name}` among {spans:#?}"))
}

fn said<'a>(span: &'a Span, key: &str) -> Option<&'a Attribute> {
    let found = span.attributes.iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| value)
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.to_owned())
}

#[tokio::test]
async fn a_run_of_two_workers_is_one_trace_of_its_client() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(true);
    let mut first = plain.peer_with(&having);
    plain.stop().await;
    first.caller.trace = TraceParent::parse(PARENT);
    first.model.script([
        Piece::Text("a"),
        Piece::Usage(7, 3),
        Piece::Call("send", json!({})),
    ]);
    let run = first.run("send").await;
    let mut watcher = first.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    first.kill().await;
    let second = first.peer_with(&having);
    second.model.script([Piece::Text("done")]);
    second.answer(&run, &call, "sent").await.unwrap();
    second.events(&run).await;
    let spans = soon(traces.recv()).await.unwrap();
    let parent = TraceParent::parse(PARENT).unwrap();
    assert!(spans.iter().all(|span| span.trace == parent.trace));
    assert!(spans.iter().all(|span| span.start <= span.end));
    let root = span(&spans, "invoke_agent");
    assert_eq!(root.parent, Some(parent.span));
    assert!(root.is_remote_child);
    assert_eq!(said(root, "runloom.run.id"), Some(&text(&run)));
    assert_eq!(said(root, "runloom.run.turns"), Some(&Attribute::Count(2)));
    let below = spans.iter().filter(|span| span.parent == Some(root.id));
    let mut names: Vec<&str> = below.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    let turn = names[0].to_owned();
    assert!(turn.starts_with("chat "), "{names:?}");
    assert_eq!(names, [turn.as_str(), turn.as_str(), "execute_tool send"]);
    let chat = span(&spans, &turn);
    let tokens = said(chat, "gen_ai.usage.input_tokens");
    assert_eq!(tokens, Some(&Attribute::Count(7)));
    let tool = span(&spans, "execute_tool send");
    let by = said(tool, "runloom.tool.executed_by");
    assert_eq!(by, Some(&text("client")));
    second.stop().await;
    assert!(traces.try_recv().is_err(), "a run is told of once");
}

#[tokio::test]
async fn a_trace_of_nobody_else_has_the_digits_of_its_run() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(true);
    let world = plain.peer_with(&having);
    plain.stop().await;
    let run = world.run("hello").await;
    let spans = soon(traces.recv()).await.unwrap();
    let id = RunId::parse(&run).unwrap();
    assert_eq!(spans[0].trace, trace_of(&id));
    assert_eq!(format!("run_{}", spans[0].trace), run);
    assert_eq!(span(&spans, "invoke_agent").parent, None);
    world.stop().await;
}

#[tokio::test]
async fn a_run_of_a_session_names_it() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(true);
    let world = plain.peer_with(&having);
    plain.stop().await;
    let session = world.session().await;
    world.message(&session, "hello").await;
    let spans = soon(traces.recv()).await.unwrap();
    let root = span(&spans, "invoke_agent");
    assert_eq!(said(root, "gen_ai.conversation.id"), Some(&text(&session)));
    world.stop().await;
}

#[tokio::test]
async fn a_failed_turn_and_its_run_say_why() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(true);
    let world = plain.peer_with(&having);
    plain.stop().await;
    let mut error = server_error();
    error.retryable = false;
    world.model.script([Piece::Refuse(error)]);
    world.run("try").await;
    let spans = soon(traces.recv()).await.unwrap();
    assert_eq!(spans.len(), 2, "{spans:#?}");
    for span in &spans {
        assert_eq!(said(span, "error.type"), Some(&text("server")));
        assert_eq!(span.error.as_deref(), Some("the provider failed inside"));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_run_is_told_of_and_is_no_failure() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(true);
    let world = plain.peer_with(&having);
    plain.stop().await;
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(Gate::new())]);
    let run = world.run("talk").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.cancel(&run).await;
    let spans = soon(traces.recv()).await.unwrap();
    let root = span(&spans, "invoke_agent");
    assert_eq!(said(root, "runloom.run.status"), Some(&text("cancelled")));
    assert_eq!(root.error, None);
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_is_not_sampled_leaves_no_trace() {
    let plain = World::new().await;
    let (having, mut traces) = tracer(false);
    let world = plain.peer_with(&having);
    plain.stop().await;
    let run = world.run("hello").await;
    world.events(&run).await;
    world.stop().await;
    assert!(traces.try_recv().is_err());
}
