//! Trees of runs: what a group of batches does to other runs than its own.
//!
//! Rows are locked in the order of their numbers, those of the batches and those that they reach together, so that no
//! two groups wait for each other. A group without such batches sends none of these statements.

use std::collections::{BTreeSet, HashMap};

use runloom_ports::store::{Batch, Delivery, Lease, Lineage, MailBody, Next, RunNo};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use tokio_postgres::{Client, Row};

use super::columns::{Word, get_count, get_maybe_text, maybe_text, text, to_json};
use super::commit::Refusal;
use super::error::Failure;
use super::group::{Sending, query};
use super::statements::Prepared;
use super::uint;

/// Columns and joins that tell where a run of the table `runs` stands in its tree.
pub(super) const LINEAGE: &str =
    "parents.id AS parent_id, roots.id AS root_id, runs.depth, runs.parent_call";
pub(super) const JOINS: &str = "LEFT JOIN runs AS parents ON parents.no = runs.parent
    LEFT JOIN runs AS roots ON roots.no = runs.root";

/// Reads [`LINEAGE`].
pub(super) fn lineage(row: &Row) -> Result<Option<Lineage>, Failure> {
    let id = |column| -> Result<Option<RunId>, Failure> {
        Ok(row
            .try_get::<_, Option<Word<RunId>>>(column)?
            .map(|word| word.0))
    };
    let (Some(parent), Some(root)) = (id("parent_id")?, id("root_id")?) else {
        return Ok(None);
    };
    Ok(Some(Lineage {
        parent,
        tool_use_id: get_maybe_text(row, "parent_call")?.unwrap_or_default(),
        root,
        depth: get_count(row, "depth")?,
    }))
}

/// The runs below these, each with the one that it is below.
macro_rules! below {
    ($tops:literal) => {
        concat!(
            "WITH RECURSIVE below (top, run) AS (
                SELECT parent, no FROM runs WHERE parent = ANY(",
            $tops,
            ")
                UNION SELECT below.top, runs.no FROM below JOIN runs ON runs.parent = below.run)"
        )
    };
}

/// `$1`: runs of the batches, readers of mail, roots. `$2`: runs that stop what is below them.
pub(super) const LOCK_TREES: &str = concat!(
    "SELECT 1 FROM runs WHERE no IN (SELECT unnest($1::BIGINT[]) UNION (",
    below!("$2::BIGINT[]"),
    " SELECT run FROM below)) ORDER BY no FOR NO KEY UPDATE"
);

/// Live readers of mail, and whether somebody holds them.
pub(super) const READERS: &str =
    "SELECT no, worker IS NOT NULL FROM runs WHERE no = ANY($1) AND completed_at IS NULL";

/// Live runs below, and whether somebody holds them; not those that have a cancel.
pub(super) const LIVE_BELOW: &str = concat!(
    below!("$1::BIGINT[]"),
    " SELECT below.top, runs.no, runs.worker IS NOT NULL FROM below JOIN runs ON runs.no = below.run
      WHERE runs.completed_at IS NULL AND NOT runs.cancel ORDER BY runs.no"
);

/// How many runs each root has below it.
pub(super) const COUNT_BELOW: &str =
    "SELECT root, count(*) FROM runs WHERE root = ANY($1) GROUP BY root";

/// A child, its spec and its labels; returns its number, or nothing when it exists.
pub(super) const SUB_RUN: &str = "WITH run AS (
        INSERT INTO runs (epoch, attempts, status, workspace, id, created_at, credential, model_id, agent_id, spec_name,
            input_preview, metadata, parent, root, depth, parent_call, private_to)
        SELECT 0, 0, $2, workspace, $3, $4, credential, $5, $6, $7, $8, metadata, no, coalesce(root, no), depth + 1, $9,
            private_to
        FROM runs WHERE no = $1
        ON CONFLICT (id) DO NOTHING RETURNING no),
    spec AS (INSERT INTO run_specs (run, spec, public_spec) SELECT no, $10, $11 FROM run),
    label AS (INSERT INTO labels (workspace, kind, label, value, owner)
        SELECT labels.workspace, 'run', labels.label, labels.value, run.no FROM run, labels
        WHERE labels.owner = $1 AND labels.kind = 'run')
    SELECT no FROM run";

pub(super) const SEND_MAIL: &str =
    "INSERT INTO mail (run, at, body) SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[])";

/// A parked reader wants a worker from now on.
pub(super) const WAKE: &str = "UPDATE runs SET parked = FALSE, wake_at = NULL, cancel = runs.cancel OR told.cancel
    FROM (SELECT run, bool_or(cancel) AS cancel FROM unnest($1::BIGINT[], $2::BOOLEAN[]) AS told (run, cancel) GROUP BY run)
        AS told
    WHERE runs.no = told.run AND (runs.parked OR told.cancel)";

/// What a group reaches beside its own runs.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Runs to lock: those of the batches, readers, roots.
    pub(super) locked: Vec<i64>,
    /// Readers of mail.
    pub(super) readers: Vec<i64>,
    /// Runs that stop what is below them.
    pub(super) stopping: Vec<i64>,
    /// Roots of new children.
    pub(super) roots: Vec<i64>,
}

impl Reach {
    pub(super) fn of(batches: &[(Lease, &Batch)]) -> Self {
        let mut reach = Self::default();
        for (lease, batch) in batches {
            reach
                .readers
                .extend(batch.mail.iter().map(|letter| letter.to.0));
            if batch.stop_below.is_some() {
                reach.stopping.push(lease.run.0);
            }
            if !batch.sub_runs.new.is_empty() {
                reach.roots.push(batch.sub_runs.root.0);
            }
        }
        let others = reach.readers.iter().chain(&reach.roots);
        let others: BTreeSet<i64> = others.copied().collect();
        if !others.is_empty() || !reach.stopping.is_empty() {
            let own = batches.iter().map(|(lease, _)| lease.run.0);
            reach.locked = others.into_iter().chain(own).collect();
        }
        reach
    }
}

/// What the locked rows say about the runs that a group reaches.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Live readers, and whether somebody holds them.
    pub(super) readers: HashMap<i64, bool>,
    /// Live runs below, and whether somebody holds them.
    pub(super) below: HashMap<i64, Vec<(i64, bool)>>,
    /// Runs below each root.
    pub(super) counts: HashMap<i64, i64>,
}

impl Reached {
    /// Reads the rows of [`READERS`], [`LIVE_BELOW`] and [`COUNT_BELOW`].
    pub(super) fn read(readers: &[Row], below: &[Row], counts: &[Row]) -> Result<Self, Failure> {
        let mut reached = Self::default();
        for row in readers {
            reached.readers.insert(row.try_get(0)?, row.try_get(1)?);
        }
        for row in below {
            let of = reached.below.entry(row.try_get(0)?).or_default();
            of.push((row.try_get(1)?, row.try_get(2)?));
        }
        for row in counts {
            reached.counts.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(reached)
    }

    /// Takes room below the root for a batch's children.
    pub(super) fn take_room(&mut self, batch: &Batch) -> Result<(), Refusal> {
        let wanted = batch.sub_runs.new.len() as u64;
        if wanted == 0 {
            return Ok(());
        }
        let below = self.counts.entry(batch.sub_runs.root.0).or_insert(0);
        let room = u64::from(batch.sub_runs.max_below_root).saturating_sub(uint(*below));
        if wanted > room {
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            return Err(Refusal::TooManySubRuns { room });
        }
        *below = below.saturating_add(i64::try_from(wanted).unwrap_or(i64::MAX));
        Ok(())
    }
}

/// Rows that a group writes for other runs.
#[derive(Debug, Default)]
pub(super) struct TreeWork {
    mail: (Vec<i64>, Vec<i64>, Vec<String>),
    cancels: Vec<bool>,
    children: Vec<Child>,
    /// Runs of the group that nobody holds afterwards.
    left: BTreeSet<i64>,
    /// Runs of the group that are over afterwards.
    over: BTreeSet<i64>,
}

/// The values of [`SUB_RUN`].
#[derive(Debug)]
struct Child {
    parent: i64,
    at: i64,
    texts: [String; 7],
    agent_id: Option<String>,
    id: RunId,
}

/// Who has to be woken for one batch, without its children.
pub(super) type Told = Vec<Delivery>;

impl TreeWork {
    /// Takes note of what becomes of the group's own runs; before [`Self::add`].
    pub(super) fn note_own(&mut self, lease: Lease, batch: &Batch) {
        match batch.next {
            Next::Keep => return,
            Next::Finish(_) => {
                self.over.insert(lease.run.0);
            }
            Next::Park { .. } | Next::Defer { .. } | Next::Release | Next::Return => {}
        }
        self.left.insert(lease.run.0);
    }

    /// Adds a batch.
    pub(super) fn add(
        &mut self,
        lease: Lease,
        batch: &Batch,
        reached: &Reached,
    ) -> Result<Told, Failure> {
        let mut told = Vec::new();
        for letter in &batch.mail {
            if let Some(&held) = reached.readers.get(&letter.to.0) {
                told.extend(self.send(letter.to.0, held, batch, &letter.body)?);
            }
        }
        if let Some(reason) = &batch.stop_below {
            let body = MailBody::Cancel {
                reason: reason.clone(),
            };
            for &(run, held) in reached.below.get(&lease.run.0).into_iter().flatten() {
                told.extend(self.send(run, held, batch, &body)?);
            }
        }
        for child in &batch.sub_runs.new {
            let owned = |it: &str| text(it).into_owned();
            self.children.push(Child {
                parent: lease.run.0,
                at: batch.at.0,
                texts: [
                    owned(&child.model_id),
                    owned(&child.spec_name),
                    owned(&child.input_preview),
                    owned(&child.tool_use_id),
                    owned(&child.spec),
                    owned(&child.public_spec),
                    RunStatus::Queued.as_str().to_owned(),
                ],
                agent_id: maybe_text(child.agent_id.as_ref()).map(|it| it.into_owned()),
                id: child.id.clone(),
            });
        }
        Ok(told)
    }

    fn send(
        &mut self,
        run: i64,
        held: bool,
        batch: &Batch,
        body: &MailBody,
    ) -> Result<Option<Delivery>, Failure> {
        if self.over.contains(&run) {
            return Ok(None);
        }
        self.mail.0.push(run);
        self.mail.1.push(batch.at.0);
        self.mail.2.push(to_json(body)?);
        self.cancels.push(matches!(body, MailBody::Cancel { .. }));
        Ok(Some(if held && !self.left.contains(&run) {
            Delivery::Owner(RunNo(run))
        } else {
            Delivery::Queue(RunNo(run))
        }))
    }

    /// How many children are created; their statements come last.
    pub(super) fn children(&self) -> usize {
        self.children.len()
    }

    /// The statements, in the order in which they must run, after those of the group's own runs.
    pub(super) fn statements<'s>(
        &'s self,
        client: &'s Client,
        prepared: &'s Prepared,
    ) -> Vec<Sending<'s>> {
        let mut sending = Vec::new();
        if !self.mail.0.is_empty() {
            let (runs, times, bodies) = &self.mail;
            sending.push(query(
                client,
                &prepared.send_mail,
                vec![runs, times, bodies],
            ));
            sending.push(query(client, &prepared.wake, vec![runs, &self.cancels]));
        }
        for child in &self.children {
            let [model, name, preview, call, spec, public_spec, status] = &child.texts;
            let id: &'s RunId = &child.id;
            sending.push(Box::pin(async move {
                let id = id.as_str();
                client
                    .query(
                        &prepared.sub_run,
                        &[
                            &child.parent,
                            status,
                            &id,
                            &child.at,
                            model,
                            &child.agent_id,
                            name,
                            preview,
                            call,
                            spec,
                            public_spec,
                        ],
                    )
                    .await
            }));
        }
        sending
    }
}
