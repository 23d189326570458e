//! Plays a script: pauses, and writes the pieces of the response.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memmem;

use crate::script::{Delivery, Script};
use crate::scripted_response::{Api, timed_token};
use crate::upstream::HttpVersion;

use super::Shared;
use super::responses::{FramedResponse, ResponseKey, frame};

/// A model call that is being answered.
pub(super) struct Prepared {
    version: HttpVersion,
    script: Script,
    response: Rc<FramedResponse>,
    received: Instant,
    open: OpenCall,
}

/// Where a piece stands in its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    First,
    Middle,
    Last,
    Only,
}

/// A connection or stream that a response is written to.
pub(super) trait ResponseWriter {
    async fn write(&mut self, piece: Bytes, position: Position) -> anyhow::Result<()>;

    /// Returns when the client has disconnected.
    async fn disconnected(&mut self);
}

/// Counts a call as open until it is dropped.
struct OpenCall {
    shared: Shared,
}

impl OpenCall {
    fn new(shared: &Shared) -> Self {
        let stats = &mut shared.borrow_mut().stats;
        stats.open += 1;
        stats.peak_open = stats.peak_open.max(stats.open);
        Self {
            shared: Rc::clone(shared),
        }
    }

    fn finished(self) {
        self.shared.borrow_mut().stats.finished += 1;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.shared.borrow_mut().stats.open -= 1;
    }
}

/// Finds the script without parsing the body, which may be a long conversation. `None` when the model is not a
/// script.
pub(super) fn prepare(
    shared: &Shared,
    version: HttpVersion,
    api: Api,
    body: &[u8],
) -> Option<Prepared> {
    let received = Instant::now();
    let model = model_name(body)?;
    let script = Script::parse(model)?;
    let key = ResponseKey {
        version,
        api,
        model: model.to_owned(),
        turn: script.turn(api, body),
    };
    let response = {
        let mut state = shared.borrow_mut();
        state.stats.requests += 1;
        if version == HttpVersion::Http2 {
            state.stats.http2_requests += 1;
        }
        state.last_body.clear();
        state.last_body.extend_from_slice(body);
        state.responses.get(key, &script)
    };
    Some(Prepared {
        version,
        script,
        response,
        received,
        open: OpenCall::new(shared),
    })
}

fn model_name(body: &[u8]) -> Option<&str> {
    let key = b"\"model\":";
    let rest = body.get(memmem::find(body, key)? + key.len()..)?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Writes the response at the script's times.
pub(super) async fn play(
    prepared: Prepared,
    writer: &mut impl ResponseWriter,
) -> anyhow::Result<()> {
    let Prepared {
        version,
        script,
        response,
        received,
        open,
    } = prepared;
    pause(script.first_byte, writer).await?;
    let opening = response.opening.clone();
    if script.delivery == Delivery::Bulk {
        writer.write(opening, Position::Only).await?;
        open.finished();
        return Ok(());
    }
    writer.write(opening, Position::First).await?;
    // Absolute times: a real provider is not slowed down by the load on this machine.
    let mut due = tokio::time::Instant::now();
    for (index, token) in response.tokens.iter().enumerate() {
        if script.gap.is_zero() {
            // Streams take turns, and each token is a packet of its own, as from a real provider.
            tokio::task::yield_now().await;
        } else {
            due += script.gap;
            tokio::time::sleep_until(due).await;
        }
        let token = if script.timed && index == 0 {
            frame(version, &timed_token(received.elapsed())).into()
        } else {
            token.clone()
        };
        writer.write(token, Position::Middle).await?;
    }
    writer
        .write(response.closing.clone(), Position::Last)
        .await?;
    open.finished();
    Ok(())
}

/// Fails when the client disconnects meanwhile: a killed server leaves thousands of connections, whose ports its
/// successor needs.
async fn pause(duration: Duration, writer: &mut impl ResponseWriter) -> anyhow::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    tokio::select! {
        () = tokio::time::sleep(duration) => Ok(()),
        () = writer.disconnected() => anyhow::bail!("the client disconnected"),
    }
}
