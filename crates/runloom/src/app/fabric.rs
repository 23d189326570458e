//! The queue and the bus, from the configuration.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use runloom_fabric::{
    AnnouncingQueue, EmbeddedQueue, RabbitOptions, RabbitQueue, ValkeyBus, ValkeyOptions,
    ValkeyWindows,
};
use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::queue::Queue;
use runloom_ports::tasks::Tasks;
use runloom_ports::windows::SharedWindows;
use runloom_store::postgres::{Notice, Notifications};
use tokio::sync::Mutex;

use super::Role;
use crate::config::{BusConfig, Config, QueueConfig};

/// How this process finds work and learns of changes.
pub(super) struct Fabric {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) bus: Arc<dyn Bus>,
    /// Shared rate windows, if a service can hold them.
    pub(super) windows: Option<Arc<dyn SharedWindows>>,
}

/// Opens what the configuration names. Unreachable brokers do not keep the server from starting.
pub(super) async fn open(config: &Config, role: Role, tasks: &Tasks) -> Result<Fabric> {
    let bus: Arc<dyn Bus> = match &config.fabric.bus {
        BusConfig::Embedded => Arc::new(NoBus),
        BusConfig::Store => Arc::new(StoreBus::listen(&config.store.url()).await?),
        BusConfig::Redis(url) => ValkeyBus::start(url.expose(), &ValkeyOptions::default(), tasks)
            .context("fabric.bus cannot be used")?,
    };
    let queue: Arc<dyn Queue> = match &config.fabric.queue {
        QueueConfig::Embedded => Arc::new(EmbeddedQueue::new()),
        QueueConfig::Store if role == Role::Api => {
            Arc::new(AnnouncingQueue::forward_only(Arc::clone(&bus)))
        }
        QueueConfig::Store => Arc::new(AnnouncingQueue::new(Arc::clone(&bus))),
        QueueConfig::Amqp(url) => {
            let options = RabbitOptions {
                role: match role {
                    Role::Api => runloom_fabric::QueueRole::Publisher,
                    Role::All | Role::Worker => runloom_fabric::QueueRole::Worker,
                },
                ..RabbitOptions::default()
            };
            RabbitQueue::start(url.expose(), options, tasks)
                .context("fabric.queue cannot be used")?
        }
    };
    let windows: Option<Arc<dyn SharedWindows>> = match &config.fabric.bus {
        BusConfig::Redis(url) => Some(
            ValkeyWindows::start(url.expose(), &ValkeyOptions::default(), tasks)
                .context("fabric.bus cannot be used")?,
        ),
        BusConfig::Embedded | BusConfig::Store => None,
    };
    Ok(Fabric {
        queue,
        bus,
        windows,
    })
}

/// The database as bus: it notifies about its own writes, so announcing does nothing.
struct StoreBus {
    heard: Mutex<(Notifications, VecDeque<Signal>)>,
}

impl StoreBus {
    async fn listen(url: &str) -> Result<Self> {
        let notifications = Notifications::listen(url)
            .await
            .context("cannot listen to the database")?;
        Ok(Self {
            heard: Mutex::new((notifications, VecDeque::new())),
        })
    }
}

#[async_trait]
impl Bus for StoreBus {
    fn announce(&self, _signal: Signal) {}

    async fn next(&self) -> Signal {
        let mut heard = self.heard.lock().await;
        let (notifications, waiting) = &mut *heard;
        loop {
            if let Some(signal) = waiting.pop_front() {
                return signal;
            }
            match notifications.next().await {
                Notice::Events(runs) => waiting.extend(
                    runs.into_iter()
                        .map(|(run, last_seq)| Signal::Events { run, last_seq }),
                ),
                Notice::Mail(run) => waiting.push_back(Signal::Mail(run)),
                Notice::Queue => waiting.push_back(Signal::Jobs),
                Notice::Registry => waiting.push_back(Signal::Registry),
                Notice::Lost => waiting.push_back(Signal::Lost),
            }
        }
    }

    /// The store reconnects by itself and reports what it missed as [`Signal::Lost`].
    fn is_up(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }
}
