-- What workspaces keep: agents, tools, plugins, secrets, external agents, providers. Bodies are JSON, secrets inside sealed.

CREATE TABLE documents (
    no         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT   NOT NULL UNIQUE,
    workspace  BIGINT NOT NULL REFERENCES workspaces (no),
    kind       TEXT   NOT NULL,
    slug       TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX documents_by_slug ON documents (workspace, kind, slug);

-- Versions that were replaced, of kinds that keep them.
CREATE TABLE document_versions (
    document   BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (document, version)
);

-- What the server keeps for itself.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
