-- Runs that nobody holds, by workspace: a workspace with many must not hide the others from a sweep.

CREATE INDEX runs_unheld_of_workspace ON runs (workspace, no) WHERE completed_at IS NULL AND worker IS NULL AND NOT parked;
DROP INDEX runs_unheld;
