//! Connections that misbehave below HTTP: the server answers others, and nothing half-sent has an effect.

use std::io::{Read, Write};

use serde_json::json;

use crate::http::{Api, Reading, connect, raw};
use crate::server::{Server, settings};

fn server(folder: &tempfile::TempDir) -> (Server, Api) {
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    (server, api)
}

fn lives(api: &Api) {
    assert_eq!(api.get("/models").status, 200);
    assert_eq!(api.get("/agent-runs?includeTotal=true").json()["total"], 0);
}

#[test]
fn refuses_too_many_headers() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, api) = server(&folder);
    let many: String = (0..5000)
        .map(|number| format!("X-{number}: y\r\n"))
        .collect();
    let one = format!("X-Long: {}\r\n", "y".repeat(2 * 1024 * 1024));
    let path = format!("GET /{} HTTP/1.1\r\n", "p".repeat(2 * 1024 * 1024));
    for request in [
        format!("GET /health HTTP/1.1\r\nHost: x\r\n{many}\r\n"),
        format!("GET /health HTTP/1.1\r\nHost: x\r\n{one}\r\n"),
        format!("{path}Host: x\r\n\r\n"),
    ] {
        // Refused with a status, or cut off while it still sends.
        if let Ok(answer) = raw(&api.address, request.as_bytes()) {
            assert!(
                [400, 414, 431].contains(&answer.status),
                "{}",
                answer.status
            );
        }
        lives(&api);
    }
}

#[test]
fn refuses_other_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, api) = server(&folder);
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n".as_slice(),
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nBad\x01Name: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = connect(&api.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // The server says what it thinks of it, and closes.
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.0 4"),
            "{text}"
        );
        lives(&api);
    }
}

#[test]
fn garbage_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, api) = server(&folder);
    let mut stream = connect(&api.address).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n\x01\x02nonsense\r\n\r\n")
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert!(answers.starts_with("HTTP/1.1 200"), "{answers}");
    assert!(answers.contains("HTTP/1.1 400"), "{answers}");
    lives(&api);
}

#[test]
fn serves_pipelined_requests_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, api) = server(&folder);
    let mut stream = connect(&api.address).unwrap();
    let one = |path: &str, close: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n{close}\r\n");
    let all = one("/health", "") + &one("/nope", "") + &one("/live", "Connection: close\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let places: Vec<usize> = ["\"ok\"", "\"not_found\"", "\"live\""]
        .iter()
        .map(|text| answers.find(text).unwrap())
        .collect();
    assert!(places.is_sorted(), "{answers}");
}

#[test]
fn incomplete_requests_create_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, api) = server(&folder);
    let body =
        json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": "say hi"}).to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        api.path("/agent-runs"),
        api.key,
        body.len()
    );
    let half = format!("{head}\r\n{}", &body[..body.len() / 2]);
    let chunks = format!(
        "{}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}",
        head.replace(&format!("Content-Length: {}\r\n", body.len()), ""),
        body.len(),
        &body[..body.len() / 2]
    );
    let mut open = Vec::new();
    for number in 0..60 {
        let mut stream = connect(&api.address).unwrap();
        let bytes = match number % 4 {
            0 => &head[..10],
            1 => &head,
            2 => &half,
            _ => &chunks,
        };
        stream.write_all(bytes.as_bytes()).unwrap();
        open.push(stream);
    }
    // With all of them open, others are served.
    lives(&api);
    // Half of them hang up in the middle.
    open.truncate(30);
    lives(&api);
    // A body that does come to its end after all is a request like any other.
    let mut late = connect(&api.address).unwrap();
    late.write_all(half.as_bytes()).unwrap();
    lives(&api);
    late.write_all(&body.as_bytes()[body.len() / 2..]).unwrap();
    assert_eq!(Reading::begin(late).unwrap().status, 202);
}

#[test]
fn clients_over_the_limit_wait() {
    let folder = tempfile::tempdir().unwrap();
    let one = settings([("RUNLOOM_SERVER__MAX_CONNECTIONS", "1")]);
    let mut server = Server::dev(folder.path(), &one);
    let mut open = None;
    for _ in 0..3 {
        let mut next = connect(&server.address).unwrap();
        next.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        // Only now is there a place for the next.
        drop(open);
        open = Some(Reading::begin(next).unwrap());
    }
    drop(open);
    assert!(server.stop().success());
    let said = server.said();
    assert_eq!(said.matches("server.max_connections").count(), 1, "{said}");
}
