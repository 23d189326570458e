-- The first schema. Times are milliseconds since the Unix epoch; JSON is text, so that it comes back as it went in.
-- Words and ids are compared byte by byte (COLLATE "C"), whatever the database's language is.

CREATE TABLE workspaces (
    no           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug         TEXT   COLLATE "C" NOT NULL UNIQUE,
    name         TEXT   NOT NULL,
    switched_off TEXT   NOT NULL,            -- JSON array of features
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);

CREATE TABLE api_keys (
    no              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              TEXT   COLLATE "C" NOT NULL UNIQUE,
    workspace       BIGINT NOT NULL REFERENCES workspaces (no),
    name            TEXT   NOT NULL,
    prefix          TEXT   COLLATE "C" NOT NULL,
    hash            BYTEA  NOT NULL UNIQUE,
    usage           TEXT   NOT NULL,
    agent_ids       TEXT   NOT NULL,         -- JSON array
    runs_per_minute BIGINT,
    created_at      BIGINT NOT NULL,
    revoked_at      BIGINT
);
CREATE INDEX api_keys_by_prefix ON api_keys (prefix);
CREATE INDEX api_keys_by_workspace ON api_keys (workspace);

CREATE TABLE sessions (
    no           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    workspace    BIGINT NOT NULL REFERENCES workspaces (no),
    status       TEXT   NOT NULL,
    messages     BIGINT NOT NULL DEFAULT 0,  -- how many there are, and so the next one's number
    name         TEXT,
    metadata     TEXT   NOT NULL,            -- JSON object
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    ended_at     BIGINT
);
CREATE INDEX sessions_by_workspace ON sessions (workspace, no);

-- Specs are large and never change, the rows they belong to are small and often do: an UPDATE writes the whole row anew.
CREATE TABLE session_specs (
    session     BIGINT PRIMARY KEY,
    spec        TEXT NOT NULL,
    public_spec TEXT NOT NULL
);

CREATE TABLE messages (
    session BIGINT NOT NULL,
    n       BIGINT NOT NULL,
    body    TEXT   NOT NULL,                 -- JSON
    PRIMARY KEY (session, n)
);

-- Room in the pages, because every claim, park and end writes the row anew.
CREATE TABLE runs (
    no            BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch         BIGINT  NOT NULL,
    attempts      BIGINT  NOT NULL,
    worker        TEXT    COLLATE "C",       -- who holds it
    parked        BOOLEAN NOT NULL DEFAULT FALSE,
    wake_at       BIGINT,                    -- set only while parked
    cancel        BOOLEAN NOT NULL DEFAULT FALSE, -- a cancel was accepted
    status        TEXT    COLLATE "C" NOT NULL,
    completed_at  BIGINT,                    -- NULL = alive
    workspace     BIGINT  NOT NULL REFERENCES workspaces (no),
    session       BIGINT,
    id            TEXT    COLLATE "C" NOT NULL UNIQUE,
    created_at    BIGINT  NOT NULL,
    started_at    BIGINT,
    credential    TEXT    NOT NULL,
    model_id      TEXT    NOT NULL,
    agent_id      TEXT,
    spec_name     TEXT,
    input_preview TEXT    NOT NULL,
    metadata      TEXT    NOT NULL,          -- JSON object
    tool_calls    BIGINT  NOT NULL DEFAULT 0,
    turns         BIGINT,
    cost_usd      DOUBLE PRECISION,
    tokens        TEXT,                      -- JSON
    model         TEXT,                      -- JSON
    failure       TEXT,                      -- JSON
    cancelled     TEXT,                      -- JSON
    error         TEXT,
    final_text    TEXT
) WITH (fillfactor = 80);
CREATE INDEX runs_by_workspace ON runs (workspace, no);
CREATE INDEX runs_by_session ON runs (session, no) WHERE session IS NOT NULL;
CREATE INDEX runs_live_in_session ON runs (session, no) WHERE session IS NOT NULL AND completed_at IS NULL;
CREATE INDEX runs_unheld ON runs (no) WHERE completed_at IS NULL AND worker IS NULL AND NOT parked;
CREATE INDEX runs_held ON runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX runs_by_timer ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_by_end ON runs (completed_at) WHERE completed_at IS NOT NULL;

CREATE TABLE run_specs (
    run         BIGINT PRIMARY KEY,
    spec        TEXT NOT NULL,
    public_spec TEXT NOT NULL
);

-- Append-only: one row for each committed batch, frames as they are streamed. The fenced writer owns the numbers.
CREATE TABLE log (
    no        BIGINT  GENERATED ALWAYS AS IDENTITY,
    run       BIGINT  NOT NULL,
    first_seq BIGINT  NOT NULL,
    last_seq  BIGINT  NOT NULL,
    terminal  BOOLEAN NOT NULL,
    at        BIGINT  NOT NULL,
    notes     TEXT    NOT NULL,
    frames    BYTEA   NOT NULL
);
-- By the last number: "what comes after seq" is then one range, and rows of notes alone sort behind the events they follow.
CREATE INDEX log_by_run ON log (run, last_seq, no);

CREATE TABLE mail (
    no   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run  BIGINT NOT NULL,
    at   BIGINT NOT NULL,
    body TEXT   NOT NULL                     -- JSON
);
CREATE INDEX mail_by_run ON mail (run, no);

CREATE TABLE calls (
    run         BIGINT NOT NULL,
    tool_use_id TEXT   COLLATE "C" NOT NULL,
    deadline    BIGINT NOT NULL,
    answered_at BIGINT,
    PRIMARY KEY (run, tool_use_id)
);

CREATE TABLE idempotency (
    workspace   BIGINT NOT NULL,
    key         TEXT   COLLATE "C" NOT NULL,
    fingerprint BYTEA  NOT NULL,
    answer      TEXT   NOT NULL,             -- id of the run that was created, or empty
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Metadata once more, to filter lists by it. kind: 'run' or 'session'; owner: the row's number.
CREATE TABLE labels (
    workspace BIGINT NOT NULL,
    kind      TEXT   COLLATE "C" NOT NULL,
    label     TEXT   COLLATE "C" NOT NULL,
    value     TEXT   COLLATE "C" NOT NULL,
    owner     BIGINT NOT NULL,
    PRIMARY KEY (workspace, kind, label, value, owner)
);
CREATE INDEX labels_by_owner ON labels (owner, kind);

-- Who is alive. The only times that are the database's own: they are compared with each other, and the clocks of the
-- machines that workers run on differ.
CREATE TABLE workers (
    id           TEXT COLLATE "C" PRIMARY KEY,
    heartbeat_at TIMESTAMPTZ NOT NULL
);
