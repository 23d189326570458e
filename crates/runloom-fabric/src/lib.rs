//! Queue and wake-ups: one file or folder per technology.
//!
//! Not here: anything that must not be lost. The store knows which runs want a worker; a queue only makes finding them quick and
//! fair, a bus only makes noticing changes quick. The contracts are `runloom_ports::queue` and `runloom_ports::bus`.
//!
//! - [`EmbeddedQueue`]: inside one process.
//! - [`AnnouncingQueue`]: inside each process, the store between them, a bus to wake the others.
//! - [`RabbitQueue`]: through a RabbitMQ broker.
//! - [`ValkeyBus`]: announcements through Valkey or Redis; [`ValkeyWindows`]: rate windows there.
//!
//! Starting never waits for a service: what is not reachable is tried again until it is, and the server works meanwhile, only slower.

mod announcing;
mod backoff;
mod embedded;
mod error;
mod look;
mod rabbitmq;
mod valkey;

pub use announcing::AnnouncingQueue;
pub use embedded::EmbeddedQueue;
pub use error::Error;
pub use look::{LookError, Seen, check_amqp_url, check_redis_url, look_at_amqp, look_at_redis};
pub use rabbitmq::{RabbitOptions, RabbitQueue, Role};
pub use valkey::{ValkeyBus, ValkeyOptions, ValkeyWindows};
