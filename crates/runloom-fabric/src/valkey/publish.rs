//! The loop that tells the others.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use runloom_ports::bus::Signal;
use tracing::{info, warn};

use super::Line;
use super::announcement::Announcement;
use super::pending::Pending;
use crate::backoff::Backoff;

/// Shortest time between two messages: what happens within it goes out as one.
const EVERY: Duration = Duration::from_millis(3);
/// Changes in one message; a few kilobytes.
const BATCH: usize = 1_024;
/// How long the service may take to connect, and to answer.
const ANSWER_AT_MOST: Duration = Duration::from_secs(5);

/// Publishes for ever.
pub(super) async fn run(line: Line, outgoing: Arc<Pending>) {
    let mut backoff = Backoff::default();
    let mut told = false;
    loop {
        let error = match connect(&line).await {
            Ok(connection) => {
                info!("changes are announced through Valkey");
                told = false;
                backoff.reset();
                publish(&line, &outgoing, connection).await
            }
            Err(error) => error,
        };
        if !told {
            warn!(%error, "changes are not announced through Valkey; trying again");
            told = true;
        }
        backoff.wait().await;
    }
}

async fn connect(line: &Line) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_AT_MOST))
        .set_response_timeout(Some(ANSWER_AT_MOST));
    line.client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Publishes until the connection breaks.
async fn publish(
    line: &Line,
    outgoing: &Pending,
    mut connection: MultiplexedConnection,
) -> redis::RedisError {
    loop {
        let batch = outgoing.batch(BATCH).await;
        let message = Announcement::encode(&line.process, &batch);
        let sent: RedisResult<()> = redis::cmd("PUBLISH")
            .arg(&line.channel)
            .arg(message)
            .query_async(&mut connection)
            .await;
        if let Err(error) = sent {
            // Nobody knows what of it was heard, nor will more be kept: the first word on the next connection says so.
            outgoing.add(Signal::Lost);
            return error;
        }
        if batch.len() < BATCH {
            tokio::time::sleep(EVERY).await;
        }
    }
}
