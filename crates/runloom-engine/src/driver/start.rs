//! The start of a driver: the fold of a claimed run.

use std::sync::Arc;

use super::journal::Journal;
use super::mailbox::{Mailbox, fold};
use super::{ClaimedRun, Driver, DriverParts, Start, fallback, status_of};
use crate::run::{Record, RunState};
use runloom_ports::clock::Clock;
use runloom_ports::store::RunNo;

impl Driver {
    /// Folds the log of a claimed run and makes its driver.
    pub(crate) fn new(start: Start, parts: Arc<DriverParts>) -> Self {
        let Start {
            claim,
            planned,
            mut tracing,
            ..
        } = start;
        let mut state = RunState::new(Arc::clone(&planned.plan));
        let mut unreadable = None;
        for entry in &claim.log {
            let seen = |record: &Record| {
                if let Some(tracing) = &mut tracing {
                    tracing.see(record, entry.at.into());
                }
            };
            if let Err(error) = fold(&mut state, entry, seen) {
                unreadable.get_or_insert(error.to_string());
            }
        }
        let mut journal = Journal::open(&claim, Arc::clone(&parts));
        // The status of the row follows from the log. Writing it again would cost every claim a commit.
        journal.status = Some(status_of(&state));
        journal.suspicion = start.suspicion;
        let above = planned.place.iter().flat_map(|place| &place.ancestors);
        journal.ancestors = above.map(|&run| RunNo(run)).collect();
        journal.billed_model = fallback::billed_model(&state).or(start.changed_model);
        let run = claim.lease.run;
        let mailbox = Mailbox::new(Arc::clone(&parts.log), run, start.notifier, claim.mail);
        Self {
            state,
            journal,
            mailbox,
            parts,
            context: planned.context(&claim.id),
            planned,
            run: ClaimedRun {
                started_at: claim.started_at,
                attempts: claim.attempts,
                in_session: claim.in_session,
                request: start.request,
            },
            clock: Clock,
            unreadable,
            deferral: start.deferral,
            reserved: None,
            tracing,
        }
    }
}
