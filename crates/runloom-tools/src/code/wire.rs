//! Messages between server and sandbox: length-prefixed JSON over the child's standard input and output.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum length of a message. The longest text is a result or a response of 2 MiB, each byte of which takes at most
/// six bytes as JSON.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Parent to child, first message: the code to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CodeJob {
    pub(super) source: String,
    pub(super) arguments: Value,
    pub(super) tool_use_id: String,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) timeout_ms: u64,
    pub(super) memory_mb: u32,
    pub(super) max_output_bytes: u64,
    pub(super) allow_fetch: bool,
}

/// Child to parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SandboxMessage {
    /// A request of the code.
    Fetch(FetchRequest),
    /// The last message.
    Done(CodeResult),
}

/// A request of the code.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FetchRequest {
    pub(super) id: u32,
    pub(super) url: String,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: Option<String>,
}

/// Parent to child: the response to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FetchResponse {
    pub(super) id: u32,
    #[serde(flatten)]
    pub(super) result: FetchResult,
}

/// The result of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FetchResult {
    /// The server responded.
    Response {
        status: u16,
        url: String,
        headers: BTreeMap<String, String>,
        body: String,
    },
    /// There was no response.
    Failed { error: String },
}

/// The result of the code.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CodeResult {
    pub(super) end: CodeEnd,
    /// Console output, up to a limit.
    pub(super) console: String,
}

/// How the code ended.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CodeEnd {
    /// A result, possibly truncated.
    Result { text: String, omitted_bytes: u64 },
    /// An exception, with its line in the source.
    Exception { message: String, line: Option<u32> },
    /// The timeout.
    OutOfTime,
    /// The memory limit.
    OutOfMemory,
    /// A promise that nothing can settle any more.
    NeverSettles,
    /// The sandbox itself could not be set up.
    SandboxFailed { message: String },
}

/// Writes one message.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(message)?)?;
    to.flush()
}

/// Reads one message.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut bytes = vec![0; check_length(length)?];
    from.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Writes one message.
pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: &(impl Serialize + Sync),
) -> io::Result<()> {
    to.write_all(&frame(message)?).await?;
    to.flush().await
}

/// Reads one message. Not cancel-safe: a dropped future loses what it has read.
pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let length = check_length(length)?;
    // The buffer grows with the received bytes, not with the announced length.
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    check_length(length.to_be_bytes())?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

fn check_length(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_BYTES {
        return Err(io::Error::other("a message is too long"));
    }
    Ok(length)
}
