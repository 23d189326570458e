//! Read-only health check of the broker, for `runloom doctor`.

use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{FieldTable, LongString};
use lapin::{Connection, ConnectionProperties, ErrorKind};

use super::broker::{BrokerError, in_time};
use super::{RabbitOptions, parse_address};
use crate::Error;
use crate::service_health::{HealthError, ServiceHealth};

/// Validates a RabbitMQ address without connecting. [`crate::RabbitQueue::start`] refuses what this refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_amqp_url(url: &str) -> Result<(), Error> {
    parse_address(url).map(drop)
}

/// Connects to RabbitMQ as a server process does, in bounded time, and asks for the queue without declaring it.
///
/// # Errors
/// The address is invalid, the broker does not answer, or it refuses the credentials.
pub async fn check_amqp(url: &str) -> Result<ServiceHealth, HealthError> {
    let uri = parse_address(url)?;
    let vhost = uri.vhost.clone();
    let queue = RabbitOptions::default().queue;
    let checking = in_time(async {
        let properties = ConnectionProperties::default()
            .with_connection_name(LongString::from("runloom doctor"));
        let connection = Connection::connect_uri(uri, properties).await?;
        let channel = connection.create_channel().await?;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::durable()
        };
        let declared = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
        let waiting = match declared.await {
            Ok(found) => Some(found.message_count()),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(BrokerError::Lapin(error)),
        };
        let _ = connection.close(200, "bye".into()).await;
        Ok(waiting)
    });
    let waiting = checking
        .await
        .map_err(|error| HealthError::Unreachable(error.to_string()))?;
    let queue = match waiting {
        Some(count) => format!("{count} jobs wait in the queue {queue}"),
        None => format!("the queue {queue} does not exist yet; the first server declares it"),
    };
    Ok(ServiceHealth {
        service: format!("RabbitMQ, virtual host {vhost}: {queue}"),
        problems: Vec::new(),
    })
}

fn is_not_found(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(refusal)
        if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}
