//! A look at the broker.

use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{FieldTable, LongString};
use lapin::{Connection, ConnectionProperties, ErrorKind};

use super::line::{LineError, in_time};
use super::{RabbitOptions, address};
use crate::Error;
use crate::look::{LookError, Seen};

/// Looks at the address alone.
pub(crate) fn check_url(url: &str) -> Result<(), Error> {
    address(url).map(drop)
}

/// Connects, and asks for the queue without making it.
pub(crate) async fn look(url: &str) -> Result<Seen, LookError> {
    let uri = address(url)?;
    let vhost = uri.vhost.clone();
    let queue = RabbitOptions::default().queue;
    let looking = in_time(async {
        let properties = ConnectionProperties::default()
            .with_connection_name(LongString::from("runloom doctor"));
        let connection = Connection::connect_uri(uri, properties).await?;
        let channel = connection.create_channel().await?;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::durable()
        };
        let found = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
        let waiting = match found.await {
            Ok(found) => Some(found.message_count()),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(LineError::Broker(error)),
        };
        let _ = connection.close(200, "bye".into()).await;
        Ok(waiting)
    });
    let waiting = looking
        .await
        .map_err(|error| LookError::Away(error.to_string()))?;
    let queue = match waiting {
        Some(count) => format!("{count} jobs wait in the queue {queue}"),
        None => format!("the queue {queue} is made at the first start"),
    };
    Ok(Seen {
        service: format!("RabbitMQ, virtual host {vhost}: {queue}"),
        problems: Vec::new(),
    })
}

fn is_absent(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(refusal)
        if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}
