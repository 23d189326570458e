-- Threads of AG-UI: the key names workspace owner, agent and thread. All of it goes with the session, also when a replica
-- deletes the session that does not know of threads yet.
CREATE TABLE threads (
    workspace BIGINT NOT NULL,
    key       TEXT   COLLATE "C" NOT NULL,
    session   BIGINT NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX threads_by_session ON threads (session);

-- The AG-UI runs that a thread has seen, with what is needed to send them again.
CREATE TABLE ag_ui_runs (
    session     BIGINT NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    id          TEXT   COLLATE "C" NOT NULL,
    body        TEXT   NOT NULL,             -- JSON
    followed_at BIGINT NOT NULL,
    PRIMARY KEY (session, id)
);

-- The ids that clients gave to the results of calls.
CREATE TABLE tool_messages (
    session     BIGINT NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    tool_use_id TEXT   COLLATE "C" NOT NULL,
    message_id  TEXT   NOT NULL,
    PRIMARY KEY (session, tool_use_id)
);
