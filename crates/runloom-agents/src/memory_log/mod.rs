//! The logs of one tree of runs in memory, behind the engine's store ports.

mod ports;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use parking_lot::Mutex;
use runloom_engine::derived_ids::run_span;
use runloom_engine::driver::{MailNotifier, WakeRuns};
use runloom_engine::planner::StoredRun;
use runloom_ports::store::{
    Batch, Chunk, Claim, CommitError, Committed, Delivery, Lease, LogEntry, Mail, MailBody, MailNo,
    Millis, Next, RunNo, WorkspaceNo,
};
use runloom_protocol::event::{ApprovalRequested, Event, parse_frame, split_frames};
use runloom_protocol::id::RunId;
use serde::{Deserialize, Serialize};

use crate::trace::Trace;

/// The only workspace.
const WORKSPACE: WorkspaceNo = WorkspaceNo(1);

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: RunId,
    pub(crate) spec: String,
    parent: Option<usize>,
    depth: u32,
    created_at: i64,
    started_at: Option<i64>,
    log: Vec<Entry>,
    mail: Vec<(i64, i64, MailBody)>,
    last_mail: i64,
    approvals: Vec<Asked>,
    terminal: Option<Event>,
    #[serde(skip)]
    epoch: u64,
    #[serde(skip)]
    held: bool,
    #[serde(skip)]
    wake_at: Option<i64>,
}

/// A committed batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    first: u64,
    last: u64,
    frames: String,
    notes: String,
    at: i64,
}

/// An approval that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) request: ApprovalRequested,
    pub(crate) expires_at: i64,
    pub(crate) checks: String,
}

/// The money of one budget.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Purse {
    spent: u64,
    reserved: u64,
}

impl Row {
    fn new(id: RunId, spec: String, parent: Option<usize>, depth: u32, now: i64) -> Self {
        Self {
            id,
            spec,
            parent,
            depth,
            created_at: now,
            started_at: None,
            log: Vec::new(),
            mail: Vec::new(),
            last_mail: 0,
            approvals: Vec::new(),
            terminal: None,
            epoch: 0,
            held: false,
            wake_at: None,
        }
    }

    /// The pending approval of this id, unless a decision about it waits as mail.
    pub(crate) fn pending(&self, id: &str) -> Option<&Asked> {
        let mut approvals = self.approvals.iter();
        approvals.find(|asked| asked.request.approval_id.as_str() == id)
    }

    pub(crate) fn receive(&mut self, now: i64, body: MailBody) {
        self.last_mail += 1;
        self.mail.push((self.last_mail, now, body));
    }

    fn has_cancel(&self) -> bool {
        let mut mail = self.mail.iter();
        mail.any(|(_, _, body)| matches!(body, MailBody::Cancel { .. }))
    }
}

/// The rows of a tree and what is under way.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) rows: Vec<Row>,
    pub(crate) seq: u64,
    pub(crate) purses: HashMap<String, Purse>,
    reservations: HashMap<usize, (Vec<String>, u64)>,
    traces: VecDeque<Trace>,
    ready: VecDeque<usize>,
    notifiers: HashMap<usize, Arc<MailNotifier>>,
    waker: Option<Waker>,
}

/// The logs of one tree.
#[derive(Clone, Default)]
pub(crate) struct MemoryLog(pub(crate) Arc<Mutex<Tree>>);

fn row_of(run: RunNo) -> usize {
    usize::try_from(run.0.saturating_sub(1)).unwrap_or(usize::MAX)
}

fn number_of(row: usize) -> RunNo {
    RunNo(i64::try_from(row).unwrap_or(i64::MAX - 1) + 1)
}

impl MemoryLog {
    /// Adds the root of the tree.
    pub(crate) fn create(&self, id: RunId, stored: &StoredRun, now: Millis) {
        let spec = serde_json::to_string(stored).unwrap_or_default();
        let mut tree = self.0.lock();
        tree.rows.push(Row::new(id, spec, None, 0, now.0));
        tree.ready.push_back(0);
    }

    /// Offers every run that has not ended.
    pub(crate) fn offer_all(&self) {
        let mut tree = self.0.lock();
        let live = tree.rows.iter().enumerate();
        let live = live.filter(|(_, row)| row.terminal.is_none());
        let live: Vec<usize> = live.map(|(index, _)| index).collect();
        tree.ready.extend(live);
    }

    pub(crate) fn next_trace(&self) -> Option<Trace> {
        self.0.lock().traces.pop_front()
    }

    /// Whether there is something to show or to start.
    pub(crate) fn has_news(&self) -> bool {
        let tree = self.0.lock();
        !tree.traces.is_empty() || !tree.ready.is_empty()
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.0.lock().waker = Some(waker.clone());
    }

    /// Claims the next run that wants a driver.
    pub(crate) fn claim_next(&self, now: Millis) -> Option<(Claim, Arc<MailNotifier>)> {
        let mut tree = self.0.lock();
        while let Some(index) = tree.ready.pop_front() {
            if let Some(claim) = tree.claim(index, now) {
                let notifier = Arc::<MailNotifier>::default();
                tree.notifiers.insert(index, Arc::clone(&notifier));
                return Some((claim, notifier));
            }
        }
        None
    }

    /// A driver has left its run.
    pub(crate) fn left(&self, run: RunNo, notifier: &Arc<MailNotifier>, wake_at: Option<Millis>) {
        let mut tree = self.0.lock();
        let index = row_of(run);
        let current = tree.notifiers.get(&index);
        if current.is_some_and(|current| Arc::ptr_eq(current, notifier)) {
            tree.notifiers.remove(&index);
            if let Some(row) = tree.rows.get_mut(index) {
                row.wake_at = wake_at.map(|at| at.0);
            }
        }
    }

    /// The earliest timer of a run that nobody drives.
    pub(crate) fn next_wake(&self) -> Option<Millis> {
        let tree = self.0.lock();
        let parked = tree.rows.iter().filter(|row| !row.held);
        parked.filter_map(|row| row.wake_at).min().map(Millis)
    }

    /// Offers the runs whose timers are due.
    pub(crate) fn wake_due(&self, now: Millis) {
        let mut tree = self.0.lock();
        let due = tree.rows.iter().enumerate().filter(|(_, row)| {
            !row.held && row.terminal.is_none() && row.wake_at.is_some_and(|at| at <= now.0)
        });
        let due: Vec<usize> = due.map(|(index, _)| index).collect();
        for index in due {
            tree.rows[index].wake_at = None;
            tree.ready.push_back(index);
        }
    }

    /// Asks the root to stop.
    pub(crate) fn cancel(&self, now: Millis) {
        let delivery = {
            let mut tree = self.0.lock();
            let reason = "user".to_owned();
            tree.send(0, now, MailBody::Cancel { reason })
        };
        if let Some(delivery) = delivery {
            self.wake(delivery, WORKSPACE);
        }
    }

    /// The terminal event of the root.
    pub(crate) fn terminal(&self) -> Option<Event> {
        self.0
            .lock()
            .rows
            .first()
            .and_then(|row| row.terminal.clone())
    }

    /// Approvals that wait, in the order of their runs.
    pub(crate) fn pending(&self) -> Vec<ApprovalRequested> {
        let tree = self.0.lock();
        let live = tree.rows.iter().filter(|row| row.terminal.is_none());
        let asked = live.flat_map(|row| &row.approvals);
        asked.map(|asked| asked.request.clone()).collect()
    }
}

impl Tree {
    fn claim(&mut self, index: usize, now: Millis) -> Option<Claim> {
        let row = self.rows.get_mut(index)?;
        if row.terminal.is_some() || row.held {
            return None;
        }
        row.epoch += 1;
        row.held = true;
        row.wake_at = None;
        let started_at = *row.started_at.get_or_insert(now.0);
        let log = row.log.iter().map(|entry| LogEntry {
            chunk: Chunk {
                first_seq: entry.first,
                last_seq: entry.last,
                terminal: false,
                frames: Bytes::from(entry.frames.clone()),
            },
            notes: entry.notes.clone(),
            at: Millis(entry.at),
        });
        let mail = row.mail.iter().map(letter);
        Some(Claim {
            lease: Lease {
                run: number_of(index),
                epoch: row.epoch,
            },
            id: row.id.clone(),
            workspace: WORKSPACE,
            in_session: false,
            spec: row.spec.clone(),
            history: Vec::new(),
            active_model: None,
            log: log.collect(),
            mail: mail.collect(),
            attempts: 1,
            taken_over: false,
            created_at: Millis(row.created_at),
            started_at: Millis(started_at),
        })
    }

    fn send(&mut self, to: usize, now: Millis, body: MailBody) -> Option<Delivery> {
        let row = self.rows.get_mut(to).filter(|row| row.terminal.is_none())?;
        row.receive(now.0, body);
        Some(match row.held {
            true => Delivery::Owner(number_of(to)),
            false => Delivery::Queue(number_of(to)),
        })
    }

    fn is_below(&self, mut index: usize, above: usize) -> bool {
        while let Some(parent) = self.rows.get(index).and_then(|row| row.parent) {
            if parent == above {
                return true;
            }
            index = parent;
        }
        false
    }

    fn settle(&mut self, index: usize, spent: Option<u64>) {
        if let Some((scopes, amount)) = self.reservations.remove(&index) {
            for scope in scopes {
                let purse = self.purses.entry(scope).or_default();
                purse.reserved = purse.reserved.saturating_sub(amount);
                purse.spent = purse.spent.saturating_add(spent.unwrap_or(amount));
            }
        }
    }

    fn commit(&mut self, lease: Lease, batch: Batch) -> Result<Committed, CommitError> {
        let index = row_of(lease.run);
        let row = self.rows.get(index).ok_or(CommitError::Fenced)?;
        if !row.held || row.epoch != lease.epoch {
            return Err(CommitError::Fenced);
        }
        let is_unread = |mail: &(i64, i64, MailBody)| mail.0 > batch.mail_through.0;
        if batch.unless_mail && row.mail.iter().any(is_unread) {
            return Err(CommitError::MailWaiting);
        }
        let exists = |id: &RunId| self.rows.iter().any(|row| row.id == *id);
        let new = batch.sub_runs.new.iter().filter(|child| !exists(&child.id));
        let new: Vec<_> = new.cloned().collect();
        let room = usize::try_from(batch.sub_runs.max_below_root).unwrap_or(usize::MAX);
        let room = room.saturating_sub(self.rows.len() - 1);
        if new.len() > room {
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            return Err(CommitError::TooManySubRuns { room });
        }
        let mut deliveries = Vec::new();
        for child in new {
            let depth = self.rows[index].depth + 1;
            let at = batch.at.0;
            self.rows
                .push(Row::new(child.id, child.spec, Some(index), depth, at));
            deliveries.push(Delivery::Queue(number_of(self.rows.len() - 1)));
        }
        self.append(index, &batch);
        for mail in batch.mail {
            deliveries.extend(self.send(row_of(mail.to), batch.at, mail.body));
        }
        if let Some(reason) = &batch.stop_below {
            for below in 0..self.rows.len() {
                if self.is_below(below, index) && !self.rows[below].has_cancel() {
                    let reason = reason.clone();
                    deliveries.extend(self.send(below, batch.at, MailBody::Cancel { reason }));
                }
            }
        }
        if let Some(spent) = batch.usage.and_then(|usage| usage.settle) {
            self.settle(index, Some(spent.0));
        }
        if matches!(batch.next, Next::Finish(_)) {
            self.settle(index, None);
            self.rows[index].mail.clear();
            self.rows[index].approvals.clear();
        }
        self.rows[index].held = matches!(batch.next, Next::Keep);
        Ok(Committed {
            next_in_session: None,
            deliveries,
        })
    }

    /// Appends a batch to the log of its run and shows its events.
    fn append(&mut self, index: usize, batch: &Batch) {
        let row = &mut self.rows[index];
        row.mail.retain(|mail| mail.0 > batch.mail_through.0);
        row.approvals
            .extend(batch.approvals.iter().map(|new| Asked {
                request: new.request.clone(),
                expires_at: new.expires_at.0,
                checks: new.checks.clone(),
            }));
        let frames = String::from_utf8_lossy(&batch.chunk.frames).into_owned();
        if !frames.is_empty() || !batch.notes.is_empty() {
            row.log.push(Entry {
                first: batch.chunk.first_seq,
                last: batch.chunk.last_seq,
                frames,
                notes: batch.notes.clone(),
                at: batch.at.0,
            });
        }
        for frame in split_frames(&batch.chunk.frames) {
            if let Some(Ok(sequenced)) = parse_frame(frame) {
                self.show(index, sequenced.event);
            }
        }
    }

    /// Shows an event of a run. Copies of events of runs below are not shown again.
    fn show(&mut self, index: usize, event: Event) {
        let row = &mut self.rows[index];
        let owner = match &event {
            Event::Subagent(below) => &below.parent_run_id,
            Event::ApprovalRequested(request) => &request.run_id,
            Event::ApprovalDecided(decided) => &decided.run_id,
            _ => &row.id,
        };
        if *owner != row.id {
            return;
        }
        if let Event::ApprovalDecided(decided) = &event {
            let decided = decided.approval_id.clone();
            row.approvals.retain(|it| it.request.approval_id != decided);
        }
        if event.is_terminal() {
            row.terminal = Some(event.clone());
        }
        let (run_id, depth, parent) = (row.id.clone(), row.depth, row.parent);
        self.seq += 1;
        self.traces.push_back(Trace {
            seq: self.seq,
            depth,
            span_id: run_span(&run_id).to_string(),
            parent_span_id: parent.map(|parent| run_span(&self.rows[parent].id).to_string()),
            run_id,
            event,
        });
    }
}

fn letter((no, at, body): &(i64, i64, MailBody)) -> Mail {
    Mail {
        no: MailNo(*no),
        at: Millis(*at),
        body: body.clone(),
    }
}
