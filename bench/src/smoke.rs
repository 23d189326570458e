//! The driver, the provider and the floors end to end, with a handful of runs and no clock.

use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::drive::{Target, load};
use crate::wire::Connection;
use crate::{floor, install_crypto, provider};

/// Starts the provider and the floor in this process and runs the test beside them.
async fn beside<T>(test: impl AsyncFnOnce(Target, Target) -> T) -> T {
    install_crypto();
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let floor = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at_provider = Target::Plain(provider.local_addr().unwrap());
    let at_floor = Target::Plain(floor.local_addr().unwrap());
    let url = format!("http://{}", provider.local_addr().unwrap());
    LocalSet::new()
        .run_until(async {
            tokio::select! {
                ended = provider::serve(provider) => panic!("the provider ended: {ended:?}"),
                ended = floor::serve(floor, &url) => panic!("the floor ended: {ended:?}"),
                result = test(at_provider, at_floor) => result,
            }
        })
        .await
}

#[tokio::test]
async fn every_run_through_the_floor_is_complete() {
    let (direct, through) = beside(async |provider, floor| {
        let job = provider.job("bench-t50", "hello", 50);
        let direct = load(&provider, &job, 20, 4).await;
        let job = floor.job("bench-t50", "hello", 50);
        (direct, load(&floor, &job, 20, 4).await)
    })
    .await;
    for outcome in [direct, through] {
        assert_eq!(outcome.errors, Vec::<String>::new());
        assert_eq!(outcome.shots.len(), 20);
    }
}

#[tokio::test]
async fn a_stream_that_is_short_of_text_is_counted_as_failed() {
    let outcome = beside(async |_, floor| {
        let job = floor.job("bench-t49", "hello", 50);
        load(&floor, &job, 2, 1).await
    })
    .await;
    assert_eq!(outcome.failed, 2);
    assert_eq!(outcome.errors, ["49 pieces of text came, not 50"]);
}

#[tokio::test]
async fn the_provider_gives_the_last_request_back_and_counts() {
    let (body, stats) = beside(async |provider, floor| {
        let body = br#"{"model":"bench-t1","stream":true,"input":"the same bytes"}"#;
        let job = floor.posting("/v1/responses", body, 1);
        assert_eq!(load(&floor, &job, 3, 1).await.failed, 0);
        let mut connection = Connection::new(provider.address());
        let head = connection.ask(&provider.get("/last")).await.unwrap();
        let last = connection.whole(head).await.unwrap();
        let head = connection.ask(&provider.get("/stats")).await.unwrap();
        (last, connection.whole(head).await.unwrap())
    })
    .await;
    assert_eq!(
        body,
        br#"{"model":"bench-t1","stream":true,"input":"the same bytes"}"#
    );
    let stats: provider::Stats = serde_json::from_slice(&stats).unwrap();
    assert_eq!((stats.requests, stats.finished), (3, 3));
}

#[tokio::test]
async fn a_model_that_is_no_script_is_refused_through_the_floor() {
    let outcome = beside(async |_, floor| {
        let job = floor.job("gpt-5", "hello", 1);
        load(&floor, &job, 1, 1).await
    })
    .await;
    assert_eq!(outcome.failed, 1);
    assert!(outcome.errors[0].contains("400"), "{:?}", outcome.errors);
}
