//! HTTP/1.1, with or without TLS.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::http::RequestReader;
use crate::upstream::HttpVersion;

use super::player::{Position, ResponseWriter, play};
use super::{Reply, Shared, reply};

/// Serves one connection until the client closes it.
pub(super) async fn serve<S>(mut stream: S, shared: &Shared) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut requests = RequestReader::default();
    while let Some(request) = requests.next(&mut stream).await? {
        match reply(shared, HttpVersion::Http1, request.line, request.body) {
            Reply::Json { status, body } => write_json(&mut stream, status, &body).await?,
            Reply::Stream(prepared) => {
                let mut writer = Writer {
                    stream: &mut stream,
                    requests: &mut requests,
                };
                play(prepared, &mut writer).await?;
            }
        }
    }
    Ok(())
}

/// Writes to the connection; bytes that arrive meanwhile belong to the next request.
struct Writer<'a, S> {
    stream: &'a mut S,
    requests: &'a mut RequestReader,
}

impl<S> ResponseWriter for Writer<'_, S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    async fn write(&mut self, piece: Bytes, _: Position) -> anyhow::Result<()> {
        self.stream.write_all(&piece).await?;
        Ok(self.stream.flush().await?)
    }

    async fn disconnected(&mut self) {
        self.requests.wait_until_closed(self.stream).await;
    }
}

async fn write_json(
    stream: &mut (impl AsyncWrite + Unpin),
    status: u16,
    body: &[u8],
) -> anyhow::Result<()> {
    let reason = match status {
        200 => "OK",
        _ => "Error",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    Ok(stream.flush().await?)
}
