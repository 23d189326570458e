//! The loop that hears the others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{ErrorKind, RedisError, RedisResult};
use runloom_ports::bus::Signal;
use tracing::{info, warn};

use super::Line;
use super::announcement::Announcement;
use super::pending::Pending;
use crate::backoff::Backoff;

/// After so much silence the service is asked whether it is still there: a connection can be dead without a word.
const SILENCE: Duration = Duration::from_secs(15);
/// How long it may take to connect, and to answer.
const ANSWER_AT_MOST: Duration = Duration::from_secs(5);

/// Listens for ever.
pub(super) async fn run(line: Line, incoming: Arc<Pending>) {
    let mut backoff = Backoff::default();
    let mut told = false;
    loop {
        let error = match in_time(subscribe(&line)).await {
            Ok(subscription) => {
                info!("changes elsewhere are heard of through Valkey");
                told = false;
                backoff.reset();
                // What was said before is lost.
                incoming.add(Signal::Lost);
                line.hears.store(true, Ordering::Relaxed);
                let error = listen(&line, &incoming, subscription).await;
                line.hears.store(false, Ordering::Relaxed);
                error
            }
            Err(error) => error,
        };
        if !told {
            warn!(%error, "changes elsewhere are not heard of through Valkey; trying again");
            told = true;
        }
        backoff.wait().await;
    }
}

async fn subscribe(line: &Line) -> RedisResult<PubSub> {
    let mut subscription = line.client.get_async_pubsub().await?;
    subscription.subscribe(&line.channel).await?;
    Ok(subscription)
}

/// Listens until the connection breaks.
async fn listen(line: &Line, incoming: &Pending, subscription: PubSub) -> RedisError {
    let (mut sink, mut messages) = subscription.split();
    let mut puzzled = false;
    loop {
        match tokio::time::timeout(SILENCE, messages.next()).await {
            Ok(Some(message)) => {
                match Announcement::decode(message.get_payload_bytes(), &line.process) {
                    Ok(Some(announcement)) => incoming.add_all(announcement),
                    Ok(None) => {}
                    Err(error) if !puzzled => {
                        warn!(%error, channel = line.channel, "something else talks on our channel");
                        puzzled = true;
                    }
                    Err(_) => {}
                }
            }
            Ok(None) => return (ErrorKind::Io, "the connection was closed").into(),
            Err(_) => {
                if let Err(error) = in_time(sink.ping::<redis::Value>()).await {
                    return error;
                }
            }
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(ANSWER_AT_MOST, asked)
        .await
        .unwrap_or_else(|_| Err((ErrorKind::Io, "no answer in time").into()))
}
