//! Queue and wake-ups: one folder per technology.
