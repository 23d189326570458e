//! Queue through RabbitMQ: one durable quorum queue that all processes publish to and all workers consume from.
//!
//! Messages carry only run and workspace numbers. A message is acknowledged after the claim of its run was tried, so
//! the broker redelivers the messages of a worker that died. Fetched jobs wait in an [`EmbeddedQueue`], which serves
//! them fairly.
//!
//! Publishing and consuming use separate connections, because a broker that is short of memory stops reading from
//! publishers, and acknowledgements must still get through. Both loops open a new connection, channel and topology
//! after every failure.

mod broker;
mod consume;
mod deliveries;
mod health;
mod message;
mod publish;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use lapin::uri::{AMQPScheme, AMQPUri};
use runloom_ports::queue::{Admits, Job, Queue};
use runloom_ports::tasks::Tasks;
use tokio::sync::mpsc;
use tracing::warn;

use crate::{EmbeddedQueue, Error};
use broker::BrokerConfig;
use deliveries::Deliveries;
pub use health::{check_amqp, check_amqp_url};

/// Jobs that may wait for the broker; more are left to the sweepers.
const OUTBOX_JOBS: usize = 16_384;
/// Heartbeat timeout in seconds; heartbeats are sent at half of it.
const HEARTBEAT_SECONDS: u16 = 20;

/// Settings of the queue.
#[derive(Debug, Clone)]
pub struct RabbitOptions {
    /// Name of the queue. Dead letters go to an exchange and a queue of this name with the suffix `.dead`.
    pub queue: String,
    /// Whether this process pulls jobs.
    pub role: QueueRole,
    /// Jobs fetched ahead of the worker; at least 1. Jobs prefetched by a busy worker cannot go to an idle one, which
    /// then finds their runs by sweeping.
    pub prefetch: u16,
    /// Redeliveries after which a message becomes a dead letter. This is an argument of the queue: changing it needs
    /// another name, or the queue to be deleted.
    pub delivery_limit: u16,
}

impl Default for RabbitOptions {
    fn default() -> Self {
        Self {
            queue: "mantyx:agent-runs".to_owned(),
            role: QueueRole::Worker,
            prefetch: 16,
            delivery_limit: 20,
        }
    }
}

/// How a process uses the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRole {
    /// Pushes and pulls.
    Worker,
    /// Only pushes; `pull` never returns.
    Publisher,
}

/// A queue whose jobs go through RabbitMQ.
///
/// While the broker is unreachable, jobs go to the workers of this process. In a process without workers a bounded
/// number of jobs waits for the broker, and the rest are dropped for the sweepers to find.
#[derive(Debug)]
pub struct RabbitQueue {
    shared: Arc<RabbitState>,
    outbox: mpsc::Sender<Job>,
}

impl RabbitQueue {
    /// Starts the publisher and consumer tasks and returns without waiting for the broker. The consumer ends when
    /// the process drains and returns jobs that were not pulled; the publisher ends when the queue is dropped or
    /// interrupted.
    ///
    /// # Errors
    /// `url` is not an address of RabbitMQ.
    pub fn start(url: &str, options: RabbitOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let config = BrokerConfig {
            uri: parse_address(url)?,
            options,
        };
        let (outbox, jobs) = mpsc::channel(OUTBOX_JOBS);
        let (deliveries, receipts) = Deliveries::new(config.options.prefetch);
        let shared = Arc::new(RabbitState {
            ready: EmbeddedQueue::new(),
            deliveries,
            role: config.options.role,
            online: AtomicBool::new(false),
            drop_logged: AtomicBool::new(false),
        });
        if shared.role == QueueRole::Worker {
            let consumer = consume::Consumer::new(config.clone(), Arc::clone(&shared), receipts);
            tasks.spawn("rabbitmq_consumer", consumer.run(tasks.shutdown.clone()));
        }
        let publisher = publish::Publisher::new(config, Arc::clone(&shared), jobs);
        tasks.spawn_detached("rabbitmq_publisher", publisher.run());
        Ok(Arc::new(Self { shared, outbox }))
    }

    /// Whether the publisher is connected to the broker.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.shared.online.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Queue for RabbitQueue {
    fn push(&self, job: Job) {
        if self.shared.role == QueueRole::Worker && !self.is_online() {
            return self.shared.ready.push(job);
        }
        if self.outbox.try_send(job).is_err() {
            self.shared.unsent(job, "the outbox is full");
        }
    }

    fn push_here(&self, job: Job) {
        if self.shared.role == QueueRole::Worker {
            self.shared.ready.push(job);
        }
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        let job = self.shared.ready.pull(admits).await;
        // There is no await after the job was taken, so a dropped future has taken nothing.
        self.shared.deliveries.take(job.run);
        job
    }

    fn done(&self, job: Job) {
        self.shared.deliveries.done(job.run);
    }

    fn is_up(&self) -> bool {
        self.is_online()
    }

    fn depth(&self) -> usize {
        self.shared.ready.depth()
    }
}

/// State shared by the queue, its publisher and its consumer.
#[derive(Debug)]
struct RabbitState {
    ready: EmbeddedQueue,
    deliveries: Deliveries,
    role: QueueRole,
    /// Whether the publisher has a connection.
    online: AtomicBool,
    /// Whether dropped jobs were logged since the last connection.
    drop_logged: AtomicBool,
}

impl RabbitState {
    /// Gives a job that was not published to the workers of this process; without any, drops it for the sweepers.
    fn unsent(&self, job: Job, reason: &str) {
        if self.role == QueueRole::Worker {
            self.ready.push(job);
        } else if !self.drop_logged.swap(true, Ordering::Relaxed) {
            warn!(
                reason,
                "jobs not published to RabbitMQ; workers find their runs by sweeping"
            );
        }
    }

    /// Notes that the publisher has a connection.
    fn publisher_connected(&self) {
        self.online.store(true, Ordering::Relaxed);
        self.drop_logged.store(false, Ordering::Relaxed);
    }

    /// Notes that the publisher lost its connection.
    fn publisher_disconnected(&self) {
        self.online.store(false, Ordering::Relaxed);
    }
}

/// Parses an address, with the default virtual host and heartbeat where it names none.
fn parse_address(url: &str) -> Result<AMQPUri, Error> {
    let wrong = |reason: &str| Error::Address {
        service: "RabbitMQ",
        reason: reason.to_owned(),
        form: "amqp://user:password@host:5672/vhost",
    };
    if !url.starts_with("amqp://") {
        return Err(wrong(if url.starts_with("amqps://") {
            "TLS is not built in (put a TLS proxy in front of it)"
        } else {
            "it does not begin with amqp://"
        }));
    }
    // The parser's own message may repeat the address.
    let mut uri = AMQPUri::from_str(url).map_err(|_| wrong("it cannot be parsed"))?;
    if uri.scheme != AMQPScheme::AMQP || uri.authority.host.is_empty() {
        return Err(wrong("it names no host"));
    }
    if uri.vhost.is_empty() {
        uri.vhost = "/".to_owned();
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_vhost_means_the_default_one() {
        for url in ["amqp://h", "amqp://h/", "amqp://u:p@h:5672/%2f"] {
            assert_eq!(parse_address(url).unwrap().vhost, "/", "{url}");
        }
        assert_eq!(parse_address("amqp://h/other").unwrap().vhost, "other");
    }

    #[test]
    fn rejects_invalid_addresses_without_repeating_the_password() {
        for url in [
            "amqps://u:secret@h",
            "http://u:secret@h",
            "amqp://u:secret@h:port",
            "amqp:u:secret@h",
        ] {
            let message = parse_address(url).unwrap_err().to_string();
            assert!(message.contains("amqp://user:password@host"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
