//! Models that are out of service, and those that take over.

use std::sync::Arc;

use runloom_engine::catalog::{Catalog, CatalogModel, Pricing};
use runloom_ports::model::ModelError;
use runloom_ports::store::{Day, DayRange, UsageGroup};
use runloom_protocol::event::Event;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::spec::{CreateRun, CreateSession};
use runloom_service::error::Error;

use crate::scripted::{Gate, Piece, Scripted};
use crate::world::{World, kinds, soon, spec, user};

const PRIMARY: &str = "platform:scripted";
const SPARE: &str = "platform:spare";

/// A failure that is not tried again.
fn outage() -> Piece {
    let mut error = ModelError::new(ErrorClass::Overloaded, "come back later");
    error.retryable = false;
    Piece::Refuse(error)
}

/// Nobody answered, and nobody knows whether that was billed.
fn silence() -> Piece {
    let mut error = ModelError::new(ErrorClass::Timeout, "no answer");
    error.retry_after = Some(std::time::Duration::from_millis(1));
    Piece::Refuse(error)
}

/// Offers a second model, ten times as dear.
fn add_spare(world: &World) -> Arc<Scripted> {
    add_spare_for(
        world,
        Some(Pricing {
            input_per_1m_usd: 10.0,
            output_per_1m_usd: 20.0,
            cache_read_per_1m_usd: None,
        }),
    )
}

fn add_spare_for(world: &World, pricing: Option<Pricing>) -> Arc<Scripted> {
    let model = Arc::new(Scripted::new());
    let mut platform = world.offers().platform;
    platform.push(Arc::new(CatalogModel {
        id: SPARE.to_owned(),
        vendor_model_id: "spare".to_owned(),
        pricing,
        model: Arc::clone(&model) as _,
        ..CatalogModel::clone(&platform[0])
    }));
    world.catalog.replace(Catalog {
        platform,
        ..Catalog::default()
    });
    model
}

async fn run(world: &World, prompt: &str) -> String {
    run_for(world, prompt, None).await
}

/// The same with a limit of money.
async fn run_for(world: &World, prompt: &str, usd: Option<f64>) -> String {
    let change = |spec: &mut runloom_protocol::spec::AgentSpec| {
        spec.budgets.max_cost_usd = usd;
        spec.model_id = Some(PRIMARY.to_owned());
        spec.fallback_model_id = Some("spare".to_owned());
    };
    world.run_with(prompt, change).await
}

async fn session(world: &World) -> String {
    let mut spec = spec();
    spec.model_id = Some(PRIMARY.to_owned());
    spec.fallback_model_id = Some(SPARE.to_owned());
    let request = CreateSession { spec };
    let created = world
        .service
        .sessions()
        .create(&world.caller, request, None);
    created.await.unwrap().session_id.to_string()
}

/// Tokens of input on the account of each model.
async fn account(world: &World) -> Vec<(String, u64)> {
    let workspace = world.caller.workspace.no;
    let all = DayRange {
        from: Day(0),
        to: Day(i32::MAX),
    };
    let rows = world.store.usage(workspace, all, UsageGroup::Model).await;
    let rows = rows.unwrap().into_iter();
    rows.map(|row| (row.group, row.tokens.input_tokens))
        .collect()
}

#[tokio::test]
async fn the_fallback_answers_in_the_place_of_a_model_that_is_out_of_service() {
    let world = World::new().await;
    let spare = add_spare(&world);
    let usage = Piece::Usage(1_000_000, 0);
    world
        .model
        .script([usage.clone(), Piece::Call("look", serde_json::json!({}))]);
    world.model.script([outage()]);
    spare.script([usage, Piece::Text("here I am")]);
    let run = run(&world, "go").await;
    let mut watcher = world.watch(&run, 0).await;
    let asked = crate::world::asked(&watcher.until("local_tool_call").await);
    world.answer(&run, &asked, "seen").await.unwrap();
    watcher.rest().await;
    assert_eq!(
        watcher.kinds(),
        [
            "started",
            "assistant_message",
            "local_tool_call",
            "local_tool_result_in",
            "model_fallback",
            "assistant_delta",
            "assistant_message",
            "result"
        ]
    );
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.final_text.as_deref(), Some("here I am"));
    assert_eq!(snapshot.model.unwrap().id, SPARE);
    assert_eq!((snapshot.turns, snapshot.cost_usd), (Some(2), Some(11.0)));
    let ours = [PRIMARY, SPARE].map(|model| (model.to_owned(), 1_000_000));
    assert_eq!(account(&world).await, ours);
    let told = format!("{:?}", spare.requests()[0].messages);
    assert!(told.contains("seen") && !told.contains("vendor_"), "{told}");
    world.stop().await;
}

#[tokio::test]
async fn retries_come_before_the_fallback() {
    let world = World::new().await;
    let spare = add_spare(&world);
    (0..4).for_each(|_| {
        world
            .model
            .script([Piece::Break(crate::scripted::server_error())])
    });
    let run = run(&world, "go").await;
    let events = world.events(&run).await;
    assert_eq!(
        (world.model.calls(), spare.calls()),
        (5, 0),
        "the fifth is enough"
    );
    assert!(!kinds(&events).contains(&"model_fallback"));
    world.stop().await;
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_asked_twice_before_the_fallback() {
    let world = World::new().await;
    let spare = add_spare(&world);
    (0..5).for_each(|_| world.model.script([silence()]));
    let run = run(&world, "go").await;
    assert_eq!(kinds(&world.events(&run).await).last(), Some(&"result"));
    assert_eq!((world.model.calls(), spare.calls()), (2, 1));
    world.stop().await;
}

#[tokio::test]
async fn a_model_that_does_not_answer_leaves_money_for_the_fallback() {
    let world = World::new().await;
    let spare = add_spare(&world);
    (0..5).for_each(|_| world.model.script([silence()]));
    let run = run_for(&world, "go", Some(0.1)).await;
    assert_eq!(kinds(&world.events(&run).await).last(), Some(&"result"));
    assert_eq!((world.model.calls(), spare.calls()), (1, 1));
    world.stop().await;
}

#[tokio::test]
async fn a_retry_that_cannot_be_paid_is_the_fallbacks() {
    let world = World::new().await;
    let spare = add_spare_for(&world, None);
    (0..5).for_each(|_| {
        world
            .model
            .script([Piece::Break(crate::scripted::server_error())])
    });
    let run = run_for(&world, "go", Some(0.02)).await;
    assert_eq!(kinds(&world.events(&run).await).last(), Some(&"result"));
    assert!(world.model.calls() < 5);
    assert_eq!(spare.calls(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_fallback_that_fails_too_ends_the_run_with_its_error() {
    let world = World::new().await;
    let spare = add_spare(&world);
    world.model.script([outage()]);
    spare.script([Piece::Refuse(ModelError::new(ErrorClass::Auth, "bad key"))]);
    let run = run(&world, "go").await;
    let events = world.events(&run).await;
    assert_eq!(kinds(&events), ["started", "model_fallback", "error"]);
    let Some(Event::Error(error)) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!((error.error.as_str(), error.turns), ("bad key", 1));
    assert_eq!(error.model.id, SPARE);
    world.stop().await;
}

#[tokio::test]
async fn a_session_stays_on_the_fallback() {
    let world = World::new().await;
    let spare = add_spare(&world);
    let session = session(&world).await;
    let gate = Gate::new();
    world.model.script([outage()]);
    spare.script([Piece::Hold(gate.clone()), Piece::Text("1")]);
    let one = world.message(&session, "one").await;
    // One that came in before the session moved on, and waits behind it.
    let two = world.message(&session, "two").await;
    soon(spare.called(1)).await;
    gate.open();
    world.events(&one).await;
    world.events(&two).await;
    let three = world.message(&session, "three").await;
    for run in [&two, &three] {
        assert!(!kinds(&world.events(run).await).contains(&"model_fallback"));
        assert_eq!(world.snapshot(run).await.model.unwrap().id, SPARE);
    }
    assert_eq!((world.model.calls(), spare.calls()), (1, 3));
    let found = world
        .service
        .sessions()
        .snapshot(&world.caller, &session)
        .await
        .unwrap();
    assert_eq!(found.agent_spec.active_model_id.as_deref(), Some(SPARE));
    assert_eq!(found.agent_spec.model_id.as_deref(), Some(PRIMARY));
    assert_eq!(account(&world).await, [(SPARE.to_owned(), 0)]);
    // Nobody else remembers it but the store.
    let peer = world.peer();
    let elsewhere = add_spare(&peer);
    let four = peer.message(&session, "four").await;
    peer.events(&four).await;
    assert_eq!((peer.model.calls(), elsewhere.calls()), (0, 1));
    peer.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_fell_back_in_vain_stays_there_too() {
    let world = World::new().await;
    let spare = add_spare(&world);
    let session = session(&world).await;
    world.model.script([outage()]);
    spare.script([outage()]);
    let one = world.message(&session, "one").await;
    world.events(&one).await;
    let two = world.message(&session, "two").await;
    world.events(&two).await;
    assert_eq!((world.model.calls(), spare.calls()), (1, 2));
    world.stop().await;
}

/// A run that has fallen back, and whose process died while the fallback spoke.
async fn cut_off() -> (World, String) {
    let world = World::new().await;
    let spare = add_spare(&world);
    world.model.script([outage()]);
    spare.script([Piece::Text("hal"), Piece::Hold(Gate::new())]);
    let run = run(&world, "go").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.kill().await;
    (world, run)
}

#[tokio::test]
async fn whoever_takes_the_run_over_goes_on_with_the_fallback() {
    let (world, run) = cut_off().await;
    let peer = world.peer();
    let elsewhere = add_spare(&peer);
    elsewhere.script([Piece::Text("whole")]);
    let events = peer.events(&run).await;
    assert_eq!(peer.model.calls(), 0);
    assert!(matches!(events.last(), Some(Event::Result(result)) if result.text == "whole"));
    let moved = kinds(&events)
        .iter()
        .filter(|kind| **kind == "model_fallback")
        .count();
    assert_eq!(moved, 1);
    peer.stop().await;
}

#[tokio::test]
async fn a_run_whose_fallback_is_gone_goes_on_with_its_model() {
    let world = World::new().await;
    add_spare(&world);
    world.stop().await;
    let run = run(&world, "go").await;
    let peer = world.peer();
    let events = peer.events(&run).await;
    assert_eq!(
        kinds(&events),
        ["started", "assistant_delta", "assistant_message", "result"]
    );
    peer.stop().await;
}

#[tokio::test]
async fn a_run_that_fell_back_waits_for_a_process_that_has_its_fallback() {
    let (world, run) = cut_off().await;
    let peer = world.peer();
    peer.parked().await;
    let elsewhere = add_spare(&peer);
    elsewhere.script([Piece::Text("whole")]);
    let events = peer.events(&run).await;
    assert!(matches!(events.last(), Some(Event::Result(result)) if result.text == "whole"));
    assert_eq!((peer.model.calls(), elsewhere.calls()), (0, 1));
    peer.stop().await;
}

#[tokio::test]
async fn a_session_whose_fallback_is_gone_goes_on_with_its_model() {
    let world = World::new().await;
    add_spare(&world);
    let session = session(&world).await;
    world.catalog.replace(world.offers());
    let run = world.message(&session, "go").await;
    assert_eq!(kinds(&world.events(&run).await).last(), Some(&"result"));
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_stays_on_its_fallback_does_not_need_its_first_model() {
    let world = World::new().await;
    let spare = add_spare(&world);
    let session = session(&world).await;
    world.model.script([outage()]);
    let one = world.message(&session, "one").await;
    world.events(&one).await;
    let mut platform = world.catalog.now().platform.clone();
    platform.retain(|model| model.id == SPARE);
    world.catalog.replace(Catalog {
        platform,
        ..Catalog::default()
    });
    let two = world.message(&session, "two").await;
    assert_eq!(kinds(&world.events(&two).await).last(), Some(&"result"));
    assert_eq!(world.snapshot(&two).await.model.unwrap().id, SPARE);
    assert_eq!((world.model.calls(), spare.calls()), (1, 2));
    world.stop().await;
}

#[tokio::test]
async fn a_fallback_that_is_no_model_is_refused_by_its_name() {
    let world = World::new().await;
    add_spare(&world);
    let mut spec = spec();
    spec.fallback_model_id = Some("spar".to_owned());
    let request = CreateRun {
        spec,
        messages: vec![user("go")],
    };
    let refused = world
        .service
        .runs()
        .create(&world.caller, request, None)
        .await;
    let Err(Error::InvalidModel {
        message,
        candidates,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert!(message.starts_with("fallbackModelId: "), "{message}");
    assert_eq!(candidates, [SPARE]);
    assert_eq!(world.newest().await, None);
    world.stop().await;
}

#[tokio::test]
async fn a_model_does_not_fall_back_on_itself() {
    let world = World::new().await;
    world.model.script([outage()]);
    let itself = |spec: &mut runloom_protocol::spec::AgentSpec| {
        spec.fallback_model_id = Some("scripted".to_owned());
    };
    let run = world.run_with("go", itself).await;
    assert_eq!(kinds(&world.events(&run).await), ["started", "error"]);
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}
