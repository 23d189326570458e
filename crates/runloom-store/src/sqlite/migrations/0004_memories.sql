-- What workspaces remember: short texts under keys, found by their words and by the links between them.

-- AUTOINCREMENT: links and words speak of memories by number, and lists go by it.
CREATE TABLE memories (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL REFERENCES workspaces (no),
    key        TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX memories_by_key ON memories (workspace, key);
CREATE INDEX memories_by_time ON memories (workspace, updated_at);
CREATE INDEX memories_by_no ON memories (workspace, no);

-- The words alone; the text is above. `tenant` is one word that only the workspace's own memories have, so that a search does not
-- walk through the words of others.
CREATE VIRTUAL TABLE memory_words USING fts5 (
    tenant, words, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE memory_links (
    no       INTEGER PRIMARY KEY AUTOINCREMENT,
    source   INTEGER NOT NULL REFERENCES memories (no),
    relation TEXT    NOT NULL,
    target   INTEGER NOT NULL REFERENCES memories (no)
) STRICT;
CREATE UNIQUE INDEX memory_links_from ON memory_links (source, relation, target);
CREATE INDEX memory_links_to ON memory_links (target);
