-- People who sign in, and what they allow OAuth apps. Codes, tokens and secrets are keyed hashes, passwords are argon2's.

CREATE TABLE people (
    id          TEXT    NOT NULL PRIMARY KEY,
    email       TEXT    NOT NULL UNIQUE,     -- in small letters
    name        TEXT    NOT NULL,
    password    TEXT    NOT NULL,
    password_at INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE memberships (
    person    TEXT    NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    workspace INTEGER NOT NULL REFERENCES workspaces (no),
    PRIMARY KEY (person, workspace)
) STRICT, WITHOUT ROWID;

CREATE TABLE oauth_apps (
    no                 INTEGER PRIMARY KEY,
    client_id          TEXT    NOT NULL UNIQUE,
    workspace          INTEGER NOT NULL REFERENCES workspaces (no),
    name               TEXT    NOT NULL,
    secret             BLOB    NOT NULL,
    public             INTEGER NOT NULL,
    redirect_uris      TEXT    NOT NULL,     -- JSON array
    scopes             TEXT    NOT NULL,     -- with spaces between them
    client_credentials INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL
) STRICT;
CREATE INDEX oauth_apps_by_workspace ON oauth_apps (workspace);

CREATE TABLE oauth_codes (
    hash         BLOB    NOT NULL PRIMARY KEY,
    prefix       TEXT    NOT NULL,
    client_id    TEXT    NOT NULL REFERENCES oauth_apps (client_id) ON DELETE CASCADE,
    person       TEXT    NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    workspace    INTEGER NOT NULL REFERENCES workspaces (no),
    redirect_uri TEXT    NOT NULL,
    challenge    TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    agent_ids    TEXT    NOT NULL,           -- JSON array
    expires_at   INTEGER NOT NULL,
    grant_id     TEXT                        -- what was made of it
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_codes_by_prefix ON oauth_codes (prefix);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);
CREATE INDEX oauth_codes_by_app ON oauth_codes (client_id);
CREATE INDEX oauth_codes_by_person ON oauth_codes (person);

CREATE TABLE oauth_grants (
    no             INTEGER PRIMARY KEY,
    id             TEXT    NOT NULL UNIQUE,
    client_id      TEXT    NOT NULL REFERENCES oauth_apps (client_id) ON DELETE CASCADE,
    person         TEXT    REFERENCES people (id) ON DELETE CASCADE, -- none: the app acts for itself
    workspace      INTEGER NOT NULL REFERENCES workspaces (no),
    scopes         TEXT    NOT NULL,
    agent_ids      TEXT    NOT NULL,         -- JSON array
    refresh_prefix TEXT,
    refresh        BLOB    UNIQUE,
    created_at     INTEGER NOT NULL,
    last_used_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX oauth_grants_of_nobody ON oauth_grants (client_id) WHERE person IS NULL;
CREATE INDEX oauth_grants_by_app ON oauth_grants (client_id, person);
CREATE INDEX oauth_grants_by_person ON oauth_grants (person);
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace);
CREATE INDEX oauth_grants_by_prefix ON oauth_grants (refresh_prefix);

CREATE TABLE oauth_tokens (
    hash       BLOB    NOT NULL PRIMARY KEY,
    prefix     TEXT    NOT NULL,
    grant_id   TEXT    NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    scopes     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_tokens_by_prefix ON oauth_tokens (prefix);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id, expires_at);
CREATE INDEX oauth_tokens_by_end ON oauth_tokens (expires_at);
