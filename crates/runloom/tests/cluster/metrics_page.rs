//! What operators see.

use crate::http::{Answer, request};
use crate::processes::{Processes, agent, at, finished, metrics, service};

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
fn metrics_need_the_token_or_their_listener() {
    let processes = Processes::new([]);
    // The port is not printed, so it is chosen here: one that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let watched = free.local_addr().unwrap().to_string();
    drop(free);
    let server = processes.process("all", &[("RUNLOOM_SERVER__METRICS_LISTEN", &watched)]);
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
fn worker_serves_probes_only() {
    let processes = Processes::new([]);
    let api = processes.api();
    let acme = api.tenant("acme");
    let worker = processes.worker();
    for path in ["/health", "/live", "/ready"] {
        assert_eq!(get(&worker.address, path, &[]).status, 200, "{path}");
    }
    assert_eq!(get(&worker.address, "/metrics", &[]).status, 401);
    assert!(metrics(&worker).contains("runloom_places"));
    let there = at(&worker, &acme);
    assert_eq!(there.get("/models").status, 404);
    assert_eq!(there.post("/agent-runs", &agent("say no")).status, 404);
    let token = [("Authorization", "Bearer the administrator's token")];
    let closed = get(&worker.address, "/api/admin/v1/workspaces", &token);
    assert_eq!(closed.status, 404);
    let run = acme.run(&agent("say hello"));
    assert_eq!(finished(&acme, &run), "hello");
}

#[test]
fn doctor_checks_shared_services() {
    let queue = service(
        "RUNLOOM_TEST_AMQP_URL",
        "amqp://guest:guest@127.0.0.1:5672/%2f",
    );
    let bus = service("RUNLOOM_TEST_REDIS_URL", "redis://127.0.0.1:6379");
    let shared = [
        ("RUNLOOM_FABRIC__QUEUE", queue.as_str()),
        ("RUNLOOM_FABRIC__BUS", bus.as_str()),
        ("RUNLOOM_SERVER__LISTEN", "127.0.0.1:0"),
    ];
    let processes = Processes::new(shared);
    let doctor = |own: &[(&str, &str)]| processes.said(&["doctor"], own);
    let line = |said: &str, check: &str| {
        let line = said.lines().find(|line| line[6..].starts_with(check));
        line.unwrap_or_else(|| panic!("no {check} in:\n{said}"))
            .to_owned()
    };
    let (good, said) = doctor(&[]);
    assert!(good, "{said}");
    assert!(line(&said, "store").contains("is empty"), "{said}");
    assert!(processes.said(&["migrate"], &[]).0);
    let (good, said) = doctor(&[]);
    assert!(good, "{said}");
    assert!(line(&said, "store").contains("PostgreSQL"), "{said}");
    assert!(line(&said, "queue").contains("RabbitMQ"), "{said}");
    assert!(line(&said, "bus").starts_with("ok"), "{said}");
    for (variable, away, check) in [
        (
            "RUNLOOM_STORE__URL",
            "postgres://u:sekret@127.0.0.1:1/d",
            "store",
        ),
        (
            "RUNLOOM_FABRIC__QUEUE",
            "amqp://u:sekret@127.0.0.1:1",
            "queue",
        ),
        ("RUNLOOM_FABRIC__BUS", "redis://u:sekret@127.0.0.1:1", "bus"),
    ] {
        let (good, said) = doctor(&[(variable, away)]);
        assert!(!good && line(&said, check).starts_with("FAIL"), "{said}");
        assert!(!said.contains("sekret"), "{said}");
    }
    // A database that would forget what it acknowledged is refused by servers, and told here.
    let unsafe_url = format!("{}?options=-c%20synchronous_commit%3Doff", processes.url());
    let (good, said) = doctor(&[("RUNLOOM_STORE__URL", &unsafe_url)]);
    assert!(!good, "{said}");
    assert!(
        line(&said, "store").contains("synchronous_commit"),
        "{said}"
    );
}

#[test]
fn documents_every_metric() {
    let processes = Processes::new([]);
    let server = processes.process("all", &[]);
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
