-- The first schema. Times are milliseconds since the Unix epoch; JSON is text.

CREATE TABLE workspaces (
    no           INTEGER PRIMARY KEY,
    slug         TEXT    NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    switched_off TEXT    NOT NULL,           -- JSON array of features
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE api_keys (
    no              INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    workspace       INTEGER NOT NULL REFERENCES workspaces (no),
    name            TEXT    NOT NULL,
    prefix          TEXT    NOT NULL,
    hash            BLOB    NOT NULL UNIQUE,
    usage           TEXT    NOT NULL,
    agent_ids       TEXT    NOT NULL,        -- JSON array
    runs_per_minute INTEGER,
    created_at      INTEGER NOT NULL,
    revoked_at      INTEGER
) STRICT;
CREATE INDEX api_keys_by_prefix ON api_keys (prefix);
CREATE INDEX api_keys_by_workspace ON api_keys (workspace);

CREATE TABLE sessions (
    no           INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    workspace    INTEGER NOT NULL REFERENCES workspaces (no),
    status       TEXT    NOT NULL,
    messages     INTEGER NOT NULL DEFAULT 0, -- how many there are, and so the next one's number
    name         TEXT,
    metadata     TEXT    NOT NULL,           -- JSON object
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    ended_at     INTEGER
) STRICT;
CREATE INDEX sessions_by_workspace ON sessions (workspace);

-- Specs are large and never change, the rows they belong to are small and often do: an UPDATE rewrites the whole row.
CREATE TABLE session_specs (
    session     INTEGER PRIMARY KEY,
    spec        TEXT NOT NULL,
    public_spec TEXT NOT NULL
) STRICT;

CREATE TABLE messages (
    no      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    body    TEXT    NOT NULL                 -- JSON
) STRICT;
CREATE UNIQUE INDEX messages_by_session ON messages (session, n);

-- AUTOINCREMENT: a number must not come back after a purge, because leases and queued jobs speak of runs by number.
CREATE TABLE runs (
    no            INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    worker        TEXT,                      -- who holds it
    parked        INTEGER NOT NULL DEFAULT 0,
    wake_at       INTEGER,                   -- set only while parked
    cancel        INTEGER NOT NULL DEFAULT 0, -- a cancel was accepted
    status        TEXT    NOT NULL,
    completed_at  INTEGER,                   -- NULL = alive
    workspace     INTEGER NOT NULL REFERENCES workspaces (no),
    session       INTEGER,
    id            TEXT    NOT NULL UNIQUE,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    credential    TEXT    NOT NULL,
    model_id      TEXT    NOT NULL,
    agent_id      TEXT,
    spec_name     TEXT,
    input_preview TEXT    NOT NULL,
    metadata      TEXT    NOT NULL,          -- JSON object
    tool_calls    INTEGER NOT NULL DEFAULT 0,
    turns         INTEGER,
    cost_usd      REAL,
    tokens        TEXT,                      -- JSON
    model         TEXT,                      -- JSON
    failure       TEXT,                      -- JSON
    cancelled     TEXT,                      -- JSON
    error         TEXT,
    final_text    TEXT
) STRICT;
CREATE INDEX runs_by_workspace ON runs (workspace);
CREATE INDEX runs_by_session ON runs (session) WHERE session IS NOT NULL;
CREATE INDEX runs_live_in_session ON runs (session) WHERE session IS NOT NULL AND completed_at IS NULL;
CREATE INDEX runs_unheld ON runs (no) WHERE completed_at IS NULL AND worker IS NULL AND parked = 0;
CREATE INDEX runs_held ON runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX runs_by_timer ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_by_end ON runs (completed_at) WHERE completed_at IS NOT NULL;

CREATE TABLE run_specs (
    run         INTEGER PRIMARY KEY,
    spec        TEXT NOT NULL,
    public_spec TEXT NOT NULL
) STRICT;

-- Append-only: one row for each committed batch, frames as they are streamed. The fenced writer owns the numbers.
CREATE TABLE log (
    no        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    terminal  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    notes     TEXT    NOT NULL,
    frames    BLOB    NOT NULL
) STRICT;
-- By the last number: "what comes after seq" is then one range, and rows of notes alone sort behind the events they follow.
CREATE INDEX log_by_run ON log (run, last_seq);

-- AUTOINCREMENT: readers remember the last number they saw.
CREATE TABLE mail (
    no   INTEGER PRIMARY KEY AUTOINCREMENT,
    run  INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    body TEXT    NOT NULL                    -- JSON
) STRICT;
CREATE INDEX mail_by_run ON mail (run);

CREATE TABLE calls (
    run         INTEGER NOT NULL,
    tool_use_id TEXT    NOT NULL,
    deadline    INTEGER NOT NULL,
    answered_at INTEGER,
    PRIMARY KEY (run, tool_use_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    no          INTEGER PRIMARY KEY,
    workspace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    answer      TEXT    NOT NULL,            -- id of the run that was created, or empty
    created_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX idempotency_by_key ON idempotency (workspace, key);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Metadata once more, to filter lists by it. kind: 'run' or 'session'; owner: the row's number.
CREATE TABLE labels (
    workspace INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    label     TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    owner     INTEGER NOT NULL,
    PRIMARY KEY (workspace, kind, label, value, owner)
) STRICT, WITHOUT ROWID;
