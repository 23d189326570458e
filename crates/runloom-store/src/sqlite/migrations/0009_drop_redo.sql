-- The redo file is gone: SQLite's write-ahead log is the only one. A database that had one was converted before this.
DROP TABLE redo;
