//! Message format of the channel.

use runloom_ports::bus::Signal;
use runloom_ports::store::RunNo;
use serde::{Deserialize, Serialize};

/// One message: the changes of a few milliseconds. Unknown fields are ignored, so that processes of different versions
/// can share a channel.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Announcement {
    from: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mail: Vec<i64>,
    /// Run numbers with the number of their last event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<(i64, u64)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    jobs: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    registry: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl Announcement {
    /// Encodes the changes of this process.
    pub(super) fn encode(from: &str, signals: &[Signal]) -> Vec<u8> {
        let mut announcement = Self {
            from: from.to_owned(),
            ..Self::default()
        };
        for signal in signals {
            match signal {
                Signal::Mail(run) => announcement.mail.push(run.0),
                Signal::Events { run, last_seq } => announcement.events.push((run.0, *last_seq)),
                Signal::Jobs => announcement.jobs = true,
                Signal::Registry => announcement.registry = true,
                Signal::Lost => announcement.lost = true,
            }
        }
        // Serializing integers and an id cannot fail.
        serde_json::to_vec(&announcement).unwrap_or_default()
    }

    /// Decodes a message of another process; `None` for this process's own messages.
    pub(super) fn decode(
        bytes: &[u8],
        own_process: &str,
    ) -> Result<Option<Self>, serde_json::Error> {
        let announcement: Self = serde_json::from_slice(bytes)?;
        Ok((announcement.from != own_process).then_some(announcement))
    }

    /// The announced changes.
    pub(super) fn signals(&self) -> impl Iterator<Item = Signal> + '_ {
        let mail = self.mail.iter().map(|run| Signal::Mail(RunNo(*run)));
        let events = self.events.iter().map(|(run, last_seq)| Signal::Events {
            run: RunNo(*run),
            last_seq: *last_seq,
        });
        self.lost
            .then_some(Signal::Lost)
            .into_iter()
            .chain(self.jobs.then_some(Signal::Jobs))
            .chain(self.registry.then_some(Signal::Registry))
            .chain(mail)
            .chain(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_round_trip_between_processes() {
        let signals = [
            Signal::Lost,
            Signal::Jobs,
            Signal::Registry,
            Signal::Mail(RunNo(i64::MAX)),
            Signal::Events {
                run: RunNo(2),
                last_seq: u64::MAX,
            },
        ];
        let bytes = Announcement::encode("a", &signals);
        let heard = Announcement::decode(&bytes, "b").unwrap().unwrap();
        assert_eq!(heard.signals().collect::<Vec<_>>(), signals);
        assert!(Announcement::decode(&bytes, "a").unwrap().is_none());
    }

    #[test]
    fn ignores_unknown_fields_and_rejects_other_messages() {
        let newer = Announcement::decode(br#"{"from":"a","jobs":true,"new":[]}"#, "b");
        assert_eq!(newer.unwrap().unwrap().signals().count(), 1);
        Announcement::decode(b"hello", "b").unwrap_err();
    }
}
