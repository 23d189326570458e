-- What workspaces keep: agents, tools, plugins, secrets, external agents, providers. Bodies are JSON, secrets inside sealed.

-- AUTOINCREMENT: old versions speak of documents by number.
CREATE TABLE documents (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    workspace  INTEGER NOT NULL REFERENCES workspaces (no),
    kind       TEXT    NOT NULL,
    slug       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_by_slug ON documents (workspace, kind, slug);

-- Versions that were replaced, of kinds that keep them.
CREATE TABLE document_versions (
    document   INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (document, version)
) STRICT, WITHOUT ROWID;

-- What the server keeps for itself.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
