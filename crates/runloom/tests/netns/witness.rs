//! Who was connected to. A listener hears every address, and the kernel's counters say how many connections were
//! attempted, whatever their port and whether or not somebody listened there.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::header::{CONNECTION, LOCATION};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use runloom_ports::tasks::Tasks;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::corpus::PUBLIC;

/// Everything that was connected to, in order.
pub(crate) struct Witness {
    reached: Arc<Mutex<Vec<IpAddr>>>,
    tasks: Tasks,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
    }
}

impl Witness {
    /// Listens at every address.
    pub(crate) async fn start() -> Self {
        let witness = Self {
            reached: Arc::default(),
            tasks: Tasks::default(),
        };
        assert_eq!(counters(), (0, 0), "nobody connected before");
        // Both families: the kernel hands IPv4 connections to this one, too.
        let listener = TcpListener::bind("[::]:80").await.unwrap();
        let reached = Arc::clone(&witness.reached);
        let listener = listener.tap_io(move |stream| {
            let address = stream.local_addr().unwrap().ip().to_canonical();
            reached.lock().unwrap().push(address);
        });
        let router = axum::Router::new().fallback(async |method: Method, uri: Uri| {
            let mut answer = answer(&method, uri.path());
            // One connection for each request, so that connections are what is counted.
            answer
                .headers_mut()
                .insert(CONNECTION, "close".parse().unwrap());
            answer
        });
        let shutdown = witness.tasks.shutdown.clone();
        witness.tasks.spawn("witness", async move {
            let serving = async { axum::serve(listener, router).await };
            let _ = shutdown.until_draining(serving).await;
        });
        witness
    }

    /// Where connections went so far. Fails when one was attempted that nobody heard.
    pub(crate) async fn reached(&self) -> Vec<IpAddr> {
        let (attempted, made) = counters();
        // What the kernel has accepted is on its way to the listener.
        let heard = async {
            loop {
                let reached = self.reached.lock().unwrap().clone();
                if reached.len() as u64 >= made {
                    return reached;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(10), heard).await;
        let reached = reached.unwrap();
        assert_eq!(
            attempted,
            reached.len() as u64,
            "somebody tried a port without a listener; heard were {reached:?}"
        );
        reached
    }

    /// Fails when anything but the public address was connected to; says how often that was.
    pub(crate) async fn nothing_inside(&self, what: &str) -> usize {
        let public: IpAddr = PUBLIC.parse().unwrap();
        let reached = self.reached().await;
        let inside: Vec<_> = reached.iter().filter(|at| **at != public).collect();
        assert!(inside.is_empty(), "{what} reached {inside:?}");
        reached.len()
    }
}

/// Connections that this network's kernel tried to make, and those it accepted.
fn counters() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let of = |wanted: &str| {
        let at = names.split(' ').position(|name| name == wanted).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    };
    (of("ActiveOpens"), of("PassiveOpens"))
}

/// A URL of the attackers' server that redirects.
pub(crate) fn redirecting(status: u16, to: &str) -> String {
    format!("http://{PUBLIC}/redirect/{status}/{}", hidden(to))
}

/// A URL of the attackers' server with an agent card of this shape that declares an endpoint.
pub(crate) fn declaring(shape: &str, endpoint: &str) -> String {
    format!("http://{PUBLIC}/card/{shape}/{}", hidden(endpoint))
}

/// The shapes of cards, one for each place in which an endpoint can stand.
pub(crate) const CARDS: &[&str] = &["url", "additional", "supported-rpc", "supported-rest"];

fn hidden(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn found(hex: &str) -> Option<String> {
    let digits = hex.as_bytes().chunks(2).map(str::from_utf8);
    let bytes = digits.map(|two| u8::from_str_radix(two.ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn answer(method: &Method, path: &str) -> Response {
    let parts: Vec<&str> = path.split('/').skip(1).take(3).collect();
    let [what, how, hex] = parts[..] else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match (what, found(hex)) {
        ("redirect", Some(to)) => {
            let status = StatusCode::from_bytes(how.as_bytes()).unwrap();
            (status, [(LOCATION, to)]).into_response()
        }
        ("card", Some(to)) if *method == Method::GET => axum::Json(card(how, &to)).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn card(shape: &str, url: &str) -> Value {
    let interface = |binding: &str| json!([{"url": url, "protocolBinding": binding, "transport": binding, "protocolVersion": "1.0"}]);
    match shape {
        "url" => json!({"name": "Trap", "protocolVersion": "0.3.0", "url": url}),
        "additional" => {
            json!({"name": "Trap", "protocolVersion": "0.3.0", "additionalInterfaces": interface("HTTP+JSON")})
        }
        "supported-rpc" => json!({"name": "Trap", "supportedInterfaces": interface("JSONRPC")}),
        _ => json!({"name": "Trap", "supportedInterfaces": interface("HTTP+JSON")}),
    }
}
