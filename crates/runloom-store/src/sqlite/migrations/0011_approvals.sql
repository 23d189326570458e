-- Requests for a person's decision about a tool call; deleted with their run. AUTOINCREMENT: lists go on by number.
CREATE TABLE approvals (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    workspace  INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    approver   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    ruling     TEXT,
    decided_by TEXT,
    request    TEXT    NOT NULL,
    checks     TEXT    NOT NULL
) STRICT;
CREATE INDEX approvals_by_workspace ON approvals (workspace, no);
CREATE INDEX approvals_by_status ON approvals (workspace, status, no);
CREATE INDEX approvals_by_run ON approvals (run);
CREATE INDEX approvals_pending ON approvals (created_at) WHERE status = 'pending';
