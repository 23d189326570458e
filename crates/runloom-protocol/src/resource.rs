//! What GET answers.
