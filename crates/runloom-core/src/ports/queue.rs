//! The queue port: which runs want a worker.
