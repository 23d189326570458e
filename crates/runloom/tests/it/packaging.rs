//! What the packages set is what the program reads.

use std::collections::BTreeMap;

use crate::documents::repository_file;
use crate::program::{runloom, stderr, stdout};

/// Every file of the packages that sets something.
const FILES: [&str; 10] = [
    "Containerfile",
    "compose.yaml",
    "packaging/systemd/runloom.env",
    "packaging/systemd/runloom.service",
    "packaging/systemd/runloom-api.service",
    "packaging/systemd/runloom-worker@.service",
    "packaging/kubernetes/settings.yaml",
    "packaging/kubernetes/secret.example.yaml",
    "packaging/kubernetes/api.yaml",
    "packaging/kubernetes/worker.yaml",
];

/// `RUNLOOM_X__Y` and its value, from `RUNLOOM_X__Y: value`, `RUNLOOM_X__Y=value` and the like, commented out or not.
fn setting(line: &str) -> Option<(String, String)> {
    let begin = line.find("RUNLOOM_")?;
    let end = line[begin..].find([':', '='])? + begin;
    let name = &line[begin..end];
    let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.contains("__") || !name.bytes().all(plain) {
        return None;
    }
    let value = line[end + 1..].trim().trim_end_matches('\\').trim();
    Some((name.to_owned(), filled(value.trim_matches('"'))))
}

/// With a word in place of every `${VARIABLE…}`.
fn filled(value: &str) -> String {
    let mut parts = value.split("${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("word");
        text.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    text
}

#[test]
fn packages_have_valid_settings() {
    for file in FILES {
        let text = repository_file(file);
        let settings: BTreeMap<String, String> = text.lines().filter_map(setting).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut check = runloom(folder.path(), &["config", "check"]);
        check.env("RUNLOOM_MASTER_KEY", "sixteen characters at least");
        // A queue needs a database that is shared, which the other files of the package set.
        check.env("RUNLOOM_STORE__URL", "postgres://u:p@h/d");
        let checked = check.envs(&settings).output().unwrap();
        assert!(
            checked.status.success(),
            "{file}: {settings:?}\n{}{}",
            stdout(&checked),
            stderr(&checked)
        );
    }
    let compose = repository_file("compose.yaml");
    assert!(compose.lines().filter_map(setting).count() >= 6);
}

#[test]
fn packages_allow_time_to_stop() {
    // `runs.drain_ms` by default, and what closing takes at most after that.
    let least = 20 + 20;
    for (file, before, after) in [
        ("compose.yaml", "stop_grace_period: ", "s"),
        ("packaging/systemd/runloom.service", "TimeoutStopSec=", "s"),
        (
            "packaging/systemd/runloom-api.service",
            "TimeoutStopSec=",
            "s",
        ),
        (
            "packaging/systemd/runloom-worker@.service",
            "TimeoutStopSec=",
            "s",
        ),
        (
            "packaging/kubernetes/api.yaml",
            "terminationGracePeriodSeconds: ",
            "",
        ),
        (
            "packaging/kubernetes/worker.yaml",
            "terminationGracePeriodSeconds: ",
            "",
        ),
    ] {
        let text = repository_file(file);
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(before));
        let seconds = line.unwrap().strip_suffix(after).unwrap();
        assert!(seconds.parse::<u32>().unwrap() > least, "{file}: {seconds}");
    }
}

#[test]
fn every_command_in_the_packages_exists() {
    let folder = tempfile::tempdir().unwrap();
    for (file, line, arguments) in [
        ("Containerfile", "CMD [\"serve\"]", &["serve"][..]),
        (
            "compose.yaml",
            "command: [serve, --role, api]",
            &["serve", "--role", "api"],
        ),
        ("compose.yaml", "command: [worker]", &["worker"]),
        (
            "packaging/systemd/runloom.service",
            "ExecStart=/usr/bin/runloom serve",
            &["serve"],
        ),
        (
            "packaging/systemd/runloom-api.service",
            "ExecStart=/usr/bin/runloom serve --role api",
            &["serve", "--role", "api"],
        ),
        (
            "packaging/systemd/runloom-worker@.service",
            "ExecStart=/usr/bin/runloom worker",
            &["worker"],
        ),
        (
            "packaging/kubernetes/api.yaml",
            "args: [serve, --role, api]",
            &["serve", "--role", "api"],
        ),
        (
            "packaging/kubernetes/worker.yaml",
            "args: [serve, --role, worker]",
            &["serve", "--role", "worker"],
        ),
        (
            "packaging/kubernetes/migrate.yaml",
            "args: [migrate]",
            &["migrate"],
        ),
    ] {
        let text = repository_file(file);
        assert!(
            text.lines().any(|known| known.trim() == line),
            "{file} has no {line}"
        );
        let mut command = runloom(folder.path(), arguments);
        let helped = command.arg("--help").output().unwrap();
        assert!(helped.status.success(), "{line}: {}", stderr(&helped));
    }
}

#[test]
fn systemd_units_allow_the_sandbox() {
    for unit in ["runloom", "runloom-api", "runloom-worker@"] {
        let text = repository_file(&format!("packaging/systemd/{unit}.service"));
        let filter = text
            .lines()
            .find_map(|line| line.strip_prefix("SystemCallFilter="));
        // Not in the group @system-service of systemd 252; without it the kernel kills every sandbox.
        assert!(
            filter.unwrap().split(' ').any(|call| call == "seccomp"),
            "{unit}: {filter:?}"
        );
    }
}

#[test]
fn example_secret_has_no_valid_key() {
    let text = repository_file("packaging/kubernetes/secret.example.yaml");
    let folder = tempfile::tempdir().unwrap();
    let mut check = runloom(folder.path(), &["config", "check"]);
    for name in [
        "RUNLOOM_MASTER_KEY",
        "RUNLOOM_ADMIN_TOKEN",
        "RUNLOOM_STORE__URL",
    ] {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        let value = line.unwrap().split('"').nth(1).unwrap();
        check.env(name, value);
    }
    let checked = check.output().unwrap();
    assert_eq!(checked.status.code(), Some(3));
    assert!(
        stderr(&checked).contains("RUNLOOM_MASTER_KEY: server.master_key_env: is not set"),
        "{}",
        stderr(&checked)
    );
}

#[test]
fn packages_accept_an_empty_configuration() {
    assert!(
        repository_file("compose.yaml")
            .contains("${RUNLOOM_TOML:-/dev/null}:/etc/runloom/runloom.toml:ro")
    );
    let folder = tempfile::tempdir().unwrap();
    let mut check = runloom(folder.path(), &["config", "check"]);
    let checked = check.env("RUNLOOM_CONFIG", "/dev/null").output().unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
}
