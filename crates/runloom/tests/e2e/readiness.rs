//! `/ready` while the store takes no writes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::http::request;
use crate::server::{PATIENCE, Server, settings};

/// Another program that holds the write lock of a SQLite database until its input is closed.
fn lock(database: &Path) -> Child {
    let program = "import sqlite3, sys\n\
                   connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n\
                   connection.execute('BEGIN IMMEDIATE')\n\
                   print('locked', flush=True)\n\
                   sys.stdin.read()\n\
                   connection.execute('ROLLBACK')";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "locked");
    child
}

/// Asks `/ready` until it has this status.
fn wait_for(server: &Server, status: u16) {
    let begun = Instant::now();
    loop {
        let answer = request(&server.address, "GET", "/ready", &[], b"").unwrap();
        if answer.status == status {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
    }
}

#[test]
fn a_store_that_takes_no_write_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &settings([]));
    wait_for(&server, 200);
    let mut other = lock(&folder.path().join("data/runloom.db"));
    wait_for(&server, 503);
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    wait_for(&server, 200);
}
