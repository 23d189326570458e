//! Private addresses are refused in every form and for every kind of tool.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use runloom_ports::error::Error;
use runloom_ports::tools::ToolHost;
use runloom_protocol::tools::ToolRef;
use runloom_tools::ToolLimits;
use runloom_tools::outbound::{
    DnsLookup, LookupFuture, Outbound, OutboundError, OutboundPolicy, OutboundRequest,
};
use serde_json::json;

use crate::peers::{Peer, TestBed, TestDefinitions, redirect, reply, status};

/// URLs that the default policy refuses.
const FORBIDDEN: &[&str] = &[
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.0.0.1/",
    "http://192.168.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[ff02::1]/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://127.0.0.1./",
    "http://%31%32%37.0.0.1/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://user:pass@example.com/",
    "http://user@example.com/",
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:text/plain,hi",
    "unix:/run/docker.sock",
    "//example.com/",
    "http://",
    "http:///",
    "not a url",
];

/// Resolves every name to loopback, so that no test uses a real resolver.
struct Inside;

impl DnsLookup for Inside {
    fn lookup(&self, _name: &str) -> LookupFuture {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

/// Counts lookups. An attacker's name may resolve differently each time.
#[derive(Default)]
struct Counting {
    asked: AtomicUsize,
}

impl DnsLookup for Counting {
    fn lookup(&self, name: &str) -> LookupFuture {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Inside.lookup(name)
    }
}

fn closed() -> Outbound {
    Outbound::with_lookup(OutboundPolicy::default(), Arc::new(Inside)).unwrap()
}

async fn get(outbound: &Outbound, url: &str) -> Result<u16, OutboundError> {
    let url = outbound.check(url)?;
    let response = outbound
        .send(OutboundRequest::new(Method::GET, url))
        .await?;
    Ok(response.status().as_u16())
}

#[tokio::test]
async fn client_refuses_private_addresses() {
    let outbound = closed();
    for url in FORBIDDEN {
        let refused = get(&outbound, url).await;
        assert!(
            matches!(refused, Err(OutboundError::Blocked { .. })),
            "{url}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn private_network_permission_excludes_metadata_services() {
    let policy = OutboundPolicy {
        allow_private_networks: true,
        ..OutboundPolicy::default()
    };
    let outbound = Outbound::new(policy).unwrap();
    assert!(outbound.check("http://127.0.0.1:8080/").is_ok());
    assert!(outbound.check("http://192.168.1.5/").is_ok());
    for url in [
        "http://169.254.169.254/",
        "http://168.63.129.16/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
        "http://[fe80::1]/",
        "http://0/",
    ] {
        assert!(outbound.check(url).is_err(), "{url}");
    }
}

#[tokio::test]
async fn mcp_and_a2a_refuse_private_addresses_at_check_and_call() {
    let bed = TestBed::with(OutboundPolicy::default(), ToolLimits::default());
    for url in FORBIDDEN {
        // Names are resolved only when connecting, by the system's resolver, so this test uses literals only.
        if url.to_ascii_lowercase().contains("localhost") {
            continue;
        }
        let mcp = json!({"kind": "mcp", "name": "m", "url": url});
        let a2a = json!({"kind": "a2a", "name": "a", "agentCardUrl": url});
        for tool in [&mcp, &a2a] {
            let parsed: ToolRef = serde_json::from_value(tool.clone()).unwrap();
            let refused = bed.host.check("acme", &[parsed]).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{url}: {refused:?}"
            );
        }
        let (context, tools) = bed.resolve(&json!([mcp, a2a])).await;
        assert_eq!(tools[0].name, "m_unavailable", "{url}");
        for tool in &tools {
            let outcome = bed.call(&context, tool, json!({"message": "hi"})).await;
            assert!(outcome.is_error, "{url}");
            assert!(
                outcome.content.contains("outbound policy"),
                "{url}: {}",
                outcome.content
            );
        }
    }
}

#[tokio::test]
async fn workspace_tools_refuse_private_addresses_at_check_and_call() {
    let literal = |url: &&&str| !url.to_ascii_lowercase().contains("localhost");
    let mut defined = TestDefinitions::default();
    for url in FORBIDDEN.iter().filter(literal) {
        // A definition that validation would refuse.
        let definition = json!({"name": "t", "type": "http", "url": url});
        let definition = serde_json::from_value(definition).unwrap();
        defined.tools.push(((*url).to_owned(), definition));
    }
    let bed = TestBed::defining(defined, OutboundPolicy::default(), ToolLimits::default());
    for url in FORBIDDEN.iter().filter(literal) {
        let tool = json!({"kind": "mantyx", "id": url});
        let parsed: ToolRef = serde_json::from_value(tool.clone()).unwrap();
        let refused = bed.host.check("acme", &[parsed]).await;
        assert!(
            matches!(refused, Err(Error::Invalid(_))),
            "{url}: {refused:?}"
        );
        let (context, tools) = bed.resolve(&json!([tool])).await;
        let outcome = bed.call(&context, &tools[0], json!({})).await;
        let told = ["outbound policy", "URL is invalid"];
        assert!(
            outcome.is_error && told.iter().any(|words| outcome.content.contains(words)),
            "{url}: {}",
            outcome.content
        );
    }
}

#[tokio::test]
async fn refuses_local_names_when_connecting() {
    let bed = TestBed::with(OutboundPolicy::default(), ToolLimits::default());
    let refs = json!([
        {"kind": "mcp", "name": "m", "url": "http://localhost/mcp"},
        {"kind": "a2a", "name": "a", "agentCardUrl": "http://localhost/"},
    ]);
    let (context, tools) = bed.resolve(&refs).await;
    for tool in &tools {
        let outcome = bed.call(&context, tool, json!({"message": "hi"})).await;
        assert!(outcome.is_error);
        assert!(
            outcome.content.contains("outbound policy"),
            "{}",
            outcome.content
        );
    }
}

#[tokio::test]
async fn dns_rebinding_is_refused() {
    let peer = Peer::start(|_| async { status(200) }).await;
    let port = peer.url.rsplit(':').next().unwrap();
    let lookup = Arc::new(Counting::default());
    let shared: Arc<dyn DnsLookup> = Arc::clone(&lookup) as Arc<dyn DnsLookup>;
    let outbound = Outbound::with_lookup(OutboundPolicy::default(), shared).unwrap();
    let url = format!("http://rebound.example:{port}/");
    assert!(outbound.check(&url).is_ok(), "the name itself is harmless");
    assert_eq!(
        lookup.asked.load(Ordering::SeqCst),
        0,
        "no answer is taken in advance"
    );
    let refused = get(&outbound, &url).await;
    assert!(
        matches!(refused, Err(OutboundError::Blocked { .. })),
        "{refused:?}"
    );
    // One lookup: the checked address is the one that would be connected to.
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1);
    assert!(peer.received().is_empty());
}

#[tokio::test]
async fn connects_only_to_allowed_addresses_of_a_name() {
    struct Both;
    impl DnsLookup for Both {
        fn lookup(&self, _name: &str) -> LookupFuture {
            let addresses = ["169.254.169.254", "127.0.0.1"].map(|a| a.parse().unwrap());
            Box::pin(async move { Ok(addresses.to_vec()) })
        }
    }
    let peer = Peer::start(|_| async { status(200) }).await;
    let port = peer.url.rsplit(':').next().unwrap();
    let policy = OutboundPolicy {
        allow_private_networks: true,
        ..OutboundPolicy::default()
    };
    let outbound = Outbound::with_lookup(policy, Arc::new(Both)).unwrap();
    let url = format!("http://mixed.example:{port}/");
    assert_eq!(get(&outbound, &url).await, Ok(200));
}

#[tokio::test]
async fn allowed_host_is_reached_at_its_port_only() {
    let peer = Peer::start(|_| async { status(200) }).await;
    let port = peer.url.rsplit(':').next().unwrap();
    let policy = OutboundPolicy {
        allow_hosts: vec![format!("*.internal.example:{port}")],
        ..OutboundPolicy::default()
    };
    let outbound = Outbound::with_lookup(policy, Arc::new(Inside)).unwrap();
    let url = format!("http://docs.internal.example:{port}/");
    assert_eq!(get(&outbound, &url).await, Ok(200));
    for url in [
        format!("http://internal.example:{port}/"),
        format!("http://docs.internal.example.evil.example:{port}/"),
        "http://docs.internal.example:8081/".to_owned(),
    ] {
        let refused = get(&outbound, &url).await;
        assert!(
            matches!(refused, Err(OutboundError::Blocked { .. })),
            "{url}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn redirects_are_checked_for_every_kind() {
    for target in [
        "http://169.254.169.254/latest/",
        "http://[::1]/",
        "http://0x7f.2/",
        "file:///etc/passwd",
    ] {
        let peer = Peer::start(move |_| async move { redirect(307, target) }).await;
        let policy = OutboundPolicy {
            allow_hosts: vec![peer.url.trim_start_matches("http://").to_owned()],
            ..OutboundPolicy::default()
        };
        let outbound = Outbound::new(policy.clone()).unwrap();
        let refused = get(&outbound, &peer.url).await;
        assert!(
            matches!(refused, Err(OutboundError::Blocked { .. })),
            "{target}: {refused:?}"
        );
        let bed = TestBed::with(policy, ToolLimits::default());
        let refs = json!([
            {"kind": "mcp", "name": "m", "url": peer.url},
            {"kind": "a2a", "name": "a", "agentCardUrl": peer.url},
        ]);
        let (context, tools) = bed.resolve(&refs).await;
        assert_eq!(tools[0].name, "m_unavailable");
        // MCP sends a POST, whose body is not sent to another origin; A2A fetches the card first.
        for (tool, words) in tools
            .iter()
            .zip(["redirect not followed", "outbound policy"])
        {
            let outcome = bed.call(&context, tool, json!({"message": "hi"})).await;
            assert!(
                outcome.content.contains(words),
                "{target}: {}",
                outcome.content
            );
        }
    }
}

#[tokio::test]
async fn refuses_private_endpoints_of_a_card() {
    let inside = Peer::start(|_| async { status(200) }).await;
    let declared = inside.url.clone();
    let peer = Peer::start(move |received| {
        let card = json!({"name": "Trap", "url": declared, "protocolVersion": "0.3.0"});
        async move {
            match received.method {
                Method::GET => reply(&card),
                _ => status(404),
            }
        }
    })
    .await;
    let policy = OutboundPolicy {
        allow_hosts: vec![peer.url.trim_start_matches("http://").to_owned()],
        ..OutboundPolicy::default()
    };
    let bed = TestBed::with(policy, ToolLimits::default());
    let refs = json!([{"kind": "a2a", "name": "a", "agentCardUrl": peer.url}]);
    let (context, tools) = bed.resolve(&refs).await;
    let outcome = bed
        .call(&context, &tools[0], json!({"message": "hi"}))
        .await;
    assert!(outcome.is_error);
    assert!(
        outcome.content.contains("outbound policy"),
        "{}",
        outcome.content
    );
    assert!(inside.received().is_empty());
}
