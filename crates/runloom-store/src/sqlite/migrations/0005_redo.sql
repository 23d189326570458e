-- What the database holds of its redo file: of which life of the file, and up to which record. One row, written with every commit.
CREATE TABLE redo (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    lineage INTEGER NOT NULL,
    held    INTEGER NOT NULL
) STRICT;
INSERT INTO redo (one, lineage, held) VALUES (1, 0, 0);
