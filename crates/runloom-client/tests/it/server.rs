//! A server as small as possible: each connection has a thread and carries one request, answered by the test's closure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use runloom_client::{Client, Options, RetryPolicy};

/// What came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// The requests so far, for closures and for the test.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
}

impl Seen {
    pub(crate) fn all(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How many requests have this in their first line.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.all()
            .iter()
            .filter(|request| request.line.contains(part))
            .count()
    }

    /// Waits until that many requests with `part` have come; gives up after a while so that a broken client fails the
    /// test.
    pub(crate) fn wait_for(&self, part: &str, count: usize) {
        let held = self.requests.lock().unwrap();
        let missing = |requests: &mut Vec<Request>| {
            requests
                .iter()
                .filter(|request| request.line.contains(part))
                .count()
                < count
        };
        let waited = self
            .changed
            .wait_timeout_while(held, Duration::from_secs(20), missing);
        assert!(
            !waited.unwrap().1.timed_out(),
            "fewer than {count} requests to {part}"
        );
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) seen: Arc<Seen>,
}

impl Server {
    /// Serves until the process ends; the threads hold nothing else.
    pub(crate) fn start(
        answer: impl Fn(&Request, &Seen, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let (shared, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let Some(request) = read(&stream) else { return };
                    seen.requests.lock().unwrap().push(request.clone());
                    seen.changed.notify_all();
                    answer(&request, &seen, &mut stream);
                });
            }
        });
        Self { url, seen }
    }

    /// A client whose retries do not wait.
    pub(crate) fn client(&self) -> Client {
        let at_once = RetryPolicy {
            max_retries: 4,
            first_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
        };
        let options = Options {
            retry: at_once,
            reconnect: at_once,
            ..Options::default()
        };
        Client::with_options(&self.url, "mantyx_test", "acme", options).unwrap()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let mut request = Request {
        line: lines.remove(0),
        headers: lines,
        body: String::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |value| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

/// A whole JSON answer.
pub(crate) fn json(stream: &mut TcpStream, status: &str, body: &str) {
    json_with(stream, status, "", body);
}

/// A whole JSON answer with more headers, each ended by CRLF.
pub(crate) fn json_with(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    write(stream, &(head + body));
}

/// The head of a stream that ends in order when the connection does.
pub(crate) fn stream_head(stream: &mut TcpStream) {
    write(
        stream,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n",
    );
}

/// The head of a stream that can only break: more is promised than will come.
pub(crate) fn breaking_stream_head(stream: &mut TcpStream) {
    write(
        stream,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n",
    );
}

/// The client may have gone already; that is not the server's concern.
pub(crate) fn write(stream: &mut TcpStream, text: &str) {
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
}

/// A frame as the server writes it.
pub(crate) fn frame(seq: u64, kind: &str, payload: &str) -> String {
    format!(
        "id: {seq}\nevent: {kind}\ndata: {{\"seq\":{seq},\"type\":\"{kind}\",\"data\":{payload}}}\n\n"
    )
}

pub(crate) fn delta(seq: u64, text: &str) -> String {
    frame(seq, "assistant_delta", &format!("{{\"text\":\"{text}\"}}"))
}

pub(crate) fn result(seq: u64, text: &str) -> String {
    let payload = serde_json::json!({
        "ok": true, "subtype": "success", "text": text, "turns": 1,
        "tokens": {"inputTokens": 1, "cachedTokens": 0, "reasoningTokens": 0, "outputTokens": 1},
        "model": {"id": "platform:demo", "provider": "demo", "vendorModelId": "demo"},
        "structuredOutput": {"schemaRequested": false, "schemaEnforced": false, "enforcementMechanism": "none",
            "unconstrainedFallbackOccurred": false},
    });
    frame(seq, "result", &payload.to_string())
}
