//! What is wrong with a configuration, and where.

use std::fmt;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `runloom.toml:12`, `runloom.toml`, or `environment variable RUNLOOM_…`.
    pub place: String,
    /// `server.listen`, `workspaces[0].slug`; empty for the file itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "{}: {}", self.place, self.message)
        } else {
            write!(f, "{}: {}: {}", self.place, self.path, self.message)
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub struct Invalid {
    /// In the order of the file's sections; never empty.
    pub problems: Vec<Problem>,
}

impl Invalid {
    pub(super) fn single(place: &str, message: String) -> Self {
        let problem = Problem {
            place: place.to_owned(),
            path: String::new(),
            message,
        };
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let plural = if count == 1 { "problem" } else { "problems" };
        write!(f, "the configuration has {count} {plural}:")?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}
