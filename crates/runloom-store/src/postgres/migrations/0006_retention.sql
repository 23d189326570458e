-- Ended sessions are deleted when they are old.

CREATE INDEX sessions_by_end ON sessions (ended_at) WHERE ended_at IS NOT NULL;
