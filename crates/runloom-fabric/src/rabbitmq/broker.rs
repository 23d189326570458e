//! Connections to the broker, with the queue and its dead-letter exchange declared.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event, ExchangeKind};

use super::RabbitOptions;

/// Timeout of connecting and declaring together.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of an orderly close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the queue. The store bounds the backlog; this protects a broker whose queue nobody consumes.
const MAX_JOBS: i64 = 1_000_000;
/// Maximum length of the dead-letter queue; the oldest messages are dropped first.
const MAX_DEAD_LETTERS: i64 = 10_000;

/// Address and settings of the queue.
#[derive(Debug, Clone)]
pub(super) struct BrokerConfig {
    pub(super) uri: AMQPUri,
    pub(super) options: RabbitOptions,
}

/// Why a connection failed or ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokerError {
    #[error("{0}")]
    Lapin(#[from] lapin::Error),
    #[error("no answer within {} s", OPEN_TIMEOUT.as_secs())]
    Timeout,
    #[error(
        "the queue {queue:?} exists with other arguments than this version needs ({reason}); delete it \
         (rabbitmqctl delete_queue {queue:?}; no run is lost, the store knows which need a worker) \
         or configure another name"
    )]
    OtherArguments { queue: String, reason: String },
    #[error("the broker cancelled the consumer: the queue was deleted or has moved")]
    Cancelled,
    #[error("the queue does not exist any more")]
    Unroutable,
    #[error("the connection is closed")]
    Closed,
}

/// An open connection with one channel. Dropping it closes both, without waiting for the broker.
pub(super) struct BrokerConnection {
    pub(super) connection: Connection,
    pub(super) channel: Channel,
}

impl BrokerConnection {
    /// Connects and declares the queue. `purpose` is part of the connection's name in the broker's management pages.
    pub(super) async fn open(config: &BrokerConfig, purpose: &str) -> Result<Self, BrokerError> {
        let properties = ConnectionProperties::default()
            .with_connection_name(LongString::from(format!("runloom {purpose}")));
        let connection = Connection::connect_uri(config.uri.clone(), properties).await?;
        let channel = connection.create_channel().await?;
        declare(&channel, &config.options).await?;
        Ok(Self {
            connection,
            channel,
        })
    }

    /// Waits until the connection breaks. Every other wait on the connection must be raced with this one: an
    /// acknowledgement that is in flight when the connection breaks never completes.
    pub(super) async fn broken(&self) -> BrokerError {
        let mut events = pin!(self.connection.events_listener());
        // It may have broken before the listener existed.
        while self.connection.status().connected() {
            match events.next().await {
                Some(Event::Error(error)) => return error.into(),
                Some(_) => {}
                None => break,
            }
        }
        BrokerError::Closed
    }

    /// Closes the connection and waits for the broker, which has requeued the unacknowledged messages by then.
    pub(super) async fn close(self) {
        let closing = self.connection.close(200, "bye".into());
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }
}

/// Bounds opening a connection and its first requests by [`OPEN_TIMEOUT`].
pub(super) async fn in_time<T>(
    opening: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    tokio::time::timeout(OPEN_TIMEOUT, opening)
        .await
        .unwrap_or(Err(BrokerError::Timeout))
}

/// Declares the queue and its dead-letter exchange and queue. Declarations are idempotent.
async fn declare(channel: &Channel, options: &RabbitOptions) -> Result<(), BrokerError> {
    let dead = format!("{}.dead", options.queue);
    channel
        .exchange_declare(
            dead.as_str().into(),
            ExchangeKind::Fanout,
            ExchangeDeclareOptions {
                durable: true,
                ..ExchangeDeclareOptions::default()
            },
            FieldTable::default(),
        )
        .await
        .map_err(|error| refused(&dead, error))?;
    declare_queue(channel, &dead, [("x-max-length", MAX_DEAD_LETTERS.into())]).await?;
    channel
        .queue_bind(
            dead.as_str().into(),
            dead.as_str().into(),
            "".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await?;
    declare_queue(
        channel,
        &options.queue,
        [
            // Without a limit, RabbitMQ 3 redelivers for ever and RabbitMQ 4 drops a message after 20 deliveries.
            ("x-delivery-limit", i64::from(options.delivery_limit).into()),
            ("x-dead-letter-exchange", text(&dead)),
            ("x-max-length", MAX_JOBS.into()),
            // A full queue refuses the publisher instead of silently dropping its oldest message.
            ("x-overflow", text("reject-publish")),
        ],
    )
    .await
}

async fn declare_queue<const N: usize>(
    channel: &Channel,
    queue: &str,
    arguments: [(&'static str, AMQPValue); N],
) -> Result<(), BrokerError> {
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), text("quorum"));
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    channel
        .queue_declare(queue.into(), QueueDeclareOptions::durable(), table)
        .await
        .map_err(|error| refused(queue, error))?;
    Ok(())
}

fn refused(queue: &str, error: lapin::Error) -> BrokerError {
    match error.kind() {
        ErrorKind::ProtocolError(refusal)
            if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) =>
        {
            BrokerError::OtherArguments {
                queue: queue.to_owned(),
                reason: refusal.get_message().to_string(),
            }
        }
        _ => BrokerError::Lapin(error),
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}
