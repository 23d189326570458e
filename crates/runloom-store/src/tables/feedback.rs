//! [`Feedback`]: verdicts of people on the answers of runs.

use runloom_ports::store::{
    Feedback, FeedbackFilter, FeedbackPage, FeedbackPut, FeedbackRow, Page, PutFeedback,
    StoreResult, WorkspaceNo,
};
use runloom_protocol::id::{FeedbackId, RunId, SessionId};
use runloom_protocol::spec::Verdict;

use super::{on_both, work};
use crate::sql::{Malformed, Row, Statements, Value, number, values};

on_both! { impl Feedback {
    async fn put_feedback(&self, new: PutFeedback) -> StoreResult<FeedbackPut> {
        self.write_tables("put_feedback", new, work!(put)).await
    }

    async fn list_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<FeedbackPage> {
        let wanted = Wanted { filter: found(workspace, filter), page, max_bytes };
        self.read_tables(wanted, work!(list)).await
    }

    async fn count_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
    ) -> StoreResult<u64> {
        self.read_tables(found(workspace, filter), work!(count)).await
    }
} }

/// A page of a list.
struct Wanted {
    filter: [Value; 6],
    page: Page,
    max_bytes: usize,
}

/// The rows that a filter selects. A condition that is NULL holds for all.
const FOUND: &str = "FROM feedback JOIN runs ON runs.no = feedback.run LEFT JOIN sessions ON sessions.no = runs.session
    WHERE feedback.workspace = $1 AND ($2::TEXT IS NULL OR feedback.verdict = $2) AND ($3::TEXT IS NULL OR runs.id = $3)
      AND ($4::TEXT IS NULL OR sessions.id = $4) AND ($5::TEXT IS NULL OR runs.agent_id = $5)
      AND ($6::TEXT IS NULL OR runs.private_to IS NULL OR runs.private_to = $6)";

/// The values of [`FOUND`].
fn found(workspace: WorkspaceNo, filter: &FeedbackFilter) -> [Value; 6] {
    values![
        workspace,
        filter.verdict.map(Verdict::as_str),
        filter.run.as_ref().map(RunId::as_str),
        filter.session.as_ref().map(SessionId::as_str),
        filter.agent_id.as_ref(),
        filter.visible_to.as_ref(),
    ]
}

/// The run is locked while this is written. Of two concurrent verdicts the second replaces the first.
async fn put<S: Statements>(statements: &S, new: &PutFeedback) -> Result<FeedbackPut, S::Error> {
    let run = statements
        .first(
            "SELECT no FROM runs WHERE id = $1 AND workspace = $2 FOR KEY SHARE",
            &values![new.run.as_str(), new.workspace],
        )
        .await?;
    let Some(run) = run else {
        return Ok(FeedbackPut::UnknownRun);
    };
    let kept = statements
        .first(
            "INSERT INTO feedback (id, workspace, run, verdict, explanation, snapshot, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
             ON CONFLICT (run) DO UPDATE SET verdict = excluded.verdict, explanation = excluded.explanation,
                 snapshot = excluded.snapshot, updated_at = excluded.updated_at
             RETURNING id",
            &values![
                new.id.as_str(),
                new.workspace,
                run.int("no")?,
                new.verdict.as_str(),
                new.explanation.as_ref(),
                new.snapshot.as_ref(),
                new.now,
            ],
        )
        .await?;
    let kept: Option<FeedbackId> = kept.map(|row| row.word("id")).transpose()?;
    Ok(match kept {
        Some(first) if first != new.id => FeedbackPut::Replaced(first),
        _ => FeedbackPut::New,
    })
}

/// Sizes are summed from the newest row backwards, so that the database sends only what fits, and always the newest.
async fn list<S: Statements>(statements: &S, wanted: &Wanted) -> Result<FeedbackPage, S::Error> {
    let sql = format!(
        "SELECT * FROM (
             SELECT *, count(*) OVER () AS found, row_number() OVER (ORDER BY no DESC) AS nth,
                 sum(octet_length(coalesce(explanation, '')) + octet_length(coalesce(snapshot, '')))
                     OVER (ORDER BY no DESC)::BIGINT AS bytes
             FROM (SELECT feedback.no, feedback.id, feedback.verdict, feedback.explanation, feedback.snapshot,
                       feedback.created_at, feedback.updated_at, runs.id AS run_id, runs.agent_id, sessions.id AS session_id
                   {FOUND} AND ($7::BIGINT IS NULL OR feedback.no < $7)
                   ORDER BY feedback.no DESC LIMIT $8 OFFSET $9) AS page
         ) AS sized WHERE nth = 1 OR bytes <= $10 ORDER BY no DESC"
    );
    let page = wanted.page;
    let mut bound = wanted.filter.to_vec();
    bound.extend(values![
        page.before,
        number(page.limit),
        number(page.offset),
        number(wanted.max_bytes),
    ]);
    let rows = statements.query(&sql, &bound).await?;
    let found = rows.first().map_or(Ok(0), |row| row.count("found"))?;
    let cut = found > rows.len() as u64;
    let rows = rows.iter().map(feedback_row).collect::<Result<_, _>>()?;
    Ok(FeedbackPage { rows, cut })
}

async fn count<S: Statements>(statements: &S, filter: &[Value; 6]) -> Result<u64, S::Error> {
    let sql = format!("SELECT count(*) AS found {FOUND}");
    let row = statements.first(&sql, filter).await?;
    Ok(row.map_or(Ok(0), |row| row.count("found"))?)
}

fn feedback_row(row: &Row) -> Result<FeedbackRow, Malformed> {
    Ok(FeedbackRow {
        no: row.int("no")?,
        id: row.word("id")?,
        verdict: row.word("verdict")?,
        explanation: row.maybe_text("explanation")?,
        snapshot: row.maybe_text("snapshot")?,
        run: row.word("run_id")?,
        session: row.maybe_word("session_id")?,
        agent_id: row.maybe_text("agent_id")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}
