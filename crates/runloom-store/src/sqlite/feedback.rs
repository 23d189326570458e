//! [`Feedback`]: what people thought of runs' answers.

use async_trait::async_trait;
use runloom_ports::store::{
    Feedback, FeedbackFilter, FeedbackPage, FeedbackPut, FeedbackRow, Millis, Page, PutFeedback,
    StoreResult, WorkspaceNo,
};
use runloom_protocol::id::{FeedbackId, RunId, SessionId};
use runloom_protocol::spec::Verdict;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::Word;
use super::transaction::Tx;
use super::{SqliteStore, int, uint};

#[async_trait]
impl Feedback for SqliteStore {
    async fn put_feedback(&self, new: PutFeedback) -> StoreResult<FeedbackPut> {
        self.writer
            .run("put_feedback", move |tx| put(tx, &new))
            .await
    }

    async fn list_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<FeedbackPage> {
        let filter = filter.clone();
        self.read(move |connection| list(connection, workspace, &filter, (page, max_bytes)))
            .await
    }

    async fn count_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
    ) -> StoreResult<u64> {
        let filter = filter.clone();
        self.read(move |connection| {
            let FeedbackFilter {
                verdict,
                run,
                session,
                agent_id,
            } = &filter;
            connection
                .prepare_cached(&format!("SELECT count(*) {FOUND}"))?
                .query_row(
                    params![
                        workspace.0,
                        verdict.map(Verdict::as_str),
                        run.as_ref().map(RunId::as_str),
                        session.as_ref().map(SessionId::as_str),
                        agent_id,
                    ],
                    |row| Ok(uint(row.get(0)?)),
                )
        })
        .await
    }
}

/// What a filter finds; a condition that is NULL holds for all.
const FOUND: &str = "FROM feedback JOIN runs ON runs.no = feedback.run LEFT JOIN sessions ON sessions.no = runs.session
    WHERE feedback.workspace = ?1 AND (?2 IS NULL OR feedback.verdict = ?2) AND (?3 IS NULL OR runs.id = ?3)
      AND (?4 IS NULL OR sessions.id = ?4) AND (?5 IS NULL OR runs.agent_id = ?5)";

fn put(tx: &Tx<'_>, new: &PutFeedback) -> rusqlite::Result<FeedbackPut> {
    let run: Option<i64> = tx
        .connection
        .prepare_cached("SELECT no FROM runs WHERE id = ?1 AND workspace = ?2")?
        .query_row(params![new.run.as_str(), new.workspace.0], |row| row.get(0))
        .optional()?;
    let Some(run) = run else {
        return Ok(FeedbackPut::UnknownRun);
    };
    let earlier = tx
        .connection
        .prepare_cached("SELECT id FROM feedback WHERE run = ?1")?
        .query_row([run], |row| Ok(row.get::<_, Word<FeedbackId>>(0)?.0))
        .optional()?;
    if let Some(first) = earlier {
        tx.execute(
            "UPDATE feedback SET verdict = ?2, explanation = ?3, snapshot = ?4, updated_at = ?5 WHERE run = ?1",
            params![run, new.verdict.as_str(), new.explanation, new.snapshot, new.now.0],
        )?;
        return Ok(FeedbackPut::Replaced(first));
    }
    tx.execute(
        "INSERT INTO feedback (id, workspace, run, verdict, explanation, snapshot, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        params![
            new.id.as_str(),
            new.workspace.0,
            run,
            new.verdict.as_str(),
            new.explanation,
            new.snapshot,
            new.now.0,
        ],
    )?;
    Ok(FeedbackPut::New)
}

fn list(
    connection: &Connection,
    workspace: WorkspaceNo,
    filter: &FeedbackFilter,
    (page, max_bytes): (Page, usize),
) -> rusqlite::Result<FeedbackPage> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT feedback.no, feedback.id, feedback.verdict, feedback.explanation, feedback.snapshot, feedback.created_at,
             feedback.updated_at, runs.id AS run_id, runs.agent_id, sessions.id AS session_id
         {FOUND} AND (?6 IS NULL OR feedback.no < ?6) ORDER BY feedback.no DESC LIMIT ?7 OFFSET ?8"
    ))?;
    let mut rows = statement.query(params![
        workspace.0,
        filter.verdict.map(Verdict::as_str),
        filter.run.as_ref().map(RunId::as_str),
        filter.session.as_ref().map(SessionId::as_str),
        filter.agent_id,
        page.before,
        int(page.limit as u64),
        int(page.offset as u64),
    ])?;
    let (mut found, mut bytes) = (FeedbackPage::default(), 0);
    while let Some(row) = rows.next()? {
        let row = feedback_row(row)?;
        let texts = [&row.explanation, &row.snapshot];
        bytes += texts
            .map(|text| text.as_ref().map_or(0, String::len))
            .iter()
            .sum::<usize>();
        if bytes > max_bytes && !found.rows.is_empty() {
            found.cut = true;
            break;
        }
        found.rows.push(row);
    }
    Ok(found)
}

fn feedback_row(row: &Row<'_>) -> rusqlite::Result<FeedbackRow> {
    let session: Option<Word<SessionId>> = row.get("session_id")?;
    Ok(FeedbackRow {
        no: row.get("no")?,
        id: row.get::<_, Word<FeedbackId>>("id")?.0,
        verdict: row.get::<_, Word<Verdict>>("verdict")?.0,
        explanation: row.get("explanation")?,
        snapshot: row.get("snapshot")?,
        run: row.get::<_, Word<RunId>>("run_id")?.0,
        session: session.map(|word| word.0),
        agent_id: row.get("agent_id")?,
        created_at: Millis(row.get("created_at")?),
        updated_at: Millis(row.get("updated_at")?),
    })
}
