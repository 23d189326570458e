-- Sessions are deleted from now on. AUTOINCREMENT: a number must not come back, because runs that are kept longer still have it.
CREATE TABLE sessions_numbered (
    no           INTEGER PRIMARY KEY AUTOINCREMENT,
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
INSERT INTO sessions_numbered (no, id, workspace, status, messages, name, metadata, created_at, last_used_at, ended_at)
    SELECT no, id, workspace, status, messages, name, metadata, created_at, last_used_at, ended_at FROM sessions ORDER BY no;
DROP TABLE sessions;
ALTER TABLE sessions_numbered RENAME TO sessions;
CREATE INDEX sessions_by_workspace ON sessions (workspace);
CREATE INDEX sessions_by_end ON sessions (ended_at) WHERE ended_at IS NOT NULL;
