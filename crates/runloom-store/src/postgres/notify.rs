//! Notices between processes through the database: NOTIFY after a write, LISTEN on a dedicated connection.
//!
//! Notices are hints. They can be late, repeated or lost. A receiver reads the store; after [`Notice::Lost`] it reads
//! everything that it waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use runloom_ports::store::RunNo;
use runloom_ports::tasks::Tasks;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

use super::connect::Endpoint;
use super::error::Failure;
use crate::OpenError;

/// Channel of new events: `run:seq,run:seq,…`, or empty for "look yourself".
pub(super) const EVENTS: &str = "runloom_events";

/// Channel of mail, of runs that want a worker, and of the registry: numbers of runs, `q` and `r` for the others,
/// with commas between. What an older program does not know it passes over.
pub(super) const MAIL: &str = "runloom_mail";

/// PostgreSQL takes less than 8,000 bytes.
const LONGEST: usize = 7_000;

/// First and longest pause between attempts to reach the server.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Something that another process did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Runs have new events, up to these numbers.
    Events(Vec<(RunNo, u64)>),
    /// A run has mail, and somebody holds it.
    Mail(RunNo),
    /// Some run wants a worker.
    Queue,
    /// Workspaces, keys or documents have changed.
    Registry,
    /// Notices may have been missed: look yourself.
    Lost,
}

/// Notices that wait to be sent with the next transaction.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    events: BTreeMap<RunNo, u64>,
    mail: BTreeSet<RunNo>,
    queue: bool,
    registry: bool,
}

impl Outgoing {
    /// Adds a notice.
    pub(super) fn add(&mut self, notice: Notice) {
        match notice {
            Notice::Events(events) => self.events.extend(events),
            Notice::Mail(run) => {
                self.mail.insert(run);
            }
            Notice::Queue => self.queue = true,
            Notice::Registry => self.registry = true,
            Notice::Lost => {}
        }
    }

    /// True when there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.mail.is_empty() && !self.queue && !self.registry
    }

    /// Channels and payloads.
    pub(super) fn messages(&self) -> (Vec<&'static str>, Vec<String>) {
        let mut messages = Vec::new();
        if !self.events.is_empty() {
            let events = self
                .events
                .iter()
                .map(|(run, seq)| format!("{}:{seq}", run.0));
            messages.push((EVENTS, joined(events)));
        }
        if self.queue || self.registry || !self.mail.is_empty() {
            let words = [(self.queue, "q"), (self.registry, "r")];
            let words = words.into_iter().filter(|(said, _)| *said);
            let words = words.map(|(_, word)| word.to_owned());
            let mail = self.mail.iter().map(|run| run.0.to_string());
            messages.push((MAIL, joined(words.chain(mail))));
        }
        messages.into_iter().unzip()
    }
}

/// The items with commas between, or nothing when that is too long.
fn joined(items: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for item in items {
        if text.len() + item.len() >= LONGEST {
            return String::new();
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&item);
    }
    text
}

/// The notices of every process that uses the database, this one included. Reconnects by itself.
#[derive(Debug)]
pub struct Notifications {
    endpoint: Endpoint,
    tasks: Tasks,
    listening: Option<Listening>,
    ready: std::collections::VecDeque<Notice>,
}

#[derive(Debug)]
struct Listening {
    _client: Client,
    messages: mpsc::UnboundedReceiver<AsyncMessage>,
}

impl Notifications {
    /// Starts to listen.
    ///
    /// # Errors
    /// See [`OpenError`]: a bad URL, or no server there.
    pub async fn listen(url: &str) -> Result<Self, OpenError> {
        let mut notifications = Self {
            endpoint: Endpoint::of(url)?,
            tasks: Tasks::default(),
            listening: None,
            ready: std::collections::VecDeque::new(),
        };
        let listening = notifications
            .connect()
            .await
            .map_err(|failure| OpenError::Database {
                doing: "listening to the database",
                source: Box::new(failure),
            })?;
        notifications.listening = Some(listening);
        Ok(notifications)
    }

    /// The next notice. After a lost connection it is [`Notice::Lost`], once the server is heard again. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Notice {
        loop {
            if let Some(notice) = self.ready.pop_front() {
                return notice;
            }
            let Some(listening) = &mut self.listening else {
                self.listening = Some(self.reconnect().await);
                return Notice::Lost;
            };
            match listening.messages.recv().await {
                Some(AsyncMessage::Notification(heard)) => {
                    self.ready.extend(parse(heard.channel(), heard.payload()));
                }
                Some(_) => {}
                None => self.listening = None,
            }
        }
    }

    async fn reconnect(&self) -> Listening {
        let (mut pause, longest) = PAUSES;
        loop {
            match self.connect().await {
                Ok(listening) => return listening,
                Err(error) => {
                    tracing::warn!(%error, "PostgreSQL notifications disconnected; retrying");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn connect(&self) -> Result<Listening, Failure> {
        let (sender, messages) = mpsc::unbounded_channel();
        let client = self.endpoint.connect(&self.tasks, Some(sender)).await?;
        client
            .batch_execute(&format!("LISTEN {EVENTS}; LISTEN {MAIL}"))
            .await?;
        Ok(Listening {
            _client: client,
            messages,
        })
    }
}

fn parse(channel: &str, payload: &str) -> Vec<Notice> {
    if payload.is_empty() {
        return vec![Notice::Lost];
    }
    if channel == EVENTS {
        let event = |item: &str| {
            let (run, seq) = item.split_once(':')?;
            Some((RunNo(run.parse().ok()?), seq.parse().ok()?))
        };
        return vec![Notice::Events(
            payload.split(',').filter_map(event).collect(),
        )];
    }
    payload
        .split(',')
        .filter_map(|item| match item {
            "q" => Some(Notice::Queue),
            "r" => Some(Notice::Registry),
            run => run.parse().ok().map(|run| Notice::Mail(RunNo(run))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, MAIL, Notice, Outgoing, RunNo, parse};

    #[test]
    fn encodes_notices() {
        let events = Notice::Events(vec![(RunNo(3), 7), (RunNo(12), 1)]);
        let mut outgoing = Outgoing::default();
        assert!(outgoing.is_empty());
        outgoing.add(events.clone());
        outgoing.add(Notice::Mail(RunNo(5)));
        outgoing.add(Notice::Queue);
        outgoing.add(Notice::Registry);
        let (channels, payloads) = outgoing.messages();
        assert_eq!(channels, [EVENTS, MAIL]);
        assert_eq!(parse(EVENTS, &payloads[0]), [events]);
        let mail = [Notice::Queue, Notice::Registry, Notice::Mail(RunNo(5))];
        assert_eq!(parse(MAIL, &payloads[1]), mail);
    }

    #[test]
    fn too_many_notices_become_lost() {
        let mut outgoing = Outgoing::default();
        let many = (0..2_000).map(|run| (RunNo(1_000_000 + run), 1_000));
        outgoing.add(Notice::Events(many.collect()));
        let (_, payloads) = outgoing.messages();
        assert_eq!(payloads, [""]);
        assert_eq!(parse(EVENTS, ""), [Notice::Lost]);
    }
}
