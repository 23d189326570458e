-- Requests for a person's decision about a tool call; deleted with their run.
CREATE TABLE approvals (
    no         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT   COLLATE "C" NOT NULL UNIQUE,
    workspace  BIGINT NOT NULL,
    run        BIGINT NOT NULL REFERENCES runs (no) ON DELETE CASCADE,
    status     TEXT   COLLATE "C" NOT NULL,
    approver   TEXT   COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    ruling     TEXT,
    decided_by TEXT,
    request    TEXT   NOT NULL,
    checks     TEXT   NOT NULL
);
CREATE INDEX approvals_by_workspace ON approvals (workspace, no);
CREATE INDEX approvals_by_status ON approvals (workspace, status, no);
CREATE INDEX approvals_by_run ON approvals (run);
CREATE INDEX approvals_pending ON approvals (created_at) WHERE status = 'pending';
