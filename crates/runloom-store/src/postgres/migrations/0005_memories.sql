-- What workspaces remember: short texts under keys, found by their words and by the links between them.

CREATE TABLE memories (
    no         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  BIGINT   NOT NULL REFERENCES workspaces (no),
    key        TEXT     COLLATE "C" NOT NULL,
    text       TEXT     NOT NULL,
    words      TSVECTOR NOT NULL,             -- as they are and as an English dictionary stems them
    created_at BIGINT   NOT NULL,
    updated_at BIGINT   NOT NULL
);
CREATE UNIQUE INDEX memories_by_key ON memories (workspace, key);
CREATE INDEX memories_by_time ON memories (workspace, updated_at);
CREATE INDEX memories_by_no ON memories (workspace, no);
CREATE INDEX memories_by_words ON memories USING gin (words);

CREATE TABLE memory_links (
    no       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source   BIGINT NOT NULL REFERENCES memories (no),
    relation TEXT   COLLATE "C" NOT NULL,
    target   BIGINT NOT NULL REFERENCES memories (no)
);
CREATE UNIQUE INDEX memory_links_from ON memory_links (source, relation, target);
CREATE INDEX memory_links_to ON memory_links (target);
