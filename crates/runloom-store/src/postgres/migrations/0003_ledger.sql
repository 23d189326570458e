-- Money. Amounts are millionths of a US dollar; `cost_pico` is in millionths of these, so that sums of small amounts are exact.

CREATE TABLE purses (
    scope    TEXT    NOT NULL,               -- 'workspace:SLUG' or 'key:ID'
    month    BIGINT NOT NULL,               -- months since January of the year 0
    spent    BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    PRIMARY KEY (scope, month)
);

-- What calls under way hold: one reservation for each run, one row for each of its purses.
CREATE TABLE reservations (
    run    BIGINT NOT NULL,
    scope  TEXT    NOT NULL,
    month  BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (run, scope, month)
);

-- What was used, for ever: runs are purged, their sums are not.
CREATE TABLE usage (
    workspace        BIGINT NOT NULL,
    day              BIGINT NOT NULL,       -- days since 1970-01-01, UTC
    credential       TEXT    NOT NULL,
    model_id         TEXT    NOT NULL,
    runs             BIGINT NOT NULL,
    turns            BIGINT NOT NULL,
    input_tokens     BIGINT NOT NULL,
    cached_tokens    BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    output_tokens    BIGINT NOT NULL,
    cost_pico        BIGINT NOT NULL,
    PRIMARY KEY (workspace, day, credential, model_id)
);
