//! Test fixture: one queue, processes that use it through a proxy, and a direct connection to the broker.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeleteOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use runloom_fabric::{QueueRole, RabbitOptions, RabbitQueue};
use runloom_ports::tasks::Tasks;
use tracing_subscriber::fmt::MakeWriter;

use crate::gate::Gate;
use crate::{authority, setting, unique, until};

pub(super) fn url() -> String {
    setting(
        "RUNLOOM_TEST_AMQP_URL",
        "amqp://guest:guest@127.0.0.1:5672/%2f",
    )
}

/// One queue, the proxy in front of it, and a direct connection.
pub(super) struct World {
    pub(super) name: String,
    pub(super) gate: Gate,
    pub(super) delivery_limit: u16,
    connection: Connection,
}

/// One process.
pub(super) struct Process {
    pub(super) queue: Arc<RabbitQueue>,
    tasks: Tasks,
}

/// Runs a test and removes its queues, also after a failure.
pub(super) async fn with_world(test: impl AsyncFnOnce(&World)) {
    with_limited_world(RabbitOptions::default().delivery_limit, test).await;
}

/// [`with_world`] with a delivery limit.
pub(super) async fn with_limited_world(delivery_limit: u16, test: impl AsyncFnOnce(&World)) {
    let world = World::new(delivery_limit).await;
    let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
    world.remove().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    async fn new(delivery_limit: u16) -> Self {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&url(), properties)
            .await
            .unwrap_or_else(|error| {
                panic!(
                    "RabbitMQ is not reachable at {} ({error}): start it, or set RUNLOOM_TEST_AMQP_URL",
                    authority(&url())
                )
            });
        Self {
            name: unique("queue"),
            gate: Gate::to(authority(&url())).await,
            delivery_limit,
            connection,
        }
    }

    /// Starts a process without waiting for its connection.
    pub(super) fn start(&self, role: QueueRole) -> Process {
        let tasks = Tasks::default();
        let options = RabbitOptions {
            queue: self.name.clone(),
            role,
            delivery_limit: self.delivery_limit,
            ..RabbitOptions::default()
        };
        let queue = RabbitQueue::start(&self.gate.url(&url()), options, &tasks).unwrap();
        Process { queue, tasks }
    }

    /// Starts a process and waits for its connection.
    pub(super) async fn process(&self, role: QueueRole) -> Process {
        let process = self.start(role);
        process.online().await;
        process
    }

    /// A channel on the direct connection. One for each request, because an error closes it.
    async fn channel(&self) -> Channel {
        self.connection.create_channel().await.unwrap()
    }

    /// Messages that were not fetched.
    pub(super) async fn count(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        self.channel()
            .await
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await
            .unwrap()
            .message_count()
    }

    /// Waits for a dead letter and takes it.
    pub(super) async fn dead_letter(&self) -> Vec<u8> {
        let channel = self.channel().await;
        let dead = format!("{}.dead", self.name);
        let mut letter = None;
        until("there is a dead letter", async || {
            let options = BasicGetOptions { no_ack: true };
            letter = channel
                .basic_get(dead.as_str().into(), options)
                .await
                .unwrap();
            letter.is_some()
        })
        .await;
        letter.unwrap().delivery.data
    }

    pub(super) async fn publish(&self, payload: &[u8]) {
        self.channel()
            .await
            .basic_publish(
                "".into(),
                self.name.as_str().into(),
                BasicPublishOptions::default(),
                payload,
                BasicProperties::default(),
            )
            .await
            .unwrap();
    }

    /// Declares the queue with other arguments.
    pub(super) async fn declare_with_other_arguments(&self) {
        let durable = QueueDeclareOptions::durable();
        self.channel()
            .await
            .queue_declare(self.name.as_str().into(), durable, FieldTable::default())
            .await
            .unwrap();
    }

    pub(super) async fn delete(&self, queue: &str) {
        self.channel()
            .await
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await
            .unwrap();
    }

    async fn remove(&self) {
        // Keeps the processes from declaring them again.
        self.gate.close().await;
        let dead = format!("{}.dead", self.name);
        self.delete(&self.name).await;
        self.delete(&dead).await;
        self.channel()
            .await
            .exchange_delete(dead.as_str().into(), ExchangeDeleteOptions::default())
            .await
            .unwrap();
    }
}

impl Process {
    pub(super) async fn online(&self) {
        until("the queue is connected", async || self.queue.is_online()).await;
    }

    /// Shuts down in order.
    pub(super) async fn stop(self) {
        self.tasks.shutdown.drain();
        crate::in_time("the process has stopped", self.tasks.ended()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
        self.tasks.shutdown.interrupt();
    }
}

/// Captures the log of this thread.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(super) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(self.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
