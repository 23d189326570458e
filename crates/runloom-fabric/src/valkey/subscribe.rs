//! Subscriber task: receives the changes of other processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{ErrorKind, RedisError, RedisResult};
use runloom_ports::bus::Signal;
use tracing::{info, warn};

use super::BusChannel;
use super::announcement::Announcement;
use super::pending::Pending;
use crate::reconnect_pause::ReconnectPause;

/// Idle time after which a ping checks the connection: a broken one may not report an error.
const PING_AFTER: Duration = Duration::from_secs(15);
/// Timeout of connecting, and of each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Receives until it is cancelled.
pub(super) async fn run(channel: BusChannel, incoming: Arc<Pending>) {
    let mut pause = ReconnectPause::default();
    let mut is_outage_logged = false;
    loop {
        let error = match in_time(subscribe(&channel)).await {
            Ok(subscription) => {
                info!("Valkey bus subscriber connected");
                is_outage_logged = false;
                pause.reset();
                // Messages before the subscription were missed.
                incoming.add(Signal::Lost);
                channel.is_subscribed.store(true, Ordering::Relaxed);
                let error = listen(&channel, &incoming, subscription).await;
                channel.is_subscribed.store(false, Ordering::Relaxed);
                error
            }
            Err(error) => error,
        };
        if !is_outage_logged {
            warn!(%error, "Valkey bus subscriber disconnected; retrying");
            is_outage_logged = true;
        }
        pause.wait().await;
    }
}

async fn subscribe(channel: &BusChannel) -> RedisResult<PubSub> {
    let mut subscription = channel.client.get_async_pubsub().await?;
    subscription.subscribe(&channel.name).await?;
    Ok(subscription)
}

/// Receives until the connection breaks.
async fn listen(channel: &BusChannel, incoming: &Pending, subscription: PubSub) -> RedisError {
    let (mut sink, mut messages) = subscription.split();
    let mut is_foreign_message_logged = false;
    loop {
        match tokio::time::timeout(PING_AFTER, messages.next()).await {
            Ok(Some(message)) => {
                match Announcement::decode(message.get_payload_bytes(), &channel.process) {
                    Ok(Some(announcement)) => incoming.add_all(&announcement),
                    Ok(None) => {}
                    Err(error) if !is_foreign_message_logged => {
                        warn!(%error, channel = channel.name, "message on the bus channel is not an announcement");
                        is_foreign_message_logged = true;
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

async fn in_time<T>(request: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(RESPONSE_TIMEOUT, request)
        .await
        .unwrap_or_else(|_| Err((ErrorKind::Io, "no answer in time").into()))
}
