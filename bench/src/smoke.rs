//! Load generator, provider and floor end to end, with few runs.

use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::http::Connection;
use crate::load::{Volume, closed_loop};
use crate::provider::Stats;
use crate::target::{Prompt, Target};
use crate::upstream::{Endpoint, HttpVersion, Upstream};
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
    /// The provider's TLS listener.
    provider_url: String,
    floor: Target,
}

/// Runs the provider and the floor in this process beside the test; the floor calls the provider by `upstream`.
async fn with_servers<T>(upstream: Upstream, test: impl AsyncFnOnce(Servers) -> T) -> T {
    install_crypto();
    let tls = provider::create_tls(upstream.offered()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, tls.ca_pem).unwrap();
    let listeners = provider::Listeners {
        plain: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        tls: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        acceptor: tls.acceptor,
    };
    let floor = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = Servers {
        provider: Target::Direct(listeners.plain.local_addr().unwrap()),
        provider_url: format!("https://{}", listeners.tls.local_addr().unwrap()),
        floor: Target::Direct(floor.local_addr().unwrap()),
    };
    let endpoint = Endpoint {
        url: match upstream {
            Upstream::Http => format!("http://{}", listeners.plain.local_addr().unwrap()),
            _ => servers.provider_url.clone(),
        },
        version: match upstream {
            Upstream::Https | Upstream::HttpsHttp2 => HttpVersion::Http2,
            Upstream::HttpsHttp1 | Upstream::Http => HttpVersion::Http1,
        },
        ca_file,
    };
    LocalSet::new()
        .run_until(async {
            tokio::select! {
                ended = provider::serve(listeners) => panic!("the provider ended: {ended:?}"),
                ended = floor::serve(floor, &endpoint) => panic!("the floor ended: {ended:?}"),
                result = test(servers) => result,
            }
        })
        .await
}

async fn stats(provider: &Target) -> Stats {
    let mut connection = Connection::new(provider.address());
    let head = connection.send(&provider.get("/stats")).await.unwrap();
    serde_json::from_slice(&connection.read_body(head).await.unwrap()).unwrap()
}

/// Sends runs through the floor and returns the provider's counters.
async fn runs_are_complete(upstream: Upstream) -> Stats {
    with_servers(upstream, async |servers| {
        let request = servers.floor.run(PROMPT);
        let result = closed_loop(&servers.floor, &request, volume(20, 4)).await;
        assert_eq!(result.errors, Vec::<String>::new());
        assert_eq!(result.runs.len(), 20);
        stats(&servers.provider).await
    })
    .await
}

#[tokio::test]
async fn runs_over_plain_http_are_complete() {
    let stats = runs_are_complete(Upstream::Http).await;
    assert_eq!((stats.requests, stats.http2_requests), (20, 0));
}

#[tokio::test]
async fn runs_over_https_with_http1_are_complete() {
    let stats = runs_are_complete(Upstream::HttpsHttp1).await;
    assert_eq!((stats.requests, stats.http2_requests), (20, 0));
}

#[tokio::test]
async fn runs_over_https_with_http2_are_complete() {
    for upstream in [Upstream::Https, Upstream::HttpsHttp2] {
        let stats = runs_are_complete(upstream).await;
        assert_eq!((stats.requests, stats.http2_requests), (20, 20));
        assert_eq!((stats.finished, stats.open), (20, 0));
        assert!((1..=4).contains(&stats.peak_open), "{stats:?}");
    }
}

#[tokio::test]
async fn tool_loops_over_https_are_complete() {
    for upstream in [Upstream::HttpsHttp1, Upstream::HttpsHttp2] {
        let stats = with_servers(upstream, async |servers| {
            let body = br#"{"model":"bench-t50-call","stream":true,"input":"hello"}"#;
            let request = servers.floor.post("/v1/tool-loop", body, 50);
            let result = closed_loop(&servers.floor, &request, volume(4, 2)).await;
            assert_eq!(result.errors, Vec::<String>::new());
            stats(&servers.provider).await
        })
        .await;
        assert_eq!((stats.requests, stats.tool_calls), (8, 4));
    }
}

#[tokio::test]
async fn bulk_and_timed_scripts_are_complete_over_https() {
    for upstream in [Upstream::HttpsHttp1, Upstream::HttpsHttp2] {
        let prompts = [
            Prompt {
                model: "bench-t2000-bulk",
                tokens: 2000,
                ..PROMPT
            },
            Prompt {
                model: "bench-t5-f5-d1-timed",
                tokens: 5,
                ..PROMPT
            },
        ];
        with_servers(upstream, async |servers| {
            for prompt in prompts {
                let request = servers.floor.run(prompt);
                let result = closed_loop(&servers.floor, &request, volume(2, 1)).await;
                assert_eq!(result.errors, Vec::<String>::new());
                let timed = result.runs.iter().all(|run| !run.provider.is_zero());
                assert_eq!(timed, prompt.model.contains("timed"));
            }
        })
        .await;
    }
}

#[tokio::test]
async fn client_rejects_a_provider_of_another_ca() {
    install_crypto();
    let other = provider::create_tls(Upstream::Https.offered()).unwrap();
    let error = with_servers(Upstream::Https, async |servers| {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint {
            url: servers.provider_url,
            version: HttpVersion::Http1,
            ca_file: folder.path().join("ca.pem"),
        };
        std::fs::write(&endpoint.ca_file, &other.ca_pem).unwrap();
        let url = format!("{}/stats", endpoint.url);
        endpoint.client().unwrap().get(url).send().await
    })
    .await
    .unwrap_err();
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn counts_a_stream_with_too_little_text_as_failed() {
    let result = with_servers(Upstream::Https, async |servers| {
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
    let (last, stats) = with_servers(Upstream::Https, async |servers| {
        let request = servers.floor.post("/v1/responses", body, 1);
        let result = closed_loop(&servers.floor, &request, volume(3, 1)).await;
        assert_eq!(result.failed, 0);
        let mut connection = Connection::new(servers.provider.address());
        let head = connection.send(&servers.provider.get("/last")).await;
        let last = connection.read_body(head.unwrap()).await.unwrap();
        (last, stats(&servers.provider).await)
    })
    .await;
    assert_eq!(last, body);
    assert_eq!((stats.requests, stats.finished), (3, 3));
}

#[tokio::test]
async fn provider_rejects_a_model_that_is_not_a_script() {
    let result = with_servers(Upstream::Https, async |servers| {
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
