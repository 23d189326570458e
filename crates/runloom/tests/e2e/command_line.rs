//! Commands typed beside a running server.

use std::process::{Command, Output};

use serde_json::Value;

use crate::server::{Server, runloom};

/// A server and the folder whose commands find it.
pub(crate) struct CommandLine {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: Server,
}

impl CommandLine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::dev(folder.path(), &[]);
        Self { folder, server }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = runloom(arguments);
        command
            .current_dir(self.folder.path())
            .env("RUNLOOM_DATA_DIR", self.folder.path().join("data"));
        command
    }

    pub(crate) fn ended(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The one JSON object that a command prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ended(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            err(&output)
        );
        one_object(&out(&output))
    }
}

pub(crate) fn one_object(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text:?}");
    serde_json::from_str(text).unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}
