//! When a connection to a provider is reused, replaced or closed. The provider is a raw socket, so that a test decides
//! when each byte is sent and when the connection ends.

use std::sync::Arc;
use std::time::Duration;

use runloom_models::{ModelSettings, ProviderSettings};
use runloom_ports::model::Model;
use runloom_protocol::definition::ProviderKind;
use runloom_protocol::outcome::ErrorClass;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cases::{ask, listen};
use crate::providers;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const LAST_CHUNK: &str = "0\r\n\r\n";

/// Longer than anything here takes; when it passes, something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

async fn provider() -> (TcpListener, Arc<dyn Model>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = ProviderSettings {
        id: "under-test".into(),
        base_url: Some(format!("http://{}/v1", listener.local_addr().unwrap())),
        ..ProviderSettings::default()
    };
    let model = runloom_models::open(
        ProviderKind::OpenaiCompatible,
        &settings,
        &ModelSettings::default(),
    );
    (listener, model.unwrap())
}

/// Everything up to the final frame of a response, without the end of its body.
fn events() -> String {
    let events = String::from_utf8(providers::openai_compatible().fixture("text")).unwrap();
    format!("{:x}\r\n{events}\r\n", events.len())
}

/// Reads one request; `false` when the client has closed.
async fn read_request(socket: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    loop {
        if socket.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return false;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let named = name.eq_ignore_ascii_case("content-length");
            named.then(|| value.trim().parse::<usize>().unwrap())
        });
        if body.len() == length.unwrap() {
            return true;
        }
    }
}

async fn write(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.unwrap();
}

async fn accept(listener: &TcpListener) -> TcpStream {
    let accepted = timeout(PATIENCE, listener.accept()).await;
    accepted.expect("no connection").unwrap().0
}

/// Answers one request, if one comes, and closes.
async fn serve_once(mut socket: TcpStream) {
    if read_request(&mut socket).await {
        let head = HEAD.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        write(&mut socket, &format!("{head}{}{LAST_CHUNK}", events())).await;
    }
}

/// Waits for the next request on a connection that the client may reuse. Until the client has read the end of the
/// response before it, it opens other connections, which are closed after one response.
async fn reused(listener: &TcpListener, socket: &mut TcpStream) {
    let mut others = JoinSet::new();
    let request = read_request(socket);
    tokio::pin!(request);
    loop {
        tokio::select! {
            came = &mut request => return assert!(came, "the connection was closed"),
            other = accept(listener) => others.spawn(serve_once(other)),
        };
    }
}

/// Calls until the server has seen what it waits for.
async fn call_until(model: &dyn Model, served: impl Future<Output = ()>) {
    let calls = async {
        loop {
            listen(model, ask("Hello")).await.done();
        }
    };
    let both = async {
        tokio::select! { () = served => (), () = calls => () }
    };
    timeout(PATIENCE, both).await.expect("never reused");
}

#[tokio::test]
async fn reuses_a_connection_whose_body_ended_after_the_last_event() {
    let (listener, model) = provider().await;
    let first_call = async {
        listen(model.as_ref(), ask("Hello")).await.done();
    };
    let serve = async {
        let mut socket = accept(&listener).await;
        assert!(read_request(&mut socket).await);
        write(&mut socket, &format!("{HEAD}{}", events())).await;
        socket
    };
    let (mut socket, ()) = tokio::join!(serve, first_call);
    write(&mut socket, LAST_CHUNK).await;
    call_until(model.as_ref(), reused(&listener, &mut socket)).await;
}

#[tokio::test]
async fn closes_a_connection_whose_body_goes_on_after_the_last_event() {
    let (listener, model) = provider().await;
    let serve = async {
        let mut socket = accept(&listener).await;
        assert!(read_request(&mut socket).await);
        write(&mut socket, &format!("{HEAD}{}", events())).await;
        let comment = format!("{:x}\r\n:{}\n\r\n", 1_002, " ".repeat(1_000));
        while socket.write_all(comment.as_bytes()).await.is_ok() {}
    };
    let call = async {
        listen(model.as_ref(), ask("Hello")).await.done();
    };
    let both = async { tokio::join!(serve, call) };
    timeout(PATIENCE, both).await.expect("never closed");
}

#[tokio::test]
async fn replaces_a_connection_that_was_closed_while_idle() {
    let (listener, model) = provider().await;
    let serve = async {
        for _ in 0..2 {
            let mut socket = accept(&listener).await;
            assert!(read_request(&mut socket).await);
            write(&mut socket, &format!("{HEAD}{}{LAST_CHUNK}", events())).await;
        }
    };
    let call = async {
        for _ in 0..2 {
            listen(model.as_ref(), ask("Hello")).await.done();
        }
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn sends_a_request_again_that_met_a_closing_connection() {
    let (listener, model) = provider().await;
    let served = async {
        let mut idle = accept(&listener).await;
        assert!(read_request(&mut idle).await);
        write(&mut idle, &format!("{HEAD}{}{LAST_CHUNK}", events())).await;
        reused(&listener, &mut idle).await;
        drop(idle);
        // The call whose request was just lost must end well, on another connection.
        let mut other = accept(&listener).await;
        assert!(read_request(&mut other).await);
        write(&mut other, &format!("{HEAD}{}{LAST_CHUNK}", events())).await;
        reused(&listener, &mut other).await;
    };
    call_until(model.as_ref(), served).await;
}

#[tokio::test]
async fn sends_a_request_again_only_once() {
    let (listener, model) = provider().await;
    let serve = async {
        for _ in 0..2 {
            let mut socket = accept(&listener).await;
            assert!(read_request(&mut socket).await);
        }
        drop(listener);
    };
    let (heard, ()) = tokio::join!(listen(model.as_ref(), ask("Hello")), serve);
    assert_eq!(heard.error().class, ErrorClass::Server);
    assert!(heard.error().retryable);
    let message = &heard.error().message;
    assert!(message.contains("closed before a response"), "{message}");
}
