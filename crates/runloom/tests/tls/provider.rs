//! The scripted provider: chat completions over plain HTTP/1.1, one response per connection. The model's name says how
//! it behaves.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::server::PATIENCE;

/// Pieces of text in a response.
const PIECES: usize = 5;

/// How a model behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers at once.
    Short,
    /// Answers when as many requests wait as [`Provider::expect`] was told.
    Together,
    /// Sends one piece, and the rest after [`Provider::release`].
    Held,
    /// Sends one piece and closes the connection.
    Broken,
    /// Closes the connection without a response to the first request of a prompt, and answers the second.
    Unreliable,
}

impl Behaviour {
    pub(crate) const ALL: [Self; 5] = [
        Self::Short,
        Self::Together,
        Self::Held,
        Self::Broken,
        Self::Unreliable,
    ];

    /// Name of the model.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Together => "together",
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Unreliable => "unreliable",
        }
    }

    fn of(model: &Value) -> Self {
        let named = Self::ALL.into_iter().find(|known| model == known.model());
        named.unwrap_or_else(|| panic!("there is no model {model}"))
    }
}

#[derive(Default)]
struct State {
    expected: usize,
    /// Requests to [`Behaviour::Together`] so far.
    together: usize,
    /// Responses of [`Behaviour::Held`] whose first piece was sent.
    held: usize,
    released: bool,
    /// Prompts that [`Behaviour::Unreliable`] has seen.
    seen: HashSet<String>,
}

/// A provider that serves until the process ends.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let serving = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let provider = serving.clone();
                let thread = std::thread::Builder::new().stack_size(256 * 1024);
                // A client that goes away ends its connection and nothing else.
                let _ = thread.spawn(move || provider.serve(stream));
            }
        });
        provider
    }

    /// How many requests [`Behaviour::Together`] waits for.
    pub(crate) fn expect(&self, requests: usize) {
        self.change(|state| state.expected = requests);
    }

    /// Lets the responses of [`Behaviour::Held`] go on.
    pub(crate) fn release(&self) {
        self.change(|state| state.released = true);
    }

    /// Waits until this many responses are held.
    pub(crate) fn wait_until_held(&self, responses: usize) {
        self.wait(|state| state.held >= responses);
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let request = read_body(&stream)?;
        match Behaviour::of(&request["model"]) {
            Behaviour::Short => respond(&mut stream),
            Behaviour::Together => {
                self.change(|state| state.together += 1);
                self.wait(|state| state.together >= state.expected);
                respond(&mut stream)
            }
            Behaviour::Held => {
                begin(&mut stream)?;
                self.change(|state| state.held += 1);
                self.wait(|state| state.released);
                finish(&mut stream)
            }
            Behaviour::Broken => begin(&mut stream),
            Behaviour::Unreliable => {
                let prompt = request["messages"].to_string();
                let is_new = self.change(|state| state.seen.insert(prompt));
                if is_new { Ok(()) } else { respond(&mut stream) }
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (state, changed) = &*self.state;
        let value = change(&mut state.lock().unwrap());
        changed.notify_all();
        value
    }

    fn wait(&self, until: impl Fn(&State) -> bool) {
        let (state, changed) = &*self.state;
        let locked = state.lock().unwrap();
        let (_state, waited) = changed
            .wait_timeout_while(locked, PATIENCE, |state| !until(state))
            .unwrap();
        assert!(!waited.timed_out(), "the provider waited in vain");
    }
}

fn read_body(stream: &TcpStream) -> io::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body).unwrap())
}

fn respond(stream: &mut TcpStream) -> io::Result<()> {
    begin(stream)?;
    finish(stream)
}

/// The head and the first piece.
fn begin(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    )?;
    event(stream, &piece().to_string())
}

fn finish(stream: &mut TcpStream) -> io::Result<()> {
    for _ in 1..PIECES {
        event(stream, &piece().to_string())?;
    }
    let end = json!({
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": PIECES}
    });
    event(stream, &end.to_string())?;
    event(stream, "[DONE]")?;
    stream.write_all(b"0\r\n\r\n")
}

fn piece() -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": "word "}}]})
}

fn event(stream: &mut TcpStream, data: &str) -> io::Result<()> {
    let frame = format!("data: {data}\n\n");
    stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())
}
