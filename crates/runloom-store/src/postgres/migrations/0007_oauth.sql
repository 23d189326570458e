-- People who sign in, and what they allow OAuth apps. Codes, tokens and secrets are keyed hashes, passwords are argon2's.

CREATE TABLE people (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    email       TEXT COLLATE "C" NOT NULL UNIQUE,     -- in small letters
    name        TEXT    NOT NULL,
    password    TEXT    NOT NULL,
    password_at BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);

CREATE TABLE memberships (
    person    TEXT COLLATE "C" NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    workspace BIGINT NOT NULL REFERENCES workspaces (no),
    PRIMARY KEY (person, workspace)
);

CREATE TABLE oauth_apps (
    no                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id          TEXT COLLATE "C" NOT NULL UNIQUE,
    workspace          BIGINT NOT NULL REFERENCES workspaces (no),
    name               TEXT    NOT NULL,
    secret             BYTEA   NOT NULL,
    public             BOOLEAN NOT NULL,
    redirect_uris      TEXT    NOT NULL,     -- JSON array
    scopes             TEXT    NOT NULL,     -- with spaces between them
    client_credentials BOOLEAN NOT NULL,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL
);
CREATE INDEX oauth_apps_by_workspace ON oauth_apps (workspace);

CREATE TABLE oauth_codes (
    hash         BYTEA   NOT NULL PRIMARY KEY,
    prefix       TEXT COLLATE "C" NOT NULL,
    client_id    TEXT COLLATE "C" NOT NULL REFERENCES oauth_apps (client_id) ON DELETE CASCADE,
    person       TEXT COLLATE "C" NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    workspace    BIGINT NOT NULL REFERENCES workspaces (no),
    redirect_uri TEXT    NOT NULL,
    challenge    TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    agent_ids    TEXT    NOT NULL,           -- JSON array
    expires_at   BIGINT NOT NULL,
    grant_id     TEXT COLLATE "C" -- what was made of it
);
CREATE INDEX oauth_codes_by_prefix ON oauth_codes (prefix);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);
CREATE INDEX oauth_codes_by_app ON oauth_codes (client_id);
CREATE INDEX oauth_codes_by_person ON oauth_codes (person);

CREATE TABLE oauth_grants (
    no             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             TEXT COLLATE "C" NOT NULL UNIQUE,
    client_id      TEXT COLLATE "C" NOT NULL REFERENCES oauth_apps (client_id) ON DELETE CASCADE,
    person         TEXT COLLATE "C" REFERENCES people (id) ON DELETE CASCADE, -- none: the app acts for itself
    workspace      BIGINT NOT NULL REFERENCES workspaces (no),
    scopes         TEXT    NOT NULL,
    agent_ids      TEXT    NOT NULL,         -- JSON array
    refresh_prefix TEXT,
    refresh        BYTEA   UNIQUE,
    created_at     BIGINT NOT NULL,
    last_used_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX oauth_grants_of_nobody ON oauth_grants (client_id) WHERE person IS NULL;
CREATE INDEX oauth_grants_by_app ON oauth_grants (client_id, person);
CREATE INDEX oauth_grants_by_person ON oauth_grants (person);
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace);
CREATE INDEX oauth_grants_by_prefix ON oauth_grants (refresh_prefix);

CREATE TABLE oauth_tokens (
    hash       BYTEA   NOT NULL PRIMARY KEY,
    prefix     TEXT COLLATE "C" NOT NULL,
    grant_id   TEXT COLLATE "C" NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    scopes     TEXT    NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_tokens_by_prefix ON oauth_tokens (prefix);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id, expires_at);
CREATE INDEX oauth_tokens_by_end ON oauth_tokens (expires_at);
