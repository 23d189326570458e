-- Data of project modules: events, contacts and memories of owners.
CREATE TABLE project_records (
    no        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace BIGINT NOT NULL,
    kind      TEXT   COLLATE "C" NOT NULL,
    owner     TEXT   COLLATE "C" NOT NULL,
    id        TEXT   COLLATE "C" NOT NULL,
    starts    BIGINT,
    ends      BIGINT,
    words     TEXT   COLLATE "C" NOT NULL,
    body      TEXT   NOT NULL,           -- JSON
    version   BIGINT NOT NULL,
    UNIQUE (workspace, kind, id, owner)
);
CREATE INDEX project_records_by_owner ON project_records (workspace, owner, kind, starts);

CREATE TABLE project_invites (
    no        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace BIGINT NOT NULL,
    id        TEXT   COLLATE "C" NOT NULL,
    event     TEXT   COLLATE "C" NOT NULL,
    email     TEXT   COLLATE "C" NOT NULL,
    status    TEXT   COLLATE "C" NOT NULL,
    message   TEXT,
    UNIQUE (workspace, id),
    UNIQUE (workspace, event, email)
);
CREATE INDEX project_invites_by_email ON project_invites (workspace, email);

-- Responses of calls that changed something, for repetitions after a crash.
CREATE TABLE project_receipts (
    workspace  BIGINT NOT NULL,
    key        TEXT   COLLATE "C" NOT NULL,
    owner      TEXT   COLLATE "C" NOT NULL,
    response   TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX project_receipts_by_age ON project_receipts (created_at);

-- Whether an API key may name the owner that it acts for.
ALTER TABLE api_keys ADD COLUMN act_for_owners BOOLEAN NOT NULL DEFAULT FALSE;

-- The personal owner whose run or session it is; others of that kind do not see it.
ALTER TABLE runs ADD COLUMN private_to TEXT COLLATE "C";
ALTER TABLE sessions ADD COLUMN private_to TEXT COLLATE "C";
