-- Threads of AG-UI: the key names workspace owner, agent and thread.
CREATE TABLE threads (
    workspace INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    session   INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_by_session ON threads (session);

-- The AG-UI runs that a thread has seen, with what is needed to send them again.
CREATE TABLE ag_ui_runs (
    session     INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    body        TEXT    NOT NULL,            -- JSON
    followed_at INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

-- The ids that clients gave to the results of calls.
CREATE TABLE tool_messages (
    session     INTEGER NOT NULL,
    tool_use_id TEXT    NOT NULL,
    message_id  TEXT    NOT NULL,
    PRIMARY KEY (session, tool_use_id)
) STRICT, WITHOUT ROWID;
