//! What parent and child say to each other: JSON behind its length, over the child's standard input and output.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest message in either direction. The longest text is a result or an answer of 2 MiB, each byte of which takes at most
/// six as JSON.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Parent to child, once: what to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
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
pub(super) enum Said {
    /// Asks for a request.
    Fetch(Fetch),
    /// The last message.
    Done(Done),
}

/// A request that the code makes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fetch {
    pub(super) id: u32,
    pub(super) url: String,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: Option<String>,
}

/// Parent to child: how a request ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fetched {
    pub(super) id: u32,
    #[serde(flatten)]
    pub(super) answer: FetchAnswer,
}

/// How a request ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FetchAnswer {
    /// There was an answer.
    Answered {
        status: u16,
        url: String,
        headers: BTreeMap<String, String>,
        body: String,
    },
    /// There was none.
    Failed { error: String },
}

/// How the code ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) ended: Ended,
    /// What it wrote to the console, bounded.
    pub(super) console: String,
}

/// How the code ended.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// With a result; so many bytes of it were left out.
    Result { text: String, left_out: u64 },
    /// With an exception: what, and where in the source.
    Exception { message: String, line: Option<u32> },
    /// Its time was up.
    OutOfTime,
    /// Its memory was used up.
    OutOfMemory,
    /// Its promise can never settle: nothing is under way that could settle it.
    NeverSettles,
    /// The sandbox itself could not be set up.
    Broken { message: String },
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
    let mut bytes = vec![0; checked(length)?];
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

/// Reads one message. Not to be dropped half-way: what was read would be lost.
pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let length = checked(length)?;
    // The buffer grows with what comes, not with what is announced.
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
    checked(length.to_be_bytes())?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

fn checked(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_BYTES {
        return Err(io::Error::other("a message is too long"));
    }
    Ok(length)
}
