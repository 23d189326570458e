//! A server whose provider is reached over TLS, and runs of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificate::Certificate;
use crate::http::Api;
use crate::nginx::Nginx;
use crate::provider::{Behaviour, Provider};
use crate::server::{Server, settings};
use crate::sse::{Frame, replay};

/// Everything that a test needs. Fields are dropped in this order.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) nginx: Nginx,
    pub(crate) provider: Provider,
    _folder: TempDir,
}

impl Setup {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(more: &[(String, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::create(folder.path());
        let provider = Provider::start();
        let nginx = Nginx::start(folder.path(), &certificate, provider.address);
        let mut all = settings([
            ("SSL_CERT_FILE", certificate.authority.to_str().unwrap()),
            ("RUNLOOM_RUNS__MAX_CONCURRENT", "5000"),
            ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "1000000"),
            ("RUNLOOM_LIMITS__LIFECYCLE_PER_MINUTE", "1000000"),
            ("RUNLOOM_LIMITS__READS_PER_MINUTE", "1000000"),
        ]);
        all.extend_from_slice(more);
        let server = Server::dev(folder.path(), &all);
        let setup = Self {
            server,
            nginx,
            provider,
            _folder: folder,
        };
        setup.use_provider_at(setup.nginx.address);
        setup
    }

    /// Sends the runs that follow to this address.
    pub(crate) fn use_provider_at(&self, address: SocketAddr) {
        let models = Behaviour::ALL.map(|behaviour| json!({"id": behaviour.model()}));
        let provider = json!({
            "kind": "openai-compatible",
            "baseUrl": format!("https://{address}"),
            "models": models
        });
        let path = "/api/admin/v1/workspaces/demo/providers/tls";
        let made = self.server.admin("PUT", path, &provider);
        assert!(made.status < 300, "{made:?}");
    }

    pub(crate) fn api(&self) -> Api {
        self.server.api()
    }
}

/// Starts a run, with a prompt of its own, whose model behaves so; gives its id.
pub(crate) fn start_run(api: &Api, behaviour: Behaviour) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let prompt = format!("Prompt {}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let model = format!("provider:tls:{}", behaviour.model());
    api.run(&json!({"systemPrompt": "s", "modelId": model, "prompt": prompt}))
}

/// The last event of a run, which must end.
pub(crate) fn wait_for_end(api: &Api, run: &str) -> End {
    let last = replay(api, run).unwrap().pop().unwrap();
    assert!(last.is_terminal(), "{}", last.json());
    End(last)
}

/// The terminal event of a run.
pub(crate) struct End(Frame);

impl End {
    pub(crate) fn kind(&self) -> &str {
        self.0.kind()
    }

    pub(crate) fn data(&self) -> Value {
        self.0.data()
    }

    pub(crate) fn assert_succeeded(&self) {
        assert_eq!(self.kind(), "result", "{}", self.data());
    }
}
