//! The mail of a run, and the fold of its log.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use runloom_protocol::event::{FrameError, parse_frame, split_frames};
use runloom_protocol::outcome::RunCancelled;
use tokio::sync::Notify;
use tracing::warn;

use super::{Abandon, Driver, call_of};
use crate::run::{self, Decided, PlacedNote, Record, RunState};
use runloom_ports::clock::rfc3339;
use runloom_ports::crash;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{LogEntry, Mail, MailBody, MailNo, RunLog, RunNo};

/// Pause between attempts to read mail from a store that is unavailable.
const RETRY: Duration = Duration::from_millis(500);

/// Notifies the driver of a run that there may be mail.
#[derive(Debug, Default)]
pub struct MailNotifier(Notify);

impl MailNotifier {
    /// Notifies that there may be mail.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits for a notification. A notification without a waiter is kept for the next call.
    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }

    /// Takes a notification that has come already.
    pub(crate) fn take_ring(&self) -> bool {
        self.0.notified().now_or_never().is_some()
    }
}

/// Reads the mail of a run after a notification.
pub(crate) struct Mailbox {
    log: Arc<dyn RunLog>,
    run: RunNo,
    notifier: Arc<MailNotifier>,
    read: MailNo,
    waiting: Vec<Mail>,
    rung: bool,
}

impl Mailbox {
    /// A mailbox with the mail of the claim.
    pub(crate) fn new(
        log: Arc<dyn RunLog>,
        run: RunNo,
        notifier: Arc<MailNotifier>,
        waiting: Vec<Mail>,
    ) -> Self {
        Self {
            log,
            run,
            notifier,
            read: MailNo::default(),
            waiting,
            rung: false,
        }
    }

    /// Waits for a notification. Cancel-safe.
    pub(crate) async fn rung(&mut self) {
        if !self.rung {
            self.notifier.0.notified().await;
            self.rung = true;
        }
    }

    /// Whether a notification came and the mail is not read yet.
    pub(crate) fn has_rung(&self) -> bool {
        self.rung
    }

    /// The notifier, for waits that do not borrow the mailbox.
    pub(crate) fn notifier(&self) -> Arc<MailNotifier> {
        Arc::clone(&self.notifier)
    }

    /// Makes the next [`Self::take`] read mail without a notification.
    pub(crate) fn look(&mut self) {
        self.rung = true;
    }

    /// The mail since the last call; `None` without a notification.
    pub(crate) async fn take(&mut self, shutdown: &Shutdown) -> Result<Option<Vec<Mail>>, Abandon> {
        if self.waiting.is_empty() && !self.rung && !self.notifier.take_ring() {
            return Ok(None);
        }
        // Nothing is taken before the read has succeeded: the caller may drop this future.
        self.rung = true;
        let last = self.waiting.last().map_or(self.read, |mail| mail.no);
        let more = loop {
            match self.log.mail(self.run, last).await {
                Ok(more) => break more,
                Err(error) => warn!(run = self.run.0, %error, "mail read failed; retrying"),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.interrupted() => return Err(Abandon::Interrupted),
            }
        };
        self.rung = false;
        let mut mail = std::mem::take(&mut self.waiting);
        mail.extend(more);
        self.read = mail.last().map_or(self.read, |mail| mail.no);
        Ok(Some(mail))
    }
}

impl Driver {
    /// Folds mail into the run. Returns the receipt of a cancel, which ends the run.
    pub(super) fn accept(&mut self, mail: Vec<Mail>) -> Result<Option<RunCancelled>, Abandon> {
        let mut cancel = None;
        for letter in mail {
            self.journal.mail_read = letter.no;
            match letter.body {
                MailBody::Cancel { reason } => {
                    cancel.get_or_insert_with(|| RunCancelled {
                        subagents: None,
                        reason,
                        requested_at: Some(rfc3339(letter.at)),
                        stopped_at: None,
                        interrupted: self.interrupted(),
                        tokens: self.state.tokens,
                        turns: self.state.turns,
                        model: None,
                        cost_usd: None,
                    });
                }
                MailBody::SubRunEnded(end) => self.sub_run_ended(&end)?,
                MailBody::Forward(forward) => self.accept_forwarded(forward.event)?,
                MailBody::Approval {
                    approval,
                    ruling,
                    by,
                } => self.accept_decision(&Decided {
                    approval: &approval,
                    ruling: &ruling,
                    by: &by,
                    at: rfc3339(letter.at),
                })?,
                MailBody::ToolResult {
                    tool_use_id,
                    answer,
                    files,
                } => {
                    // A late result finds no waiting call and changes nothing.
                    if let Some(event) = run::answer(&self.state, &tool_use_id, &answer) {
                        if let Some(call) = call_of(&event) {
                            self.journal.close_call(call);
                        }
                        self.record_files(&tool_use_id, files)?;
                        self.record(event)?;
                        crash::point("mail_read");
                    }
                }
            }
        }
        Ok(cancel)
    }

    /// The names of the client tools and delegates that are under way, which a cancel interrupts.
    fn interrupted(&self) -> Vec<String> {
        use run::CallState::{Asked, Delegated};
        let asked = |call: &&run::Call| matches!(call.state, Asked { .. } | Delegated);
        self.state
            .calls
            .iter()
            .filter(asked)
            .map(|call| call.name.clone())
            .collect()
    }
}

/// Folds one stored batch: its events in order, each followed by the notes placed after it. `seen` gets each record
/// first.
///
/// # Errors
/// When a record cannot be read. Without it the state would be wrong.
pub(crate) fn fold(
    state: &mut RunState,
    entry: &LogEntry,
    mut seen: impl FnMut(&Record),
) -> Result<(), FrameError> {
    let mut apply = |record: Record| {
        seen(&record);
        state.apply(record);
    };
    let notes: Vec<PlacedNote> = match entry.notes.as_str() {
        "" => Vec::new(),
        text => serde_json::from_str(text)?,
    };
    let mut notes = notes.into_iter().peekable();
    let first = entry.chunk.first_seq;
    while let Some(placed) = notes.next_if(|placed| placed.after < first) {
        apply(Record::Note(placed.note));
    }
    for (frame, seq) in split_frames(&entry.chunk.frames).zip(first..) {
        match parse_frame(frame) {
            Some(Ok(sequenced)) => apply(Record::Event(sequenced.event)),
            // No decision of this version depends on it.
            Some(Err(FrameError::Unknown(kind))) => {
                warn!(
                    seq,
                    kind, "log has an event that is unknown to this version"
                );
            }
            Some(Err(error @ FrameError::Unreadable(_))) => return Err(error),
            None => {}
        }
        while let Some(placed) = notes.next_if(|placed| placed.after <= seq) {
            apply(Record::Note(placed.note));
        }
    }
    Ok(())
}
