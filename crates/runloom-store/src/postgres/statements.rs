//! The writer's statements.

use futures_util::future::{try_join, try_join3, try_join4, try_join5};
use runloom_ports::planted::{self, Bug};
use tokio_postgres::{Client, Statement};

use super::doubt::IDENTIFY;
use super::{approvals, ledger, tree};

/// The writer's statements, prepared once for each connection.
pub(super) struct Prepared {
    pub(super) xid: Statement,
    pub(super) lock_sessions: Statement,
    pub(super) lock_runs: Statement,
    pub(super) last_mail: Statement,
    pub(super) next_in_session: Statement,
    pub(super) notify: Statement,
    pub(super) give_back: Statement,
    pub(super) log: Statement,
    pub(super) mail: Statement,
    pub(super) closed: Statement,
    pub(super) opened: Statement,
    pub(super) kept: Statement,
    pub(super) ended: Statement,
    pub(super) calls: Statement,
    pub(super) messages: Statement,
    pub(super) sessions: Statement,
    pub(super) lock_purses: Statement,
    pub(super) settle: Statement,
    pub(super) settled: Statement,
    pub(super) used: Statement,
    pub(super) lock_trees: Statement,
    pub(super) readers: Statement,
    pub(super) live_below: Statement,
    pub(super) count_below: Statement,
    pub(super) send_mail: Statement,
    pub(super) wake: Statement,
    pub(super) sub_run: Statement,
    pub(super) open_approvals: Statement,
    pub(super) expire_approvals: Statement,
    pub(super) cancel_approvals: Statement,
}

impl Prepared {
    /// Prepares everything in a few round trips.
    #[expect(clippy::too_many_lines, reason = "a list of statements")]
    pub(super) async fn on(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let prepare = |sql| client.prepare(sql);
        let fence = if planted::is_planted(Bug::NoFence) {
            LOCK_RUNS_UNFENCED
        } else {
            LOCK_RUNS
        };
        let ((xid, lock_sessions, lock_runs, last_mail, next_in_session), (notify, give_back)) =
            try_join(
                try_join5(
                    prepare(IDENTIFY),
                    prepare(LOCK_SESSIONS),
                    prepare(fence),
                    prepare(LAST_MAIL),
                    prepare(NEXT_IN_SESSION),
                ),
                try_join(prepare(NOTIFY), prepare(GIVE_BACK)),
            )
            .await?;
        let ((log, mail, closed, opened, kept), (ended, calls, messages, sessions)) = try_join(
            try_join5(
                prepare(LOG),
                prepare(DELETE_MAIL),
                prepare(CLOSE_CALLS),
                prepare(OPEN_CALLS),
                prepare(KEEP),
            ),
            try_join4(
                prepare(END),
                prepare("DELETE FROM calls WHERE run = ANY($1)"),
                prepare(MESSAGES),
                prepare(SESSIONS),
            ),
        )
        .await?;
        let (lock_purses, settle, settled, used) = try_join4(
            prepare(ledger::LOCK_PURSES),
            prepare(ledger::SETTLE),
            prepare(ledger::SETTLED),
            prepare(ledger::USE),
        )
        .await?;
        let ((lock_trees, readers, live_below, count_below), (send_mail, wake, sub_run)) =
            try_join(
                try_join4(
                    prepare(tree::LOCK_TREES),
                    prepare(tree::READERS),
                    prepare(tree::LIVE_BELOW),
                    prepare(tree::COUNT_BELOW),
                ),
                try_join3(
                    prepare(tree::SEND_MAIL),
                    prepare(tree::WAKE),
                    prepare(tree::SUB_RUN),
                ),
            )
            .await?;
        let (open_approvals, expire_approvals, cancel_approvals) = try_join3(
            prepare(approvals::OPEN),
            prepare(approvals::EXPIRE),
            prepare(approvals::CANCEL),
        )
        .await?;
        Ok(Self {
            xid,
            lock_sessions,
            lock_runs,
            last_mail,
            next_in_session,
            notify,
            give_back,
            log,
            mail,
            closed,
            opened,
            kept,
            ended,
            calls,
            messages,
            sessions,
            lock_purses,
            settle,
            settled,
            used,
            lock_trees,
            readers,
            live_below,
            count_below,
            send_mail,
            wake,
            sub_run,
            open_approvals,
            expire_approvals,
            cancel_approvals,
        })
    }
}

/// Sessions before runs, each in the order of their numbers: everybody locks in this order, so nobody waits in a
/// circle.
const LOCK_SESSIONS: &str = "SELECT no, messages FROM sessions
    WHERE no IN (SELECT session FROM runs WHERE runs.no = ANY($1)) ORDER BY no FOR NO KEY UPDATE";

/// The fence: only rows whose lease is the batch's come back, and nobody changes them until we commit.
const LOCK_RUNS: &str = "SELECT runs.no, runs.attempts > 0, runs.session
    FROM unnest($1::BIGINT[], $2::BIGINT[]) AS lease (run, epoch)
    JOIN runs ON runs.no = lease.run AND runs.epoch = lease.epoch AND runs.worker IS NOT NULL
    ORDER BY runs.no FOR NO KEY UPDATE OF runs";

/// The same without the fence, for tests of the tests.
const LOCK_RUNS_UNFENCED: &str = "SELECT runs.no, runs.attempts > 0, runs.session
    FROM unnest($1::BIGINT[], $2::BIGINT[]) AS lease (run, epoch) JOIN runs ON runs.no = lease.run
    ORDER BY runs.no FOR NO KEY UPDATE OF runs";

/// A statement of its own, after the locks: it must see mail that was written while we waited for them.
const LAST_MAIL: &str = "SELECT run, max(no) FROM mail WHERE run = ANY($1) GROUP BY run";

const LOG: &str = "INSERT INTO log (run, first_seq, last_seq, terminal, at, notes, frames)
    SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BOOLEAN[], $5::BIGINT[], $6::TEXT[], $7::BYTEA[])";

const DELETE_MAIL: &str =
    "DELETE FROM mail USING unnest($1::BIGINT[], $2::BIGINT[]) AS folded (run, through)
    WHERE mail.run = folded.run AND mail.no <= folded.through";

const CLOSE_CALLS: &str =
    "DELETE FROM calls USING unnest($1::BIGINT[], $2::TEXT[]) AS closed (run, id)
    WHERE calls.run = closed.run AND calls.tool_use_id = closed.id";

const OPEN_CALLS: &str = "INSERT INTO calls (run, tool_use_id, deadline)
    SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::BIGINT[])
    ON CONFLICT (run, tool_use_id) DO UPDATE SET deadline = excluded.deadline, answered_at = NULL";

const KEEP: &str = "UPDATE runs SET
        worker = CASE WHEN kept.leaves THEN NULL ELSE runs.worker END,
        attempts = greatest(runs.attempts - kept.forgiven, 0),
        status = coalesce(kept.status, runs.status), parked = kept.parked, wake_at = kept.wake_at
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[], $4::BOOLEAN[], $5::BOOLEAN[], $6::BIGINT[])
        AS kept (run, forgiven, status, leaves, parked, wake_at)
    WHERE runs.no = kept.run";

const END: &str = "UPDATE runs SET worker = NULL, attempts = 0, parked = FALSE, wake_at = NULL,
        status = ended.status, completed_at = ended.completed_at, tool_calls = ended.tool_calls, turns = ended.turns,
        cost_usd = ended.cost_usd, tokens = ended.tokens, model = ended.model, failure = ended.failure,
        cancelled = ended.cancelled, error = ended.error, final_text = ended.final_text, subagents = ended.subagents
    FROM unnest($1::BIGINT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::DOUBLE PRECISION[], $7::TEXT[],
            $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::TEXT[])
        AS ended (run, status, completed_at, tool_calls, turns, cost_usd, tokens, model, failure, cancelled, error,
            final_text, subagents)
    WHERE runs.no = ended.run";

const MESSAGES: &str = "INSERT INTO messages (session, n, body)
    SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[])";

/// Of several runs of a session only one has had its turn, so at most one names a model.
const SESSIONS: &str = "UPDATE sessions SET messages = messages + used.added, last_used_at = greatest(last_used_at, used.at),
        active_model = coalesce(used.model, active_model)
    FROM (SELECT session, sum(added)::BIGINT AS added, max(at) AS at, max(model) AS model
        FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[]) AS used (session, added, at, model)
        GROUP BY session) AS used
    WHERE sessions.no = used.session";

/// The oldest live run of each session, and whether it waits for a worker.
const NEXT_IN_SESSION: &str =
    "SELECT DISTINCT ON (session) session, no, worker IS NULL AND NOT parked FROM runs
    WHERE session = ANY($1) AND completed_at IS NULL ORDER BY session, no";

const NOTIFY: &str = "SELECT pg_notify(channel, payload) FROM unnest($1::TEXT[], $2::TEXT[]) AS told (channel, payload)";

const GIVE_BACK: &str = "UPDATE runs SET worker = NULL, attempts = greatest(attempts - 1, 0)
    WHERE no = $1 AND epoch = $2 AND worker IS NOT NULL AND completed_at IS NULL";
