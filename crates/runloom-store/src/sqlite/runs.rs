//! [`Runs`]: the API's side of runs.

use async_trait::async_trait;
use runloom_ports::store::{
    Cancelled, Census, Created, Earlier, Idempotency, MailBody, Millis, NewRun, PREVIEW_CHARS,
    Page, RunFilter, RunNo, RunRow, RunSummary, Runs, StoreResult, ToolDelivery, WorkspaceNo,
};
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{Metadata, SubmitToolResult};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::columns::{Json, Word, json, time};
use super::filter::Conditions;
use super::transaction::Tx;
use super::tree::{JOINS, LINEAGE, lineage};
use super::{SqliteStore, create, mail, uint};

#[async_trait]
impl Runs for SqliteStore {
    async fn earlier(&self, workspace: WorkspaceNo, key: &Idempotency) -> StoreResult<Earlier> {
        let key = key.clone();
        self.read(move |connection| create::earlier_use(connection, workspace, &key))
            .await
    }

    async fn create_run(&self, run: NewRun) -> StoreResult<Created> {
        self.writer
            .run("create_run", move |tx| create::insert(tx, &run))
            .await
    }

    async fn run(&self, workspace: WorkspaceNo, id: &RunId) -> StoreResult<Option<RunRow>> {
        let id = id.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{} WHERE runs.id = ?1 AND runs.workspace = ?2",
                    select()
                ))?
                .query_row(params![id.as_str(), workspace.0], run_row)
                .optional()
        })
        .await
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceNo,
        filter: &RunFilter,
        page: Page,
    ) -> StoreResult<Vec<RunSummary>> {
        let conditions = Conditions::of_runs(workspace, filter);
        self.read(move |connection| list(connection, conditions, page))
            .await
    }

    async fn count_runs(&self, workspace: WorkspaceNo, filter: &RunFilter) -> StoreResult<u64> {
        let (rest, values) = Conditions::of_runs(workspace, filter).counting();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("SELECT count(*) FROM runs{rest}"))?
                .query_row(params_from_iter(values), |row| Ok(uint(row.get(0)?)))
        })
        .await
    }

    async fn backlog(&self) -> StoreResult<Vec<(WorkspaceNo, u64)>> {
        self.read(|connection| {
                connection
                    .prepare_cached(
                        "SELECT workspace, count(*) FROM runs
                         WHERE completed_at IS NULL AND worker IS NULL AND parked = 0 AND status = 'queued' GROUP BY workspace",
                    )?
                    .query_map([], |row| Ok((WorkspaceNo(row.get(0)?), uint(row.get(1)?))))?
                    .collect()
            })
            .await
    }

    async fn census(&self) -> StoreResult<Census> {
        self.read(|connection| {
                connection
                    .prepare_cached(
                        "SELECT
                            (SELECT count(*) FROM runs WHERE completed_at IS NULL AND worker IS NULL AND parked = 0),
                            (SELECT count(*) FROM runs WHERE worker IS NOT NULL),
                            (SELECT count(*) FROM runs WHERE wake_at IS NOT NULL)",
                    )?
                    .query_row([], |row| {
                        Ok(Census {
                            waiting: uint(row.get(0)?),
                            held: uint(row.get(1)?),
                            parked: uint(row.get(2)?),
                        })
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
        let (id, answer, key) = (id.clone(), answer.clone(), idempotency.cloned());
        self.writer
            .run("tool_result", move |tx| {
                deliver(tx, workspace, &id, &answer, key.as_ref(), now)
            })
            .await
    }

    async fn cancel_run(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        reason: &str,
        now: Millis,
    ) -> StoreResult<Cancelled> {
        let (id, reason) = (id.clone(), reason.to_owned());
        self.writer
            .run("cancel", move |tx| cancel(tx, workspace, &id, &reason, now))
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

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        no: RunNo(row.get("no")?),
        id: row.get::<_, Word<RunId>>("id")?.0,
        status: row.get::<_, Word<RunStatus>>("status")?.0,
        session: row
            .get::<_, Option<Word<SessionId>>>("session_id")?
            .map(|word| word.0),
        public_spec: row.get("public_spec")?,
        input_preview: row.get("input_preview")?,
        metadata: row.get::<_, Json<Metadata>>("metadata")?.0,
        agent_id: row.get("agent_id")?,
        final_text: row.get("final_text")?,
        error: row.get("error")?,
        failure: json(row, "failure")?,
        cancel: json(row, "cancelled")?,
        tokens: json(row, "tokens")?,
        turns: row.get("turns")?,
        model: json(row, "model")?,
        cost_usd: row.get("cost_usd")?,
        subagents: json(row, "subagents")?,
        lineage: lineage(row)?,
        created_at: Millis(row.get("created_at")?),
        started_at: time(row, "started_at")?,
        completed_at: time(row, "completed_at")?,
    })
}

fn list(
    connection: &Connection,
    conditions: Conditions,
    page: Page,
) -> rusqlite::Result<Vec<RunSummary>> {
    let (rest, values) = conditions.listing("runs", page);
    // As bytes: of a text, `substr` would read no further than a NUL. A character has four at most.
    let bytes = PREVIEW_CHARS * 4;
    connection
        .prepare_cached(&format!(
            "SELECT runs.no, runs.id, runs.status, sessions.id AS session_id, runs.metadata, runs.spec_name, runs.agent_id,
                 runs.model_id, runs.input_preview, substr(CAST(runs.final_text AS BLOB), 1, {bytes}) AS output_preview,
                 runs.error, runs.tokens, runs.turns, runs.tool_calls, runs.cost_usd, runs.created_at, runs.started_at,
                 runs.completed_at, {LINEAGE}
             FROM runs LEFT JOIN sessions ON sessions.no = runs.session {JOINS}{rest}"
        ))?
        .query_map(params_from_iter(values), run_summary)?
        .collect()
}

fn run_summary(row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    let output: Option<Vec<u8>> = row.get("output_preview")?;
    Ok(RunSummary {
        no: RunNo(row.get("no")?),
        id: row.get::<_, Word<RunId>>("id")?.0,
        status: row.get::<_, Word<RunStatus>>("status")?.0,
        session: row
            .get::<_, Option<Word<SessionId>>>("session_id")?
            .map(|word| word.0),
        metadata: row.get::<_, Json<Metadata>>("metadata")?.0,
        spec_name: row.get("spec_name")?,
        agent_id: row.get("agent_id")?,
        model_id: row.get("model_id")?,
        input_preview: row.get("input_preview")?,
        // Only behind the characters that are shown can one have been cut.
        output_preview: output.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            text.chars().take(PREVIEW_CHARS).collect()
        }),
        error: row.get("error")?,
        tokens: json(row, "tokens")?,
        turns: row.get("turns")?,
        tool_calls: row.get("tool_calls")?,
        cost_usd: row.get("cost_usd")?,
        lineage: lineage(row)?,
        created_at: Millis(row.get("created_at")?),
        started_at: time(row, "started_at")?,
        completed_at: time(row, "completed_at")?,
    })
}

fn deliver(
    tx: &mut Tx<'_>,
    workspace: WorkspaceNo,
    id: &RunId,
    answer: &SubmitToolResult,
    key: Option<&Idempotency>,
    now: Millis,
) -> rusqlite::Result<ToolDelivery> {
    let Some(run) = mail::find(tx, workspace, id)? else {
        return Ok(ToolDelivery::UnknownRun);
    };
    if let Some(key) = key {
        match create::earlier_use(tx.connection, workspace, key)? {
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
    let open = tx.execute(
        "UPDATE calls SET answered_at = ?3 WHERE run = ?1 AND tool_use_id = ?2 AND answered_at IS NULL",
        params![run.run.0, answer.tool_use_id, now.0],
    )?;
    if open == 0 {
        return Ok(ToolDelivery::UnknownCall);
    }
    if let Some(key) = key {
        create::remember_use(tx, workspace, key, "", now)?;
    }
    let body = MailBody::ToolResult {
        tool_use_id: answer.tool_use_id.clone(),
        answer: answer.answer.clone(),
        files: answer.files.clone(),
    };
    Ok(ToolDelivery::Accepted(mail::send(tx, &run, &body, now)?))
}

fn cancel(
    tx: &mut Tx<'_>,
    workspace: WorkspaceNo,
    id: &RunId,
    reason: &str,
    now: Millis,
) -> rusqlite::Result<Cancelled> {
    let Some(run) = mail::find(tx, workspace, id)? else {
        return Ok(Cancelled::UnknownRun);
    };
    if run.cancel || run.status.is_terminal() {
        return Ok(Cancelled::Nothing);
    }
    let body = MailBody::Cancel {
        reason: reason.to_owned(),
    };
    Ok(Cancelled::Accepted(mail::send(tx, &run, &body, now)?))
}
