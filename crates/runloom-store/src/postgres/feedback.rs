//! [`Feedback`]: what people thought of runs' answers.

use async_trait::async_trait;
use runloom_ports::store::{
    Feedback, FeedbackFilter, FeedbackPage, FeedbackPut, FeedbackRow, Page, PutFeedback,
    StoreResult, WorkspaceNo,
};
use runloom_protocol::id::{FeedbackId, RunId, SessionId};
use runloom_protocol::spec::Verdict;
use tokio_postgres::Row;

use super::columns::{Word, get_maybe_text, get_time, get_word, maybe_text};
use super::error::Failure;
use super::pool::Session;
use super::{PostgresStore, int, uint};

#[async_trait]
impl Feedback for PostgresStore {
    async fn put_feedback(&self, new: PutFeedback) -> StoreResult<FeedbackPut> {
        let new = &new;
        let done = self
            .pool
            .transact(
                "put_feedback",
                |session| async move { put(&session, new).await },
            )
            .await?;
        Ok(done)
    }

    async fn list_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<FeedbackPage> {
        let wanted = &Wanted::of(filter);
        let (limit, offset) = (int(page.limit as u64), int(page.offset as u64));
        let room = int(max_bytes as u64);
        let sql = &list_sql();
        self.pool
            .read(|session| async move {
                let rows = session
                    .query(
                        sql,
                        &[
                            &workspace.0,
                            &wanted.verdict,
                            &wanted.run,
                            &wanted.session,
                            &wanted.agent,
                            &page.before,
                            &limit,
                            &offset,
                            &room,
                        ],
                    )
                    .await?;
                let found: i64 = match rows.first() {
                    Some(row) => row.try_get("found")?,
                    None => 0,
                };
                let cut = found > int(rows.len() as u64);
                let rows = rows.iter().map(feedback_row).collect::<Result<_, _>>()?;
                Ok(FeedbackPage { rows, cut })
            })
            .await
    }

    async fn count_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
    ) -> StoreResult<u64> {
        let wanted = &Wanted::of(filter);
        let sql = &format!("SELECT count(*) {FOUND}");
        self.pool
            .read(|session| async move {
                let row = session
                    .first(
                        sql,
                        &[
                            &workspace.0,
                            &wanted.verdict,
                            &wanted.run,
                            &wanted.session,
                            &wanted.agent,
                        ],
                    )
                    .await?;
                match row {
                    Some(row) => Ok(uint(row.try_get(0)?)),
                    None => Ok(0),
                }
            })
            .await
    }
}

/// A filter as the statements take it.
struct Wanted<'a> {
    verdict: Option<&'static str>,
    run: Option<&'a str>,
    session: Option<&'a str>,
    agent: Option<String>,
}

impl<'a> Wanted<'a> {
    fn of(filter: &'a FeedbackFilter) -> Self {
        let agent = maybe_text(filter.agent_id.as_ref());
        Self {
            verdict: filter.verdict.map(Verdict::as_str),
            run: filter.run.as_ref().map(RunId::as_str),
            session: filter.session.as_ref().map(SessionId::as_str),
            agent: agent.map(|agent| agent.into_owned()),
        }
    }
}

/// What a filter finds; a condition that is NULL holds for all.
const FOUND: &str = "FROM feedback JOIN runs ON runs.no = feedback.run LEFT JOIN sessions ON sessions.no = runs.session
    WHERE feedback.workspace = $1 AND ($2::TEXT IS NULL OR feedback.verdict = $2) AND ($3::TEXT IS NULL OR runs.id = $3)
      AND ($4::TEXT IS NULL OR sessions.id = $4) AND ($5::TEXT IS NULL OR runs.agent_id = $5)";

/// The sum runs from the newest backwards, so that the server sends no more than what fits, and always the newest.
fn list_sql() -> String {
    format!(
        "SELECT * FROM (
             SELECT *, count(*) OVER () AS found, row_number() OVER (ORDER BY no DESC) AS nth,
                 sum(octet_length(coalesce(explanation, '')) + octet_length(coalesce(snapshot, ''))) OVER (ORDER BY no DESC) AS bytes
             FROM (SELECT feedback.no, feedback.id, feedback.verdict, feedback.explanation, feedback.snapshot,
                       feedback.created_at, feedback.updated_at, runs.id AS run_id, runs.agent_id, sessions.id AS session_id
                   {FOUND} AND ($6::BIGINT IS NULL OR feedback.no < $6)
                   ORDER BY feedback.no DESC LIMIT $7 OFFSET $8) AS page
         ) AS sized WHERE nth = 1 OR bytes <= $9 ORDER BY no DESC"
    )
}

/// The run stays while this is written. Of two at once the second replaces the first.
async fn put(session: &Session, new: &PutFeedback) -> Result<FeedbackPut, Failure> {
    let run = session
        .first(
            "SELECT no FROM runs WHERE id = $1 AND workspace = $2 FOR KEY SHARE",
            &[&new.run.as_str(), &new.workspace.0],
        )
        .await?;
    let Some(run) = run else {
        return Ok(FeedbackPut::UnknownRun);
    };
    let run: i64 = run.try_get(0)?;
    let kept = session
        .first(
            "INSERT INTO feedback (id, workspace, run, verdict, explanation, snapshot, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
             ON CONFLICT (run) DO UPDATE SET verdict = excluded.verdict, explanation = excluded.explanation,
                 snapshot = excluded.snapshot, updated_at = excluded.updated_at
             RETURNING id",
            &[
                &new.id.as_str(),
                &new.workspace.0,
                &run,
                &new.verdict.as_str(),
                &maybe_text(new.explanation.as_ref()),
                &maybe_text(new.snapshot.as_ref()),
                &new.now.0,
            ],
        )
        .await?;
    let id: Option<FeedbackId> = match kept {
        Some(row) => Some(get_word(&row, "id")?),
        None => None,
    };
    Ok(match id {
        Some(first) if first != new.id => FeedbackPut::Replaced(first),
        _ => FeedbackPut::New,
    })
}

fn feedback_row(row: &Row) -> Result<FeedbackRow, Failure> {
    let session: Option<Word<SessionId>> = row.try_get("session_id")?;
    Ok(FeedbackRow {
        no: row.try_get("no")?,
        id: get_word(row, "id")?,
        verdict: get_word(row, "verdict")?,
        explanation: get_maybe_text(row, "explanation")?,
        snapshot: get_maybe_text(row, "snapshot")?,
        run: get_word(row, "run_id")?,
        session: session.map(|word| word.0),
        agent_id: get_maybe_text(row, "agent_id")?,
        created_at: get_time(row, "created_at")?,
        updated_at: get_time(row, "updated_at")?,
    })
}
