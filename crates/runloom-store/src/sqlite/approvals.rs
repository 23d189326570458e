//! [`Approvals`]: requests for a person's decision, and the decisions.

use async_trait::async_trait;
use runloom_ports::store::{
    ApprovalCensus, ApprovalFilter, ApprovalPage, ApprovalRow, Approvals, Batch, DecisionDelivery,
    Earlier, MailBody, Millis, Page, PutDecision, RunNo, StoreResult, StoredDecision, WorkspaceNo,
};
use runloom_protocol::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, Ruling};
use runloom_protocol::id::{ApprovalId, RunId, SessionId};
use runloom_protocol::policy::Approver;
use runloom_protocol::spec::Metadata;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Json, Word, json, time};
use super::transaction::Tx;
use super::{SqliteStore, create, int, mail, uint};

#[async_trait]
impl Approvals for SqliteStore {
    async fn decide_approval(&self, decision: PutDecision) -> StoreResult<DecisionDelivery> {
        self.writer
            .run("decide_approval", move |tx| decide(tx, &decision))
            .await
    }

    async fn approval(
        &self,
        workspace: WorkspaceNo,
        id: &ApprovalId,
    ) -> StoreResult<Option<ApprovalRow>> {
        let id = id.clone();
        self.read(move |connection| find(connection, workspace, &id))
            .await
    }

    async fn list_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<ApprovalPage> {
        let filter = filter.clone();
        self.read(move |connection| list(connection, workspace, &filter, (page, max_bytes)))
            .await
    }

    async fn count_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
    ) -> StoreResult<u64> {
        let filter = filter.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("SELECT count(*) {FROM} {MATCHING}"))?
                .query_row(
                    params![
                        workspace.0,
                        filter.status.map(ApprovalStatus::as_str),
                        filter.run.as_ref().map(RunId::as_str),
                        filter.root.as_ref().map(RunId::as_str),
                        filter.visible_to,
                    ],
                    |row| Ok(uint(row.get(0)?)),
                )
        })
        .await
    }

    async fn pending_approvals(&self, run: RunNo) -> StoreResult<Vec<ApprovalId>> {
        self.read(move |connection| {
            connection
                .prepare_cached(PENDING_OF_RUN)?
                .query_map([run.0], |row| Ok(row.get::<_, Word<ApprovalId>>(0)?.0))?
                .collect()
        })
        .await
    }

    async fn approval_census(&self) -> StoreResult<ApprovalCensus> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT count(*), min(created_at) FROM approvals WHERE status = 'pending'",
                )?
                .query_row([], |row| {
                    Ok(ApprovalCensus {
                        pending: uint(row.get(0)?),
                        oldest: row.get::<_, Option<i64>>(1)?.map(Millis),
                    })
                })
        })
        .await
    }
}

const PENDING_OF_RUN: &str = "WITH RECURSIVE below (no) AS (
        SELECT ?1 UNION ALL SELECT runs.no FROM runs JOIN below ON runs.parent = below.no)
    SELECT approvals.id FROM approvals JOIN below ON below.no = approvals.run
    WHERE approvals.status = 'pending' ORDER BY approvals.no";

const FROM: &str = "FROM approvals JOIN runs ON runs.no = approvals.run JOIN runs AS roots
        ON roots.no = coalesce(runs.root, runs.no)
    LEFT JOIN sessions ON sessions.no = runs.session";

/// What a filter finds; a condition that is NULL holds for all.
const MATCHING: &str = "WHERE approvals.workspace = ?1 AND (?2 IS NULL OR approvals.status = ?2)
    AND (?3 IS NULL OR runs.id = ?3) AND (?4 IS NULL OR roots.id = ?4)
    AND (?5 IS NULL OR runs.private_to IS NULL OR runs.private_to = ?5)";

const COLUMNS: &str = "approvals.no, approvals.status, approvals.request, approvals.checks, approvals.created_at,
    approvals.expires_at, approvals.decided_at, approvals.ruling, approvals.decided_by, runs.agent_id, runs.metadata,
    roots.id AS root_id, sessions.id AS session_id";

/// Opens and expires approvals with a batch of their run.
pub(super) fn update(tx: &mut Tx<'_>, run: RunNo, batch: &Batch) -> rusqlite::Result<()> {
    if !batch.approvals.is_empty() {
        tx.held.set_plain(run, None);
    }
    for new in &batch.approvals {
        tx.execute(
            "INSERT INTO approvals (id, workspace, run, status, approver, created_at, expires_at, request, checks)
             SELECT ?2, workspace, no, 'pending', ?3, ?4, ?5, ?6, ?7 FROM runs WHERE no = ?1
             ON CONFLICT (id) DO NOTHING",
            params![
                run.0,
                new.request.approval_id.as_str(),
                new.approver.as_str(),
                batch.at.0,
                new.expires_at.0,
                Json(&new.request),
                new.checks,
            ],
        )?;
    }
    for id in &batch.expired_approvals {
        expire(tx, id)?;
    }
    Ok(())
}

/// Ends what is pending of a run that is over.
pub(super) fn cancel(tx: &Tx<'_>, run: RunNo) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE approvals SET status = 'cancelled' WHERE run = ?1 AND status = 'pending'",
        params![run.0],
    )?;
    Ok(())
}

/// Denies an approval that nobody decided in time.
fn expire(tx: &Tx<'_>, id: &ApprovalId) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE approvals SET status = 'expired', decided_at = expires_at, ruling = ?2, decided_by = ?3
         WHERE id = ?1 AND status = 'pending'",
        params![id.as_str(), Json(&timed_out()), Json(&DecidedBy::timeout())],
    )?;
    Ok(())
}

fn timed_out() -> Ruling {
    Ruling {
        decision: ApprovalVerdict::Deny,
        input: None,
        sub_decisions: Vec::new(),
        note: None,
    }
}

/// The asking run of an approval that the named run, or a run below it, asked for.
const ASKING: &str = "WITH RECURSIVE above (no) AS (
        SELECT run FROM approvals WHERE id = ?1 UNION ALL
        SELECT runs.parent FROM runs JOIN above ON runs.no = above.no WHERE runs.parent IS NOT NULL)
    SELECT runs.id, runs.credential, approvals.approver FROM approvals JOIN runs ON runs.no = approvals.run
    WHERE approvals.id = ?1 AND approvals.workspace = ?2
        AND EXISTS (SELECT 1 FROM above JOIN runs AS named ON named.no = above.no WHERE named.id = ?3)";

/// The asking run of an approval, as a decision needs it.
struct Asking {
    run: RunId,
    credential: String,
    approver: Approver,
}

fn asking(tx: &Tx<'_>, decision: &PutDecision) -> rusqlite::Result<Option<Asking>> {
    tx.connection
        .prepare_cached(ASKING)?
        .query_row(
            params![
                decision.approval.as_str(),
                decision.workspace.0,
                decision.run.as_str()
            ],
            |row| {
                Ok(Asking {
                    run: row.get::<_, Word<RunId>>(0)?.0,
                    credential: row.get(1)?,
                    approver: row.get::<_, Word<Approver>>(2)?.0,
                })
            },
        )
        .optional()
}

fn decide(tx: &mut Tx<'_>, decision: &PutDecision) -> rusqlite::Result<DecisionDelivery> {
    let workspace = decision.workspace;
    if mail::find(tx, workspace, &decision.run)?.is_none() {
        return Ok(DecisionDelivery::UnknownRun);
    }
    let Some(asking) = asking(tx, decision)? else {
        return Ok(DecisionDelivery::UnknownApproval);
    };
    let (Some(row), Some(run)) = (
        find(tx.connection, workspace, &decision.approval)?,
        mail::find(tx, workspace, &asking.run)?,
    ) else {
        return Ok(DecisionDelivery::UnknownApproval);
    };
    if let Some(key) = &decision.idempotency {
        match create::earlier_use(tx.connection, workspace, key)? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(DecisionDelivery::KeyReused),
            Earlier::Same(_) => return Ok(DecisionDelivery::Same(Box::new(row))),
        }
    }
    let is_own = decision.by.id.as_deref() == Some(asking.credential.as_str());
    if asking.approver == Approver::Other && is_own {
        return Ok(DecisionDelivery::NotForThisCredential);
    }
    if let Some(earlier) = row.answer_to(&decision.ruling) {
        return Ok(earlier);
    }
    if run.cancel || run.status.is_terminal() {
        return Ok(DecisionDelivery::Terminal);
    }
    if row.expires_at <= decision.now {
        expire(tx, &decision.approval)?;
        let row = find(tx.connection, workspace, &decision.approval)?.unwrap_or(row);
        return Ok(DecisionDelivery::Decided(Box::new(row)));
    }
    tx.execute(
        "UPDATE approvals SET status = ?2, decided_at = ?3, ruling = ?4, decided_by = ?5 WHERE id = ?1",
        params![
            decision.approval.as_str(),
            ApprovalStatus::from(decision.ruling.decision).as_str(),
            decision.now.0,
            Json(&decision.ruling),
            Json(&decision.by),
        ],
    )?;
    if let Some(key) = &decision.idempotency {
        create::remember_use(tx, workspace, key, "", decision.now)?;
    }
    let body = MailBody::Approval {
        approval: decision.approval.clone(),
        ruling: decision.ruling.clone(),
        by: decision.by.clone(),
    };
    let delivery = mail::send(tx, &run, &body, decision.now)?;
    let row = find(tx.connection, workspace, &decision.approval)?.unwrap_or(row);
    Ok(DecisionDelivery::Accepted(delivery, Box::new(row)))
}

fn find(
    connection: &Connection,
    workspace: WorkspaceNo,
    id: &ApprovalId,
) -> rusqlite::Result<Option<ApprovalRow>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} {FROM} WHERE approvals.id = ?1 AND approvals.workspace = ?2"
        ))?
        .query_row(params![id.as_str(), workspace.0], approval_row)
        .optional()
}

fn list(
    connection: &Connection,
    workspace: WorkspaceNo,
    filter: &ApprovalFilter,
    (page, max_bytes): (Page, usize),
) -> rusqlite::Result<ApprovalPage> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, length(CAST(approvals.request AS BLOB)) + coalesce(length(CAST(approvals.ruling AS BLOB)), 0) AS bytes
         {FROM} {MATCHING} AND (?6 IS NULL OR approvals.no < ?6) ORDER BY approvals.no DESC LIMIT ?7 OFFSET ?8"
    ))?;
    let mut rows = statement.query(params![
        workspace.0,
        filter.status.map(ApprovalStatus::as_str),
        filter.run.as_ref().map(RunId::as_str),
        filter.root.as_ref().map(RunId::as_str),
        filter.visible_to,
        page.before,
        int(page.limit as u64),
        int(page.offset as u64),
    ])?;
    let (mut found, mut bytes) = (ApprovalPage::default(), 0);
    while let Some(row) = rows.next()? {
        bytes += uint(row.get("bytes")?);
        if bytes > max_bytes as u64 && !found.rows.is_empty() {
            found.cut = true;
            break;
        }
        found.rows.push(approval_row(row)?);
    }
    Ok(found)
}

fn approval_row(row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    let session: Option<Word<SessionId>> = row.get("session_id")?;
    let decision = match (
        json::<Ruling>(row, "ruling")?,
        json::<DecidedBy>(row, "decided_by")?,
        time(row, "decided_at")?,
    ) {
        (Some(ruling), Some(by), Some(at)) => Some(StoredDecision { ruling, by, at }),
        _ => None,
    };
    Ok(ApprovalRow {
        no: row.get("no")?,
        request: row.get::<_, Json<_>>("request")?.0,
        status: row.get::<_, Word<ApprovalStatus>>("status")?.0,
        root: row.get::<_, Word<RunId>>("root_id")?.0,
        agent_id: row.get("agent_id")?,
        session: session.map(|word| word.0),
        metadata: row.get::<_, Json<Metadata>>("metadata")?.0,
        checks: row.get("checks")?,
        created_at: Millis(row.get("created_at")?),
        expires_at: Millis(row.get("expires_at")?),
        decision,
    })
}
