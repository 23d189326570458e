//! A scripted HTTP server: a provider, or a server of tools. It answers each request as the test says, remembers what
//! it was asked, and knows when its client went away.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::PATIENCE;

/// One request as the peer saw it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// The same as it came, for what is no JSON.
    pub(crate) bytes: Vec<u8>,
}

/// What the peer does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A status, headers and a body.
    Plain(u16, Vec<(&'static str, String)>, String),
    /// A stream of events, to its end.
    Events(Vec<Value>),
    /// The same, and then silence until the client goes away.
    EventsThenSilence(Vec<Value>),
}

/// A server on loopback; its threads end with the test's process.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) url: String,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<Asked>,
    /// Clients that went away while the peer was silent.
    left: usize,
}

impl Peer {
    /// Answers by the script, which is given the request and its number from 1.
    pub(crate) fn start(script: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            seen: Arc::default(),
        };
        let (served, script) = (peer.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (peer, script) = (served.clone(), Arc::clone(&script));
                std::thread::spawn(move || {
                    // A client that goes away, or a server that is killed, ends the connection and nothing else.
                    let _ = peer.serve(&stream, script.as_ref());
                });
            }
        });
        peer
    }

    fn serve(&self, stream: &TcpStream, script: &dyn Fn(&Asked, usize) -> Reply) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(asked) = read(&mut reader)? {
            let number = self.change(|seen| {
                seen.asked.push(asked.clone());
                seen.asked.len()
            });
            match script(&asked, number) {
                Reply::Plain(status, headers, body) => plain(stream, status, &headers, &body)?,
                Reply::Events(events) => {
                    begin(stream, &events)?;
                    let mut stream = stream;
                    stream.write_all(b"0\r\n\r\n")?;
                }
                Reply::EventsThenSilence(events) => {
                    begin(stream, &events)?;
                    // Nothing more is said: the next thing to hear is that the client has left.
                    let _ = reader.read(&mut [0]);
                    self.change(|seen| seen.left += 1);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let (seen, changed) = &*self.seen;
        let value = change(&mut seen.lock().unwrap());
        changed.notify_all();
        value
    }

    fn wait(&self, what: &str, at_most: Duration, until: impl Fn(&Seen) -> bool) {
        let (seen, changed) = &*self.seen;
        let (_seen, waited) = changed
            .wait_timeout_while(seen.lock().unwrap(), at_most, |seen| !until(seen))
            .unwrap();
        assert!(!waited.timed_out(), "the peer never saw {what}");
    }

    /// Everything that was asked, in its order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.seen.0.lock().unwrap().asked.clone()
    }

    /// Waits for this many matching requests.
    pub(crate) fn until(&self, count: usize, fits: impl Fn(&Asked) -> bool) {
        self.wait("the request", PATIENCE, |seen| {
            seen.asked.iter().filter(|asked| fits(asked)).count() >= count
        });
    }

    /// Waits until a client has gone away while the peer was silent.
    pub(crate) fn until_left(&self) {
        self.until_left_within(PATIENCE);
    }

    /// The same, where a client that nobody told would leave by itself after a while.
    pub(crate) fn until_left_within(&self, at_most: Duration) {
        self.wait("its client leave", at_most, |seen| seen.left > 0);
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let word = |at| lines[0].split(' ').nth(at).unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked {
        method: word(0),
        path: word(1),
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        bytes: body,
    }))
}

fn plain(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(&'static str, String)],
    body: &str,
) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())
}

fn begin(mut stream: &TcpStream, events: &[Value]) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    for event in events {
        let frame = match event {
            Value::String(text) => format!("data: {text}\n\n"),
            event => format!("data: {event}\n\n"),
        };
        stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())?;
    }
    Ok(())
}

/// One turn of chat completions: text in pieces, calls, the reason of its end, tokens in and out.
pub(crate) fn chat(
    pieces: &[&str],
    calls: &[(&str, Value)],
    finish: &str,
    tokens: (u64, u64),
) -> Vec<Value> {
    let choice = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let mut events: Vec<Value> = pieces
        .iter()
        .map(|piece| choice(json!({"content": piece})))
        .collect();
    for (index, (name, input)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": input.to_string()});
        let call = json!({"index": index, "id": format!("call_{index}"), "function": function});
        events.push(choice(json!({"tool_calls": [call]})));
    }
    events.push(json!({
        "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
        "usage": {"prompt_tokens": tokens.0, "completion_tokens": tokens.1}
    }));
    events.push(json!("[DONE]"));
    events
}

/// A turn that says something and ends.
pub(crate) fn says(text: &str) -> Reply {
    Reply::Events(chat(&[text], &[], "stop", (10, 5)))
}

/// A turn that calls a tool.
pub(crate) fn calls(name: &str, input: Value) -> Reply {
    Reply::Events(chat(&[], &[(name, input)], "tool_calls", (10, 5)))
}
