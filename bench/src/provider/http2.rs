//! HTTP/2 over TLS.

use std::future::poll_fn;
use std::rc::Rc;

use anyhow::Context;
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::upstream::HttpVersion;

use super::player::{Position, ResponseWriter, play};
use super::{Reply, Shared, reply};

/// The usual limit of vendors and of nginx.
const MAX_STREAMS: u32 = 128;

/// Large enough that long conversations are not slowed down by flow control.
const WINDOW_BYTES: u32 = 1 << 20;

/// Serves one connection until the client closes it.
pub(super) async fn serve<S>(stream: S, shared: Shared) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Builder::new()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake::<S, Bytes>(stream)
        .await?;
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(accepted) = accepted else {
                    return Ok(());
                };
                let (request, response) = accepted?;
                let shared = Rc::clone(&shared);
                streams.spawn_local(async move {
                    // A client that resets its stream is not an error.
                    serve_stream(request, response, &shared).await.ok();
                });
            }
            Some(_) = streams.join_next() => {}
        }
    }
}

async fn serve_stream(
    request: Request<RecvStream>,
    mut response: SendResponse<Bytes>,
    shared: &Shared,
) -> anyhow::Result<()> {
    let (head, mut recv) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = recv.data().await {
        let data = data?;
        recv.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let line = format!("{} {}", head.method, head.uri.path());
    match reply(shared, HttpVersion::Http2, &line, &body) {
        Reply::Json { status, body } => {
            let head = response_head(status, "application/json")?;
            response
                .send_response(head, false)?
                .send_data(body.into(), true)?;
            Ok(())
        }
        Reply::Stream(prepared) => {
            let mut writer = Writer::Pending(response);
            play(prepared, &mut writer).await
        }
    }
}

fn response_head(status: u16, content_type: &str) -> anyhow::Result<Response<()>> {
    Ok(Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(())?)
}

/// Writes to one stream.
enum Writer {
    /// Before the head was sent.
    Pending(SendResponse<Bytes>),
    Started(SendStream<Bytes>),
}

impl Writer {
    fn start(&mut self) -> anyhow::Result<()> {
        if let Self::Pending(response) = self {
            let head = response_head(200, "text/event-stream")?;
            *self = Self::Started(response.send_response(head, false)?);
        }
        Ok(())
    }
}

impl ResponseWriter for Writer {
    async fn write(&mut self, piece: Bytes, position: Position) -> anyhow::Result<()> {
        self.start()?;
        let Self::Started(stream) = self else {
            anyhow::bail!("the head was not sent");
        };
        let end = matches!(position, Position::Last | Position::Only);
        // Data beyond the client's window is buffered; scripts bound its size.
        stream
            .send_data(piece, end)
            .context("the client reset the stream")
    }

    async fn disconnected(&mut self) {
        poll_fn(|context| match self {
            Self::Pending(response) => response.poll_reset(context).map(|_| ()),
            Self::Started(stream) => stream.poll_reset(context).map(|_| ()),
        })
        .await;
    }
}
