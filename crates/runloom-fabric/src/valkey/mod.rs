//! Bus through Valkey or Redis: every process publishes to one channel and subscribes to it.
//!
//! Pending changes of a run are merged, because only the number of its last event matters. Announcements that could not
//! be sent or received become one [`Signal::Lost`], so that no process waits for an announcement that never comes.

mod announcement;
mod health;
mod pending;
mod publish;
mod rate_windows;
mod subscribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis::{Client, ConnectionAddr, IntoConnectionInfo};
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::clock::Clock;
use runloom_ports::tasks::Tasks;
use tokio_util::sync::DropGuard;

use crate::Error;
use pending::Pending;

pub use health::{check_redis, check_redis_url};
pub use rate_windows::ValkeyWindows;

/// Settings of the bus and the rate windows.
#[derive(Debug, Clone)]
pub struct ValkeyOptions {
    /// Prefix of the channel and of all keys. Processes with different prefixes are independent of each other.
    pub prefix: String,
}

impl Default for ValkeyOptions {
    fn default() -> Self {
        Self {
            prefix: "mantyx:".to_owned(),
        }
    }
}

/// A bus through Valkey or Redis.
#[derive(Debug)]
pub struct ValkeyBus {
    outgoing: Arc<Pending>,
    incoming: Arc<Pending>,
    is_subscribed: Arc<AtomicBool>,
    _end: DropGuard,
}

impl ValkeyBus {
    /// Starts the publisher and subscriber tasks and returns without waiting for the service. They end when the bus is
    /// dropped or interrupted, because streams are served until then.
    ///
    /// # Errors
    /// `url` is not an address of Valkey or Redis.
    pub fn start(url: &str, options: &ValkeyOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let channel = BusChannel {
            client: client(url)?,
            name: format!("{}announcements", options.prefix),
            process: Clock.new_id().to_string(),
            is_subscribed: Arc::default(),
        };
        let is_subscribed = Arc::clone(&channel.is_subscribed);
        let outgoing = Arc::new(Pending::default());
        let incoming = Arc::new(Pending::default());
        let end = tasks.shutdown.interrupt_token();
        let publishing = publish::run(channel.clone(), Arc::clone(&outgoing));
        let subscribing = subscribe::run(channel, Arc::clone(&incoming));
        for (name, task) in [
            ("valkey_publisher", Box::pin(publishing) as BusTask),
            ("valkey_subscriber", Box::pin(subscribing)),
        ] {
            let end = end.clone();
            tasks.spawn_detached(name, async move {
                end.run_until_cancelled(task).await;
            });
        }
        Ok(Arc::new(Self {
            outgoing,
            incoming,
            is_subscribed,
            _end: end.drop_guard(),
        }))
    }
}

type BusTask = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[async_trait]
impl Bus for ValkeyBus {
    fn announce(&self, signal: Signal) {
        self.outgoing.add(signal);
    }

    async fn next(&self) -> Signal {
        self.incoming.next().await
    }

    fn is_up(&self) -> bool {
        self.is_subscribed.load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// The channel of the bus, and this process's id on it.
#[derive(Debug, Clone)]
struct BusChannel {
    client: Client,
    name: String,
    /// Sent with every message, because subscribers receive their own messages too.
    process: String,
    /// Whether there is a subscription.
    is_subscribed: Arc<AtomicBool>,
}

fn client(url: &str) -> Result<Client, Error> {
    let wrong = |reason: &str| Error::Address {
        service: "Valkey or Redis",
        reason: reason.to_owned(),
        form: "redis://user:password@host:6379/0, or rediss://… with TLS",
    };
    // The parser's own message may repeat the address.
    let address = url
        .into_connection_info()
        .map_err(|_| wrong("it cannot be parsed"))?;
    match address.addr() {
        ConnectionAddr::Tcp(..)
        | ConnectionAddr::Unix(_)
        | ConnectionAddr::TcpTls {
            insecure: false, ..
        } => {}
        _ => {
            return Err(wrong(
                "it disables certificate verification, which is not supported",
            ));
        }
    }
    Client::open(address).map_err(|_| wrong("it cannot be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_redis_and_valkey_addresses() {
        for url in [
            "redis://h",
            "valkey://:p@h:6379/2",
            "redis://u:p@[::1]:1",
            "rediss://:p@h",
        ] {
            client(url).unwrap();
        }
    }

    #[test]
    fn rejects_invalid_addresses_without_repeating_the_password() {
        for url in [
            "rediss://:secret@h/#insecure",
            "http://:secret@h",
            "redis://:secret@h:port",
            "secret",
        ] {
            let message = client(url).unwrap_err().to_string();
            assert!(message.contains("redis://user:password@host"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
