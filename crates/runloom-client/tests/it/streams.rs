//! Streams are resumed where they were cut, show each event once, and end.

use std::net::TcpStream;

use runloom_client::protocol::id::RunId;
use runloom_client::{Error, Options, RunStream};

use crate::server::{
    Request, Seen, Server, breaking_stream_head, delta, frame, json, json_with, result,
    stream_head, write,
};

fn run_id() -> RunId {
    RunId::parse("run_1").unwrap()
}

async fn seqs(mut stream: RunStream) -> Result<Vec<u64>, Error> {
    let mut seqs = Vec::new();
    while let Some(event) = stream.next().await? {
        seqs.push(event.seq);
    }
    Ok(seqs)
}

/// First connection: two events, ended by `cut`. Second: one event again, then the rest.
fn cut_after_two(head: fn(&mut TcpStream)) -> Server {
    Server::start(move |_: &Request, seen: &Seen, stream: &mut TcpStream| {
        if seen.count("/stream") == 1 {
            head(stream);
            write(
                stream,
                &(delta(1, "a") + &delta(2, "b") + "id: 3\nevent: assis"),
            );
        } else {
            stream_head(stream);
            write(
                stream,
                &(delta(2, "b") + ": ping\n\n" + &delta(3, "c") + &result(4, "abc")),
            );
        }
    })
}

#[tokio::test]
async fn resumes_broken_and_closed_streams() {
    for head in [breaking_stream_head, stream_head] {
        let server = cut_after_two(head);
        assert_eq!(
            seqs(server.client().stream(&run_id())).await.unwrap(),
            [1, 2, 3, 4]
        );

        let requests = server.seen.all();
        assert!(
            requests[0]
                .line
                .starts_with("GET /api/v1/workspaces/acme/agent-runs/run_1/stream HTTP")
        );
        assert_eq!(requests[0].header("last-event-id"), None);
        assert!(
            requests[1].line.contains("/stream?lastSeq=2 "),
            "{}",
            requests[1].line
        );
        assert_eq!(requests[1].header("last-event-id"), Some("2"));
        assert_eq!(requests.len(), 2);
    }
}

#[tokio::test]
async fn resumes_after_an_event() {
    let server = Server::start(|_, _, stream| {
        stream_head(stream);
        write(stream, &result(8, "x"));
    });
    assert_eq!(
        seqs(server.client().stream_after(&run_id(), 7))
            .await
            .unwrap(),
        [8]
    );
    assert!(server.seen.all()[0].line.contains("lastSeq=7"));
}

#[tokio::test]
async fn retries_busy_servers_only() {
    let server = Server::start(|_, seen, stream| match seen.count("/stream") {
        1 => json_with(stream, "429 Too Many Requests", "Retry-After: 0\r\n", "{}"),
        2 => json(stream, "503 Service Unavailable", "{}"),
        _ => json(
            stream,
            "404 Not Found",
            r#"{"error":"not_found","code":"not_found","message":"no such run"}"#,
        ),
    });
    let error = seqs(server.client().stream(&run_id())).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(server.seen.count("/stream"), 3);
}

#[tokio::test]
async fn gives_up_on_closing_servers() {
    let server = Server::start(|_, _, stream| stream_head(stream));
    let error = seqs(server.client().stream(&run_id())).await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    assert_eq!(
        server.seen.count("/stream"),
        5,
        "the first and as many as the policy allows"
    );
}

#[tokio::test]
async fn passes_unknown_events() {
    let server = Server::start(|_, _, stream| {
        stream_head(stream);
        write(
            stream,
            &(frame(1, "task_plan", r#"{"v":2}"#) + &result(2, "x")),
        );
    });
    let mut stream = server.client().stream(&run_id());
    let event = stream.next().await.unwrap().unwrap();
    assert_eq!(
        (event.kind.as_str(), event.event.is_none()),
        ("task_plan", true)
    );
    assert_eq!(
        event.raw.get(),
        r#"{"seq":1,"type":"task_plan","data":{"v":2}}"#
    );
}

#[tokio::test]
async fn refuses_endless_frames() {
    let server = Server::start(|_, _, stream| {
        stream_head(stream);
        write(stream, &delta(1, &"x".repeat(5000)));
    });
    let options = Options {
        max_frame_bytes: 1000,
        ..Options::default()
    };
    let client =
        runloom_client::Client::with_options(&server.url, "mantyx_x", "acme", options).unwrap();
    let error = seqs(client.stream(&run_id())).await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}
