-- Data of project modules: events, contacts and memories of owners.
CREATE TABLE project_records (
    no        INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    owner     TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    starts    INTEGER,
    ends      INTEGER,
    words     TEXT    NOT NULL,
    body      TEXT    NOT NULL,          -- JSON
    version   INTEGER NOT NULL,
    UNIQUE (workspace, kind, id, owner)
) STRICT;
CREATE INDEX project_records_by_owner ON project_records (workspace, owner, kind, starts);

CREATE TABLE project_invites (
    no        INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    event     TEXT    NOT NULL,
    email     TEXT    NOT NULL,
    status    TEXT    NOT NULL,
    message   TEXT,
    UNIQUE (workspace, id),
    UNIQUE (workspace, event, email)
) STRICT;
CREATE INDEX project_invites_by_email ON project_invites (workspace, email);

-- Responses of calls that changed something, for repetitions after a crash.
CREATE TABLE project_receipts (
    workspace  INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    response   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_receipts_by_age ON project_receipts (created_at);

-- Whether an API key may name the owner that it acts for.
ALTER TABLE api_keys ADD COLUMN act_for_owners INTEGER NOT NULL DEFAULT 0;

-- The personal owner whose run or session it is; others of that kind do not see it.
ALTER TABLE runs ADD COLUMN private_to TEXT;
ALTER TABLE sessions ADD COLUMN private_to TEXT;
