//! The guarded client: redirects, size limits, timeouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::IntoResponse;
use reqwest::Method;
use reqwest::header::HeaderMap;
use runloom_tools::outbound::{
    Outbound, OutboundError, OutboundPolicy, OutboundRequest, spec_headers,
};

use crate::peers::{Peer, broken, hanging, open_policy, redirect, status, typed};

fn secrets() -> HeaderMap {
    let given = BTreeMap::from([
        ("Authorization".to_owned(), "Bearer secret".to_owned()),
        ("X-Api-Key".to_owned(), "secret".to_owned()),
    ]);
    spec_headers(&given).unwrap()
}

async fn fetch(policy: OutboundPolicy, request: OutboundRequest) -> Result<Vec<u8>, OutboundError> {
    let outbound = Outbound::new(policy).unwrap();
    let body = outbound.send(request).await?.bytes().await?;
    Ok(body.to_vec())
}

fn get(url: &str) -> OutboundRequest {
    OutboundRequest::new(Method::GET, url.parse().unwrap())
}

#[tokio::test]
async fn redirect_to_another_origin_drops_headers() {
    let other = Peer::start(|_| async { status(200) }).await;
    let to = other.url.clone();
    let peer = Peer::start(move |received| {
        let to = to.clone();
        async move {
            match received.path.as_str() {
                "/start" => redirect(307, "/next"),
                _ => redirect(307, &to),
            }
        }
    })
    .await;
    let request = get(&format!("{}/start", peer.url)).headers(secrets());
    fetch(open_policy(), request).await.unwrap();
    let received = peer.received();
    assert_eq!(received[1].path, "/next");
    assert_eq!(received[1].header("x-api-key"), Some("secret"));
    let seen = &other.received()[0];
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("x-api-key"), None);
}

#[tokio::test]
async fn redirect_to_another_origin_refuses_a_body() {
    let other = Peer::start(|_| async { status(200) }).await;
    let to = format!("{}/collect?key=secret", other.url);
    let peer = Peer::start(move |received| {
        let to = to.clone();
        async move {
            match received.path.as_str() {
                "/301" => redirect(301, &to),
                "/307" => redirect(307, &to),
                "/308" => redirect(308, &to),
                _ => redirect(307, "/308"),
            }
        }
    })
    .await;
    let request = |method: Method, path: &str| {
        let url = format!("{}{path}", peer.url).parse().unwrap();
        OutboundRequest::new(method, url).headers(secrets())
    };
    let posts = ["/307", "/308", "/twice"]
        .map(|path| request(Method::POST, path).body("{\"client_secret\":\"secret\"}"));
    let odd = request(Method::GET, "/301").body("secret");
    for request in posts.into_iter().chain([odd]) {
        let told = fetch(open_policy(), request).await.unwrap_err().to_string();
        for origin in [&peer.url, &other.url] {
            assert!(told.contains(origin.as_str()), "{told}");
        }
        assert!(!told.contains("secret"), "{told}");
    }
    assert!(other.received().is_empty());
    // A redirect that changes the method to GET drops the body.
    let lost = request(Method::POST, "/301").body("secret");
    fetch(open_policy(), lost).await.unwrap();
    let seen = &other.received()[0];
    assert_eq!(
        (&seen.method, seen.header("x-api-key")),
        (&Method::GET, None)
    );
}

#[tokio::test]
async fn redirect_keeps_the_method_by_status() {
    let peer = Peer::start(|received| async move {
        match received.path.as_str() {
            "/307" => redirect(307, "/end"),
            "/303" => redirect(303, "/end"),
            _ => status(200),
        }
    })
    .await;
    let post = |path: &str| {
        let url = format!("{}{path}", peer.url).parse().unwrap();
        OutboundRequest::new(Method::POST, url).body("{\"a\":1}")
    };
    fetch(open_policy(), post("/307")).await.unwrap();
    fetch(open_policy(), post("/303")).await.unwrap();
    let refused = fetch(open_policy(), post("/303").keeping_method()).await;
    assert!(
        matches!(refused, Err(OutboundError::Redirects { .. })),
        "{refused:?}"
    );
    let ends: Vec<_> = peer
        .received()
        .into_iter()
        .filter(|h| h.path == "/end")
        .map(|h| (h.method, h.body["a"].clone()))
        .collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0].0, Method::POST);
    assert_eq!(ends[0].1, 1);
    assert_eq!(ends[1].0, Method::GET);
}

#[tokio::test]
async fn redirects_end() {
    let hops = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hops);
    let peer = Peer::start(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { redirect(302, "/again") }
    })
    .await;
    let refused = fetch(open_policy(), get(&peer.url)).await;
    assert!(
        matches!(refused, Err(OutboundError::Redirects { .. })),
        "{refused:?}"
    );
    assert_eq!(hops.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn refuses_a_body_beyond_the_limit() {
    let peer = Peer::start(|received| async move {
        let big = vec![b'x'; 100_000];
        match received.path.as_str() {
            "/length" => big.into_response(),
            _ => {
                let parts = big
                    .chunks(1000)
                    .map(<[u8]>::to_vec)
                    .map(Ok::<_, std::io::Error>);
                let parts: Vec<_> = parts.collect();
                axum::body::Body::from_stream(futures_util::stream::iter(parts)).into_response()
            }
        }
    })
    .await;
    for path in ["/length", "/stream"] {
        let request = get(&format!("{}{path}", peer.url)).at_most(50_000);
        let refused = fetch(open_policy(), request).await;
        assert!(
            matches!(refused, Err(OutboundError::TooLarge { limit: 50_000, .. })),
            "{path}: {refused:?}"
        );
        let request = get(&format!("{}{path}", peer.url)).at_most(100_000);
        assert_eq!(fetch(open_policy(), request).await.unwrap().len(), 100_000);
    }
}

#[tokio::test]
async fn refuses_compressed_bodies() {
    let peer = Peer::start(|received| async move {
        assert_eq!(received.header("accept-encoding"), Some("identity"));
        // The header alone is refused; the body is not read.
        ([("content-encoding", "gzip")], vec![0x1f_u8, 0x8b, 8, 0]).into_response()
    })
    .await;
    let refused = fetch(open_policy(), get(&peer.url)).await;
    assert!(
        matches!(&refused, Err(OutboundError::Network { message, .. }) if message.contains("compressed")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn slow_heads_and_bodies_time_out() {
    let peer = Peer::start(|received| async move {
        match received.path.as_str() {
            "/head" => std::future::pending().await,
            _ => typed("text/plain", hanging("begun")),
        }
    })
    .await;
    for path in ["/head", "/body"] {
        let request = get(&format!("{}{path}", peer.url)).within(Duration::from_millis(200));
        let refused = fetch(open_policy(), request).await;
        assert!(
            matches!(refused, Err(OutboundError::Timeout { .. })),
            "{path}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn distinguishes_broken_bodies_from_unsent_requests() {
    let peer = Peer::start(|_| async { typed("text/plain", broken("half")) }).await;
    let cut = fetch(open_policy(), get(&peer.url)).await.unwrap_err();
    assert!(!cut.is_unsent(), "{cut:?}");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let dead = fetch(open_policy(), get(&url)).await.unwrap_err();
    assert!(dead.is_unsent(), "{dead:?}");
}

#[test]
fn rejects_connection_headers() {
    for name in ["Host", "Content-Length", "Transfer-Encoding", "Connection"] {
        let given = BTreeMap::from([(name.to_owned(), "x".to_owned())]);
        assert!(spec_headers(&given).is_err(), "{name}");
    }
    for (name, value) in [("bad name", "x"), ("x", "a\r\nb: c")] {
        let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let error = spec_headers(&given).unwrap_err();
        assert!(!error.to_string().contains("b: c"), "{error}");
    }
}
