-- Money. Amounts are millionths of a US dollar; `cost_pico` is in millionths of these, so that sums of small amounts are exact.

CREATE TABLE purses (
    scope    TEXT    NOT NULL,               -- 'workspace:SLUG' or 'key:ID'
    month    INTEGER NOT NULL,               -- months since January of the year 0
    spent    INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    PRIMARY KEY (scope, month)
) STRICT, WITHOUT ROWID;

-- What calls under way hold: one reservation for each run, one row for each of its purses.
CREATE TABLE reservations (
    run    INTEGER NOT NULL,
    scope  TEXT    NOT NULL,
    month  INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (run, scope, month)
) STRICT, WITHOUT ROWID;

-- What was used, for ever: runs are purged, their sums are not.
CREATE TABLE usage (
    workspace        INTEGER NOT NULL,
    day              INTEGER NOT NULL,       -- days since 1970-01-01, UTC
    credential       TEXT    NOT NULL,
    model_id         TEXT    NOT NULL,
    runs             INTEGER NOT NULL,
    turns            INTEGER NOT NULL,
    input_tokens     INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cost_pico        INTEGER NOT NULL,
    PRIMARY KEY (workspace, day, credential, model_id)
) STRICT, WITHOUT ROWID;
