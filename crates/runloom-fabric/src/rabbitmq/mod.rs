//! The queue through RabbitMQ: one durable quorum queue that all processes publish to and all workers consume from.
//!
//! Only numbers travel. A message is acknowledged when the run was tried to claim, so that a worker that dies gives its messages
//! back. What arrives here waits in an [`EmbeddedQueue`], which makes it fair among what has been fetched.
//!
//! Publishing and consuming have a connection each, because a broker that is short of memory stops reading from those that
//! publish, and acknowledgements must get through. Both loops open a fresh connection, channel and topology after every failure;
//! nothing of a broken one is used again.

mod consume;
mod deliveries;
mod line;
mod look;
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
use deliveries::Deliveries;
use line::Place;
pub(crate) use look::{check_url, look};

/// Jobs that may wait for the broker; more are left to the sweepers.
const OUTBOX: usize = 16_384;
/// How long a peer may be silent, in seconds, before it counts as gone: half of it is the interval of the heartbeats.
const HEARTBEAT: u16 = 20;

/// How the queue is used.
#[derive(Debug, Clone)]
pub struct RabbitOptions {
    /// The queue's name. Dead letters go to an exchange and a queue of this name with `.dead` behind it.
    pub queue: String,
    /// Whether this process pulls jobs.
    pub role: Role,
    /// Jobs that are fetched ahead of the worker; at least 1. Those that wait at a full worker cannot go to a free one, which
    /// then finds them by sweeping.
    pub prefetch: u16,
    /// A message that was given back this often becomes a dead letter. An argument of the queue: it can only be changed by
    /// deleting the queue or by another name.
    pub delivery_limit: u16,
}

impl Default for RabbitOptions {
    fn default() -> Self {
        Self {
            queue: "mantyx:agent-runs".to_owned(),
            role: Role::Worker,
            prefetch: 16,
            delivery_limit: 20,
        }
    }
}

/// What a process does with the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Pushes and pulls.
    Worker,
    /// Only pushes; `pull` never returns.
    Publisher,
}

/// A queue whose jobs go through RabbitMQ.
///
/// While the broker is away, jobs are offered to the workers of this process; without any, as many as fit wait for the broker and
/// the others are dropped, for the sweepers to find.
#[derive(Debug)]
pub struct RabbitQueue {
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Job>,
}

impl RabbitQueue {
    /// Starts the loops that keep the queue connected, and returns without waiting for the broker. The consumer ends with
    /// `tasks.stop`, which gives back what was not pulled; the publisher ends when the queue is dropped, or with `tasks.kill`.
    ///
    /// # Errors
    /// When `url` is not an address of RabbitMQ.
    pub fn start(url: &str, options: RabbitOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let place = Place {
            uri: address(url)?,
            options,
        };
        let (outbox, jobs) = mpsc::channel(OUTBOX);
        let (deliveries, receipts) = Deliveries::new(place.options.prefetch);
        let shared = Arc::new(Shared {
            ready: EmbeddedQueue::new(),
            deliveries,
            role: place.options.role,
            online: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        });
        if shared.role == Role::Worker {
            let consumer = consume::Consumer::new(place.clone(), Arc::clone(&shared), receipts);
            tasks.spawn("consume jobs", consumer.run(tasks.stop.clone()));
        }
        let publisher = publish::Publisher::new(place, Arc::clone(&shared), jobs);
        tasks.spawn_detached("publish jobs", publisher.run());
        Ok(Arc::new(Self { shared, outbox }))
    }

    /// Whether jobs reach the broker now.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.shared.online.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Queue for RabbitQueue {
    fn push(&self, job: Job) {
        if self.shared.role == Role::Worker && !self.is_online() {
            return self.shared.ready.push(job);
        }
        if self.outbox.try_send(job).is_err() {
            self.shared.unsent(job, "too many jobs wait for RabbitMQ");
        }
    }

    fn push_here(&self, job: Job) {
        if self.shared.role == Role::Worker {
            self.shared.ready.push(job);
        }
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        let job = self.shared.ready.pull(admits).await;
        // No await after the job was taken: a dropped future has taken nothing.
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

/// What the queue and its two loops share.
#[derive(Debug)]
struct Shared {
    ready: EmbeddedQueue,
    deliveries: Deliveries,
    role: Role,
    /// The publisher has a connection.
    online: AtomicBool,
    /// Somebody was told that jobs are dropped; until the next connection that is enough.
    warned: AtomicBool,
}

impl Shared {
    /// A job that the broker does not get: for the workers here, else for the sweepers elsewhere.
    fn unsent(&self, job: Job, reason: &str) {
        if self.role == Role::Worker {
            self.ready.push(job);
        } else if !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                reason,
                "jobs are dropped; workers find their runs by sweeping"
            );
        }
    }

    fn set_online(&self, online: bool) {
        self.online.store(online, Ordering::Relaxed);
        if online {
            self.warned.store(false, Ordering::Relaxed);
        }
    }
}

fn address(url: &str) -> Result<AMQPUri, Error> {
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
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_vhost_means_the_usual_one() {
        for url in ["amqp://h", "amqp://h/", "amqp://u:p@h:5672/%2f"] {
            assert_eq!(address(url).unwrap().vhost, "/", "{url}");
        }
        assert_eq!(address("amqp://h/other").unwrap().vhost, "other");
    }

    #[test]
    fn a_wrong_address_is_refused_without_repeating_its_password() {
        for url in [
            "amqps://u:secret@h",
            "http://u:secret@h",
            "amqp://u:secret@h:port",
            "amqp:u:secret@h",
        ] {
            let message = address(url).unwrap_err().to_string();
            assert!(message.contains("amqp://user:password@host"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
