//! Trees of runs: creating children, stopping what is below a run, and where a run stands.

use runloom_ports::store::{
    Batch, Delivery, Lease, Lineage, MailBody, Millis, NewSubRun, RunNo, SubRuns, WorkspaceNo,
};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::Metadata;
use rusqlite::{OptionalExtension, Row, params};

use super::columns::{Json, Word};
use super::commit::Refusal;
use super::transaction::Tx;
use super::{filter, mail, uint};

/// Columns and joins that tell where a run of the table `runs` stands in its tree.
pub(super) const LINEAGE: &str =
    "parents.id AS parent_id, roots.id AS root_id, runs.depth, runs.parent_call";
pub(super) const JOINS: &str = "LEFT JOIN runs AS parents ON parents.no = runs.parent
    LEFT JOIN runs AS roots ON roots.no = runs.root";

/// Reads [`LINEAGE`].
pub(super) fn lineage(row: &Row<'_>) -> rusqlite::Result<Option<Lineage>> {
    let id = |column| -> rusqlite::Result<Option<RunId>> {
        Ok(row
            .get::<_, Option<Word<RunId>>>(column)?
            .map(|word| word.0))
    };
    let (Some(parent), Some(root)) = (id("parent_id")?, id("root_id")?) else {
        return Ok(None);
    };
    Ok(Some(Lineage {
        parent,
        tool_use_id: row
            .get::<_, Option<String>>("parent_call")?
            .unwrap_or_default(),
        root,
        depth: row.get("depth")?,
    }))
}

/// Refuses children that the root has no room for.
pub(super) fn check_room(tx: &Tx<'_>, sub_runs: &SubRuns) -> rusqlite::Result<Result<(), Refusal>> {
    if sub_runs.new.is_empty() {
        return Ok(Ok(()));
    }
    let below: i64 = tx
        .connection
        .prepare_cached("SELECT count(*) FROM runs WHERE root = ?1")?
        .query_row([sub_runs.root.0], |row| row.get(0))?;
    let room = u64::from(sub_runs.max_below_root).saturating_sub(uint(below));
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    Ok(if sub_runs.new.len() as u64 > u64::from(room) {
        Err(Refusal::TooManySubRuns { room })
    } else {
        Ok(())
    })
}

/// Does what a batch does to other runs, and says who has to be woken.
pub(super) fn reach(
    tx: &mut Tx<'_>,
    lease: Lease,
    batch: &Batch,
) -> rusqlite::Result<Vec<Delivery>> {
    let mut deliveries = Vec::new();
    for child in &batch.sub_runs.new {
        let created = create(tx, lease.run, child, batch.at)?;
        deliveries.extend(created.map(Delivery::Queue));
    }
    for letter in &batch.mail {
        if let Some(to) = mail::live(tx, letter.to)? {
            deliveries.push(mail::send(tx, &to, &letter.body, batch.at)?);
        }
    }
    if let Some(reason) = &batch.stop_below {
        let body = MailBody::Cancel {
            reason: reason.clone(),
        };
        for to in mail::live_below(tx, lease.run)? {
            if !to.cancel {
                deliveries.push(mail::send(tx, &to, &body, batch.at)?);
            }
        }
    }
    Ok(deliveries)
}

/// Inserts a child below `parent`; `None` when it exists.
fn create(
    tx: &mut Tx<'_>,
    parent: RunNo,
    child: &NewSubRun,
    at: Millis,
) -> rusqlite::Result<Option<RunNo>> {
    let inserted = tx.execute(
        "INSERT INTO runs (epoch, attempts, status, workspace, id, created_at, credential, model_id, agent_id, spec_name,
             input_preview, metadata, parent, root, depth, parent_call, private_to)
         SELECT 0, 0, ?2, workspace, ?3, ?4, credential, ?5, ?6, ?7, ?8, metadata, no, coalesce(root, no), depth + 1, ?9,
             private_to
         FROM runs WHERE no = ?1
         ON CONFLICT (id) DO NOTHING",
        params![
            parent.0,
            RunStatus::Queued.as_str(),
            child.id.as_str(),
            at.0,
            child.model_id,
            child.agent_id,
            child.spec_name,
            child.input_preview,
            child.tool_use_id,
        ],
    )?;
    if inserted == 0 {
        return Ok(None);
    }
    let run = RunNo(tx.connection.last_insert_rowid());
    tx.execute(
        "INSERT INTO run_specs (run, spec, public_spec) VALUES (?1, ?2, ?3)",
        params![run.0, child.spec, child.public_spec],
    )?;
    let labels = tx
        .connection
        .prepare_cached("SELECT workspace, metadata FROM runs WHERE no = ?1")?
        .query_row([run.0], |row| {
            Ok((WorkspaceNo(row.get(0)?), row.get::<_, Json<Metadata>>(1)?.0))
        })
        .optional()?;
    if let Some((workspace, metadata)) = labels {
        filter::label(tx, filter::Kind::Run, workspace, run.0, &metadata)?;
    }
    Ok(Some(run))
}
