//! Files that clients name by URL.

use std::time::Duration;

use runloom_ports::tools::ToolHost;
use runloom_tools::ToolLimits;
use runloom_tools::outbound::OutboundPolicy;

use crate::peers::{Peer, TestBed, hanging, redirect, status, typed};

const WITHIN: Duration = Duration::from_secs(10);

async fn files() -> Peer {
    Peer::start(|received| async move {
        match received.path.as_str() {
            "/a.png" => typed("Image/PNG; x=y", "0123456789"),
            "/moved" => redirect(302, "/a.png"),
            "/inside" => redirect(302, "http://169.254.169.254/latest/meta-data/"),
            "/slow" => typed("text/plain", hanging("begun")),
            _ => status(404),
        }
    })
    .await
}

#[tokio::test]
async fn fetches_a_file_with_its_media_type() {
    let (peer, bed) = (files().await, TestBed::new());
    for path in ["/a.png", "/moved"] {
        let url = format!("{}{path}", peer.url);
        let fetched = bed.host.fetch(&url, 10, WITHIN).await.unwrap();
        assert_eq!(fetched.mime_type.as_deref(), Some("image/png"));
        assert_eq!(&fetched.bytes[..], b"0123456789");
    }
}

#[tokio::test]
async fn reports_missing_large_slow_and_private_files() {
    let (peer, bed) = (files().await, TestBed::new());
    for (path, most, within, why) in [
        ("/nothing", 10, WITHIN, "404"),
        ("/a.png", 9, WITHIN, "9 bytes"),
        ("/slow", 10, Duration::from_millis(200), "within"),
        ("/inside", 10, WITHIN, "private or reserved"),
    ] {
        let url = format!("{}{path}", peer.url);
        let refused = bed.host.fetch(&url, most, within).await.unwrap_err();
        assert!(refused.contains(why), "{path}: {refused}");
    }
}

#[tokio::test]
async fn refuses_private_addresses() {
    let peer = files().await;
    let bed = TestBed::with(OutboundPolicy::default(), ToolLimits::default());
    let inside = [
        format!("{}/a.png", peer.url),
        "https://127.0.0.1/a.png".to_owned(),
        "https://[::1]/".to_owned(),
        "https://169.254.169.254/latest/".to_owned(),
        "https://user:secret@files.example/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    for url in inside {
        let refused = bed.host.fetch(&url, 10, WITHIN).await.unwrap_err();
        assert!(
            refused.contains("refused by the outbound policy"),
            "{refused}"
        );
    }
    assert!(peer.received().is_empty());
}
