//! A connection to the broker, with everything declared that we need there.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event, ExchangeKind};

use super::RabbitOptions;

/// How long connecting and declaring may take together.
const OPEN_AT_MOST: Duration = Duration::from_secs(15);
/// How long saying goodbye may take.
const CLOSE_AT_MOST: Duration = Duration::from_secs(2);
/// Messages the queue holds at most. The store bounds the backlog; this keeps a broker alive whose queue nobody empties.
const MOST_JOBS: i64 = 1_000_000;
/// Dead letters that are kept; the oldest go first.
const MOST_DEAD: i64 = 10_000;

/// Where the queue is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) uri: AMQPUri,
    pub(super) options: RabbitOptions,
}

/// What went wrong on the line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("{0}")]
    Broker(#[from] lapin::Error),
    #[error("no answer within {} s", OPEN_AT_MOST.as_secs())]
    Silent,
    #[error(
        "the queue {queue:?} exists with other arguments than this version wants ({reason}); delete it \
         (rabbitmqctl delete_queue {queue:?}, nothing is lost: the store knows which runs want a worker) or configure another name"
    )]
    OtherArguments { queue: String, reason: String },
    #[error("the broker cancelled the consumer: the queue was deleted or has moved")]
    Cancelled,
    #[error("the queue is gone")]
    Unroutable,
    #[error("the connection is closed")]
    Closed,
}

/// An open connection with one channel. Dropping it closes both, without waiting for the broker.
pub(super) struct Line {
    pub(super) connection: Connection,
    pub(super) channel: Channel,
}

impl Line {
    /// Connects and declares the queue.
    pub(super) async fn open(place: &Place, purpose: &str) -> Result<Self, LineError> {
        let properties = ConnectionProperties::default()
            .with_connection_name(LongString::from(format!("runloom {purpose}")));
        let connection = Connection::connect_uri(place.uri.clone(), properties).await?;
        let channel = connection.create_channel().await?;
        declare(&channel, &place.options).await?;
        Ok(Self {
            connection,
            channel,
        })
    }

    /// Waits until the connection breaks. Everything else on a line must be raced with this: an acknowledgement that is on its
    /// way when the connection breaks is never answered.
    pub(super) async fn broken(&self) -> LineError {
        let mut events = pin!(self.connection.events_listener());
        // It may have broken before anybody listened.
        while self.connection.status().connected() {
            match events.next().await {
                Some(Event::Error(error)) => return error.into(),
                Some(_) => {}
                None => break,
            }
        }
        LineError::Closed
    }

    /// Says goodbye and waits for the broker's word, which has given back then what was not acknowledged.
    pub(super) async fn close(self) {
        let closing = self.connection.close(200, "bye".into());
        let _ = tokio::time::timeout(CLOSE_AT_MOST, closing).await;
    }
}

/// Bounds the opening of a line and what is asked on it first.
pub(super) async fn in_time<T>(
    opening: impl Future<Output = Result<T, LineError>>,
) -> Result<T, LineError> {
    tokio::time::timeout(OPEN_AT_MOST, opening)
        .await
        .unwrap_or(Err(LineError::Silent))
}

/// Declares the queue and where its dead letters go. The broker does nothing when all of it is there already.
async fn declare(channel: &Channel, options: &RabbitOptions) -> Result<(), LineError> {
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
    declare_queue(channel, &dead, [("x-max-length", MOST_DEAD.into())]).await?;
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
            // Brokers differ in what they do without a limit: version 3 delivers for ever, version 4 drops after 20 times.
            ("x-delivery-limit", i64::from(options.delivery_limit).into()),
            ("x-dead-letter-exchange", text(&dead)),
            ("x-max-length", MOST_JOBS.into()),
            // Refused to the publisher, who then knows, rather than dropped at the head.
            ("x-overflow", text("reject-publish")),
        ],
    )
    .await
}

async fn declare_queue<const N: usize>(
    channel: &Channel,
    queue: &str,
    arguments: [(&'static str, AMQPValue); N],
) -> Result<(), LineError> {
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

fn refused(queue: &str, error: lapin::Error) -> LineError {
    match error.kind() {
        ErrorKind::ProtocolError(refusal)
            if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) =>
        {
            LineError::OtherArguments {
                queue: queue.to_owned(),
                reason: refusal.get_message().to_string(),
            }
        }
        _ => LineError::Broker(error),
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}
