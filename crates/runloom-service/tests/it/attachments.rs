//! Files: the model is given them, any process can go on with them, and nobody else sees what is in them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use runloom_ports::error::Result;
use runloom_ports::file::{File, FileContent};
use runloom_ports::model::Message;
use runloom_ports::tools::{
    FetchedFile, Invocation, NoTools, Outcome, ServerTool, ToolContext, ToolHost,
};
use runloom_protocol::event::{Event, EventKind};
use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use runloom_protocol::validate;
use runloom_service::error::Error;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::scripted::{Gate, Piece};
use crate::world::{World, asked, kinds, settings, spec};

/// How a PNG begins with "secret picture", and "secret words", in base64.
const PICTURE: &str = "iVBORw0KGgoAc2VjcmV0IHBpY3R1cmU=";
const WORDS: &str = "c2VjcmV0IHdvcmRz";

fn picture() -> Value {
    json!({"type": "input_file", "mimeType": "image/png", "filename": "a.png", "data": PICTURE})
}

fn notes() -> Value {
    json!({"type": "input_file", "mimeType": "text/plain; charset=utf-8", "filename": "n.txt", "data": WORDS})
}

fn at(url: &str) -> Value {
    json!({"type": "input_file_url", "url": url})
}

fn body(attachments: &[Value]) -> Value {
    json!({"messages": [{"role": "user", "content": "look", "attachments": attachments}]})
}

async fn run(world: &World, attachments: &[Value]) -> Result<String, Error> {
    let mut request = body(attachments);
    request["systemPrompt"] = json!("s");
    let mut request = validate::create_run(&request).unwrap();
    request.spec = spec();
    let accepted = world
        .service
        .runs()
        .create(&world.caller, request, None)
        .await;
    accepted.map(|accepted| accepted.run_id.to_string())
}

async fn refusal(world: &World, attachments: &[Value]) -> (String, String) {
    match run(world, attachments).await {
        Err(Error::Invalid(issues)) => (issues[0].path.clone(), issues[0].message.clone()),
        other => panic!("{other:?}"),
    }
}

/// The files that the model was given in a call, each with its text in words.
fn given(world: &World, call: usize) -> Vec<(String, Vec<File>)> {
    let request = &world.model.requests()[call];
    let shown = request.messages.iter().filter_map(|message| match message {
        Message::UserFiles { text, files } => Some((text.to_string(), files.to_vec())),
        _ => None,
    });
    shown.collect()
}

async fn assert_unseen(world: &World, run: &str) {
    let log = String::from_utf8(world.stored(run, 0).await).unwrap();
    let snapshot = serde_json::to_string(&world.snapshot(run).await).unwrap();
    for shown in [log, snapshot] {
        for hidden in [PICTURE, WORDS, "secret"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}

fn assert_given(files: &[File]) {
    let [picture, notes] = files else {
        panic!("{files:?}");
    };
    assert_eq!(
        (&*picture.name, &*picture.mime_type),
        ("a.png", "image/png")
    );
    assert_eq!(picture.content, FileContent::Base64(PICTURE.into()));
    assert_eq!((&*notes.name, &*notes.mime_type), ("n.txt", "text/plain"));
    assert_eq!(notes.content, FileContent::Text("secret words".into()));
}

#[tokio::test]
async fn the_model_is_given_the_files_and_everybody_else_what_they_are() {
    let world = World::new().await;
    let run = run(&world, &[picture(), notes()]).await.unwrap();
    world.events(&run).await;
    let shown = given(&world, 0);
    assert_eq!(shown[0].0, "look");
    assert_given(&shown[0].1);
    assert_unseen(&world, &run).await;
    let snapshot = serde_json::to_value(world.snapshot(&run).await).unwrap();
    let wanted = json!([
        {"type": "input_file", "mimeType": "image/png", "filename": "a.png", "size": 23},
        {"type": "input_file", "mimeType": "text/plain; charset=utf-8", "filename": "n.txt", "size": 12},
    ]);
    assert_eq!(snapshot["attachments"], wanted);
    world.stop().await;
}

#[tokio::test]
async fn another_process_goes_on_with_the_files() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("hal"), Piece::Hold(Gate::new())]);
    let run = run(&world, &[picture(), notes()]).await.unwrap();
    world.watch(&run, 0).await.until("assistant_delta").await;
    world.kill().await;
    let next = world.peer();
    let calls = next.model.calls();
    next.events(&run).await;
    assert_given(&given(&next, calls)[0].1);
    next.stop().await;
}

#[tokio::test]
async fn a_session_remembers_what_files_there_were_and_not_what_was_in_them() {
    let world = World::new().await;
    let session = world.session().await;
    let message = validate::create_message(&body(&[picture()])).unwrap();
    let accepted = world
        .service
        .sessions()
        .send_message(&world.caller, &session, message, None)
        .await;
    world.events(accepted.unwrap().run_id.as_str()).await;
    assert_eq!(given(&world, 0).len(), 1);
    let told = "look\n[The file a.png (image/png, 23 bytes) came with this message. Its content is not repeated here.]";
    // Whether this process remembers the conversation or reads it from the store.
    for world in [world.peer(), world] {
        let calls = world.model.calls();
        let run = world.message(&session, "and now?").await;
        world.events(&run).await;
        assert!(given(&world, calls).is_empty());
        let request = &world.model.requests()[calls];
        let first = request.messages.iter().next().cloned();
        assert_eq!(first, Some(Message::User { text: told.into() }));
        let snapshot = world
            .service
            .sessions()
            .snapshot(&world.caller, &session)
            .await
            .unwrap();
        let file = json!([{"type": "input_file", "mimeType": "image/png", "filename": "a.png", "size": 23}]);
        let snapshot = serde_json::to_value(snapshot).unwrap();
        assert_eq!(snapshot["messages"][0]["attachments"], file);
        assert_eq!(snapshot["messages"][0]["content"], "look");
        assert!(snapshot["messages"][1].get("attachments").is_none());
        world.stop().await;
    }
}

#[tokio::test]
async fn what_the_model_cannot_be_given_or_nobody_can_read_is_refused_and_nothing_created() {
    let world = World::new().await;
    let mut sound = picture();
    sound["mimeType"] = json!("audio/wav");
    let (path, message) = refusal(&world, &[notes(), sound]).await;
    assert_eq!(path, "messages[0].attachments[1].mimeType");
    assert!(
        message.contains("audio/wav") && message.contains("image/png"),
        "{message}"
    );
    let mut other = picture();
    other["data"] = json!("/9j/4A==");
    let (path, message) = refusal(&world, &[notes(), other]).await;
    assert_eq!(path, "messages[0].attachments[1]");
    assert!(message.contains("image/jpeg"), "{message}");
    let mut broken = notes();
    broken["data"] = json!("/w==");
    let (path, message) = refusal(&world, &[broken.clone()]).await;
    assert_eq!(path, "messages[0].attachments[0]");
    assert!(message.contains("UTF-8"), "{message}");
    broken["mimeType"] = json!(runloom_protocol::attachment::DOCX);
    let (_, message) = refusal(&world, &[broken]).await;
    assert!(message.contains("Word"), "{message}");
    assert_eq!(world.newest().await, None);
    assert_eq!(world.model.calls(), 0);
    world.stop().await;
}

/// A host that has no tools, and a few files.
#[derive(Default)]
struct Library {
    asked: Mutex<Vec<(String, usize)>>,
}

#[async_trait]
impl ToolHost for Library {
    async fn check(&self, _workspace: &str, _refs: &[ToolRef]) -> Result<()> {
        Ok(())
    }

    async fn resolve(&self, _context: &ToolContext, _refs: &[ToolRef]) -> Vec<ServerTool> {
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

    async fn fetch(
        &self,
        url: &str,
        most: usize,
        _: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        self.asked.lock().unwrap().push((url.to_owned(), most));
        let (kind, bytes): (&str, &[u8]) = match url {
            "https://h.example/picture" => ("image/png", b"\x89PNG\r\n\x1a\n\0secret picture"),
            "https://h.example/n.txt" => ("application/octet-stream", b"secret words"),
            "https://h.example/what" => ("application/zip", b"PK"),
            "https://h.example/none.png" => ("image/png", b""),
            _ => return Err("its server answered with HTTP status 404".to_owned()),
        };
        Ok(FetchedFile {
            mime_type: Some(kind.to_owned()),
            bytes: Bytes::from_static(bytes),
        })
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
}

#[tokio::test]
async fn addresses_are_left_to_the_provider_or_fetched() {
    let library = Arc::new(Library::default());
    let world = World::with_tools(settings(), library.clone()).await;
    let left = "https://h.example/left.jpg?sig=1";
    let mut named = at("https://h.example/picture");
    named["filename"] = json!("a.png");
    let attached = [at(left), named, at("https://h.example/n.txt")];
    let run = run(&world, &attached).await.unwrap();
    world.events(&run).await;
    let files = given(&world, 0).remove(0).1;
    assert_eq!(files[0].content, FileContent::Url(left.into()));
    assert_eq!(&*files[0].name, "left.jpg");
    assert_given(&files[1..]);
    let max = runloom_protocol::limits::ATTACHMENTS_MAX_BYTES;
    let asked = library.asked.lock().unwrap().clone();
    let wanted = [
        ("https://h.example/picture".to_owned(), max),
        ("https://h.example/n.txt".to_owned(), max - 23),
    ];
    assert_eq!(asked, wanted, "all files of a run share one bound");
    let snapshot = serde_json::to_value(world.snapshot(&run).await).unwrap();
    assert_eq!(snapshot["attachments"][0]["url"], left);
    assert_eq!(snapshot["attachments"][1]["size"], 23);
    world.stop().await;
}

#[tokio::test]
async fn an_address_that_leads_to_nothing_usable_is_refused_at_its_place() {
    let library = Arc::new(Library::default());
    let world = World::with_tools(settings(), library.clone()).await;
    for (address, key, why) in [
        ("https://h.example/gone.png", "url", "404"),
        ("https://h.example/none.png", "url", "empty"),
        ("https://h.example/what", "mimeType", "neither"),
    ] {
        let (path, message) = refusal(&world, &[at(address)]).await;
        assert_eq!(path, format!("messages[0].attachments[0].{key}"));
        assert!(message.contains(why), "{message}");
    }
    library.asked.lock().unwrap().clear();
    let (path, _) = refusal(&world, &[at("https://h.example/a.pdf")]).await;
    assert_eq!(path, "messages[0].attachments[0].mimeType");
    let asked = library.asked.lock().unwrap().len();
    assert_eq!(asked, 0, "nobody is asked for what the model cannot take");
    assert_eq!(world.newest().await, None);
    world.stop().await;
}

#[tokio::test]
async fn files_of_a_clients_tool_reach_the_model_behind_its_result_also_elsewhere() {
    let world = World::new().await;
    world.model.script([
        Piece::Call("look", json!({})),
        Piece::Call("look", json!({"n": 2})),
    ]);
    let run = world.run("draw").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("local_tool_call").await;
    let both = watcher.events.iter();
    let calls: Vec<String> = both
        .filter(|event| event.kind() == EventKind::LocalToolCall)
        .map(asked)
        .collect();
    assert_eq!(calls.len(), 2, "read-only calls are asked for together");
    let answer = |call: &str| {
        let files = [picture(), notes()];
        json!({"toolUseId": call, "result": "drawn", "files": files})
    };
    let first = validate::tool_result(&answer(&calls[0])).unwrap();
    let service = &world.service;
    service
        .runs()
        .submit_tool_result(&world.caller, &run, first, None)
        .await
        .unwrap();
    watcher.until("local_tool_result_in").await;
    world.kill().await;
    let next = world.peer();
    let before = next.model.calls();
    next.answer(&run, &calls[1], "nothing").await.unwrap();
    let events = next.events(&run).await;
    let tail: Vec<&str> = kinds(&events).into_iter().skip(4).collect();
    let wanted = [
        "tool_files",
        "local_tool_result_in",
        "local_tool_result_in",
        "assistant_delta",
        "assistant_message",
        "result",
    ];
    assert_eq!(tail, wanted);
    let Event::ToolFiles(shown) = &events[4] else {
        panic!("{events:?}");
    };
    let shown = serde_json::to_value(shown).unwrap();
    let files = json!([
        {"filename": "a.png", "mimeType": "image/png", "sizeBytes": 23},
        {"filename": "n.txt", "mimeType": "text/plain; charset=utf-8", "sizeBytes": 12},
    ]);
    assert_eq!(shown, json!({"name": "look", "files": files}));
    assert_unseen(&next, &run).await;
    let request = &next.model.requests()[before];
    let last: Vec<&Message> = request.messages.iter().rev().take(3).collect();
    assert!(matches!(last[1], Message::Tool { content, .. } if content == "nothing"));
    assert!(matches!(last[2], Message::Tool { content, .. } if content == "drawn"));
    let (text, files) = given(&next, before).remove(0);
    assert_eq!(text, "Files that the tool look returned:");
    assert_given(&files);
    next.stop().await;
}
