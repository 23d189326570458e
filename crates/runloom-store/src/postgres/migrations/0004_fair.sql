-- Runs that nobody holds, by workspace: a workspace with many must not hide the others from a sweep. `runs_unheld` stays for
-- programs that do not know this one.

CREATE INDEX runs_unheld_of_workspace ON runs (workspace, no) WHERE completed_at IS NULL AND worker IS NULL AND NOT parked;
