//! [`Approvals`]: requests for a person's decision, and the decisions.

use async_trait::async_trait;
use runloom_ports::store::{
    ApprovalCensus, ApprovalFilter, ApprovalPage, ApprovalRow, Approvals, Batch, DecisionDelivery,
    Earlier, MailBody, Millis, Page, PutDecision, RunNo, StoreResult, StoredDecision, WorkspaceNo,
};
use runloom_protocol::approval::{ApprovalStatus, DecidedBy, Ruling};
use runloom_protocol::id::{ApprovalId, RunId, SessionId};
use runloom_protocol::policy::Approver;
use tokio_postgres::Row;

use super::columns::{
    Word, get_json, get_maybe_json, get_maybe_text, get_maybe_time, get_text, get_time, get_word,
    text, to_json,
};
use super::error::Failure;
use super::group::Values;
use super::pool::Session;
use super::{PostgresStore, create, int, mail, uint};

#[async_trait]
impl Approvals for PostgresStore {
    async fn decide_approval(&self, decision: PutDecision) -> StoreResult<DecisionDelivery> {
        let (decision, silence) = (&decision, self.workers.silence());
        let delivered = self
            .pool
            .transact("decide_approval", |session| async move {
                decide(&session, decision, silence).await
            })
            .await?;
        if let DecisionDelivery::Accepted(delivery, _) = &delivered {
            self.writer.notify(mail::notice(*delivery));
        }
        Ok(delivered)
    }

    async fn approval(
        &self,
        workspace: WorkspaceNo,
        id: &ApprovalId,
    ) -> StoreResult<Option<ApprovalRow>> {
        self.pool
            .read(|session| async move { find(&session, workspace, id).await })
            .await
    }

    async fn list_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<ApprovalPage> {
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
                            &wanted.status,
                            &wanted.run,
                            &wanted.root,
                            &wanted.visible_to,
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
                let rows = rows.iter().map(approval_row).collect::<Result<_, _>>()?;
                Ok(ApprovalPage { rows, cut })
            })
            .await
    }

    async fn count_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
    ) -> StoreResult<u64> {
        let wanted = &Wanted::of(filter);
        let sql = &format!("SELECT count(*) {FROM} {MATCHING}");
        self.pool
            .read(|session| async move {
                let row = session
                    .first(
                        sql,
                        &[
                            &workspace.0,
                            &wanted.status,
                            &wanted.run,
                            &wanted.root,
                            &wanted.visible_to,
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

    async fn pending_approvals(&self, run: RunNo) -> StoreResult<Vec<ApprovalId>> {
        self.pool
            .read(|session| async move {
                let rows = session.query(PENDING_OF_RUN, &[&run.0]).await?;
                rows.iter().map(|row| get_word(row, "id")).collect()
            })
            .await
    }

    async fn approval_census(&self) -> StoreResult<ApprovalCensus> {
        self.pool
            .read(|session| async move {
                let row = session
                    .first(
                        "SELECT count(*), min(created_at) FROM approvals WHERE status = 'pending'",
                        &[],
                    )
                    .await?;
                let Some(row) = row else {
                    return Ok(ApprovalCensus::default());
                };
                Ok(ApprovalCensus {
                    pending: uint(row.try_get(0)?),
                    oldest: row.try_get::<_, Option<i64>>(1)?.map(Millis),
                })
            })
            .await
    }
}

/// A filter as the statements take it.
struct Wanted<'a> {
    status: Option<&'static str>,
    run: Option<&'a str>,
    root: Option<&'a str>,
    visible_to: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(filter: &'a ApprovalFilter) -> Self {
        Self {
            status: filter.status.map(ApprovalStatus::as_str),
            run: filter.run.as_ref().map(RunId::as_str),
            root: filter.root.as_ref().map(RunId::as_str),
            visible_to: filter.visible_to.as_deref(),
        }
    }
}

/// The approvals of a group commit, column by column.
#[derive(Default)]
pub(super) struct Requested {
    pub(super) run: Vec<i64>,
    id: Vec<String>,
    approver: Vec<&'static str>,
    created_at: Vec<i64>,
    expires_at: Vec<i64>,
    request: Vec<String>,
    checks: Vec<String>,
    pub(super) expired: Vec<String>,
}

impl Requested {
    pub(super) fn add(&mut self, run: i64, batch: &Batch) -> Result<(), Failure> {
        for new in &batch.approvals {
            self.run.push(run);
            self.id.push(new.request.approval_id.as_str().to_owned());
            self.approver.push(new.approver.as_str());
            self.created_at.push(batch.at.0);
            self.expires_at.push(new.expires_at.0);
            self.request.push(to_json(&new.request)?);
            self.checks.push(text(&new.checks).into_owned());
        }
        let expired = batch.expired_approvals.iter();
        self.expired
            .extend(expired.map(|id| id.as_str().to_owned()));
        Ok(())
    }

    pub(super) fn values(&self) -> Values<'_> {
        vec![
            &self.run,
            &self.id,
            &self.approver,
            &self.created_at,
            &self.expires_at,
            &self.request,
            &self.checks,
        ]
    }
}

/// Opens approvals; one that exists stays as it is.
pub(super) const OPEN: &str = "INSERT INTO approvals (id, workspace, run, status, approver, created_at, expires_at, request, checks)
    SELECT opened.id, runs.workspace, opened.run, 'pending', opened.approver, opened.created_at, opened.expires_at,
        opened.request, opened.checks
    FROM unnest($1::BIGINT[], $2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::BIGINT[], $6::TEXT[], $7::TEXT[])
        WITH ORDINALITY AS opened (run, id, approver, created_at, expires_at, request, checks, nth)
    JOIN runs ON runs.no = opened.run
    ORDER BY opened.nth ON CONFLICT (id) DO NOTHING";

/// Denies approvals that nobody decided in time.
pub(super) const EXPIRE: &str = r#"UPDATE approvals SET status = 'expired', decided_at = expires_at,
        ruling = '{"decision":"deny"}', decided_by = '{"kind":"timeout"}'
    WHERE id = ANY($1) AND status = 'pending'"#;

/// Ends what is pending of runs that are over.
pub(super) const CANCEL: &str =
    "UPDATE approvals SET status = 'cancelled' WHERE run = ANY($1) AND status = 'pending'";

const PENDING_OF_RUN: &str = "WITH RECURSIVE below (no) AS (
        SELECT $1::BIGINT UNION ALL SELECT runs.no FROM runs JOIN below ON runs.parent = below.no)
    SELECT approvals.id FROM approvals JOIN below ON below.no = approvals.run
    WHERE approvals.status = 'pending' ORDER BY approvals.no";

const FROM: &str = "FROM approvals JOIN runs ON runs.no = approvals.run JOIN runs AS roots
        ON roots.no = coalesce(runs.root, runs.no)
    LEFT JOIN sessions ON sessions.no = runs.session";

/// What a filter finds; a condition that is NULL holds for all.
const MATCHING: &str =
    "WHERE approvals.workspace = $1 AND ($2::TEXT IS NULL OR approvals.status = $2)
    AND ($3::TEXT IS NULL OR runs.id = $3) AND ($4::TEXT IS NULL OR roots.id = $4)
    AND ($5::TEXT IS NULL OR runs.private_to IS NULL OR runs.private_to = $5)";

const COLUMNS: &str = "approvals.no, approvals.status, approvals.request, approvals.checks, approvals.created_at,
    approvals.expires_at, approvals.decided_at, approvals.ruling, approvals.decided_by, runs.agent_id, runs.metadata,
    roots.id AS root_id, sessions.id AS session_id";

/// The sum runs from the newest backwards, so that the server sends no more than what fits, and always the newest.
fn list_sql() -> String {
    format!(
        "SELECT * FROM (
             SELECT *, count(*) OVER () AS found, row_number() OVER (ORDER BY no DESC) AS nth,
                 sum(octet_length(request) + coalesce(octet_length(ruling), 0)) OVER (ORDER BY no DESC) AS bytes
             FROM (SELECT {COLUMNS} {FROM} {MATCHING} AND ($6::BIGINT IS NULL OR approvals.no < $6)
                   ORDER BY approvals.no DESC LIMIT $7 OFFSET $8) AS page
         ) AS sized WHERE nth = 1 OR bytes <= $9 ORDER BY no DESC"
    )
}

/// The asking run of an approval that the named run, or a run below it, asked for.
const ASKING: &str = "WITH RECURSIVE above (no) AS (
        SELECT run FROM approvals WHERE id = $1 UNION ALL
        SELECT runs.parent FROM runs JOIN above ON runs.no = above.no WHERE runs.parent IS NOT NULL)
    SELECT runs.id, runs.credential, approvals.approver FROM approvals JOIN runs ON runs.no = approvals.run
    WHERE approvals.id = $1 AND approvals.workspace = $2
        AND EXISTS (SELECT 1 FROM above JOIN runs AS named ON named.no = above.no WHERE named.id = $3)";

/// The run's row is locked before the approval is read: decisions, expiry and the end of the run happen one after the
/// other.
async fn decide(
    session: &Session,
    decision: &PutDecision,
    silence: f64,
) -> Result<DecisionDelivery, Failure> {
    let (workspace, id) = (decision.workspace, &decision.approval);
    let known = session
        .first(
            "SELECT 1 FROM runs WHERE id = $1 AND workspace = $2",
            &[&decision.run.as_str(), &workspace.0],
        )
        .await?;
    if known.is_none() {
        return Ok(DecisionDelivery::UnknownRun);
    }
    let asking = session
        .first(
            ASKING,
            &[&id.as_str(), &workspace.0, &decision.run.as_str()],
        )
        .await?;
    let Some(asking) = asking else {
        return Ok(DecisionDelivery::UnknownApproval);
    };
    let asking_run: RunId = get_word(&asking, "id")?;
    let Some(run) = mail::find(session, workspace, &asking_run, silence).await? else {
        return Ok(DecisionDelivery::UnknownApproval);
    };
    let Some(row) = find(session, workspace, id).await? else {
        return Ok(DecisionDelivery::UnknownApproval);
    };
    if let Some(key) = &decision.idempotency {
        match create::earlier_use(session, workspace, key).await? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(DecisionDelivery::KeyReused),
            Earlier::Same(_) => return Ok(DecisionDelivery::Same(Box::new(row))),
        }
    }
    let approver: Approver = get_word(&asking, "approver")?;
    let is_own = decision.by.id == Some(get_text(&asking, "credential")?);
    if approver == Approver::Other && is_own {
        return Ok(DecisionDelivery::NotForThisCredential);
    }
    if let Some(earlier) = row.answer_to(&decision.ruling) {
        return Ok(earlier);
    }
    if run.cancel || run.status.is_terminal() {
        return Ok(DecisionDelivery::Terminal);
    }
    if row.expires_at <= decision.now {
        session.execute(EXPIRE, &[&vec![id.as_str()]]).await?;
        let row = find(session, workspace, id).await?.unwrap_or(row);
        return Ok(DecisionDelivery::Decided(Box::new(row)));
    }
    session
        .execute(
            "UPDATE approvals SET status = $2, decided_at = $3, ruling = $4, decided_by = $5 WHERE id = $1",
            &[
                &id.as_str(),
                &ApprovalStatus::from(decision.ruling.decision).as_str(),
                &decision.now.0,
                &to_json(&decision.ruling)?,
                &to_json(&decision.by)?,
            ],
        )
        .await?;
    if let Some(key) = &decision.idempotency {
        create::remember_use(session, workspace, key, "", decision.now).await?;
    }
    let body = MailBody::Approval {
        approval: id.clone(),
        ruling: decision.ruling.clone(),
        by: decision.by.clone(),
    };
    let delivery = mail::send(session, &run, &body, decision.now).await?;
    let row = find(session, workspace, id).await?.unwrap_or(row);
    Ok(DecisionDelivery::Accepted(delivery, Box::new(row)))
}

async fn find(
    session: &Session,
    workspace: WorkspaceNo,
    id: &ApprovalId,
) -> Result<Option<ApprovalRow>, Failure> {
    let sql =
        format!("SELECT {COLUMNS} {FROM} WHERE approvals.id = $1 AND approvals.workspace = $2");
    let row = session.first(&sql, &[&id.as_str(), &workspace.0]).await?;
    row.as_ref().map(approval_row).transpose()
}

fn approval_row(row: &Row) -> Result<ApprovalRow, Failure> {
    let session: Option<Word<SessionId>> = row.try_get("session_id")?;
    let decision = match (
        get_maybe_json::<Ruling>(row, "ruling")?,
        get_maybe_json::<DecidedBy>(row, "decided_by")?,
        get_maybe_time(row, "decided_at")?,
    ) {
        (Some(ruling), Some(by), Some(at)) => Some(StoredDecision { ruling, by, at }),
        _ => None,
    };
    Ok(ApprovalRow {
        no: row.try_get("no")?,
        request: get_json(row, "request")?,
        status: get_word(row, "status")?,
        root: get_word(row, "root_id")?,
        agent_id: get_maybe_text(row, "agent_id")?,
        session: session.map(|word| word.0),
        metadata: get_json(row, "metadata")?,
        checks: get_text(row, "checks")?,
        created_at: get_time(row, "created_at")?,
        expires_at: get_time(row, "expires_at")?,
        decision,
    })
}
