//! Load generator, provider and floor end to end, with few runs.

use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::http::Connection;
use crate::load::{Volume, closed_loop};
use crate::target::{Prompt, Target};
use crate::{floor, install_crypto, provider};

const PROMPT: Prompt = Prompt {
    model: "bench-t50",
    text: "hello",
    tokens: 50,
};

const fn volume(runs: u64, concurrency: u64) -> Volume {
    Volume { runs, concurrency }
}

/// The servers that a test uses.
struct Servers {
    provider: Target,
    floor: Target,
}

/// Runs the provider and the floor in this process beside the test.
async fn with_servers<T>(test: impl AsyncFnOnce(Servers) -> T) -> T {
    install_crypto();
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let floor = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = Servers {
        provider: Target::Direct(provider.local_addr().unwrap()),
        floor: Target::Direct(floor.local_addr().unwrap()),
    };
    let url = format!("http://{}", provider.local_addr().unwrap());
    LocalSet::new()
        .run_until(async {
            tokio::select! {
                ended = provider::serve(provider) => panic!("the provider ended: {ended:?}"),
                ended = floor::serve(floor, &url) => panic!("the floor ended: {ended:?}"),
                result = test(servers) => result,
            }
        })
        .await
}

#[tokio::test]
async fn runs_through_the_floor_are_complete() {
    let results = with_servers(async |servers| {
        let mut results = Vec::new();
        for target in [&servers.provider, &servers.floor] {
            results.push(closed_loop(target, &target.run(PROMPT), volume(20, 4)).await);
        }
        results
    })
    .await;
    for result in results {
        assert_eq!(result.errors, Vec::<String>::new());
        assert_eq!(result.runs.len(), 20);
    }
}

#[tokio::test]
async fn counts_a_stream_with_too_little_text_as_failed() {
    let result = with_servers(async |servers| {
        let prompt = Prompt {
            model: "bench-t49",
            ..PROMPT
        };
        let request = servers.floor.run(prompt);
        closed_loop(&servers.floor, &request, volume(2, 1)).await
    })
    .await;
    assert_eq!(result.failed, 2);
    assert_eq!(result.errors, ["expected 50 pieces of text, got 49"]);
}

#[tokio::test]
async fn provider_counts_requests_and_returns_the_last_body() {
    let body = br#"{"model":"bench-t1","stream":true,"input":"the same bytes"}"#;
    let (last, stats) = with_servers(async |servers| {
        let request = servers.floor.post("/v1/responses", body, 1);
        let result = closed_loop(&servers.floor, &request, volume(3, 1)).await;
        assert_eq!(result.failed, 0);
        let mut connection = Connection::new(servers.provider.address());
        let head = connection.send(&servers.provider.get("/last")).await;
        let last = connection.read_body(head.unwrap()).await.unwrap();
        let head = connection.send(&servers.provider.get("/stats")).await;
        (last, connection.read_body(head.unwrap()).await.unwrap())
    })
    .await;
    assert_eq!(last, body);
    let stats: provider::Stats = serde_json::from_slice(&stats).unwrap();
    assert_eq!((stats.requests, stats.finished), (3, 3));
}

#[tokio::test]
async fn provider_rejects_a_model_that_is_not_a_script() {
    let result = with_servers(async |servers| {
        let prompt = Prompt {
            model: "gpt-5",
            ..PROMPT
        };
        let request = servers.floor.run(prompt);
        closed_loop(&servers.floor, &request, volume(1, 1)).await
    })
    .await;
    assert_eq!(result.failed, 1);
    assert!(result.errors[0].contains("400"), "{:?}", result.errors);
}
