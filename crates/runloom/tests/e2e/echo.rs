//! A peer on loopback that answers every request with what it was sent, below `/refuse` as a refusal, and remembers it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::server::PATIENCE;

/// A running peer; it ends with the test's process.
pub(crate) struct Echo {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    heard: Receiver<String>,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = answer(stream, &sender);
            }
        });
        Self { address, heard }
    }

    /// The next request, head and body.
    pub(crate) fn heard(&self) -> String {
        self.heard.recv_timeout(PATIENCE).unwrap()
    }
}

fn answer(mut stream: TcpStream, heard: &Sender<String>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&bytes) {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let body = serde_json::json!({ "heard": text }).to_string();
    let status = match text.split(' ').nth(1) {
        Some(path) if path.starts_with("/refuse") => "400 Bad Request",
        _ => "200 OK",
    };
    let _ = heard.send(text);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|length| length.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}
