//! HTTP by hand, so that every byte of a request and of an answer is in the test's hands.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longest silence of a server that a test accepts; streams have heartbeats in between.
const SILENCE: Duration = Duration::from_secs(30);

/// An answer, read to its end.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(f, "{} {:?} {body}", self.status, self.headers)
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The status and the body's `code`.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        for field in ["error", "code", "message"] {
            assert!(body[field].is_string(), "{field} is missing: {body}");
        }
        (self.status, body["code"].as_str().unwrap().to_owned())
    }
}

/// A connection with limits on its silence.
pub(crate) fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One request on a connection of its own.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    raw(address, &bytes)
}

/// Sends bytes as they are and reads one answer.
pub(crate) fn raw(address: &str, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = connect(address)?;
    // A server that refuses early may close before everything is sent; its answer counts.
    let _ = stream.write_all(bytes);
    Reading::begin(stream)?.rest()
}

/// An answer whose body is still coming.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    length: Length,
}

#[derive(Debug)]
enum Length {
    Known(usize),
    Chunks { left: usize, ended: bool },
    UntilClosed,
}

impl Reading {
    /// Reads the head of an answer.
    pub(crate) fn begin(stream: TcpStream) -> io::Result<Self> {
        let mut stream = BufReader::new(stream);
        let line = line(&mut stream)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self::line(&mut stream)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let find = |wanted: &str| {
            headers
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.as_str())
        };
        let length = if find("transfer-encoding") == Some("chunked") {
            Length::Chunks {
                left: 0,
                ended: false,
            }
        } else {
            match find("content-length").and_then(|text| text.parse().ok()) {
                Some(length) => Length::Known(length),
                None => Length::UntilClosed,
            }
        };
        Ok(Self {
            status,
            headers,
            stream,
            length,
        })
    }

    /// More of the body; nothing at its orderly end. A connection cut in the middle is an error.
    pub(crate) fn more(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.length {
            Length::Known(0) | Length::Chunks { ended: true, .. } => Ok(Vec::new()),
            Length::Known(left) => {
                let bytes = some(&mut self.stream, *left)?;
                *left -= bytes.len();
                if bytes.is_empty() {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(bytes)
                }
            }
            Length::UntilClosed => some(&mut self.stream, usize::MAX),
            Length::Chunks { left, ended } => {
                if *left == 0 {
                    let size = line(&mut self.stream)?;
                    *left = usize::from_str_radix(size.trim(), 16)
                        .map_err(|error| io::Error::other(format!("{size:?}: {error}")))?;
                    if *left == 0 {
                        *ended = true;
                        return Ok(Vec::new());
                    }
                }
                let bytes = some(&mut self.stream, *left)?;
                if bytes.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *left -= bytes.len();
                if *left == 0 {
                    line(&mut self.stream)?;
                }
                Ok(bytes)
            }
        }
    }

    /// Reads the body to its end.
    pub(crate) fn rest(mut self) -> io::Result<Answer> {
        let mut body = Vec::new();
        loop {
            let more = self.more()?;
            if more.is_empty() {
                break;
            }
            body.extend_from_slice(&more);
        }
        Ok(Answer {
            status: self.status,
            headers: self.headers,
            body,
        })
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.by_ref().take(64 * 1024).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn some(stream: &mut BufReader<TcpStream>, most: usize) -> io::Result<Vec<u8>> {
    let bytes = stream.fill_buf()?;
    let bytes = bytes[..bytes.len().min(most)].to_vec();
    stream.consume(bytes.len());
    Ok(bytes)
}

/// One workspace of one server.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) address: String,
    pub(crate) workspace: String,
    pub(crate) key: String,
}

impl Api {
    /// A path inside the workspace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/v1/workspaces/{}{rest}", self.workspace)
    }

    /// A request with extra headers.
    pub(crate) fn send(
        &self,
        method: &str,
        rest: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let credential = format!("Bearer {}", self.key);
        let mut all = vec![("Authorization", credential.as_str())];
        if !body.is_empty()
            && !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            all.push(("Content-Type", "application/json"));
        }
        all.extend_from_slice(headers);
        request(&self.address, method, &self.path(rest), &all, body)
    }

    /// `GET`, which must be answered.
    pub(crate) fn get(&self, rest: &str) -> Answer {
        self.send("GET", rest, &[], b"").unwrap()
    }

    /// `POST` of JSON, which must be answered.
    pub(crate) fn post(&self, rest: &str, body: &Value) -> Answer {
        self.send("POST", rest, &[], body.to_string().as_bytes())
            .unwrap()
    }

    /// Starts a run that must be accepted.
    pub(crate) fn run(&self, body: &Value) -> String {
        let answer = self.post("/agent-runs", body);
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["runId"].as_str().unwrap().to_owned()
    }
}
