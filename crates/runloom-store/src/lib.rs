//! One folder per database: the event log, runs, sessions, mail and leases.
