//! [`Runs`]: the API's side of runs.

use async_trait::async_trait;
use runloom_ports::store::{
    Cancelled, Census, Created, Earlier, Idempotency, MailBody, Millis, NewRun, PREVIEW_CHARS,
    Page, RunFilter, RunNo, RunRow, RunSummary, Runs, StoreResult, ToolDelivery, WorkspaceNo,
};
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::SubmitToolResult;
use tokio_postgres::Row;

use super::columns::{
    Word, get_count, get_json, get_maybe_json, get_maybe_text, get_maybe_time, get_text, get_time,
    get_word, text,
};
use super::error::Failure;
use super::filter::Conditions;
use super::notify::Notice;
use super::pool::Session;
use super::tree::{JOINS, LINEAGE, lineage};
use super::{PostgresStore, create, mail, uint};

#[async_trait]
impl Runs for PostgresStore {
    async fn earlier(&self, workspace: WorkspaceNo, key: &Idempotency) -> StoreResult<Earlier> {
        self.pool
            .read(|session| async move { create::earlier_use(&session, workspace, key).await })
            .await
    }

    async fn create_run(&self, run: NewRun) -> StoreResult<Created> {
        if let Some(start) = &run.start
            && !self.workers.is_fresh(&start.worker)
        {
            self.workers.tell(&self.pool, &start.worker).await?;
        }
        let new = &run;
        let seen = std::sync::Mutex::new(None);
        let last = &seen;
        let created = self
            .pool
            .transact("create_run", |session| async move {
                let created = create::insert(&session, new).await?;
                if let (Created::New { lease, .. }, Ok(mut last)) = (&created, last.lock()) {
                    *last = *lease;
                }
                Ok(created)
            })
            .await;
        let created = match created {
            Ok(created) => created,
            Err(failure) => {
                // The run may be there with a lease that nobody knows of; a living worker would keep it for ever.
                let lease = seen.into_inner().unwrap_or_default();
                if let (Failure::InDoubt, Some(lease)) = (&failure, lease) {
                    self.writer.give_back(lease);
                }
                return Err(failure.into());
            }
        };
        if let Created::New {
            lease: None,
            blocked: false,
            ..
        } = created
        {
            self.writer.notify(Notice::Queue);
        }
        Ok(created)
    }

    async fn run(&self, workspace: WorkspaceNo, id: &RunId) -> StoreResult<Option<RunRow>> {
        let sql = &format!("{} WHERE runs.id = $1 AND runs.workspace = $2", select());
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[&id.as_str(), &workspace.0]).await?;
                row.as_ref().map(run_row).transpose()
            })
            .await
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceNo,
        filter: &RunFilter,
        page: Page,
    ) -> StoreResult<Vec<RunSummary>> {
        let conditions = &Conditions::of_runs(workspace, filter).listing("runs", page);
        // A character may be stored as two.
        let chars = PREVIEW_CHARS * 2;
        let sql = &format!(
            "SELECT runs.no, runs.id, runs.status, sessions.id AS session_id, runs.metadata, runs.spec_name, runs.agent_id,
                 runs.model_id, runs.input_preview, left(runs.final_text, {chars}) AS output_preview,
                 runs.error, runs.tokens, runs.turns, runs.tool_calls, runs.cost_usd, runs.created_at, runs.started_at,
                 runs.completed_at, {LINEAGE}
             FROM runs LEFT JOIN sessions ON sessions.no = runs.session {JOINS}{}",
            conditions.sql()
        );
        self.pool
            .read(|session| async move {
                let rows = session.query_once(sql, &conditions.values()).await?;
                rows.iter().map(run_summary).collect()
            })
            .await
    }

    async fn count_runs(&self, workspace: WorkspaceNo, filter: &RunFilter) -> StoreResult<u64> {
        let conditions = Conditions::of_runs(workspace, filter);
        self.count("runs", &conditions).await
    }

    async fn backlog(&self) -> StoreResult<Vec<(WorkspaceNo, u64)>> {
        let sql = "SELECT workspace, count(*) FROM runs
                   WHERE completed_at IS NULL AND worker IS NULL AND NOT parked AND status = 'queued' GROUP BY workspace";
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[]).await?;
                let count = |row: &Row| Ok((WorkspaceNo(row.try_get(0)?), uint(row.try_get(1)?)));
                rows.iter().map(count).collect()
            })
            .await
    }

    async fn census(&self) -> StoreResult<Census> {
        // Each of these has an index of its own; of all runs that ever were there may be many.
        let sql = "SELECT
            (SELECT count(*) FROM runs WHERE completed_at IS NULL AND worker IS NULL AND NOT parked),
            (SELECT count(*) FROM runs WHERE worker IS NOT NULL),
            (SELECT count(*) FROM runs WHERE wake_at IS NOT NULL)";
        self.pool
            .read(|session| async move {
                let Some(row) = session.first(sql, &[]).await? else {
                    return Ok(Census::default());
                };
                Ok(Census {
                    waiting: uint(row.try_get(0)?),
                    held: uint(row.try_get(1)?),
                    parked: uint(row.try_get(2)?),
                })
            })
            .await
    }

    async fn deliver_tool_result(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        answer: &SubmitToolResult,
        idempotency: Option<&Idempotency>,
        now: Millis,
    ) -> StoreResult<ToolDelivery> {
        let silence = self.workers.silence();
        let answering = &Answering {
            workspace,
            id,
            answer,
            key: idempotency,
            now,
        };
        let delivered = self
            .pool
            .transact("tool_result", |session| async move {
                deliver(&session, answering, silence).await
            })
            .await?;
        if let ToolDelivery::Accepted(delivery) = &delivered {
            self.writer.notify(mail::notice(*delivery));
        }
        Ok(delivered)
    }

    async fn cancel_run(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        reason: &str,
        now: Millis,
    ) -> StoreResult<Cancelled> {
        let silence = self.workers.silence();
        let body = &MailBody::Cancel {
            reason: reason.to_owned(),
        };
        let cancelled = self
            .pool
            .transact("cancel", |session| async move {
                let Some(run) = mail::find(&session, workspace, id, silence).await? else {
                    return Ok(Cancelled::UnknownRun);
                };
                if run.cancel || run.status.is_terminal() {
                    return Ok(Cancelled::Nothing);
                }
                let sent = mail::send(&session, &run, body, now).await?;
                Ok(Cancelled::Accepted(sent))
            })
            .await?;
        if let Cancelled::Accepted(delivery) = &cancelled {
            self.writer.notify(mail::notice(*delivery));
        }
        Ok(cancelled)
    }
}

impl PostgresStore {
    /// How many rows of the table match.
    pub(super) async fn count(&self, table: &str, conditions: &Conditions) -> StoreResult<u64> {
        let sql = &format!("SELECT count(*) FROM {table}{}", conditions.sql());
        self.pool
            .read(|session| async move {
                let rows = session.query_once(sql, &conditions.values()).await?;
                match rows.first() {
                    Some(row) => Ok(uint(row.try_get(0)?)),
                    None => Ok(0),
                }
            })
            .await
    }
}

/// Statement that reads a [`RunRow`], up to its conditions.
fn select() -> String {
    format!(
        "SELECT runs.*, sessions.id AS session_id, run_specs.public_spec, {LINEAGE} FROM runs
         JOIN run_specs ON run_specs.run = runs.no
         LEFT JOIN sessions ON sessions.no = runs.session {JOINS}"
    )
}

fn run_row(row: &Row) -> Result<RunRow, Failure> {
    Ok(RunRow {
        no: RunNo(row.try_get("no")?),
        id: get_word(row, "id")?,
        status: get_word(row, "status")?,
        session: row
            .try_get::<_, Option<Word<SessionId>>>("session_id")?
            .map(|word| word.0),
        public_spec: get_text(row, "public_spec")?,
        input_preview: get_text(row, "input_preview")?,
        metadata: get_json(row, "metadata")?,
        agent_id: get_maybe_text(row, "agent_id")?,
        final_text: get_maybe_text(row, "final_text")?,
        error: get_maybe_text(row, "error")?,
        failure: get_maybe_json(row, "failure")?,
        cancel: get_maybe_json(row, "cancelled")?,
        tokens: get_maybe_json(row, "tokens")?,
        turns: turns(row)?,
        model: get_maybe_json(row, "model")?,
        cost_usd: row.try_get("cost_usd")?,
        subagents: get_maybe_json(row, "subagents")?,
        lineage: lineage(row)?,
        created_at: get_time(row, "created_at")?,
        started_at: get_maybe_time(row, "started_at")?,
        completed_at: get_maybe_time(row, "completed_at")?,
    })
}

fn turns(row: &Row) -> Result<Option<u32>, Failure> {
    let turns = row.try_get::<_, Option<i64>>("turns")?;
    Ok(turns.map(|turns| u32::try_from(turns).unwrap_or(0)))
}

fn run_summary(row: &Row) -> Result<RunSummary, Failure> {
    let output = get_maybe_text(row, "output_preview")?;
    Ok(RunSummary {
        no: RunNo(row.try_get("no")?),
        id: get_word(row, "id")?,
        status: get_word(row, "status")?,
        session: row
            .try_get::<_, Option<Word<SessionId>>>("session_id")?
            .map(|word| word.0),
        metadata: get_json(row, "metadata")?,
        spec_name: get_maybe_text(row, "spec_name")?,
        agent_id: get_maybe_text(row, "agent_id")?,
        model_id: get_text(row, "model_id")?,
        input_preview: get_text(row, "input_preview")?,
        output_preview: output.map(|text| text.chars().take(PREVIEW_CHARS).collect()),
        error: get_maybe_text(row, "error")?,
        tokens: get_maybe_json(row, "tokens")?,
        turns: turns(row)?,
        tool_calls: get_count(row, "tool_calls")?,
        cost_usd: row.try_get("cost_usd")?,
        lineage: lineage(row)?,
        created_at: get_time(row, "created_at")?,
        started_at: get_maybe_time(row, "started_at")?,
        completed_at: get_maybe_time(row, "completed_at")?,
    })
}

/// A client's answer to a call.
struct Answering<'a> {
    workspace: WorkspaceNo,
    id: &'a RunId,
    answer: &'a SubmitToolResult,
    key: Option<&'a Idempotency>,
    now: Millis,
}

async fn deliver(
    session: &Session,
    answering: &Answering<'_>,
    silence: f64,
) -> Result<ToolDelivery, Failure> {
    let Answering {
        workspace,
        id,
        answer,
        key,
        now,
    } = answering;
    let Some(run) = mail::find(session, *workspace, id, silence).await? else {
        return Ok(ToolDelivery::UnknownRun);
    };
    if let Some(key) = key {
        match create::earlier_use(session, *workspace, key).await? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(ToolDelivery::KeyReused),
            Earlier::Same(_) => return Ok(ToolDelivery::Replayed),
        }
    }
    match run.status {
        RunStatus::Cancelled => return Ok(ToolDelivery::Ignored),
        status if status.is_terminal() => return Ok(ToolDelivery::Terminal),
        _ if run.cancel => return Ok(ToolDelivery::Ignored),
        _ => {}
    }
    // The refusal of a call that is not open writes nothing: no row matches.
    let open = session
        .execute(
            "UPDATE calls SET answered_at = $3 WHERE run = $1 AND tool_use_id = $2 AND answered_at IS NULL",
            &[&run.run.0, &text(&answer.tool_use_id), &now.0],
        )
        .await?;
    if open == 0 {
        return Ok(ToolDelivery::UnknownCall);
    }
    if let Some(key) = key {
        create::remember_use(session, *workspace, key, "", *now).await?;
    }
    let body = MailBody::ToolResult {
        tool_use_id: answer.tool_use_id.clone(),
        answer: answer.answer.clone(),
        files: answer.files.clone(),
    };
    let sent = mail::send(session, &run, &body, *now).await?;
    Ok(ToolDelivery::Accepted(sent))
}
