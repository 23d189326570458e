-- The model that a session's runs stay on since one of them fell back.
ALTER TABLE sessions ADD COLUMN active_model TEXT;

-- What people thought of a run's answer: one row for a run, gone with it. AUTOINCREMENT: lists go on by number.
CREATE TABLE feedback (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    workspace   INTEGER NOT NULL,
    run         INTEGER NOT NULL UNIQUE,
    verdict     TEXT    NOT NULL,
    explanation TEXT,
    snapshot    TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX feedback_by_workspace ON feedback (workspace, no);
