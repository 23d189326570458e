//! The bus through Valkey or Redis: every process publishes to one channel and listens to it.
//!
//! Changes of a run melt together while they wait: what counts is the number of its last event. What does not get out or in becomes
//! one [`Signal::Lost`], here or at the others, so that nobody waits for something that nobody will announce.

mod announcement;
mod look;
mod pending;
mod publish;
mod subscribe;
mod windows;

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

pub(crate) use look::{check_url, look};
pub use windows::ValkeyWindows;

/// How the bus is used.
#[derive(Debug, Clone)]
pub struct ValkeyOptions {
    /// The channel's name is this and `announcements`. Processes with different prefixes do not hear each other.
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
    hears: Arc<AtomicBool>,
    _end: DropGuard,
}

impl ValkeyBus {
    /// Starts the loops that keep the bus connected, and returns without waiting for the service. They end when the bus is
    /// dropped, or with `tasks.kill`: streams are served until then.
    ///
    /// # Errors
    /// When `url` is not an address of Valkey or Redis.
    pub fn start(url: &str, options: &ValkeyOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let line = Line {
            client: client(url)?,
            channel: format!("{}announcements", options.prefix),
            process: Clock.new_id().to_string(),
            hears: Arc::default(),
        };
        let hears = Arc::clone(&line.hears);
        let outgoing = Arc::new(Pending::default());
        let incoming = Arc::new(Pending::default());
        let end = tasks.kill.child_token();
        let publishing = publish::run(line.clone(), Arc::clone(&outgoing));
        let listening = subscribe::run(line, Arc::clone(&incoming));
        for (name, work) in [
            ("announce changes", Box::pin(publishing) as Work),
            ("hear changes", Box::pin(listening)),
        ] {
            let end = end.clone();
            tasks.spawn_detached(name, async move {
                end.run_until_cancelled(work).await;
            });
        }
        Ok(Arc::new(Self {
            outgoing,
            incoming,
            hears,
            _end: end.drop_guard(),
        }))
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[async_trait]
impl Bus for ValkeyBus {
    fn announce(&self, signal: Signal) {
        self.outgoing.add(signal);
    }

    async fn next(&self) -> Signal {
        self.incoming.next().await
    }

    fn is_up(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Where the channel is, and who we are on it.
#[derive(Debug, Clone)]
struct Line {
    client: Client,
    channel: String,
    /// Everyone hears everything, also their own words.
    process: String,
    /// There is a subscription.
    hears: Arc<AtomicBool>,
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
        _ => return Err(wrong("a certificate that is not verified protects nothing")),
    }
    Client::open(address).map_err(|_| wrong("it cannot be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_names_are_understood() {
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
    fn a_wrong_address_is_refused_without_repeating_its_password() {
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
