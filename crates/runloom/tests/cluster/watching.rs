//! What operators see.

use crate::http::{Answer, request};
use crate::plant::{Plant, agent, finished, metrics};

fn get(address: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(address, "GET", path, headers, b"").unwrap()
}

/// The value of a line of the page.
fn value(page: &str, line: &str) -> f64 {
    let found = page
        .lines()
        .find_map(|known| known.strip_prefix(line)?.strip_prefix(' '));
    let found = found.unwrap_or_else(|| panic!("no {line} in:\n{page}"));
    found.parse().unwrap()
}

#[test]
fn metrics_need_the_admin_token_and_have_a_listener_without_one() {
    let plant = Plant::new([]);
    // The port is not printed, so it is chosen here: one that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let watched = free.local_addr().unwrap().to_string();
    drop(free);
    let server = plant.process("all", &[("RUNLOOM_SERVER__METRICS_LISTEN", &watched)]);
    let acme = server.tenant("acme");
    let run = acme.run(&agent("say hello"));
    finished(&acme, &run);
    assert_eq!(get(&server.address, "/metrics", &[]).status, 401);
    let token = [("Authorization", "Bearer the administrator's token")];
    let page = get(&server.address, "/metrics", &token);
    assert_eq!(page.status, 200, "{page:?}");
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let page = get(&watched, "/metrics", &[]);
    let text = String::from_utf8(page.body).unwrap();
    for (line, least) in [
        ("runloom_runs_accepted_total", 1.0),
        ("runloom_runs_ended_total{status=\"succeeded\"}", 1.0),
        ("runloom_claims_total", 1.0),
        ("runloom_commits_total", 1.0),
        ("runloom_commit_batches_count", 1.0),
        (
            "runloom_model_calls_total{provider=\"demo\",outcome=\"ok\"}",
            1.0,
        ),
        ("runloom_tokens_total{kind=\"output\"}", 1.0),
        ("runloom_store_up", 1.0),
        ("runloom_store_runs{state=\"waiting\"}", 0.0),
        ("runloom_places", 256.0),
        ("process_resident_memory_bytes", 1_000_000.0),
        ("process_open_fds", 5.0),
    ] {
        assert!(value(&text, line) >= least, "{line} in:\n{text}");
    }
    for path in ["/health", "/live", "/ready"] {
        assert_eq!(get(&watched, path, &[]).status, 200, "{path}");
    }
    let closed = get(&watched, "/api/admin/v1/workspaces", &token);
    assert_eq!(closed.status, 404, "only those who watch are served there");
}

#[test]
fn every_metric_is_in_the_document_and_every_documented_one_exists() {
    let plant = Plant::new([]);
    let server = plant.process("all", &[]);
    let page = metrics(&server);
    let served: std::collections::BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let document = std::fs::read_to_string(path).unwrap();
    let told: std::collections::BTreeSet<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `runloom_") || line.starts_with("| `process_"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(served, told);
}
