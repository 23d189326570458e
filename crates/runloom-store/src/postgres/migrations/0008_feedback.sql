-- The model that a session's runs stay on since one of them fell back.
ALTER TABLE sessions ADD COLUMN active_model TEXT;

-- What people thought of a run's answer: one row for a run, gone with it, also when a replica deletes the run that does not know
-- of feedback yet.
CREATE TABLE feedback (
    no          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT   COLLATE "C" NOT NULL UNIQUE,
    workspace   BIGINT NOT NULL,
    run         BIGINT NOT NULL UNIQUE REFERENCES runs (no) ON DELETE CASCADE,
    verdict     TEXT   COLLATE "C" NOT NULL,
    explanation TEXT,
    snapshot    TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE INDEX feedback_by_workspace ON feedback (workspace, no);
