//! Publisher task: sends this process's changes to the channel.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use runloom_ports::bus::Signal;
use tracing::{info, warn};

use super::BusChannel;
use super::announcement::Announcement;
use super::pending::Pending;
use crate::reconnect_pause::ReconnectPause;

/// Shortest time between two messages; changes within it are sent together.
const INTERVAL: Duration = Duration::from_millis(3);
/// Maximum changes in one message; a few kilobytes.
const BATCH: usize = 1_024;
/// Timeout of connecting, and of each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes until it is cancelled.
pub(super) async fn run(channel: BusChannel, outgoing: Arc<Pending>) {
    let mut pause = ReconnectPause::default();
    let mut is_outage_logged = false;
    loop {
        let error = match connect(&channel).await {
            Ok(connection) => {
                info!("Valkey bus publisher connected");
                is_outage_logged = false;
                pause.reset();
                publish(&channel, &outgoing, connection).await
            }
            Err(error) => error,
        };
        if !is_outage_logged {
            warn!(%error, "Valkey bus publisher disconnected; retrying");
            is_outage_logged = true;
        }
        pause.wait().await;
    }
}

async fn connect(channel: &BusChannel) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(RESPONSE_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    channel
        .client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Publishes until the connection breaks.
async fn publish(
    channel: &BusChannel,
    outgoing: &Pending,
    mut connection: MultiplexedConnection,
) -> redis::RedisError {
    loop {
        let batch = outgoing.batch(BATCH).await;
        let message = Announcement::encode(&channel.process, &batch);
        let sent: RedisResult<()> = redis::cmd("PUBLISH")
            .arg(&channel.name)
            .arg(message)
            .query_async(&mut connection)
            .await;
        if let Err(error) = sent {
            // The batch may or may not have been delivered, so the next connection begins with `Lost`.
            outgoing.add(Signal::Lost);
            return error;
        }
        if batch.len() < BATCH {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
