-- Children of runs. `root` and `depth` follow from `parent`; they are kept to find and to order the runs of a tree.
ALTER TABLE runs ADD COLUMN parent BIGINT;                    -- number of the run that called the delegate
ALTER TABLE runs ADD COLUMN root BIGINT;                      -- number of the run that a client started
ALTER TABLE runs ADD COLUMN depth BIGINT NOT NULL DEFAULT 0;  -- 0 for a root
ALTER TABLE runs ADD COLUMN parent_call TEXT;                 -- the parent's call
ALTER TABLE runs ADD COLUMN subagents TEXT;                   -- JSON: what runs below used
CREATE INDEX runs_by_parent ON runs (parent, no) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_root ON runs (root, no) WHERE root IS NOT NULL;
