//! Queue and bus adapters: one file or folder per technology.
//!
//! Nothing here is durable. The store knows which runs need a worker; a queue only finds them sooner and in fair
//! order, and a bus only reports changes sooner. The contracts are `runloom_ports::queue` and
//! `runloom_ports::bus`.
//!
//! - [`EmbeddedQueue`]: inside one process.
//! - [`AnnouncingQueue`]: one queue per process on a shared store, with a bus that wakes the other processes.
//! - [`RabbitQueue`]: through a RabbitMQ broker.
//! - [`ValkeyBus`]: announcements through Valkey or Redis; [`ValkeyWindows`]: shared rate windows.
//!
//! Starting never waits for a service. Unreachable services are retried with backoff, and the server works without
//! them, only more slowly.

mod announcing_queue;
mod embedded_queue;
mod error;
mod rabbitmq;
mod reconnect_pause;
mod service_health;
mod valkey;

pub use announcing_queue::AnnouncingQueue;
pub use embedded_queue::EmbeddedQueue;
pub use error::Error;
pub use rabbitmq::{QueueRole, RabbitOptions, RabbitQueue, check_amqp, check_amqp_url};
pub use service_health::{HealthError, ServiceHealth};
pub use valkey::{ValkeyBus, ValkeyOptions, ValkeyWindows, check_redis, check_redis_url};
